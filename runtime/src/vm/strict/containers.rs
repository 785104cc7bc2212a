//! Fields, elements, joined text, and what a loop walks over.

use super::{render, type_name};
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
        _ => Err(raised(format!("no field `{name}` in {}", type_name(c)))),
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

/// `a .. b .. c`: joined from the right, each join paid for.
pub(crate) fn concat(core: &mut Core, parts: &[Value]) -> Result<Value, Fault> {
    let mut texts: Vec<std::borrow::Cow<'_, str>> = Vec::with_capacity(parts.len());
    let mut good = true;
    for part in parts {
        texts.push(match part {
            Value::Int(n) => n.to_string().into(),
            Value::Float(f) => number::float(*f).into(),
            other => match other.as_text() {
                Some(text) => text.into(),
                None => {
                    good = false;
                    "".into()
                }
            },
        });
    }
    let Some(last) = parts.len().checked_sub(1) else { return Ok(Value::text("")) };
    let joins = |v: &Value| matches!(v, Value::Int(_) | Value::Float(_)) || v.as_text().is_some();
    let mut length = texts[last].len();
    let mut right = type_name(&parts[last]);
    let mut right_good = joins(&parts[last]);
    let mut read = if parts[last].as_text().is_some() { length } else { 0 };
    let mut total = Value::Nothing;
    for i in (0..last).rev() {
        let joined = good || (joins(&parts[i]) && right_good);
        if !joined {
            return Err(raised(format!(
                "`..` joins strings and numbers, got {} and {right}",
                type_name(&parts[i])
            )));
        }
        let own = if parts[i].as_text().is_some() { texts[i].len() } else { 0 };
        core.charge(own as u64 / 32 + read as u64 / 32)?;
        length += texts[i].len();
        let bytes = sizes::text(length);
        core.allocate(bytes)?;
        if i == 0 {
            let mut text = String::with_capacity(length);
            texts.iter().for_each(|part| text.push_str(part));
            total = Core::counted_text(text, bytes);
        }
        (right, right_good, read) = ("string", true, length);
    }
    Ok(total)
}

/// A template's text.
pub(crate) fn template(core: &mut Core, parts: &[Value]) -> Result<Value, Fault> {
    let mut text = String::new();
    for part in parts {
        text = render(core, part, text)?;
    }
    core.string(text)
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
