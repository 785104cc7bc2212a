//! Agents: machines of their own, run in turn on the program's thread.
//!
//! An agent has a copy of the entry program's tasks and values, its own gate and no way to the others but the
//! blackboard and the channels. All take turns, the program among them: one runs until it waits, ends, or has used up a
//! slice of fuel, so the same program has the same order everywhere.

use super::machine::Machine;
use super::other::{Other, Secret};
use super::render;
use super::trap::{Fault, Stop, raised};
use super::value::{Key, Value};
use crate::partition::{Core, Logs, heap};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The blackboard, the channels and the agents of a program.
#[derive(Default)]
pub struct Board {
    values: BTreeMap<String, Value>,
    channels: BTreeMap<String, VecDeque<Value>>,
    /// By the order of their starts: the living, and the last of those that have ended.
    rows: BTreeMap<u64, Row>,
    started: u64,
    living: usize,
    failed: bool,
    /// How many of each name were started.
    names: BTreeMap<Rc<str>, u64>,
    pub(crate) schedule: super::schedule::Schedule,
    /// What families share between a program's agents (the bus, the notebook …), by the family's name.
    pub(crate) keep: BTreeMap<&'static str, Box<dyn std::any::Any>>,
}

/// What `agents()` tells of one.
struct Row {
    id: String,
    name: Rc<str>,
    error: Option<String>,
    started: f64,
    finished: Option<f64>,
    /// Somebody wants it stopped.
    stopping: bool,
}

impl Board {
    /// The answer of `agents()`.
    pub(crate) fn list(&self) -> Value {
        let row = |r: &Row| {
            let state = match (&r.error, r.finished) {
                (Some(_), _) => "error",
                (None, None) => "running",
                (None, Some(_)) if r.stopping => "stopped",
                (None, Some(_)) => "completed",
            };
            Value::record([
                ("id", Value::text(&r.id)),
                ("name", Value::text(&r.name)),
                ("state", Value::text(state)),
                ("error", r.error.as_deref().map_or(Value::Nothing, Value::text)),
                ("started_at", Value::Float(r.started)),
                ("finished_at", r.finished.map_or(Value::Nothing, Value::Float)),
            ])
        };
        Value::list(self.rows.values().map(row).collect())
    }

    /// What was shared, by its keys.
    pub(crate) fn blackboard(&self) -> Value {
        Value::map(self.values.iter().map(|(key, value)| (Key::new(key), value.clone())))
    }

    /// Asks for an agent's end; `false` if there is none of that name running.
    pub(crate) fn stop(&mut self, id: &str) -> bool {
        match self.rows.values_mut().find(|r| r.id == id && r.finished.is_none()) {
            Some(row) => {
                row.stopping = true;
                true
            }
            None => false,
        }
    }

    pub(crate) fn alive(&self) -> bool {
        self.living > 0
    }

    /// A row for a new agent.
    fn begin(&mut self, name: &Rc<str>, started: f64) -> u64 {
        let number = self.names.entry(name.clone()).or_default();
        let id = format!("{name}_{number}");
        *number += 1;
        let row = self.started;
        self.started += 1;
        self.living += 1;
        let name = name.clone();
        self.rows.insert(row, Row { id, name, error: None, started, finished: None, stopping: false });
        row
    }

    /// An agent has ended. So many rows of the ended are kept; one that failed is kept longer than one that went well.
    fn end(&mut self, row: u64, now: f64, error: Option<String>) {
        self.living -= 1;
        self.failed |= error.is_some();
        if let Some(row) = self.rows.get_mut(&row) {
            row.finished = Some(now);
            row.error = error;
        }
        if self.rows.len() - self.living > MOST_ENDED {
            let ended = || self.rows.iter().filter(|(_, r)| r.finished.is_some());
            let oldest =
                ended().find(|(_, r)| r.error.is_none()).or_else(|| ended().next()).map(|(row, _)| *row);
            oldest.and_then(|row| self.rows.remove(&row));
        }
    }
}

/// One handle for all agents of a program.
pub(crate) type Shared = Rc<RefCell<Board>>;

/// A started agent: its row on the board and, until it has ended, its machine.
pub(crate) struct Agent {
    row: u64,
    machine: Option<Box<Machine>>,
}

/// Seconds that `wait_for` waits without a `timeout`.
const DEFAULT_WAIT: f64 = 30.0;

/// Agents that live at once.
const MOST_LIVING: usize = 1000;

/// Rows of agents that have ended.
const MOST_ENDED: usize = 1000;

impl Core {
    /// `log`.
    pub(crate) fn log(&mut self, text: &str, place: (u32, u32)) -> Result<(), Fault> {
        self.check_limits()?;
        if self.gate.checks_output() {
            self.ask(policies::capability::Capability::Stdout, None, "log()", place)?;
        }
        match self.settings.logs {
            Logs::Stderr => self.host.eprint(text),
            Logs::WithOutput => self.host.print(text),
        }
        Ok(())
    }

