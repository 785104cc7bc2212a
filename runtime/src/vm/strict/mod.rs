//! What instructions mean in an exact partition: checked integers, two false values, containers by reference, faults
//! with a kind and a line. Each step charges before it works.

mod arith;
mod calls;
mod compare;
mod containers;
mod faults;
mod kinds;
mod render;
mod step;

pub(crate) use arith::{arith, negate};
pub(crate) use calls::{arguments, early};
pub(crate) use compare::{equal, less, order, sign};
pub(crate) use containers::{
    concat, count_bounds, field, index, joined, loop_keys, loop_next, push, read_key, set_index, set_key,
    template,
};
pub(crate) use faults::{at_line, cut, describe, function_place, line_of, shown};
pub(crate) use kinds::{host_function, host_index, truthy, type_name, type_of};
pub(crate) use render::{display, escaped, render, unmatched};
pub(crate) use step::Step;
