//! Exact decimals: an integer and a scale.

use super::ops::{OUT_OF_FUEL, Raised};
use crate::partition::heap;
use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{Pow, Signed, Zero};
use std::cmp::Ordering;

/// Digits that a quotient keeps.
const PRECISION: u64 = 28;
/// Largest scale or exponent: beyond it a value is refused, not computed.
const MAX_SCALE: i64 = 10_000;
/// Most bits of the digits.
const MAX_BITS: u64 = 200_000;
/// Numbers of so few words cost what their instruction does.
const SMALL: usize = 4;
/// Bits of a digit.
const DIGIT_BITS: f64 = std::f64::consts::LOG2_10;

/// `digits / 10^scale`; never more than `MAX_SCALE` and `MAX_BITS` (a number that came from an integer and is only compared
/// aside).
#[derive(Debug, Clone)]
pub struct Decimal {
    pub(crate) digits: BigInt,
    pub(crate) scale: u32,
}

fn ten(power: u32) -> BigInt {
    BigInt::from(10).pow(power)
}

fn too_large() -> String {
    "decimal is too large".to_owned()
}

fn words(n: &BigInt) -> usize {
    (n.bits() / 64) as usize + 1
}

/// Words of a power of ten.
fn ten_words(power: u64) -> usize {
    (power / 19) as usize + usize::from(power > 0)
}

/// Fuel of a product of numbers of so many words.
fn product(x: usize, y: usize) -> usize {
    x.max(y).saturating_mul(x.min(y).isqrt()) / 8
}

/// Fuel of making a power of ten and of multiplying by it.
fn raising(digits: usize, power: u64) -> usize {
    let ten = ten_words(power);
    product(ten, ten) + product(digits, ten)
}

/// Pays before the work is done; `largest` is the longest number in it, in words.
fn pay(largest: usize, fuel: usize) -> Raised<()> {
    if largest <= SMALL || heap::work(fuel) { Ok(()) } else { Err(OUT_OF_FUEL.to_owned()) }
}

/// Number of decimal digits, from the bits: a power of ten decides between the two that are possible.
fn length(n: &BigInt) -> i64 {
    let bits = n.bits();
    if bits == 0 {
        return 1;
    }
    let least = ((bits - 1) as f64 / DIGIT_BITS) as u32 + 1;
    i64::from(least) + i64::from(*n.magnitude() >= *ten(least).magnitude())
}

/// Order of `x / 10^p` and `y / 10^q`. Their powers of ten are made only where the sizes are too close to tell.
pub(crate) fn compare(x: &BigInt, p: u32, y: &BigInt, q: u32) -> Raised<Ordering> {
    if x.sign() != y.sign() || x.is_zero() {
        return Ok(x.sign().cmp(&y.sign()));
    }
    if p == q {
        return Ok(x.cmp(y));
    }
    let size = |n: &BigInt, scale: u32| n.bits() as f64 - f64::from(scale) * DIGIT_BITS;
    let difference = size(x, p) - size(y, q);
    if difference.abs() > 2.0 {
        let larger = (difference > 0.0) != x.is_negative();
        return Ok(if larger { Ordering::Greater } else { Ordering::Less });
    }
    let (shorter, power) = if p < q { (x, q - p) } else { (y, p - q) };
    pay(words(x).max(words(y)), raising(words(shorter), power.into()))?;
    let raised = shorter * ten(power);
    Ok(if p < q { raised.cmp(y) } else { x.cmp(&raised) })
}

impl Decimal {
    /// An integer; `None` if it has too many digits.
    #[must_use]
    pub fn from_int(n: BigInt) -> Option<Self> {
        (n.bits() <= MAX_BITS).then_some(Self { digits: n, scale: 0 })
    }

