//! Limits as they are asked for: by a policy, by the command line, by default.

use crate::{
    error::Malformed,
    units::{Bytes, Millis},
};
use std::{fmt, str::FromStr};

/// A limit as written: an amount, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting<T> {
    /// No limit.
    Unlimited,
    /// This much.
    At(T),
}

impl<T> Setting<T> {
    /// `None` = no limit.
    #[must_use]
    pub fn value(self) -> Option<T> {
        match self {
            Self::Unlimited => None,
            Self::At(value) => Some(value),
        }
    }
}

/// What a limit can be an amount of.
pub trait Amount: Sized {
    /// From its text.
    ///
    /// # Errors
    /// [`Malformed`] with what is wrong.
    fn parse_amount(text: &str) -> Result<Self, Malformed>;
}

impl Amount for Bytes {
    fn parse_amount(text: &str) -> Result<Self, Malformed> {
        text.parse()
    }
}

impl Amount for Millis {
    fn parse_amount(text: &str) -> Result<Self, Malformed> {
        text.parse()
    }
}

impl Amount for u64 {
    fn parse_amount(text: &str) -> Result<Self, Malformed> {
        let why = match text.parse() {
            Ok(count) if text.bytes().all(|b| b.is_ascii_digit()) => return Ok(count),
            Ok(_) => "a sign",
            Err(_) => "it is no whole number that fits",
        };
        Err(Malformed::Count { text: text.to_owned(), why })
    }
}

impl<T: Amount> FromStr for Setting<T> {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        if text == "none" { Ok(Self::Unlimited) } else { T::parse_amount(text).map(Self::At) }
    }
}

impl<T: fmt::Display> fmt::Display for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("none"),
            Self::At(value) => value.fmt(f),
        }
    }
}

/// Limits of one origin; `None` = that origin says nothing about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// Wall clock, from the start of the program.
    pub wall: Option<Setting<Millis>>,
    /// CPU time of the tree.
    pub cpu: Option<Setting<Millis>>,
    /// Memory of the tree.
    pub memory: Option<Setting<Bytes>>,
    /// Processes and threads.
    pub pids: Option<Setting<u64>>,
    /// Output bytes, all streams together.
    pub output: Option<Setting<Bytes>>,
    /// Scratch bytes, all scratch folders together. Never unlimited: they live in memory.
    pub disk: Option<Bytes>,
    /// Open files of each process. Never unlimited: the kernel has no such value.
    pub nofile: Option<u64>,
    /// Between TERM and KILL.
    pub grace: Option<Millis>,
}

impl LimitSettings {
    /// Nothing said.
    pub const NONE: Self = Self {
        wall: None,
        cpu: None,
        memory: None,
        pids: None,
        output: None,
        disk: None,
        nofile: None,
        grace: None,
    };

    /// What holds where nobody says anything.
    pub const DEFAULT: Self = Self {
        wall: Some(Setting::At(Millis::seconds(10))),
        cpu: Some(Setting::At(Millis::seconds(10))),
        memory: Some(Setting::At(Bytes::mib(512))),
        pids: Some(Setting::At(64)),
        output: Some(Setting::At(Bytes::mib(8))),
        disk: Some(Bytes::mib(64)),
        nofile: Some(256),
        grace: Some(Millis::seconds(5)),
    };

    /// These, and `base` where these say nothing.
    #[must_use]
    pub fn over(self, base: Self) -> Self {
        Self {
            wall: self.wall.or(base.wall),
            cpu: self.cpu.or(base.cpu),
            memory: self.memory.or(base.memory),
            pids: self.pids.or(base.pids),
            output: self.output.or(base.output),
            disk: self.disk.or(base.disk),
            nofile: self.nofile.or(base.nofile),
            grace: self.grace.or(base.grace),
        }
    }
}
