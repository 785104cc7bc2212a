//! Amounts with their unit in the type, so that no bare integer needs a comment.
//!
//! Sizes are written `64`, `64K`, `512M`, `2G`: powers of 1024, also as `KiB`, `MiB`, `GiB`. Times are written
//! `500ms`, `10s`, `5m`, `1h`, with a fraction if wanted (`1.5s`); a time without a unit is refused.
//!
//! Invariant: printing and parsing are inverse: `parse(print(x)) == x`.

use crate::error::Malformed;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// An amount of memory or data, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A span of time, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Millis(pub u64);

/// Work done by a program, in the machine's deterministic units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Fuel(pub u64);

/// Of the limits that always have an amount.
const NEVER_NONE: &str = "this limit can't be left out";

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Bytes {
    /// `n` KiB; saturates.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        Self(n.saturating_mul(KIB))
    }

    /// `n` MiB; saturates.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        Self(n.saturating_mul(MIB))
    }
}

impl Millis {
    /// `n` seconds; saturates.
    #[must_use]
    pub const fn seconds(n: u64) -> Self {
        Self(n.saturating_mul(1000))
    }
}

impl FromStr for Bytes {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let bad = |why| Malformed::Size { text: text.to_owned(), why };
        if text == "none" {
            return Err(bad(NEVER_NONE));
        }
        let (digits, unit) = split_unit(text);
        let unit = match unit {
            "" | "B" => 1,
            "K" | "k" | "KiB" => KIB,
            "M" | "m" | "MiB" => MIB,
            "G" | "g" | "GiB" => GIB,
            "KB" | "MB" | "GB" | "kB" => {
                return Err(bad("KB, MB and GB mean different things to different people"));
            }
            _ => return Err(bad("the unit is none of K, M, G")),
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad("it doesn't start with a whole number"));
        }
        let number: u64 = digits.parse().map_err(|_| bad("it is too large"))?;
        number.checked_mul(unit).map(Self).ok_or_else(|| bad("it is too large"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in [(GIB, "G"), (MIB, "M"), (KIB, "K")] {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl FromStr for Millis {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let bad = |why| Malformed::Time { text: text.to_owned(), why };
        if text == "none" {
            return Err(bad(NEVER_NONE));
        }
        let (digits, unit) = split_unit(text);
        let unit: u64 = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "" => return Err(bad("it has no unit")),
            _ => return Err(bad("the unit is none of ms, s, m, h")),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let number = |part: &str| {
            if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
                return Err(bad("it doesn't start with a number"));
            }
            part.parse::<u64>().map_err(|_| bad("it is too large"))
        };
        let whole = number(whole)?.checked_mul(unit).ok_or_else(|| bad("it is too large"))?;
        if fraction.len() > 3 {
            return Err(bad("more than three decimals"));
        }
        let thousandths = number(fraction)? * 10_u64.pow(3 - fraction.len() as u32) * unit;
        if !thousandths.is_multiple_of(1000) {
            return Err(bad("it is finer than a millisecond"));
        }
        whole.checked_add(thousandths / 1000).map(Self).ok_or_else(|| bad("it is too large"))
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, name) in [(3_600_000, "h"), (60_000, "m"), (1000, "s")] {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{name}", self.0 / unit);
            }
        }
        write!(f, "{}ms", self.0)
    }
}

impl fmt::Display for Fuel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number in front and the letters behind.
fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [("0", 0), ("64", 64), ("64K", 65536), ("64MiB", 64 << 20), ("2g", 2 << 30)] {
            assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
        }
        for text in ["", "M", "64MB", "-1", "1.5M", "64 M", "99999999999G", "1X"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_need_a_unit() {
        for (text, ms) in
            [("500ms", 500), ("10s", 10_000), ("1.5s", 1500), ("5m", 300_000), ("1h", 3_600_000)]
        {
            assert_eq!(text.parse::<Millis>().unwrap(), Millis(ms), "{text}");
        }
        for text in ["", "10", "s", "1.5ms", "1.2345s", "-1s", "1d", "99999999999999999h", ".5s"] {
            assert!(text.parse::<Millis>().is_err(), "{text}");
        }
    }

    #[test]
    fn printing_takes_the_largest_whole_unit() {
        assert_eq!(Bytes(3 << 20).to_string(), "3M");
        assert_eq!(Bytes(1025).to_string(), "1025");
        assert_eq!(Millis(90_000).to_string(), "90s");
        assert_eq!(Millis(0).to_string(), "0ms");
    }
}