    /// The result of an operation, if it isn't too large.
    fn made(digits: BigInt, scale: i64) -> Raised<Self> {
        if scale > MAX_SCALE || digits.bits() > MAX_BITS {
            return Err(too_large());
        }
        match u32::try_from(scale) {
            Ok(scale) => Ok(Self { digits, scale }),
            Err(_) => Err(too_large()),
        }
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
        let scale = (fraction.len() as i64).checked_sub(exponent)?;
        if !(-MAX_SCALE..=MAX_SCALE).contains(&scale) {
            return None;
        }
        if scale < 0 {
            return Some(Self { digits: digits * ten(scale.unsigned_abs() as u32), scale: 0 });
        }
        Some(Self { digits, scale: scale as u32 })
    }

    pub(crate) fn bytes(&self) -> usize {
        16 + (self.digits.bits() / 8) as usize
    }

    /// Both digits at the larger scale; paid for.
    fn aligned(&self, other: &Self) -> Raised<(BigInt, BigInt, u32)> {
        let scale = self.scale.max(other.scale);
        let mut fuel = 0;
        let mut largest = 0;
        for d in [self, other] {
            let (own, power) = (words(&d.digits), u64::from(scale - d.scale));
            largest = largest.max(own + ten_words(power));
            fuel += raising(own, power);
        }
        pay(largest, fuel + largest / 32)?;
        let at =
            |d: &Self| if d.scale == scale { d.digits.clone() } else { &d.digits * ten(scale - d.scale) };
        Ok((at(self), at(other), scale))
    }

    pub(crate) fn add(&self, other: &Self) -> Raised<Self> {
        let (a, b, scale) = self.aligned(other)?;
        Self::made(a + b, scale.into())
    }

    pub(crate) fn sub(&self, other: &Self) -> Raised<Self> {
        let (a, b, scale) = self.aligned(other)?;
        Self::made(a - b, scale.into())
    }

    pub(crate) fn mul(&self, other: &Self) -> Raised<Self> {
        let scale = i64::from(self.scale) + i64::from(other.scale);
        if scale > MAX_SCALE || self.digits.bits() + other.digits.bits() > MAX_BITS + 1 {
            return Err(too_large());
        }
        let (x, y) = (words(&self.digits), words(&other.digits));
        pay(x.max(y), product(x, y))?;
        Self::made(&self.digits * &other.digits, scale)
    }

    pub(crate) fn neg(&self) -> Self {
        Self { digits: -&self.digits, scale: self.scale }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_zero()
    }

