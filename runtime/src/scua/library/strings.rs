//! `string`: positions are characters from 0; letters are ASCII's, so that results are the same everywhere.

use super::{clamp, int, json, needs, text};
use crate::builtins::{Args, Builtin, Ctx};
use crate::partition::heap;
use crate::vm::search;
use crate::vm::shared::sizes;
use crate::vm::trap::{Fault, Stop, Trap, raised};
use crate::vm::value::Value;

pub(crate) const TABLE: &[Builtin] = &[
    Builtin::exact("string.upper", (1, 1), |ctx, args| {
        let text = text(ctx, args, 0)?.to_ascii_uppercase();
        ctx.core.string(text)
    }),
    Builtin::exact("string.lower", (1, 1), |ctx, args| {
        let text = text(ctx, args, 0)?.to_ascii_lowercase();
        ctx.core.string(text)
    }),
    Builtin::exact("string.trim", (1, 1), |ctx, args| {
        let text = text(ctx, args, 0)?.trim_matches([' ', '\t', '\n', '\r']).to_owned();
        ctx.core.string(text)
    }),
    Builtin::exact("string.lines", (1, 1), |ctx, args| {
        let text = text(ctx, args, 0)?;
        // Counted first, so that nothing is made before it is paid for.
        let last = usize::from(!text.is_empty() && !text.ends_with('\n'));
        let count = search::count(text, "\n") + last;
        let lines = search::split(text, "\n").map(|line| line.strip_suffix('\r').unwrap_or(line));
        pieces(ctx, count, lines.take(count))
    }),
    Builtin::exact("string.chars", (1, 1), |ctx, args| {
        let value = args.at(0);
        let text = text(ctx, args, 0)?;
        let ends = text.char_indices().map(|(i, c)| &text[i..i + c.len_utf8()]);
        pieces(ctx, value.chars(), ends)
    }),
    Builtin::exact("string.split", (2, 2), |ctx, args| {
        let (whole, separator) = (text(ctx, args, 0)?, text(ctx, args, 1)?);
        if separator.is_empty() {
            return Err(raised("`string.split` needs a separator that is not empty"));
        }
        let count = search::count(whole, separator) + 1;
        pieces(ctx, count, search::split(whole, separator))
    }),
    Builtin::exact("string.sub", (2, 3), sub),
    Builtin::exact("string.find", (2, 3), find),
    Builtin::exact("string.contains", (2, 2), |ctx, args| {
        Ok(search::find(text(ctx, args, 0)?, text(ctx, args, 1)?).is_some().into())
    }),
    Builtin::exact("string.starts_with", (2, 2), |ctx, args| {
        Ok(text(ctx, args, 0)?.starts_with(text(ctx, args, 1)?).into())
    }),
    Builtin::exact("string.ends_with", (2, 2), |ctx, args| {
        Ok(text(ctx, args, 0)?.ends_with(text(ctx, args, 1)?).into())
    }),
    Builtin::exact("string.replace", (3, 3), replace),
    Builtin::exact("string.repeat", (2, 2), |ctx, args| {
        let whole = text(ctx, args, 0)?;
        let count = int(args, 1)?;
        let count = usize::try_from(count).map_err(|_| raised("`string.repeat` needs a count from 0 up"))?;
        let bytes = room(ctx, whole.len().checked_mul(count))?;
        Ok(crate::partition::Core::counted_text(whole.repeat(count), bytes))
    }),
    Builtin::exact("string.pad_left", (3, 3), |ctx, args| pad(ctx, args, true)),
    Builtin::exact("string.pad_right", (3, 3), |ctx, args| pad(ctx, args, false)),
    Builtin::exact("string.code", (1, 1), |_, args| {
        let first = args.at(0).as_text().ok_or_else(|| needs(args, 0, "a string"))?.chars().next();
        first
            .map(|c| Value::Int(i64::from(u32::from(c))))
            .ok_or_else(|| raised("`string.code` needs a character"))
    }),
    Builtin::exact("string.from_code", (1, 1), |ctx, args| {
        let code = int(args, 0)?;
        let c = u32::try_from(code).ok().and_then(char::from_u32);
        let c = c.ok_or_else(|| raised(format!("{code} is no code point of a character")))?;
        ctx.core.string(c.to_string())
    }),
    Builtin::exact("json.encode", (1, 2), json::encode),
    Builtin::exact("json.decode", (1, 1), json::decode),
];

