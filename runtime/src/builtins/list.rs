//! Lists and maps.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::compare::{Incomparable, equal, sort_order};
use crate::vm::decimal::Decimal;
use crate::vm::ops::key_text;
use crate::vm::other::Other;
use crate::vm::render::type_name;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{List, Map, Value};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("append", &["list", "value"], 2, append).cost(Cost::Flat).reuses(),
    Builtin::new("insert", &["list", "index", "value"], 3, insert).cost(Cost::Own).reuses(),
    Builtin::new("range", &["start", "end", "step"], 1, range).cost(Cost::Own),
    Builtin::new("enumerate", &["list"], 1, enumerate),
    Builtin::new("keys", &["map"], 1, keys),
    Builtin::new("values", &["map"], 1, values),
    Builtin::new("items", &["map"], 1, items),
    Builtin::new("get", &["collection", "key", "default"], 2, get).cost(Cost::Flat),
    Builtin::new("remove", &["map", "key"], 2, remove).reuses(),
    Builtin::new("merge", &["map", "other"], 0, merge).variadic().cost(Cost::Own).reuses(),
    Builtin::new("sort", &["list", "desc"], 1, sort).named(2).cost(Cost::Sort).reuses(),
    Builtin::new("unique", &["list"], 1, unique),
    Builtin::new("chunk", &["list", "n"], 2, chunk),
    Builtin::new("flatten", &["list"], 1, flatten).cost(Cost::Own),
    Builtin::new("count", &["list"], 0, count),
    Builtin::new("count_missing", &["list"], 1, count_missing),
    Builtin::new("mode", &["list"], 1, mode),
    Builtin::new("reverse", &["value"], 1, reverse),
];

/// The list itself to be changed, copied only if somebody else holds it.
fn own(args: &mut Args<'_>) -> Option<Rc<List>> {
    match args.take(0) {
        Value::List(list) => Some(list),
        other => {
            args.values[0] = other;
            None
        }
    }
}

fn append(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let Some(mut list) = own(args) else { return Err(args.wrong(0, "a list")) };
    let value = args.take(1);
    Rc::make_mut(&mut list).edit(|items| items.push(value));
    Ok(Value::List(list))
}

fn insert(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let length = args.list(0)?.len();
    let i = args.int(1, "the index")?;
    let at = if i < 0 { i + length as i64 } else { i };
    if at < 0 || at > length as i64 {
        return Err(raised(format!("insert: index {i} out of range (length {length})")));
    }
    ctx.charge((length as i64 - at) as u64)?;
    let value = args.take(2);
    let Some(mut list) = own(args) else { return Err(args.wrong(0, "a list")) };
    Rc::make_mut(&mut list).edit(|items| items.insert(at as usize, value));
    Ok(Value::List(list))
}

fn range(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (start, end, step) = match args.len() {
        1 => (0, args.int(0, "end")?, 1),
        2 => (args.int(0, "start")?, args.int(1, "end")?, 1),
        _ => (args.int(0, "start")?, args.int(1, "end")?, args.int(2, "step")?),
    };
    if step == 0 {
        return Err(raised("range: step must not be 0"));
    }
    let span =
        if step > 0 { i128::from(end) - i128::from(start) } else { i128::from(start) - i128::from(end) };
    let count = if span <= 0 { 0 } else { (span - 1) / i128::from(step).abs() + 1 };
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    ctx.reserve(count.saturating_mul(16))?;
    ctx.charge(count as u64)?;
    let mut out = Vec::with_capacity(count);
    let mut at = start;
    for _ in 0..count {
        out.push(Value::Int(at));
        at = at.wrapping_add(step);
    }
    Ok(Value::list(out))
}

fn enumerate(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let items = args.list(0)?;
    Ok(Value::list(
        items
            .iter()
            .enumerate()
            .map(|(i, v)| Value::record([("index", Value::from(i)), ("item", v.clone())]))
            .collect(),
    ))
}

fn keys(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if let Some(Other::Module(module)) = args.at(0).as_other() {
        return Ok(Value::list(module.exports.keys().map(|k| Value::text(k)).collect()));
    }
    if let Value::Record(record) = args.at(0)
        && record.variant.is_none()
    {
        return Ok(Value::list(record.shape.fields.iter().map(|f| Value::text(f)).collect()));
    }
    Ok(Value::list(args.map(0)?.entries().map(|(k, _)| k.value()).collect()))
}

fn values(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(Value::list(args.map(0)?.entries().map(|(_, v)| v.clone()).collect()))
}

fn items(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(Value::list(
        args.map(0)?
            .entries()
            .map(|(k, v)| Value::record([("key", k.value()), ("value", v.clone())]))
            .collect(),
    ))
}

