//! Tables: lists of maps, summarised, joined and turned round.

use super::higher::{callable, property};
use super::list::Seen;
use super::{Args, Builtin, Cost, Ctx, Next, Resume, Run};
use crate::vm::render::{inside, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Entries, Key, List, Map, Value};
use std::rc::Rc;

macro_rules! aggregate {
    ($name:literal, $kind:literal) => {
        Builtin::new($name, &["column"], 1, |_, a| {
            let column = Value::text(a.text(0)?);
            Ok(Value::record([("agg", Value::text($kind)), ("column", column)]))
        })
        .cost(Cost::Flat)
    };
}

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("join", &["list", "separator", "on", "how"], 2, join).cost(Cost::Linear),
    Builtin::new("summarize", &["rows", "key", "aggregates"], 3, summarize).cost(Cost::Own),
    Builtin::calls("count_by", &["rows", "key"], 1, count_by),
    Builtin::new("pivot", &["rows", "row", "column", "value", "aggregate"], 4, pivot).cost(Cost::Own),
    Builtin::new("fill_missing", &["values", "value"], 2, |c, a| fill(c, a, Value::is_nothing)),
    Builtin::new("fill_nan", &["values", "value"], 2, |c, a| {
        fill(c, a, |v| matches!(v, Value::Float(f) if f.is_nan()))
    }),
    Builtin::new("drop_missing", &["values", "columns"], 1, drop_missing),
    aggregate!("sum_of", "sum"),
    aggregate!("mean_of", "mean"),
    aggregate!("min_of", "min"),
    aggregate!("max_of", "max"),
    aggregate!("median_of", "median"),
    aggregate!("first_of", "first"),
    aggregate!("n_unique_of", "n_unique"),
    Builtin::new("quantile_of", &["column", "q"], 2, |_, a| {
        let q = a.float(1)?;
        if !(0.0..=1.0).contains(&q) {
            return Err(raised("quantile_of expects a share from 0 to 1"));
        }
        let column = Value::text(a.text(0)?);
        Ok(Value::record([("agg", Value::text("quantile")), ("column", column), ("q", Value::Float(q))]))
    })
    .cost(Cost::Flat),
];

/// Rows of a table.
fn rows<'a>(args: &'a Args<'_>, i: usize) -> Result<Vec<&'a Map>, Fault> {
    args.list(i)?
        .iter()
        .map(|row| match row {
            Value::Map(map) => Ok(&**map),
            other => Err(raised(format!("{} expects maps as rows, got {}", args.name, type_name(other)))),
        })
        .collect()
}

/// One column's name, or several.
fn columns(args: &Args<'_>, i: usize) -> Result<Vec<String>, Fault> {
    let text = |v: &Value| v.as_text().map(str::to_owned);
    let names = match args.at(i) {
        Value::List(list) => list.items().iter().map(text).collect(),
        v => text(v).map(|t| vec![t]),
    };
    match names {
        Some(names) if !names.is_empty() => Ok(names),
        _ => Err(args.wrong(i, "a column's name or a list of names")),
    }
}

fn cell<'m>(args: &Args<'_>, row: &'m Map, column: &str) -> Result<&'m Value, Fault> {
    row.get(column).ok_or_else(|| raised(format!("{}: a row has no column '{column}'", args.name)))
}

/// The key of a row: one value, or a list of several.
fn key_of(args: &Args<'_>, row: &Map, columns: &[String]) -> Result<Value, Fault> {
    if let [column] = columns {
        return cell(args, row, column).cloned();
    }
    columns.iter().map(|c| cell(args, row, c).cloned()).collect::<Result<Vec<_>, _>>().map(Value::list)
}

/// Groups in the order of their first row: the keys, and the numbers of the rows.
fn grouped(
    ctx: &mut Ctx<'_>,
    keys: impl Iterator<Item = Result<Value, Fault>>,
) -> Result<(Vec<Value>, Vec<Vec<usize>>), Fault> {
    let mut seen = Seen::new();
    let (mut known, mut groups) = (Vec::new(), Vec::<Vec<usize>>::new());
    for (i, key) in keys.enumerate() {
        ctx.charge(2)?;
        let key = key?;
        match seen.find(&key, &known)? {
            Some(at) => groups[at].push(i),
            None => {
                known.push(key);
                groups.push(vec![i]);
            }
        }
    }
    Ok((known, groups))
}

