//! Front end two: source → tokens → tree → names → bytecode. What runs is the same machine, with the accounts that
//! this language defines to the unit.

mod ast;
mod compile;
mod compiled;
mod host;
mod lexer;
mod library;
mod live;
mod parser;
pub mod program;
mod resolve;
pub mod state;
mod token;
mod work;

pub use host::{Mod, Outcome, Script};
pub(crate) use library::{ARRAYS, CORE, EFFECTS, MATH, RECORDS, STRINGS};
pub use live::Live;

use crate::bytecode::{EntryPoint, Program};
use crate::error::LoadError;
use crate::partition::boundary::HostFunction;
use crate::partition::sandbox::{Failure, Limits};
use crate::source::Source;
use library::Realm;
use std::rc::Rc;

/// Families of builtins that are this language's.
pub(crate) const FAMILIES: usize = 6;

/// Gives a sandbox its host functions, by its name.
pub(crate) type OnSandbox = Rc<dyn Fn(&str) -> Vec<HostFunction>>;

/// Functions of a program at most.
const MAX_FUNCTIONS: u32 = 65_535;

/// What the host calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Main,
    Handler,
}

/// Compiles a program.
///
/// # Errors
/// The first thing that is wrong in it.
pub fn load(name: &str, bytes: &[u8], hosts: &[HostFunction]) -> Result<Program, LoadError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let at = e.valid_up_to();
            return Err(LoadError::parse(at as u32, format!("the source is not valid UTF-8 (byte {at})")));
        }
    };
    let source = Source::new(name, text);
    built(source, Realm::Program, MAX_FUNCTIONS, hosts)
        .map_err(|wrong| LoadError::parse(wrong.at, wrong.message))
}

fn built(
    source: Source,
    realm: Realm,
    functions: u32,
    hosts: &[HostFunction],
) -> Result<Program, parser::Wrong> {
    let names: Vec<Rc<str>> = hosts.iter().map(|host| host.name.clone()).collect();
    let tree = parser::parse(&source.text, functions)?;
    let mut resolved = resolve::resolve(&tree, &source.text, realm, &names)?;
    compile::compile(&tree, &mut resolved, source)
}

/// Compiles a sandbox's source and finds what will be called in it.
pub(crate) fn source(
    text: &str,
    entry: Entry,
    limits: &Limits,
    hosts: &[HostFunction],
) -> Result<(Rc<Program>, EntryPoint), Failure> {
    let name = limits.name.clone();
    if text.len() > limits.source {
        let message = format!("the source is {} bytes; the limit is {}", text.len(), limits.source);
        return Err(Failure { kind: "source_too_large", name, line: 0, message });
    }
    let source = Source::new(&limits.name, text);
    let lines = source.clone();
    let line = |at: u32| i64::from(lines.place(at).line);
    let program = built(source, Realm::Sandbox, limits.prototypes, hosts).map_err(|wrong| Failure {
        kind: if wrong.functions { "too_many_prototypes" } else { "compile_failed" },
        name: name.clone(),
        line: line(wrong.at),
        message: crate::vm::strict::cut(&wrong.message).to_owned(),
    })?;
    let (wanted, form, counts): (_, _, &[usize]) = match entry {
        Entry::Main => ("main", "fn main(input)", &[0, 1]),
        Entry::Handler => ("handler", "fn handler(state, msg)", &[2]),
    };
    let missing =
        |line: i64, message: String| Failure { kind: "no_handler", name: name.clone(), line, message };
    let Some(found) = program.entries.iter().find(|e| &*e.name == wanted).cloned() else {
        return Err(missing(0, format!("the source defines no `{form}`")));
    };
    if !counts.contains(&found.params) {
        let takes = format!("{} parameter{}", found.params, if found.params == 1 { "" } else { "s" });
        return Err(missing(line(found.at), format!("`{wanted}` takes {takes}; expected `{form}`")));
    }
    Ok((Rc::new(program), found))
}
