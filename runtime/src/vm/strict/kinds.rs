//! Kinds of values: their names, what is false, and functions of the host.

use crate::vm::shared::Body;
use crate::vm::value::Value;

/// Family of builtin numbers that stand for the host's functions.
const HOSTS: u16 = 63 << 10;

/// The value that stands for a function of the host.
pub(crate) fn host_function(index: u16) -> Value {
    Value::Builtin(HOSTS | index)
}

pub(crate) fn host_index(id: u16) -> Option<usize> {
    id.checked_sub(HOSTS).map(usize::from)
}

/// As messages name a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value.body() {
        Some(Body::Tagged(..) | Body::Tag(_)) => "tagged value",
        Some(Body::Actor(_)) => "actor reference",
        _ => type_of(value),
    }
}

/// The answer of `type(v)`.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Nothing | Value::Unbound => "nil",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Float(_) => "float",
        Value::Short(_) | Value::Text(_) => "string",
        Value::Shared(shared) => match &shared.0 {
            Body::Array(_) => "array",
            Body::Record(_) => "record",
            Body::Tagged(..) | Body::Tag(_) => "tagged",
            Body::Task(_) => "task",
            Body::Actor(_) => "actor",
            // Never seen by a program.
            Body::Walk(_) => "nil",
        },
        _ => "function",
    }
}

/// Only `nil` and `false` are false.
#[inline]
pub(crate) fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Nothing | Value::Unbound | Value::Bool(false))
}