/// Another builtin's result.
fn other(ctx: &mut Ctx<'_>, name: &'static str, mut values: Vec<Value>) -> Result<Value, Fault> {
    let Some(builtin) = super::find(name).map(super::get) else { return Ok(Value::Nothing) };
    match builtin.run {
        Run::Plain(run) => run(ctx, &mut Args { values: &mut values, name }),
        Run::Calls(_) | Run::Missing(_) | Run::Exact(_) | Run::ExactCalls(_) => Ok(Value::Nothing),
    }
}

/// An aggregate as the functions above describe it.
struct Aggregate {
    kind: String,
    column: Option<String>,
    q: f64,
}

fn aggregate(args: &Args<'_>, v: &Value) -> Result<Aggregate, Fault> {
    let described = match v {
        Value::Map(map) => map.get("agg").and_then(Value::as_text).map(|kind| Aggregate {
            kind: kind.to_owned(),
            column: map.get("column").and_then(Value::as_text).map(str::to_owned),
            q: match map.get("q") {
                Some(Value::Float(q)) => *q,
                _ => 0.5,
            },
        }),
        _ => None,
    };
    let known = ["count", "sum", "mean", "min", "max", "median", "quantile", "first", "n_unique"];
    match described {
        Some(a) if known.contains(&a.kind.as_str()) && (a.column.is_some() || a.kind == "count") => Ok(a),
        _ => Err(raised(format!(
            "{} expects an aggregate such as sum_of(\"column\") or count(), got {}",
            args.name,
            inside(v).chars().take(60).collect::<String>()
        ))),
    }
}

impl Aggregate {
    fn of(&self, ctx: &mut Ctx<'_>, args: &Args<'_>, rows: &[&Map]) -> Result<Value, Fault> {
        ctx.charge(rows.len() as u64)?;
        let Some(column) = &self.column else { return Ok(Value::from(rows.len())) };
        let values: Vec<Value> =
            rows.iter().map(|row| cell(args, row, column).cloned()).collect::<Result<_, _>>()?;
        let empty = values.iter().all(Value::is_nothing);
        Ok(match self.kind.as_str() {
            "count" => Value::from(values.iter().filter(|v| !v.is_nothing()).count()),
            "first" => values.into_iter().next().unwrap_or_default(),
            "n_unique" => {
                let mut seen = Seen::new();
                let mut known = Vec::new();
                for v in values.into_iter().filter(|v| !v.is_nothing()) {
                    if seen.find(&v, &known)?.is_none() {
                        known.push(v);
                    }
                }
                Value::from(known.len())
            }
            "sum" => other(ctx, "sum", vec![Value::list(values)])?,
            _ if empty => Value::Nothing,
            "mean" => other(ctx, "mean", vec![Value::list(values)])?,
            "min" => other(ctx, "min", vec![Value::list(values)])?,
            "max" => other(ctx, "max", vec![Value::list(values)])?,
            "median" => other(ctx, "median", vec![Value::list(values)])?,
            _ => other(ctx, "quantile", vec![Value::list(values), Value::Float(self.q)])?,
        })
    }
}

fn summarize(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let rows = rows(args, 0)?;
    let keys = columns(args, 1)?;
    let mut wanted = Vec::new();
    for (name, v) in args.map(2)?.entries() {
        if keys.iter().any(|k| k == name.as_str()) {
            return Err(raised(format!("summarize: '{}' is both a key and an aggregate", name.as_str())));
        }
        wanted.push((name.clone(), aggregate(args, v)?));
    }
    let (_, groups) = grouped(ctx, rows.iter().map(|row| key_of(args, row, &keys)))?;
    let mut out = Vec::with_capacity(groups.len());
    for group in groups {
        let members: Vec<&Map> = group.iter().map(|i| rows[*i]).collect();
        let mut entries = Entries::default();
        for key in &keys {
            entries.insert(Key::new(key), cell(args, members[0], key)?.clone());
        }
        for (name, aggregate) in &wanted {
            entries.insert(name.clone(), aggregate.of(ctx, args, &members)?);
        }
        out.push(Value::Map(Rc::new(Map::new(entries))));
    }
    Ok(Value::list(out))
}

/// Keys by calls or columns, counted at the end.
struct CountBy {
    callee: Option<Value>,
    list: Rc<List>,
    columns: Vec<String>,
    keys: Vec<Value>,
}

fn count_by(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let (mut callee, mut names) = (None, Vec::new());
    match args.optional(1) {
        None => {}
        Some(v) if callable(v) => callee = Some(v.clone()),
        Some(_) => {
            rows(args, 0)?;
            names = columns(args, 1)?;
        }
    }
    match args.take(0) {
        Value::List(list) => Ok(Box::new(CountBy { callee, list, columns: names, keys: Vec::new() })),
        other => {
            args.values[0] = other;
            Err(args.wrong(0, "a list"))
        }
    }
}

