//! N-dimensional arrays of doubles: making and shaping them.

mod array;
mod linear;
mod reduce;

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::render::{inside, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use array::{Array, MAX_AXES, count, place, room, scalar};

pub(super) use array::bare;
pub(super) use linear::TABLE as LINEAR;
pub(super) use reduce::TABLE as REDUCTIONS;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("array", &["values"], 1, |c, a| Ok(taken(c, a, 0)?.value())).cost(Cost::Own),
    Builtin::new("zeros", &["shape"], 1, |c, a| filled(c, a, 0.0)).cost(Cost::Own),
    Builtin::new("ones", &["shape"], 1, |c, a| filled(c, a, 1.0)).cost(Cost::Own),
    Builtin::new("full", &["shape", "value"], 2, |c, a| {
        let v = a.float(1)?;
        filled(c, a, v)
    })
    .cost(Cost::Own),
    Builtin::new("arange", &["start", "stop", "step"], 1, arange).cost(Cost::Own),
    Builtin::new("linspace", &["start", "stop", "n"], 2, linspace).cost(Cost::Own),
    Builtin::new("identity", &["n"], 1, identity).cost(Cost::Own),
    Builtin::new("eye", &["n"], 1, identity).cost(Cost::Own).replaced_by("identity"),
    Builtin::new("shape", &["array"], 1, |c, a| {
        Ok(Value::list(taken(c, a, 0)?.shape.into_iter().map(Value::from).collect()))
    })
    .cost(Cost::Own),
    Builtin::new("ndim", &["array"], 1, |c, a| Ok(Value::from(taken(c, a, 0)?.shape.len()))).cost(Cost::Own),
    Builtin::new("size", &["array"], 1, |c, a| Ok(Value::from(taken(c, a, 0)?.data.len()))).cost(Cost::Own),
    Builtin::new("reshape", &["array", "shape"], 2, reshape).cost(Cost::Own),
    Builtin::new("transpose", &["array", "axes"], 1, transpose).cost(Cost::Own),
    Builtin::new("at", &["array", "index"], 2, at).variadic().cost(Cost::Own),
    Builtin::new("to_list", &["array"], 1, |c, a| Ok(taken(c, a, 0)?.lists())).cost(Cost::Own),
    Builtin::new("concat", &["arrays", "axis"], 1, concat).named(1).cost(Cost::Own),
    Builtin::new("stack", &["arrays", "axis"], 1, stack).named(1).cost(Cost::Own),
];

/// An argument as an array: one, a number, or lists of numbers of one shape.
fn taken(ctx: &mut Ctx<'_>, args: &Args<'_>, i: usize) -> Result<Array, Fault> {
    let v = args.at(i);
    if let Some(a) = v.as_foreign::<Array>() {
        ctx.charge(a.data.len() as u64 / 8)?;
        room(a.data.len())?;
        return Ok(Array { shape: a.shape.clone(), data: a.data.clone() });
    }
    if let Some(a) = scalar(v).filter(|_| !matches!(v, Value::Bool(_))) {
        return Ok(a);
    }
    let Value::List(list) = v else { return Err(args.wrong(i, "an array, a number or lists of numbers")) };
    let mut shape = Vec::new();
    let mut level = v;
    while let Value::List(inner) = level {
        if shape.len() >= MAX_AXES {
            return Err(raised(format!("{}: more than {MAX_AXES} axes", args.name)));
        }
        shape.push(inner.items().len());
        match inner.items().first() {
            Some(first) => level = first,
            None => break,
        }
    }
    let total = count(&shape)?;
    ctx.charge(total as u64)?;
    room(total)?;
    let mut data = Vec::with_capacity(total.min(1 << 20));
    gather(args.name, list.items(), &shape, &mut data)?;
    Ok(Array { shape, data })
}

/// Its depth is the shape's.
fn gather(name: &str, items: &[Value], shape: &[usize], out: &mut Vec<f64>) -> Result<(), Fault> {
    if items.len() != shape[0] {
        return Err(raised(format!("{name}: rows of different lengths ({} and {})", shape[0], items.len())));
    }
    for item in items {
        match (item, shape.len()) {
            (Value::List(inner), n) if n > 1 => gather(name, inner.items(), &shape[1..], out)?,
            (Value::Nothing, 1) => out.push(f64::NAN),
            (v, 1) => match (scalar(v), v.as_decimal()) {
                (Some(s), _) => out.extend(s.data),
                (None, Some(d)) => out.push(d.to_f64()),
                _ => return Err(raised(format!("{name} expects numbers, got {} inside", type_name(v)))),
            },
            (v, _) => {
                return Err(raised(format!(
                    "{name}: rows of different depths (a {} among lists)",
                    type_name(v)
                )));
            }
        }
    }
    Ok(())
}

