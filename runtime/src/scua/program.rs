//! A whole program: run it behind the gate, with the grants of the command line.

use super::library::Realm;
use super::live::{Additions, Live};
use crate::bytecode::Program;
use crate::diagnostic;
use crate::error::{LoadError, StateError};
use crate::partition::boundary::HostFunction;
use crate::partition::host::Host;
use crate::source::Source;
use policies::capability::Capability;
use policies::ceiling::{Ceiling, Grant};
use policies::scope::Base;
use policies::wire::{EndFrame, ErrorFrame};
use std::rc::Rc;

/// Bytes of a program's heap unless it is told otherwise.
pub const MEMORY: u64 = 256 << 20;
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
    let mut live = Live::new(program, grants, Additions { functions: hosts, ..Additions::default() }, host);
    live.run_top();
    live.finish()
}

/// A program's state, or why there is none.
pub type Saved = Result<Vec<u8>, StateError>;

/// Runs a program, or what was saved of it, and saves it if it comes to rest.
///
/// A restored program goes on with its `fn restored()`: its top level has run before.
///
/// # Errors
/// The state can't be restored: nothing has run.
pub fn run_saved(
    program: Rc<Program>,
    grants: Grants,
    from: Option<&[u8]>,
    save: Save,
    host: Box<dyn Host>,
) -> Result<(Outcome, Option<Saved>), StateError> {
    let mut live = Live::new(program, grants, Additions::default(), host);
    match from {
        None => live.run_top(),
        Some(state) => {
            live = live.restored(state)?;
            live.run_function(RESTORED);
        }
    }
    let saved = match save {
        Save::Yes => Some(live.save()),
        Save::No => None,
    };
    Ok((live.finish(), saved))
}

/// What a restored program goes on with.
pub const RESTORED: &str = "restored";

/// Whether a program's state is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Save {
    /// It is.
    Yes,
    /// It isn't.
    No,
}

/// Names that mean something in a program: for tools.
#[must_use]
pub fn core_names() -> Vec<&'static str> {
    super::library::core_names(Realm::Program).collect()
}
