//! What the operators do when the fast path doesn't apply.

use super::compare::{Incomparable, equal};
use super::decimal::Decimal;
use super::number::big_to_float;
use super::other::{LABELS, Other, Secret};
use super::render::{self, type_name};
use super::value::{List, Text, Value};
use crate::partition::heap;
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Pow, Signed, ToPrimitive, Zero};
use std::rc::Rc;

/// An arithmetic operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arith {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `//`
    FloorDiv,
    /// `%`
    Rem,
    /// `**`
    Pow,
}

impl Arith {
    /// As written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Arith::Add => "+",
            Arith::Sub => "-",
            Arith::Mul => "*",
            Arith::Div => "/",
            Arith::FloorDiv => "//",
            Arith::Rem => "%",
            Arith::Pow => "**",
        }
    }
}

/// What an operation raises: its message.
pub(crate) type Raised<T> = Result<T, String>;

/// Largest result of an exact power or product, in bits.
const MAX_BITS: u64 = 8 << 20;

/// A text, list or bytes of this size is looked at before it is made.
const LARGE: usize = 1 << 16;

pub(crate) fn memory() -> String {
    OUT_OF_MEMORY.to_owned()
}

/// The message that the machine turns into the memory trap.
pub(crate) const OUT_OF_MEMORY: &str = "\u{0}memory";

/// In place of a message: the work was begun and there is no fuel for the rest of it.
pub(crate) const OUT_OF_FUEL: &str = "\u{0}fuel";

/// Fuel of arithmetic on integers of so many words: products grow faster than their operands, quotients with both.
fn big_work(op: Arith, x: &BigInt, y: &BigInt) -> usize {
    let words = |n: &BigInt| (n.bits() / 64) as usize + 1;
    let (long, short) = (words(x).max(words(y)), words(x).min(words(y)));
    match op {
        Arith::Add | Arith::Sub => long / 32,
        Arith::Mul => long.saturating_mul(short.isqrt()) / 8,
        Arith::Div | Arith::FloorDiv | Arith::Rem => {
            (words(x).saturating_sub(words(y)) + 1).saturating_mul(words(y)) / 8
        }
        Arith::Pow => {
            let result = y.to_usize().unwrap_or(0).saturating_mul(words(x)).min(MAX_BITS as usize / 64);
            result.saturating_mul(result.isqrt()) / 8
        }
    }
}

fn room(bytes: usize) -> Raised<()> {
    if bytes > LARGE && heap::would_pass(bytes as u64) { Err(memory()) } else { Ok(()) }
}

/// `a op b`; both are consumed, so that a text or list that nobody else holds is changed in place.
pub(crate) fn arith(op: Arith, a: Value, b: Value) -> Raised<Value> {
    match (&a, &b) {
        (Value::Int(x), Value::Int(y)) => ints(op, *x, *y),
        (Value::Float(x), Value::Float(y)) => floats(op, *x, *y),
        (Value::Int(x), Value::Float(y)) => floats(op, *x as f64, *y),
        (Value::Float(x), Value::Int(y)) => floats(op, *x, *y as f64),
        (Value::Int(_) | Value::Big(_), Value::Int(_) | Value::Big(_)) => bigs(op, &big(&a), &big(&b)),
        (Value::Big(x), Value::Float(y)) => floats(op, finite(big_to_float(&x.0))?, *y),
        (Value::Float(x), Value::Big(y)) => floats(op, *x, finite(big_to_float(&y.0))?),
        _ if op == Arith::Add => add(a, b),
        _ => other(op, &a, &b),
    }
}

fn finite(f: f64) -> Raised<f64> {
    if f.is_finite() { Ok(f) } else { Err("integer is too large for a float".into()) }
}

fn big(v: &Value) -> BigInt {
    match v {
        Value::Int(n) => BigInt::from(*n),
        Value::Big(n) => n.0.clone(),
        _ => BigInt::zero(),
    }
}

fn ints(op: Arith, x: i64, y: i64) -> Raised<Value> {
    let small = match op {
        Arith::Add => x.checked_add(y),
        Arith::Sub => x.checked_sub(y),
        Arith::Mul => x.checked_mul(y),
        Arith::Div => {
            if y == 0 {
                return Err("Division by zero".into());
            }
            const EXACT: i64 = 1 << 53;
            if (-EXACT..=EXACT).contains(&x) && (-EXACT..=EXACT).contains(&y) {
                return Ok(Value::Float(x as f64 / y as f64));
            }
            None
        }
        Arith::FloorDiv => {
            if y == 0 {
                return Err("Division by zero".into());
            }
            x.checked_div_euclid(y).map(|_| Integer::div_floor(&x, &y))
        }
        Arith::Rem => {
            if y == 0 {
                return Err("Modulo by zero".into());
            }
            if y == -1 { Some(0) } else { Some(Integer::mod_floor(&x, &y)) }
        }
        Arith::Pow => None,
    };
    match small {
        Some(n) => Ok(Value::Int(n)),
        None => bigs(op, &BigInt::from(x), &BigInt::from(y)),
    }
}

