//! Proofs: a hostile native program inside, and the same acts outside.
//!
//! Each test reads as given, run, expect. What runs in a jail is `hostile`, a binary of its own: confinement can't be
//! undone, so nothing of a test's own process is ever confined.

#![expect(clippy::unwrap_used, reason = "a test that can't be set up has failed")]

mod ended;
mod escapes;
mod given;
mod host;
mod matrix;
