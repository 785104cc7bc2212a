//! Values → text: one renderer for `print`, `text` and templates. Iterative: deep data needs no stack. It pays as it goes
//! on and ends where the fuel or the memory does.

use super::number;
use super::other::Other;
use super::value::Value;
use crate::partition::heap;
use std::fmt::Write as _;

/// What is still to be written.
enum Part<'v> {
    Value(&'v Value),
    Text(&'static str),
    Key(&'v str),
}

/// A value as `text(v)` gives it.
#[must_use]
pub fn display(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// Adds a value's rendering to a text.
pub fn write(value: &Value, out: &mut String) {
    match value {
        Value::Short(t) => out.push_str(t.as_str()),
        Value::Text(_) => out.push_str(value.as_text().unwrap_or("")),
        Value::Int(n) => {
            let _ = write!(out, "{n}");
        }
        _ => nested(value, out),
    }
}

/// As [`inside`], cut where it gets long: for messages.
pub(crate) fn brief(value: &Value) -> String {
    const MOST: usize = 80;
    let mut shown = inside(value);
    if let Some((cut, _)) = shown.char_indices().nth(MOST) {
        shown.truncate(cut);
        shown.push('…');
    }
    shown
}

/// A value as it stands inside a list: texts quoted.
#[must_use]
pub fn inside(value: &Value) -> String {
    let mut out = String::new();
    nested(value, &mut out);
    out
}

fn nested(value: &Value, out: &mut String) {
    let mut todo = vec![Part::Value(value)];
    while let Some(part) = todo.pop() {
        let before = out.len();
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Key(key) => {
                out.push_str(key);
                out.push_str(": ");
            }
            Part::Value(value) => one(value, out, &mut todo),
        }
        let made = out.len() - before;
        if (made >= 32 && !heap::work(made / 32)) || !heap::fits(out.len()) {
            return;
        }
    }
}

fn series<'v>(todo: &mut Vec<Part<'v>>, items: &'v [Value], close: &'static str) {
    if !heap::work(items.len()) {
        todo.clear();
        return;
    }
    todo.push(Part::Text(close));
    for (i, item) in items.iter().enumerate().rev() {
        todo.push(Part::Value(item));
        if i > 0 {
            todo.push(Part::Text(", "));
        }
    }
}

fn one<'v>(value: &'v Value, out: &mut String, todo: &mut Vec<Part<'v>>) {
    match value {
        Value::Nothing | Value::Unbound => out.push_str("nothing"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(n) => {
            let _ = write!(out, "{n}");
        }
        Value::Float(f) => out.push_str(&number::float(*f)),
        Value::Big(n) => {
            // To decimal digits: each is divided out of what is left.
            let limbs = n.0.bits() as usize / 64;
            if heap::work(limbs.saturating_mul(limbs) / 16) {
                let _ = write!(out, "{}", n.0);
            }
        }
        Value::Short(_) | Value::Text(_) => quote(value.as_text().unwrap_or(""), out),
        Value::Builtin(id) => {
            out.push_str("builtin:");
            out.push_str(crate::builtins::get(*id).name);
        }
        Value::Task(task) => {
            out.push_str("task:");
            out.push_str(task.proto.name.as_deref().unwrap_or("<lambda>"));
        }
        Value::Cell(cell) => out.push_str(&display(&cell.0.borrow())),
        Value::Shared(_) => out.push_str(&super::strict::display(value)),
        Value::List(list) => {
            out.push('[');
            series(todo, list.items(), "]");
        }
        Value::Map(map) => {
            if !heap::work(map.len()) {
                todo.clear();
                return;
            }
            out.push('{');
            todo.push(Part::Text("}"));
            for (i, (key, value)) in map.entries().enumerate().rev() {
                todo.push(Part::Value(value));
                todo.push(Part::Key(key.as_str()));
                if i > 0 {
                    todo.push(Part::Text(", "));
                }
            }
        }
        Value::Record(record) => {
            out.push_str(&record.shape.name);
            match record.variant {
                Some(index) => {
                    out.push('.');
                    out.push_str(&record.shape.variants[index].0);
                    if !record.values.is_empty() {
                        out.push('(');
                        series(todo, &record.values, ")");
                    }
                }
                None => {
                    out.push('{');
                    todo.push(Part::Text("}"));
                    for (i, (name, value)) in record.shape.fields.iter().zip(&record.values).enumerate().rev()
                    {
                        todo.push(Part::Value(value));
                        todo.push(Part::Key(name));
                        if i > 0 {
                            todo.push(Part::Text(", "));
                        }
                    }
                }
            }
        }
        Value::Other(other) => match &other.inner {
            Other::Bytes(bytes) => {
                out.push_str("bytes(");
                for byte in bytes.iter().take(32) {
                    let _ = write!(out, "{byte:02x}");
                }
                if bytes.len() > 32 {
                    let _ = write!(out, "… ({} bytes)", bytes.len());
                }
                out.push(')');
            }
            Other::Decimal(d) => d.write(out),
            Other::Type(shape) => {
                let _ = write!(out, "task:{}", shape.name);
            }
            Other::Enum(shape) => {
                let _ = write!(out, "enum:{}", shape.name);
            }
            Other::Maker(shape, index) => {
                let _ = write!(out, "task:{}.{}", shape.name, shape.variants[*index].0);
            }
            Other::Module(module) => {
                let _ = write!(out, "module:{}", module.name);
            }
            Other::Secret(secret) => {
                let _ = write!(out, "secret({})", secret.label);
            }
            Other::Foreign(f) => out.push_str(&f.render()),
        },
    }
}

/// A text in double quotes: backslash, quote and control characters as in JSON.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if u32::from(c) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The answer of `type_of`.
#[must_use]
pub fn type_name(value: &Value) -> &str {
    match value {
        Value::Nothing | Value::Unbound => "nothing",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) | Value::Big(_) => "number",
        Value::Short(_) | Value::Text(_) => "text",
        Value::Builtin(_) | Value::Task(_) => "task",
        Value::Cell(_) => "nothing",
        Value::Shared(_) => super::strict::type_of(value),
        Value::List(_) => "list",
        Value::Map(_) => "map",
        Value::Record(record) => &record.shape.name,
        Value::Other(other) => match &other.inner {
            Other::Bytes(_) => "bytes",
            Other::Decimal(_) => "decimal",
            Other::Type(_) | Other::Maker(..) => "task",
            Other::Enum(_) => "enum",
            Other::Module(_) => "module",
            Other::Secret(_) => "secret",
            Other::Foreign(f) => f.type_name(),
        },
    }
}
