//! Equality and order. Equality is iterative; order recurses to a bounded depth.

use super::number::{compare_big_float, compare_int_float};
use super::other::Other;
use super::render::type_name;
use super::value::Value;
use crate::partition::heap;
use std::cmp::Ordering;
use std::rc::Rc;

/// Lists inside one another that can be ordered.
const ORDER_DEPTH: u32 = 200;

/// Why two values can't be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomparable(pub String);

impl Incomparable {
    /// There is no fuel to go on.
    fn spent() -> Self {
        Self(super::ops::OUT_OF_FUEL.to_owned())
    }
}

/// Pays for looking at so many elements.
fn pay(elements: usize) -> Result<(), Incomparable> {
    if heap::work(elements) { Ok(()) } else { Err(Incomparable::spent()) }
}

/// Pays for comparing two texts.
fn pay_texts(a: &str, b: &str) -> Result<(), Incomparable> {
    let bytes = a.len().min(b.len());
    if bytes < 32 { Ok(()) } else { pay(bytes / 32) }
}

/// Whether two values are equal.
///
/// # Errors
/// A decimal was compared with a float, or the fuel is used up.
pub fn equal(a: &Value, b: &Value) -> Result<bool, Incomparable> {
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => Ok(x == y),
        (Value::Short(x), Value::Short(y)) => Ok(x == y),
        _ => equal_slow(a, b),
    }
}

