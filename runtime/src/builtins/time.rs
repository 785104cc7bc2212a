//! The clock, and unix seconds as text.

use super::{Args, Builtin, Cost, Ctx, Next, Resume, dates};
use crate::vm::trap::{Fault, Stop, raised};
use crate::vm::value::Value;
use policies::capability::Capability;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("now", &[], 0, |c, _| Ok(Value::Float(c.core.host.now())))
        .cost(Cost::Flat)
        .needs(Capability::Time),
    Builtin::calls("sleep", &["seconds"], 1, sleep).needs(Capability::Time),
    Builtin::new("format_time", &["time", "format"], 1, format_time),
    Builtin::new("parse_time", &["text", "format"], 1, parse_time),
    Builtin::new("date_parts", &["time"], 1, date_parts).cost(Cost::Flat),
];

/// A sleep: the other parts of the program go on meanwhile.
struct Sleep {
    seconds: f64,
    until: Option<f64>,
}

impl Resume for Sleep {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        if self.until.is_none() && ctx.core.is_alone() {
            ctx.core.host.flush();
            ctx.core.host.sleep(self.seconds);
            ctx.core.interruption()?;
            return Ok(Next::Done(Value::Nothing));
        }
        let now = ctx.core.host.now();
        if now >= *self.until.get_or_insert(now + self.seconds) {
            return Ok(Next::Done(Value::Nothing));
        }
        Err(Box::new(Stop::Wait))
    }
}

fn sleep(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let seconds = args.float(0)?;
    if !(seconds >= 0.0 && seconds.is_finite()) {
        return Err(raised(format!(
            "sleep expects seconds of at least 0, got {}",
            crate::vm::number::float(seconds)
        )));
    }
    Ok(Box::new(Sleep { seconds, until: None }))
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
