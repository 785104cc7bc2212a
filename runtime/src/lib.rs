//! COMPUTES: two languages on one machine.
//!
//! Order of flow: source → tokens → tree → bytecode → partition.
//!
//! Invariant: no effect but through the gate (`partition::gate`) and the host behind it; no unsafe code; no
//! recursion of the native stack on a program's depth or its data's.

#![forbid(unsafe_code)]

pub mod broker;
pub mod builtins;
pub mod bytecode;
pub mod diagnostic;
pub mod error;
pub mod explain;
pub mod partition;
pub mod scua;
pub mod source;
pub mod synsema;
pub mod vm;
mod web;
pub mod worker;
