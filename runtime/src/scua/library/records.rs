//! `record`

use super::{needs, table};
use crate::builtins::{Args, Builtin, Ctx};
use crate::vm::shared::{Table, sizes};
use crate::vm::strict;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;

pub(crate) const TABLE: &[Builtin] = &[
    Builtin::exact("record.keys", (1, 1), |ctx, args| {
        let table = table(args, 0)?;
        room(ctx, table)?;
        let mut keys = Vec::with_capacity(table.len());
        for i in 0..table.len() {
            keys.push(key_at(ctx, table, i)?);
        }
        Ok(ctx.core.free_array(keys))
    }),
    Builtin::exact("record.values", (1, 1), |ctx, args| {
        let table = table(args, 0)?;
        room(ctx, table)?;
        let values = table.entries().values().cloned().collect();
        Ok(ctx.core.free_array(values))
    }),
    Builtin::exact("record.entries", (1, 1), |ctx, args| {
        let table = table(args, 0)?;
        room(ctx, table)?;
        let mut entries = Vec::with_capacity(table.len());
        for i in 0..table.len() {
            let key = key_at(ctx, table, i)?;
            let value = table.entries().get_index(i).map(|(_, v)| v.clone()).unwrap_or_default();
            entries.push(ctx.core.array(vec![key, value])?);
        }
        Ok(ctx.core.free_array(entries))
    }),
    Builtin::exact("record.from_entries", (1, 1), |ctx, args| {
        let pairs = super::array(args, 0)?;
        ctx.charge(pairs.len() as u64)?;
        let pairs = pairs.items().clone();
        let record = ctx.core.record(pairs.len())?;
        for pair in &pairs {
            let pair = pair.as_array().map(|pair| pair.items().clone()).unwrap_or_default();
            let [key, value] = &pair[..] else {
                return Err(raised("`record.from_entries` needs an array of [key, value]"));
            };
            if key.as_text().is_none() {
                return Err(raised(format!("a record key is a string, got {}", strict::type_name(key))));
            }
            strict::set_key(ctx.core, &record, key, value.clone(), true)?;
        }
        Ok(record)
    }),
    Builtin::exact("record.copy", (1, 1), |ctx, args| {
        let table = table(args, 0)?;
        ctx.charge(table.len() as u64)?;
        let copy = ctx.core.record(table.len())?;
        fill(ctx, &copy, table)?;
        Ok(copy)
    }),
    Builtin::exact("record.merge", (2, 2), |ctx, args| {
        let (first, second) = (table(args, 0)?, table(args, 1)?);
        ctx.charge((first.len() + second.len()) as u64)?;
        let fresh = second.entries().keys().filter(|key| first.get(key.as_str()).is_none()).count();
        let merged = ctx.core.record(first.len() + fresh)?;
        fill(ctx, &merged, first)?;
        fill(ctx, &merged, second)?;
        Ok(merged)
    }),
    Builtin::exact("record.has", (2, 2), |ctx, args| {
        let (table, key) = found(ctx, args)?;
        Ok(table.get(key).is_some().into())
    }),
    Builtin::exact("record.get", (3, 3), |ctx, args| {
        let (table, key) = found(ctx, args)?;
        Ok(table.get(key).unwrap_or_else(|| args.at(2).clone()))
    }),
    Builtin::exact("record.set", (3, 3), |ctx, args| {
        table(args, 0)?;
        key(args)?;
        ctx.charge(1)?;
        strict::set_key(ctx.core, args.at(0), args.at(1), args.at(2).clone(), true)?;
        Ok(Value::Nothing)
    }),
    Builtin::exact("record.remove", (2, 2), |ctx, args| {
        let key = key(args)?;
        let table = table(args, 0)?;
        ctx.charge(table.len() as u64)?;
        strict::read_key(ctx.core, key)?;
        Ok(table.remove(key).unwrap_or_default())
    }),
];

fn key<'a>(args: &'a Args<'_>) -> Result<&'a str, Fault> {
    args.at(1).as_text().ok_or_else(|| needs(args, 1, "a string"))
}

fn found<'a>(ctx: &mut Ctx<'_>, args: &'a Args<'_>) -> Result<(&'a Table, &'a str), Fault> {
    let table = table(args, 0)?;
    let key = key(args)?;
    ctx.charge(1)?;
    strict::read_key(ctx.core, key)?;
    Ok((table, key))
}

/// Pays for a list of a record's fields.
fn room(ctx: &mut Ctx<'_>, table: &Table) -> Result<(), Fault> {
    ctx.charge(table.len() as u64)?;
    ctx.core.allocate(sizes::ARRAY + sizes::SLOT * table.len())
}

fn key_at(ctx: &mut Ctx<'_>, table: &Table, i: usize) -> Result<Value, Fault> {
    let key = table.entries().get_index(i).map(|(key, _)| key.as_str().to_owned()).unwrap_or_default();
    ctx.core.string(key)
}

fn fill(ctx: &mut Ctx<'_>, record: &Value, from: &Table) -> Result<(), Fault> {
    for i in 0..from.len() {
        let field = from.entries().get_index(i).map(|(key, value)| (key.value(), value.clone()));
        if let Some((key, value)) = field {
            strict::set_key(ctx.core, record, &key, value, false)?;
        }
    }
    Ok(())
}