fn get(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let default = args.given(2).cloned().unwrap_or_default();
    match args.at(0) {
        Value::Map(map) => match key_text(args.at(1)) {
            Some(key) => Ok(map.get(&key).cloned().unwrap_or(default)),
            None => Ok(default),
        },
        Value::List(list) => {
            let length = list.items().len();
            let i = args.int(1, "the index")?;
            let at = if i < 0 { i + length as i64 } else { i };
            Ok(usize::try_from(at).ok().and_then(|at| list.items().get(at)).cloned().unwrap_or(default))
        }
        Value::Record(record) => {
            let index = args.at(1).as_text().and_then(|name| record.field(name));
            Ok(index.map_or(default, |i| record.values[i].clone()))
        }
        Value::Nothing => Ok(default),
        _ => Err(args.wrong(0, "a map or a list")),
    }
}

fn remove(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let Some(key) = key_text(args.at(1)).map(std::borrow::Cow::into_owned) else {
        return Err(args.wrong(1, "a key"));
    };
    match args.take(0) {
        Value::Map(mut map) => {
            if map.get(&key).is_some() {
                Rc::make_mut(&mut map).edit(|entries| entries.shift_remove(&crate::vm::value::Look(&key)));
            }
            Ok(Value::Map(map))
        }
        other => {
            args.values[0] = other;
            Err(args.wrong(0, "a map"))
        }
    }
}

fn merge(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if args.is_empty() {
        return Err(raised("merge() needs at least one map"));
    }
    for (i, value) in args.values.iter().enumerate() {
        if !matches!(value, Value::Map(_)) {
            return Err(raised(format!("merge(): argument {} is {}, not a map", i + 1, type_name(value))));
        }
    }
    let work: usize =
        args.values.iter().skip(1).map(|v| if let Value::Map(map) = v { map.len() } else { 0 }).sum();
    ctx.charge(work as u64)?;
    let mut maps = args.values.iter_mut().map(std::mem::take);
    let Some(Value::Map(mut first)) = maps.next() else { return Ok(Value::Nothing) };
    for value in maps {
        if let Value::Map(other) = value {
            let own: &mut Map = Rc::make_mut(&mut first);
            own.edit(|entries| {
                for (key, value) in other.entries() {
                    entries.insert(key.clone(), value.clone());
                }
            });
        }
    }
    Ok(Value::Map(first))
}

/// Sorts in the order of `sort`; the first pair that can't be ordered is the error.
pub(super) fn sort_values<T>(
    items: &mut [T],
    key: impl Fn(&T) -> &Value,
    descending: bool,
) -> Result<(), Incomparable> {
    let all_ints = items.iter().all(|i| matches!(key(i), Value::Int(_)));
    if all_ints {
        let int = |i: &T| match key(i) {
            Value::Int(n) => *n,
            _ => 0,
        };
        if descending {
            items.sort_by_key(|i| std::cmp::Reverse(int(i)));
        } else {
            items.sort_by_key(int);
        }
        return Ok(());
    }
    if let Some(odd) =
        items.iter().map(&key).find(|v| matches!(v, Value::Map(_) | Value::Task(_) | Value::Builtin(_)))
    {
        return Err(Incomparable(format!("{} has no order", type_name(odd))));
    }
    let mut failure = None;
    items.sort_by(|a, b| {
        if failure.is_some() {
            return Ordering::Equal;
        }
        sort_order(key(a), key(b), descending).unwrap_or_else(|e| {
            failure = Some(e);
            Ordering::Equal
        })
    });
    failure.map_or(Ok(()), Err)
}

fn sort(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let descending = args.flag(1);
    args.list(0)?;
    let Some(mut list) = own(args) else { return Err(args.wrong(0, "a list")) };
    // A copy is sorted, so that an error leaves the argument whole.
    let mut items = list.items().to_vec();
    if let Err(e) = sort_values(&mut items, |v| v, descending) {
        args.values[0] = Value::List(list);
        return Err(e.into());
    }
    match Rc::get_mut(&mut list) {
        Some(own) => own.edit(|old| *old = items),
        None => list = Rc::new(List::new(items)),
    }
    Ok(Value::List(list))
}

/// A key under which only equal values meet; equal values of different kinds (1, 1.0, true) share it.
pub(super) fn bucket(v: &Value) -> String {
    match v {
        Value::Bool(b) => format!("n{}", i64::from(*b)),
        Value::Float(f) if f.fract() == 0.0 && f.abs() < 1e15 => format!("n{}", *f as i64),
        Value::Int(n) => format!("n{n}"),
        Value::Short(_) | Value::Text(_) => format!("t{}", v.as_text().unwrap_or("")),
        Value::List(l) => format!("l{}", l.items().len()),
        Value::Map(m) => format!("m{}", m.len()),
        v if v.as_decimal().is_some() => match v.as_decimal().map(Decimal::as_integer) {
            Some(Ok(Some(n))) if i64::try_from(&n).is_ok() => format!("n{n}"),
            Some(Ok(Some(_))) => "onumber".to_owned(),
            _ => "d".to_owned(),
        },
        other => format!("o{}", type_name(other)),
    }
}

