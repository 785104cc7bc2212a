//! `json`: both ways, with the depth bounded and each node paid for.

use super::{error, int, ok, text};
use crate::builtins::{Args, Ctx};
use crate::vm::render::quote;
use crate::vm::shared::Body;
use crate::vm::strict::{self, type_name};
use crate::vm::trap::{Fault, Stop, Trap, raised};
use crate::vm::value::Value;
use std::fmt::Write as _;

/// Containers inside one another.
const DEPTH: usize = 64;
/// Spaces per level at most.
const MAX_INDENT: i64 = 16;

pub(super) fn encode(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let indent = match args.at(1) {
        Value::Nothing => None,
        _ => {
            let spaces = int(args, 1)?;
            if !(0..=MAX_INDENT).contains(&spaces) {
                return Err(raised(format!(
                    "`json.encode` takes from 0 to {MAX_INDENT} spaces per level, got {spaces}"
                )));
            }
            usize::try_from(spaces).ok().filter(|n| *n > 0)
        }
    };
    let most = usize::try_from(ctx.core.exact.terms.memory).unwrap_or(usize::MAX);
    let mut out = String::new();
    write(ctx, args.at(0), indent, 0, most, &mut out)?;
    ctx.core.string(out)
}

fn line(indent: Option<usize>, depth: usize, out: &mut String) {
    if let Some(spaces) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', spaces * depth));
    }
}

fn write(
    ctx: &mut Ctx<'_>,
    value: &Value,
    indent: Option<usize>,
    depth: usize,
    most: usize,
    out: &mut String,
) -> Result<(), Fault> {
    ctx.charge(1)?;
    if depth >= DEPTH && matches!(value.body(), Some(Body::Array(_) | Body::Record(_))) {
        return Err(raised(format!("JSON nests deeper than {DEPTH}")));
    }
    if out.len() > most {
        return Err(Box::new(Stop::Trap(Trap::Memory)));
    }
    match value {
        Value::Nothing => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(n) => {
            let _ = write!(out, "{n}");
        }
        Value::Float(f) if f.is_finite() => out.push_str(&crate::vm::number::float(*f)),
        Value::Float(f) => {
            return Err(raised(format!("JSON has no form for {}", crate::vm::number::float(*f))));
        }
        _ => match value.body() {
            None if value.as_text().is_some() => {
                let text = value.as_text().unwrap_or("");
                ctx.charge(text.len() as u64 / 32)?;
                quote(text, out);
            }
            Some(Body::Array(array)) => {
                out.push('[');
                for i in 0..array.len() {
                    if i > 0 {
                        out.push(',');
                    }
                    line(indent, depth + 1, out);
                    let item = array.items()[i].clone();
                    write(ctx, &item, indent, depth + 1, most, out)?;
                }
                if array.len() > 0 {
                    line(indent, depth, out);
                }
                out.push(']');
            }
            Some(Body::Record(table)) => {
                out.push('{');
                for i in 0..table.len() {
                    let field = table.entries().get_index(i).map(|(k, v)| (k.clone(), v.clone()));
                    let Some((key, item)) = field else { break };
                    if i > 0 {
                        out.push(',');
                    }
                    line(indent, depth + 1, out);
                    crate::vm::strict::read_key(ctx.core, key.as_str())?;
                    quote(key.as_str(), out);
                    out.push_str(if indent.is_some() { ": " } else { ":" });
                    write(ctx, &item, indent, depth + 1, most, out)?;
                }
                if table.len() > 0 {
                    line(indent, depth, out);
                }
                out.push('}');
            }
            _ => {
                let what = type_name(value);
                let article = if what.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
                return Err(raised(format!("JSON has no form for {article} {what}")));
            }
        },
    }
    Ok(())
}

/// What is wrong in a text, and where.
struct Bad(usize, String);

enum Reading {
    Bad(Bad),
    Fault(Fault),
}

impl From<Fault> for Reading {
    fn from(fault: Fault) -> Self {
        Reading::Fault(fault)
    }
}

