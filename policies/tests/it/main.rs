//! Behaviour of the whole crate, one file for each feature.
