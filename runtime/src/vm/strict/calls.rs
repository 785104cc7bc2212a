//! What can be called, and with how many arguments.

use super::{cut, host_index, type_name};
use crate::bytecode::Proto;
use crate::partition::Core;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;

/// `1 argument`, `2 arguments`
pub(crate) fn arguments(count: usize) -> String {
    format!("{count} argument{}", if count == 1 { "" } else { "s" })
}

pub(super) fn arity(proto: &Proto, got: usize) -> Fault {
    raised(format!(
        "`{}` takes {}, got {got}",
        cut(proto.name.as_deref().unwrap_or("fn")),
        arguments(proto.params.len())
    ))
}

/// A name of the top level is read too early.
pub(crate) fn early(name: &str) -> Fault {
    raised(format!("`{}` is used before its `let`", cut(name)))
}

/// Checks before a `spawn` what the call would check.
pub(super) fn callable(core: &Core, callee: &Value, count: usize) -> Result<(), Fault> {
    match callee {
        Value::Task(task) if task.proto.params.len() != count => Err(arity(&task.proto, count)),
        Value::Task(_) => Ok(()),
        Value::Builtin(id) => match host_index(*id) {
            Some(index) => host_arity(core, index, count),
            None => crate::builtins::get(*id).check_count(count),
        },
        other => Err(raised(format!("{} can't be called", type_name(other)))),
    }
}

pub(super) fn host_arity(core: &Core, index: usize, count: usize) -> Result<(), Fault> {
    match core.exact.hosts.get(index) {
        Some(host) if host.takes == count => Ok(()),
        Some(host) => Err(raised(format!("`{}` takes {}, got {count}", host.name, arguments(host.takes)))),
        None => Err(raised("the host's function is gone")),
    }
}
