//! Text.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::render::type_name;
use crate::vm::search;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use num_traits::Signed;
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
    ctx.charge((text.len() / 32) as u64)?;
    let count = if old.is_empty() { text.len() + 1 } else { search::count(text, old) };
    let made = (text.len() - if old.is_empty() { 0 } else { count * old.len() }) + count * new.len();
    ctx.charge(count as u64 + made as u64 / 32)?;
    ctx.reserve(made)?;
    let replaced =
        if old.is_empty() { text.replace(old, new) } else { search::replace(text, old, new, count) };
    Ok(Value::string(replaced))
}

fn split(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (text, separator) = (args.text(0)?, args.text(1)?);
    ctx.charge(text.len() as u64 / 32)?;
    let count = if separator.is_empty() { args.at(0).chars() } else { search::count(text, separator) + 1 };
    // Each part that is no short text is an object of its own.
    ctx.charge(2 * count as u64)?;
    ctx.reserve(count * 16)?;
    let parts: Vec<Value> = if separator.is_empty() {
        text.chars().map(Value::char).collect()
    } else {
        search::split(text, separator).map(Value::text).collect()
    };
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
    ctx.charge(items.len() as u64 + size as u64 / 32)?;
    let mut out = String::with_capacity(size.min(1 << 20));
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        crate::vm::render::write(item, &mut out);
    }
    Ok(Value::string(out))
}

fn contains(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(crate::vm::ops::contains(args.at(0), args.at(1))?.into())
}

/// Start and end as Python's slices clamp them.
pub(super) fn clamp(args: &Args<'_>, length: usize) -> Result<(usize, usize), Fault> {
    let n = length as i64;
    let place = |i: usize, what: &str, otherwise: i64| match args.optional(i) {
        None => Ok(otherwise),
        // Beyond 64 bits is beyond any end.
        Some(Value::Big(far)) => Ok(if far.0.is_negative() { 0 } else { n }),
        Some(_) => args.int(i, what).map(|i| if i < 0 { (i + n).max(0) } else { i.min(n) }),
    };
    let start = place(1, "start", 0)?;
    let end = place(2, "end", n)?;
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
    if let Some(rows) = super::arrays::rows(value) {
        let (start, end) = clamp(args, rows)?;
        return super::arrays::slice(ctx, value, start..end);
    }
    Err(args.wrong(0, "text, a list, bytes or an array"))
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

fn strip_ansi(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let re = compiled(
        ctx,
        args.text(0)?,
        "\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_])",
    )?;
    Ok(Value::string(re.replace_all(args.text(0)?, "").into_owned()))
}

/// A pattern that is ready to be used.
#[derive(Clone)]
struct Pattern {
    re: Rc<regex::Regex>,
    /// Fuel for each 32 bytes of text: what a large one costs at worst grows with its size.
    weight: u64,
}

/// Sizes of compiled patterns in bytes, and their weights. Each is tried: the library doesn't tell a pattern's size.
const SIZES: [(usize, u64); 4] = [(1 << 15, 2), (1 << 17, 8), (1 << 19, 32), (1 << 20, 64)];

/// What is wrong with a pattern, in one line.
pub(super) fn invalid(error: &regex::Error) -> Fault {
    raised(format!("invalid regex: {}", error.to_string().lines().last().unwrap_or("").trim()))
}

/// A pattern, from the few used last, and its way through a text paid. The price is the same whether it was known or not.
fn compiled(ctx: &mut Ctx<'_>, text: &str, pattern: &str) -> Result<Rc<regex::Regex>, Fault> {
    const KEPT: usize = 16;
    thread_local! {
        static CACHE: RefCell<Vec<(String, Pattern)>> = const { RefCell::new(Vec::new()) };
    }
    ctx.charge(pattern.len() as u64)?;
    let cached = CACHE.with_borrow(|c| c.iter().find(|(p, _)| p == pattern).map(|(_, r)| r.clone()));
    let found = match cached {
        Some(found) => found,
        None => {
            let made = built(pattern).map_err(|e| invalid(&e))?;
            CACHE.with_borrow_mut(|c| {
                if c.len() >= KEPT {
                    c.remove(0);
                }
                c.push((pattern.to_owned(), made.clone()));
            });
            made
        }
    };
    ctx.charge(found.weight * (16 + text.len() as u64 / 32))?;
    Ok(found.re)
}

fn built(pattern: &str) -> Result<Pattern, regex::Error> {
    let mut last = None;
    for (size, weight) in SIZES {
        match regex::RegexBuilder::new(pattern).size_limit(size).build() {
            Ok(re) => return Ok(Pattern { re: Rc::new(re), weight }),
            Err(too_big @ regex::Error::CompiledTooBig(_)) => last = Some(too_big),
            Err(wrong) => return Err(wrong),
        }
    }
    Err(last.unwrap_or(regex::Error::CompiledTooBig(SIZES[SIZES.len() - 1].0)))
}

fn matches(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = args.text(0)?;
    compiled(ctx, "", args.text(1)?)?;
    let whole = compiled(ctx, text, &format!("^(?:{})$", args.text(1)?))?;
    // `$` alone would also accept a line's end before the last newline in other dialects; here it is the end.
    Ok(whole.is_match(text).into())
}

fn find_all(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let re = compiled(ctx, args.text(0)?, args.text(1)?)?;
    let mut all = Vec::new();
    for found in re.find_iter(args.text(0)?) {
        ctx.charge(MATCH)?;
        all.push(Value::text(found.as_str()));
    }
    Ok(Value::list(all))
}

/// Fuel of one match: the engine starts anew behind it.
const MATCH: u64 = 8;

fn groups(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<Option<(Vec<Value>, bool)>, Fault> {
    let re = compiled(ctx, args.text(0)?, args.text(1)?)?;
    let Some(found) = re.captures(args.text(0)?) else { return Ok(None) };
    let grouped = found.len() > 1;
    let all = found
        .iter()
        .skip(usize::from(grouped))
        .map(|m| m.map_or(Value::Nothing, |m| Value::text(m.as_str())))
        .collect();
    Ok(Some((all, grouped)))
}

fn capture(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(groups(ctx, args)?.map_or(Value::Nothing, |(all, _)| Value::list(all)))
}

fn capture_old(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(match groups(ctx, args)? {
        None => Value::Nothing,
        Some((all, true)) => Value::list(all),
        Some((mut all, false)) => all.pop().unwrap_or_default(),
    })
}

fn regex_replace(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let re = compiled(ctx, args.text(0)?, args.text(1)?)?;
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
    let (mut out, mut from) = (String::new(), 0);
    for found in re.captures_iter(text) {
        let Some(whole) = found.get(0) else { continue };
        let before = out.len();
        out.push_str(&text[from..whole.start()]);
        found.expand(&pattern, &mut out);
        ctx.charge(2 * MATCH + (out.len() - before) as u64 / 32)?;
        ctx.reserve(out.len())?;
        from = whole.end();
    }
    out.push_str(&text[from..]);
    Ok(Value::string(out))
}
