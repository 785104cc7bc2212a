//! A program between its calls: its top level has run, and it is there until it is dropped. It can be called, saved at
//! rest, and restored.

use super::OnSandbox;
use super::program::{Grants, MEMORY, Outcome};
use super::state;
use crate::bytecode::Program;
use crate::diagnostic;
use crate::error::StateError;
use crate::partition::boundary::{Data, HostFunction};
use crate::partition::exact::Terms;
use crate::partition::gate::Gate;
use crate::partition::heap::Meter;
use crate::partition::host::Host;
use crate::partition::sandbox::{Failure, Limits};
use crate::partition::{Core, Entered};
use crate::vm::Machine;
use crate::vm::strict;
use crate::vm::tasks::Ended;
use crate::vm::trap::{Fault, Stop, Trap};
use crate::vm::value::Value;
use policies::wire::{EndFrame, ErrorFrame};
use std::rc::Rc;

/// Call frames of a program.
const CALLS: usize = 2000;

/// What a host adds to a program: functions, also for its sandboxes, and lower limits of those.
#[derive(Default)]
pub(super) struct Additions {
    pub(super) functions: Vec<HostFunction>,
    pub(super) on_sandbox: Option<OnSandbox>,
    pub(super) most: Option<Limits>,
    pub(super) slice: Option<i64>,
}

/// A program that is there.
pub struct Live {
    /// Gone when it is dropped, inside its own meter.
    machine: Option<Machine>,
    meter: Meter,
    fuel: Option<u64>,
    memory: u64,
    /// Its exit status, once it has ended: by `exit`, or by a limit.
    ended: Option<i32>,
    /// The exit status that its faults have brought so far.
    status: i32,
    trap: Option<Trap>,
    errors: Vec<ErrorFrame>,
}

impl Drop for Live {
    fn drop(&mut self) {
        let entered = Entered::new(self.meter);
        drop(self.machine.take());
        self.meter = entered.leave();
    }
}

impl Live {
    pub(super) fn new(
        program: Rc<Program>,
        grants: Grants,
        additions: Additions,
        mut host: Box<dyn Host>,
    ) -> Self {
        let name = program.sources.first().map_or("", |source| source.name.as_str());
        let name = name.rsplit('/').next().unwrap_or(name);
        let memory = grants.memory.unwrap_or(MEMORY);
        let terms = Terms {
            name: name.into(),
            memory: i64::try_from(memory).unwrap_or(i64::MAX / 4).min(i64::MAX / 4),
            calls: CALLS,
            depth: 64,
            sandbox: false,
        };
        let gate = Gate::granted(grants.ceiling, grants.granted, grants.base, host.as_mut());
        let started = host.now();
        let mut core = Core::exact(program, terms, grants.fuel, gate, host);
        core.exact.hosts = additions.functions.into();
        core.exact.tasks.virtual_time = grants.virtual_time;
        core.exact.tasks.started = started;
        if let Some(slice) = additions.slice {
            core.slice = slice;
            core.exact.tasks.sandboxes.set_slice(slice);
            core.next_look();
        }
        if let Some(on_sandbox) = additions.on_sandbox {
            core.keep.insert("hosts", Box::new(on_sandbox));
        }
        if let Some(most) = additions.most {
            core.keep.insert("most", Box::new(most));
        }
        Self {
            machine: Some(Machine::new(core)),
            meter: Meter::new(None),
            fuel: grants.fuel,
            memory,
            ended: None,
            status: 0,
            trap: None,
            errors: Vec::new(),
        }
    }

    /// What a state was saved from, to be gone on with; nothing of it runs.
    pub(super) fn restored(mut self, bytes: &[u8]) -> Result<Self, StateError> {
        self.inside(|machine| {
            state::read(&mut machine.core, bytes)?;
            // The clock that counts from the start goes on where it was.
            let tasks = &mut machine.core.exact.tasks;
            tasks.started -= tasks.now as f64 / 1000.0;
            Ok(())
        })
        .unwrap_or(Err(StateError::NotAtRest))?;
        Ok(self)
    }

    fn inside<T>(&mut self, act: impl FnOnce(&mut Machine) -> T) -> Option<T> {
        let entered = Entered::new(self.meter);
        let result = self.machine.as_mut().map(act);
        self.meter = entered.leave();
        result
    }

