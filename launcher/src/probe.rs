//! What the host can do, asked once.
