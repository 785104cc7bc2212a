//! How a run ended: the one JSON shape of `--report` and of every API.

use crate::{
    audit::Entry,
    layer::LayerState,
    units::{Bytes, Millis},
};
use serde::{Deserialize, Serialize};

/// The cause of the end, one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Ended by itself with 0.
    Ok,
    /// Ended by itself with another code.
    Nonzero,
    /// Killed by a signal of its own making.
    Signal,
    /// The wall clock limit ended it.
    WallTime,
    /// The CPU time limit ended it.
    CpuTime,
    /// The memory limit ended it.
    Memory,
    /// The fuel limit ended it.
    Fuel,
    /// The output limit ended it.
    Output,
    /// It met the disk limit and failed.
    Disk,
    /// It met the process limit and failed.
    Processes,
    /// A signal to the launcher ended it.
    Stopped,
    /// The jail could not be built, and nothing of the program ran; or it broke while the program ran, or output could not
    /// be written where it was wanted.
    JailFailed,
}

/// What the run used. Absent where no means on this host can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Usage {
    /// Wall clock time from the start of the program.
    pub wall: Option<Millis>,
    /// CPU time of the whole tree.
    pub cpu: Option<Millis>,
    /// Peak memory of the whole tree.
    pub memory_peak: Option<Bytes>,
    /// Most processes and threads at one time.
    pub processes_peak: Option<u64>,
    /// Output bytes, all streams.
    pub output: Option<Bytes>,
    /// Bytes in the scratch folders at the end.
    pub disk: Option<Bytes>,
    /// Fuel, for the languages.
    pub fuel: Option<u64>,
}

/// The limits that a run can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// Wall clock.
    Wall,
    /// CPU time of the tree.
    Cpu,
    /// Memory of the tree.
    Memory,
    /// Processes and threads.
    Pids,
    /// Open files of each process.
    Nofile,
    /// Output bytes.
    Output,
    /// Scratch bytes.
    Disk,
    /// Fuel of the language.
    Fuel,
}

/// One row of a report's `limits`: which means held it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LimitState {
    /// Which limit.
    pub limit: LimitName,
    /// Its value in the unit of its kind (ms, bytes, count); absent = unlimited.
    pub value: Option<u64>,
    /// By what means: `cgroup v1 memory`, `rlimit`, `polling` …
    pub means: String,
    /// Whether it was met.
    pub met: bool,
}

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Whether the status is `ok`.
    pub ok: bool,
    /// The cause of the end.
    pub status: Verdict,
    /// Exit code of the program, when it exited.
    pub exit: Option<i32>,
    /// Signal that killed the program, when one did; for `stopped`, the one that the launcher got.
    pub signal: Option<i32>,
    /// What it printed: lines of a foreign command, prints of a language.
    pub output: Vec<String>,
    /// Whether bytes that are not UTF-8 were replaced in `output`.
    pub output_replaced: bool,
    /// What went wrong: error texts of the language or of the jail, a foreign command's lines on standard error.
    pub errors: Vec<String>,
    /// What each wall said no (or yes) to.
    pub audit: Vec<Entry>,
    /// Entries beyond the bound, counted only.
    pub audit_dropped: u64,
    /// Whether a time limit ended it.
    pub timed_out: bool,
    /// Tokens of model calls.
    pub llm_tokens: u64,
    /// What it used.
    pub usage: Usage,
    /// Which layers were in force.
    pub layers: Vec<LayerState>,
    /// Which means held each limit.
    pub limits: Vec<LimitState>,
}
