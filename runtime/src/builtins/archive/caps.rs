//! How much an archive may hold, and what has come out of it so far.

use crate::builtins::{Args, Ctx};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;

/// Bytes that come out of an archive at most, unless the call says otherwise; and whatever it says.
const BYTES: (u64, u64) = (256 << 20, 4 << 30);
/// Entries, likewise.
const ENTRIES: (u64, u64) = (10_000, 100_000);
/// How many times its packed size an archive may come to, likewise. Deflate ends at 1032.
const RATIO: (u64, u64) = (200, 1100);
/// Below so many bytes nobody asks for the ratio.
const SMALL: u64 = 1 << 20;

/// The caps of one call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caps {
    bytes: u64,
    entries: u64,
    ratio: u64,
    /// Of the archive itself.
    packed: u64,
    out: u64,
    seen: u64,
}

impl Caps {
    /// Of an archive that is made: only its number of entries and its bytes are bounded.
    pub(super) fn to_make() -> Self {
        Self { bytes: BYTES.1, entries: ENTRIES.1, ratio: u64::MAX, packed: 1, out: 0, seen: 0 }
    }

    /// From the options in argument `i`, for an archive of so many bytes.
    pub(super) fn of(args: &Args<'_>, i: usize, packed: u64) -> Result<Self, Fault> {
        let mut caps = Self {
            bytes: BYTES.0,
            entries: ENTRIES.0,
            ratio: RATIO.0,
            packed: packed.max(1),
            out: 0,
            seen: 0,
        };
        if args.optional(i).is_none() {
            return Ok(caps);
        }
        for (key, value) in args.map(i)?.entries() {
            let (cap, most) = match key.as_str() {
                "max_bytes" => (&mut caps.bytes, BYTES.1),
                "max_entries" => (&mut caps.entries, ENTRIES.1),
                "max_ratio" => (&mut caps.ratio, RATIO.1),
                other => {
                    return Err(raised(format!(
                        "{}: unknown option '{other}' — there are max_bytes, max_entries and max_ratio",
                        args.name
                    )));
                }
            };
            *cap = match value {
                Value::Int(n) => u64::try_from(*n).ok().filter(|n| (1..=most).contains(n)),
                _ => None,
            }
            .ok_or_else(|| {
                raised(format!("{}: {} is a whole number from 1 to {most}", args.name, key.as_str()))
            })?;
        }
        Ok(caps)
    }

    /// One entry more.
    pub(super) fn entry(&mut self, ctx: &mut Ctx<'_>) -> Result<(), Fault> {
        self.seen += 1;
        ctx.charge(8)?;
        if self.seen > self.entries {
            return Err(self.over(ctx, &format!("more than {} entries", self.entries), "max_entries"));
        }
        Ok(())
    }

    /// So many bytes more.
    pub(super) fn add(&mut self, ctx: &mut Ctx<'_>, bytes: u64) -> Result<(), Fault> {
        ctx.charge(bytes / 32 + 1)?;
        self.out = self.out.saturating_add(bytes);
        self.fits(ctx, self.out)
    }

    /// Whether an archive that says it holds so much may be opened at all.
    pub(super) fn fits(&self, ctx: &Ctx<'_>, bytes: u64) -> Result<(), Fault> {
        if bytes > self.bytes {
            return Err(self.over(ctx, &format!("more than {} bytes", self.bytes), "max_bytes"));
        }
        if bytes > SMALL && bytes / self.packed >= self.ratio {
            let what = format!("more than {} times its packed size", self.ratio);
            return Err(self.over(ctx, &what, "max_ratio"));
        }
        Ok(())
    }

    fn over(&self, ctx: &Ctx<'_>, what: &str, option: &str) -> Fault {
        raised(format!("{}: the archive holds {what}; `{option}` sets the limit", ctx.name))
    }

    /// What came out, as programs are told.
    pub(super) fn told(&self) -> Value {
        let number = |n: u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        Value::record([("entries", number(self.seen)), ("bytes", number(self.out))])
    }
}