fn bigs(op: Arith, x: &BigInt, y: &BigInt) -> Raised<Value> {
    if !heap::work(big_work(op, x, y)) {
        return Err(OUT_OF_FUEL.to_owned());
    }
    Ok(Value::big(match op {
        Arith::Add => x + y,
        Arith::Sub => x - y,
        Arith::Mul => {
            if x.bits() + y.bits() > MAX_BITS {
                return Err("integer is too large".into());
            }
            x * y
        }
        Arith::Div => {
            if y.is_zero() {
                return Err("Division by zero".into());
            }
            return quotient(x, y).map(Value::Float);
        }
        Arith::FloorDiv => {
            if y.is_zero() {
                return Err("Division by zero".into());
            }
            x.div_floor(y)
        }
        Arith::Rem => {
            if y.is_zero() {
                return Err("Modulo by zero".into());
            }
            x.mod_floor(y)
        }
        Arith::Pow => return power(x, y),
    }))
}

/// The nearest double of an exact quotient.
fn quotient(x: &BigInt, y: &BigInt) -> Raised<f64> {
    if x.is_zero() {
        return Ok(if y.is_negative() { -0.0 } else { 0.0 });
    }
    // 66 significant bits and a sticky bit round like the exact value.
    let shift = y.bits() as i64 - x.bits() as i64 + 66;
    let (numerator, denominator) =
        if shift >= 0 { (x << shift, y.clone()) } else { (x.clone(), y << -shift) };
    let (q, r) = numerator.div_rem(&denominator);
    let negative = q.is_negative();
    let mut q = q.abs();
    if !r.is_zero() && q.is_even() {
        q += 1;
    }
    let f = scale(q.to_f64().unwrap_or(f64::INFINITY), -shift);
    if f.is_infinite() {
        return Err("integer division result is too large for a float".into());
    }
    Ok(if negative { -f } else { f })
}

fn scale(mut f: f64, mut exponent: i64) -> f64 {
    while exponent > 1000 {
        f *= 2f64.powi(1000);
        exponent -= 1000;
    }
    while exponent < -1000 {
        f *= 2f64.powi(-1000);
        exponent += 1000;
    }
    f * 2f64.powi(exponent as i32)
}

fn power(x: &BigInt, y: &BigInt) -> Raised<Value> {
    if y.is_negative() {
        if x.is_zero() {
            return Err("Zero cannot be raised to a negative power".into());
        }
        return floats(Arith::Pow, big_to_float(x), big_to_float(y));
    }
    if x.is_zero() || x.abs() == BigInt::from(1) {
        let one = y.is_zero() || (x.is_positive() || y.is_even()) && !x.is_zero();
        return Ok(Value::Int(if one {
            1
        } else if x.is_zero() {
            0
        } else {
            -1
        }));
    }
    let exponent = y.to_u32().filter(|e| u64::from(*e).saturating_mul(x.bits()) <= MAX_BITS);
    match exponent {
        Some(e) => Ok(Value::big(Pow::pow(x, e))),
        None => Err("integer is too large".into()),
    }
}

fn floats(op: Arith, x: f64, y: f64) -> Raised<Value> {
    Ok(Value::Float(match op {
        Arith::Add => x + y,
        Arith::Sub => x - y,
        Arith::Mul => x * y,
        Arith::Div if y == 0.0 => return Err("Division by zero".into()),
        Arith::Div => x / y,
        Arith::FloorDiv if y == 0.0 => return Err("Division by zero".into()),
        Arith::FloorDiv => float_floor_div(x, y),
        Arith::Rem if y == 0.0 => return Err("Modulo by zero".into()),
        Arith::Rem => float_mod(x, y),
        Arith::Pow => {
            if x == 0.0 && y < 0.0 {
                return Err("Zero cannot be raised to a negative power".into());
            }
            x.powf(y)
        }
    }))
}

pub(crate) fn float_mod(x: f64, y: f64) -> f64 {
    let r = x % y;
    if r != 0.0 && (r < 0.0) != (y < 0.0) {
        r + y
    } else if r == 0.0 {
        0.0f64.copysign(y)
    } else {
        r
    }
}

/// As CPython: from the remainder, so that `7 // 0.1` is 69.
fn float_floor_div(x: f64, y: f64) -> f64 {
    let r = x % y;
    let mut div = (x - r) / y;
    if r != 0.0 && (y < 0.0) != (r < 0.0) {
        div -= 1.0;
    }
    if div == 0.0 {
        return 0.0f64.copysign(x / y);
    }
    let floor = div.floor();
    if div - floor > 0.5 { floor + 1.0 } else { floor }
}

