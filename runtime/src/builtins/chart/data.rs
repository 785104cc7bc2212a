//! What a chart shows: series of numbers with labels, read from the forms that programs have.

use super::super::Args;
use crate::vm::number::big_to_float;
use crate::vm::render::{display, inside, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};

/// Numbers of one colour.
pub(super) struct Series {
    pub(super) name: String,
    /// `None` where a value is missing.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// Everything that is drawn.
pub(super) struct Data {
    pub(super) series: Vec<Series>,
    /// Names of the places on the horizontal axis; empty if it shows numbers.
    pub(super) labels: Vec<String>,
}

/// Points of one chart.
const MAX_POINTS: usize = 100_000;
/// Series of one chart.
const MAX_SERIES: usize = 200;

fn few(points: usize) -> Result<(), Fault> {
    if points > MAX_POINTS {
        return Err(raised(format!("chart_svg: {points} points are too many (limit {MAX_POINTS})")));
    }
    Ok(())
}

fn number(v: &Value) -> Result<Option<f64>, Fault> {
    let f = match v {
        Value::Nothing => return Ok(None),
        Value::Int(n) => *n as f64,
        Value::Float(f) => *f,
        Value::Big(n) => big_to_float(&n.0),
        v => match v.as_decimal() {
            Some(d) => d.to_f64(),
            None => return Err(raised(format!("chart_svg expects numbers, got {}", type_name(v)))),
        },
    };
    if f.is_finite() { Ok(Some(f)) } else { Err(raised(format!("chart_svg: {} can't be drawn", inside(v)))) }
}

fn numbers(list: &[Value]) -> Result<Vec<(f64, Option<f64>)>, Fault> {
    list.iter().enumerate().map(|(i, v)| Ok((i as f64, number(v)?))).collect()
}

fn one(name: &str, points: Vec<(f64, Option<f64>)>, labels: Vec<String>) -> Data {
    Data { series: vec![Series { name: name.to_owned(), points }], labels }
}

fn texts(v: &Value) -> Vec<String> {
    match v {
        Value::List(list) => list.items().iter().map(display).collect(),
        v => vec![display(v)],
    }
}

/// Reads the data; `xy` for charts whose horizontal axis shows numbers.
pub(super) fn read(args: &Args<'_>, options: Option<&Map>, xy: bool) -> Result<Data, Fault> {
    let option = |key: &str| options.and_then(|o| o.get(key)).filter(|v| !v.is_nothing());
    let owned;
    let source = match args.at(1).as_other() {
        Some(crate::vm::other::Other::Foreign(f)) if f.type_name() == "array" => {
            owned = f.data().unwrap_or_default();
            &owned
        }
        _ => args.at(1),
    };
    let mut data = match source {
        Value::Map(map) if map.entries().all(|(_, v)| matches!(v, Value::List(_))) && !map.is_empty() => {
            let mut series = Vec::new();
            for (name, v) in map.entries() {
                let list = v.as_list().unwrap_or(&[]);
                let points = if xy { pairs(list)? } else { numbers(list)? };
                series.push(Series { name: name.as_str().to_owned(), points });
            }
            Data { series, labels: Vec::new() }
        }
        Value::Map(map) => {
            let mut points = Vec::new();
            for (i, (_, v)) in map.entries().enumerate() {
                points.push((i as f64, number(v)?));
            }
            one("", points, map.entries().map(|(k, _)| k.as_str().to_owned()).collect())
        }
        Value::List(list) if list.items().iter().any(|v| matches!(v, Value::Map(_))) => {
            rows(list.items(), option("x"), option("y"), xy)?
        }
        Value::List(list) if xy => one("", pairs(list.items())?, Vec::new()),
        Value::List(list) => one("", numbers(list.items())?, Vec::new()),
        _ => return Err(args.wrong(1, "a list of numbers or rows, or a map")),
    };
    if let Some(labels) = option("labels") {
        data.labels = texts(labels);
    }
    let count: usize = data.series.iter().map(|s| s.points.len()).sum();
    if count == 0 || data.series.iter().all(|s| s.points.iter().all(|p| p.1.is_none())) {
        return Err(raised("chart_svg: there is nothing to draw"));
    }
    few(count)?;
    if data.series.len() > MAX_SERIES {
        return Err(raised(format!(
            "chart_svg: {} series are too many (limit {MAX_SERIES})",
            data.series.len()
        )));
    }
    Ok(data)
}

/// `[x, y]` pairs, or plain numbers with their places.
fn pairs(list: &[Value]) -> Result<Vec<(f64, Option<f64>)>, Fault> {
    list.iter()
        .enumerate()
        .map(|(i, v)| match v.as_list() {
            Some([x, y]) => match number(x)? {
                Some(x) => Ok((x, number(y)?)),
                None => Ok((i as f64, None)),
            },
            Some(_) => Err(raised("chart_svg: a point is [x, y]")),
            None => Ok((i as f64, number(v)?)),
        })
        .collect()
}

/// Rows: the column `x` gives the places, `y` (one or several) the series; by default the first and all others.
fn rows(items: &[Value], x: Option<&Value>, y: Option<&Value>, xy: bool) -> Result<Data, Fault> {
    let mut maps = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Value::Map(map) => maps.push(map),
            other => return Err(raised(format!("chart_svg expects rows as maps, got {}", type_name(other)))),
        }
    }
    let columns: Vec<String> =
        maps.first().map(|m| m.entries().map(|(k, _)| k.as_str().to_owned()).collect()).unwrap_or_default();
    let x = match x {
        Some(v) => display(v),
        None => columns.first().cloned().unwrap_or_default(),
    };
    let y: Vec<String> = match y {
        Some(v) => texts(v),
        None => columns.into_iter().filter(|c| *c != x).collect(),
    };
    few(maps.len().saturating_mul(y.len().max(1)))?;
    let cell = |map: &Map, column: &str| {
        map.get(column).cloned().ok_or_else(|| raised(format!("chart_svg: a row has no column '{column}'")))
    };
    let mut places = Vec::with_capacity(maps.len());
    for map in &maps {
        places.push(cell(map, &x)?);
    }
    let numeric = xy && places.iter().all(|v| matches!(v, Value::Int(_) | Value::Float(_)));
    let mut series = Vec::new();
    for name in y {
        let mut points = Vec::with_capacity(maps.len());
        for (i, map) in maps.iter().enumerate() {
            let at = if numeric { number(&places[i])?.unwrap_or_default() } else { i as f64 };
            points.push((at, number(&cell(map, &name)?)?));
        }
        series.push(Series { name, points });
    }
    let labels = if numeric { Vec::new() } else { places.iter().map(display).collect() };
    Ok(Data { series, labels })
}
