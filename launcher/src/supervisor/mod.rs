//! Supervise: from a program that was just executed to the report of its end.
//!
//! One small single-threaded process for each jail: it waits for one of a closed list of events ([`watch`]), has one
//! handler for each, and never waits for the caller or for the jail alone.
//!
//! Order of reading: what is asked for ([`wants`]), the loop ([`watch`]), then its parts: streams, signals, terminal,
//! notifications, limits, and the one place that decides the cause of death ([`reap`]).
//!
//! Invariant: when [`supervise`] returns, nothing of the jail is alive and the terminal is as it was found.
//! Invariant: no allocation, descriptor or timer before it is needed: short runs never pay for what long runs need.

mod account;
mod audit;
mod contact;
mod frames;
mod hidden;
mod inlet;
mod limits;
mod lines;
mod notify;
mod reap;
mod relay;
mod tree;
mod watch;

pub mod signals;
pub mod terminal;
pub mod wants;

pub use account::met_heap;
pub use wants::{Keep, Prompt, Sink, Source, Wants};
pub use watch::supervise;

#[cfg(test)]
mod tests;
