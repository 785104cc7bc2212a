//! What is inside a value: elements, members, and what a loop goes through.

use super::ops::key_text;
use super::other::Other;
use super::render::{brief, type_name};
use super::trap::{Fault, raised};
use super::value::{Key, Record, Value};
use crate::partition::Core;
use std::rc::Rc;

/// A position in something of a length; negative ones count from the end.
pub(crate) fn position(index: &Value, length: usize, what: &str) -> Result<usize, Fault> {
    let i = match index {
        Value::Int(i) => *i,
        Value::Float(f) if f.fract() == 0.0 && f.abs() < 9e15 => *f as i64,
        Value::Big(_) => {
            return Err(raised(format!("Index {} out of bounds ({what} length {length})", brief(index))));
        }
        other => return Err(raised(format!("index must be an integer, got {}", brief(other)))),
    };
    let at = if i < 0 { i + length as i64 } else { i };
    if at < 0 || at >= length as i64 {
        return Err(raised(format!("Index {i} out of bounds ({what} length {length})")));
    }
    Ok(at as usize)
}

/// `c[i]`.
pub(crate) fn index(c: &Value, i: &Value, core: &Core) -> Result<Value, Fault> {
    match c {
        Value::List(list) => {
            let at = position(i, list.items().len(), "list")?;
            Ok(list.items()[at].clone())
        }
        Value::Map(map) => match key_text(i) {
            Some(key) => map.get(&key).cloned().ok_or_else(|| no_key(&key)),
            None => Err(raised(format!("a map key must be text, got {}", type_name(i)))),
        },
        Value::Short(_) | Value::Text(_) => {
            let text = c.as_text().unwrap_or("");
            let at = position(i, c.chars(), "text")?;
            if c.chars() == text.len() {
                return Ok(Value::text(&text[at..=at]));
            }
            Ok(text.chars().nth(at).map_or(Value::Nothing, Value::char))
        }
        Value::Record(_) => match i.as_text() {
            Some(name) => field(c, name, core, Member::Plain),
            None => Err(raised(format!("Cannot index {}", type_name(c)))),
        },
        Value::Other(o) => match &o.inner {
            Other::Bytes(bytes) => {
                let at = position(i, bytes.len(), "bytes")?;
                Ok(Value::Int(i64::from(bytes[at])))
            }
            Other::Foreign(f) => match f.index(i) {
                Some(result) => result.map_err(Fault::from),
                None => Err(raised(format!("Cannot index {}", type_name(c)))),
            },
            _ => match i.as_text() {
                Some(name) => field(c, name, core, Member::Plain),
                None => Err(raised(format!("Cannot index {}", type_name(c)))),
            },
        },
        _ => Err(raised(format!("Cannot index {}", type_name(c)))),
    }
}

/// What a failing chain with an `of` says besides.
const BIND: &str = " — `of` takes the whole chain on its right: bind the inner value first";

fn no_key(key: &str) -> Fault {
    raised(format!("Map has no key '{key}'"))
}

/// How a member is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    Plain,
    Of,
    /// In a chain with an `of`.
    Chain,
    /// In brackets.
    At,
    Called,
}

