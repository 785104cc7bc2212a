//! One hostile peer: what a confined runtime may ask of the supervisor.
