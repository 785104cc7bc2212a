//! The closed list of capabilities: what a program may be granted, with its name, its kind of scope and the walls
//! that hold it.
//!
//! Invariant: matched without `_` everywhere, so that a new capability breaks the build where it is unhandled.

use crate::nearest::nearest;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A language-level right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Capability {
    /// Print.
    #[serde(rename = "stdout")]
    Stdout,
    /// Read standard input.
    #[serde(rename = "stdin")]
    Stdin,
    /// Clock and sleep.
    #[serde(rename = "time")]
    Time,
    /// Randomness.
    #[serde(rename = "random")]
    Random,
    /// Model calls.
    #[serde(rename = "llm")]
    Llm,
    /// Question blocks.
    #[serde(rename = "judge")]
    Judge,
    /// Child programs in jails of their own.
    #[serde(rename = "sandbox_run")]
    SandboxRun,
    /// Attestation.
    #[serde(rename = "attest")]
    Attest,
    /// Hosts.
    #[serde(rename = "net")]
    Net,
    /// Files, reading and writing.
    #[serde(rename = "file")]
    File,
    /// Files, reading.
    #[serde(rename = "file.read")]
    FileRead,
    /// Files, writing.
    #[serde(rename = "file.write")]
    FileWrite,
    /// Programs.
    #[serde(rename = "exec")]
    Exec,
    /// Environment variables.
    #[serde(rename = "env")]
    Env,
    /// Secrets.
    #[serde(rename = "secret")]
    Secret,
    /// Plain text of secrets.
    #[serde(rename = "reveal")]
    Reveal,
    /// Signing keys.
    #[serde(rename = "sign")]
    Sign,
    /// Wallets.
    #[serde(rename = "wallet")]
    Wallet,
    /// Spending.
    #[serde(rename = "spend")]
    Spend,
    /// The notebook.
    #[serde(rename = "memory")]
    Memory,
    /// Databases.
    #[serde(rename = "db")]
    Db,
    /// Listening ports.
    #[serde(rename = "serve")]
    Serve,
}

/// What a capability's scope names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeKind {
    /// The capability has no scope: it is there or not.
    None,
    /// A path, with `*`.
    Path,
    /// A host, with a port or not.
    Host,
    /// A command, as written.
    Command,
    /// A name, or the first letters of it and `*`.
    Name,
    /// A database file, `:memory:`, or a database URL.
    Database,
    /// A port number.
    Port,
}

/// One of the three walls around a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    /// The language's own gate.
    Ceiling,
    /// The pure profile.
    Profile,
    /// The kernel.
    Jail,
}

impl Capability {
    /// All of them, in the order of every list that people read.
    pub const ALL: [Self; 22] = [
        Self::Stdout,
        Self::Stdin,
        Self::Time,
        Self::Random,
        Self::Llm,
        Self::Judge,
        Self::SandboxRun,
        Self::Attest,
        Self::Net,
        Self::File,
        Self::FileRead,
        Self::FileWrite,
        Self::Exec,
        Self::Env,
        Self::Secret,
        Self::Reveal,
        Self::Sign,
        Self::Wallet,
        Self::Spend,
        Self::Memory,
        Self::Db,
        Self::Serve,
    ];

    /// The name in a ceiling, a policy and a `require` line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stdin => "stdin",
            Self::Time => "time",
            Self::Random => "random",
            Self::Llm => "llm",
            Self::Judge => "judge",
            Self::SandboxRun => "sandbox_run",
            Self::Attest => "attest",
            Self::Net => "net",
            Self::File => "file",
            Self::FileRead => "file.read",
            Self::FileWrite => "file.write",
            Self::Exec => "exec",
            Self::Env => "env",
            Self::Secret => "secret",
            Self::Reveal => "reveal",
            Self::Sign => "sign",
            Self::Wallet => "wallet",
            Self::Spend => "spend",
            Self::Memory => "memory",
            Self::Db => "db",
            Self::Serve => "serve",
        }
    }

    /// The name in errors and audit entries: `file_read`, and for the others as in [`name`](Self::name).
    #[must_use]
    pub const fn check_name(self) -> &'static str {
        match self {
            Self::FileRead => "file_read",
            Self::FileWrite => "file_write",
            Self::Stdout
            | Self::Stdin
            | Self::Time
            | Self::Random
            | Self::Llm
            | Self::Judge
            | Self::SandboxRun
            | Self::Attest
            | Self::Net
            | Self::File
            | Self::Exec
            | Self::Env
            | Self::Secret
            | Self::Reveal
            | Self::Sign
            | Self::Wallet
            | Self::Spend
            | Self::Memory
            | Self::Db
            | Self::Serve => self.name(),
        }
    }

    /// What its scope names.
    #[must_use]
    pub const fn scope_kind(self) -> ScopeKind {
        match self {
            Self::Stdout
            | Self::Stdin
            | Self::Time
            | Self::Random
            | Self::Llm
            | Self::Judge
            | Self::SandboxRun
            | Self::Attest => ScopeKind::None,
            Self::Net => ScopeKind::Host,
            Self::File | Self::FileRead | Self::FileWrite => ScopeKind::Path,
            Self::Exec => ScopeKind::Command,
            Self::Env
            | Self::Secret
            | Self::Reveal
            | Self::Sign
            | Self::Wallet
            | Self::Spend
            | Self::Memory => ScopeKind::Name,
            Self::Db => ScopeKind::Database,
            Self::Serve => ScopeKind::Port,
        }
    }

    /// The walls that hold it when it is not granted.
    #[must_use]
    pub const fn walls(self) -> &'static [Wall] {
        match self {
            // No kernel wall holds the clock and randomness: the vDSO, the cycle counter and the program's own
            // addresses give both away.
            Self::Time | Self::Random => &[Wall::Ceiling],
            // In the pure profile these stay: they look at nothing of the local machine.
            Self::Stdout
            | Self::Stdin
            | Self::Llm
            | Self::Judge
            | Self::SandboxRun
            | Self::Attest
            | Self::Net
            | Self::Env
            | Self::Secret
            | Self::Reveal
            | Self::Sign
            | Self::Wallet
            | Self::Spend => &[Wall::Ceiling, Wall::Jail],
            Self::File
            | Self::FileRead
            | Self::FileWrite
            | Self::Exec
            | Self::Memory
            | Self::Db
            | Self::Serve => &[Wall::Ceiling, Wall::Profile, Wall::Jail],
        }
    }

    /// Whether holding `self` includes holding `other`: the same one, or `file` over its two halves.
    #[must_use]
    pub fn includes(self, other: Self) -> bool {
        self == other || (self == Self::File && matches!(other, Self::FileRead | Self::FileWrite))
    }

    /// By its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|capability| capability.name() == name)
    }

    /// The nearest name to a wrong one.
    #[must_use]
    pub fn nearest(wrong: &str) -> Option<&'static str> {
        nearest(wrong, Self::ALL.map(Self::name))
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_and_equal_the_wire_names() {
        for capability in Capability::ALL {
            assert_eq!(Capability::from_name(capability.name()), Some(capability));
            assert_eq!(serde_json::to_value(capability).unwrap(), capability.name());
        }
    }
}
