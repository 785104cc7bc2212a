//! `set p.a[i] to v`: along a path, in place where nobody else holds the parts.

use super::ops::key_text;
use super::other::Other;
use super::render::type_name;
use super::steps::position;
use super::trap::{Fault, raised};
use super::value::{Key, Value};
use crate::partition::Core;
use std::rc::Rc;

/// Sets the end of a path below `root`; on an error `root` is whole.
pub(crate) fn set(root: &mut Value, keys: &[Value], value: Value, core: &mut Core) -> Result<(), Fault> {
    let mut at = root;
    let mut keys = keys;
    // A module's variable is one shared cell: the rest of the path goes on there.
    if let Value::Other(o) = &*at
        && let Other::Module(module) = &o.inner
    {
        let module = module.clone();
        let Some((first, rest)) = keys.split_first() else { return Ok(()) };
        let name = first.as_text().unwrap_or("");
        let Some(slot) = module.exports.get(name).copied() else {
            return Err(raised(format!("module has no export '{name}'")));
        };
        if rest.is_empty() {
            if module.fixed.iter().any(|f| **f == *name) {
                return Err(raised(format!("cannot replace the module task '{name}'")));
            }
            core.globals[slot as usize] = value;
            return Ok(());
        }
        let mut variable = std::mem::take(&mut core.globals[slot as usize]);
        let result = set(&mut variable, rest, value, core);
        core.globals[slot as usize] = variable;
        return result;
    }
    // The whole path is looked at before anything is changed or copied.
    check(at, keys)?;
    while let Some((key, rest)) = keys.split_first() {
        let last = rest.is_empty();
        at = match at {
            Value::List(list) => {
                let index = position(key, list.items().len(), "list")?;
                match Rc::make_mut(list).slot(index) {
                    Some(slot) => slot,
                    None => return Ok(()),
                }
            }
            Value::Map(map) => {
                let Some(text) = key_text(key) else { return Ok(()) };
                let map = Rc::make_mut(map);
                if last && map.get(&text).is_none() {
                    let key = Key::of(key).unwrap_or_else(|| Key::new(&text));
                    map.edit(|entries| entries.insert(key, value));
                    return Ok(());
                }
                match map.slot(&text) {
                    Some(slot) => slot,
                    None => return Ok(()),
                }
            }
            Value::Record(record) => {
                let name = key.as_text().unwrap_or("");
                let Some(index) = record.field(name) else { return Ok(()) };
                &mut Rc::make_mut(record).values[index]
            }
            _ => return Ok(()),
        };
        keys = rest;
    }
    *at = value;
    Ok(())
}

/// Looks at the end of a path whose parts nobody else holds.
fn unshared<T>(
    root: &mut Value,
    keys: &[Value],
    core: &mut Core,
    inner: impl FnOnce(&mut Value) -> T,
) -> Option<T> {
    if let Value::Other(o) = &*root
        && let Other::Module(module) = &o.inner
    {
        let (first, rest) = keys.split_first()?;
        let slot = *module.exports.get(first.as_text()?)? as usize;
        let mut variable = std::mem::take(&mut core.globals[slot]);
        let result = unshared(&mut variable, rest, core, inner);
        core.globals[slot] = variable;
        return result;
    }
    let mut at = root;
    for key in keys {
        at = match at {
            Value::List(list) => {
                let index = position(key, list.items().len(), "list").ok()?;
                Rc::get_mut(list)?.slot(index)?
            }
            Value::Map(map) => Rc::get_mut(map)?.slot(&key_text(key)?)?,
            Value::Record(record) => {
                let index = record.field(key.as_text()?)?;
                &mut Rc::get_mut(record)?.values[index]
            }
            _ => return None,
        };
    }
    Some(inner(at))
}

/// Leaves `mark` at the end of a path if `held` is the very object there and the parts above are nobody else's: a
/// change of it would be a change of a copy otherwise, and so it stays one.
pub(crate) fn let_go(root: &mut Value, keys: &[Value], held: &Value, mark: Value, core: &mut Core) {
    unshared(root, keys, core, |end| {
        let same = match (&*end, held) {
            (Value::List(a), Value::List(b)) => Rc::ptr_eq(a, b),
            (Value::Map(a), Value::Map(b)) => Rc::ptr_eq(a, b),
            (Value::Text(a), Value::Text(b)) => Rc::ptr_eq(a, b),
            _ => false,
        };
        if same {
            *end = mark;
        }
    });
}

/// Writes a value where [`let_go`] left an unbound mark; anywhere else nothing happens.
pub(crate) fn give_back(root: &mut Value, keys: &[Value], value: Value, core: &mut Core) {
    unshared(root, keys, core, |end| {
        if matches!(end, Value::Unbound) {
            *end = value;
        }
    });
}

fn check(root: &Value, keys: &[Value]) -> Result<(), Fault> {
    let mut at = root;
    for (i, key) in keys.iter().enumerate() {
        let last = i + 1 == keys.len();
        at = match at {
            Value::List(list) => &list.items()[position(key, list.items().len(), "list")?],
            Value::Map(map) => {
                let Some(text) = key_text(key) else {
                    return Err(raised(format!("a map key must be text, got {}", type_name(key))));
                };
                match map.get(&text) {
                    Some(value) => value,
                    None if last => return Ok(()),
                    None => return Err(raised(format!("Map has no key '{text}'"))),
                }
            }
            Value::Record(record) => {
                let name = key.as_text().unwrap_or("");
                match record.field(name) {
                    Some(i) => &record.values[i],
                    None => return Err(raised(format!("{} has no field '{name}'", record.shape.name))),
                }
            }
            Value::Short(_) | Value::Text(_) => {
                return Err(raised("text can't be changed in place: build a new one with slice and +"));
            }
            other => return Err(raised(format!("Cannot set an element of {}", type_name(other)))),
        };
    }
    Ok(())
}