    pub(crate) fn share(&mut self, key: String, value: &Value) {
        let plain = cross(value);
        self.shared.borrow_mut().values.insert(key, plain);
    }

    pub(crate) fn observe(&mut self, key: &str) -> Value {
        self.shared.borrow().values.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn signal(&mut self, channel: String, value: &Value) {
        let plain = cross(value);
        self.shared.borrow_mut().channels.entry(channel).or_default().push_back(plain);
    }

    /// The next value of a channel; `None`: go on waiting.
    pub(crate) fn wait(&mut self, channel: &str, timeout: &Value) -> Result<Option<Value>, Fault> {
        let next = self.shared.borrow_mut().channels.get_mut(channel).and_then(VecDeque::pop_front);
        if let Some(value) = next {
            self.deadline = None;
            return Ok(Some(value));
        }
        let seconds = match timeout {
            Value::Nothing => DEFAULT_WAIT,
            Value::Int(n) => *n as f64,
            Value::Float(f) => *f,
            other => {
                return Err(raised(format!(
                    "wait_for: timeout must be a number, got {}",
                    render::inside(other)
                )));
            }
        };
        if !(0.0..=3600.0).contains(&seconds) {
            return Err(raised("wait_for: timeout must be from 0 to 3600 seconds"));
        }
        let now = self.host.now();
        let deadline = *self.deadline.get_or_insert(now + seconds);
        let dead = self.nobody_left();
        if now >= deadline || dead {
            self.deadline = None;
            return Ok(Some(Value::Nothing));
        }
        Ok(None)
    }

    /// Whether agents were started, all have ended, and this is the program that started them.
    pub(crate) fn nobody_left(&self) -> bool {
        let board = self.shared.borrow();
        !self.is_agent && !board.rows.is_empty() && !board.alive() && board.schedule.is_empty()
    }

    /// Whether no other part of the program could do anything while this one waits.
    pub(crate) fn is_alone(&self) -> bool {
        let board = self.shared.borrow();
        !self.is_agent && !board.alive() && board.schedule.is_empty()
    }
}

/// A value on its way to another agent: secrets and tasks arrive as text.
pub(crate) fn cross(value: &Value) -> Value {
    cross_to(value, 0)
}

fn cross_to(value: &Value, depth: u32) -> Value {
    if depth > 200 {
        return Value::text("…");
    }
    // A copy shares nothing: what was one part may become many.
    if !heap::work(1) || heap::over() {
        return Value::Nothing;
    }
    match value {
        Value::Task(_) | Value::Cell(_) => Value::string(render::display(value)),
        Value::List(l) if l.items().iter().any(Value::is_container) => {
            Value::list(l.items().iter().map(|v| cross_to(v, depth + 1)).collect())
        }
        Value::Map(m) => Value::map(m.entries().map(|(k, v)| (k.clone(), cross_to(v, depth + 1)))),
        Value::Other(o) => match &o.inner {
            Other::Secret(Secret { .. }) => Value::string(render::display(value)),
            _ => value.clone(),
        },
        other => other.clone(),
    }
}

/// How far another machine of the program has come.
pub(crate) enum Outcome {
    /// It goes on.
    Goes(Box<Machine>),
    /// It has ended, with an error or without.
    Over(Option<String>),
    /// It said `exit`.
    Exits(i32),
}

const NO_EXIT: &str = "exit() ends a program, not an agent";

/// How all that ran beside the program has ended.
pub(crate) struct Joined {
    /// Nothing is in error.
    pub(crate) well: bool,
    /// The code of a scheduled task that said `exit`.
    pub(crate) exit: Option<i32>,
}

impl Outcome {
    /// An end as it is told.
    pub(crate) fn of(stop: Stop) -> Option<String> {
        Some(match stop {
            Stop::Raised(error) => error.message,
            Stop::Exit(_) => NO_EXIT.to_owned(),
            Stop::Trap(trap) => format!("{} limit reached", trap.name()),
            Stop::Wait => "it waits".to_owned(),
            Stop::Cancelled(reason) => format!("cancelled: {reason}"),
        })
    }
}

impl Machine {
    /// Starts an agent.
    pub(crate) fn spawn(&mut self, name: &Rc<str>, arguments: Value) -> Result<(), Fault> {
        // In a conversation a later one replaces an earlier one of the same name.
        let found = self.core.program.agents.iter().rfind(|(n, _)| n == name).map(|(_, proto)| *proto);
        let Some(proto) = found else {
            return Err(raised(format!("No agent defined with name '{name}'")));
        };
        if self.core.shared.borrow().living >= MOST_LIVING {
            return Err(raised(format!("too many agents ({MOST_LIVING} live at once)")));
        }
        let Some(core) = self.core.fork(None) else {
            return Err(raised("agents can't be started here"));
        };
        let mut machine = Machine::new(core);
        machine.core.name_prefix = Some(format!("[{name}] "));
        machine.start(proto);
        let params = machine.core.program.protos[proto as usize].params.clone();
        for (i, param) in params.iter().enumerate() {
            let given = match &arguments {
                Value::Map(map) => map.get(param).map(cross),
                _ => None,
            };
            machine.stack[i] = given.unwrap_or(Value::Unbound);
        }
        if let Value::Map(map) = &arguments {
            // An agent that was written in an earlier entry of a conversation has names for what it is given, not parameters.
            for (key, value) in map.entries().filter(|(key, _)| params.iter().all(|p| key.as_str() != &**p)) {
                let global = machine.core.program.globals.iter().position(|n| **n == *key.as_str());
                if let Some(slot) = global {
                    machine.core.globals[slot] = cross(value);
                }
            }
        }
        let started = self.core.host.now();
        let row = self.core.shared.borrow_mut().begin(name, started);
        self.agents.push(Agent { row, machine: Some(Box::new(machine)) });
        Ok(())
    }

