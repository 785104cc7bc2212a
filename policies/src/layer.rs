//! The closed list of mechanisms, and how well each one holds.

use crate::{error::Malformed, nearest::nearest};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// One mechanism. The same words stand in the audit, the report, `doctor` and `--allow-missing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The ceiling in the language.
    Gate,
    /// The pure profile.
    Profile,
    /// Linux namespaces.
    Namespaces,
    /// The new root and its mounts.
    Root,
    /// Landlock.
    Landlock,
    /// The system call filter (seccomp).
    Filter,
    /// The network namespace and what leads out of it.
    Network,
    /// The supervisor's broker.
    Broker,
    /// Limits of time, memory, processes, output and disk.
    Limits,
}

impl Layer {
    /// All of them, in the order of every list that people read.
    pub const ALL: [Self; 9] = [
        Self::Gate,
        Self::Profile,
        Self::Namespaces,
        Self::Root,
        Self::Landlock,
        Self::Filter,
        Self::Network,
        Self::Broker,
        Self::Limits,
    ];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Profile => "profile",
            Self::Namespaces => "namespaces",
            Self::Root => "root",
            Self::Landlock => "landlock",
            Self::Filter => "filter",
            Self::Network => "network",
            Self::Broker => "broker",
            Self::Limits => "limits",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Layer {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        Self::ALL.into_iter().find(|layer| layer.name() == text).ok_or_else(|| Malformed::Word {
            what: "layer",
            word: text.to_owned(),
            nearest: nearest(text, Self::ALL.map(Self::name)).map(str::to_owned),
            known: Self::ALL.map(Self::name).join(" "),
        })
    }
}

/// Whether a layer is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// As designed.
    InForce,
    /// By another means than the first choice.
    OtherMeans,
    /// Not there; only `--allow-missing` lets a run start so.
    Missing,
    /// Not a part of this kind of run (the gate around a foreign command).
    NotApplicable,
}

/// One row of a report's `layers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayerState {
    /// Which mechanism.
    pub layer: Layer,
    /// Whether it is in force.
    pub standing: Standing,
    /// By what means, or why not: a sentence for people.
    pub how: String,
}
