//! The machine: runs until done, out of fuel, or waiting for an effect.

mod access;
pub mod agents;
mod calling;
pub mod compare;
pub(crate) mod cycles;
pub mod decimal;
mod dispatch;
mod frame;
mod machine;
mod map;
mod match_ops;
pub mod number;
pub mod ops;
pub mod other;
mod paths;
mod places;
pub mod render;
pub(crate) mod schedule;
pub(crate) mod search;
pub(crate) mod shared;
mod statement_ops;
mod steps;
pub(crate) mod strict;
mod strict_ops;
pub(crate) mod tasks;
pub mod trap;
mod unwind;
pub mod value;

pub use machine::Machine;

/// A member of a value that isn't a map.
pub(crate) fn field_of(
    value: &value::Value,
    name: &str,
    core: &crate::partition::Core,
) -> Result<value::Value, trap::Fault> {
    access::field(value, name, core, access::Member::Plain)
}

/// A map of capabilities and scopes as a ceiling.
pub(crate) fn ceiling_of(map: &value::Map) -> Result<policies::ceiling::Ceiling, trap::Fault> {
    calling::ceiling_of(map, false)
}