    /// 28 significant digits, half to even; the ideal scale where the quotient is exact.
    pub(crate) fn div(&self, other: &Self) -> Raised<Self> {
        let ideal = i64::from(self.scale) - i64::from(other.scale);
        if self.digits.is_zero() {
            return Self::made(BigInt::zero(), ideal.max(0));
        }
        let (x, y) = (words(&self.digits), words(&other.digits));
        // The dividend is made at least so long that 29 digits come out; lengths are counted by powers of ten.
        let above = x.max(y + 2);
        pay(above, 2 * product(above, above) + (above - y + 1).saturating_mul(y) / 8)?;
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
            // At most as long as the dividend was, or 10^MAX_SCALE times the quotient.
            let power = scale.unsigned_abs();
            pay(ten_words(power), raising(words(&q), power))?;
            return Self::made(q * ten(u32::try_from(power).map_err(|_| too_large())?), 0);
        }
        Self::made(q, scale)
    }

    /// What dividing the aligned digits costs.
    fn pay_quotient(a: &BigInt, b: &BigInt) -> Raised<()> {
        let (x, y) = (words(a), words(b));
        pay(x.max(y), (x.saturating_sub(y) + 1).saturating_mul(y) / 8)
    }

    pub(crate) fn floor_div(&self, other: &Self) -> Raised<Self> {
        let (a, b, _) = self.aligned(other)?;
        Self::pay_quotient(&a, &b)?;
        Self::made(a.div_floor(&b), 0)
    }

    pub(crate) fn rem(&self, other: &Self) -> Raised<Self> {
        let (a, b, scale) = self.aligned(other)?;
        Self::pay_quotient(&a, &b)?;
        Self::made(a.mod_floor(&b), scale.into())
    }

    pub(crate) fn pow(&self, power: u32) -> Raised<Self> {
        let scale = i64::from(self.scale).saturating_mul(power.into());
        // 0 and ±1 stay as short as they are.
        let bits = if self.digits.bits() <= 1 { 1 } else { self.digits.bits().saturating_mul(power.into()) };
        if scale > MAX_SCALE || bits >= MAX_BITS {
            return Err(too_large());
        }
        let result = (bits / 64) as usize + 1;
        pay(result, product(result, result))?;
        Self::made(Pow::pow(&self.digits, power), scale)
    }

    /// Rounded to a whole number in the given way.
    pub(crate) fn whole(&self, how: Rounding) -> Raised<BigInt> {
        self.pay_cut()?;
        let unit = ten(self.scale);
        let (floor, rest) = self.digits.div_mod_floor(&unit);
        if rest.is_zero() {
            return Ok(floor);
        }
        Ok(match how {
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
        })
    }

    /// Pays for a division by the power of ten of the scale.
    pub(crate) fn pay_cut(&self) -> Raised<()> {
        let (own, unit) = (words(&self.digits), ten_words(self.scale.into()));
        let quotient = (own.saturating_sub(unit) + 1).saturating_mul(unit) / 8;
        pay(own.max(unit), product(unit, unit) + quotient)
    }

    /// With so many digits after the point, half to even.
    pub(crate) fn round_to(&self, scale: u32) -> Raised<Self> {
        if scale >= self.scale {
            let power = scale - self.scale;
            let own = words(&self.digits);
            pay(own + ten_words(power.into()), raising(own, power.into()))?;
            return Self::made(&self.digits * ten(power), scale.into());
        }
        let moved = Self { digits: self.digits.clone(), scale: self.scale - scale };
        Self::made(moved.whole(Rounding::HalfEven)?, scale.into())
    }

    pub(crate) fn compare(&self, other: &Self) -> Raised<Ordering> {
        compare(&self.digits, self.scale, &other.digits, other.scale)
    }

    pub(crate) fn as_integer(&self) -> Raised<Option<BigInt>> {
        self.pay_cut()?;
        let (q, r) = self.digits.div_rem(&ten(self.scale));
        Ok(r.is_zero().then_some(q))
    }

    /// The nearest double; where the fuel is used up it is none, and the next look at the limits ends the program.
    pub(crate) fn to_f64(&self) -> f64 {
        let mut text = String::new();
        self.write(&mut text);
        text.parse().unwrap_or(f64::NAN)
    }

    /// Adds its rendering to a text, as far as there is fuel for it: the next look at the limits ends the program.
    pub(crate) fn write(&self, out: &mut String) {
        use std::fmt::Write as _;
        // To decimal digits: each is divided out of what is left.
        let own = words(&self.digits);
        if pay(own, own.saturating_mul(own) / 16).is_ok() {
            let _ = write!(out, "{self}");
        }
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
        // A format's width is at most 65535, so the zeros are put there.
        let missing = (scale + 1).saturating_sub(digits.len());
        let padded = "0".repeat(missing) + &digits;
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        f.write_str(whole)?;
        f.write_str(".")?;
        f.write_str(fraction)
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
        let shown = |d: Raised<Decimal>| d.expect("it fits").to_string();
        assert_eq!(shown(d("1.50").add(&d("2.5"))), "4.00");
        assert_eq!(shown(d("1.50").mul(&d("2"))), "3.00");
        assert_eq!(d("2e3").to_string(), "2000");
        assert_eq!(shown(d("1").div(&d("3"))), "0.3333333333333333333333333333");
        assert_eq!(shown(d("2").div(&d("3"))), "0.6666666666666666666666666667");
        assert_eq!(shown(d("1.00").div(&d("4"))), "0.25");
        assert_eq!(shown(d("-7").floor_div(&d("2"))), "-4");
    }

    #[test]
    fn what_is_too_large_is_refused_at_the_edge() {
        let large = Some("decimal is too large".to_owned());
        assert!(d("1e-5000").mul(&d("1e-5000")).is_ok());
        assert_eq!(d("1e-5000").mul(&d("1e-5001")).err(), large);
        assert_eq!(d("1e-10000").div(&d("3")).err(), large);
        assert_eq!(d("0.1").pow(10_001).err(), large);
        assert_eq!(d("1").pow(u32::MAX).expect("it is short").to_string(), "1");
        assert!(
            Decimal::parse("1e-9223372036854775808").is_none()
                && Decimal::parse("1e9223372036854775807").is_none()
        );
        assert!(Decimal::from_int(BigInt::from(1) << 200_000u32).is_none());
        assert!(Decimal::from_int(BigInt::from(1) << 199_999u32).is_some());
    }

    #[test]
    fn lengths_are_those_of_the_digits() {
        for power in 0..400u32 {
            for n in [ten(power) - 1, ten(power), ten(power) + 1, BigInt::from(2).pow(power), -ten(power)] {
                assert_eq!(length(&n), n.abs().to_string().len() as i64, "{n}");
            }
        }
    }

    #[test]
    fn order_is_exact_whatever_the_scales() {
        for (less, more) in [
            ("1e-10000", "1"),
            ("0.99", "1"),
            ("-1", "-0.99"),
            ("0.5", "0.51"),
            ("-1e10000", "1e-10000"),
            ("0", "1e-9999"),
            ("9.99999999999999999999", "10"),
            ("-10", "-9.9999999999999"),
            ("1.0000000000000000000000001e-9000", "1.1e-9000"),
        ] {
            assert_eq!(d(less).compare(&d(more)), Ok(Ordering::Less), "{less} {more}");
            assert_eq!(d(more).compare(&d(less)), Ok(Ordering::Greater), "{less} {more}");
        }
        assert_eq!(d("1.0").compare(&d("1.000")), Ok(Ordering::Equal));
        assert_eq!(d("0.0").compare(&d("0")), Ok(Ordering::Equal));
        assert_eq!(d("1e3").compare(&d("1000.0")), Ok(Ordering::Equal));
    }

    /// Random chains: an operation gives a value or a refusal, and a value renders.
    #[test]
    fn no_chain_of_operations_panics() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move |most: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % most
        };
        let given = [
            "1e-10000",
            "1e10000",
            "1.1",
            "-3",
            "0",
            "0.0000",
            "7e-9999",
            "-1e-5000",
            "123456789.987654321",
            "1e4000",
        ];
        for _ in 0..40 {
            let mut x = d(given[next(10) as usize]);
            for _ in 0..12 {
                let y = if next(3) == 0 { x.clone() } else { d(given[next(10) as usize]) };
                let step = match next(9) {
                    0 => x.add(&y),
                    1 => x.sub(&y),
                    2 | 3 => x.mul(&y),
                    4 if !y.is_zero() => x.div(&y),
                    5 if !y.is_zero() => x.floor_div(&y),
                    6 if !y.is_zero() => x.rem(&y),
                    7 => x.pow(next(5000) as u32),
                    8 => x.round_to(next(400) as u32),
                    _ => x
                        .whole(Rounding::HalfEven)
                        .map(|n| Decimal::from_int(n).expect("no longer than it was")),
                };
                assert!(x.compare(&y).is_ok());
                if let Ok(value) = step {
                    assert!(i64::from(value.scale) <= MAX_SCALE && value.digits.bits() <= MAX_BITS);
                    x = value;
                }
            }
            assert!(!x.to_string().is_empty());
            let _ = (x.to_f64(), x.as_integer());
        }
    }
}
