//! A partition inside another one: a fresh heap and fresh globals, its own fuel and memory, and nothing held.
//!
//! Invariant: no option widens it. What goes in and comes out is [`Data`]; all of it is gone when it is dropped.

use super::boundary::{Data, HostFunction};
use super::exact::Terms;
use super::gate::Gate;
use super::heap::Meter;
use super::host::Host;
use super::{Core, Entered};
use crate::bytecode::{EntryPoint, Program};
use crate::vm::Machine;
use crate::vm::strict;
use crate::vm::tasks::Ended;
use crate::vm::trap::{Elsewhere, Fault, Origin, Stop, Trap};
use crate::vm::value::Value;
use std::cell::Cell;
use std::rc::Rc;

/// Sandboxes of one program that live at once.
pub(crate) const MOST: usize = 1024;

/// Limits of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// What errors call it: 1 to 64 bytes.
    pub name: Rc<str>,
    /// Fuel of one turn.
    pub fuel: u64,
    /// Bytes of heap at any moment.
    pub memory: u64,
    /// Bytes of source.
    pub source: usize,
    /// Functions in the source, its top level included.
    pub prototypes: u32,
    /// Containers inside one another in a value that crosses.
    pub depth: usize,
    /// Call frames.
    pub calls: usize,
}

impl Limits {
    /// For code that is called on every frame.
    #[must_use]
    pub fn frame(name: &str) -> Self {
        Self {
            name: name.into(),
            fuel: 100_000,
            memory: 1 << 20,
            source: 65_536,
            prototypes: 256,
            depth: 64,
            calls: 200,
        }
    }
}

/// Why a sandbox failed: the four fields of every error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} line {line}: {message}")]
pub struct Failure {
    /// One of the seven kinds.
    pub kind: &'static str,
    /// The sandbox's name.
    pub name: Rc<str>,
    /// The line in its source, 0 if there is no one line.
    pub line: i64,
    /// One line.
    pub message: String,
}

impl Failure {
    /// As whoever asks the sandbox meets it.
    pub(crate) fn fault(&self) -> Fault {
        let elsewhere = Some(Elsewhere { name: self.name.clone(), line: self.line, actor: None });
        crate::vm::trap::from(Origin { kind: self.kind.into(), elsewhere }, self.message.clone())
    }
}

/// A turn's outcome.
pub(crate) struct Outcome {
    pub(crate) reply: Option<Data>,
    pub(crate) failure: Option<Failure>,
}

/// What the sandboxes of one program use together.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    count: Cell<usize>,
    bytes: Cell<i64>,
    /// Fuel between two looks, if the host wants another than the usual.
    slice: Cell<Option<i64>>,
}

impl Alive {
    /// Sandboxes that are neither stopped nor dead.
    pub(crate) fn count(&self) -> usize {
        self.count.get()
    }

    /// Bytes of their heaps, their sources and the messages that wait for them.
    pub(crate) fn bytes(&self) -> i64 {
        self.bytes.get()
    }

    pub(crate) fn set_slice(&self, fuel: i64) {
        self.slice.set(Some(fuel));
    }

    pub(crate) fn use_more(&self, bytes: i64) {
        self.bytes.set(self.bytes.get() + bytes);
    }
}

/// What a sandbox has of the outside: nothing.
struct Nowhere;

impl Host for Nowhere {
    fn print(&mut self, _text: &str) {}
    fn eprint(&mut self, _text: &str) {}
    fn audit(&mut self, _entry: policies::audit::Entry) {}
}

/// A sandbox.
pub(crate) struct Sandbox {
    machine: Option<Machine>,
    meter: Option<Meter>,
    limits: Limits,
    entry: EntryPoint,
    state: Value,
    alive: Rc<Alive>,
    /// Bytes of its source.
    source: i64,
    /// What it has added to the bytes of `alive`.
    counted: i64,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.alive.count.set(self.alive.count().saturating_sub(1));
        self.alive.use_more(-self.counted);
        self.inside(|sandbox| {
            drop(std::mem::take(&mut sandbox.state));
            drop(sandbox.machine.take());
        });
    }
}

