//! Fields, elements, joined text, and what a loop walks over.

use super::{cut, render, type_name};
use crate::partition::Core;
use crate::vm::number;
use crate::vm::shared::{Body, sizes};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Key, Value};

fn element(array: &crate::vm::shared::Array, index: &Value) -> Result<usize, Fault> {
    let Value::Int(i) = index else {
        return Err(raised(format!("an array index is an int, got {}", type_name(index))));
    };
    let length = array.len();
    match usize::try_from(*i) {
        Ok(at) if at < length => Ok(at),
        _ => Err(raised(format!("index {i} is out of range (length {length})"))),
    }
}

/// `c[i]`
pub(crate) fn index(core: &mut Core, c: &Value, i: &Value) -> Result<Value, Fault> {
    match c.body() {
        Some(Body::Array(array)) => {
            let at = element(array, i)?;
            Ok(array.items()[at].clone())
        }
        Some(Body::Record(table)) => match i.as_text() {
            Some(key) => {
                read_key(core, key)?;
                Ok(table.get(key).unwrap_or_default())
            }
            None => Err(raised(format!("a record key is a string, got {}", type_name(i)))),
        },
        Some(Body::Actor(_)) => Err(raised(ACTOR_FIELDS)),
        _ => Err(raised(format!("can't index {}", type_name(c)))),
    }
}

const ACTOR_FIELDS: &str = "an actor reference has no fields; use `tell` or `ask`";

/// `r.name`
pub(crate) fn field(core: &mut Core, c: &Value, name: &str) -> Result<Value, Fault> {
    match c.body() {
        Some(Body::Record(table)) => {
            read_key(core, name)?;
            Ok(table.get(name).unwrap_or_default())
        }
        Some(Body::Actor(_)) => Err(raised(ACTOR_FIELDS)),
        _ => Err(raised(format!("no field `{}` in {}", cut(name), type_name(c)))),
    }
}

/// `c[i] = v`
pub(crate) fn set_index(core: &mut Core, c: &Value, i: &Value, v: Value) -> Result<(), Fault> {
    match c.body() {
        Some(Body::Array(array)) => {
            let at = element(array, i)?;
            core.suspect(c, &v);
            let old = std::mem::replace(&mut array.items_mut()[at], v);
            drop(old);
            Ok(())
        }
        Some(Body::Record(_)) => match i.as_text() {
            Some(_) => set_key(core, c, i, v, true),
            None => Err(raised(format!("a record key is a string, got {}", type_name(i)))),
        },
        Some(Body::Actor(_)) => Err(raised(ACTOR_FIELDS)),
        _ => Err(raised(format!("can't set a field of {}", type_name(c)))),
    }
}

/// Reading a key. Most are too short to cost anything.
#[inline]
pub(crate) fn read_key(core: &mut Core, key: &str) -> Result<(), Fault> {
    if key.len() >= 32 { core.charge(key.len() as u64 / 32) } else { Ok(()) }
}

/// `r.k = v`; a key made at run time is a string of the record's own, another one is shared.
pub(crate) fn set_key(core: &mut Core, c: &Value, key: &Value, v: Value, made: bool) -> Result<(), Fault> {
    let table = match c.body() {
        Some(Body::Record(table)) => table,
        Some(Body::Actor(_)) => return Err(raised(ACTOR_FIELDS)),
        _ => return Err(raised(format!("can't set a field of {}", type_name(c)))),
    };
    let text = key.as_text().unwrap_or("");
    read_key(core, text)?;
    core.suspect(c, &v);
    let mut v = v;
    {
        let mut entries = table.entries_mut();
        if let Some(slot) = entries.get_mut(&crate::vm::value::Look(text)) {
            std::mem::swap(slot, &mut v);
            drop(entries);
            drop(v);
            return Ok(());
        }
    }
    core.grow_table(table, table.len() + 1)?;
    let key = if made && matches!(key, Value::Text(_)) {
        let bytes = sizes::text(text.len());
        core.allocate(bytes)?;
        Key::counted(text, bytes)
    } else {
        Key::of(key).unwrap_or_else(|| crate::vm::shared::key(text))
    };
    table.entries_mut().insert(key, v);
    Ok(())
}

