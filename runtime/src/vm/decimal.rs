//! Exact decimals: an integer and a scale.

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{Pow, Signed, ToPrimitive, Zero};
use std::cmp::Ordering;

/// Digits that a quotient keeps.
const PRECISION: u64 = 28;
/// Largest scale or exponent: beyond it a value is refused, not computed.
const MAX_SCALE: i64 = 10_000;

/// `digits / 10^scale`.
#[derive(Debug, Clone)]
pub struct Decimal {
    pub(crate) digits: BigInt,
    pub(crate) scale: u32,
}

fn ten(power: u32) -> BigInt {
    BigInt::from(10).pow(power)
}

impl Decimal {
    /// An integer.
    #[must_use]
    pub fn from_int(n: BigInt) -> Self {
        Self { digits: n, scale: 0 }
    }

    /// Reads `1.50`, `-2e3`; `None` if it isn't one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = match text.find(['e', 'E']) {
            Some(i) => (&text[..i], text[i + 1..].parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let body = whole.strip_prefix(['-', '+']).unwrap_or(whole);
        if (body.is_empty() && fraction.is_empty())
            || !body.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
            || body.len() + fraction.len() > 4300
        {
            return None;
        }
        let digits = BigInt::parse_bytes(format!("{body}{fraction}").as_bytes(), 10)?;
        let digits = if whole.starts_with('-') { -digits } else { digits };
        let scale = fraction.len() as i64 - exponent;
        if scale.abs() > MAX_SCALE {
            return None;
        }
        if scale < 0 {
            return Some(Self { digits: digits * ten((-scale) as u32), scale: 0 });
        }
        Some(Self { digits, scale: scale as u32 })
    }

    pub(crate) fn bytes(&self) -> usize {
        16 + (self.digits.bits() / 8) as usize
    }

    fn at_scale(&self, scale: u32) -> BigInt {
        &self.digits * ten(scale - self.scale)
    }

    fn aligned(&self, other: &Self) -> (BigInt, BigInt, u32) {
        let scale = self.scale.max(other.scale);
        (self.at_scale(scale), other.at_scale(scale), scale)
    }

    pub(crate) fn add(&self, other: &Self) -> Self {
        let (a, b, scale) = self.aligned(other);
        Self { digits: a + b, scale }
    }

    pub(crate) fn sub(&self, other: &Self) -> Self {
        let (a, b, scale) = self.aligned(other);
        Self { digits: a - b, scale }
    }

    pub(crate) fn mul(&self, other: &Self) -> Self {
        Self { digits: &self.digits * &other.digits, scale: self.scale + other.scale }
    }

    pub(crate) fn neg(&self) -> Self {
        Self { digits: -&self.digits, scale: self.scale }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_zero()
    }

    /// 28 significant digits, half to even; the ideal scale where the quotient is exact.
    pub(crate) fn div(&self, other: &Self) -> Self {
        let ideal = i64::from(self.scale) - i64::from(other.scale);
        if self.digits.is_zero() {
            return Self { digits: BigInt::zero(), scale: ideal.max(0) as u32 };
        }
        let length = |n: &BigInt| n.abs().to_string().len() as i64;
        let shift = (PRECISION as i64 + 1 + length(&other.digits) - length(&self.digits)).max(0);
        let (mut q, r) = (&self.digits * ten(shift as u32)).div_rem(&other.digits);
        let mut scale = ideal + shift;
        let exact = r.is_zero();
        let sign =
            if (self.digits.sign() == Sign::Minus) == (other.digits.sign() == Sign::Minus) { 1 } else { -1 };
        let excess = length(&q) - PRECISION as i64;
        if excess > 0 {
            let (head, tail) = q.div_rem(&ten(excess as u32));
            let half = ten(excess as u32 - 1) * 5;
            let order = tail.abs().cmp(&half);
            let up = order == Ordering::Greater || (order == Ordering::Equal && (!exact || head.is_odd()));
            q = if up { head + sign } else { head };
            scale -= excess;
        }
        if exact {
            while scale > ideal.max(0) && (&q % 10i32).is_zero() {
                q /= 10;
                scale -= 1;
            }
        }
        if scale < 0 {
            return Self { digits: q * ten((-scale) as u32), scale: 0 };
        }
        Self { digits: q, scale: scale as u32 }
    }

    pub(crate) fn floor_div(&self, other: &Self) -> Self {
        let (a, b, _) = self.aligned(other);
        Self { digits: a.div_floor(&b), scale: 0 }
    }

    pub(crate) fn rem(&self, other: &Self) -> Self {
        let (a, b, scale) = self.aligned(other);
        Self { digits: a.mod_floor(&b), scale }
    }

    pub(crate) fn pow(&self, power: u32) -> Option<Self> {
        let scale = self.scale.checked_mul(power).filter(|s| i64::from(*s) <= MAX_SCALE)?;
        (self.digits.bits().saturating_mul(u64::from(power)) < 200_000)
            .then(|| Self { digits: Pow::pow(&self.digits, power), scale })
    }

    /// Rounded to a whole number in the given way.
    pub(crate) fn whole(&self, how: Rounding) -> BigInt {
        let unit = ten(self.scale);
        let (floor, rest) = self.digits.div_mod_floor(&unit);
        if rest.is_zero() {
            return floor;
        }
        match how {
            Rounding::Floor => floor,
            Rounding::Ceil => floor + 1,
            Rounding::Trunc => {
                if self.digits.is_negative() {
                    floor + 1
                } else {
                    floor
                }
            }
            Rounding::HalfEven => match (&rest * 2i32).cmp(&unit) {
                Ordering::Less => floor,
                Ordering::Greater => floor + 1,
                Ordering::Equal if floor.is_even() => floor,
                Ordering::Equal => floor + 1,
            },
        }
    }

    /// With so many digits after the point, half to even.
    pub(crate) fn round_to(&self, scale: u32) -> Self {
        if scale >= self.scale {
            return Self { digits: self.at_scale(scale), scale };
        }
        let moved = Self { digits: self.digits.clone(), scale: self.scale - scale };
        Self { digits: moved.whole(Rounding::HalfEven), scale }
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        let (a, b, _) = self.aligned(other);
        a.cmp(&b)
    }

    pub(crate) fn as_integer(&self) -> Option<BigInt> {
        let (q, r) = self.digits.div_rem(&ten(self.scale));
        r.is_zero().then_some(q)
    }

    pub(crate) fn to_f64(&self) -> f64 {
        self.to_string().parse().unwrap_or_else(|_| self.digits.to_f64().unwrap_or(f64::NAN))
    }
}

/// How to make a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    Floor,
    Ceil,
    Trunc,
    HalfEven,
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.digits.abs().to_string();
        if self.digits.is_negative() {
            f.write_str("-")?;
        }
        let scale = self.scale as usize;
        if scale == 0 {
            return f.write_str(&digits);
        }
        let padded = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        write!(f, "{whole}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal {
        Decimal::parse(text).expect("a decimal")
    }

    #[test]
    fn arithmetic_keeps_its_scale() {
        assert_eq!(d("1.50").add(&d("2.5")).to_string(), "4.00");
        assert_eq!(d("1.50").mul(&d("2")).to_string(), "3.00");
        assert_eq!(d("2e3").to_string(), "2000");
        assert_eq!(d("1").div(&d("3")).to_string(), "0.3333333333333333333333333333");
        assert_eq!(d("2").div(&d("3")).to_string(), "0.6666666666666666666666666667");
        assert_eq!(d("1.00").div(&d("4")).to_string(), "0.25");
        assert_eq!(d("-7").floor_div(&d("2")).to_string(), "-4");
    }
}
