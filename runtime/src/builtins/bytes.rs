//! Bytes and the codes that write them as text.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::other::Other;
use crate::vm::render::inside;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use data_encoding::{BASE32, BASE64, BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE};
use num_bigint::{BigInt, Sign};

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("bytes", &["value", "encoding"], 1, bytes),
    Builtin::new("decode", &["bytes", "encoding"], 1, decode),
    Builtin::new("bytes_to_int", &["bytes"], 1, to_int),
    Builtin::new("int_to_bytes", &["n", "size"], 1, |c, a| from_int(c, a, false)).cost(Cost::Own),
    Builtin::new("int_to_bytes_le", &["n", "size"], 2, |c, a| from_int(c, a, true)).cost(Cost::Own),
];

/// Base 58 takes time with the square of the length.
const MAX_BASE58: usize = 4096;
/// As far as integers go elsewhere.
const MAX_INTEGER: usize = 1 << 20;

fn refuse_secret(args: &Args<'_>, i: usize) -> Result<(), Fault> {
    match args.at(i).as_other() {
        Some(Other::Secret(_)) => {
            Err(raised(format!("{}: a secret stays sealed — reveal() it on purpose", args.name)))
        }
        _ => Ok(()),
    }
}

/// A text's or bytes' bytes; a sealed value is never turned into plain ones.
pub(super) fn data<'a>(args: &'a Args<'_>, i: usize) -> Result<&'a [u8], Fault> {
    refuse_secret(args, i)?;
    let v = args.at(i);
    v.as_text().map(str::as_bytes).or_else(|| v.as_bytes()).ok_or_else(|| args.wrong(i, "text or bytes"))
}

fn encoding<'a>(args: &'a Args<'_>) -> Result<&'a str, Fault> {
    if args.optional(1).is_some() { args.text(1) } else { Ok("utf8") }
}

fn unknown(args: &Args<'_>, name: &str) -> Fault {
    raised(format!(
        "{}: unknown encoding '{name}', one of utf8, hex, base64, base64url, base58, base32",
        args.name
    ))
}

fn bytes(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if let Some(items) = args.at(0).as_list() {
        ctx.reserve(items.len())?;
        let mut out = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            match item {
                Value::Int(n) if (0..256).contains(n) => out.push(*n as u8),
                other => {
                    return Err(raised(format!(
                        "bytes expects integers from 0 to 255, got {} at {i}",
                        inside(other).chars().take(60).collect::<String>()
                    )));
                }
            }
        }
        return Ok(Value::bytes(out));
    }
    let text = match args.at(0).as_text() {
        Some(text) => text,
        None if args.at(0).as_bytes().is_some() && args.optional(1).is_none() => return Ok(args.take(0)),
        None => {
            refuse_secret(args, 0)?;
            return Err(args.wrong(0, "text or a list of integers"));
        }
    };
    ctx.reserve(text.len())?;
    let name = encoding(args)?;
    let bad = |what: &str| raised(format!("bytes: {what}"));
    let out = match name {
        "utf8" | "utf-8" => text.as_bytes().to_vec(),
        "hex" => {
            let digits = text.strip_prefix("0x").unwrap_or(text);
            HEXLOWER_PERMISSIVE.decode(digits.as_bytes()).map_err(|e| bad(&format!("invalid hex: {e}")))?
        }
        "base64" => base64(text, '+', '/').map_err(|e| bad(&format!("invalid base64: {e}")))?,
        "base64url" => base64(text, '-', '_').map_err(|e| bad(&format!("invalid base64url: {e}")))?,
        "base32" => {
            let upper = text.to_ascii_uppercase();
            let padded = format!("{upper:=<width$}", width = upper.len().div_ceil(8) * 8);
            BASE32.decode(padded.as_bytes()).map_err(|e| bad(&format!("invalid base32: {e}")))?
        }
        "base58" => {
            if text.len() > MAX_BASE58 {
                return Err(bad(&format!("base58 is for at most {MAX_BASE58} characters")));
            }
            ctx.charge((text.len() * text.len() / 64) as u64)?;
            bs58::decode(text).into_vec().map_err(|e| bad(&format!("invalid base58: {e}")))?
        }
        other => return Err(unknown(args, other)),
    };
    Ok(Value::bytes(out))
}

/// With or without its padding.
fn base64(text: &str, plus: char, slash: char) -> Result<Vec<u8>, String> {
    let body = text.trim_end_matches('=');
    let plain: String = body
        .chars()
        .map(|c| match c {
            c if c == plus => '-',
            c if c == slash => '_',
            // The other alphabet's characters are none of this one's.
            '+' | '/' | '-' | '_' => '!',
            c => c,
        })
        .collect();
    if text.len() - body.len() > 2 {
        return Err("too much padding".to_owned());
    }
    BASE64URL_NOPAD.decode(plain.as_bytes()).map_err(|e| e.to_string())
}

fn decode(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let Some(bytes) = args.at(0).as_bytes() else { return Err(args.wrong(0, "bytes")) };
    ctx.reserve(bytes.len() * 2)?;
    Ok(Value::string(match encoding(args)? {
        "utf8" | "utf-8" => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(e) => {
                return Err(raised(format!(
                    "decode: invalid UTF-8 at byte {} — \"utf8_lossy\" replaces what is invalid",
                    e.valid_up_to()
                )));
            }
        },
        "utf8_lossy" => String::from_utf8_lossy(bytes).into_owned(),
        "hex" => HEXLOWER.encode(bytes),
        "base64" => BASE64.encode(bytes),
        "base64url" => BASE64URL_NOPAD.encode(bytes),
        "base32" => BASE32.encode(bytes),
        "base58" => {
            if bytes.len() > MAX_BASE58 {
                return Err(raised(format!("decode: base58 is for at most {MAX_BASE58} bytes")));
            }
            ctx.charge((bytes.len() * bytes.len() / 64) as u64)?;
            bs58::encode(bytes).into_string()
        }
        other => return Err(unknown(args, other)),
    }))
}

fn to_int(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.at(0).as_bytes() {
        Some(bytes) if bytes.len() > MAX_INTEGER => Err(raised("bytes_to_int: the integer is too large")),
        Some(bytes) => Ok(Value::big(BigInt::from_bytes_be(Sign::Plus, bytes))),
        None => Err(args.wrong(0, "bytes")),
    }
}

fn from_int(ctx: &mut Ctx<'_>, args: &mut Args<'_>, little: bool) -> Result<Value, Fault> {
    let n = match args.at(0) {
        Value::Int(n) => BigInt::from(*n),
        Value::Big(n) => n.0.clone(),
        _ => return Err(args.wrong(0, "an integer")),
    };
    if n.sign() == Sign::Minus {
        return Err(raised(format!("{} expects an integer of at least 0", args.name)));
    }
    let mut out = n.to_bytes_be().1;
    if args.optional(1).is_some() {
        let size = args.int(1, "size")?;
        if !(0..=MAX_INTEGER as i64).contains(&size) {
            return Err(raised(format!("{}: size must be from 0 to {MAX_INTEGER}, got {size}", args.name)));
        }
        let size = size as usize;
        if out == [0] {
            out.clear();
        }
        if out.len() > size {
            return Err(raised(format!("{}: the integer needs {} bytes, not {size}", args.name, out.len())));
        }
        let mut padded = vec![0; size - out.len()];
        padded.append(&mut out);
        out = padded;
    }
    ctx.charge(out.len() as u64 / 32)?;
    if little {
        out.reverse();
    }
    Ok(Value::bytes(out))
}
