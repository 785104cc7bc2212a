//! The jail: planned → staged → confined. See the modules in order.

mod running;
pub use running::{ExitRecord, Running, Streams};
