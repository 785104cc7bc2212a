//! Order and equality; containers are compared by what is in them, to a depth.

use super::{read_key, type_name};
use crate::bytecode::Op;
use crate::partition::Core;
use crate::vm::number;
use crate::vm::shared::Body;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use std::cmp::Ordering;
use std::rc::Rc;

/// Containers that are compared inside one another.
const COMPARE_DEPTH: usize = 128;

/// Order of two numbers or strings; `None` with NaN.
pub(crate) fn order(core: &mut Core, a: &Value, b: &Value, sign: &str) -> Result<Option<Ordering>, Fault> {
    Ok(match (a, b) {
        (Value::Int(x), Value::Int(y)) => Some(x.cmp(y)),
        (Value::Float(x), Value::Float(y)) => x.partial_cmp(y),
        (Value::Int(x), Value::Float(y)) => number::compare_int_float(*x, *y),
        (Value::Float(x), Value::Int(y)) => number::compare_int_float(*y, *x).map(Ordering::reverse),
        _ => match (a.as_text(), b.as_text()) {
            (Some(x), Some(y)) => {
                core.charge(x.len().min(y.len()) as u64 / 32)?;
                Some(x.cmp(y))
            }
            _ => {
                return Err(raised(format!(
                    "`{sign}` needs two numbers or two strings, got {} and {}",
                    type_name(a),
                    type_name(b)
                )));
            }
        },
    })
}

/// The operator that an ordering instruction was written from.
pub(crate) fn sign(op: Op) -> &'static str {
    match op {
        Op::Lt | Op::JumpLt | Op::JumpNlt | Op::JumpLtI | Op::JumpNltI => "<",
        Op::Le | Op::JumpLe | Op::JumpNle | Op::JumpLeI | Op::JumpNleI => "<=",
        Op::Gt | Op::JumpGt | Op::JumpNgt | Op::JumpGtI | Op::JumpNgtI => ">",
        _ => ">=",
    }
}

/// An ordering instruction off the fast path: whether `a < b`, or `a <= b`.
pub(crate) fn less(core: &mut Core, a: &Value, b: &Value, or_equal: bool, op: Op) -> Result<bool, Fault> {
    let sign = sign(op);
    let result = if matches!(sign, ">" | ">=") {
        order(core, b, a, sign)?.map(Ordering::reverse)
    } else {
        order(core, a, b, sign)?
    };
    Ok(match result {
        Some(Ordering::Less) => true,
        Some(Ordering::Equal) => or_equal,
        _ => false,
    })
}

/// `a == b`.
pub(crate) fn equal(core: &mut Core, a: &Value, b: &Value) -> Result<bool, Fault> {
    equal_at(core, a, b, 0)
}

fn equal_at(core: &mut Core, a: &Value, b: &Value, depth: usize) -> Result<bool, Fault> {
    Ok(match (a, b) {
        (Value::Nothing | Value::Unbound, Value::Nothing | Value::Unbound) => true,
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Int(x), Value::Int(y)) => x == y,
        (Value::Float(x), Value::Float(y)) => x == y,
        (Value::Int(x), Value::Float(y)) | (Value::Float(y), Value::Int(x)) => {
            number::compare_int_float(*x, *y) == Some(Ordering::Equal)
        }
        (Value::Builtin(x), Value::Builtin(y)) => x == y,
        (Value::Task(x), Value::Task(y)) => Rc::ptr_eq(x, y),
        (Value::Shared(x), Value::Shared(y)) => match (&x.0, &y.0) {
            (Body::Tag(p), Body::Tag(q)) => p == q,
            (Body::Tagged(p, v), Body::Tagged(q, w)) => {
                if p != q {
                    return Ok(false);
                }
                inner(core, depth)?;
                equal_at(core, v, w, depth + 1)?
            }
            (Body::Array(p), Body::Array(q)) => {
                if p.len() != q.len() {
                    return Ok(false);
                }
                for i in 0..p.len() {
                    inner(core, depth)?;
                    let (v, w) = (p.items()[i].clone(), q.items()[i].clone());
                    if !equal_at(core, &v, &w, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Body::Record(p), Body::Record(q)) => {
                if p.len() != q.len() {
                    return Ok(false);
                }
                for i in 0..p.len() {
                    inner(core, depth)?;
                    let field = p.entries().get_index(i).map(|(k, v)| (k.clone(), v.clone()));
                    let Some((key, v)) = field else { return Ok(false) };
                    read_key(core, key.as_str())?;
                    let Some(w) = q.get(key.as_str()) else { return Ok(false) };
                    if !equal_at(core, &v, &w, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Body::Task(_) | Body::Actor(_) | Body::Walk(_), _) => Rc::ptr_eq(x, y),
            _ => false,
        },
        _ => match (a.as_text(), b.as_text()) {
            (Some(x), Some(y)) => {
                core.charge(x.len().min(y.len()) as u64 / 32)?;
                x == y
            }
            _ => false,
        },
    })
}

fn inner(core: &mut Core, depth: usize) -> Result<(), Fault> {
    if depth >= COMPARE_DEPTH {
        return Err(raised("too deep to compare"));
    }
    core.charge(1)
}
