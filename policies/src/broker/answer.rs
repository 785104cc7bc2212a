//! What is answered.

use crate::audit::Entry;
use serde::{Deserialize, Serialize};

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exited {
    /// Its exit code; 128 and its signal, if one killed it.
    pub exit_code: Option<i32>,
    /// What it wrote; what isn't UTF-8 is replaced.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Whether there was more.
    pub stdout_truncated: bool,
    /// Whether there was more.
    pub stderr_truncated: bool,
    /// Why it was ended, if it didn't end by itself.
    pub ended: Option<String>,
    /// Whether its time was over.
    pub timed_out: bool,
    /// Its audit.
    pub audit: Vec<Entry>,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// It ended by itself with 0.
    pub ok: bool,
    /// What it printed.
    pub output: Vec<String>,
    /// What went wrong.
    pub errors: Vec<String>,
    /// Its audit.
    pub audit: Vec<Entry>,
    /// Its exit code, if it ended by itself.
    pub exit: Option<i32>,
    /// Whether its time was over.
    pub timed_out: bool,
    /// Tokens of its model calls.
    pub llm_tokens: u64,
    /// Fuel that it used, its own children's with it.
    #[serde(default)]
    pub fuel: u64,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// The descriptor beside it is the file.
    Opened,
    /// What stands there.
    Seen(Seen),
    /// The raw bytes are JSON: a list of [`Listed`], a [`Ran`], the number of a process …
    Inline,
    /// They are too long for a message: the descriptor beside it is a file with them.
    Filed {
        /// How many.
        bytes: u64,
    },
    /// The raw bytes are JSON, an [`Outcome`](crate::fetch::Outcome); the descriptor beside it is the body.
    Beside {
        /// How many bytes.
        bytes: u64,
    },
    /// The raw bytes are what a process has written.
    Piece {
        /// Whether there will be no more.
        ended: bool,
    },
    /// No.
    Refused(Refused),
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Whether anything does.
    pub exists: bool,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
    /// Unix time in seconds.
    pub modified: f64,
}

impl Seen {
    /// Nothing is there.
    pub const NOTHING: Self = Self { exists: false, is_dir: false, size: 0, modified: 0.0 };
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Listed {
    /// Its name; what isn't UTF-8 is replaced.
    pub name: String,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
    /// When it was changed last: Unix time in nanoseconds.
    pub changed: i64,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// By whom.
    pub by: By,
    /// Why, as a fragment.
    pub why: String,
}

/// Who refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The ceiling.
    Ceiling,
    /// The kernel, with this errno.
    Kernel(i32),
    /// A bound of the broker.
    Limit,
    /// The request makes no sense.
    Misuse,
}
