//! CSV by RFC 4180: a quoted empty field is an empty text, an unquoted one is missing.
//!
//! Source: RFC 4180; the lone CR as a line's end is an old habit of spreadsheets.

use super::convert::{parse_float, parse_int};
use super::{Args, Builtin, Cost, Ctx, dates};
use crate::vm::decimal::Decimal;
use crate::vm::other::Other;
use crate::vm::render::{display, inside, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Entries, Key, Map, Value};
use base64::Engine;
use std::rc::Rc;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("csv_parse", &["text", "options"], 1, parse).cost(Cost::Own),
    Builtin::new("csv_encode", &["rows", "options"], 1, encode).cost(Cost::Own),
];

/// A field as it stands in the text.
struct Field {
    text: String,
    quoted: bool,
}

/// Splits a text into records.
struct Reader<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    delimiter: char,
    line: usize,
}

impl Reader<'_> {
    /// Takes a line's end: CR LF, LF or a lone CR.
    fn end_of_line(&mut self) -> bool {
        match self.rest.peek() {
            Some('\r') => {
                self.rest.next();
                if self.rest.peek() == Some(&'\n') {
                    self.rest.next();
                }
            }
            Some('\n') => {
                self.rest.next();
            }
            _ => return false,
        }
        self.line += 1;
        true
    }

    fn quoted(&mut self) -> Result<String, Fault> {
        let start = self.line;
        let mut out = String::new();
        self.rest.next();
        loop {
            match self.rest.next() {
                None => {
                    return Err(raised(format!("csv_parse: line {start}: a quoted field is never closed")));
                }
                Some('"') if self.rest.peek() == Some(&'"') => {
                    self.rest.next();
                    out.push('"');
                }
                Some('"') => break,
                Some(c) => {
                    let ends = c == '\n' || (c == '\r' && self.rest.peek() != Some(&'\n'));
                    self.line += usize::from(ends);
                    out.push(c);
                }
            }
        }
        match self.rest.peek() {
            None | Some('\r' | '\n') => Ok(out),
            Some(c) if *c == self.delimiter => Ok(out),
            Some(c) => Err(raised(format!(
                "csv_parse: line {}: '{c}' after the closing quote of a field",
                self.line
            ))),
        }
    }

    /// The next record that isn't a blank line, with the line where it starts.
    fn record(&mut self) -> Result<Option<(usize, Vec<Field>)>, Fault> {
        while self.end_of_line() {}
        if self.rest.peek().is_none() {
            return Ok(None);
        }
        let start = self.line;
        let mut fields = Vec::new();
        loop {
            let field = if self.rest.peek() == Some(&'"') {
                Field { text: self.quoted()?, quoted: true }
            } else {
                let mut text = String::new();
                while let Some(c) = self.rest.next_if(|c| *c != self.delimiter && !matches!(c, '\r' | '\n')) {
                    text.push(c);
                }
                Field { text, quoted: false }
            };
            fields.push(field);
            if self.rest.next_if_eq(&self.delimiter).is_none() {
                self.end_of_line();
                return Ok(Some((start, fields)));
            }
        }
    }
}

/// What a column's fields become.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    Text,
    Number,
    Int,
    Decimal,
    Bool,
    Date,
    DateTime,
}

struct Options {
    headers: Headers,
    delimiter: char,
    numbers: bool,
    types: Vec<(String, Kind)>,
    missing: Vec<String>,
}

enum Headers {
    First,
    None,
    Given(Vec<String>),
}

fn text_option(name: &str, key: &str, v: &Value) -> Result<String, Fault> {
    v.as_text()
        .map(str::to_owned)
        .ok_or_else(|| raised(format!("{name}: option '{key}' must be a text, got {}", type_name(v))))
}

fn names(name: &str, key: &str, v: &Value) -> Result<Vec<String>, Fault> {
    match v.as_list() {
        Some(list) => list.iter().map(|t| text_option(name, key, t)).collect(),
        None => Ok(vec![text_option(name, key, v)?]),
    }
}

