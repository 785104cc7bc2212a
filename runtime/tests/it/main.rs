//! Behaviour of the runtime, through its public interface.

mod harness;
mod limits;
mod spec;
mod worker;
