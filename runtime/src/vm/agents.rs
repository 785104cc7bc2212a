//! Agents: machines of their own, run in turn on the program's thread.
//!
//! An agent has a copy of the entry program's tasks and values, its own gate and no way to the others but the
//! blackboard and the channels. It runs until it waits or ends; while one waits the others go on.

use super::machine::Machine;
use super::other::{Other, Secret};
use super::render;
use super::trap::{Fault, Stop, raised};
use super::value::{Key, Value};
use crate::partition::{Core, Logs};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// The blackboard and the channels of a program.
#[derive(Default)]
pub struct Board {
    values: BTreeMap<String, Value>,
    channels: BTreeMap<String, VecDeque<Value>>,
    spawned: usize,
    alive: usize,
}

/// One handle for all agents of a program.
pub(crate) type Shared = Rc<RefCell<Board>>;

/// A started agent.
pub(crate) struct Agent {
    pub(crate) id: String,
    pub(crate) name: Rc<str>,
    /// `None` once it has ended.
    machine: Option<Box<Machine>>,
    pub(crate) error: Option<String>,
    pub(crate) started: f64,
    pub(crate) finished: Option<f64>,
    pub(crate) stopped: bool,
}

impl Agent {
    pub(crate) fn state(&self) -> &'static str {
        match (&self.machine, &self.error) {
            (Some(_), _) => "running",
            (None, Some(_)) => "error",
            (None, None) if self.stopped => "stopped",
            (None, None) => "completed",
        }
    }
}

/// Seconds that `wait_for` waits without a `timeout`.
const DEFAULT_WAIT: f64 = 30.0;

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
        let dead = {
            let board = self.shared.borrow();
            !self.is_agent && board.spawned > 0 && board.alive == 0
        };
        if now >= deadline || dead {
            self.deadline = None;
            return Ok(Some(Value::Nothing));
        }
        Ok(None)
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

impl Machine {
    /// Starts an agent.
    pub(crate) fn spawn(&mut self, name: &Rc<str>, arguments: Value) -> Result<(), Fault> {
        let found = self.core.program.agents.iter().find(|(n, _)| n == name).map(|(_, proto)| *proto);
        let Some(proto) = found else {
            return Err(raised(format!("No agent defined with name '{name}'")));
        };
        if self.agents.len() >= 1000 {
            return Err(raised("too many agents (1000)"));
        }
        let Some(core) = self.core.fork() else {
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
        let id = format!("{name}_{}", self.agents.iter().filter(|a| a.name == *name).count());
        {
            let mut board = self.core.shared.borrow_mut();
            board.spawned += 1;
            board.alive += 1;
        }
        let started = self.core.host.now();
        self.agents.push(Agent {
            id,
            name: name.clone(),
            machine: Some(Box::new(machine)),
            error: None,
            started,
            finished: None,
            stopped: false,
        });
        Ok(())
    }

    /// Lets every agent that can go on do so; gives whether one did.
    pub(crate) fn run_agents(&mut self) -> bool {
        let mut moved = false;
        let mut i = 0;
        while i < self.agents.len() {
            if let Some(mut machine) = self.agents[i].machine.take() {
                machine.core.fuel = self.core.fuel;
                let before = machine.core.fuel;
                machine.waiting = false;
                let outcome = machine.run_until_wait();
                self.core.fuel -= before - machine.core.fuel;
                moved |= before != machine.core.fuel;
                let new = std::mem::take(&mut machine.agents);
                let over = match outcome {
                    Ok(true) => {
                        self.agents[i].machine = Some(machine);
                        None
                    }
                    Ok(false) => Some(None),
                    Err(fault) => Some(Some(match *fault {
                        Stop::Raised(error) => error.message,
                        Stop::Exit(_) => "exit() ends a program, not an agent".to_owned(),
                        Stop::Trap(trap) => format!("{} limit reached", trap.name()),
                        Stop::Cancelled(reason) => format!("cancelled: {reason}"),
                    })),
                };
                self.agents.extend(new);
                if let Some(error) = over {
                    self.core.shared.borrow_mut().alive -= 1;
                    if let Some(message) = &error {
                        let line = format!("Agent error [{}]: {message}", self.agents[i].id);
                        self.core.host.eprint(&line);
                    }
                    self.agents[i].error = error;
                    self.agents[i].finished = Some(self.core.host.now());
                    moved = true;
                }
            }
            i += 1;
        }
        moved
    }

    /// Runs the other agents while this one waits.
    pub(crate) fn pass_time(&mut self) -> Result<(), Fault> {
        self.core.check_limits()?;
        if !self.run_agents() {
            self.core.host.flush();
            self.core.host.sleep(0.005);
        }
        Ok(())
    }

    /// Runs all agents to their ends; `false` if one is in error.
    pub fn join(&mut self) -> bool {
        while self.agents.iter().any(|a| a.machine.is_some()) {
            if self.pass_time().is_err() {
                break;
            }
        }
        self.agents.iter().all(|a| a.error.is_none())
    }

    /// Names and errors of agents that failed.
    #[must_use]
    pub fn failures(&self) -> Vec<(String, String)> {
        self.agents.iter().filter_map(|a| Some((a.id.clone(), a.error.clone()?))).collect()
    }

    /// The answer of `agents()`.
    pub(crate) fn agent_list(agents: &[Agent]) -> Value {
        let optional = |n: Option<f64>| n.map_or(Value::Nothing, Value::Float);
        Value::list(
            agents
                .iter()
                .map(|a| {
                    Value::map([
                        (Key::new("id"), Value::text(&a.id)),
                        (Key::new("name"), Value::text(&a.name)),
                        (Key::new("state"), Value::text(a.state())),
                        (Key::new("error"), a.error.as_deref().map_or(Value::Nothing, Value::text)),
                        (Key::new("started_at"), Value::Float(a.started)),
                        (Key::new("finished_at"), optional(a.finished)),
                    ])
                })
                .collect(),
        )
    }
}
