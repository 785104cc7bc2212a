//! Math on numbers, and reductions over lists.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::compare::{numbers, order};
use crate::vm::decimal::{Decimal, Rounding};
use crate::vm::number::{big_to_float, float_to_big};
use crate::vm::ops::{Arith, arith, negate};
use crate::vm::render::{inside, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::Signed;
use std::cmp::Ordering;

macro_rules! float {
    ($name:literal, $f:expr) => {
        Builtin::new($name, &["x"], 1, |_, a| {
            let f: fn(f64) -> f64 = $f;
            if let Some(array) = super::arrays::mapped(a, f) {
                return Ok(array);
            }
            Ok(Value::Float(f(near(a, 0)?)))
        })
        .cost(Cost::Flat)
    };
}

macro_rules! float2 {
    ($name:literal, $a:literal, $b:literal, $f:expr) => {
        Builtin::new($name, &[$a, $b], 2, |_, a| {
            let f: fn(f64, f64) -> f64 = $f;
            Ok(Value::Float(f(near(a, 0)?, near(a, 1)?)))
        })
        .cost(Cost::Flat)
    };
}

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("floor", &["x"], 1, |_, a| whole(a, Rounding::Floor)).cost(Cost::Flat),
    Builtin::new("ceil", &["x"], 1, |_, a| whole(a, Rounding::Ceil)).cost(Cost::Flat),
    Builtin::new("trunc", &["x"], 1, |_, a| whole(a, Rounding::Trunc)).cost(Cost::Flat),
    Builtin::new("round", &["x"], 1, |_, a| whole(a, Rounding::HalfEven)).cost(Cost::Flat),
    Builtin::new("round_to", &["x", "n"], 2, round_to).cost(Cost::Flat),
    Builtin::new("abs", &["x"], 1, abs).cost(Cost::Flat),
    Builtin::new("sign", &["x"], 1, sign).cost(Cost::Flat),
    Builtin::new("min", &["x"], 1, |_, a| extreme(a, Ordering::Less)).variadic(),
    Builtin::new("max", &["x"], 1, |_, a| extreme(a, Ordering::Greater)).variadic(),
    Builtin::new("clamp", &["x", "low", "high"], 3, clamp).cost(Cost::Flat),
    float!("sqrt", f64::sqrt),
    float!("cbrt", f64::cbrt),
    float2!("hypot", "x", "y", f64::hypot),
    Builtin::new("pow", &["x", "y"], 2, |_, a| {
        let (x, y) = (a.take(0), a.take(1));
        arith(Arith::Pow, x, y).map_err(Fault::from)
    })
    .cost(Cost::Flat),
    float!("exp", f64::exp),
    float!("ln", f64::ln),
    float!("log10", f64::log10),
    float!("log2", f64::log2),
    float2!("log_base", "x", "base", |x, b| x.ln() / b.ln()),
    float!("sin", f64::sin),
    float!("cos", f64::cos),
    float!("tan", f64::tan),
    float!("asin", f64::asin),
    float!("acos", f64::acos),
    float!("atan", f64::atan),
    float2!("atan2", "y", "x", f64::atan2),
    float!("radians", f64::to_radians),
    float!("degrees", f64::to_degrees),
    float!("sinh", f64::sinh),
    float!("cosh", f64::cosh),
    float!("tanh", f64::tanh),
    float!("asinh", f64::asinh),
    float!("acosh", f64::acosh),
    float!("atanh", f64::atanh),
    Builtin::new("gcd", &["a", "b"], 2, |c, a| two_ints(c, a, |x, y| x.gcd(y))).cost(Cost::Flat),
    Builtin::new("lcm", &["a", "b"], 2, |c, a| two_ints(c, a, |x, y| x.lcm(y))).cost(Cost::Flat),
    Builtin::new("factorial", &["n"], 1, factorial).cost(Cost::Own),
    Builtin::new("is_nan", &["x"], 1, |_, a| Ok(a.float(0)?.is_nan().into())).cost(Cost::Flat),
    Builtin::new("is_infinite", &["x"], 1, |_, a| Ok(a.float(0)?.is_infinite().into())).cost(Cost::Flat),
    Builtin::new("is_finite", &["x"], 1, |_, a| Ok(a.float(0)?.is_finite().into())).cost(Cost::Flat),
    float!("gamma", libm::tgamma),
    float!("lgamma", libm::lgamma),
    float!("erf", libm::erf),
    float!("erfc", libm::erfc),
    float2!("beta", "a", "b", |a, b| (libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b)).exp()),
    Builtin::new("sum", &["list"], 1, |_, a| sum(a, Arith::Add, Value::Int(0))),
    Builtin::new("product", &["list"], 1, |_, a| sum(a, Arith::Mul, Value::Int(1))),
    Builtin::new("mean", &["list"], 1, mean),
    Builtin::new("median", &["list"], 1, |_, a| quantile_of(a, 0.5)).cost(Cost::Sort),
    Builtin::new("var", &["list", "ddof"], 1, |_, a| Ok(Value::Float(variance(a)?))).named(1),
    Builtin::new("std", &["list", "ddof"], 1, |_, a| Ok(Value::Float(variance(a)?.sqrt()))).named(1),
    Builtin::new("quantile", &["list", "q"], 2, |_, a| {
        let q = a.float(1)?;
        quantile_of(a, q)
    })
    .cost(Cost::Sort),
    Builtin::new("percentile", &["list", "p"], 2, |_, a| {
        let q = a.float(1)? / 100.0;
        quantile_of(a, q)
    })
    .cost(Cost::Sort),
    Builtin::new("histogram", &["list", "bins"], 1, histogram).cost(Cost::Own),
];

