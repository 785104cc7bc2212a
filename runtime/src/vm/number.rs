//! Numbers as text, both ways, and exact comparison of integers with doubles.

use num_bigint::BigInt;
use num_traits::{FromPrimitive, ToPrimitive};
use std::cmp::Ordering;

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
    let scientific = format!("{f:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}.0", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
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
