//! The run's own scheduler: tasks that are due later, once or again and again.
//!
//! A task that is due runs as an agent does: in turn with all others, on a copy of the program's values as they are then. It
//! has the grants of the place that scheduled it. The program's last line is not its end while something is scheduled.
//!
//! Invariant: each entry runs once at a time; what comes due meanwhile is skipped and counted.
//! Invariant: the entries of a program that failed or said `exit`, in a scheduled task or elsewhere, are dropped, and so are those of a `test` block at its end.

use super::agents::Outcome;
use super::frame::Ret;
use super::machine::Machine;
use super::trap::{Fault, raised};
use super::value::Value;
use crate::partition::Core;
use crate::partition::gate::Gate;
use std::collections::BTreeMap;

/// Entries of one program.
const MOST_ENTRIES: usize = 256;
/// Errors that are kept for the end.
const MOST_FAILURES: usize = 100;
/// Seconds that the end of a program sleeps before it looks again whether it should go on.
const MOST_ASLEEP: f64 = 0.1;

/// How often an entry runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Often {
    /// Once.
    Once,
    /// Until it is cancelled.
    Always,
    /// So often, from now on.
    Times(u64),
}

struct Entry {
    task: Value,
    gate: Gate,
    often: Often,
    seconds: f64,
    due: f64,
    active: bool,
    runs: u64,
    skipped: u64,
    error: Option<Value>,
}

/// What is scheduled.
#[derive(Default)]
pub(crate) struct Schedule {
    entries: BTreeMap<u64, Entry>,
    last: u64,
    failures: Vec<(String, String)>,
}

/// A task that was due.
pub(crate) struct Firing {
    entry: u64,
    machine: Box<Machine>,
}

fn name(id: u64) -> String {
    format!("cron_{id}")
}

fn number(name: &str) -> Option<u64> {
    name.strip_prefix("cron_").and_then(|id| id.parse().ok())
}

impl Entry {
    fn tell(&self, id: u64, now: f64) -> Value {
        let count = |n: u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        Value::record([
            ("id", Value::string(name(id))),
            ("kind", Value::text(if self.often == Often::Once { "after" } else { "every" })),
            ("state", Value::text(if self.active { "running" } else { "waiting" })),
            ("seconds", Value::Float(self.seconds)),
            ("due_in", Value::Float((self.due - now).max(0.0))),
            ("runs", count(self.runs)),
            ("skipped", count(self.skipped)),
            ("error", self.error.clone().unwrap_or_default()),
        ])
    }

    /// Its time has come: when it is due again, and how many times were missed.
    fn passed(&mut self, now: f64) -> u64 {
        let missed = ((now - self.due) / self.seconds).floor().max(0.0);
        self.due += (missed + 1.0) * self.seconds;
        missed as u64
    }
}

impl Schedule {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn has_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Those that are due and don't run yet.
    fn due(&mut self, now: f64) -> Vec<(u64, Value, Gate)> {
        let mut due = Vec::new();
        for (id, entry) in self.entries.iter_mut().filter(|(_, entry)| now >= entry.due) {
            if entry.often == Often::Once {
                if !entry.active {
                    entry.active = true;
                    due.push((*id, entry.task.clone(), entry.gate.clone()));
                }
                continue;
            }
            let missed = entry.passed(now);
            entry.skipped += missed + u64::from(entry.active);
            if !entry.active {
                entry.active = true;
                due.push((*id, entry.task.clone(), entry.gate.clone()));
            }
        }
        due
    }

    fn ended(&mut self, id: u64, error: Option<String>) {
        if let Some(error) = &error
            && self.failures.len() < MOST_FAILURES
        {
            self.failures.push((name(id), error.clone()));
        }
        let Some(entry) = self.entries.get_mut(&id) else { return };
        entry.active = false;
        entry.runs += 1;
        entry.error = error.map(Value::string);
        let over = match entry.often {
            Often::Once => true,
            Often::Always => false,
            Often::Times(times) => entry.runs >= times,
        };
        if over {
            self.entries.remove(&id);
        }
    }

    fn next_due(&self) -> Option<f64> {
        let waiting = self.entries.values().filter(|entry| !entry.active);
        waiting.map(|entry| entry.due).min_by(f64::total_cmp)
    }
}