fn delimiter(name: &str, v: &Value) -> Result<char, Fault> {
    let text = text_option(name, "delimiter", v)?;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if !matches!(c, '"' | '\r' | '\n') => Ok(c),
        _ => Err(raised(format!("{name}: the delimiter must be one character, not a quote or a line's end"))),
    }
}

fn unknown(name: &str, key: &str, known: &str) -> Fault {
    raised(format!("{name}: unknown option '{key}', one of {known}"))
}

fn options(args: &Args<'_>) -> Result<Options, Fault> {
    let mut o = Options {
        headers: Headers::First,
        delimiter: ',',
        numbers: false,
        types: Vec::new(),
        missing: Vec::new(),
    };
    if args.optional(1).is_none() {
        return Ok(o);
    }
    for (key, v) in args.map(1)?.entries() {
        match key.as_str() {
            "headers" => {
                o.headers = match v {
                    Value::Bool(true) | Value::Nothing => Headers::First,
                    Value::Bool(false) => Headers::None,
                    v => Headers::Given(names(args.name, "headers", v)?),
                }
            }
            "delimiter" => o.delimiter = delimiter(args.name, v)?,
            "numbers" => o.numbers = crate::vm::ops::truthy(v),
            "missing" => o.missing = names(args.name, "missing", v)?,
            "types" => {
                let Value::Map(map) = v else {
                    return Err(raised(format!(
                        "csv_parse: option 'types' must be a map, got {}",
                        type_name(v)
                    )));
                };
                for (column, kind) in map.entries() {
                    let kind = text_option(args.name, "types", kind)?;
                    o.types.push((column.as_str().to_owned(), kind_of(&kind)?));
                }
            }
            key => return Err(unknown(args.name, key, "headers, delimiter, numbers, types, missing")),
        }
    }
    Ok(o)
}

fn kind_of(name: &str) -> Result<Kind, Fault> {
    Ok(match name {
        "text" => Kind::Text,
        "number" | "float" => Kind::Number,
        "int" | "integer" => Kind::Int,
        "decimal" => Kind::Decimal,
        "bool" => Kind::Bool,
        "date" => Kind::Date,
        "datetime" => Kind::DateTime,
        _ => {
            return Err(raised(format!(
                "csv_parse: unknown type '{name}', one of text, number, int, decimal, bool, date, datetime"
            )));
        }
    })
}

/// Digits with a sign are an integer, with a point or exponent a float.
fn number(text: &str) -> Option<Value> {
    let text = text.trim();
    let body = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || !body.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'-' | b'+'))
        || text.len() > 4300
    {
        return None;
    }
    if body.bytes().all(|b| b.is_ascii_digit()) {
        return parse_int(text, Some(10)).map(Value::big);
    }
    parse_float(text).map(Value::Float)
}

fn convert(field: Field, kind: Kind, o: &Options, line: usize, column: &str) -> Result<Value, Fault> {
    let absent = if field.quoted { false } else { field.text.is_empty() || o.missing.contains(&field.text) };
    if absent {
        return Ok(Value::Nothing);
    }
    let text = field.text.trim();
    let (value, what) = match kind {
        Kind::Plain if o.numbers && !field.quoted => {
            return Ok(number(&field.text).unwrap_or_else(|| Value::string(field.text)));
        }
        Kind::Plain | Kind::Text => return Ok(Value::string(field.text)),
        Kind::Number => (number(text), "a number"),
        Kind::Int => (parse_int(text, Some(10)).map(Value::big), "an integer"),
        Kind::Decimal => (Decimal::parse(text).map(Value::decimal), "a decimal"),
        Kind::Bool => (
            match text.to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" => Some(Value::Bool(true)),
                "false" | "no" | "0" => Some(Value::Bool(false)),
                _ => None,
            },
            "a bool",
        ),
        Kind::Date => (dates::date_from(text), "a date"),
        Kind::DateTime => (dates::datetime_from(text), "a datetime"),
    };
    value.ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        raised(format!("csv_parse: line {line}: column '{column}': '{shown}' is not {what}"))
    })
}

