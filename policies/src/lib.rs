//! DECIDES: what a program may do, and what the kernel will be told about it.
//!
//! Order of flow: text (`--cap-set`, policy TOML) → [`Ceiling`](ceiling) → [`Plan`](plan) → [`Report`](report).
//!
//! Invariant: pure. No file, environment, network, process or clock is touched here; host facts come in as
//! plain data ([`facts`]).

pub mod audit;
pub mod capability;
pub mod facts;
pub mod layer;
pub mod plan;
pub mod report;
pub mod units;
