//! Only figures: see `benches/peers.rs`.
