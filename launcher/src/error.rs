//! Refusals and failed steps, each with its remedy.
