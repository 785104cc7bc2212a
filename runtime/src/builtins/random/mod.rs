//! Random numbers: the kernel's behind the capability, seeded generators without one.

mod pcg;
mod ziggurat;

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::other::Foreign;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use num_bigint::BigInt;
use pcg::{Pcg64, Seed};
use policies::capability::Capability;
use std::cell::RefCell;
use std::collections::HashSet;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("random", &["generator"], 0, random).cost(Cost::Flat),
    Builtin::new("random_int", &["generator", "low", "high"], 2, random_int).cost(Cost::Flat),
    Builtin::new("random_bytes", &["n"], 1, random_bytes).cost(Cost::Own).needs(Capability::Random),
    Builtin::new("token", &["n"], 0, token).cost(Cost::Own).needs(Capability::Random),
    Builtin::new("rng", &["seed"], 1, rng).cost(Cost::Flat),
    Builtin::new("rng_spawn", &["generator", "n"], 1, rng_spawn).cost(Cost::Own),
    Builtin::new("random_normal", &["generator", "mean", "std"], 1, random_normal).named(3).cost(Cost::Flat),
    Builtin::new("shuffle", &["generator", "list"], 2, shuffle),
    Builtin::new("choice", &["generator", "list"], 2, choice).cost(Cost::Flat),
    Builtin::new("sample", &["generator", "list", "n"], 3, sample),
];

/// A seeded generator: one identity, whoever holds it.
struct Generator(RefCell<(Pcg64, Seed)>);

impl Foreign for Generator {
    fn type_name(&self) -> &'static str {
        "generator"
    }
    fn render(&self) -> String {
        "generator".to_owned()
    }
    fn bytes(&self) -> usize {
        128
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| std::ptr::eq(o, self))
    }
    fn any(&self) -> &dyn std::any::Any {
        self
    }
}

fn generator<'a>(args: &'a Args<'_>) -> Result<&'a Generator, Fault> {
    args.at(0).as_foreign().ok_or_else(|| args.wrong(0, "a generator — rng(seed) makes one"))
}

/// Draws from the generator in the first argument.
fn draw<T>(args: &Args<'_>, f: impl FnOnce(&mut Pcg64) -> T) -> Result<T, Fault> {
    Ok(f(&mut generator(args)?.0.borrow_mut().0))
}

fn word(ctx: &mut Ctx<'_>) -> u64 {
    let mut bytes = [0; 8];
    ctx.core.host.random(&mut bytes);
    u64::from_le_bytes(bytes)
}

fn random(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if args.optional(0).is_some() {
        return draw(args, Pcg64::double).map(Value::Float);
    }
    ctx.ask(Capability::Random, None)?;
    Ok(Value::Float((word(ctx) >> 11) as f64 / (1u64 << 53) as f64))
}

fn random_int(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let seeded = args.len() == 3;
    let first = usize::from(seeded);
    if seeded {
        generator(args)?;
    } else {
        ctx.ask(Capability::Random, None)?;
    }
    let (low, high) = (args.int(first, "low")?, args.int(first + 1, "high")?);
    if low > high {
        return Err(raised(format!("random_int: low {low} is above high {high}")));
    }
    let top = (i128::from(high) - i128::from(low)) as u64;
    let drawn = if seeded {
        draw(args, |g| g.up_to(top))?
    } else if top == u64::MAX {
        word(ctx)
    } else {
        // Words beyond the last whole multiple of the span would favour small results.
        let span = u128::from(top) + 1;
        let limit = (1u128 << 64) / span * span;
        let mut w = u128::from(word(ctx));
        while w >= limit {
            w = u128::from(word(ctx));
        }
        (w % span) as u64
    };
    Ok(Value::Int((i128::from(low) + i128::from(drawn)) as i64))
}

/// A number of bytes to draw.
fn amount(args: &Args<'_>, i: usize, default: i64) -> Result<usize, Fault> {
    let n = if args.optional(i).is_some() { args.int(i, "n")? } else { default };
    if !(1..=65_536).contains(&n) {
        return Err(raised(format!("{} expects a number from 1 to 65536, got {n}", args.name)));
    }
    Ok(n as usize)
}

fn random_bytes(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    args.int(0, "n")?;
    let n = amount(args, 0, 0)?;
    ctx.charge(n as u64 / 32)?;
    let mut bytes = vec![0; n];
    ctx.core.host.random(&mut bytes);
    Ok(Value::bytes(bytes))
}

