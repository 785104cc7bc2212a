//! A whole program: run it behind the gate, with the grants of the command line.

use super::library::Realm;
use crate::bytecode::Program;
use crate::diagnostic;
use crate::error::LoadError;
use crate::partition::boundary::HostFunction;
use crate::partition::exact::Terms;
use crate::partition::gate::Gate;
use crate::partition::heap::Meter;
use crate::partition::host::Host;
use crate::partition::{Core, Entered};
use crate::source::Source;
use crate::vm::Machine;
use crate::vm::strict;
use crate::vm::tasks::Ended;
use crate::vm::trap::{Stop, Trap};
use policies::capability::Capability;
use policies::ceiling::{Ceiling, Grant};
use policies::scope::Base;
use policies::wire::{EndFrame, ErrorFrame};
use std::rc::Rc;

/// Bytes of a program's heap unless it is told otherwise.
pub const MEMORY: u64 = 256 << 20;
/// Call frames of a program.
const CALLS: usize = 2000;

/// What a program is given.
#[derive(Debug, Clone)]
pub struct Grants {
    /// The host's ceiling; `None`: the flags alone decide.
    pub ceiling: Option<Ceiling>,
    /// What the flags, or the embedding host, grant.
    pub granted: Ceiling,
    /// Where relative paths start; `None`: nobody knows.
    pub base: Option<Base>,
    /// Fuel of the whole program.
    pub fuel: Option<u64>,
    /// Bytes of heap.
    pub memory: Option<u64>,
    /// Waits are jumped over.
    pub virtual_time: bool,
}

impl Grants {
    /// Output and nothing else.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            ceiling: None,
            granted: Ceiling::of([Grant::whole(Capability::Stdout)]),
            base: None,
            fuel: None,
            memory: None,
            virtual_time: false,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Exit status and usage.
    pub end: EndFrame,
    /// What went wrong at the end.
    pub errors: Vec<ErrorFrame>,
}

/// A compile error as it is shown.
#[must_use]
pub fn refused(error: &LoadError, name: &str, text: &str) -> ErrorFrame {
    let source = Source::new(name, text);
    let place = source.place(error.at);
    let line = source.line(place.line);
    let message = format!(
        "{name}:{}:{}: error: {}\n{:>3} | {line}",
        place.line, place.column, error.message, place.line
    );
    let mut frame = diagnostic::plain("error", &error.message);
    frame.text = message;
    frame.file = Some(name.to_owned());
    frame.line = Some(place.line);
    frame
}

/// Runs a program to its end.
#[must_use]
pub fn run(program: Rc<Program>, grants: Grants, hosts: Vec<HostFunction>, host: Box<dyn Host>) -> Outcome {
    run_with(program, grants, hosts, None, host)
}

pub(super) fn run_with(
    program: Rc<Program>,
    grants: Grants,
    hosts: Vec<HostFunction>,
    on_sandbox: Option<super::OnSandbox>,
    mut host: Box<dyn Host>,
) -> Outcome {
    let name = program.sources.first().map_or("", |source| source.name.as_str());
    let name = name.rsplit('/').next().unwrap_or(name);
    let memory = grants.memory.unwrap_or(MEMORY);
    let terms = Terms {
        name: name.into(),
        memory: i64::try_from(memory).unwrap_or(i64::MAX),
        calls: CALLS,
        depth: 64,
        sandbox: false,
    };
    let gate = Gate::granted(grants.ceiling, grants.granted, grants.base, host.as_mut());
    let entered = Entered::new(Meter::new(None));
    let started = host.now();
    let mut core = Core::exact(program, terms, grants.fuel, gate, host);
    core.exact.hosts = hosts.into();
    core.exact.tasks.virtual_time = grants.virtual_time;
    core.exact.tasks.started = started;
    if let Some(on_sandbox) = on_sandbox {
        core.keep.insert("hosts", Box::new(on_sandbox));
    }
    let mut machine = Machine::new(core);
    let top = machine.core.top();
    let ended = machine.run_turn(top, Vec::new(), (0, 0));
    let core = &machine.core;
    let mut errors = Vec::new();
    let mut trap = None;
    let mut exit = i32::from(core.exact.tasks.complaints);
    let line = strict::line_of(core, core.exact.stopped);
    if let Ended::Stopped(fault) = ended {
        exit = 1;
        let text = match &*fault {
            Stop::Exit(code) => {
                exit = *code;
                None
            }
            Stop::Raised(error) => Some((strict::shown(core, error), error.message.clone(), error.denied)),
            Stop::Trap(limit) => {
                trap = Some(limit.name().to_owned());
                let message = match limit {
                    Trap::Fuel => format!("ran out of fuel (limit {})", grants.fuel.unwrap_or(0)),
                    Trap::Memory => format!("ran out of memory (limit {memory} bytes)"),
                };
                Some((strict::at_line(core, line, &message), message, false))
            }
            Stop::Cancelled(reason) => Some((strict::at_line(core, line, reason), reason.clone(), false)),
            Stop::Wait => None,
        };
        if let Some((text, message, denied)) = text {
            let mut frame = diagnostic::plain("fault", &message);
            frame.text = text;
            frame.denied = denied;
            errors.push(frame);
        }
    }
    let fuel = machine.core.used();
    machine.core.host.flush();
    drop(machine);
    let meter = entered.leave();
    Outcome { end: EndFrame { exit, fuel, heap_peak: meter.peak(), trap, llm_tokens: 0 }, errors }
}

/// Names that mean something in a program: for tools.
#[must_use]
pub fn core_names() -> Vec<&'static str> {
    super::library::core_names(Realm::Program).collect()
}
