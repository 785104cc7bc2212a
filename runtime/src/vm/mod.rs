//! The machine: runs until done, out of fuel, or waiting for an effect.

pub mod agents;
pub mod compare;
pub(crate) mod cycles;
pub mod decimal;
mod dispatch;
mod frame;
mod machine;
pub mod number;
pub mod ops;
pub mod other;
mod paths;
pub mod render;
mod steps;
pub mod trap;
pub mod value;

pub use machine::Machine;
