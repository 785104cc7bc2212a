//! `fetch` and its kin: a request through the broker, its answer as a record.
//!
//! A secret may stand in a header's value and nowhere else. What a server answers is data, whatever its status; only a
//! denial raises, and what can't be a request.

use super::{Args, Builtin, Cost, Ctx, json};
use crate::vm::other::{Other, Secret};
use crate::vm::render::{display, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Key, Value};
use crate::web::{self, Field, Got, Naming, Wanted};
use policies::fetch::{Aim, LONGEST_MS};

/// Seconds, unless the call says otherwise.
const TIMEOUT: f64 = 30.0;
/// Bytes of an answer's body.
const MOST: u64 = 32 << 20;
/// Redirects.
const HOPS: u32 = 10;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("fetch", &["url", "method", "headers", "body", "timeout"], 1, |ctx, args| {
        let parts = Parts { method: 1, headers: 2, body: 3, timeout: 4, ..Parts::at(0) };
        text(ctx, args, parts, "GET")
    })
    .named(5)
    .cost(Cost::Own),
    Builtin::new("http", &["method", "url", "headers", "query", "body", "timeout"], 2, |ctx, args| {
        let parts = Parts { method: 0, headers: 2, query: 3, body: 4, timeout: 5, ..Parts::at(1) };
        text(ctx, args, parts, "GET")
    })
    .named(6)
    .cost(Cost::Own),
    Builtin::new("http_get", &["url", "headers", "query", "timeout"], 1, |ctx, args| {
        text(ctx, args, Parts { headers: 1, query: 2, timeout: 3, ..Parts::at(0) }, "GET")
    })
    .named(4)
    .cost(Cost::Own),
    Builtin::new("http_post", &["url", "body", "headers", "timeout"], 2, |ctx, args| {
        text(ctx, args, Parts { body: 1, headers: 2, timeout: 3, ..Parts::at(0) }, "POST")
    })
    .named(4)
    .cost(Cost::Own),
    Builtin::new("http_put", &["url", "body", "headers", "timeout"], 2, |ctx, args| {
        text(ctx, args, Parts { body: 1, headers: 2, timeout: 3, ..Parts::at(0) }, "PUT")
    })
    .named(4)
    .cost(Cost::Own),
    Builtin::new("http_delete", &["url", "headers", "timeout"], 1, |ctx, args| {
        text(ctx, args, Parts { headers: 1, timeout: 2, ..Parts::at(0) }, "DELETE")
    })
    .named(3)
    .cost(Cost::Own),
    Builtin::new("http_bytes", &["method", "url", "headers", "query", "body", "timeout"], 2, |ctx, args| {
        let parts = Parts { method: 0, headers: 2, query: 3, body: 4, timeout: 5, ..Parts::at(1) };
        bytes(ctx, args, parts)
    })
    .named(6)
    .cost(Cost::Own),
];

/// Which argument is what; [`NONE`]: the builtin has none.
#[derive(Clone, Copy)]
struct Parts {
    url: usize,
    method: usize,
    headers: usize,
    query: usize,
    body: usize,
    timeout: usize,
}

const NONE: usize = usize::MAX;

impl Parts {
    const fn at(url: usize) -> Self {
        Self { url, method: NONE, headers: NONE, query: NONE, body: NONE, timeout: NONE }
    }
}

fn wanted(ctx: &mut Ctx<'_>, args: &Args<'_>, parts: Parts, method: &str) -> Result<Wanted, Fault> {
    let name = args.name;
    let method = match args.optional(parts.method) {
        Some(_) => args.text(parts.method)?.to_ascii_uppercase(),
        None => method.to_owned(),
    };
    let url = args.text(parts.url)?;
    ctx.charge(url.len() as u64 / 32)?;
    let aim = Aim::parse(url).map_err(|why| raised(format!("{name}: the URL can't be used: {why}")))?;
    let mut query = Vec::new();
    if args.optional(parts.query).is_some() {
        for (key, value) in args.map(parts.query)?.entries() {
            for value in value.as_list().unwrap_or(std::slice::from_ref(value)) {
                query.push((key.as_str().to_owned(), plain(name, "query", key.as_str(), value)?));
            }
        }
    }
    let aim =
        aim.with_query(&query).map_err(|why| raised(format!("{name}: the URL can't be used: {why}")))?;
    let mut fields = fields(args, parts.headers)?;
    let (body, kind) = match args.optional(parts.body) {
        None => (None, ""),
        Some(value) => body(ctx, name, value)?,
    };
    let says = fields.iter().any(|field| field.name.eq_ignore_ascii_case("content-type"));
    if body.is_some() && !says {
        fields.push(Field { name: "Content-Type".to_owned(), value: kind.to_owned(), sealed: false });
    }
    let seconds = if args.optional(parts.timeout).is_some() { args.float(parts.timeout)? } else { TIMEOUT };
    if !(seconds > 0.0 && seconds * 1000.0 <= LONGEST_MS as f64) {
        return Err(raised(format!(
            "{name}: a timeout is more than 0 seconds and at most {}",
            LONGEST_MS / 1000
        )));
    }
    let timeout_ms = (seconds * 1000.0).ceil() as u64;
    Ok(Wanted { method, aim, fields, body, timeout_ms, most: MOST, hops: HOPS, naming: Naming::Host })
}

