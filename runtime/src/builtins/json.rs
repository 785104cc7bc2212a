//! JSON, both ways; numbers keep every digit.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::decimal::Decimal;
use crate::vm::number;
use crate::vm::other::Other;
use crate::vm::render::type_name;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Key, Value};
use base64::Engine;
use num_bigint::BigInt;
use std::fmt::Write as _;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("json_encode", &["value"], 1, |c, a| encode(c, a, Style::SPACED)).cost(Cost::Own),
    Builtin::new("json_decode", &["text", "default", "allow_nan"], 1, decode).named(2).cost(Cost::Own),
    Builtin::new("json_for_script", &["value"], 1, |c, a| encode(c, a, Style::SCRIPT)).cost(Cost::Own),
    Builtin::new("canonical_json", &["value"], 1, |c, a| encode(c, a, Style::CANONICAL)).cost(Cost::Own),
    Builtin::new("jsonl_encode", &["list"], 1, jsonl_encode).cost(Cost::Own),
    Builtin::new("jsonl_decode", &["text"], 1, jsonl_decode).cost(Cost::Own),
];

/// Containers inside one another.
const MAX_DEPTH: usize = 500;

#[derive(Clone, Copy)]
struct Style {
    comma: &'static str,
    colon: &'static str,
    /// `<`, `>` and `&` escaped.
    script: bool,
    /// Keys sorted by UTF-16, numbers as JavaScript prints them.
    canonical: bool,
}

impl Style {
    const SPACED: Self = Self { comma: ", ", colon: ": ", script: false, canonical: false };
    const SCRIPT: Self = Self { comma: ", ", colon: ": ", script: true, canonical: false };
    const CANONICAL: Self = Self { comma: ",", colon: ":", script: false, canonical: true };
}

fn encode(ctx: &mut Ctx<'_>, args: &mut Args<'_>, style: Style) -> Result<Value, Fault> {
    let mut out = String::new();
    write(ctx, args.at(0), style, &mut out)?;
    ctx.charge(out.len() as u64 / 32)?;
    Ok(Value::string(out))
}

/// A value as JSON behind `out`.
pub(crate) fn plain(ctx: &mut Ctx<'_>, value: &Value, out: &mut String) -> Result<(), Fault> {
    write(ctx, value, Style::SPACED, out)
}

struct Writer<'c, 'x> {
    ctx: &'c mut Ctx<'x>,
    style: Style,
    /// Where in the value we are, for messages.
    path: Vec<String>,
}

fn write(ctx: &mut Ctx<'_>, value: &Value, style: Style, out: &mut String) -> Result<(), Fault> {
    let mut writer = Writer { ctx, style, path: Vec::new() };
    writer.value(value, out)
}

impl Writer<'_, '_> {
    fn spot(&self) -> String {
        format!("the value{}", self.path.concat())
    }

    fn value(&mut self, value: &Value, out: &mut String) -> Result<(), Fault> {
        if self.path.len() > MAX_DEPTH {
            return Err(raised(format!("json_encode: the value is nested too deeply (limit {MAX_DEPTH})")));
        }
        self.ctx.charge(1)?;
        self.room(out)?;
        match value {
            Value::Nothing | Value::Unbound => out.push_str("null"),
            Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Value::Int(n) => {
                let _ = write!(out, "{n}");
            }
            Value::Big(_) => crate::vm::render::write(value, out),
            Value::Float(f) => {
                if !f.is_finite() {
                    let spot = self.spot();
                    return Err(raised(format!(
                        "json_encode: {spot} is {}, which JSON can't hold",
                        number::float(*f)
                    )));
                }
                if self.style.canonical {
                    out.push_str(&canonical_number(*f));
                } else {
                    out.push_str(&number::float(*f));
                }
            }
            Value::Short(_) | Value::Text(_) => self.text(value.as_text().unwrap_or(""), out),
            Value::List(list) => {
                out.push('[');
                for (i, item) in list.items().iter().enumerate() {
                    if i > 0 {
                        out.push_str(self.style.comma);
                    }
                    if item.is_container() || matches!(item, Value::Builtin(_) | Value::Float(_)) {
                        self.path.push(format!("[{i}]"));
                        self.value(item, out)?;
                        self.path.pop();
                    } else {
                        self.value(item, out)?;
                    }
                }
                out.push(']');
                self.room(out)?;
            }
            Value::Map(map) => {
                let mut entries: Vec<(&str, &Value)> = map.entries().map(|(k, v)| (k.as_str(), v)).collect();
                if self.style.canonical {
                    entries.sort_by(|a, b| a.0.encode_utf16().cmp(b.0.encode_utf16()));
                }
                self.object(&entries, out)?;
            }
            Value::Record(record) if record.variant.is_none() => {
                let entries: Vec<(&str, &Value)> =
                    record.shape.fields.iter().map(|f| &**f).zip(&record.values).collect();
                self.object(&entries, out)?;
            }
            Value::Other(other) => match &other.inner {
                Other::Bytes(bytes) => {
                    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                    self.text(&text, out);
                }
                Other::Decimal(d) => d.write(out),
                Other::Secret(_) => out.push_str("\"[redacted]\""),
                Other::Foreign(f) => match f.data() {
                    Some(data) => {
                        self.path.push(String::new());
                        self.value(&data, out)?;
                        self.path.pop();
                    }
                    None => return Err(self.not_data(value)),
                },
                _ => return Err(self.not_data(value)),
            },
            _ => return Err(self.not_data(value)),
        }
        Ok(())
    }