fn text_like(v: &Value) -> bool {
    matches!(v, Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Big(_)) || v.as_decimal().is_some()
}

/// `+` beyond numbers.
fn add(a: Value, b: Value) -> Raised<Value> {
    if a.as_text().is_some() {
        if let Some(right) = b.as_text() {
            return join(a, right);
        }
        if text_like(&b) {
            let right = render::display(&b);
            return join(a, &right);
        }
    }
    if b.as_text().is_some() && text_like(&a) {
        let mut left = render::display(&a);
        left.push_str(b.as_text().unwrap_or(""));
        return Ok(Value::string(left));
    }
    if let (Value::List(mut x), Value::List(y)) = (a.clone_if_list(), b.clone_if_list()) {
        drop(a);
        room((x.items().len() + y.items().len()) * 16)?;
        match Rc::get_mut(&mut x) {
            Some(list) => list.edit(|items| items.extend(y.items().iter().cloned())),
            None => {
                let mut items = Vec::with_capacity(x.items().len() + y.items().len());
                items.extend_from_slice(x.items());
                items.extend_from_slice(y.items());
                x = Rc::new(List::new(items));
            }
        }
        return Ok(Value::List(x));
    }
    other(Arith::Add, &a, &b)
}

impl Value {
    /// Only lists are worth a second handle here; anything else gives `nothing`.
    fn clone_if_list(&self) -> Value {
        match self {
            Value::List(_) => self.clone(),
            _ => Value::Nothing,
        }
    }
}

/// A text with another one after it, in place if nobody else holds it.
pub(crate) fn join(a: Value, right: &str) -> Raised<Value> {
    if let Value::Text(mut text) = a {
        room(right.len())?;
        if let Some(own) = Rc::get_mut(&mut text) {
            own.push(right);
            return Ok(Value::Text(text));
        }
        let left = Value::Text(text);
        let left = left.as_text().unwrap_or("");
        room(left.len() + right.len())?;
        let mut out = String::with_capacity(left.len() + right.len());
        out.push_str(left);
        out.push_str(right);
        return Ok(Value::Text(Rc::new(Text::new(out))));
    }
    let left = a.as_text().unwrap_or("");
    let mut out = String::with_capacity(left.len() + right.len());
    out.push_str(left);
    out.push_str(right);
    Ok(Value::string(out))
}

fn decimal(v: &Value) -> Raised<Option<std::borrow::Cow<'_, Decimal>>> {
    use std::borrow::Cow;
    let whole = |n: BigInt| Decimal::from_int(n).map(Cow::Owned).ok_or("decimal is too large").map(Some);
    Ok(match v {
        Value::Int(n) => whole(BigInt::from(*n))?,
        Value::Big(n) => whole(n.0.clone())?,
        other => other.as_decimal().map(Cow::Borrowed),
    })
}

fn other(op: Arith, a: &Value, b: &Value) -> Raised<Value> {
    if a.as_decimal().is_some() || b.as_decimal().is_some() {
        if matches!(a, Value::Float(_)) || matches!(b, Value::Float(_)) {
            return Err("cannot mix decimal and float".into());
        }
        if let (Some(x), Some(y)) = (decimal(a)?, decimal(b)?) {
            return decimals(op, &x, &y).map(Value::decimal);
        }
    }
    if let Some(Other::Foreign(f)) = a.as_other()
        && let Some(result) = f.arith(op, b, false)
    {
        return result;
    }
    if let Some(Other::Foreign(f)) = b.as_other()
        && let Some(result) = f.arith(op, a, true)
    {
        return result;
    }
    if op == Arith::Add {
        if let (Some(x), Some(y)) = (a.as_bytes(), b.as_bytes()) {
            room(x.len() + y.len())?;
            return Ok(Value::bytes([x, y].concat()));
        }
        if let Some(sealed) = taint(a, b) {
            return Ok(sealed);
        }
        let (x, y) = (type_name(a), type_name(b));
        if a.as_text().is_some() || b.as_text().is_some() {
            return Err(format!(
                "Cannot add {x} and {y} — convert it on purpose: text(x), or interpolate it"
            ));
        }
        return Err(format!("Cannot add {x} and {y}"));
    }
    Err(format!("Unsupported operation: {} {} {}", type_name(a), op.text(), type_name(b)))
}