/// Bytes of a part of a joined text, and of them those that are read; `None` if it can't be joined.
pub(crate) fn joined(part: &Value) -> Option<(usize, usize)> {
    match part {
        Value::Int(n) => Some((itoa::Buffer::new().format(*n).len(), 0)),
        Value::Float(f) => Some((number::float(*f).len(), 0)),
        other => other.as_text().map(|text| (text.len(), text.len())),
    }
}

/// `a .. b .. c`: joined from the right, each join paid for.
pub(crate) fn concat(core: &mut Core, parts: &[Value]) -> Result<Value, Fault> {
    let Some((last, before)) = parts.split_last() else { return Ok(Value::text("")) };
    let mut right = joined(last);
    let mut bytes = 0;
    for (i, part) in before.iter().enumerate().rev() {
        let (Some((own, own_read)), Some((length, read))) = (joined(part), right) else {
            let right = if i + 1 == before.len() { type_name(last) } else { "string" };
            return Err(raised(format!(
                "`..` joins strings and numbers, got {} and {right}",
                type_name(part)
            )));
        };
        core.charge(own_read as u64 / 32 + read as u64 / 32)?;
        bytes = sizes::text(own + length);
        core.allocate(bytes)?;
        right = Some((own + length, own + length));
    }
    let mut text = core.exact.text(right.map_or(0, |(length, _)| length));
    for part in parts {
        push(part, &mut text);
    }
    Ok(core.exact.made(text, bytes))
}

/// Adds a number's or a string's text.
pub(crate) fn push(part: &Value, text: &mut String) {
    match part {
        Value::Int(n) => text.push_str(itoa::Buffer::new().format(*n)),
        Value::Float(f) => text.push_str(&number::float(*f)),
        other => text.push_str(other.as_text().unwrap_or("")),
    }
}

/// A template's text.
pub(crate) fn template(core: &mut Core, parts: &[Value]) -> Result<Value, Fault> {
    let most = usize::try_from(core.exact.terms.memory).unwrap_or(usize::MAX);
    let mut text = core.exact.text(0);
    for part in parts {
        match part {
            Value::Int(_) => push(part, &mut text),
            // Too short to cost anything.
            Value::Short(short) if text.len() <= most => text.push_str(short),
            _ => text = render(core, part, text)?,
        }
    }
    let bytes = sizes::text(text.len());
    core.allocate(bytes)?;
    Ok(core.exact.made(text, bytes))
}

/// Checks start, end and step of a counting loop; gives the first number and how many follow.
pub(crate) fn count_bounds(bounds: &[Value]) -> Result<Option<(i64, u64)>, Fault> {
    let mut whole = [0i64; 3];
    for (i, bound) in bounds.iter().take(3).enumerate() {
        whole[i] = match bound {
            Value::Int(n) => *n,
            other => return Err(raised(format!("a loop counts with ints, got {}", type_name(other)))),
        };
    }
    let [from, to, step] = whole;
    if step == 0 {
        return Err(raised("the step of a loop can't be 0"));
    }
    if (step > 0 && from > to) || (step < 0 && from < to) {
        return Ok(None);
    }
    Ok(Some((from, from.abs_diff(to) / step.unsigned_abs())))
}

/// The place in a record, or nothing for an array; a fault if there is no looping over it.
pub(crate) fn loop_keys(value: &Value) -> Result<Value, Fault> {
    match value.body() {
        Some(Body::Array(_)) => Ok(Value::Nothing),
        Some(Body::Record(table)) => Ok(Value::Shared(table.walk())),
        _ => Err(raised(format!("can't loop over {}", type_name(value)))),
    }
}

/// The next element with its index, or key with its value.
pub(crate) fn loop_next(value: &Value, keys: &Value, at: &mut i64) -> Option<(Value, Value)> {
    match value.body() {
        Some(Body::Array(array)) => {
            let item = array.items().get(*at as usize).cloned()?;
            *at += 1;
            Some((Value::Int(*at - 1), item))
        }
        Some(Body::Record(table)) => {
            let Some(Body::Walk(walk)) = keys.body() else { return None };
            let at = walk.next()?;
            let entries = table.entries();
            entries.get_index(at).map(|(key, value)| (key.value(), value.clone()))
        }
        _ => None,
    }
}
