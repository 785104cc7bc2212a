//! One act at one wall: the entry that all layers share.

use crate::layer::Layer;
use serde::{Deserialize, Serialize};

/// Who asked for the act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A `require` or an act of the program.
    Program,
    /// A grant that the host tried by itself.
    Runtime,
}

/// One audit entry. The field order is the order on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entry {
    /// Unix time in seconds, with a fraction.
    pub ts: f64,
    /// `program`, `agent`, `sandbox:…`, `command` …
    pub context: String,
    /// The capability in its check form, `file_read("a.txt")`; for a system call the nearest capability.
    pub capability: String,
    /// Whether it was granted.
    pub granted: bool,
    /// Who decided: a builtin with parentheses, `ceiling`, `seccomp` …
    pub source: String,
    /// Why.
    pub reason: String,
    /// Who asked.
    pub origin: Origin,
    /// Source file of the call, where the language knows it.
    pub file: Option<String>,
    /// Source line of the call, where the language knows it.
    pub line: Option<u32>,
    /// Place in the one order of all walls, from 1. 0 until the supervisor has numbered it.
    pub seq: u64,
    /// Which mechanism decided.
    pub layer: Layer,
    /// What was reached for: a path, a host, a system call's name.
    pub target: String,
}
