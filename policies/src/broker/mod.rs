//! The broker's wire: what a confined runtime may ask of its supervisor, bounded on both sides.
//!
//! One SOCK_SEQPACKET pair; the runtime's end is descriptor [`DESCRIPTOR`]. A message is one request or one answer:
//! four bytes, little endian, with the length of a JSON head; the head; raw bytes behind it (a piece of a source, a
//! list). The runtime sends one request, waits for its answer, and sends the next one with the next number.
//!
//! Invariant: a message has at most [`MOST_MESSAGE`] bytes, its head a fixed depth, its paths [`MOST_PATH`] bytes.
//! Invariant: only answers carry a descriptor. There is no request for which the supervisor takes one.
//! Invariant: there is no rename, no link, no chmod: with grants that differ for two paths, each of them would let a
//! file change from one to the other.

mod answer;
mod message;
mod request;
#[cfg(test)]
mod tests;

pub use answer::{Answer, By, Exited, Listed, Ran, Refused, Seen};
pub use message::{Breach, Message, answer, encode, request};
pub use request::{Act, Child, Command, How, Part, Profile, Request, What, is_variable, steers};

/// The runtime's end.
pub const DESCRIPTOR: i32 = 5;
/// Largest message, in bytes.
pub const MOST_MESSAGE: usize = 64 << 10;
/// Largest head, in bytes.
pub const MOST_HEAD: usize = 48 << 10;
/// Most raw bytes behind a head.
pub const MOST_PIECE: usize = MOST_MESSAGE - 4 - 1024;
/// Longest path, in bytes.
pub const MOST_PATH: usize = 4096;
/// Longest source of a child, in bytes.
pub const MOST_SOURCE: usize = 4 << 20;
/// Most variables of a child.
pub const MOST_VARIABLES: usize = 256;
/// Most words of a command.
pub const MOST_WORDS: usize = 4096;
/// Most entries of a listed folder.
pub const MOST_ENTRIES: usize = 10_000;