/// A number as a double; an integer that is too large for one isn't taken for infinity.
fn near(args: &Args<'_>, i: usize) -> Result<f64, Fault> {
    let f = args.float(i)?;
    if f.is_infinite() && matches!(args.at(i), Value::Big(_)) {
        return Err(raised(format!("{}: the integer is too large for a float", args.name)));
    }
    Ok(f)
}

fn whole(args: &mut Args<'_>, how: Rounding) -> Result<Value, Fault> {
    match args.at(0) {
        Value::Int(_) | Value::Big(_) => Ok(args.take(0)),
        Value::Float(f) => {
            if !f.is_finite() {
                return Err(raised(format!("{}: {} is not finite", args.name, inside(args.at(0)))));
            }
            let rounded = match how {
                Rounding::Floor => f.floor(),
                Rounding::Ceil => f.ceil(),
                Rounding::Trunc => f.trunc(),
                Rounding::HalfEven => f.round_ties_even(),
            };
            if rounded.abs() < 9e18 {
                return Ok(Value::Int(rounded as i64));
            }
            Ok(float_to_big(rounded).map_or(Value::Nothing, Value::big))
        }
        v => match v.as_decimal() {
            Some(d) => Ok(Value::big(d.whole(how)?)),
            None => Err(args.wrong(0, "a number")),
        },
    }
}

fn round_to(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let n = args.int(1, "n")?;
    if !(-400..=400).contains(&n) {
        return Err(raised(format!("round_to: n must be from -400 to 400, got {n}")));
    }
    if let Some(d) = args.at(0).as_decimal() {
        if n >= 0 {
            return Ok(Value::decimal(d.round_to(n as u32)?));
        }
        d.pay_cut()?;
        let ten = BigInt::from(10);
        let (unit, scale) = (ten.pow((-n) as u32), ten.pow(d.scale));
        let units = nearest(&d.digits, &(&unit * scale));
        let rounded = Decimal::from_int(units * unit).ok_or_else(|| raised("decimal is too large"))?;
        return Ok(Value::decimal(rounded));
    }
    let whole = match args.at(0) {
        Value::Int(i) => Some(BigInt::from(*i)),
        Value::Big(big) => Some(big.0.clone()),
        _ => None,
    };
    if let Some(whole) = whole {
        if n >= 0 {
            return Ok(args.take(0));
        }
        let unit = BigInt::from(10).pow((-n) as u32);
        return Ok(Value::big(nearest(&whole, &unit) * unit));
    }
    let f = args.float(0)?;
    if !f.is_finite() || n > 17 {
        return Ok(Value::Float(f));
    }
    if n >= 0 {
        // The digits of the exact binary value decide, as in Python.
        return Ok(Value::Float(format!("{f:.*}", n as usize).parse().unwrap_or(f)));
    }
    // The largest double is below half of 10^309.
    if n < -308 {
        return Ok(Value::Float(0.0_f64.copysign(f)));
    }
    // Read as written: a power that is multiplied up is off by some digits.
    let unit: f64 = format!("1e{}", -n).parse().unwrap_or(f64::INFINITY);
    Ok(Value::Float((f / unit).round_ties_even() * unit))
}

