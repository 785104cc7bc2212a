//! One file for each class of attack: set up outside, proof inside, the same act outside as its twin.

mod containers;
mod descriptors;
mod failures;
mod files;
mod first_exec;
mod foreign;
mod identity;
mod leftovers;
mod limits;
mod local_work;
mod processes;
mod refused_calls;
mod runtime_place;
mod sudden_death;
mod surroundings;
