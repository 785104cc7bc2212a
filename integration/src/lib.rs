//! The service and the proofs.
