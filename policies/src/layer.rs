//! The closed list of mechanisms, and how well each one holds.

use serde::{Deserialize, Serialize};

/// One mechanism. The same words stand in the audit, the report, `doctor` and `--allow-missing`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// Whether a layer is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct LayerState {
    /// Which mechanism.
    pub layer: Layer,
    /// Whether it is in force.
    pub standing: Standing,
    /// By what means, or why not: a sentence for people.
    pub how: String,
}