impl Core {
    /// Adds an entry; gives its name.
    pub(crate) fn schedule(&mut self, task: Value, seconds: f64, often: Often) -> Result<String, Fault> {
        let due = self.host.now() + seconds;
        let gate = self.gate.worker();
        let schedule = &mut self.shared.borrow_mut().schedule;
        if schedule.entries.len() >= MOST_ENTRIES {
            return Err(raised(format!("too many scheduled tasks ({MOST_ENTRIES}): cancel some")));
        }
        let id = schedule.last;
        schedule.last += 1;
        let entry =
            Entry { task, gate, often, seconds, due, active: false, runs: 0, skipped: 0, error: None };
        schedule.entries.insert(id, entry);
        Ok(name(id))
    }

    /// Drops an entry; what of it runs goes on to its end. `false` if there is none.
    pub(crate) fn unschedule(&mut self, name: &str) -> bool {
        let schedule = &mut self.shared.borrow_mut().schedule;
        number(name).and_then(|id| schedule.entries.remove(&id)).is_some()
    }

    /// What is scheduled.
    pub(crate) fn scheduled(&mut self) -> Vec<Value> {
        let now = self.host.now();
        self.shared.borrow().schedule.entries.iter().map(|(id, entry)| entry.tell(*id, now)).collect()
    }

    /// One entry; `nothing` once it has ended.
    pub(crate) fn scheduled_as(&mut self, name: &str) -> Value {
        let now = self.host.now();
        let board = self.shared.borrow();
        let found = number(name).and_then(|id| board.schedule.entries.get(&id).map(|entry| (id, entry)));
        found.map_or(Value::Nothing, |(id, entry)| entry.tell(id, now))
    }
}

impl Machine {
    /// Starts what is due and lets it go on; gives whether anything moved.
    pub(crate) fn run_due(&mut self) -> bool {
        if self.core.is_agent || (self.core.shared.borrow().schedule.is_empty() && self.firings.is_empty()) {
            return false;
        }
        let now = self.core.host.now();
        let due = self.core.shared.borrow_mut().schedule.due(now);
        let mut moved = !due.is_empty();
        for (entry, task, gate) in due {
            match self.fire(task, gate) {
                Ok(machine) => self.firings.push(Firing { entry, machine }),
                Err(fault) => {
                    let why = Outcome::of(*fault);
                    self.core.shared.borrow_mut().schedule.ended(entry, why);
                }
            }
        }
        for Firing { entry, machine } in std::mem::take(&mut self.firings) {
            let (went, outcome) = self.turn_of(machine);
            moved |= went;
            match outcome {
                Outcome::Goes(machine) => self.firings.push(Firing { entry, machine }),
                Outcome::Over(error) => {
                    moved = true;
                    self.core.shared.borrow_mut().schedule.ended(entry, error);
                }
                Outcome::Exits(code) => self.exiting = Some(code),
            }
        }
        if self.exiting.is_some() {
            self.unschedule_all();
            return true;
        }
        moved
    }

    fn fire(&mut self, task: Value, gate: Gate) -> Result<Box<Machine>, Fault> {
        let Some(core) = self.core.fork(Some(gate)) else {
            return Err(raised("nothing can be scheduled here"));
        };
        let mut machine = Box::new(Machine::new(core));
        machine.room(0);
        machine.call(task, 0, 0, Ret::Top, false)?;
        Ok(machine)
    }

    /// Whether something is scheduled or still runs.
    pub(crate) fn has_scheduled(&self) -> bool {
        !self.firings.is_empty() || !self.core.shared.borrow().schedule.is_empty()
    }

    /// Sleeps until something is due, if nothing runs.
    pub(crate) fn sleep_until_due(&mut self) {
        let due = self.core.shared.borrow().schedule.next_due();
        let now = self.core.host.now();
        if let Some(due) = due.filter(|due| self.firings.is_empty() && *due > now) {
            self.core.host.flush();
            self.core.host.sleep((due - now).min(MOST_ASLEEP));
        }
    }

    /// Drops what is scheduled.
    pub(crate) fn unschedule_all(&mut self) {
        self.firings.clear();
        self.core.shared.borrow_mut().schedule.clear();
    }

    /// Names and errors of scheduled tasks that failed.
    pub(crate) fn scheduled_failures(&self) -> Vec<(String, String)> {
        self.core.shared.borrow().schedule.failures.clone()
    }
}
