//! Reductions: over everything, or along one axis. Lists go to the plain functions of the same names.

use super::super::{Args, Builtin, Cost, Ctx, Run, math};
use super::array::Array;
use super::{axis, taken};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;

pub(in super::super) const TABLE: &[Builtin] = &[
    Builtin::new("sum", &["x", "axis"], 1, |c, a| {
        reduced(c, a, 1, |v, _| Ok(v.iter().fold(0.0, |sum, x| sum + x)))
    })
    .named(1),
    Builtin::new("product", &["x", "axis"], 1, |c, a| reduced(c, a, 1, |v, _| Ok(v.iter().product())))
        .named(1),
    Builtin::new("mean", &["x", "axis"], 1, |c, a| reduced(c, a, 1, |v, _| mean(v))).named(1),
    Builtin::new("var", &["x", "ddof", "axis"], 1, |c, a| reduced(c, a, 2, variance)).named(1),
    Builtin::new("std", &["x", "ddof", "axis"], 1, |c, a| {
        reduced(c, a, 2, |v, ddof| variance(v, ddof).map(f64::sqrt))
    })
    .named(1),
    Builtin::new("median", &["x", "axis"], 1, |c, a| reduced(c, a, 1, |v, _| Ok(quantile(v, 0.5))))
        .named(1)
        .cost(Cost::Sort),
    Builtin::new("min", &["x"], 1, |c, a| extreme(c, a, f64::min)).variadic(),
    Builtin::new("max", &["x"], 1, |c, a| extreme(c, a, f64::max)).variadic(),
    Builtin::new("argmin", &["x", "axis"], 1, |c, a| argument(c, a, |x, best| x < best)).named(1),
    Builtin::new("argmax", &["x", "axis"], 1, |c, a| argument(c, a, |x, best| x > best)).named(1),
    Builtin::new("cumsum", &["x"], 1, cumsum),
    Builtin::new("diff", &["x", "n"], 1, diff),
];

fn mean(v: &[f64]) -> Result<f64, String> {
    if v.is_empty() {
        return Err("mean of nothing: there is no value".to_owned());
    }
    Ok(v.iter().sum::<f64>() / v.len() as f64)
}

fn variance(v: &[f64], ddof: i64) -> Result<f64, String> {
    let n = v.len() as f64 - ddof as f64;
    if n <= 0.0 {
        return Err(format!("needs more than {ddof} values, got {}", v.len()));
    }
    let mean = mean(v)?;
    Ok(v.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n)
}

fn quantile(v: &[f64], q: f64) -> f64 {
    if v.is_empty() || v.iter().any(|x| x.is_nan()) {
        return f64::NAN;
    }
    let mut sorted = v.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = q * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    low + (high - low) * at.fract()
}

/// The plain function of the same name, for lists and numbers.
fn plain(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let found = math::TABLE.iter().find(|b| b.name == args.name);
    match found.map(|b| &b.run) {
        Some(Run::Plain(run)) => run(ctx, args),
        _ => Err(args.wrong(0, "an array or a list of numbers")),
    }
}

/// What the lanes along an axis come to.
fn lanes(a: &Array, axis: usize, mut f: impl FnMut(&[f64]) -> Result<f64, String>) -> Result<Value, String> {
    let n = a.shape[axis];
    let inner: usize = a.shape[axis + 1..].iter().product();
    let outer: usize = a.shape[..axis].iter().product();
    let mut shape = a.shape.clone();
    shape.remove(axis);
    let mut data = Vec::with_capacity(outer * inner);
    let mut lane = vec![0.0; n];
    for o in 0..outer {
        for i in 0..inner {
            for (k, slot) in lane.iter_mut().enumerate() {
                *slot = a.data[(o * n + k) * inner + i];
            }
            data.push(f(&lane)?);
        }
    }
    if shape.is_empty() {
        return Ok(Value::Float(data[0]));
    }
    Ok(Array { shape, data }.value())
}

fn reduced(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    at: usize,
    f: impl Fn(&[f64], i64) -> Result<f64, String>,
) -> Result<Value, Fault> {
    let by_axis = args.optional(at).is_some();
    if args.at(0).as_foreign::<Array>().is_none() && !by_axis {
        return plain(ctx, args);
    }
    let ddof = if at == 2 && args.optional(1).is_some() { args.int(1, "ddof")? } else { 1 };
    let a = taken(ctx, args, 0)?;
    ctx.charge(a.data.len() as u64)?;
    let name = args.name;
    let f =
        |v: &[f64]| f(v, ddof).map_err(|e| if e.starts_with("needs") { format!("{name} {e}") } else { e });
    if !by_axis {
        return Ok(Value::Float(f(&a.data)?));
    }
    let axis = axis(args, at, a.shape.len())?;
    Ok(lanes(&a, axis, f)?)
}

fn extreme(ctx: &mut Ctx<'_>, args: &mut Args<'_>, pick: fn(f64, f64) -> f64) -> Result<Value, Fault> {
    if args.len() != 1 || args.at(0).as_foreign::<Array>().is_none() {
        return plain(ctx, args);
    }
    let a = taken(ctx, args, 0)?;
    ctx.charge(a.data.len() as u64)?;
    if a.data.iter().any(|x| x.is_nan()) {
        return Ok(Value::Float(f64::NAN));
    }
    match a.data.iter().copied().reduce(pick) {
        Some(best) => Ok(Value::Float(best)),
        None => Err(raised(format!("{} of nothing: there is no value", args.name))),
    }
}

fn argument(ctx: &mut Ctx<'_>, args: &mut Args<'_>, better: fn(f64, f64) -> bool) -> Result<Value, Fault> {
    let a = taken(ctx, args, 0)?;
    ctx.charge(a.data.len() as u64)?;
    let name = args.name;
    let place = |v: &[f64]| {
        let mut best = None;
        for (i, x) in v.iter().enumerate() {
            match best {
                Some((_, b)) if x.is_nan() && !f64::is_nan(b) => best = Some((i, *x)),
                Some((_, b)) if better(*x, b) => best = Some((i, *x)),
                None => best = Some((i, *x)),
                Some(_) => {}
            }
        }
        best.map(|(i, _)| i as f64).ok_or_else(|| format!("{name} of nothing: there is no value"))
    };
    if args.optional(1).is_none() {
        return Ok(Value::Int(place(&a.data)? as i64));
    }
    let axis = axis(args, 1, a.shape.len())?;
    Ok(match lanes(&a, axis, place)? {
        Value::Float(f) => Value::Int(f as i64),
        v => v,
    })
}

fn cumsum(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let a = taken(ctx, args, 0)?;
    ctx.charge(a.data.len() as u64)?;
    let mut total = 0.0;
    let data = a.data.iter().map(|x| {
        total += x;
        total
    });
    Ok(Array::flat(data.collect()).value())
}

fn diff(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut a = taken(ctx, args, 0)?;
    let n = if args.optional(1).is_some() { args.int(1, "n")? } else { 1 };
    let Some(last) = a.shape.last().copied() else {
        return Err(raised("diff: a 0-d array has no differences"));
    };
    if n < 0 {
        return Err(raised("diff: n must not be negative"));
    }
    for step in 0..(n as u64).min(last as u64) {
        ctx.charge(a.data.len() as u64)?;
        let width = last - step as usize;
        let mut data = Vec::with_capacity(a.data.len());
        for lane in a.data.chunks(width) {
            data.extend(lane.windows(2).map(|w| w[1] - w[0]));
        }
        if let Some(end) = a.shape.last_mut() {
            *end = width - 1;
        }
        a.data = data;
    }
    Ok(a.value())
}