fn parse(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let o = options(args)?;
    let text = args.text(0)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    ctx.charge(text.len() as u64 / 16)?;
    let mut reader = Reader { rest: text.chars().peekable(), delimiter: o.delimiter, line: 1 };
    let header: Option<Vec<String>> = match &o.headers {
        Headers::First => match reader.record()? {
            None => return Ok(Value::list(Vec::new())),
            Some((line, fields)) => {
                let names: Vec<String> = fields.into_iter().map(|f| f.text).collect();
                distinct(&names, &format!("csv_parse: line {line}: duplicate header"))?;
                Some(names)
            }
        },
        Headers::Given(names) => {
            distinct(names, "csv_parse: duplicate header")?;
            Some(names.clone())
        }
        Headers::None => None,
    };
    let keys: Vec<Key> = header.iter().flatten().map(|n| Key::new(n)).collect();
    let kinds: Vec<Kind> = header
        .iter()
        .flatten()
        .map(|n| o.types.iter().find(|(c, _)| c == n).map_or(Kind::Plain, |(_, k)| *k))
        .collect();
    if let Some((missing, _)) = o.types.iter().find(|(c, _)| !header.iter().flatten().any(|n| n == c)) {
        return Err(raised(format!(
            "csv_parse: option 'types' names a column that isn't there: '{missing}'"
        )));
    }
    let mut width = None;
    let mut rows = Vec::new();
    while let Some((line, fields)) = reader.record()? {
        ctx.charge(fields.len() as u64 + 1)?;
        let expected = header.as_ref().map(Vec::len).or(width).unwrap_or(fields.len());
        width = Some(expected);
        if fields.len() != expected {
            let of = if header.is_some() { "the header" } else { "the first row" };
            return Err(raised(format!(
                "csv_parse: line {line}: expected {expected} fields as in {of}, got {}",
                fields.len()
            )));
        }
        let row = if header.is_some() {
            let mut entries = Entries::with_capacity_and_hasher(expected, Default::default());
            for ((field, key), kind) in fields.into_iter().zip(&keys).zip(&kinds) {
                entries.insert(key.clone(), convert(field, *kind, &o, line, key.as_str())?);
            }
            Value::Map(Rc::new(Map::new(entries)))
        } else {
            let items: Result<Vec<Value>, Fault> = fields
                .into_iter()
                .enumerate()
                .map(|(i, f)| convert(f, Kind::Plain, &o, line, &i.to_string()))
                .collect();
            Value::list(items?)
        };
        rows.push(row);
    }
    Ok(Value::list(rows))
}

fn distinct(names: &[String], message: &str) -> Result<(), Fault> {
    let mut seen = std::collections::BTreeSet::new();
    match names.iter().find(|n| !seen.insert(n.as_str())) {
        Some(twice) => Err(raised(format!("{message} '{twice}'"))),
        None => Ok(()),
    }
}

struct Style {
    delimiter: char,
    eol: String,
    missing: String,
    escape_formulas: bool,
}