/// Positions of first appearances by equality.
pub(super) struct Seen {
    buckets: HashMap<String, Vec<usize>>,
    /// Whether a decimal, and whether a float was among them: the two are never compared.
    decimals: bool,
    floats: bool,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self { buckets: HashMap::new(), decimals: false, floats: false }
    }

    /// A decimal doesn't meet a float, though they are in different buckets.
    fn unmixed(&self, value: &Value) -> Result<(), Incomparable> {
        let (float, decimal) = (matches!(value, Value::Float(_)), value.as_decimal().is_some());
        if float && self.decimals || decimal && self.floats {
            return Err(Incomparable("cannot mix decimal and float".to_owned()));
        }
        Ok(())
    }

    /// The position of an equal value in `known`, or remembers this one as the next.
    pub(super) fn find(&mut self, value: &Value, known: &[Value]) -> Result<Option<usize>, Incomparable> {
        self.unmixed(value)?;
        self.decimals |= value.as_decimal().is_some();
        self.floats |= matches!(value, Value::Float(_));
        let key = bucket(value);
        let list = self.buckets.entry(key).or_default();
        for &i in list.iter() {
            if equal(&known[i], value)? {
                return Ok(Some(i));
            }
        }
        list.push(known.len());
        Ok(None)
    }

    /// The position of an equal value in `known`; remembers nothing.
    pub(super) fn seek(&self, value: &Value, known: &[Value]) -> Result<Option<usize>, Incomparable> {
        self.unmixed(value)?;
        for &i in self.buckets.get(&bucket(value)).into_iter().flatten() {
            if equal(&known[i], value)? {
                return Ok(Some(i));
            }
        }
        Ok(None)
    }
}

fn unique(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut seen = Seen::new();
    let mut out: Vec<Value> = Vec::new();
    for item in args.list(0)? {
        if seen.find(item, &out)?.is_none() {
            out.push(item.clone());
        }
    }
    Ok(Value::list(out))
}

fn chunk(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let n = args.int(1, "n")?;
    if n <= 0 {
        return Err(raised(format!("chunk: n must be positive, got {n}")));
    }
    Ok(Value::list(args.list(0)?.chunks(n as usize).map(|c| Value::list(c.to_vec())).collect()))
}

fn flatten(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut out = Vec::new();
    let total: usize = args.list(0)?.iter().map(|v| v.as_list().map_or(1, <[Value]>::len)).sum();
    ctx.charge(total as u64)?;
    ctx.reserve(total * 16)?;
    for item in args.list(0)? {
        match item.as_list() {
            Some(inner) => out.extend_from_slice(inner),
            None => out.push(item.clone()),
        }
    }
    Ok(Value::list(out))
}

fn count(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if args.is_empty() {
        return Ok(Value::record([("agg", Value::text("count"))]));
    }
    Ok(Value::from(args.list(0)?.iter().filter(|v| !v.is_nothing()).count()))
}

fn count_missing(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(Value::from(args.list(0)?.iter().filter(|v| v.is_nothing()).count()))
}

fn mode(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut seen = Seen::new();
    let mut kinds: Vec<Value> = Vec::new();
    let mut counts: Vec<usize> = Vec::new();
    for item in args.list(0)?.iter().filter(|v| !v.is_nothing()) {
        match seen.find(item, &kinds)? {
            Some(i) => counts[i] += 1,
            None => {
                kinds.push(item.clone());
                counts.push(1);
            }
        }
    }
    let best = counts.iter().copied().max().unwrap_or(0);
    let at = counts.iter().position(|c| *c == best);
    Ok(at.map_or(Value::Nothing, |i| kinds[i].clone()))
}

fn reverse(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if let Some(text) = args.at(0).as_text() {
        return Ok(Value::string(text.chars().rev().collect()));
    }
    match args.at(0).as_list() {
        Some(items) => Ok(Value::list(items.iter().rev().cloned().collect())),
        None => Err(args.wrong(0, "a list or text")),
    }
}

/// A value as a map's key.
pub(super) fn key(v: &Value) -> Option<crate::vm::value::Key> {
    crate::vm::value::Key::of(v).or_else(|| key_text(v).map(|t| crate::vm::value::Key::new(&t)))
}
