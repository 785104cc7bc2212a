//! Behaviour of the whole crate, one file for each feature.
//!
//! Snapshots are renewed with `INSTA_UPDATE=always cargo test -p policies`, and read before they are committed.

#![expect(clippy::unwrap_used, reason = "a test that finds nothing to go on with has failed")]

mod errors;
mod given;
mod kernels;
mod laws;
mod plan_laws;
mod plans;
mod policies_read;
