//! Behaviour of the real binary, in real jails: one file for each feature or wall.
//!
//! Tests run as root or as an ordinary user; one that this host can't run says so.

#![expect(clippy::unwrap_used, reason = "a test that can not go on fails")]

mod archives;
mod audit;
mod bad_children;
mod children;
mod command_databases;
mod commands;
mod console;
mod databases;
mod devices;
mod exploring;
mod files;
mod keys;
mod languages;
mod links;
mod mistakes;
mod notebooks;
mod outputs;
mod processes;
mod program;
mod repl;
mod reports;
mod run;
mod scua;
mod secrets;
mod signals;
mod streams;
mod terminal;
mod verdicts;