fn equal_slow(a: &Value, b: &Value) -> Result<bool, Incomparable> {
    pay(1)?;
    let mut todo = vec![(a, b)];
    while let Some((a, b)) = todo.pop() {
        let same = match (a, b) {
            (Value::List(x), Value::List(y)) => {
                if Rc::ptr_eq(x, y) && x.items().iter().all(|v| !matches!(v, Value::Float(_)) && !v.is_heap())
                {
                    true
                } else if x.items().len() == y.items().len() {
                    pay(x.items().len())?;
                    todo.extend(x.items().iter().zip(y.items()).rev());
                    true
                } else {
                    false
                }
            }
            (Value::Map(x), Value::Map(y)) => {
                if x.len() != y.len() {
                    return Ok(false);
                }
                pay(x.len())?;
                for (key, value) in x.entries() {
                    match y.get(key.as_str()) {
                        Some(other) => todo.push((value, other)),
                        None => return Ok(false),
                    }
                }
                true
            }
            (Value::Record(x), Value::Record(y)) => {
                let same = (Rc::ptr_eq(&x.shape, &y.shape)
                    || (x.shape.name == y.shape.name
                        && x.shape.fields == y.shape.fields
                        && x.shape.variants == y.shape.variants))
                    && x.variant == y.variant
                    && x.values.len() == y.values.len();
                if same {
                    pay(x.values.len())?;
                    todo.extend(x.values.iter().zip(&y.values).rev());
                }
                same
            }
            _ => scalar_equal(a, b)?,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn scalar_equal(a: &Value, b: &Value) -> Result<bool, Incomparable> {
    Ok(match (a, b) {
        (Value::Nothing, Value::Nothing) => true,
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Bool(x), y) if is_number(y) => return scalar_equal(&Value::Int(i64::from(*x)), y),
        (x, Value::Bool(y)) if is_number(x) => return scalar_equal(x, &Value::Int(i64::from(*y))),
        (Value::Short(_) | Value::Text(_), Value::Short(_) | Value::Text(_)) => {
            let (x, y) = (a.as_text().unwrap_or(""), b.as_text().unwrap_or(""));
            pay_texts(x, y)?;
            x == y
        }
        (Value::Builtin(x), Value::Builtin(y)) => x == y,
        (Value::Task(x), Value::Task(y)) => Rc::ptr_eq(x, y),
        (Value::Other(x), Value::Other(y)) => match (&x.inner, &y.inner) {
            (Other::Bytes(p), Other::Bytes(q)) => p == q,
            (Other::Decimal(p), Other::Decimal(q)) => p.compare(q).map_err(Incomparable)? == Ordering::Equal,
            (Other::Secret(p), Other::Secret(q)) => constant_time(&p.value, &q.value),
            (Other::Type(p) | Other::Enum(p), Other::Type(q) | Other::Enum(q)) => Rc::ptr_eq(p, q),
            (Other::Maker(p, i), Other::Maker(q, j)) => Rc::ptr_eq(p, q) && i == j,
            (Other::Module(p), Other::Module(q)) => Rc::ptr_eq(p, q),
            (Other::Foreign(p), Other::Foreign(q)) => p.equals(q.as_ref()),
            _ => false,
        },
        (x, y) if is_number(x) && is_number(y) => numbers(x, y)? == Some(Ordering::Equal),
        _ => false,
    })
}

/// Looks at every byte whatever the outcome.
fn constant_time(a: &Value, b: &Value) -> bool {
    let bytes = |v: &Value| {
        v.as_text().map_or_else(|| v.as_bytes().map(<[u8]>::to_vec), |t| Some(t.as_bytes().to_vec()))
    };
    match (bytes(a), bytes(b)) {
        (Some(x), Some(y)) => {
            let mut difference = u8::from(x.len() != y.len());
            for (p, q) in x.iter().zip(&y) {
                difference |= p ^ q;
            }
            difference == 0
        }
        _ => false,
    }
}

pub(crate) fn is_number(v: &Value) -> bool {
    matches!(v, Value::Int(_) | Value::Float(_) | Value::Big(_)) || v.as_decimal().is_some()
}

/// Order of two numbers by exact value; `None` with NaN.
pub(crate) fn numbers(a: &Value, b: &Value) -> Result<Option<Ordering>, Incomparable> {
    use num_bigint::BigInt;
    use std::borrow::Cow;
    Ok(match (a, b) {
        (Value::Int(x), Value::Int(y)) => Some(x.cmp(y)),
        (Value::Float(x), Value::Float(y)) => x.partial_cmp(y),
        (Value::Int(x), Value::Float(y)) => compare_int_float(*x, *y),
        (Value::Float(x), Value::Int(y)) => compare_int_float(*y, *x).map(Ordering::reverse),
        (Value::Big(x), Value::Big(y)) => Some(x.0.cmp(&y.0)),
        (Value::Big(x), Value::Int(y)) => Some(x.0.cmp(&BigInt::from(*y))),
        (Value::Int(x), Value::Big(y)) => Some(BigInt::from(*x).cmp(&y.0)),
        (Value::Big(x), Value::Float(y)) => compare_big_float(&x.0, *y),
        (Value::Float(x), Value::Big(y)) => compare_big_float(&y.0, *x).map(Ordering::reverse),
        _ => {
            // An integer of any length: it is compared, not made a decimal.
            fn parts(v: &Value) -> Option<(Cow<'_, BigInt>, u32)> {
                match v {
                    Value::Int(n) => Some((Cow::Owned(BigInt::from(*n)), 0)),
                    Value::Big(n) => Some((Cow::Borrowed(&n.0), 0)),
                    other => other.as_decimal().map(|d| (Cow::Borrowed(&d.digits), d.scale)),
                }
            }
            match (parts(a), parts(b)) {
                (Some((x, p)), Some((y, q))) => {
                    Some(super::decimal::compare(&x, p, &y, q).map_err(Incomparable)?)
                }
                _ => return Err(Incomparable("cannot mix decimal and float".into())),
            }
        }
    })
}

/// Order for `<` and friends; `None` with NaN.
///
/// # Errors
/// The two can't be ordered.
pub fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, Incomparable> {
    ordered(a, b, 0)
}

fn ordered(a: &Value, b: &Value, depth: u32) -> Result<Option<Ordering>, Incomparable> {
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => Ok(Some(x.cmp(y))),
        (Value::Bool(x), Value::Bool(y)) => Ok(Some(x.cmp(y))),
        (Value::Short(_) | Value::Text(_), Value::Short(_) | Value::Text(_)) => {
            // UTF-8 keeps the order of code points.
            let (x, y) = (a.as_text().unwrap_or(""), b.as_text().unwrap_or(""));
            pay_texts(x, y)?;
            Ok(Some(x.cmp(y)))
        }
        (Value::List(x), Value::List(y)) => {
            if depth > ORDER_DEPTH {
                return Err(Incomparable("lists are nested too deeply to be ordered".into()));
            }
            for (p, q) in x.items().iter().zip(y.items()) {
                pay(1)?;
                match ordered(p, q, depth + 1)? {
                    Some(Ordering::Equal) => {}
                    other => return Ok(other),
                }
            }
            Ok(Some(x.items().len().cmp(&y.items().len())))
        }
        (Value::Other(x), Value::Other(y)) => match (&x.inner, &y.inner) {
            (Other::Bytes(p), Other::Bytes(q)) => Ok(Some(p.cmp(q))),
            (Other::Decimal(p), Other::Decimal(q)) => p.compare(q).map(Some).map_err(Incomparable),
            (Other::Foreign(p), Other::Foreign(q)) if p.type_name() == q.type_name() => {
                p.compare(q.as_ref()).map(Some).ok_or_else(|| {
                    if p.type_name() == "complex" {
                        Incomparable("complex numbers are not ordered".into())
                    } else {
                        unordered(a, b)
                    }
                })
            }
            _ => Err(unordered(a, b)),
        },
        (x, y) if is_number(x) && is_number(y) => numbers(x, y),
        _ => Err(unordered(a, b)),
    }
}

fn unordered(a: &Value, b: &Value) -> Incomparable {
    if matches!(a, Value::Map(_)) && matches!(b, Value::Map(_)) {
        return Incomparable("map has no order".into());
    }
    Incomparable(format!("cannot order {} and {} together", type_name(a), type_name(b)))
}

/// Order of `sort`: total; NaN after every number and `nothing` last, whichever the direction.
///
/// # Errors
/// The two can't be ordered.
pub fn sort_order(a: &Value, b: &Value, descending: bool) -> Result<Ordering, Incomparable> {
    let rank = |v: &Value| match v {
        Value::Nothing | Value::Unbound => 2,
        Value::Float(f) if f.is_nan() => 1,
        _ => 0,
    };
    let (x, y) = (rank(a), rank(b));
    if x != 0 || y != 0 {
        return Ok(x.cmp(&y));
    }
    if matches!(a, Value::Map(_)) || matches!(a, Value::Task(_)) {
        return Err(Incomparable(format!("{} has no order", type_name(a))));
    }
    let order = order(a, b)?.unwrap_or(Ordering::Equal);
    Ok(if descending { order.reverse() } else { order })
}