/// A shape: one length, or a list of them.
fn lengths(args: &Args<'_>, i: usize) -> Result<Vec<i64>, Fault> {
    let one = |v: &Value| match v {
        Value::Int(n) => Ok(*n),
        other => Err(raised(format!("{}: a shape has integers, got {}", args.name, inside(other)))),
    };
    match args.at(i) {
        Value::List(list) if list.items().len() <= MAX_AXES => list.items().iter().map(one).collect(),
        Value::List(_) => Err(raised(format!("{}: more than {MAX_AXES} axes", args.name))),
        v => Ok(vec![one(v)?]),
    }
}

fn filled(ctx: &mut Ctx<'_>, args: &Args<'_>, value: f64) -> Result<Value, Fault> {
    let shape: Option<Vec<usize>> = lengths(args, 0)?.into_iter().map(|n| usize::try_from(n).ok()).collect();
    let Some(shape) = shape else { return Err(raised(format!("{}: a length is negative", args.name))) };
    let total = count(&shape)?;
    room(total)?;
    ctx.charge(total as u64 / 8)?;
    Ok(Array { data: vec![value; total], shape }.value())
}

fn arange(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (start, stop) =
        if args.optional(1).is_some() { (args.float(0)?, args.float(1)?) } else { (0.0, args.float(0)?) };
    let step = if args.optional(2).is_some() { args.float(2)? } else { 1.0 };
    if step == 0.0 || !step.is_finite() || !start.is_finite() || !stop.is_finite() {
        return Err(raised("arange: start, stop and step must be finite, and step not 0"));
    }
    let n = ((stop - start) / step).ceil().max(0.0);
    let n = count(&[if n < 1e12 { n as usize } else { usize::MAX }])?;
    room(n)?;
    ctx.charge(n as u64 / 4)?;
    Ok(Array::flat((0..n).map(|i| start + step * i as f64).collect()).value())
}

fn linspace(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (start, stop) = (args.float(0)?, args.float(1)?);
    let n = if args.optional(2).is_some() { args.int(2, "n")? } else { 50 };
    let Ok(n) = usize::try_from(n) else { return Err(raised("linspace: n must not be negative")) };
    let n = count(&[n])?;
    room(n)?;
    ctx.charge(n as u64 / 4)?;
    let last = n.saturating_sub(1);
    let step = (stop - start) / (last.max(1)) as f64;
    let data = (0..n).map(|i| if i == last && n > 1 { stop } else { start + step * i as f64 }).collect();
    Ok(Array::flat(data).value())
}

fn identity(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let n = args.int(0, "n")?;
    let Ok(n) = usize::try_from(n) else { return Err(raised("identity: n must not be negative")) };
    let total = count(&[n, n])?;
    room(total)?;
    ctx.charge(total as u64 / 8)?;
    let mut data = vec![0.0; total];
    for i in 0..n {
        data[i * n + i] = 1.0;
    }
    Ok(Array { shape: vec![n, n], data }.value())
}

fn reshape(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let a = taken(ctx, args, 0)?;
    let wanted = lengths(args, 1)?;
    let known: i64 =
        wanted.iter().filter(|n| **n >= 0).try_fold(1i64, |p, n| p.checked_mul(*n)).unwrap_or(-1);
    let open = wanted.iter().filter(|n| **n == -1).count();
    let total = a.data.len() as i64;
    let shape: Option<Vec<usize>> = wanted
        .iter()
        .map(|n| match *n {
            -1 if open == 1 && known > 0 && total % known == 0 => usize::try_from(total / known).ok(),
            n => usize::try_from(n).ok(),
        })
        .collect();
    match shape {
        Some(shape) if count(&shape).is_ok_and(|n| n == a.data.len()) => {
            Ok(Array { shape, data: a.data }.value())
        }
        _ => Err(raised(format!(
            "reshape: {} elements do not fit {}",
            a.data.len(),
            inside(args.at(1)).chars().take(60).collect::<String>()
        ))),
    }
}

fn transpose(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let a = taken(ctx, args, 0)?;
    let n = a.shape.len();
    let axes: Vec<usize> = if args.optional(1).is_some() {
        let given: Option<Vec<usize>> =
            lengths(args, 1)?.into_iter().map(|i| usize::try_from(i).ok()).collect();
        let mut sorted = given.clone().unwrap_or_default();
        sorted.sort_unstable();
        if sorted != (0..n).collect::<Vec<_>>() {
            return Err(raised(format!("transpose: axes must be each of 0 to {} once", n.saturating_sub(1))));
        }
        given.unwrap_or_default()
    } else {
        (0..n).rev().collect()
    };
    let mut strides = vec![1usize; n];
    for i in (0..n.saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * a.shape[i + 1];
    }
    let shape: Vec<usize> = axes.iter().map(|i| a.shape[*i]).collect();
    ctx.charge(a.data.len() as u64 / 4)?;
    let mut data = Vec::with_capacity(a.data.len());
    let mut index = vec![0usize; n];
    for _ in 0..a.data.len() {
        data.push(a.data[index.iter().zip(&axes).map(|(i, axis)| i * strides[*axis]).sum::<usize>()]);
        for k in (0..n).rev() {
            index[k] += 1;
            if index[k] < shape[k] {
                break;
            }
            index[k] = 0;
        }
    }
    Ok(Array { shape, data }.value())
}

