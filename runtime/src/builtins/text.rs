//! Text.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::render::type_name;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use std::cell::RefCell;
use std::rc::Rc;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("upper", &["text"], 1, |_, a| Ok(Value::string(a.text(0)?.to_uppercase()))),
    Builtin::new("lower", &["text"], 1, |_, a| Ok(Value::string(a.text(0)?.to_lowercase()))),
    Builtin::new("trim", &["text"], 1, |_, a| Ok(Value::text(a.text(0)?.trim()))),
    Builtin::new("fold_text", &["text"], 1, fold_text),
    Builtin::new("fold", &["text"], 1, fold_text).replaced_by("fold_text"),
    Builtin::new("starts_with", &["text", "prefix"], 2, |_, a| Ok(a.text(0)?.starts_with(a.text(1)?).into())),
    Builtin::new("ends_with", &["text", "suffix"], 2, |_, a| Ok(a.text(0)?.ends_with(a.text(1)?).into())),
    Builtin::new("replace", &["text", "old", "new"], 3, replace).cost(Cost::Own),
    Builtin::new("replace_text", &["text", "old", "new"], 3, replace).cost(Cost::Own).replaced_by("replace"),
    Builtin::new("split", &["text", "separator"], 2, split).cost(Cost::Own),
    Builtin::new("contains", &["collection", "value"], 2, contains),
    Builtin::new("slice", &["collection", "start", "end"], 2, slice).cost(Cost::Own),
    Builtin::new("fmt", &["template", "map"], 2, fmt),
    Builtin::new("strip_ansi", &["text"], 1, strip_ansi),
    Builtin::new("matches", &["text", "pattern"], 2, matches),
    Builtin::new("regex_find_all", &["text", "pattern"], 2, find_all),
    Builtin::new("find_all", &["text", "pattern"], 2, find_all).replaced_by("regex_find_all"),
    Builtin::new("regex_capture", &["text", "pattern"], 2, capture),
    Builtin::new("capture", &["text", "pattern"], 2, capture_old).replaced_by("regex_capture"),
    Builtin::new("regex_replace", &["text", "pattern", "replacement"], 3, regex_replace),
    Builtin::new("replace_re", &["text", "pattern", "replacement"], 3, regex_replace)
        .replaced_by("regex_replace"),
];

fn fold_text(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    use unicode_normalization::UnicodeNormalization;
    let lower = args.text(0)?.to_lowercase();
    let out: String = lower.nfd().filter(|c| !unicode_normalization::char::is_combining_mark(*c)).collect();
    Ok(Value::string(out))
}

fn replace(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (text, old, new) = (args.text(0)?, args.text(1)?, args.text(2)?);
    let grow = if old.is_empty() {
        (text.len() + 1) * new.len()
    } else {
        text.len() / old.len() * new.len().saturating_sub(old.len())
    };
    ctx.charge((text.len() / 32) as u64)?;
    if grow > 1 << 16 {
        let count = text.matches(old).count();
        ctx.reserve(text.len() + count * new.len())?;
    }
    Ok(Value::string(text.replace(old, new)))
}

fn split(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (text, separator) = (args.text(0)?, args.text(1)?);
    let parts: Vec<Value> = if separator.is_empty() {
        ctx.reserve(text.len() * 16)?;
        text.chars().map(Value::char).collect()
    } else {
        text.split(separator).map(Value::text).collect()
    };
    ctx.charge(parts.len() as u64 + text.len() as u64 / 32)?;
    Ok(Value::list(parts))
}

pub(super) fn join(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let items = args.list(0)?;
    let separator = args.text(1)?;
    let mut size = 0usize;
    for item in items {
        match item {
            Value::Short(_) | Value::Text(_) => size += item.as_text().map_or(0, str::len) + separator.len(),
            Value::Int(_) | Value::Float(_) | Value::Big(_) | Value::Bool(_) => size += 24 + separator.len(),
            v if v.as_decimal().is_some() => size += 24 + separator.len(),
            other => {
                return Err(raised(format!(
                    "join expects texts, numbers or bools, got {} inside the list",
                    type_name(other)
                )));
            }
        }
    }
    ctx.reserve(size)?;
    let mut out = String::with_capacity(size.min(1 << 20));
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        crate::vm::render::write(item, &mut out);
    }
    ctx.charge(out.len() as u64 / 32)?;
    Ok(Value::string(out))
}

fn contains(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(crate::vm::ops::contains(args.at(0), args.at(1))?.into())
}

/// Start and end as Python's slices clamp them.
pub(super) fn clamp(args: &Args<'_>, length: usize) -> Result<(usize, usize), Fault> {
    let n = length as i64;
    let place = |i: i64| if i < 0 { (i + n).max(0) } else { i.min(n) };
    let start = place(if args.optional(1).is_some() { args.int(1, "start")? } else { 0 });
    let end = place(if args.optional(2).is_some() { args.int(2, "end")? } else { n });
    Ok((start as usize, end.max(start) as usize))
}

fn slice(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let value = args.at(0);
    if let Some(text) = value.as_text() {
        let length = value.chars();
        let (start, end) = clamp(args, length)?;
        if length == text.len() {
            ctx.charge((end - start) as u64 / 32)?;
            return Ok(Value::text(&text[start..end]));
        }
        ctx.charge(text.len() as u64 / 32)?;
        return Ok(Value::string(text.chars().skip(start).take(end - start).collect()));
    }
    if let Some(items) = value.as_list() {
        let (start, end) = clamp(args, items.len())?;
        ctx.charge((end - start) as u64)?;
        return Ok(Value::list(items[start..end].to_vec()));
    }
    if let Some(bytes) = value.as_bytes() {
        let (start, end) = clamp(args, bytes.len())?;
        return Ok(Value::bytes(bytes[start..end].to_vec()));
    }
    Err(args.wrong(0, "text, a list or bytes"))
}

