//! ACTS: probe → stage → confine → supervise → report.
//!
//! The order is the security argument: facts are asked once, all that the child needs is made before it exists,
//! the child only runs an ordered list of steps, and the supervisor outlives nothing of it.
//!
//! Invariant: unsafe code stands in `sys` only.

pub mod broker;
pub mod cgroup;
pub mod cli;
pub mod egress;
pub mod elf;
pub mod error;
pub mod jail;
pub mod probe;
pub mod supervisor;
mod sys;