/// Text next to a secret stays secret.
fn taint(a: &Value, b: &Value) -> Option<Value> {
    let part = |v: &Value| -> Option<(Option<String>, String)> {
        match v.as_other() {
            Some(Other::Secret(s)) => Some((Some(s.label.clone()), s.value.as_text()?.to_owned())),
            _ => (v.as_text().is_some() || text_like(v)).then(|| (None, render::display(v))),
        }
    };
    let (label_a, x) = part(a)?;
    let (label_b, y) = part(b)?;
    // Both labels, so that revealing needs the right to each.
    let label = match (label_a, label_b) {
        (Some(a), Some(b)) => {
            let mut labels: Vec<&str> = a.split(LABELS).chain(b.split(LABELS)).collect();
            labels.sort_unstable();
            labels.dedup();
            labels.join("+")
        }
        (a, b) => a.or(b)?,
    };
    Some(Value::other(Other::Secret(Secret { label, value: Value::string(x + &y) })))
}

fn decimals(op: Arith, x: &Decimal, y: &Decimal) -> Raised<Decimal> {
    match op {
        Arith::Add => x.add(y),
        Arith::Sub => x.sub(y),
        Arith::Mul => x.mul(y),
        Arith::Div | Arith::FloorDiv if y.is_zero() => Err("Division by zero".into()),
        Arith::Rem if y.is_zero() => Err("Modulo by zero".into()),
        Arith::Div => x.div(y),
        Arith::FloorDiv => x.floor_div(y),
        Arith::Rem => x.rem(y),
        Arith::Pow => {
            let exponent = y.as_integer()?.ok_or("Unsupported operation: decimal ** decimal")?;
            if exponent.is_negative() && x.is_zero() {
                return Err("Zero cannot be raised to a negative power".into());
            }
            let power = x.pow(exponent.abs().to_u32().ok_or("decimal is too large")?)?;
            if exponent.is_negative() {
                return Decimal::from_int(BigInt::from(1)).ok_or("decimal is too large")?.div(&power);
            }
            Ok(power)
        }
    }
}

/// `-v`.
pub(crate) fn negate(v: &Value) -> Raised<Value> {
    match v {
        Value::Int(n) => match n.checked_neg() {
            Some(m) => Ok(Value::Int(m)),
            None => Ok(Value::big(-BigInt::from(*n))),
        },
        Value::Float(f) => Ok(Value::Float(-f)),
        Value::Big(n) => Ok(Value::big(-&n.0)),
        _ => {
            if let Some(d) = v.as_decimal() {
                return Ok(Value::decimal(d.neg()));
            }
            if let Some(Other::Foreign(f)) = v.as_other()
                && let Some(result) = f.arith(Arith::Mul, &Value::Int(-1), false)
            {
                return result;
            }
            Err(format!("Unsupported operation: - {}", type_name(v)))
        }
    }
}

/// Whether a value is true in a condition.
pub(crate) fn truthy(v: &Value) -> bool {
    match v {
        Value::Nothing | Value::Unbound => false,
        Value::Bool(b) => *b,
        Value::Int(n) => *n != 0,
        Value::Float(f) => *f != 0.0,
        Value::Short(t) => !t.is_empty(),
        Value::List(l) => !l.items().is_empty(),
        Value::Map(m) => !m.is_empty(),
        Value::Other(o) => match &o.inner {
            Other::Bytes(b) => !b.is_empty(),
            Other::Decimal(d) => !d.is_zero(),
            Other::Foreign(f) => f.truthy(),
            _ => true,
        },
        Value::Text(_)
        | Value::Big(_)
        | Value::Record(_)
        | Value::Task(_)
        | Value::Cell(_)
        | Value::Shared(_)
        | Value::Builtin(_) => true,
    }
}

/// `x in c`.
pub(crate) fn contains(c: &Value, x: &Value) -> Raised<bool> {
    let plain = |e: Incomparable| e.0;
    match c {
        Value::List(list) => {
            for item in list.items() {
                if equal(item, x).map_err(plain)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(match key_text(x) {
            Some(key) => map.get(&key).is_some(),
            None => false,
        }),
        Value::Short(_) | Value::Text(_) => match x.as_text() {
            Some(piece) => Ok(super::search::find(c.as_text().unwrap_or(""), piece).is_some()),
            None => Err(format!("cannot look for {} in text", type_name(x))),
        },
        _ => {
            if let Some(bytes) = c.as_bytes() {
                if let Some(piece) = x.as_bytes() {
                    return Ok(memchr::memmem::find(bytes, piece).is_some());
                }
                return match x {
                    Value::Int(n) if (0..256).contains(n) => Ok(bytes.contains(&(*n as u8))),
                    _ => Err("bytes contain bytes or an integer from 0 to 255".into()),
                };
            }
            Err(format!("Unsupported operation: {} in {}", type_name(x), type_name(c)))
        }
    }
}

/// A value as a map's key: texts, and numbers by their rendering.
pub(crate) fn key_text(v: &Value) -> Option<std::borrow::Cow<'_, str>> {
    match v {
        Value::Short(_) | Value::Text(_) => v.as_text().map(std::borrow::Cow::Borrowed),
        _ if text_like(v) => Some(std::borrow::Cow::Owned(render::display(v))),
        _ => None,
    }
}