    /// Runs the top level and everything that follows from it.
    pub(super) fn run_top(&mut self) {
        let outcome = self.inside(|machine| {
            let top = machine.core.top();
            machine.run_turn(top, Vec::new(), (0, 0))
        });
        if let Some(Ended::Stopped(fault)) = outcome {
            self.stopped(&fault);
        }
        self.rest();
    }

    /// Calls a function of the top level without arguments; what goes wrong is told as at a program's end.
    pub(super) fn run_function(&mut self, name: &str) {
        match self.turn(name, &[]) {
            Ok(Some(Ended::Stopped(fault))) => self.stopped(&fault),
            Ok(_) => {}
            Err(failure) => {
                self.status = self.status.max(1);
                self.errors.push(diagnostic::plain("fault", &failure.message));
            }
        }
        self.rest();
    }

    /// After a turn: what belongs to it and hasn't ended never will.
    fn rest(&mut self) {
        let complaints = self.inside(|machine| {
            machine.core.exact.tasks.forget_the_dead();
            machine.core.host.flush();
            machine.core.exact.tasks.complaints
        });
        self.status = self.status.max(i32::from(complaints.unwrap_or(false)));
    }

    fn turn(&mut self, name: &str, args: &[Data]) -> Result<Option<Ended>, Failure> {
        if self.ended.is_some() {
            return Err(self.failure("faulted", 0, "the program has ended".to_owned()));
        }
        let core = self.machine.as_ref().map(|machine| &machine.core);
        let entry = core.and_then(|core| core.program.entries.iter().find(|e| &*e.name == name).cloned());
        let Some(entry) = entry else {
            return Err(self.failure("no_handler", 0, format!("the program defines no `fn {name}`")));
        };
        if entry.params != args.len() {
            let takes = strict::arguments(entry.params);
            let message = format!("`{name}` takes {takes}, got {}", args.len());
            return Err(self.failure("no_handler", 0, message));
        }
        let ended = self.inside(|machine| {
            let mut values = Vec::with_capacity(args.len());
            for arg in args {
                match machine.core.import(arg) {
                    Ok(value) => values.push(value),
                    Err(fault) => return Ended::Stopped(fault),
                }
            }
            let function = machine.core.globals.get(entry.global as usize).cloned().unwrap_or_default();
            machine.run_turn(function, values, (0, entry.at))
        });
        Ok(ended)
    }

    /// Calls a function of the top level with data, and runs everything that follows from it. Its answer is data too.
    ///
    /// A fault that nobody caught ends the call and nothing else; a limit, and `exit`, end the program.
    ///
    /// # Errors
    /// There is no such function, the program has ended, or how the call failed.
    pub fn call(&mut self, name: &str, args: &[Data]) -> Result<Data, Failure> {
        let ended = self.turn(name, args)?;
        self.rest();
        let fault = match ended {
            None => return Ok(Data::Nil),
            Some(Ended::Stopped(fault)) => fault,
            Some(Ended::Done(value)) => match self.answer(&value) {
                Ok(data) => return Ok(data),
                Err(fault) => fault,
            },
        };
        Err(self.failed(&fault))
    }

    fn answer(&mut self, value: &Value) -> Result<Data, Fault> {
        let data = self.inside(|machine| machine.core.export(value, "the answer", 64));
        data.unwrap_or(Ok(Data::Nil))
    }

    /// Handles the messages that a failed call has left in mailboxes.
    ///
    /// # Errors
    /// A limit was passed.
    pub fn settle(&mut self) -> Result<(), Failure> {
        let ended = if self.ended.is_some() { None } else { self.inside(Machine::run_rest) };
        self.rest();
        match ended {
            Some(Err(fault)) => Err(self.failed(&fault)),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// The program's state: globals, heap, actors with what waits for them, and program time; neither its rights nor its
    /// sandboxes.
    ///
    /// # Errors
    /// It isn't at rest, it has ended, or it is too large.
    pub fn save(&self) -> Result<Vec<u8>, StateError> {
        match (&self.machine, self.ended) {
            (Some(machine), None) => state::write(&machine.core),
            _ => Err(StateError::NotAtRest),
        }
    }

    /// Whether it can still be called.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Fuel that it has used.
    #[must_use]
    pub fn fuel_used(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.core.used())
    }

    /// Bytes that it counts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.core.exact.bytes().max(0) as u64)
    }