impl Resume for CountBy {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        self.keys.extend(last);
        let keys = match &self.callee {
            Some(callee) => match self.list.items().get(self.keys.len()) {
                Some(item) => {
                    ctx.core.fuel_used(1);
                    return Ok(Next::Call(callee.clone(), [item.clone()].into()));
                }
                None => std::mem::take(&mut self.keys),
            },
            None if self.columns.is_empty() => self.list.items().to_vec(),
            None => {
                let mut keys = Vec::with_capacity(self.list.items().len());
                for row in self.list.items() {
                    ctx.charge(1)?;
                    let mut parts = Vec::with_capacity(self.columns.len());
                    for column in &self.columns {
                        parts.push(property(row, column, ctx.core)?);
                    }
                    keys.push(if parts.len() == 1 { parts.swap_remove(0) } else { Value::list(parts) });
                }
                keys
            }
        };
        let (known, groups) = grouped(ctx, keys.into_iter().map(Ok))?;
        let counts = known
            .into_iter()
            .zip(groups)
            .map(|(key, rows)| Value::record([("key", key), ("count", Value::from(rows.len()))]));
        Ok(Next::Done(Value::list(counts.collect())))
    }
}

/// Text with a separator, or two tables with a key.
fn join(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if args.optional(2).is_none() && args.at(1).as_list().is_none() {
        return super::text::join(ctx, args);
    }
    let on = if args.optional(2).is_some() {
        columns(args, 2)?
    } else {
        return Err(raised("join of two tables needs the key: join(left, right, \"column\")"));
    };
    let (keep_left, keep_right) = match args.optional(3).map(|v| v.as_text()) {
        None | Some(Some("inner")) => (false, false),
        Some(Some("left")) => (true, false),
        Some(Some("right")) => (false, true),
        Some(Some("outer" | "full")) => (true, true),
        Some(_) => {
            return Err(raised(format!(
                "join: how must be \"inner\", \"left\", \"right\" or \"outer\", got {}",
                inside(args.at(3))
            )));
        }
    };
    let (left, right) = (rows(args, 0)?, rows(args, 1)?);
    let left_columns = all_columns(&left, &on);
    let right_columns = all_columns(&right, &on);
    let named: Vec<Key> = right_columns
        .iter()
        .map(
            |c| if left_columns.contains(c) { Key::new(&format!("{}_right", c.as_str())) } else { c.clone() },
        )
        .collect();
    let (known, groups) = grouped(ctx, right.iter().map(|row| key_of(args, row, &on)))?;
    let mut places = Seen::new();
    let mut listed = Vec::new();
    for key in &known {
        places.find(key, &listed)?;
        listed.push(key.clone());
    }
    let mut used = vec![false; known.len()];
    let mut out = Vec::new();
    let width = on.len() + left_columns.len() + right_columns.len();
    let mut push = |ctx: &mut Ctx<'_>, l: Option<&Map>, r: Option<&Map>| -> Result<(), Fault> {
        ctx.charge(width as u64 + 1)?;
        ctx.reserve(width * 48 * 64)?;
        let mut entries = Entries::with_capacity_and_hasher(width, Default::default());
        for key in &on {
            let value = l.or(r).and_then(|row| row.get(key)).cloned().unwrap_or_default();
            entries.insert(Key::new(key), value);
        }
        for column in &left_columns {
            entries.insert(
                column.clone(),
                l.and_then(|row| row.get(column.as_str())).cloned().unwrap_or_default(),
            );
        }
        for (column, name) in right_columns.iter().zip(&named) {
            entries.insert(
                name.clone(),
                r.and_then(|row| row.get(column.as_str())).cloned().unwrap_or_default(),
            );
        }
        out.push(Value::Map(Rc::new(Map::new(entries))));
        Ok(())
    };
    for row in &left {
        let key = key_of(args, row, &on)?;
        // `nothing` is no value, so it meets no other `nothing`.
        let found = if key.is_nothing() { None } else { places.seek(&key, &known)? };
        match found {
            Some(at) => {
                used[at] = true;
                for i in &groups[at] {
                    push(ctx, Some(row), Some(right[*i]))?;
                }
            }
            None if keep_left => push(ctx, Some(row), None)?,
            None => {}
        }
    }
    if keep_right {
        for (_, group) in used.iter().zip(&groups).filter(|(used, _)| !**used) {
            for i in group {
                push(ctx, None, Some(right[*i]))?;
            }
        }
    }
    Ok(Value::list(out))
}