fn fmt(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let template = args.text(0)?;
    let map = args.map(1)?;
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            out.push_str(&rest[..1]);
            rest = &rest[2..];
            continue;
        }
        let hole = rest
            .strip_prefix('{')
            .and_then(|r| r.find('}').map(|end| &r[..end]))
            .filter(|name| is_name(name));
        let Some(name) = hole else {
            out.push_str(&rest[..1]);
            rest = &rest[1..];
            continue;
        };
        match lookup(map, name)? {
            Some(value) => crate::vm::render::write(&value, &mut out),
            None if name.contains('.') => {
                out.push('{');
                out.push_str(name);
                out.push('}');
            }
            None => return Err(no_value(name)),
        }
        rest = &rest[name.len() + 2..];
    }
    out.push_str(rest);
    Ok(Value::string(out))
}

fn no_value(name: &str) -> Fault {
    raised(format!(
        "fmt: no value for {{{name}}} — pass it in the map, or write {{{{{name}}}}} for a literal brace"
    ))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.split('.').all(|part| {
            part.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        })
}

fn lookup(map: &crate::vm::value::Map, name: &str) -> Result<Option<Value>, Fault> {
    if let Some(value) = map.get(name) {
        return Ok(Some(value.clone()));
    }
    let mut parts = name.split('.');
    let Some(first) = parts.next() else { return Ok(None) };
    let Some(mut value) = map.get(first).cloned() else { return Ok(None) };
    for part in parts {
        let next = match &value {
            Value::Map(inner) => inner.get(part).cloned(),
            Value::Record(record) => record.field(part).map(|i| record.values[i].clone()),
            _ => None,
        };
        value = next.ok_or_else(|| no_value(name))?;
    }
    Ok(Some(value))
}

fn strip_ansi(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let re = compiled("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_])")?;
    Ok(Value::string(re.replace_all(args.text(0)?, "").into_owned()))
}

/// A pattern, from the few used last.
fn compiled(pattern: &str) -> Result<Rc<regex::Regex>, Fault> {
    const KEPT: usize = 16;
    thread_local! {
        static CACHE: RefCell<Vec<(String, Rc<regex::Regex>)>> = const { RefCell::new(Vec::new()) };
    }
    let cached = CACHE.with_borrow(|c| c.iter().find(|(p, _)| p == pattern).map(|(_, r)| r.clone()));
    if let Some(re) = cached {
        return Ok(re);
    }
    let re = regex::RegexBuilder::new(pattern).size_limit(1 << 20).build().map_err(|e| {
        raised(format!("invalid regex: {}", e.to_string().lines().last().unwrap_or("").trim()))
    })?;
    let re = Rc::new(re);
    CACHE.with_borrow_mut(|c| {
        if c.len() >= KEPT {
            c.remove(0);
        }
        c.push((pattern.to_owned(), re.clone()));
    });
    Ok(re)
}

fn matches(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = args.text(0)?;
    compiled(args.text(1)?)?;
    let whole = compiled(&format!("^(?:{})$", args.text(1)?))?;
    // `$` alone would also accept a line's end before the last newline in other dialects; here it is the end.
    Ok(whole.is_match(text).into())
}

fn find_all(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let re = compiled(args.text(1)?)?;
    Ok(Value::list(re.find_iter(args.text(0)?).map(|m| Value::text(m.as_str())).collect()))
}

fn groups(args: &Args<'_>) -> Result<Option<(Vec<Value>, bool)>, Fault> {
    let re = compiled(args.text(1)?)?;
    let Some(found) = re.captures(args.text(0)?) else { return Ok(None) };
    let grouped = found.len() > 1;
    let all = found
        .iter()
        .skip(usize::from(grouped))
        .map(|m| m.map_or(Value::Nothing, |m| Value::text(m.as_str())))
        .collect();
    Ok(Some((all, grouped)))
}

fn capture(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(groups(args)?.map_or(Value::Nothing, |(all, _)| Value::list(all)))
}

fn capture_old(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(match groups(args)? {
        None => Value::Nothing,
        Some((all, true)) => Value::list(all),
        Some((mut all, false)) => all.pop().unwrap_or_default(),
    })
}

fn regex_replace(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let re = compiled(args.text(1)?)?;
    // `\1` is this language's reference; `$` is plain text.
    let replacement = args.text(2)?;
    let mut pattern = String::with_capacity(replacement.len());
    let mut chars = replacement.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '$' => pattern.push_str("$$"),
            '\\' => match chars.peek() {
                Some(d) if d.is_ascii_digit() => {
                    pattern.push_str("${");
                    pattern.push(*d);
                    pattern.push('}');
                    chars.next();
                }
                Some('\\') => {
                    pattern.push('\\');
                    chars.next();
                }
                _ => pattern.push('\\'),
            },
            c => pattern.push(c),
        }
    }
    let text = args.text(0)?;
    ctx.reserve(text.len() + pattern.len())?;
    Ok(Value::string(re.replace_all(text, pattern.as_str()).into_owned()))
}
