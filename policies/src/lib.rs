//! DECIDES: what a program may do, and what the kernel will be told about it.
//!
//! Order of flow: text (`--cap-set`, policy TOML) → [`Ceiling`](ceiling::Ceiling), [`Policy`](policy::Policy) →
//! [`Request`](request::Request) → (the launcher looks up paths) → [`Plan`](plan::Plan) → [`Report`](report::Report).
//!
//! Invariant: pure. No file, environment, network, process or clock is touched here; host facts come in as
//! plain data ([`facts`], [`request::PathFacts`]). The crate's `clippy.toml` names what is refused, and this root
//! denies it.

#![forbid(unsafe_code)]
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod audit;
pub mod broker;
pub mod capability;
pub mod ceiling;
pub mod connection;
pub mod error;
pub mod facts;
pub mod fetch;
pub mod layer;
pub mod limits;
pub mod nearest;
pub mod plan;
pub mod policy;
pub mod process;
pub mod report;
pub mod request;
#[cfg(test)]
mod schema;
pub mod scope;
pub mod terminal;
pub mod turns;
pub mod units;
pub mod wire;
