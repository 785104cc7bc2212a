//! TOML, both ways.

use super::{Args, Builtin, Cost, Ctx, convert, dates};
use crate::vm::other::Other;
use crate::vm::render::type_name;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Key, Value};

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("toml_parse", &["text", "default"], 1, parse).cost(Cost::Own),
    Builtin::new("toml_encode", &["map"], 1, encode).cost(Cost::Own),
];

/// Containers inside one another; the reader's own limit is lower.
const MAX_DEPTH: usize = 100;

fn parse(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = args.text(0)?;
    ctx.charge(text.len() as u64 / 8)?;
    ctx.reserve(text.len() * 2)?;
    match text.strip_prefix('\u{feff}').unwrap_or(text).parse::<toml::Table>() {
        Ok(table) => Ok(map(&table)),
        Err(e) => {
            let at = e.span().map_or(0, |s| s.start).min(text.len());
            let before = &text.as_bytes()[..at];
            let line = before.iter().filter(|b| **b == b'\n').count() + 1;
            let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
            let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
            let message = e.message().lines().next().unwrap_or("invalid").to_owned();
            convert::or_default(
                args,
                1,
                raised(format!("toml_parse: line {line}, column {column}: {message}")),
            )
        }
    }
}

fn map(table: &toml::Table) -> Value {
    Value::map(table.iter().map(|(k, v)| (Key::new(k), value(v))).collect::<Vec<_>>())
}

/// Its depth is the reader's.
fn value(v: &toml::Value) -> Value {
    match v {
        toml::Value::String(t) => Value::text(t),
        toml::Value::Integer(n) => Value::Int(*n),
        toml::Value::Float(f) => Value::Float(*f),
        toml::Value::Boolean(b) => Value::Bool(*b),
        toml::Value::Array(items) => Value::list(items.iter().map(value).collect()),
        toml::Value::Table(table) => map(table),
        toml::Value::Datetime(d) => {
            let text = d.to_string();
            let known = match (d.date.is_some(), d.time.is_some(), d.offset.is_some()) {
                (true, false, _) => dates::date_from(&text),
                (true, true, true) => dates::datetime_from(&text),
                // A local time is no instant: it stays as it was written.
                _ => None,
            };
            known.unwrap_or_else(|| Value::string(text))
        }
    }
}

fn encode(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    args.map(0)?;
    let toml::Value::Table(table) = plain(ctx, args.at(0), &mut String::from("the value"), 0)? else {
        return Err(args.wrong(0, "a map"));
    };
    let out = toml::to_string(&table).map_err(|e| raised(format!("toml_encode: {e}")))?;
    ctx.charge(out.len() as u64 / 16)?;
    ctx.reserve(out.len())?;
    Ok(Value::string(out))
}

fn plain(ctx: &mut Ctx<'_>, v: &Value, spot: &mut String, depth: usize) -> Result<toml::Value, Fault> {
    if depth > MAX_DEPTH {
        return Err(raised(format!("toml_encode: the value is nested too deeply (limit {MAX_DEPTH})")));
    }
    ctx.charge(1)?;
    let refused = |what: &str| raised(format!("toml_encode: {spot} is {what}, which TOML can't hold"));
    Ok(match v {
        Value::Nothing | Value::Unbound => return Err(refused("nothing")),
        Value::Bool(b) => toml::Value::Boolean(*b),
        Value::Int(n) => toml::Value::Integer(*n),
        Value::Float(f) => toml::Value::Float(*f),
        Value::Big(_) => return Err(refused("an integer beyond 64 bits")),
        Value::Short(_) | Value::Text(_) => toml::Value::String(v.as_text().unwrap_or("").to_owned()),
        Value::List(list) => {
            let mut out = Vec::with_capacity(list.items().len());
            for (i, item) in list.items().iter().enumerate() {
                let length = spot.len();
                spot.push_str(&format!("[{i}]"));
                out.push(plain(ctx, item, spot, depth + 1)?);
                spot.truncate(length);
            }
            toml::Value::Array(out)
        }
        Value::Map(map) => {
            let mut out = toml::Table::with_capacity(map.len());
            for (key, item) in map.entries() {
                let length = spot.len();
                spot.push_str(&format!("[\"{}\"]", key.as_str()));
                out.insert(key.as_str().to_owned(), plain(ctx, item, spot, depth + 1)?);
                spot.truncate(length);
            }
            toml::Value::Table(out)
        }
        _ => match v.as_other() {
            Some(Other::Bytes(bytes)) => {
                use base64::Engine;
                toml::Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            Some(Other::Decimal(_)) => toml::Value::String(crate::vm::render::display(v)),
            Some(Other::Secret(_)) => toml::Value::String("[redacted]".to_owned()),
            Some(Other::Foreign(f)) => match f.data() {
                Some(data) => match (f.type_name(), data.as_text()) {
                    ("date" | "datetime", Some(text)) => {
                        // The zone's name in brackets is beyond TOML; its offset says the same instant.
                        let text = text.split('[').next().unwrap_or(text);
                        match text.parse::<toml::value::Datetime>() {
                            Ok(d) => toml::Value::Datetime(d),
                            Err(_) => toml::Value::String(text.to_owned()),
                        }
                    }
                    _ => plain(ctx, &data, spot, depth + 1)?,
                },
                None => return Err(refused(&format!("a {}", f.type_name()))),
            },
            _ => return Err(refused(&format!("a {}", type_name(v)))),
        },
    })
}
