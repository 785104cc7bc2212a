//! Model and human operations of the grammar: `reason`, `decide`, `approve`, `ask` …

use super::{model, terminal};
use crate::partition::Core;
use crate::vm::render::display;
use crate::vm::trap::Fault;
use crate::vm::value::Value;
use policies::capability::Capability;
use std::rc::Rc;

/// Runs one; `values` are the subject and the named parts.
pub(crate) fn run(
    core: &mut Core,
    name: &'static str,
    parts: &[Rc<str>],
    mut values: Vec<Value>,
    place: (u32, u32),
) -> Result<Value, Fault> {
    let rest = values.split_off(1);
    let subject = values.pop().unwrap_or_default();
    let part = |wanted: &str| parts.iter().position(|p| **p == *wanted).and_then(|i| rest.get(i));
    match name {
        "approve" | "confirm" => human(core, name, &display(&subject), place),
        "ask" => {
            if core.unattended {
                return Ok(first_option(part("with")));
            }
            if !somebody(core) {
                notice(core, name, "answered with the first option or an empty text");
                return Ok(first_option(part("with")));
            }
            core.print(&display(&subject), "ask", place)?;
            core.host.flush();
            Ok(Value::string(core.host.read_line().unwrap_or_default()))
        }
        _ => {
            let parts: Vec<(Rc<str>, Value)> = parts.iter().cloned().zip(rest).collect();
            model::operation(core, name, &subject, &parts, place)
        }
    }
}

fn first_option(options: Option<&Value>) -> Value {
    match options {
        Some(Value::List(list)) => {
            list.items().first().map_or(Value::text(""), |v| Value::string(display(v)))
        }
        _ => Value::text(""),
    }
}

/// Whether a person can be asked a line: not while keys are read one by one, and not by what runs inside a `sandbox`, to which the input isn't open.
fn somebody(core: &Core) -> bool {
    core.host.interactive()
        && !terminal::is_open(core)
        && (core.gate.depth() == 0 || core.gate.covers(Capability::Stdin, None))
}

fn notice(core: &mut Core, name: &str, what: &str) {
    core.host.eprint(&format!("{name}: nobody can be asked here; {what}"));
}

fn human(core: &mut Core, name: &'static str, question: &str, place: (u32, u32)) -> Result<Value, Fault> {
    if core.unattended {
        return Ok(Value::Bool(true));
    }
    if !somebody(core) {
        notice(core, name, "denied");
        return Ok(Value::Bool(false));
    }
    core.print(&format!("{question} [y/N]"), name, place)?;
    core.host.flush();
    let answer = core.host.read_line().unwrap_or_default();
    Ok(Value::Bool(matches!(answer.trim(), "y" | "Y" | "yes")))
}
