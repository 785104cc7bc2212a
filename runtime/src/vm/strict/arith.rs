//! Arithmetic: integers are checked, and never become floats by themselves.

use super::type_name;
use crate::vm::ops::Arith;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;

/// `a op b`.
pub(crate) fn arith(op: Arith, a: &Value, b: &Value) -> Result<Value, Fault> {
    let float = |v: &Value| match v {
        Value::Int(n) => Some(*n as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    };
    let (Some(x), Some(y)) = (float(a), float(b)) else {
        let strings =
            matches!(a, Value::Short(_) | Value::Text(_)) || matches!(b, Value::Short(_) | Value::Text(_));
        let hint = if op == Arith::Add && strings { "; join strings with `..`" } else { "" };
        return Err(raised(format!(
            "`{}` needs two numbers, got {} and {}{hint}",
            op.text(),
            type_name(a),
            type_name(b)
        )));
    };
    if matches!(op, Arith::Div | Arith::FloorDiv | Arith::Rem) && y == 0.0 {
        return Err(raised("division by zero"));
    }
    if let (Value::Int(p), Value::Int(q)) = (a, b)
        && op != Arith::Div
    {
        let result = match op {
            Arith::Add => p.checked_add(*q),
            Arith::Sub => p.checked_sub(*q),
            Arith::Mul => p.checked_mul(*q),
            Arith::FloorDiv => p.checked_div(*q).map(|n| n - i64::from(p % q != 0 && (*p < 0) != (*q < 0))),
            _ => Some(p.checked_rem(*q).map_or(0, |r| if r != 0 && (r < 0) != (*q < 0) { r + q } else { r })),
        };
        return result.map(Value::Int).ok_or_else(|| overflow(op.text()));
    }
    Ok(Value::Float(match op {
        Arith::Add => x + y,
        Arith::Sub => x - y,
        Arith::Mul => x * y,
        Arith::Div => x / y,
        Arith::FloorDiv => (x / y).floor(),
        _ => {
            let r = x % y;
            if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
        }
    }))
}

fn overflow(sign: &str) -> Fault {
    raised(format!("integer overflow in `{sign}`"))
}

/// `-a`.
pub(crate) fn negate(a: &Value) -> Result<Value, Fault> {
    match a {
        Value::Int(n) => n.checked_neg().map(Value::Int).ok_or_else(|| overflow("-")),
        Value::Float(f) => Ok(Value::Float(-f)),
        other => Err(raised(format!("`-` needs a number, got {}", type_name(other)))),
    }
}