fn token(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    use base64::Engine;
    let n = amount(args, 0, 32)?;
    ctx.charge(n as u64 / 32)?;
    let mut bytes = vec![0; n];
    ctx.core.host.random(&mut bytes);
    Ok(Value::string(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)))
}

fn rng(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let words = match args.at(0) {
        Value::Int(n) if *n >= 0 => BigInt::from(*n).to_u32_digits().1,
        Value::Big(n) if n.0.sign() != num_bigint::Sign::Minus && n.0.bits() <= 4096 => n.0.to_u32_digits().1,
        v @ (Value::Int(_) | Value::Big(_) | Value::Float(_)) => {
            return Err(raised(format!(
                "rng: the seed must be an integer of at least 0 (at most 4096 bits), got {}",
                crate::vm::render::display(v)
            )));
        }
        _ => return Err(args.wrong(0, "an integer")),
    };
    let words = if words.is_empty() { vec![0] } else { words };
    Ok(made(Seed::new(words)))
}

fn made(seed: Seed) -> Value {
    Value::foreign(Generator(RefCell::new((Pcg64::new(&seed), seed))))
}

/// Generators inside one another's paths.
const MAX_DEPTH: usize = 100;

fn rng_spawn(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let g = generator(args)?;
    let many = args.optional(1).is_some();
    let n = if many { args.int(1, "n")? } else { 1 };
    if !(0..=100_000).contains(&n) {
        return Err(raised(format!("rng_spawn: n must be from 0 to 100000, got {n}")));
    }
    ctx.charge(n as u64 * 8)?;
    let seed = &mut g.0.borrow_mut().1;
    if seed.depth() >= MAX_DEPTH {
        return Err(raised(format!("rng_spawn: generators are spawned at most {MAX_DEPTH} deep")));
    }
    let mut children: Vec<Value> = (0..n).map(|_| made(seed.spawn())).collect();
    Ok(if many { Value::list(children) } else { children.pop().unwrap_or_default() })
}

fn random_normal(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    generator(args)?;
    let mean = if args.optional(1).is_some() { args.float(1)? } else { 0.0 };
    let std = if args.optional(2).is_some() { args.float(2)? } else { 1.0 };
    if std < 0.0 {
        return Err(raised("random_normal: std must not be negative"));
    }
    draw(args, |g| Value::Float(mean + std * g.normal()))
}

fn shuffle_part<T>(g: &mut Pcg64, items: &mut [T], first: usize) {
    for i in (first.max(1)..items.len()).rev() {
        let j = g.up_to(i as u64) as usize;
        items.swap(i, j);
    }
}

fn shuffle(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut items = args.list(1)?.to_vec();
    ctx.charge(items.len() as u64)?;
    draw(args, |g| {
        for i in (1..items.len()).rev() {
            let j = g.masked(i as u64) as usize;
            items.swap(i, j);
        }
    })?;
    Ok(Value::list(items))
}

fn choice(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let items = args.list(1)?;
    if items.is_empty() {
        return Err(raised("choice: the list is empty"));
    }
    let at = draw(args, |g| g.up_to(items.len() as u64 - 1))?;
    Ok(items[at as usize].clone())
}

fn sample(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    generator(args)?;
    let items = args.list(1)?;
    let n = args.int(2, "n")?;
    let Some(n) = usize::try_from(n).ok().filter(|n| *n <= items.len()) else {
        return Err(raised(format!(
            "sample: n must be from 0 to {} (the list's length), got {n}",
            items.len()
        )));
    };
    ctx.charge(n as u64)?;
    let total = items.len();
    let chosen = draw(args, |g| {
        if total > 10_000 && n > total / 50 {
            let mut all: Vec<usize> = (0..total).collect();
            shuffle_part(g, &mut all, total - n);
            return all.split_off(total - n);
        }
        // Floyd's method.
        let mut seen = HashSet::with_capacity(n);
        let mut out = Vec::with_capacity(n);
        for top in total - n..total {
            let drawn = g.up_to(top as u64) as usize;
            let value = if seen.insert(drawn) { drawn } else { top };
            seen.insert(value);
            out.push(value);
        }
        shuffle_part(g, &mut out, 1);
        out
    })?;
    Ok(Value::list(chosen.into_iter().map(|i| items[i].clone()).collect()))
}