/// Pays for a string of so many bytes before it is made; gives what it counts.
pub(super) fn room(ctx: &mut Ctx<'_>, length: Option<usize>) -> Result<usize, Fault> {
    let bytes = length.filter(|n| *n < 1 << 40).map(sizes::text);
    let Some(bytes) = bytes else { return Err(Box::new(Stop::Trap(Trap::Memory))) };
    ctx.core.allocate(bytes)?;
    // What no host could give in one piece is beyond memory too, whatever the limit.
    if heap::would_pass(bytes as u64) {
        return Err(Box::new(Stop::Trap(Trap::Memory)));
    }
    Ok(bytes)
}

fn pieces<'a>(ctx: &mut Ctx<'_>, count: usize, all: impl Iterator<Item = &'a str>) -> Result<Value, Fault> {
    ctx.core.allocate(sizes::ARRAY + sizes::SLOT * count)?;
    let mut items = Vec::with_capacity(count);
    for piece in all {
        ctx.charge(1)?;
        items.push(ctx.core.string(piece.to_owned())?);
    }
    Ok(ctx.core.free_array(items))
}

/// The byte where a character starts.
fn byte_of(text: &str, characters: usize, i: usize) -> usize {
    if characters == text.len() {
        return i.min(text.len());
    }
    text.char_indices().nth(i).map_or(text.len(), |(at, _)| at)
}

fn sub(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let characters = args.at(0).chars();
    let whole = args.at(0).as_text().ok_or_else(|| needs(args, 0, "a string"))?;
    let from = clamp(int(args, 1)?, characters);
    let to = if args.len() > 2 { clamp(int(args, 2)?, characters) } else { characters };
    if from >= to {
        return ctx.core.string(String::new());
    }
    let (start, end) = (byte_of(whole, characters, from), byte_of(whole, characters, to));
    ctx.charge((if characters == whole.len() { end - start } else { end }) as u64 / 32)?;
    ctx.core.string(whole[start..end].to_owned())
}

fn find(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let characters = args.at(0).chars();
    let whole = text(ctx, args, 0)?;
    let part = text(ctx, args, 1)?;
    let from = if args.len() > 2 { clamp(int(args, 2)?, characters) } else { 0 };
    let start = byte_of(whole, characters, from);
    Ok(match search::find(&whole[start..], part) {
        Some(at) => {
            let at = start + at;
            (if characters == whole.len() { at } else { whole[..at].chars().count() }).into()
        }
        None => Value::Nothing,
    })
}

fn replace(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (whole, old, new) = (text(ctx, args, 0)?, text(ctx, args, 1)?, text(ctx, args, 2)?);
    if old.is_empty() {
        return Err(raised("`string.replace` needs something to replace that is not empty"));
    }
    let count = search::count(whole, old);
    let length = new.len().checked_mul(count).and_then(|n| n.checked_add(whole.len() - old.len() * count));
    let bytes = room(ctx, length)?;
    Ok(crate::partition::Core::counted_text(search::replace(whole, old, new, count), bytes))
}

fn pad(ctx: &mut Ctx<'_>, args: &mut Args<'_>, left: bool) -> Result<Value, Fault> {
    let characters = args.at(0).chars();
    let whole = text(ctx, args, 0)?;
    let width = usize::try_from(int(args, 1)?.max(0)).unwrap_or(usize::MAX);
    let fill = text(ctx, args, 2)?;
    if fill.chars().count() != 1 {
        return Err(raised(format!("`{}` needs one character as argument 3", args.name)));
    }
    let missing = width.saturating_sub(characters);
    let length = fill.len().checked_mul(missing).and_then(|n| n.checked_add(whole.len()));
    let bytes = room(ctx, length)?;
    let padding = fill.repeat(missing);
    let padded = if left { padding + whole } else { whole.to_owned() + &padding };
    Ok(crate::partition::Core::counted_text(padded, bytes))
}
