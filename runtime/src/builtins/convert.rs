//! Conversion and inspection.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::decimal::Decimal;
use crate::vm::number::{big_to_float, float_to_big};
use crate::vm::other::Other;
use crate::vm::render::{self, brief, inside, type_name};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use num_bigint::{BigInt, Sign};
use num_traits::Signed;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("text", &["value"], 1, text),
    Builtin::new("number", &["value", "default"], 1, number),
    Builtin::new("int", &["value", "default", "base", "fallback"], 1, int).named(2),
    Builtin::new("float", &["value", "default"], 1, float),
    Builtin::new("decimal", &["value", "default"], 1, decimal),
    Builtin::new("hex", &["value"], 1, hex),
    Builtin::new("type_of", &["value"], 1, |_, a| Ok(Value::text(type_name(a.at(0))))).cost(Cost::Flat),
    Builtin::new("is_integer", &["value"], 1, |_, a| {
        Ok(matches!(a.at(0), Value::Int(_) | Value::Big(_)).into())
    })
    .cost(Cost::Flat),
    Builtin::new("is_text", &["value"], 1, |_, a| Ok(a.at(0).as_text().is_some().into())).cost(Cost::Flat),
    Builtin::new("is_list", &["value"], 1, |_, a| Ok(a.at(0).as_list().is_some().into())).cost(Cost::Flat),
    Builtin::new("is_map", &["value"], 1, |_, a| Ok(matches!(a.at(0), Value::Map(_)).into()))
        .cost(Cost::Flat),
    Builtin::new("is_bytes", &["value"], 1, |_, a| Ok(a.at(0).as_bytes().is_some().into())).cost(Cost::Flat),
    Builtin::new("is_decimal", &["value"], 1, |_, a| Ok(a.at(0).as_decimal().is_some().into()))
        .cost(Cost::Flat),
    Builtin::new("is_complex", &["value"], 1, |_, a| Ok((type_name(a.at(0)) == "complex").into()))
        .cost(Cost::Flat),
    Builtin::new("is_array", &["value"], 1, |_, a| Ok((type_name(a.at(0)) == "array").into()))
        .cost(Cost::Flat),
    Builtin::new("is_missing", &["value"], 1, |_, a| {
        let missing = match a.at(0) {
            Value::Float(f) => f.is_nan(),
            v => v.is_nothing(),
        };
        Ok(missing.into())
    })
    .cost(Cost::Flat),
    Builtin::new("length", &["value"], 1, length).cost(Cost::Flat),
];

/// Digits that a text may have to become an integer, or an integer to become a text.
const MAX_DIGITS: usize = 4300;

fn text(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.at(0) {
        v if v.as_text().is_some() => Ok(args.take(0)),
        Value::Big(n) if n.0.bits() > 14_300 => {
            Err(raised(format!("text: the integer has more than {MAX_DIGITS} digits")))
        }
        v => match v.as_other() {
            // Text of a secret stays secret.
            Some(Other::Secret(_)) => Ok(args.take(0)),
            _ => Ok(Value::string(render::display(v))),
        },
    }
}

fn digits(text: &str) -> Option<String> {
    let t = text.trim();
    let body = t.strip_prefix(['-', '+']).unwrap_or(t);
    let bytes = body.as_bytes();
    let well = bytes.iter().enumerate().all(|(i, b)| {
        *b != b'_'
            || (i > 0
                && bytes[i - 1].is_ascii_alphanumeric()
                && bytes.get(i + 1).is_some_and(u8::is_ascii_alphanumeric))
    });
    (well && !body.is_empty() && body.len() <= MAX_DIGITS).then(|| t.chars().filter(|c| *c != '_').collect())
}

pub(super) fn parse_float(text: &str) -> Option<f64> {
    let clean = digits(text)?;
    let lower = clean.trim_start_matches(['-', '+']).to_ascii_lowercase();
    if lower == "nan" || lower == "inf" || lower == "infinity" {
        return clean.parse().ok();
    }
    lower.starts_with(|c: char| c.is_ascii_digit() || c == '.').then(|| clean.parse().ok())?
}

pub(super) fn parse_int(text: &str, base: Option<u32>) -> Option<BigInt> {
    let clean = digits(text)?;
    let (negative, body) = match clean.strip_prefix('-') {
        Some(rest) => (true, rest.to_owned()),
        None => (false, clean.strip_prefix('+').unwrap_or(&clean).to_owned()),
    };
    let lower = body.to_ascii_lowercase();
    let (body, base) = match (base, lower.get(..2)) {
        (None | Some(16), Some("0x")) => (&lower[2..], 16),
        (None | Some(8), Some("0o")) => (&lower[2..], 8),
        (None | Some(2), Some("0b")) => (&lower[2..], 2),
        _ => (&lower[..], base.unwrap_or(10)),
    };
    if body.is_empty() || !body.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    let n = BigInt::parse_bytes(body.as_bytes(), base)?;
    Some(if negative { -n } else { n })
}

fn cannot(what: &Value, kind: &str) -> Fault {
    let digits = what.as_text().map(|t| t.trim().trim_start_matches(['-', '+']));
    if let Some(digits) = digits.filter(|d| d.len() > MAX_DIGITS)
        && digits.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    {
        return raised(format!("{kind}: the text has {} digits, more than {MAX_DIGITS}", digits.len()));
    }
    raised(format!("Cannot convert {} to {kind}", brief(what)))
}

pub(super) fn or_default(args: &Args<'_>, i: usize, fault: Fault) -> Result<Value, Fault> {
    match args.given(i) {
        Some(default) => Ok(default.clone()),
        None => Err(fault),
    }
}

