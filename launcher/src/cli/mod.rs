//! The command line: one module for each command, and the exit codes.

pub mod doctor;
pub mod exit;
