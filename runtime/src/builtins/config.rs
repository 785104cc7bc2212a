//! Configuration and secrets. A sealed value is opaque: it is shown as its label, compared in constant time, and
//! becomes plain only through `reveal`, which is audited before it happens.
//!
//! Invariant: what is joined from several secrets carries all their labels, and `reveal` asks for each of them.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::other::{LABELS, Other, Secret};
use crate::vm::render::type_name;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use policies::capability::Capability;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("env", &["name", "default"], 1, env).cost(Cost::Flat),
    Builtin::new("secret", &["name", "default"], 1, secret).cost(Cost::Flat),
    Builtin::new("reveal", &["secret"], 1, reveal).cost(Cost::Flat),
    Builtin::new("as_secret", &["value", "label"], 1, as_secret).cost(Cost::Flat),
    Builtin::new("bearer", &["secret"], 1, bearer).cost(Cost::Flat),
];

/// A variable's name: what an environment can hold, and what a label can be told apart by.
fn name<'a>(args: &'a Args<'_>, i: usize) -> Result<&'a str, Fault> {
    let name = args.text(i)?;
    let well = !name.is_empty()
        && name.len() <= 200
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ' '));
    if well {
        Ok(name)
    } else {
        Err(raised(format!("{}: a name has letters, digits and _ - . / (at most 200 characters)", args.name)))
    }
}

fn env(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let name = name(args, 0)?;
    ctx.ask(Capability::Env, Some(name))?;
    match (ctx.core.host.env(name), args.given(1)) {
        (Some(value), _) => Ok(Value::string(value)),
        (None, Some(default)) => Ok(default.clone()),
        (None, None) => Err(raised(format!("env: '{name}' is not set — set it, or pass a default"))),
    }
}

fn seal(label: &str, value: Value) -> Value {
    Value::other(Other::Secret(Secret { label: label.to_owned(), value }))
}

fn sealed(v: &Value) -> Option<&Secret> {
    match v.as_other() {
        Some(Other::Secret(s)) => Some(s),
        _ => None,
    }
}

fn secret(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let name = name(args, 0)?;
    ctx.core.ask(Capability::Secret, Some(name), "secret-builtin", ctx.place)?;
    match (ctx.core.host.env(name), args.given(1)) {
        (Some(value), _) => Ok(seal(name, Value::string(value))),
        (None, Some(default)) if sealed(default).is_some() || default.is_nothing() => Ok(default.clone()),
        (None, Some(default)) if default.as_text().is_some() || default.as_bytes().is_some() => {
            Ok(seal(name, default.clone()))
        }
        (None, Some(default)) => {
            Err(raised(format!("secret: the default must be text or bytes, got {}", type_name(default))))
        }
        (None, None) => Err(raised(format!("secret: '{name}' is not set — set it, or pass a default"))),
    }
}

fn reveal(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let Some(s) = sealed(args.at(0)) else { return Err(args.wrong(0, "a secret")) };
    for label in s.label.split(LABELS) {
        ctx.ask(Capability::Reveal, Some(label))?;
    }
    // The entry goes out before the plain value comes in.
    ctx.core.host.flush();
    if !ctx.core.host.delivers() {
        return Err(raised("reveal: its audit entry can't be written, so nothing is revealed"));
    }
    Ok(s.value.clone())
}

fn as_secret(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let label = if args.optional(1).is_some() { name(args, 1)? } else { "sealed" };
    let v = args.at(0);
    if sealed(v).is_some() {
        // A new label would lead around `reveal` of the old one.
        return Ok(v.clone());
    }
    if v.as_text().is_none() && v.as_bytes().is_none() {
        return Err(args.wrong(0, "text or bytes"));
    }
    Ok(seal(label, v.clone()))
}

fn bearer(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let v = args.at(0);
    let (label, token) = match sealed(v) {
        Some(s) => (s.label.as_str(), s.value.as_text()),
        None => ("sealed", v.as_text()),
    };
    match token {
        Some(token) if !token.contains(['\r', '\n']) => {
            Ok(seal(label, Value::string(format!("Bearer {token}"))))
        }
        Some(_) => Err(raised("bearer: the token has more than one line")),
        None => Err(args.wrong(0, "a secret text")),
    }
}