/// All columns but the keys, in the order of their first appearance.
fn all_columns(rows: &[&Map], on: &[String]) -> Vec<Key> {
    let mut seen = indexmap::IndexSet::new();
    for row in rows {
        for (key, _) in row.entries() {
            if !on.iter().any(|k| k == key.as_str()) && !seen.contains(key) {
                seen.insert(key.clone());
            }
        }
    }
    seen.into_iter().collect()
}

fn pivot(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let rows = rows(args, 0)?;
    let row_columns = columns(args, 1)?;
    let (column, value) = (args.text(2)?.to_owned(), args.text(3)?.to_owned());
    let aggregate = match args.optional(4) {
        None => None,
        Some(v) => match v.as_text() {
            Some(kind) => {
                let described = Value::record([("agg", Value::text(kind)), ("column", Value::text(&value))]);
                Some(self::aggregate(args, &described)?)
            }
            None => Some(self::aggregate(args, v)?),
        },
    };
    let (_, groups) = grouped(ctx, rows.iter().map(|row| key_of(args, row, &row_columns)))?;
    let mut names = indexmap::IndexSet::new();
    for row in &rows {
        let head = cell(args, row, &column)?;
        let Some(name) = super::list::key(head) else {
            return Err(raised(format!("pivot: {} can't be a column's name", inside(head))));
        };
        if row_columns.iter().any(|c| c == name.as_str()) {
            return Err(raised(format!("pivot: a column would have the name '{}' twice", name.as_str())));
        }
        names.insert(name);
    }
    ctx.charge(groups.len() as u64 * names.len() as u64)?;
    ctx.reserve(groups.len().saturating_mul(names.len() + row_columns.len()).saturating_mul(48))?;
    let mut out = Vec::with_capacity(groups.len());
    for group in groups {
        let mut entries =
            Entries::with_capacity_and_hasher(names.len() + row_columns.len(), Default::default());
        for c in &row_columns {
            entries.insert(Key::new(c), cell(args, rows[group[0]], c)?.clone());
        }
        for name in &names {
            entries.insert(name.clone(), Value::Nothing);
        }
        let mut cells: indexmap::IndexMap<Key, Vec<&Map>> = indexmap::IndexMap::new();
        for i in &group {
            let head = cell(args, rows[*i], &column)?;
            let Some(name) = super::list::key(head) else { continue };
            cells.entry(name).or_default().push(rows[*i]);
        }
        for (name, members) in cells {
            let cell = match &aggregate {
                Some(aggregate) => aggregate.of(ctx, args, &members)?,
                None if members.len() > 1 => {
                    return Err(raised(format!(
                        "pivot: several rows for one cell (column '{}') — give an aggregate such as \"sum\" last",
                        name.as_str()
                    )));
                }
                None => cell(args, members[0], &value)?.clone(),
            };
            entries.insert(name, cell);
        }
        out.push(Value::Map(Rc::new(Map::new(entries))));
    }
    Ok(Value::list(out))
}

/// Puts a value in the place of what is absent: in a list, in all columns of rows, or by column.
fn fill(ctx: &mut Ctx<'_>, args: &mut Args<'_>, absent: fn(&Value) -> bool) -> Result<Value, Fault> {
    let by = args.take(1);
    let items = args.list(0)?;
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        let Value::Map(row) = item else {
            out.push(if absent(item) { by.clone() } else { item.clone() });
            continue;
        };
        ctx.charge(row.len() as u64)?;
        let mut entries = Entries::with_capacity_and_hasher(row.len(), Default::default());
        for (key, value) in row.entries() {
            let value = match (&by, absent(value)) {
                (Value::Map(columns), true) => columns.get(key.as_str()).unwrap_or(value),
                (by, true) => by,
                (_, false) => value,
            };
            entries.insert(key.clone(), value.clone());
        }
        out.push(Value::Map(Rc::new(Map::new(entries))));
    }
    Ok(Value::list(out))
}

fn drop_missing(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let columns = if args.optional(1).is_some() { Some(columns(args, 1)?) } else { None };
    let items = args.list(0)?;
    let mut out = Vec::new();
    for item in items {
        let missing = match (item, &columns) {
            (Value::Map(row), Some(columns)) => {
                ctx.charge(columns.len() as u64)?;
                columns.iter().any(|c| row.get(c).is_none_or(Value::is_nothing))
            }
            (Value::Map(row), None) => {
                ctx.charge(row.len() as u64)?;
                row.entries().any(|(_, v)| v.is_nothing())
            }
            (v, _) => v.is_nothing(),
        };
        if !missing {
            out.push(item.clone());
        }
    }
    Ok(Value::list(out))
}
