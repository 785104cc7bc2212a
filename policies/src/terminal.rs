//! The caller's terminal, as far as a program of a language may use it by keys.
//!
//! The supervisor owns it: its settings are changed and given back there, and keys come in by standard input as ever.
//!
//! Invariant: what is asked here never says which terminal, and never what its settings are.

use serde::{Deserialize, Serialize};

/// What is asked of it. Answered with its [`Window`](crate::process::Window) as JSON, or `null`: there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Keys come one by one and aren't echoed, until it is closed or the run ends.
    Open,
    /// Its size, while it is open.
    Size,
    /// Lines again, as before.
    Close,
}
