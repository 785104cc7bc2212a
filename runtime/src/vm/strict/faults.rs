//! Errors as programs and people see them: kind, name, line, message.

use super::escaped;
use crate::partition::Core;
use crate::vm::trap::Raised;
use crate::vm::value::Value;
use std::fmt::Write as _;
use std::rc::Rc;

/// Bytes of a message.
const MESSAGE: usize = 512;

/// An error as programs see it.
pub(crate) struct Described {
    pub(crate) kind: Rc<str>,
    pub(crate) name: Rc<str>,
    pub(crate) line: i64,
    pub(crate) message: String,
}

/// A message of at most 512 bytes.
pub(crate) fn cut(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

pub(crate) fn line_of(core: &Core, (file, at): (u32, u32)) -> i64 {
    core.program.sources.get(file as usize).map_or(0, |source| i64::from(source.line_of(at)))
}

/// The four fields of an error.
pub(crate) fn describe(core: &Core, error: &Raised) -> Described {
    let message = cut(&error.message).to_owned();
    let line = error.place.map_or(0, |place| line_of(core, place));
    let name = core.exact.terms.name.clone();
    match &error.origin {
        Some(origin) => match &origin.elsewhere {
            Some(from) => {
                Described { kind: origin.kind.clone(), name: from.name.clone(), line: from.line, message }
            }
            None => Described { kind: origin.kind.clone(), name, line, message },
        },
        None => {
            let kind = if error.denied { "not_granted" } else { "faulted" };
            Described { kind: kind.into(), name, line, message }
        }
    }
}

/// `FILE:LINE: fault: MESSAGE` and the source line; `within` is the actor that it ended, if nobody else is told.
pub(crate) fn shown(core: &Core, error: &Raised, within: Option<u32>) -> String {
    let described = describe(core, error);
    let mut line = error.place.map_or(0, |place| line_of(core, place));
    let mut message = described.message;
    if let Some(from) = error.origin.as_ref().and_then(|origin| origin.elsewhere.as_ref()) {
        match from.actor {
            Some(number) => {
                line = from.line;
                let _ = write!(message, " (in actor {number})");
            }
            None => {
                message = format!(
                    "sandbox `{}` failed at its line {} ({}): {message}",
                    from.name, from.line, described.kind
                );
                if let Some(number) = within {
                    let _ = write!(message, " (in actor {number})");
                }
            }
        }
    }
    at_line(core, line, &message)
}

/// A message about a line of the program.
pub(crate) fn at_line(core: &Core, line: i64, message: &str) -> String {
    let message: String =
        message.chars().map(|c| if c.is_control() { escaped(c) } else { c.into() }).collect();
    let Some(source) = core.program.sources.first() else { return message };
    let text = source.line(u32::try_from(line).unwrap_or(0));
    format!("{}:{line}: fault: {message}\n{line:>3} | {text}", source.name)
}

/// Where a function of the program stands.
pub(crate) fn function_place(value: &Value) -> (u32, u32) {
    match value {
        Value::Task(task) => (task.proto.file, task.proto.at),
        _ => (0, 0),
    }
}
