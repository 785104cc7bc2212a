//! A policy: the ceiling of the untrusted code, the trees that the program itself is made of, limits, variables.
//!
//! Invariant: made by [`Policy::parse`] alone, complete: what it extends is already in it. Of two policies that extend
//! each other's sections, a `[ceiling]` replaces the other whole; ceilings are never added up.

mod read;
pub mod ready;

#[cfg(test)]
pub(crate) use read::PolicyFile;

use crate::{ceiling::Ceiling, error::Malformed, limits::LimitSettings, plan::HostPath};
use std::collections::BTreeMap;

/// Whether a provided tree must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// Its absence is a refusal.
    Required,
    /// Written with a `?` behind it: left out where the host doesn't have it.
    Optional,
}

/// A tree or file of the host that the program is made of: read only, its libraries executable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Provided {
    /// On the host and in the jail alike.
    pub path: HostPath,
    /// Whether it must be there.
    pub presence: Presence,
}

/// Whether the jail has a /proc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proc {
    /// None.
    None,
    /// Of the jail's own processes, read-only.
    Own,
}

/// What the root holds beside the provided and granted trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootKind {
    /// A small /etc.
    Usual,
    /// No /etc.
    Empty,
}

/// `[jail]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JailSettings {
    /// `proc = "none" | "own"`
    pub proc: Proc,
    /// `root = "usual" | "empty"`
    pub root: RootKind,
}

/// A whole policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    name: String,
    ceiling: Ceiling,
    provides: Vec<Provided>,
    limits: LimitSettings,
    environment: BTreeMap<String, String>,
    jail: JailSettings,
}

impl Policy {
    /// From TOML; `extends` may name the ready policies only.
    ///
    /// # Errors
    /// [`Malformed::InPolicy`] with file, line, column, the bad value and the nearest valid one.
    pub fn parse(name: &str, text: &str) -> Result<Self, Malformed> {
        Self::parse_with(name, text, &|_| None)
    }

    /// From TOML; `lookup` gives the text of an extended policy that is not a ready one.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(
        name: &str,
        text: &str,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Malformed> {
        read::policy(name, text, lookup)
    }

    /// What stands around thirdwall's own runtime where nothing else is asked for: it provides nothing.
    #[must_use]
    pub fn runtime() -> Self {
        Self {
            name: "runtime".to_owned(),
            ceiling: Ceiling::none(),
            provides: Vec::new(),
            limits: LimitSettings::DEFAULT,
            environment: BTreeMap::new(),
            jail: JailSettings { proc: Proc::None, root: RootKind::Empty },
        }
    }

    /// Its name or file, as given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the untrusted code may do.
    #[must_use]
    pub fn ceiling(&self) -> &Ceiling {
        &self.ceiling
    }

    /// What the program is made of.
    #[must_use]
    pub fn provides(&self) -> &[Provided] {
        &self.provides
    }

    /// Its limits, each settled.
    #[must_use]
    pub fn limits(&self) -> LimitSettings {
        self.limits
    }

    /// The variables that it sets.
    #[must_use]
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// `[jail]`.
    #[must_use]
    pub fn jail(&self) -> JailSettings {
        self.jail
    }
}
