//! The clock, and unix seconds as text.

use super::{Args, Builtin, Cost, Ctx, dates};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use policies::capability::Capability;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("now", &[], 0, |c, _| Ok(Value::Float(c.core.host.now())))
        .cost(Cost::Flat)
        .needs(Capability::Time),
    Builtin::new("sleep", &["seconds"], 1, sleep).cost(Cost::Flat).needs(Capability::Time),
    Builtin::new("format_time", &["time", "format"], 1, format_time),
    Builtin::new("parse_time", &["text", "format"], 1, parse_time),
    Builtin::new("date_parts", &["time"], 1, date_parts).cost(Cost::Flat),
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
    ctx.core.interruption()?;
    Ok(Value::Nothing)
}

fn format_time(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let format = if args.optional(1).is_some() { Some(args.text(1)?) } else { None };
    match dates::format_at(args.at(0), format) {
        Some(Ok(text)) => Ok(Value::string(text)),
        Some(Err(e)) => Err(raised(format!("format_time: {e}"))),
        None => Err(args.wrong(0, "unix seconds, a date or a datetime")),
    }
}

fn parse_time(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let format = if args.optional(1).is_some() { Some(args.text(1)?) } else { None };
    dates::parse_at(args.text(0)?, format).map(Value::Float).map_err(|e| raised(format!("parse_time: {e}")))
}

fn date_parts(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match dates::parts_of(args.at(0)) {
        Some(Ok(parts)) => Ok(parts),
        Some(Err(e)) => Err(raised(format!("date_parts: {e}"))),
        None => Err(args.wrong(0, "unix seconds, a date or a datetime")),
    }
}
