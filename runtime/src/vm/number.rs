//! Numbers as text, both ways, and exact comparison of integers with doubles.

use super::value::Value;
use num_bigint::BigInt;
use num_traits::{FromPrimitive, ToPrimitive};
use std::cmp::Ordering;

/// What a message adds about a whole number that is only too large.
pub(crate) fn too_wide(value: &Value) -> &'static str {
    match value {
        Value::Big(_) => " within 64 bits",
        Value::Float(f) if f.is_finite() && f.fract() == 0.0 => " within 64 bits",
        _ => "",
    }
}

/// The shortest digits that read back the same, laid out as Python's `repr` does.
#[must_use]
pub fn float(f: f64) -> String {
    if f.is_nan() {
        return "nan".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if f == 0.0 {
        return if f.is_sign_negative() { "-0.0".into() } else { "0.0".into() };
    }
    let sign = if f < 0.0 { "-" } else { "" };
    let (digits, exponent) = shortest(f.abs());
    if !(-4..16).contains(&exponent) {
        let point = if digits.len() > 1 { "." } else { "" };
        let direction = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{}{point}{}e{direction}{:02}", &digits[..1], &digits[1..], exponent.abs());
    }
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}.0", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

/// The shortest digits that read back the same, and the power of ten of the first one; of two that are equally near
/// the even one (the standard library takes the upper one). For a finite number above 0.
#[must_use]
pub fn shortest(f: f64) -> (String, i32) {
    let mut buffer = ryu::Buffer::new();
    let text = buffer.format_finite(f);
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let exponent = power + whole.len() as i32 - 1 - leading as i32;
    let digits = all.trim_matches('0');
    (if digits.is_empty() { "0".to_owned() } else { digits.to_owned() }, exponent)
}

/// Order of an integer and a double by exact value; `None` for NaN.
#[must_use]
pub fn compare_int_float(n: i64, f: f64) -> Option<Ordering> {
    if f.is_nan() {
        return None;
    }
    if f >= 9_223_372_036_854_775_808.0 {
        return Some(Ordering::Less);
    }
    if f < -9_223_372_036_854_775_808.0 {
        return Some(Ordering::Greater);
    }
    let whole = f.trunc();
    Some(n.cmp(&(whole as i64)).then_with(|| 0.0f64.partial_cmp(&(f - whole)).unwrap_or(Ordering::Equal)))
}

/// Order of a big integer and a double by exact value; `None` for NaN.
#[must_use]
pub fn compare_big_float(n: &BigInt, f: f64) -> Option<Ordering> {
    if f.is_nan() {
        return None;
    }
    if f.is_infinite() {
        return Some(if f > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let whole = BigInt::from_f64(f.trunc())?;
    Some(n.cmp(&whole).then_with(|| 0.0f64.partial_cmp(&f.fract()).unwrap_or(Ordering::Equal)))
}

/// The nearest double; infinite if it is too large.
#[must_use]
pub fn big_to_float(n: &BigInt) -> f64 {
    n.to_f64().unwrap_or(f64::NAN)
}

/// A whole double as an integer.
#[must_use]
pub fn float_to_big(f: f64) -> Option<BigInt> {
    (f.is_finite() && f.fract() == 0.0).then(|| BigInt::from_f64(f))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        for (f, text) in [
            (5.0, "5.0"),
            (0.1, "0.1"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-5, "1e-05"),
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (0.0001, "0.0001"),
            (2f64.powi(100), "1.2676506002282294e+30"),
            (-2.5, "-2.5"),
            (123_456.789, "123456.789"),
            (100.0, "100.0"),
            (0.00012, "0.00012"),
            (5e-324, "5e-324"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            // Two shortest forms are equally near: the even one.
            (597_702_798_024_482.2, "597702798024482.2"),
        ] {
            assert_eq!(float(f), text);
        }
    }

    #[test]
    fn integers_and_doubles_compare_exactly() {
        assert_eq!(
            compare_int_float(9_007_199_254_740_993, 9_007_199_254_740_992.0),
            Some(Ordering::Greater)
        );
        assert_eq!(compare_int_float(i64::MAX, 9_223_372_036_854_775_808.0), Some(Ordering::Less));
        assert_eq!(compare_int_float(-1, -1.5), Some(Ordering::Greater));
    }
}