fn number(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let value = args.at(0).clone();
    match &value {
        Value::Int(_) | Value::Float(_) | Value::Big(_) => Ok(value),
        Value::Bool(b) => Ok(Value::Float(f64::from(u8::from(*b)))),
        _ if value.as_decimal().is_some() => Ok(value),
        _ => match value.as_text() {
            Some(text) => {
                if let Some(n) = parse_int(text, Some(10))
                    && n.abs() > BigInt::from(1i64 << 53)
                {
                    return or_default(
                        args,
                        1,
                        raised(format!("number: {text} is beyond 2^53 and would lose digits — use int(x)")),
                    );
                }
                match parse_float(text) {
                    Some(f) => Ok(Value::Float(f)),
                    None => or_default(args, 1, cannot(&value, "number")),
                }
            }
            None => or_default(args, 1, cannot(&value, "number")),
        },
    }
}

fn int(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let value = args.at(0).clone();
    if let Some(second) = args.given(1) {
        let base_like = match second {
            Value::Int(n) => (2..=36).contains(n),
            Value::Float(f) => f.fract() == 0.0 && (2.0..=36.0).contains(f),
            _ => false,
        };
        if base_like {
            let n = inside(second);
            return Err(raised(format!(
                "int: a bare {n} could be a base or a default — write int(t, base = {n}) or int(t, fallback = {n})"
            )));
        }
    }
    let fallback = if args.given(3).is_some() { 3 } else { 1 };
    let base = match args.optional(2) {
        None => None,
        Some(_) => {
            let base = args.int(2, "base")?;
            if !(2..=36).contains(&base) {
                return Err(raised(format!("int: base must be from 2 to 36, got {base}")));
            }
            Some(base as u32)
        }
    };
    match &value {
        Value::Int(_) | Value::Big(_) => Ok(value),
        Value::Bool(b) => Ok(Value::Int(i64::from(*b))),
        Value::Float(f) => match float_to_big(*f) {
            Some(n) => Ok(Value::big(n)),
            None if f.is_finite() => or_default(args, fallback, not_whole(&value)),
            None => or_default(args, fallback, cannot(&value, "int")),
        },
        _ => {
            if let Some(d) = value.as_decimal() {
                return match d.as_integer()? {
                    Some(n) => Ok(Value::big(n)),
                    None => or_default(args, fallback, not_whole(&value)),
                };
            }
            match value.as_text().and_then(|t| parse_int(t, base)) {
                Some(n) => Ok(Value::big(n)),
                None => or_default(args, fallback, cannot(&value, "int")),
            }
        }
    }
}

fn not_whole(value: &Value) -> Fault {
    raised(format!("int: {} is not a whole number — round it on purpose: floor/round/trunc", inside(value)))
}

fn float(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let value = args.at(0).clone();
    match &value {
        Value::Int(n) => Ok(Value::Float(*n as f64)),
        Value::Float(_) => Ok(value),
        Value::Bool(b) => Ok(Value::Float(f64::from(u8::from(*b)))),
        Value::Big(n) => {
            let f = big_to_float(&n.0);
            if f.is_finite() {
                Ok(Value::Float(f))
            } else {
                or_default(args, 1, raised("float: the integer is too large for a float"))
            }
        }
        _ => match (value.as_decimal(), value.as_text().and_then(parse_float)) {
            (Some(d), _) => Ok(Value::Float(d.to_f64())),
            (_, Some(f)) => Ok(Value::Float(f)),
            _ => or_default(args, 1, cannot(&value, "float")),
        },
    }
}

fn decimal(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let value = args.at(0).clone();
    let parsed = match &value {
        Value::Int(n) => Decimal::from_int(BigInt::from(*n)),
        Value::Big(n) => match Decimal::from_int(n.0.clone()) {
            None => return or_default(args, 1, raised("decimal is too large")),
            some => some,
        },
        Value::Float(f) if f.is_finite() => Decimal::parse(&crate::vm::number::float(*f)),
        _ if value.as_decimal().is_some() => return Ok(value),
        _ => value.as_text().and_then(|t| Decimal::parse(&t.trim().replace('_', ""))),
    };
    match parsed {
        Some(d) => Ok(Value::decimal(d)),
        None => or_default(args, 1, cannot(&value, "decimal")),
    }
}

fn hex(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    use std::fmt::Write as _;
    if let Some(bytes) = args.at(0).as_bytes() {
        let mut out = String::from("0x");
        for byte in bytes {
            let _ = write!(out, "{byte:02x}");
        }
        return Ok(Value::string(out));
    }
    let n = match args.at(0) {
        Value::Int(n) => BigInt::from(*n),
        Value::Big(n) => n.0.clone(),
        _ => return Err(args.wrong(0, "an integer or bytes")),
    };
    if n.sign() == Sign::Minus {
        return Err(raised("hex expects an integer of at least 0"));
    }
    Ok(Value::string(format!("0x{}", n.to_str_radix(16))))
}

fn length(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let value = args.at(0);
    Ok(Value::from(match value {
        Value::Short(_) | Value::Text(_) => value.chars(),
        Value::List(l) => l.items().len(),
        Value::Map(m) => m.len(),
        _ => match value.as_other() {
            Some(Other::Bytes(b)) => b.len(),
            Some(Other::Foreign(f)) => match f.length() {
                Some(n) => n,
                None if f.type_name() == "array" => {
                    return Err(raised("0-d array has no length — size(a) gives its number of elements"));
                }
                None => return Err(args.wrong(0, "text, a list, a map or bytes")),
            },
            Some(Other::Module(m)) => m.exports.len(),
            _ => return Err(args.wrong(0, "text, a list, a map or bytes")),
        },
    }))
}
