//! `sandbox`: fresh partitions that hold nothing. Which function was called decides that; no option weakens it.

use super::{error, needs, ok, type_name};
use crate::builtins::{Args, Ctx};
use crate::partition::boundary::Data;
use crate::partition::sandbox::{Failure, Limits, MOST, Sandbox};
use crate::scua::Entry;
use crate::scua::compiled::Compiled;
use crate::vm::strict;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use policies::capability::Capability;

const RANGES: [(&str, u64, u64); 6] = [
    ("fuel", 1, 1_000_000_000_000),
    ("memory", 1024, 1 << 30),
    ("source", 1, 1 << 24),
    ("prototypes", 1, 65_535),
    ("depth", 1, 128),
    ("calls", 1, 10_000),
];

/// The most that the host allows, where that is less than the language does.
fn most_of(ctx: &Ctx<'_>) -> Option<Limits> {
    ctx.core.keep.get("most").and_then(|kept| kept.downcast_ref::<Limits>()).cloned()
}

/// What a sandbox gets unless it is said.
fn defaults(most: Option<&Limits>) -> Limits {
    let own = Limits::frame("sandbox");
    match most {
        None => own,
        Some(most) => Limits {
            fuel: own.fuel.min(most.fuel),
            memory: own.memory.min(most.memory),
            source: own.source.min(most.source),
            prototypes: own.prototypes.min(most.prototypes),
            depth: own.depth.min(most.depth),
            calls: own.calls.min(most.calls),
            name: own.name,
        },
    }
}

/// Whether a character in a name shows as itself: no control, nothing that breaks lines, and nothing that turns the direction
/// of the text around it or can't be seen at all.
///
/// Source: Unicode Standard Annex #9 (bidirectional controls), UTR #36 section 2.10 (invisible characters).
fn printable(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

fn limits(value: &Value, most: Option<&Limits>) -> Result<Limits, Fault> {
    let mut limits = defaults(most);
    if value.is_nothing() {
        return Ok(limits);
    }
    let Some(table) = value.as_table() else {
        return Err(raised(format!("sandbox limits are a record, got {}", type_name(value))));
    };
    for (key, value) in table.entries().iter() {
        let key = key.as_str();
        if key == "name" {
            let name = value.as_text().filter(|name| (1..=64).contains(&name.len()));
            let Some(name) = name else {
                let shown = strict::display(value);
                return Err(raised(format!(
                    "sandbox limit `name` is a string of 1 to 64 bytes, got {shown}"
                )));
            };
            if !name.chars().all(printable) {
                return Err(raised("sandbox limit `name` is 1 to 64 bytes of printable text"));
            }
            limits.name = name.into();
            continue;
        }
        let Some((_, low, high)) = RANGES.iter().find(|(name, ..)| *name == key) else {
            return Err(raised(format!(
                "unknown sandbox limit `{}`; one of name, fuel, memory, source, prototypes, depth, calls",
                strict::cut(key)
            )));
        };
        let high = most.map_or(*high, |most| {
            let of = match key {
                "fuel" => most.fuel,
                "memory" => most.memory,
                "source" => most.source as u64,
                "prototypes" => u64::from(most.prototypes),
                "depth" => most.depth as u64,
                _ => most.calls as u64,
            };
            of.min(*high)
        });
        let n = match value {
            Value::Int(n) => u64::try_from(*n).ok().filter(|n| (*low..=high).contains(n)),
            _ => None,
        };
        let Some(n) = n else {
            let shown = strict::display(value);
            return Err(raised(format!("sandbox limit `{key}` is an int from {low} to {high}, got {shown}")));
        };
        match key {
            "fuel" => limits.fuel = n,
            "memory" => limits.memory = n,
            "source" => limits.source = n as usize,
            "prototypes" => limits.prototypes = n as u32,
            "depth" => limits.depth = n as usize,
            _ => limits.calls = n as usize,
        }
    }
    Ok(limits)
}

/// Everything up to the compiled partition. What the caller did wrong is its fault; what the source did is `Err`.
fn prepare(
    ctx: &mut Ctx<'_>,
    args: &Args<'_>,
    root: &str,
    entry: Entry,
) -> Result<Result<(Box<Sandbox>, Data), Failure>, Fault> {
    ctx.ask(Capability::SandboxRun, None)?;
    let Some(text) = args.at(0).as_text() else { return Err(needs(args, 0, "a string")) };
    let limits = limits(args.at(2), most_of(ctx).as_ref())?;
    let data = ctx.core.export(args.at(1), root, limits.depth)?;
    let alive = ctx.core.exact.tasks.sandboxes.clone();
    if alive.count() >= MOST {
        return Err(raised(format!("too many sandboxes ({MOST}); stop those you no longer need")));
    }
    let fits = text.len() <= limits.source;
    if fits {
        ctx.charge((text.len() as u64).div_ceil(4))?;
    }
    let hosts = ctx.core.keep.get("hosts").and_then(|kept| kept.downcast_ref::<crate::scua::OnSandbox>());
    let hosts = hosts.map(|register| register(&limits.name)).unwrap_or_default();
    let compiled = ctx.core.keep.entry(Compiled::KEPT_AS).or_insert_with(|| Box::new(Compiled::default()));
    let Some(compiled) = compiled.downcast_mut::<Compiled>() else { return Err(raised("no compiler")) };
    match compiled.source(text, entry, &limits, &hosts) {
        Ok((program, entry)) => {
            let sandbox = Sandbox::new(program, entry, limits, hosts.into(), alive);
            Ok(Ok((Box::new(sandbox), data)))
        }
        Err(failure) => Ok(Err(failure)),
    }
}

fn failed(ctx: &mut Ctx<'_>, failure: &Failure) -> Result<Value, Fault> {
    error(ctx, failure.kind, &failure.name, failure.line, &failure.message)
}

pub(super) fn run(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (mut sandbox, input) = match prepare(ctx, args, "the input", Entry::Main)? {
        Ok(prepared) => prepared,
        Err(failure) => return failed(ctx, &failure),
    };
    let outcome = sandbox.run(Some(ctx.core), &input)?;
    drop(sandbox);
    match outcome {
        Ok(answer) => {
            let value = ctx.core.import(&answer)?;
            ok(ctx, value)
        }
        Err(failure) => failed(ctx, &failure),
    }
}

pub(super) fn actor(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (mut sandbox, state) = match prepare(ctx, args, "the initial state", Entry::Handler)? {
        Ok(prepared) => prepared,
        Err(failure) => return failed(ctx, &failure),
    };
    match sandbox.load(Some(ctx.core), &state)? {
        Ok(()) => {
            let reference = ctx.core.new_guest(sandbox);
            ok(ctx, reference)
        }
        Err(failure) => failed(ctx, &failure),
    }
}

pub(super) fn stop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match ctx.core.stop_guest(args.at(0)) {
        None => Err(raised(format!("`sandbox.stop` needs a sandbox, got {}", type_name(args.at(0))))),
        Some(None) => ok(ctx, Value::Nothing),
        Some(Some(failure)) => failed(ctx, &failure),
    }
}