pub(super) fn decode(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let source = text(ctx, args, 0)?.to_owned();
    let mut reader = Reader { text: &source, at: 0 };
    let result = reader.value(ctx, 0).and_then(|value| {
        reader.space();
        if reader.at < source.len() { Err(reader.bad("something follows the value")) } else { Ok(value) }
    });
    match result {
        Ok(value) => ok(ctx, value),
        Err(Reading::Fault(fault)) => Err(fault),
        Err(Reading::Bad(Bad(at, message))) => {
            let line = source.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() as i64 + 1;
            error(ctx, "json", "json", line, &message)
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn bad(&self, message: &str) -> Reading {
        Reading::Bad(Bad(self.at.min(self.text.len()), message.to_owned()))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, ctx: &mut Ctx<'_>, depth: usize) -> Result<Value, Reading> {
        ctx.charge(1)?;
        self.space();
        if depth >= DEPTH && matches!(self.peek(), Some(b'{' | b'[')) {
            return Err(self.bad("nests deeper than 64"));
        }
        match self.peek() {
            Some(b'{') => self.object(ctx, depth),
            Some(b'[') => {
                self.at += 1;
                let value = ctx.core.array(Vec::new())?;
                self.space();
                if self.eat(b']') {
                    return Ok(value);
                }
                loop {
                    let item = self.value(ctx, depth + 1)?;
                    if let Some(array) = value.as_array() {
                        ctx.core.grow_array(array, array.len() + 1)?;
                        array.items_mut().push(item);
                    }
                    self.space();
                    if self.eat(b']') {
                        return Ok(value);
                    }
                    if !self.eat(b',') {
                        return Err(self.bad("expected `,` or `]`"));
                    }
                }
            }
            Some(b'"') => {
                let text = self.string()?;
                Ok(ctx.core.string(text)?)
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                for (word, value) in
                    [("null", Value::Nothing), ("true", true.into()), ("false", false.into())]
                {
                    if self.text[self.at..].starts_with(word) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                Err(self.bad(if self.at >= self.text.len() {
                    "the text ends too early"
                } else {
                    "expected a value"
                }))
            }
        }
    }

    fn object(&mut self, ctx: &mut Ctx<'_>, depth: usize) -> Result<Value, Reading> {
        self.at += 1;
        let record = ctx.core.record(0)?;
        self.space();
        if self.eat(b'}') {
            return Ok(record);
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.bad("expected a key in quotes"));
            }
            let key = self.string()?;
            self.space();
            if !self.eat(b':') {
                return Err(self.bad("expected `:`"));
            }
            let value = self.value(ctx, depth + 1)?;
            let key = crate::partition::Core::counted_text(key, 0);
            strict::set_key(ctx.core, &record, &key, value, true)?;
            self.space();
            if self.eat(b'}') {
                return Ok(record);
            }
            if !self.eat(b',') {
                return Err(self.bad("expected `,` or `}`"));
            }
        }
    }

    fn number(&mut self) -> Result<Value, Reading> {
        let start = self.at;
        self.eat(b'-');
        let whole = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = &self.text[whole..self.at];
        if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
            return Err(self.bad("the number is malformed"));
        }
        let mut float = false;
        if self.eat(b'.') {
            float = true;
            let from = self.at;
            while matches!(self.peek(), Some(b'0'..=b'9')) {
                self.at += 1;
            }
            if self.at == from {
                return Err(self.bad("the number is malformed"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            float = true;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            let from = self.at;
            while matches!(self.peek(), Some(b'0'..=b'9')) {
                self.at += 1;
            }
            if self.at == from {
                return Err(self.bad("the number is malformed"));
            }
        }
        let text = &self.text[start..self.at];
        if !float && let Ok(n) = text.parse::<i64>() {
            return Ok(Value::Int(n));
        }
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(Value::Float(f)),
            _ => Err(self.bad("the number is out of range")),
        }
    }

    fn hex(&mut self) -> Result<u32, Reading> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.at += 4;
                Ok(code)
            }
            None => Err(self.bad("the escape is malformed")),
        }
    }

    fn string(&mut self) -> Result<String, Reading> {
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let length = rest.bytes().take_while(|b| !matches!(b, b'"' | b'\\' | 0..=0x1f)).count();
            out.push_str(&rest[..length]);
            self.at += length;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    let escape = self.peek();
                    self.at += 1;
                    out.push(match escape {
                        Some(b'n') => '\n',
                        Some(b't') => '\t',
                        Some(b'r') => '\r',
                        Some(b'b') => '\u{8}',
                        Some(b'f') => '\u{c}',
                        Some(c @ (b'"' | b'\\' | b'/')) => c as char,
                        Some(b'u') => {
                            let high = self.hex()?;
                            let code =
                                if (0xd800..0xdc00).contains(&high) && self.eat(b'\\') && self.eat(b'u') {
                                    let low = self.hex()?;
                                    if !(0xdc00..0xe000).contains(&low) {
                                        return Err(self.bad("the escape is no character"));
                                    }
                                    0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                                } else {
                                    high
                                };
                            char::from_u32(code).ok_or_else(|| self.bad("the escape is no character"))?
                        }
                        _ => {
                            self.at -= 1;
                            return Err(self.bad("the escape is malformed"));
                        }
                    });
                }
                Some(_) => return Err(self.bad("a control character in a string")),
                None => return Err(self.bad("the string is not closed")),
            }
        }
    }
}