    /// Lets every agent that can go on do so; gives whether one did.
    pub(crate) fn run_agents(&mut self) -> bool {
        let mut moved = self.run_due();
        let mut i = 0;
        while i < self.agents.len() {
            let row = self.agents[i].row;
            let stopping = self.core.shared.borrow().rows.get(&row).is_some_and(|r| r.stopping);
            if stopping && self.agents[i].machine.take().is_some() {
                self.finished(row, None);
                moved = true;
            }
            if let Some(machine) = self.agents[i].machine.take() {
                let (went, outcome) = self.turn_of(machine);
                moved |= went;
                match outcome {
                    Outcome::Goes(machine) => self.agents[i].machine = Some(machine),
                    Outcome::Over(error) => {
                        self.finished(row, error);
                        moved = true;
                    }
                    Outcome::Exits(_) => {
                        self.finished(row, Some(NO_EXIT.to_owned()));
                        moved = true;
                    }
                }
            }
            i += 1;
        }
        self.agents.retain(|agent| agent.machine.is_some());
        moved
    }

    /// Lets another machine of the program go on with its fuel; gives whether it used any.
    pub(crate) fn turn_of(&mut self, mut machine: Box<Machine>) -> (bool, Outcome) {
        machine.core.fuel = self.core.fuel;
        machine.core.next_look();
        let before = machine.core.fuel;
        machine.waiting = false;
        let outcome = machine.run_until_wait();
        self.core.fuel -= before - machine.core.fuel;
        let moved = before != machine.core.fuel;
        machine.core.yielded = false;
        self.agents.extend(std::mem::take(&mut machine.agents));
        let outcome = match outcome {
            Ok(true) => Outcome::Goes(machine),
            Ok(false) => Outcome::Over(None),
            Err(fault) => match *fault {
                Stop::Exit(code) => Outcome::Exits(code),
                stop => Outcome::Over(Outcome::of(stop)),
            },
        };
        (moved, outcome)
    }

    fn finished(&mut self, row: u64, error: Option<String>) {
        let now = self.core.host.now();
        self.core.shared.borrow_mut().end(row, now, error);
    }

    /// Runs the other agents while this one waits, or because its slice is over.
    pub(crate) fn pass_time(&mut self) -> Result<(), Fault> {
        self.core.check_limits()?;
        let yielded = std::mem::take(&mut self.core.yielded);
        let moved = self.run_agents();
        self.core.next_look();
        if let Some(code) = self.exiting.take() {
            return Err(Box::new(Stop::Exit(code)));
        }
        if !moved && !yielded {
            self.core.host.flush();
            self.core.host.sleep(0.005);
        }
        self.core.interruption()
    }

    /// Runs all agents to their ends, and what is scheduled.
    pub(crate) fn join(&mut self) -> Joined {
        let mut exit = None;
        loop {
            let agents = self.agents.iter().any(|a| a.machine.is_some());
            if !agents && !self.has_scheduled() {
                break;
            }
            if !agents {
                self.sleep_until_due();
            }
            match self.pass_time() {
                Ok(()) => {}
                Err(fault) => match *fault {
                    Stop::Exit(code) => exit = Some(code),
                    _ => break,
                },
            }
        }
        let board = self.core.shared.borrow();
        Joined { well: !board.failed && !board.schedule.has_failed(), exit }
    }

    /// Ends what is left of the agents: the next `test` block starts without any.
    pub(crate) fn forget_agents(&mut self) {
        self.agents.clear();
        self.firings.clear();
        *self.core.shared.borrow_mut() = Board::default();
    }

    /// Names and errors of agents that failed.
    #[must_use]
    pub fn failures(&self) -> Vec<(String, String)> {
        let board = self.core.shared.borrow();
        board.rows.values().filter_map(|r| Some((r.id.clone(), r.error.clone()?))).collect()
    }
}