    fn not_data(&self, value: &Value) -> Fault {
        let kind = match value {
            Value::Record(_) => "an enum value",
            _ => match type_name(value) {
                "task" => "a task",
                "enum" => "an enum",
                "module" => "a module",
                "complex" => "a complex number",
                other => return self.not_data_but(&format!("a {other}")),
            },
        };
        self.not_data_but(kind)
    }

    fn not_data_but(&self, kind: &str) -> Fault {
        raised(format!("json_encode: {} is {kind}, not data", self.spot()))
    }

    fn room(&mut self, out: &str) -> Result<(), Fault> {
        if out.len() > 1 << 16 { self.ctx.reserve(out.len()) } else { Ok(()) }
    }

    fn object(&mut self, entries: &[(&str, &Value)], out: &mut String) -> Result<(), Fault> {
        out.push('{');
        for (i, (key, value)) in entries.iter().enumerate() {
            if i > 0 {
                out.push_str(self.style.comma);
            }
            self.text(key, out);
            out.push_str(self.style.colon);
            if value.is_container() || matches!(value, Value::Builtin(_) | Value::Float(_)) {
                self.path.push(format!("[\"{key}\"]"));
                self.value(value, out)?;
                self.path.pop();
            } else {
                self.value(value, out)?;
            }
        }
        out.push('}');
        self.room(out)
    }

    fn text(&self, text: &str, out: &mut String) {
        out.push('"');
        let mut plain = 0;
        for (i, b) in text.bytes().enumerate() {
            let special =
                b < 0x20 || b == b'"' || b == b'\\' || (self.style.script && matches!(b, b'<' | b'>' | b'&'));
            if !special {
                continue;
            }
            out.push_str(&text[plain..i]);
            plain = i + 1;
            match b {
                b'"' => out.push_str("\\\""),
                b'\\' => out.push_str("\\\\"),
                b'\n' => out.push_str("\\n"),
                b'\t' => out.push_str("\\t"),
                b'\r' => out.push_str("\\r"),
                8 => out.push_str("\\b"),
                12 => out.push_str("\\f"),
                b => {
                    let _ = write!(out, "\\u{b:04x}");
                }
            }
        }
        out.push_str(&text[plain..]);
        out.push('"');
    }
}

/// As ECMAScript prints a number.
fn canonical_number(f: f64) -> String {
    if f == 0.0 {
        return "0".into();
    }
    let sign = if f < 0.0 { "-" } else { "" };
    let (digits, exponent) = number::shortest(f.abs());
    let count = digits.len() as i32;
    if (0..21).contains(&exponent) {
        let whole = exponent + 1;
        if count <= whole {
            return format!("{sign}{digits}{}", "0".repeat((whole - count) as usize));
        }
        return format!("{sign}{}.{}", &digits[..whole as usize], &digits[whole as usize..]);
    }
    if (-6..0).contains(&exponent) {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let point = if count > 1 { "." } else { "" };
    let direction = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{}{point}{}e{direction}{}", &digits[..1], &digits[1..], exponent.abs())
}

fn jsonl_encode(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut out = String::new();
    let items = args.list(0)?.to_vec();
    for item in &items {
        write(ctx, item, Style::SPACED, &mut out)?;
        out.push('\n');
    }
    ctx.charge(out.len() as u64 / 32)?;
    Ok(Value::string(out))
}

fn jsonl_decode(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut out = Vec::new();
    for (i, line) in args.text(0)?.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let value = parse(line, false).map_err(|e| raised(format!("jsonl_decode: line {}: {e}", i + 1)))?;
        out.push(value);
    }
    Ok(Value::list(out))
}

