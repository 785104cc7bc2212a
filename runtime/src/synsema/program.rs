//! A loaded program and what can be done with it: run it, or run its tests.

use crate::bytecode::Program;
use crate::diagnostic;
use crate::partition::host::Host;
use crate::partition::{Core, Entered, Settings, heap::Meter};
use crate::vm::Machine;
use crate::vm::render;
use crate::vm::trap::{Fault, Stop};
use policies::wire::{EndFrame, ErrorFrame};
use std::rc::Rc;

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit code and usage.
    pub end: EndFrame,
    /// What went wrong, in order.
    pub errors: Vec<ErrorFrame>,
}

/// Runs a program to its end, agents included.
#[must_use]
pub fn run(program: Rc<Program>, settings: Settings, host: Box<dyn Host>) -> Outcome {
    run_and_look(program, settings, host, |_| (), |_| ()).0
}

/// As [`run`], with nobody to ask, and with what its agents left: `blackboard` and `agents`.
#[must_use]
pub fn run_swarm(
    program: Rc<Program>,
    settings: Settings,
    host: Box<dyn Host>,
) -> (Outcome, serde_json::Value) {
    run_and_look(
        program,
        settings,
        host,
        |machine| machine.core.unattended = true,
        |machine| {
            let board = machine.core.shared.borrow();
            serde_json::json!({
                "blackboard": crate::builtins::to_json(&board.blackboard()),
                "agents": crate::builtins::to_json(&board.list()),
            })
        },
    )
}

fn run_and_look<T>(
    program: Rc<Program>,
    settings: Settings,
    host: Box<dyn Host>,
    begin: impl FnOnce(&mut Machine),
    look: impl FnOnce(&Machine) -> T,
) -> (Outcome, T) {
    let entered = Entered::new(Meter::new(settings.heap));
    let top = program.top;
    let sources = program.sources.clone();
    let mut machine = Machine::new(Core::new(program, settings, host));
    begin(&mut machine);
    let mut errors = Vec::new();
    let (mut exit, trap) = match machine.run_function(top) {
        Ok(_) => (0, None),
        Err(fault) => {
            machine.unschedule_all();
            stopped(&fault, &sources, &mut errors)
        }
    };
    let joined = trap.is_none().then(|| machine.join());
    exit = joined.as_ref().and_then(|joined| joined.exit).unwrap_or(exit);
    if joined.is_some_and(|joined| !joined.well) {
        for (id, message) in machine.failures() {
            errors.push(diagnostic::plain(&format!("Agent error [{id}]"), &message));
        }
        for (id, message) in machine.scheduled_failures() {
            errors.push(diagnostic::plain(&format!("Scheduled task error [{id}]"), &message));
        }
        if exit == 0 {
            exit = 1;
        }
    }
    let fuel = machine.core.used();
    machine.core.host.flush();
    let seen = look(&machine);
    drop(machine);
    let meter = entered.leave();
    (Outcome { end: EndFrame { exit, fuel, heap_peak: meter.peak(), trap, llm_tokens: 0 }, errors }, seen)
}

fn stopped(
    fault: &Fault,
    sources: &[Rc<crate::source::Source>],
    errors: &mut Vec<ErrorFrame>,
) -> (i32, Option<String>) {
    match &**fault {
        Stop::Exit(code) => (*code, None),
        Stop::Raised(error) => {
            errors.push(diagnostic::of_raised(error, sources));
            (1, None)
        }
        Stop::Trap(trap) => {
            errors.push(diagnostic::plain("Runtime error", &format!("{} limit reached", trap.name())));
            (1, Some(trap.name().to_owned()))
        }
        Stop::Wait => (1, None),
        Stop::Cancelled(reason) => {
            errors.push(diagnostic::plain("Runtime error", &format!("cancelled: {reason}")));
            (1, None)
        }
    }
}

/// The result of one `test` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tested {
    /// Its name.
    pub name: String,
    /// Why it failed; `None`: it passed.
    pub failure: Option<String>,
    /// Where it failed.
    pub place: Option<String>,
}

/// Runs a program's top level, then its `test` blocks in order.
#[must_use]
pub fn test(program: Rc<Program>, settings: Settings, host: Box<dyn Host>) -> (Vec<Tested>, Outcome) {
    let entered = Entered::new(Meter::new(settings.heap));
    let sources = program.sources.clone();
    let mut machine = Machine::new(Core::new(program.clone(), settings, host));
    machine.core.testing = true;
    machine.core.unattended = true;
    let mut errors = Vec::new();
    let mut results = Vec::new();
    let (mut exit, mut trap) = match machine.run_function(program.top) {
        Ok(_) => (0, None),
        Err(fault) => stopped(&fault, &sources, &mut errors),
    };
    machine.unschedule_all();
    if errors.is_empty() && trap.is_none() {
        for (name, proto) in &program.tests {
            let mut outcome = machine.run_function(*proto).map(|_| ());
            machine.unschedule_all();
            if outcome.is_ok() {
                if let Some(code) = machine.join().exit {
                    outcome = Err(Box::new(Stop::Exit(code)));
                } else if let Some((id, message)) = machine.failures().first() {
                    outcome = Err(format!("agent {id}: {message}").into());
                } else if let Some((id, message)) = machine.scheduled_failures().first() {
                    outcome = Err(format!("scheduled task {id}: {message}").into());
                }
            }
            machine.forget_agents();
            let (failure, place) = match outcome {
                Ok(()) => (None, None),
                Err(fault) => match &*fault {
                    Stop::Raised(error) => {
                        let frame = diagnostic::of_raised(error, &sources);
                        let place = frame.file.zip(frame.line).map(|(f, l)| format!("{f}:{l}"));
                        (Some(error.message.clone()), place)
                    }
                    Stop::Trap(t) => {
                        trap = Some(t.name().to_owned());
                        (Some(format!("{} limit reached", t.name())), None)
                    }
                    Stop::Exit(code) => (Some(format!("exit({code}) was called")), None),
                    Stop::Wait => (Some("it waits".to_owned()), None),
                    Stop::Cancelled(reason) => (Some(format!("cancelled: {reason}")), None),
                },
            };
            if failure.is_some() {
                exit = 1;
            }
            results.push(Tested { name: name.to_string(), failure, place });
            if trap.is_some() {
                break;
            }
        }
    }
    let fuel = machine.core.used();
    drop(machine);
    let meter = entered.leave();
    let end = EndFrame { exit, fuel, heap_peak: meter.peak(), trap, llm_tokens: 0 };
    (results, Outcome { end, errors })
}

/// A value's rendering, for embedders.
#[must_use]
pub fn text(value: &crate::vm::value::Value) -> String {
    render::display(value)
}
