//! The broker against a peer that may be anybody. This binary is both sides: as the tests it stages a jail with the
//! runtime's own plan; executed in that jail, in the runtime's place, it is the peer ([`jailed`]).
//!
//! One process with one thread: a jail is cloned from it.
#![expect(clippy::unwrap_used, reason = "tests")]

mod jailed;
mod outside;
mod peer;

use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(launcher::jail::RUNTIME_FLAG) => jailed::main(),
        Some("--swap") => outside::swap(&std::env::args().nth(2).unwrap_or_default()),
        _ => outside::main(),
    }
}
