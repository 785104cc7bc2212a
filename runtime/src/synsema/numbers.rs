//! Number literals.

use super::token::Tok;
use crate::error::LoadError;
use num_bigint::BigInt;

/// Longest literal, in digits: the same limit that text conversions have.
const MAX_DIGITS: usize = 4300;

/// Reads the literal at `at` and gives the position after it.
pub(crate) fn scan(text: &str, at: usize, end: usize) -> Result<(Tok, usize), LoadError> {
    let bytes = &text.as_bytes()[..end];
    let peek = |i: usize| bytes.get(i).copied().unwrap_or(0);
    if peek(at) == b'0'
        && let Some((base, name)) = match peek(at + 1) {
            b'x' | b'X' => Some((16, "hex")),
            b'o' | b'O' => Some((8, "octal")),
            b'b' | b'B' => Some((2, "binary")),
            _ => None,
        }
    {
        return based(text, at, end, base, name);
    }
    let digits = |mut i: usize| {
        while peek(i).is_ascii_digit() || peek(i) == b'_' {
            i += 1;
        }
        i
    };
    let mut i = digits(at);
    let mut float = false;
    if peek(i) == b'.' && peek(i + 1).is_ascii_digit() {
        float = true;
        i = digits(i + 1);
    }
    let exponent = match (peek(i), peek(i + 1), peek(i + 2)) {
        (b'e' | b'E', d, _) if d.is_ascii_digit() => Some(i + 1),
        (b'e' | b'E', b'+' | b'-', d) if d.is_ascii_digit() => Some(i + 2),
        _ => None,
    };
    if let Some(from) = exponent {
        float = true;
        i = digits(from);
    }
    let raw = &text[at..i];
    let well = raw.bytes().enumerate().all(|(k, b)| {
        b != b'_' || (k > 0 && raw.as_bytes()[k - 1].is_ascii_digit() && peek(at + k + 1).is_ascii_digit())
    });
    if !well {
        return Err(LoadError::lexer(
            at as u32,
            format!("Invalid number literal: {raw} — `_` goes only between two digits (1_000, 1_000.5)"),
        ));
    }
    let clean: String = raw.chars().filter(|c| *c != '_').collect();
    if clean.len() > MAX_DIGITS {
        return Err(LoadError::lexer(
            at as u32,
            format!("Invalid number literal: more than {MAX_DIGITS} digits"),
        ));
    }
    if peek(i) == b'd' && !(peek(i + 1).is_ascii_alphanumeric() || peek(i + 1) == b'_') {
        return Ok((Tok::Decimal(clean.into()), i + 1));
    }
    if float {
        return Ok((Tok::Float(clean.parse().unwrap_or(f64::NAN)), i));
    }
    Ok((integer(&clean, 10), i))
}

fn integer(digits: &str, base: u32) -> Tok {
    match i64::from_str_radix(digits, base) {
        Ok(n) => Tok::Int(n),
        Err(_) => {
            let big = BigInt::parse_bytes(digits.as_bytes(), base).unwrap_or_default();
            Tok::BigInt(big.to_string().into())
        }
    }
}

fn based(text: &str, at: usize, end: usize, base: u32, name: &str) -> Result<(Tok, usize), LoadError> {
    let bytes = &text.as_bytes()[..end];
    let mut i = at + 2;
    while i < end && (bytes[i].is_ascii_alphanumeric() || bytes[i] == b'_') {
        i += 1;
    }
    let raw = &text[at + 2..i];
    let ends = raw.is_empty() || raw.ends_with('_') || raw.contains("__");
    if ends || !raw.chars().all(|c| c == '_' || c.is_digit(base)) || raw.len() > MAX_DIGITS {
        return Err(LoadError::lexer(at as u32, format!("Invalid {name} literal: {}", &text[at..i])));
    }
    let clean: String = raw.chars().filter(|c| *c != '_').collect();
    Ok((integer(&clean, base), i))
}