/// `n / unit`, rounded to the nearest whole number, a tie to the even one.
fn nearest(n: &BigInt, unit: &BigInt) -> BigInt {
    let (below, rest) = n.div_mod_floor(unit);
    let twice: BigInt = rest * 2;
    let up = match twice.cmp(unit) {
        Ordering::Less => false,
        Ordering::Equal => below.is_odd(),
        Ordering::Greater => true,
    };
    if up { below + 1 } else { below }
}

pub(super) fn abs(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if let Some(array) = super::arrays::mapped(args, f64::abs) {
        return Ok(array);
    }
    let v = args.take(0);
    match &v {
        Value::Float(f) => Ok(Value::Float(f.abs())),
        Value::Int(n) if *n >= 0 => Ok(v),
        Value::Int(_) => Ok(negate(&v)?),
        Value::Big(n) => Ok(Value::big(n.0.abs())),
        _ => match v.as_decimal() {
            Some(d) if d.digits.is_negative() => Ok(Value::decimal(d.neg())),
            Some(_) => Ok(v),
            None => Err(raised(format!("abs expects a number, got {}", type_name(&v)))),
        },
    }
}

fn sign(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.at(0) {
        Value::Float(f) if f.is_nan() => Ok(Value::Float(f64::NAN)),
        v => match numbers(v, &Value::Int(0)) {
            Ok(order) if crate::vm::compare::is_number(v) => Ok(Value::Int(match order {
                Some(Ordering::Less) => -1,
                Some(Ordering::Greater) => 1,
                _ => 0,
            })),
            _ => Err(args.wrong(0, "a number")),
        },
    }
}

fn extreme(args: &mut Args<'_>, wanted: Ordering) -> Result<Value, Fault> {
    let name = args.name;
    let list = match &*args.values {
        [Value::List(list)] => Some(list.clone()),
        _ => None,
    };
    let items: &[Value] = match &list {
        Some(list) => list.items(),
        None => args.values,
    };
    let mut best: Option<&Value> = None;
    for item in items.iter().filter(|v| !v.is_nothing()) {
        if matches!(item, Value::Float(f) if f.is_nan()) {
            return Ok(item.clone());
        }
        if matches!(item, Value::List(_) | Value::Map(_) | Value::Bool(_)) {
            return Err(raised(format!("{name} expects numbers, texts or dates, got {}", type_name(item))));
        }
        best = match best {
            None => Some(item),
            Some(b) if order(item, b)? == Some(wanted) => Some(item),
            other => other,
        };
    }
    match best {
        Some(best) => Ok(best.clone()),
        None => Err(raised(format!("{name} of nothing: there is no value"))),
    }
}

fn clamp(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (x, low, high) = (args.take(0), args.take(1), args.take(2));
    if order(&low, &high)? == Some(Ordering::Greater) {
        return Err(raised("clamp: low is above high"));
    }
    if order(&x, &low)? == Some(Ordering::Less) {
        return Ok(low);
    }
    if order(&x, &high)? == Some(Ordering::Greater) {
        return Ok(high);
    }
    Ok(x)
}

fn big_of(args: &Args<'_>, i: usize) -> Result<BigInt, Fault> {
    match args.at(i) {
        Value::Int(n) => Ok(BigInt::from(*n)),
        Value::Big(n) => Ok(n.0.clone()),
        Value::Float(f) => float_to_big(*f).ok_or_else(|| args.wrong(i, "an integer")),
        _ => Err(args.wrong(i, "an integer")),
    }
}

fn two_ints(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    f: fn(&BigInt, &BigInt) -> BigInt,
) -> Result<Value, Fault> {
    let (a, b) = (big_of(args, 0)?, big_of(args, 1)?);
    // Bit by bit of the larger one, each step as long as the numbers are.
    let words = a.bits().max(b.bits()) / 64;
    ctx.charge(words.saturating_mul(words))?;
    Ok(Value::big(f(&a, &b)))
}

fn factorial(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let n = args.int(0, "n")?;
    if n < 0 {
        return Err(raised("factorial expects an integer of at least 0"));
    }
    if n > 20_000 {
        return Err(raised("factorial: the result is too large (n is at most 20000)"));
    }
    ctx.charge((n * n / 64) as u64 + n as u64)?;
    let mut out = BigInt::from(1);
    for k in 2..=n {
        out *= k;
    }
    Ok(Value::big(out))
}

