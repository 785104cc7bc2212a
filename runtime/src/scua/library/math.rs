//! `math`: beyond `sqrt` everything comes from one software library, so that results are the same on every machine.

use super::{int, needs, number};
use crate::builtins::{Args, Builtin, Ctx};
use crate::vm::strict;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use std::cmp::Ordering;

pub(crate) const TABLE: &[Builtin] = &[
    Builtin::exact("math.floor", (1, 1), |_, args| rounded(args, libm::floor)),
    Builtin::exact("math.ceil", (1, 1), |_, args| rounded(args, libm::ceil)),
    Builtin::exact("math.round", (1, 1), |_, args| rounded(args, libm::round)),
    Builtin::exact("math.trunc", (1, 1), |_, args| rounded(args, libm::trunc)),
    Builtin::exact("math.abs", (1, 1), |_, args| match args.at(0) {
        Value::Int(n) => {
            n.checked_abs().map(Value::Int).ok_or_else(|| raised("integer overflow in `math.abs`"))
        }
        _ => Ok(Value::Float(number(args, 0)?.abs())),
    }),
    Builtin::exact("math.sign", (1, 1), |_, args| match args.at(0) {
        Value::Int(n) => Ok(Value::Int(n.signum())),
        _ => {
            let f = number(args, 0)?;
            Ok(Value::Float(if f == 0.0 || f.is_nan() { f } else { f.signum() }))
        }
    }),
    Builtin::exact("math.min", (2, 2), |ctx, args| least(ctx, args, 0, 1, Ordering::Less)),
    Builtin::exact("math.max", (2, 2), |ctx, args| least(ctx, args, 0, 1, Ordering::Greater)),
    Builtin::exact("math.clamp", (3, 3), |ctx, args| {
        let low = least(ctx, args, 0, 1, Ordering::Greater)?;
        args.values[0] = low;
        least(ctx, args, 0, 2, Ordering::Less)
    }),
    Builtin::exact("math.sqrt", (1, 1), |_, args| Ok(number(args, 0)?.sqrt().into())),
    Builtin::exact("math.pow", (2, 2), |_, args| Ok(libm::pow(number(args, 0)?, number(args, 1)?).into())),
    Builtin::exact("math.exp", (1, 1), |_, args| Ok(libm::exp(number(args, 0)?).into())),
    Builtin::exact("math.log", (1, 1), |_, args| Ok(libm::log(number(args, 0)?).into())),
    Builtin::exact("math.log2", (1, 1), |_, args| Ok(libm::log2(number(args, 0)?).into())),
    Builtin::exact("math.log10", (1, 1), |_, args| Ok(libm::log10(number(args, 0)?).into())),
    Builtin::exact("math.sin", (1, 1), |_, args| Ok(libm::sin(number(args, 0)?).into())),
    Builtin::exact("math.cos", (1, 1), |_, args| Ok(libm::cos(number(args, 0)?).into())),
    Builtin::exact("math.tan", (1, 1), |_, args| Ok(libm::tan(number(args, 0)?).into())),
    Builtin::exact("math.asin", (1, 1), |_, args| Ok(libm::asin(number(args, 0)?).into())),
    Builtin::exact("math.acos", (1, 1), |_, args| Ok(libm::acos(number(args, 0)?).into())),
    Builtin::exact("math.atan", (1, 1), |_, args| Ok(libm::atan(number(args, 0)?).into())),
    Builtin::exact(
        "math.atan2",
        (2, 2),
        |_, args| Ok(libm::atan2(number(args, 0)?, number(args, 1)?).into()),
    ),
    Builtin::exact("math.is_nan", (1, 1), |_, args| Ok(number(args, 0)?.is_nan().into())),
    Builtin::exact("math.band", (2, 2), |_, args| Ok(Value::Int(int(args, 0)? & int(args, 1)?))),
    Builtin::exact("math.bor", (2, 2), |_, args| Ok(Value::Int(int(args, 0)? | int(args, 1)?))),
    Builtin::exact("math.bxor", (2, 2), |_, args| Ok(Value::Int(int(args, 0)? ^ int(args, 1)?))),
    Builtin::exact("math.bnot", (1, 1), |_, args| Ok(Value::Int(!int(args, 0)?))),
    Builtin::exact("math.shl", (2, 2), |_, args| Ok(Value::Int(int(args, 0)? << shift(args)?))),
    Builtin::exact("math.shr", (2, 2), |_, args| {
        Ok(Value::Int(((int(args, 0)? as u64) >> shift(args)?) as i64))
    }),
    Builtin::exact("math.random", (1, 1), random),
];

/// A whole double as an int.
pub(super) fn whole(f: f64) -> Option<i64> {
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&f).then_some(f as i64)
}

fn rounded(args: &Args<'_>, how: fn(f64) -> f64) -> Result<Value, Fault> {
    match args.at(0) {
        Value::Int(n) => Ok(Value::Int(*n)),
        Value::Float(f) => whole(how(*f)).map(Value::Int).ok_or_else(|| {
            raised(format!("`{}`: {} is outside int", args.name, crate::vm::number::float(*f)))
        }),
        _ => Err(needs(args, 0, "a number")),
    }
}

/// One of two numbers: the one that stands so to the other.
fn least(ctx: &mut Ctx<'_>, args: &Args<'_>, i: usize, j: usize, wanted: Ordering) -> Result<Value, Fault> {
    number(args, i)?;
    number(args, j)?;
    let (a, b) = (args.at(i), args.at(j));
    if matches!(a, Value::Float(f) if f.is_nan()) {
        return Ok(a.clone());
    }
    Ok(match strict::order(ctx.core, b, a, "<")? {
        None => b.clone(),
        Some(order) if order == wanted => b.clone(),
        Some(_) => a.clone(),
    })
}

fn shift(args: &Args<'_>) -> Result<u32, Fault> {
    match int(args, 1)? {
        n @ 0..=63 => Ok(n as u32),
        n => Err(raised(format!("`{}` shifts by 0 to 63, got {n}", args.name))),
    }
}

/// splitmix64
fn random(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let seed = (int(args, 0)? as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    let value = (z >> 11) as f64 / (1u64 << 53) as f64;
    ctx.core.record_of(vec![("value", Value::Float(value)), ("seed", Value::Int(seed as i64))])
}