impl Sandbox {
    /// A partition for a compiled source; nothing has run.
    pub(crate) fn new(
        program: Rc<Program>,
        entry: EntryPoint,
        limits: Limits,
        hosts: Rc<[HostFunction]>,
        alive: Rc<Alive>,
    ) -> Self {
        let source = program.sources.first().map_or(0, |source| source.text.len() as i64);
        let memory = i64::try_from(limits.memory).unwrap_or(i64::MAX);
        let terms = Terms {
            name: limits.name.clone(),
            memory,
            calls: limits.calls,
            depth: limits.depth,
            sandbox: true,
        };
        let mut core = Core::exact(program, terms, Some(limits.fuel), Gate::closed(), Box::new(Nowhere));
        core.exact.hosts = hosts;
        core.slice = alive.slice.get().unwrap_or(core.slice);
        alive.count.set(alive.count() + 1);
        alive.use_more(source);
        Self {
            machine: Some(Machine::new(core)),
            meter: Some(Meter::new(None)),
            limits,
            entry,
            state: Value::Nothing,
            alive,
            source,
            counted: source,
        }
    }

    pub(crate) fn name(&self) -> Rc<str> {
        self.limits.name.clone()
    }

    pub(crate) fn depth(&self) -> usize {
        self.limits.depth
    }

    pub(crate) fn memory(&self) -> i64 {
        i64::try_from(self.limits.memory).unwrap_or(i64::MAX)
    }