/// Headers from argument `i`, secrets among them.
pub(super) fn fields(args: &Args<'_>, i: usize) -> Result<Vec<Field>, Fault> {
    let name = args.name;
    let mut fields = Vec::new();
    if args.optional(i).is_some() {
        for (key, value) in args.map(i)?.entries() {
            let (value, sealed) = match value.as_other() {
                Some(Other::Secret(Secret { value, .. })) => match value.as_text() {
                    Some(text) => (text.to_owned(), true),
                    None => {
                        return Err(raised(format!(
                            "{name}: the secret in the header '{}' is no text",
                            key.as_str()
                        )));
                    }
                },
                _ => (plain(name, "headers", key.as_str(), value)?, false),
            };
            fields.push(Field { name: key.as_str().to_owned(), value, sealed });
        }
    }
    Ok(fields)
}

/// A value that is written as it is shown.
fn plain(name: &str, part: &str, key: &str, value: &Value) -> Result<String, Fault> {
    match value {
        Value::Short(_)
        | Value::Text(_)
        | Value::Int(_)
        | Value::Float(_)
        | Value::Bool(_)
        | Value::Big(_) => Ok(display(value)),
        other if matches!(other.as_other(), Some(Other::Secret(_))) => {
            Err(raised(format!("{name}: {part}: '{key}' is a secret, which can stand in a header only")))
        }
        other => Err(raised(format!(
            "{name}: {part}: '{key}' must be text, a number or a bool, got {}",
            type_name(other)
        ))),
    }
}

fn body(ctx: &mut Ctx<'_>, name: &str, value: &Value) -> Result<(Option<Vec<u8>>, &'static str), Fault> {
    if matches!(value.as_other(), Some(Other::Secret(_))) {
        return Err(raised(format!("{name}: the body is a secret, which can stand in a header only")));
    }
    Ok(match (value.as_text(), value.as_bytes()) {
        (Some(text), _) => (Some(text.as_bytes().to_vec()), "text/plain; charset=utf-8"),
        (None, Some(bytes)) => (Some(bytes.to_vec()), "application/octet-stream"),
        (None, None) => {
            let mut text = String::new();
            json::plain(ctx, value, &mut text)?;
            ctx.charge(text.len() as u64 / 32)?;
            (Some(text.into_bytes()), "application/json")
        }
    })
}

fn headers(fields: Vec<(String, String)>) -> Value {
    Value::map(web::joined(fields).into_iter().map(|(name, value)| (Key::new(&name), Value::string(value))))
}

fn text(ctx: &mut Ctx<'_>, args: &mut Args<'_>, parts: Parts, method: &str) -> Result<Value, Fault> {
    let wanted = wanted(ctx, args, parts, method)?;
    Ok(match web::follow(ctx, wanted)? {
        Got::Answered { status, fields, body } => {
            let says_json = fields
                .iter()
                .any(|(name, value)| name == "content-type" && value.to_ascii_lowercase().contains("json"));
            let body = String::from_utf8(body)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
            let json = if says_json { json::parse(&body, false).ok() } else { None };
            Value::record([
                ("status", Value::Int(i64::from(status))),
                ("ok", (200..300).contains(&status).into()),
                ("body", Value::string(body)),
                ("json", json.unwrap_or_default()),
                ("headers", headers(fields)),
            ])
        }
        Got::Failed { kind, why } => Value::record([
            ("status", Value::Int(0)),
            ("ok", false.into()),
            ("body", Value::text("")),
            ("json", Value::Nothing),
            ("headers", headers(Vec::new())),
            ("error", Value::string(format!("{}: {why}", kind.name()))),
        ]),
    })
}

fn bytes(ctx: &mut Ctx<'_>, args: &mut Args<'_>, parts: Parts) -> Result<Value, Fault> {
    let wanted = wanted(ctx, args, parts, "GET")?;
    Ok(match web::follow(ctx, wanted)? {
        Got::Answered { status, fields, body } => Value::record([
            ("status", Value::Int(i64::from(status))),
            ("ok", (200..300).contains(&status).into()),
            ("bytes", Value::bytes(body)),
            ("headers", headers(fields)),
        ]),
        Got::Failed { kind, why } => Value::record([
            ("status", Value::Int(0)),
            ("ok", false.into()),
            ("bytes", Value::bytes(Vec::new())),
            ("headers", headers(Vec::new())),
            ("error", Value::string(format!("{}: {why}", kind.name()))),
        ]),
    })
}
