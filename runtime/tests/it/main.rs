//! Behaviour of the runtime, through its public interface.

mod archives;
mod differential;
mod ends;
mod golden;
mod harness;
mod laws;
mod limits;
mod prices;
mod profile;
mod scua;
mod spec;
mod worker;