    /// What went wrong at its top level.
    #[must_use]
    pub fn errors(&self) -> &[ErrorFrame] {
        &self.errors
    }

    /// Ends it and tells how it went.
    #[must_use]
    pub fn finish(mut self) -> Outcome {
        let fuel = self.fuel_used();
        let errors = std::mem::take(&mut self.errors);
        let exit = self.ended.unwrap_or(self.status);
        let trap = self.trap.map(|trap| trap.name().to_owned());
        let heap_peak = self.meter.peak();
        Outcome { end: EndFrame { exit, fuel, heap_peak, trap, llm_tokens: 0 }, errors }
    }

    fn failure(&self, kind: &'static str, line: i64, message: String) -> Failure {
        let name = self.machine.as_ref().map(|machine| machine.core.exact.terms.name.clone());
        Failure { kind, name: name.unwrap_or_else(|| "".into()), line, message }
    }

    /// How a call failed.
    fn failed(&mut self, fault: &Fault) -> Failure {
        let Some(core) = self.machine.as_ref().map(|machine| &machine.core) else {
            return self.failure("faulted", 0, String::new());
        };
        let line = strict::line_of(core, core.exact.stopped);
        match &**fault {
            Stop::Raised(error) => {
                let described = strict::describe(core, error);
                let kind = KINDS.iter().find(|kind| ***kind == *described.kind).copied().unwrap_or("faulted");
                Failure { kind, name: described.name, line: described.line, message: described.message }
            }
            Stop::Trap(trap) => {
                self.end(1, Some(*trap));
                let kind = match trap {
                    Trap::Fuel => "out_of_fuel",
                    Trap::Memory => "out_of_memory",
                };
                self.failure(kind, line, self.ran_out(*trap))
            }
            Stop::Exit(code) => {
                self.end(*code, None);
                self.failure("faulted", 0, format!("the program has ended with exit({code})"))
            }
            Stop::Cancelled(reason) => {
                self.end(1, None);
                self.failure("faulted", line, reason.clone())
            }
            Stop::Wait => self.failure("faulted", line, "the program waits".to_owned()),
        }
    }

    fn ran_out(&self, trap: Trap) -> String {
        match trap {
            Trap::Fuel => format!("ran out of fuel (limit {})", self.fuel.unwrap_or(0)),
            Trap::Memory => format!("ran out of memory (limit {} bytes)", self.memory),
        }
    }

    fn end(&mut self, exit: i32, trap: Option<Trap>) {
        self.ended = Some(exit);
        self.trap = trap;
    }

    /// How the program's own run stopped, as it is told.
    fn stopped(&mut self, fault: &Fault) {
        let Some(core) = self.machine.as_ref().map(|machine| &machine.core) else { return };
        let line = strict::line_of(core, core.exact.stopped);
        let (text, message, denied) = match &**fault {
            Stop::Exit(code) => {
                self.end(*code, None);
                return;
            }
            Stop::Wait => return,
            Stop::Raised(error) => (strict::shown(core, error, None), error.message.clone(), error.denied),
            Stop::Trap(trap) => {
                let message = self.ran_out(*trap);
                (strict::at_line(core, line, &message), message, false)
            }
            Stop::Cancelled(reason) => (strict::at_line(core, line, reason), reason.clone(), false),
        };
        match &**fault {
            Stop::Trap(trap) => self.end(1, Some(*trap)),
            Stop::Cancelled(_) => self.end(1, None),
            _ => self.status = 1,
        }
        let mut frame = diagnostic::plain("fault", &message);
        frame.text = text;
        frame.denied = denied;
        self.errors.push(frame);
    }
}

/// Kinds of a fault that a program's call may end with.
const KINDS: [&str; 11] = [
    "faulted",
    "timeout",
    "stopped",
    "mailbox_full",
    "not_granted",
    "out_of_fuel",
    "out_of_memory",
    "compile_failed",
    "no_handler",
    "source_too_large",
    "too_many_prototypes",
];
