//! Clock, sleep, and randomness that needs a capability.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use policies::capability::Capability;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("now", &[], 0, |c, _| Ok(Value::Float(c.core.host.now())))
        .cost(Cost::Flat)
        .needs(Capability::Time),
    Builtin::new("sleep", &["seconds"], 1, sleep).cost(Cost::Flat).needs(Capability::Time),
    Builtin::new("random", &[], 0, random).cost(Cost::Flat).needs(Capability::Random),
    Builtin::new("random_int", &["low", "high"], 2, random_int).cost(Cost::Flat).needs(Capability::Random),
    Builtin::new("random_bytes", &["n"], 1, random_bytes).cost(Cost::Flat).needs(Capability::Random),
    Builtin::new("token", &["n"], 0, token).cost(Cost::Flat).needs(Capability::Random),
];

fn sleep(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let seconds = args.float(0)?;
    if !(seconds >= 0.0 && seconds.is_finite()) {
        return Err(raised(format!(
            "sleep expects seconds of at least 0, got {}",
            crate::vm::number::float(seconds)
        )));
    }
    ctx.core.host.flush();
    ctx.core.host.sleep(seconds);
    Ok(Value::Nothing)
}

fn word(ctx: &mut Ctx<'_>) -> u64 {
    let mut bytes = [0; 8];
    ctx.core.host.random(&mut bytes);
    u64::from_le_bytes(bytes)
}

fn random(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(Value::Float((word(ctx) >> 11) as f64 / (1u64 << 53) as f64))
}

fn random_int(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (low, high) = (args.int(0, "low")?, args.int(1, "high")?);
    if low > high {
        return Err(raised(format!("random_int: low {low} is above high {high}")));
    }
    let span = (i128::from(high) - i128::from(low) + 1) as u128;
    // Words beyond the last whole multiple of the span would favour small results.
    let limit = (1u128 << 64) / span * span;
    let mut w = u128::from(word(ctx));
    while w >= limit {
        w = u128::from(word(ctx));
    }
    Ok(Value::Int((i128::from(low) + (w % span) as i128) as i64))
}

fn random_bytes(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let n = args.int(0, "n")?;
    if !(1..=65_536).contains(&n) {
        return Err(raised(format!("random_bytes expects a number from 1 to 65536, got {n}")));
    }
    let mut bytes = vec![0; n as usize];
    ctx.core.host.random(&mut bytes);
    Ok(Value::bytes(bytes))
}

fn token(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    use base64::Engine;
    let n = if args.optional(0).is_some() { args.int(0, "n")? } else { 32 };
    if !(1..=65_536).contains(&n) {
        return Err(raised(format!("token expects a number from 1 to 65536, got {n}")));
    }
    let mut bytes = vec![0; n as usize];
    ctx.core.host.random(&mut bytes);
    Ok(Value::string(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)))
}