fn decode(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = args.text(0)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    ctx.charge(text.len() as u64 / 32)?;
    match parse(text, args.flag(2)) {
        Ok(value) => Ok(value),
        Err(reason) => match args.given(1) {
            Some(default) => Ok(default.clone()),
            None => Err(raised(format!("json_decode: {reason}"))),
        },
    }
}

/// JSON as a value; the message has the position.
pub(crate) fn parse(text: &str, allow_nan: bool) -> Result<Value, String> {
    let mut reader = Reader { text, bytes: text.as_bytes(), pos: 0, allow_nan };
    reader.space();
    let value = reader.value(0)?;
    reader.space();
    if reader.pos < reader.bytes.len() {
        return Err(reader.error("unexpected text after the value"));
    }
    Ok(value)
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    pos: usize,
    allow_nan: bool,
}

impl Reader<'_> {
    fn error(&self, what: &str) -> String {
        let before = &self.bytes[..self.pos.min(self.bytes.len())];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
        format!("{what} at line {line}, column {column}")
    }

    #[inline]
    fn peek(&self) -> u8 {
        self.bytes.get(self.pos).copied().unwrap_or(0)
    }

    #[inline]
    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\t' | b'\r') {
            self.pos += 1;
        }
    }

    fn word(&mut self, word: &str) -> bool {
        let yes = self.bytes[self.pos..].starts_with(word.as_bytes());
        if yes {
            self.pos += word.len();
        }
        yes
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if !crate::partition::heap::work(1) {
            return Err(self.error("no fuel is left"));
        }
        match self.peek() {
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => self.number(),
            b't' if self.word("true") => Ok(Value::Bool(true)),
            b'f' if self.word("false") => Ok(Value::Bool(false)),
            b'n' if self.word("null") => Ok(Value::Nothing),
            b'N' if self.allow_nan && self.word("NaN") => Ok(Value::Float(f64::NAN)),
            b'I' if self.allow_nan && self.word("Infinity") => Ok(Value::Float(f64::INFINITY)),
            0 if self.pos >= self.bytes.len() => Err(self.error("unexpected end")),
            _ => Err(self.error("unexpected character")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, String> {
        if depth >= MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        self.pos += 1;
        let mut entries = crate::vm::value::Entries::default();
        self.space();
        if self.peek() == b'}' {
            self.pos += 1;
            return Ok(Value::Map(std::rc::Rc::new(crate::vm::value::Map::new(entries))));
        }
        loop {
            self.space();
            if self.peek() != b'"' {
                return Err(self.error("expected a key"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != b':' {
                return Err(self.error("expected ':'"));
            }
            self.pos += 1;
            self.space();
            let value = self.value(depth + 1)?;
            if let Some(key) = Key::of(&key) {
                entries.insert(key, value);
            }
            self.space();
            match self.peek() {
                b',' => self.pos += 1,
                b'}' => {
                    self.pos += 1;
                    return Ok(Value::Map(std::rc::Rc::new(crate::vm::value::Map::new(entries))));
                }
                _ => return Err(self.error("expected ',' or '}'")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, String> {
        if depth >= MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        self.pos += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == b']' {
            self.pos += 1;
            return Ok(Value::list(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                b',' => self.pos += 1,
                b']' => {
                    self.pos += 1;
                    return Ok(Value::list(items));
                }
                _ => return Err(self.error("expected ',' or ']'")),
            }
        }
    }

    fn string(&mut self) -> Result<Value, String> {
        self.pos += 1;
        let start = self.pos;
        loop {
            match self.peek() {
                b'"' => {
                    let text = &self.text[start..self.pos];
                    self.pos += 1;
                    return Ok(Value::text(text));
                }
                b'\\' => break,
                0 if self.pos >= self.bytes.len() => return Err(self.error("unterminated text")),
                c if c < 0x20 => return Err(self.error("a control character in a text")),
                _ => self.pos += 1,
            }
        }
        let mut out = self.text[start..self.pos].to_owned();
        loop {
            match self.peek() {
                b'"' => {
                    self.pos += 1;
                    return Ok(Value::string(out));
                }
                b'\\' => {
                    self.pos += 1;
                    let c = self.peek();
                    self.pos += 1;
                    match c {
                        b'"' | b'\\' | b'/' => out.push(char::from(c)),
                        b'n' => out.push('\n'),
                        b't' => out.push('\t'),
                        b'r' => out.push('\r'),
                        b'b' => out.push('\u{8}'),
                        b'f' => out.push('\u{c}'),
                        b'u' => out.push(self.unicode()?),
                        _ => return Err(self.error("unknown escape")),
                    }
                }
                0 if self.pos >= self.bytes.len() => return Err(self.error("unterminated text")),
                c if c < 0x20 => return Err(self.error("a control character in a text")),
                _ => {
                    let from = self.pos;
                    while !matches!(self.peek(), b'"' | b'\\' | 0..=0x1f) {
                        self.pos += 1;
                    }
                    if self.pos == from {
                        return Err(self.error("unterminated text"));
                    }
                    out.push_str(&self.text[from..self.pos]);
                }
            }
        }
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let digits =
            self.text.get(self.pos..self.pos + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|d| u32::from_str_radix(d, 16).ok()) {
            Some(code) => {
                self.pos += 4;
                Ok(code)
            }
            None => Err(self.error("bad \\u escape")),
        }
    }

    fn unicode(&mut self) -> Result<char, String> {
        let high = self.hex4()?;
        if (0xd800..0xdc00).contains(&high) && self.word("\\u") {
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(code).ok_or_else(|| self.error("bad \\u escape"));
            }
        }
        char::from_u32(high).ok_or_else(|| self.error("a lone surrogate"))
    }

    fn number(&mut self) -> Result<Value, String> {
        let start = self.pos;
        if self.peek() == b'-' {
            self.pos += 1;
            if self.allow_nan && self.word("Infinity") {
                return Ok(Value::Float(f64::NEG_INFINITY));
            }
        }
        let first = self.peek();
        if !first.is_ascii_digit() {
            return Err(self.error("expected a digit"));
        }
        let mut small: Option<i64> = Some(0);
        let digits = self.pos;
        while self.peek().is_ascii_digit() {
            small = small.and_then(|n| n.checked_mul(10)?.checked_add(i64::from(self.peek() - b'0')));
            self.pos += 1;
        }
        if first == b'0' && self.pos > digits + 1 {
            self.pos = digits;
            return Err(self.error("a number with a leading zero"));
        }
        let mut float = false;
        if self.peek() == b'.' {
            float = true;
            self.pos += 1;
            if !self.peek().is_ascii_digit() {
                return Err(self.error("expected a digit"));
            }
            while self.peek().is_ascii_digit() {
                self.pos += 1;
            }
        }
        if matches!(self.peek(), b'e' | b'E') {
            float = true;
            self.pos += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.pos += 1;
            }
            if !self.peek().is_ascii_digit() {
                return Err(self.error("expected a digit"));
            }
            while self.peek().is_ascii_digit() {
                self.pos += 1;
            }
        }
        let text = &self.text[start..self.pos];
        if float {
            let f: f64 = text.parse().unwrap_or(f64::NAN);
            if !f.is_finite() {
                self.pos = start;
                return Err(self.error(&format!("{text} is too large for a float")));
            }
            return Ok(Value::Float(f));
        }
        if let Some(n) = small {
            return Ok(Value::Int(if text.starts_with('-') { -n } else { n }));
        }
        if text.len() > 4300 {
            self.pos = start;
            return Err(self.error("an integer of more than 4300 digits"));
        }
        Ok(Value::big(BigInt::parse_bytes(text.as_bytes(), 10).unwrap_or_default()))
    }
}

/// A value for whoever reads a result from outside: what JSON has no form for is as it is printed.
pub(crate) fn to_host(value: &Value) -> serde_json::Value {
    host(value, 0)
}

fn host(value: &Value, depth: usize) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Value::Nothing | Value::Unbound => Json::Null,
        Value::Bool(yes) => Json::Bool(*yes),
        Value::Int(n) => Json::from(*n),
        Value::Float(f) => serde_json::Number::from_f64(*f).map_or(Json::Null, Json::Number),
        Value::List(list) if depth < MAX_DEPTH => {
            Json::Array(list.items().iter().map(|item| host(item, depth + 1)).collect())
        }
        Value::Map(map) if depth < MAX_DEPTH => {
            let entry = |(key, value): (&Key, &Value)| (key.as_str().to_owned(), host(value, depth + 1));
            Json::Object(map.entries().map(entry).collect())
        }
        other => Json::String(crate::vm::render::display(other)),
    }
}

/// Plain data from the host as a value.
#[must_use]
pub(crate) fn from_host(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nothing,
        serde_json::Value::Bool(b) => Value::Bool(*b),
        serde_json::Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(n), _) => Value::Int(n),
            (None, Some(f)) => Value::Float(f),
            (None, None) => Decimal::parse(&n.to_string()).map_or(Value::Nothing, Value::decimal),
        },
        serde_json::Value::String(s) => Value::text(s),
        serde_json::Value::Array(items) => Value::list(items.iter().map(from_host).collect()),
        serde_json::Value::Object(map) => Value::map(map.iter().map(|(k, v)| (Key::new(k), from_host(v)))),
    }
}