fn at(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let Some(a) = args.at(0).as_foreign::<Array>() else { return Err(args.wrong(0, "an array")) };
    let given: Vec<&Value> = match (args.at(1), args.len()) {
        (Value::List(list), 2) => list.items().iter().collect(),
        _ => args.values[1..].iter().collect(),
    };
    if given.len() > a.shape.len() {
        return Err(raised(format!("at: {} indices for {} axes", given.len(), a.shape.len())));
    }
    let mut offset = 0;
    for (i, n) in given.iter().zip(&a.shape) {
        offset = offset * n + place(i, *n)?;
    }
    let rest = &a.shape[given.len()..];
    let size: usize = rest.iter().product();
    ctx.charge(size as u64 / 8)?;
    if rest.is_empty() {
        return Ok(Value::Float(a.data[offset]));
    }
    Ok(Array { shape: rest.to_vec(), data: a.data[offset * size..(offset + 1) * size].to_vec() }.value())
}

/// An axis by its number, negatives from the end.
fn axis(args: &Args<'_>, i: usize, axes: usize) -> Result<usize, Fault> {
    let n = if args.optional(i).is_some() { args.int(i, "axis")? } else { 0 };
    let at = if n < 0 { n + axes as i64 } else { n };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < axes)
        .ok_or_else(|| raised(format!("{}: axis {n} of an array with {axes} axes", args.name)))
}

fn several(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Vec<Array>, Fault> {
    let items = args.list(0)?.to_vec();
    if items.is_empty() {
        return Err(raised(format!("{} needs at least one array", args.name)));
    }
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        let mut one = [item];
        out.push(taken(ctx, &Args { values: &mut one, name: args.name }, 0)?);
    }
    Ok(out)
}

/// Puts arrays one after another along an axis that they have.
fn along(args: &Args<'_>, arrays: &[Array], axis: usize) -> Result<Array, Fault> {
    let first = &arrays[0].shape;
    for a in arrays {
        let fits = a.shape.len() == first.len()
            && a.shape.iter().zip(first).enumerate().all(|(i, (x, y))| i == axis || x == y);
        if !fits {
            return Err(raised(format!(
                "{}: shapes {first:?} and {:?} do not fit together",
                args.name, a.shape
            )));
        }
    }
    let mut shape = first.clone();
    shape[axis] = arrays.iter().map(|a| a.shape[axis]).sum();
    let total = count(&shape)?;
    room(total)?;
    let outer: usize = first[..axis].iter().product();
    let mut data = Vec::with_capacity(total);
    for i in 0..outer {
        for a in arrays {
            let size: usize = a.shape[axis..].iter().product();
            data.extend_from_slice(&a.data[i * size..(i + 1) * size]);
        }
    }
    Ok(Array { shape, data })
}

fn concat(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let arrays = several(ctx, args)?;
    let axis = axis(args, 1, arrays[0].shape.len())?;
    Ok(along(args, &arrays, axis)?.value())
}

fn stack(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut arrays = several(ctx, args)?;
    let axes = arrays[0].shape.len() + 1;
    let axis = axis(args, 1, axes)?;
    if axes > MAX_AXES {
        return Err(raised(format!("stack: more than {MAX_AXES} axes")));
    }
    for a in &mut arrays {
        if a.shape.len() + 1 != axes {
            return Err(raised("stack: the arrays have different shapes"));
        }
        a.shape.insert(axis, 1);
    }
    Ok(along(args, &arrays, axis)?.value())
}

/// The length of an array's first axis, if it is an array that has one.
pub(super) fn rows(value: &Value) -> Option<usize> {
    value.as_foreign::<Array>()?.shape.first().copied()
}

/// Those rows of an array.
pub(super) fn slice(ctx: &mut Ctx<'_>, value: &Value, range: std::ops::Range<usize>) -> Result<Value, Fault> {
    let Some(array) = value.as_foreign::<Array>() else { return Ok(Value::Nothing) };
    let size: usize = array.shape.iter().skip(1).product();
    ctx.charge((range.len() * size) as u64)?;
    ctx.reserve(range.len() * size * 8)?;
    Ok(array.rows(range).value())
}

/// A function of each element, if the argument is an array.
pub(super) fn mapped(args: &Args<'_>, f: fn(f64) -> f64) -> Option<Value> {
    Some(args.at(0).as_foreign::<Array>()?.map(f).value())
}