fn encode(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut style =
        Style { delimiter: ',', eol: "\r\n".to_owned(), missing: String::new(), escape_formulas: false };
    let (mut head, mut columns) = (true, None);
    if args.optional(1).is_some() {
        for (key, v) in args.map(1)?.entries() {
            match key.as_str() {
                "headers" => match v {
                    Value::Bool(b) => head = *b,
                    Value::Nothing => {}
                    v => columns = Some(names(args.name, "headers", v)?),
                },
                "delimiter" => style.delimiter = delimiter(args.name, v)?,
                "eol" => {
                    style.eol = text_option(args.name, "eol", v)?;
                    if !matches!(style.eol.as_str(), "\r\n" | "\n" | "\r") {
                        return Err(raised(
                            "csv_encode: option 'eol' must be \"\\r\\n\", \"\\n\" or \"\\r\"",
                        ));
                    }
                }
                "missing" => style.missing = text_option(args.name, "missing", v)?,
                "escape_formulas" => style.escape_formulas = crate::vm::ops::truthy(v),
                key => {
                    return Err(unknown(args.name, key, "headers, delimiter, eol, missing, escape_formulas"));
                }
            }
        }
    }
    let rows = args.list(0)?;
    let mut out = String::new();
    let columns: Option<Vec<String>> = columns.or_else(|| match rows.first() {
        Some(Value::Map(map)) => Some(map.entries().map(|(k, _)| k.as_str().to_owned()).collect()),
        _ => None,
    });
    if let (Some(columns), true) = (&columns, head) {
        let cells: Vec<Value> = columns.iter().map(|c| Value::text(c)).collect();
        line(&mut out, cells.iter(), &style, 0)?;
    }
    for (i, row) in rows.iter().enumerate() {
        match (row, &columns) {
            (Value::Map(map), Some(columns)) => {
                if let Some((odd, _)) = map.entries().find(|(k, _)| !columns.iter().any(|c| c == k.as_str()))
                {
                    return Err(raised(format!(
                        "csv_encode: row {} has the key '{}', which is not a column",
                        i + 1,
                        odd.as_str()
                    )));
                }
                if let Some(absent) = columns.iter().find(|c| map.get(c).is_none()) {
                    return Err(raised(format!("csv_encode: row {} has no key '{absent}'", i + 1)));
                }
                ctx.charge(columns.len() as u64 + 1)?;
                line(&mut out, columns.iter().filter_map(|c| map.get(c)), &style, i + 1)?;
            }
            (Value::List(items), columns) => {
                let width = columns.as_ref().map(Vec::len).or(rows[0].as_list().map(<[Value]>::len));
                if let Some(width) = width.filter(|w| *w != items.items().len()) {
                    return Err(raised(format!(
                        "csv_encode: row {} has {} fields, not {width}",
                        i + 1,
                        items.items().len()
                    )));
                }
                ctx.charge(items.items().len() as u64 + 1)?;
                line(&mut out, items.items().iter(), &style, i + 1)?;
            }
            (other, _) => {
                return Err(raised(format!(
                    "csv_encode expects maps or lists as rows, got {} in row {}",
                    type_name(other),
                    i + 1
                )));
            }
        }
        if i % 64 == 0 {
            ctx.reserve(out.len())?;
        }
    }
    ctx.charge(out.len() as u64 / 32)?;
    Ok(Value::string(out))
}

fn line<'v>(
    out: &mut String,
    cells: impl Iterator<Item = &'v Value>,
    style: &Style,
    row: usize,
) -> Result<(), Fault> {
    let start = out.len();
    let mut count = 0;
    for cell in cells {
        if count > 0 {
            out.push(style.delimiter);
        }
        count += 1;
        self::cell(out, cell, style, row)?;
    }
    if count == 1 && out.len() == start {
        // An empty line would be skipped by a reader.
        out.push_str("\"\"");
    }
    out.push_str(&style.eol);
    Ok(())
}

fn cell(out: &mut String, value: &Value, style: &Style, row: usize) -> Result<(), Fault> {
    let owned;
    let text = match value {
        Value::Nothing | Value::Unbound => {
            out.push_str(&style.missing);
            return Ok(());
        }
        Value::Short(_) | Value::Text(_) => {
            let text = value.as_text().unwrap_or("");
            if style.escape_formulas && text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
                owned = format!("'{text}");
                owned.as_str()
            } else {
                text
            }
        }
        Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Big(_) => {
            crate::vm::render::write(value, out);
            return Ok(());
        }
        _ => match value.as_other() {
            Some(Other::Decimal(_)) => {
                crate::vm::render::write(value, out);
                return Ok(());
            }
            Some(Other::Bytes(bytes)) => {
                owned = base64::engine::general_purpose::STANDARD.encode(bytes);
                owned.as_str()
            }
            Some(Other::Secret(_)) => "[redacted]",
            Some(Other::Foreign(f)) if f.data().is_some_and(|d| d.as_text().is_some()) => {
                owned = display(value);
                owned.as_str()
            }
            _ => {
                return Err(raised(format!(
                    "csv_encode: row {row} holds {}, which is not one field: {}",
                    type_name(value),
                    inside(value).chars().take(60).collect::<String>()
                )));
            }
        },
    };
    let quote = text.is_empty()
        || text == style.missing
        || text.starts_with('\u{feff}')
        || text.contains(['"', '\r', '\n', style.delimiter]);
    if quote {
        out.push('"');
        out.push_str(&text.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(text);
    }
    Ok(())
}