/// `m.k`.
pub(crate) fn field(value: &Value, name: &str, core: &Core, how: Member) -> Result<Value, Fault> {
    match value {
        Value::Map(map) => map.get(name).cloned().ok_or_else(|| match how {
            Member::Called => method(value, name),
            Member::Chain => raised(format!("Map has no key '{name}'{BIND}")),
            Member::Plain | Member::Of | Member::At => no_key(name),
        }),
        Value::Record(record) => match record.field(name) {
            Some(i) => Ok(record.values[i].clone()),
            None => Err(raised(format!("{} has no field '{name}'", record.shape.name))),
        },
        _ if how == Member::At => index(value, &Value::text(name), core),
        Value::Other(o) => match &o.inner {
            Other::Module(module) => match module.exports.get(name) {
                Some(slot) => match &core.globals[*slot as usize] {
                    Value::Unbound => Err(no_key(name)),
                    v => Ok(v.clone()),
                },
                None => Err(no_key(name)),
            },
            Other::Enum(shape) => match shape.variants.iter().position(|(v, _)| **v == *name) {
                Some(i) if shape.variants[i].1 == 0 => {
                    Ok(Value::Record(Rc::new(Record::new(shape.clone(), Some(i), Vec::new()))))
                }
                Some(i) => Ok(Value::other(Other::Maker(shape.clone(), i))),
                None => Err(raised(format!("enum {} has no variant '{name}'", shape.name))),
            },
            Other::Foreign(f) => f
                .field(name)
                .ok_or_else(|| raised(format!("Cannot read property '{name}' of {}", type_name(value)))),
            _ => Err(raised(format!("Cannot read property '{name}' of {}", type_name(value)))),
        },
        _ if how == Member::Called => Err(method(value, name)),
        _ => {
            let hint = match (how, name) {
                (Member::Of | Member::Chain, _) => BIND,
                (Member::Plain, "length" | "len" | "size" | "count")
                    if matches!(value, Value::List(_) | Value::Short(_) | Value::Text(_)) =>
                {
                    " — write length(x)"
                }
                _ => "",
            };
            Err(raised(format!("Cannot read property '{name}' of {}{hint}", type_name(value))))
        }
    }
}

fn method(value: &Value, name: &str) -> Fault {
    let form = match (name, value) {
        ("append" | "push" | "add", _) => "set xs to append(xs, item)".to_owned(),
        ("get", _) => "get(m, key, default)".to_owned(),
        ("len" | "length" | "size", _) => "length(x)".to_owned(),
        ("keys" | "values" | "items", _) => format!("{name}(m)"),
        ("upper" | "lower" | "trim" | "split" | "replace", _) => format!("{name}(text, …)"),
        _ if crate::builtins::find(name).is_some() => format!("{name}(x, …)"),
        _ => crate::builtins::hint(name)
            .unwrap_or_else(|| format!("a task called with the value, {name}(x, …)")),
    };
    if let Value::Map(_) = value
        && crate::builtins::find(name).is_none()
        && !matches!(name, "append" | "push" | "add" | "get" | "len" | "size")
    {
        return no_key(name);
    }
    raised(format!("Synsema has no methods: {form}"))
}

/// A key of a map literal.
pub(super) fn put(map: &mut Value, key: &Value, value: Value) -> Result<(), Fault> {
    let Some(text) = key_text(key) else {
        return Err(raised(format!("a map key must be text, got {}", type_name(key))));
    };
    let key = Key::of(key).unwrap_or_else(|| Key::new(&text));
    if let Value::Map(map) = map {
        Rc::make_mut(map).edit(|entries| entries.insert(key, value));
    }
    Ok(())
}

/// The next element of what a loop goes through; `at` is its state.
#[inline]
pub(super) fn each_next(collection: &Value, at: &mut i64) -> Option<Value> {
    match collection {
        Value::List(list) => {
            let item = list.items().get(*at as usize)?.clone();
            *at += 1;
            Some(item)
        }
        Value::Map(map) => {
            let (key, _) = map.inner().get_index(*at as usize)?;
            *at += 1;
            Some(key.value())
        }
        Value::Short(_) | Value::Text(_) => {
            let c = collection.as_text()?.get(*at as usize..)?.chars().next()?;
            *at += c.len_utf8() as i64;
            Some(Value::char(c))
        }
        _ => {
            if let Some(Other::Foreign(f)) = collection.as_other() {
                if *at as usize >= f.length()? {
                    return None;
                }
                let item = f.index(&Value::Int(*at))?.ok()?;
                *at += 1;
                return Some(item);
            }
            let byte = *collection.as_bytes()?.get(*at as usize)?;
            *at += 1;
            Some(Value::Int(i64::from(byte)))
        }
    }
}

/// Whether `each` can go through a value.
pub(super) fn iterable(value: &Value) -> bool {
    match value {
        Value::List(_) | Value::Map(_) | Value::Short(_) | Value::Text(_) => true,
        _ => {
            value.as_bytes().is_some()
                || matches!(value.as_other(), Some(Other::Foreign(f)) if f.length().is_some())
        }
    }
}
