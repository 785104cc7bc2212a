//! process.

use super::Builtin;

pub(super) const TABLE: &[Builtin] = &[];