    /// With the sandbox's own meter.
    fn inside<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let entered = Entered::new(self.meter.unwrap_or_else(|| Meter::new(None)));
        let result = act(self);
        self.meter = Some(entered.leave());
        result
    }

    /// Counts what it holds now.
    fn recount(&mut self) {
        let now = self.source + self.meter.map_or(0, Meter::live);
        self.alive.use_more(now - self.counted);
        self.counted = now;
    }

    /// Bytes of heap that the program around it has for it.
    fn room(&self, outer: &mut Core) -> Result<i64, Fault> {
        outer.count_sandboxes()?;
        let own = self.counted - self.source;
        if outer.exact.left() + own < self.memory() {
            // Only what really lives there is in the way.
            outer.collect(0)?;
        }
        Ok(outer.exact.left() + own)
    }

    /// Gives the sandbox a turn's fuel, runs it, and charges the program around it for what was used.
    fn turn<T>(
        &mut self,
        mut outer: Option<&mut Core>,
        act: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<Result<T, Failure>, Fault> {
        let limit = self.limits.fuel;
        let left =
            outer.as_ref().filter(|core| core.exact.fuel.is_some()).map(|core| core.fuel.max(0) as u64);
        let budget = left.map_or(limit, |left| left.min(limit));
        let room = match &mut outer {
            Some(outer) => self.room(outer)?,
            None => i64::MAX,
        };
        if let Some(machine) = &mut self.machine {
            machine.core.refuel(budget);
            machine.core.exact.set_room(room);
        }
        let result = self.inside(act);
        self.recount();
        // A charge larger than what was left has paid for nothing: no more was used than its own limit.
        let used = budget as i64 - self.machine.as_ref().map_or(0, |m| m.core.fuel);
        let used = used.min(i64::try_from(limit).unwrap_or(i64::MAX));
        let Some(outer) = outer else { return Ok(result) };
        if left.is_some() {
            outer.charge(used.max(0) as u64)?;
        }
        if self.machine.as_ref().is_some_and(|machine| machine.core.exact.crowded) {
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        outer.count_sandboxes()?;
        Ok(result)
    }

    fn place(&self) -> (u32, u32) {
        (0, self.entry.at)
    }

    fn failure(&self, fault: &Fault) -> Failure {
        let name = self.limits.name.clone();
        let core = self.machine.as_ref().map(|machine| &machine.core);
        let line = core.map_or(0, |core| strict::line_of(core, core.exact.stopped));
        match &**fault {
            Stop::Raised(error) => {
                let described = core.map(|core| strict::describe(core, error));
                let (line, message) = described.map_or((0, String::new()), |d| (d.line, d.message));
                Failure { kind: "faulted", name, line, message }
            }
            Stop::Trap(Trap::Memory) => Failure {
                kind: "out_of_memory",
                name,
                line,
                message: format!("ran out of memory (limit {} bytes)", self.limits.memory),
            },
            _ => Failure {
                kind: "out_of_fuel",
                name,
                line,
                message: format!("ran out of fuel (limit {})", self.limits.fuel),
            },
        }
    }

    fn ended(&self, ended: Ended) -> Result<Value, Failure> {
        match ended {
            Ended::Done(value) => Ok(value),
            Ended::Stopped(fault) => Err(self.failure(&fault)),
        }
    }

    fn top(&mut self) -> Result<(), Failure> {
        let Some(machine) = &mut self.machine else { return Ok(()) };
        let top = machine.core.top();
        let ended = machine.run_turn(top, Vec::new(), (0, 0));
        self.ended(ended).map(drop)
    }

    fn entry(&self) -> Value {
        let core = self.machine.as_ref().map(|machine| &machine.core);
        core.and_then(|core| core.globals.get(self.entry.global as usize)).cloned().unwrap_or_default()
    }

    /// A value from outside, when it comes to it; what doesn't fit fails at the entry.
    fn brought(&mut self, data: &Data) -> Result<Value, Failure> {
        let place = self.place();
        let Some(machine) = &mut self.machine else { return Ok(Value::Nothing) };
        match machine.core.import(data) {
            Ok(value) => Ok(value),
            Err(fault) => {
                machine.core.exact.stopped = place;
                Err(self.failure(&fault))
            }
        }
    }

    /// Runs the top level, then `main`, and gives its answer.
    pub(crate) fn run(
        &mut self,
        outer: Option<&mut Core>,
        input: &Data,
    ) -> Result<Result<Data, Failure>, Fault> {
        self.turn(outer, |sandbox| {
            sandbox.top()?;
            let main = sandbox.entry();
            let args = if sandbox.entry.params == 0 { Vec::new() } else { vec![sandbox.brought(input)?] };
            let place = sandbox.place();
            let Some(machine) = &mut sandbox.machine else { return Ok(Data::Nil) };
            let ended = machine.run_turn(main, args, place);
            let value = sandbox.ended(ended)?;
            let depth = sandbox.limits.depth;
            let Some(machine) = &mut sandbox.machine else { return Ok(Data::Nil) };
            match machine.core.export(&value, "the answer", depth) {
                Ok(data) => Ok(data),
                Err(mut fault) => {
                    let returned = machine.core.exact.returned;
                    machine.core.exact.stopped = returned;
                    if let Stop::Raised(error) = &mut *fault {
                        error.place = Some(returned);
                    }
                    Err(sandbox.failure(&fault))
                }
            }
        })
    }

    /// Runs the top level once; what follows are messages.
    pub(crate) fn load(
        &mut self,
        outer: Option<&mut Core>,
        state: &Data,
    ) -> Result<Result<(), Failure>, Fault> {
        self.turn(outer, |sandbox| {
            sandbox.top()?;
            sandbox.state = sandbox.brought(state)?;
            Ok(())
        })
    }

    /// One message: its reply and, if the sandbox is dead now, why.
    pub(crate) fn answer(
        &mut self,
        outer: Option<&mut Core>,
        tag: &Rc<str>,
        args: Vec<Data>,
    ) -> Result<Outcome, Fault> {
        let message = Data::Tagged(tag.clone(), Some(Box::new(Data::Array(args))));
        let result = self.turn(outer, |sandbox| {
            let message = sandbox.brought(&message)?;
            let handler = sandbox.entry();
            let place = sandbox.place();
            let args = vec![std::mem::take(&mut sandbox.state), message];
            let Some(machine) = &mut sandbox.machine else { return Ok(()) };
            let ended = machine.run_message(handler, args, tag.clone(), place);
            sandbox.state = sandbox.ended(ended)?;
            Ok(())
        })?;
        let reply = self.machine.as_mut().and_then(|machine| machine.core.exact.tasks.outbox.take());
        Ok(Outcome { reply, failure: result.err() })
    }

    /// A message from the program around it.
    pub(crate) fn handle(
        &mut self,
        outer: &mut Core,
        tag: &Rc<str>,
        args: Vec<Data>,
    ) -> Result<Outcome, Fault> {
        self.answer(Some(outer), tag, args)
    }

    /// Another fuel limit, from the next turn on.
    pub(crate) fn set_fuel(&mut self, fuel: u64) {
        self.limits.fuel = fuel;
    }

    /// Fuel that the last turn has left.
    pub(crate) fn fuel_left(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.core.fuel.max(0) as u64)
    }

    /// Bytes that it counts.
    pub(crate) fn bytes(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.core.exact.bytes().max(0) as u64)
    }
}
