//! `cron_*`: the run's own scheduler ([`crate::vm::schedule`]).

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::render::display;
use crate::vm::schedule::Often;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};

const WHY: &str = "this run has no scheduler";

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("cron_every", &["seconds", "task", "options"], 2, every).cost(Cost::Flat).native(WHY),
    Builtin::new("cron_after", &["seconds", "task"], 2, after).cost(Cost::Flat).native(WHY),
    Builtin::new("cron_cancel", &["id"], 1, cancel).cost(Cost::Flat).native(WHY),
    Builtin::new("cron_list", &[], 0, list).cost(Cost::Flat).native(WHY),
    Builtin::new("cron_status", &["id"], 1, status).cost(Cost::Flat).native(WHY),
];

/// Longest time ahead, in seconds.
const LONGEST: f64 = 366.0 * 24.0 * 3600.0;

fn entry(ctx: &mut Ctx<'_>, args: &mut Args<'_>, (least, often): (f64, Often)) -> Result<Value, Fault> {
    let seconds = args.float(0)?;
    if !(least..=LONGEST).contains(&seconds) {
        return Err(raised(format!("{}: seconds must be from {least} to {LONGEST}", args.name)));
    }
    if !matches!(args.at(1), Value::Task(_)) {
        return Err(args.wrong(1, "a task"));
    }
    let task = args.take(1);
    ctx.core.schedule(task, seconds, often).map(Value::string)
}

fn every(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut often = Often::Always;
    let options = if args.optional(2).is_some() { Some(args.map(2)?) } else { None };
    for (key, v) in options.into_iter().flat_map(Map::entries) {
        match (key.as_str(), v) {
            ("times", Value::Int(n)) if *n > 0 => often = Often::Times(n.unsigned_abs()),
            ("times", v) => {
                return Err(raised(format!(
                    "cron_every: times must be a number above 0, got {}",
                    display(v)
                )));
            }
            (key, _) => return Err(raised(format!("cron_every: unknown option '{key}', one of times"))),
        }
    }
    entry(ctx, args, (0.01, often))
}

fn after(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    entry(ctx, args, (0.0, Often::Once))
}

fn cancel(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let name = args.text(0)?.to_owned();
    Ok(ctx.core.unschedule(&name).into())
}

fn list(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    let all = ctx.core.scheduled();
    ctx.charge(all.len() as u64)?;
    Ok(Value::list(all))
}

fn status(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let name = args.text(0)?.to_owned();
    Ok(ctx.core.scheduled_as(&name))
}
