//! The jail: planned → staged → confined. See the modules in order.

pub mod filter;
mod running;
pub use running::{ExitRecord, Running, Streams};
