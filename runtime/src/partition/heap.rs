//! Exact byte accounting.
//!
//! Every heap object charges the meter of the partition that is running when it is made or grows, and gives the
//! bytes back when it goes. The counts follow the object's own sizes (table in [`costs`]), never the allocator's,
//! so the same program has the same count on each run.
//!
//! Invariant: one partition runs at a time on a thread, and a partition's objects die while it is current.

use std::cell::Cell;

/// Bytes of each kind of object, before its elements.
pub mod costs {
    /// A text longer than 15 ASCII characters: this and its capacity in bytes.
    pub const TEXT: usize = 56;
    /// A list: this and 16 for each element of its capacity.
    pub const LIST: usize = 48;
    /// A map: this and 48 for each entry of its capacity.
    pub const MAP: usize = 96;
    /// One map entry.
    pub const ENTRY: usize = 48;
    /// One list element, captured variable or field.
    pub const SLOT: usize = 16;
    /// A closure: this and 16 for each captured variable.
    pub const CLOSURE: usize = 48;
    /// A captured variable.
    pub const CELL: usize = 48;
    /// An integer beyond 64 bits: this and its bytes.
    pub const BIG: usize = 56;
    /// An instance or variant: this and 16 for each field.
    pub const RECORD: usize = 56;
    /// Any other object: this and the bytes that it says it has.
    pub const OTHER: usize = 64;
}

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
    static LIMIT: Cell<i64> = const { Cell::new(i64::MAX) };
    static MADE: Cell<i64> = const { Cell::new(0) };
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// `MADE` from which on the fuel is used up, as far as the running partition has told.
    static END: Cell<i64> = const { Cell::new(i64::MAX) };
}

/// A partition's counts, while it isn't running.
#[derive(Debug, Clone, Copy)]
pub struct Meter {
    live: i64,
    peak: i64,
    limit: i64,
    made: i64,
}

impl Meter {
    /// Nothing used, at most `limit` bytes.
    #[must_use]
    pub fn new(limit: Option<u64>) -> Self {
        let limit = limit.map_or(i64::MAX, |n| i64::try_from(n).unwrap_or(i64::MAX));
        Self { live: 0, peak: 0, limit, made: 0 }
    }

    /// Makes this meter the current one; the earlier one comes back.
    #[must_use]
    pub fn enter(self) -> Self {
        END.set(i64::MAX);
        Self {
            live: LIVE.replace(self.live),
            peak: PEAK.replace(self.peak),
            limit: LIMIT.replace(self.limit),
            made: MADE.replace(self.made),
        }
    }

    /// Live bytes.
    pub(crate) fn live(self) -> i64 {
        self.live
    }

    /// The most bytes that were live at once.
    #[must_use]
    pub fn peak(self) -> u64 {
        self.peak.max(0) as u64
    }
}

/// The current counts.
#[must_use]
pub fn current() -> Meter {
    Meter { live: LIVE.get(), peak: PEAK.get(), limit: LIMIT.get(), made: MADE.get() }
}

/// Counts bytes of a new or grown object.
#[inline]
pub(crate) fn grow(bytes: usize) {
    let live = LIVE.get() + bytes as i64;
    LIVE.set(live);
    MADE.set(MADE.get() + bytes as i64);
    if live > PEAK.get() {
        PEAK.set(live);
    }
}

/// Gives bytes back.
#[inline]
pub(crate) fn shrink(bytes: usize) {
    LIVE.set(LIVE.get() - bytes as i64);
}

/// Counts the difference between two sizes of one object.
#[inline]
pub(crate) fn resize(old: usize, new: usize) {
    if new > old {
        grow(new - old);
    } else if new < old {
        shrink(old - new);
    }
}

/// Whether the limit was passed at any moment.
#[inline]
#[must_use]
pub(crate) fn over() -> bool {
    PEAK.get() > LIMIT.get()
}

/// Says how much fuel there is for work that is counted by [`work`].
#[inline]
pub(crate) fn set_fuel(fuel: i64) {
    END.set(fuel.saturating_mul(32).saturating_add(31));
}

/// Pays for a walk over a value as it goes on: shared parts are met once for each place, so nobody knows before how far
/// it is. `false`: the fuel is used up; the walk ends there, and the next look at the limits ends the program.
#[inline]
pub(crate) fn work(fuel: usize) -> bool {
    let made = MADE.get().saturating_add(32 * fuel as i64);
    MADE.set(made);
    made <= END.get()
}

/// Whether a result that is being made may have so many bytes. If not, the next look at the limits ends the program.
#[inline]
pub(crate) fn fits(bytes: usize) -> bool {
    if bytes <= 1 << 16 || !would_pass(bytes as u64) {
        return true;
    }
    grow(bytes);
    shrink(bytes);
    false
}

/// Whether so many more bytes would pass the limit, or what a host can be asked for in one piece.
#[must_use]
pub(crate) fn would_pass(bytes: u64) -> bool {
    const ONE_PIECE: u64 = 4 << 30;
    let room = LIMIT.get().saturating_sub(LIVE.get());
    bytes > ONE_PIECE || i64::try_from(bytes).is_ok_and(|b| b > room)
}

/// All bytes ever counted: the part of the fuel that pays for allocation.
#[inline]
#[must_use]
pub(crate) fn made() -> i64 {
    MADE.get()
}

/// Live bytes now.
#[must_use]
pub(crate) fn live() -> i64 {
    LIVE.get()
}

/// Drops the inside of a container without using the host's stack for its depth.
pub(crate) fn drop_inside(values: impl Iterator<Item = crate::vm::value::Value>) {
    use crate::vm::value::Value;
    use std::cell::RefCell;
    const DIRECT: u32 = 64;
    thread_local! {
        static WAITING: RefCell<Vec<Value>> = const { RefCell::new(Vec::new()) };
    }
    let depth = DEPTH.get();
    if depth >= DIRECT {
        WAITING.with_borrow_mut(|w| w.extend(values.filter(Value::is_container)));
        return;
    }
    DEPTH.set(depth + 1);
    values.for_each(drop);
    if depth == 0 {
        while let Some(value) = WAITING.with_borrow_mut(Vec::pop) {
            drop(value);
        }
    }
    DEPTH.set(depth);
}
