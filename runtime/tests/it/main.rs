//! Behaviour of the runtime, through its public interface.

mod golden;
mod harness;
mod laws;
mod limits;
mod spec;
mod worker;