/// The numbers of a list, `nothing` skipped.
fn floats(args: &Args<'_>) -> Result<Vec<f64>, Fault> {
    let mut out = Vec::new();
    for item in args.list(0)? {
        out.push(match item {
            Value::Nothing => continue,
            Value::Int(n) => *n as f64,
            Value::Float(f) => *f,
            Value::Big(n) => big_to_float(&n.0),
            v => match v.as_decimal() {
                Some(d) => d.to_f64(),
                None => {
                    return Err(raised(format!(
                        "{} expects numbers, got {} inside the list",
                        args.name,
                        type_name(v)
                    )));
                }
            },
        });
    }
    Ok(out)
}

fn sum(args: &mut Args<'_>, op: Arith, start: Value) -> Result<Value, Fault> {
    let mut total = start;
    for item in args.list(0)? {
        if item.is_nothing() {
            continue;
        }
        if !crate::vm::compare::is_number(item) && type_name(item) != "duration" {
            return Err(raised(format!(
                "{} expects numbers, got {} inside the list",
                args.name,
                type_name(item)
            )));
        }
        // Durations add up from the first one; there is none that equals the number 0.
        let first = matches!(total, Value::Int(0)) && type_name(item) == "duration" && op == Arith::Add;
        total = if first { item.clone() } else { arith(op, total, item.clone())? };
    }
    Ok(total)
}

fn mean(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let count = args.list(0)?.iter().filter(|v| !v.is_nothing()).count();
    if count == 0 {
        return Err(raised("mean of nothing: there is no value"));
    }
    let total = sum(args, Arith::Add, Value::Int(0))?;
    Ok(arith(Arith::Div, total, Value::from(count))?)
}

fn variance(args: &mut Args<'_>) -> Result<f64, Fault> {
    let ddof = if args.optional(1).is_some() { args.int(1, "ddof")? } else { 1 };
    let values = floats(args)?;
    let n = values.len() as f64;
    if n - ddof as f64 <= 0.0 {
        return Err(raised(format!("{} needs more than {ddof} values, got {}", args.name, values.len())));
    }
    let mean = values.iter().sum::<f64>() / n;
    Ok(values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - ddof as f64))
}

fn quantile_of(args: &mut Args<'_>, q: f64) -> Result<Value, Fault> {
    if !(0.0..=1.0).contains(&q) {
        return Err(raised(format!("{} expects a share from 0 to 1", args.name)));
    }
    let mut values = floats(args)?;
    if values.is_empty() {
        return Err(raised(format!("{} of nothing: there is no value", args.name)));
    }
    if values.iter().any(|v| v.is_nan()) {
        return Ok(Value::Float(f64::NAN));
    }
    values.sort_by(f64::total_cmp);
    let at = q * (values.len() - 1) as f64;
    let (low, high) = (values[at.floor() as usize], values[at.ceil() as usize]);
    let result = low + (high - low) * at.fract();
    let exact =
        args.name == "median" && args.list(0)?.iter().all(|v| matches!(v, Value::Int(_) | Value::Nothing));
    if exact && result.fract() == 0.0 && values.len() % 2 == 1 {
        return Ok(Value::Int(result as i64));
    }
    Ok(Value::Float(result))
}

fn histogram(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let bins = if args.optional(1).is_some() { args.int(1, "bins")? } else { 10 };
    if !(1..=1_000_000).contains(&bins) {
        return Err(raised(format!("histogram: bins must be from 1 to 1000000, got {bins}")));
    }
    let values = floats(args)?;
    ctx.charge(values.len() as u64 + bins as u64)?;
    if values.iter().any(|v| !v.is_finite()) {
        return Err(raised("histogram expects finite numbers"));
    }
    let mut low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let mut high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.is_empty() {
        (low, high) = (0.0, 1.0);
    } else if low == high {
        low -= 0.5;
        high += 0.5;
    }
    let mut counts = vec![0i64; bins as usize];
    for v in &values {
        let at = ((v - low) / (high - low) * bins as f64) as usize;
        counts[at.min(bins as usize - 1)] += 1;
    }
    let edges = (0..=bins).map(|i| Value::Float(low + (high - low) * i as f64 / bins as f64)).collect();
    Ok(Value::record([
        ("counts", Value::list(counts.into_iter().map(Value::Int).collect())),
        ("edges", Value::list(edges)),
    ]))
}
