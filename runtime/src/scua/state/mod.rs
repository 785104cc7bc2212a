//! A program's state at rest as bytes, and back.
//!
//! Carried: globals, heap, actors with their mailboxes, program time. Not carried: code (it is compiled anew from the
//! same source, whose hash is in the state), capabilities (granted anew) and sandboxes (their code came from a string
//! outside; the same references stand in their place, stopped).
//!
//! Invariant: a state is hostile input. Each count is bounded by the bytes that follow, each reference by the number of
//! objects, each object by the memory limit before it is made; nothing in it names code, rights or addresses. What can't
//! have been written is refused; the worst that a forged one brings about is other values in the same program.
//!
//! Layout: [`MAGIC`], version, hash of the source, counters, names, texts, objects by kind, globals, the queue, and a hash
//! of all that, which finds accidents and proves nothing. Numbers are LEB128, at most ten bytes.

mod bytes;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

use crate::bytecode::Program;
use sha2::{Digest, Sha256};

/// First bytes of every state.
const MAGIC: [u8; 9] = *b"SCUAstate";
/// The layout that is written and read.
const VERSION: u8 = 1;
/// Bytes of a state at most.
pub const MAX_STATE: usize = policies::wire::MAX_STATE;
/// Actors and tasks of a state at most: they count few bytes or none by the language's table.
const MAX_ACTORS: usize = 1 << 20;

/// What stands before a value.
mod kind {
    pub(super) const NIL: u8 = 0;
    pub(super) const FALSE: u8 = 1;
    pub(super) const TRUE: u8 = 2;
    pub(super) const INT: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const SHORT: u8 = 5;
    pub(super) const TEXT: u8 = 6;
    pub(super) const BUILTIN: u8 = 7;
    pub(super) const HOST: u8 = 8;
    pub(super) const TOP: u8 = 9;
    pub(super) const CLOSURE: u8 = 10;
    pub(super) const ARRAY: u8 = 11;
    pub(super) const RECORD: u8 = 12;
    pub(super) const TAGGED: u8 = 13;
    pub(super) const TAG: u8 = 14;
    pub(super) const TASK: u8 = 15;
    pub(super) const ACTOR: u8 = 16;
    /// Only where a variable stands: not bound yet.
    pub(super) const UNBOUND: u8 = 17;
}

fn hash_of_source(program: &Program) -> [u8; 32] {
    let text = program.sources.first().map_or("", |source| source.text.as_str());
    Sha256::digest(text.as_bytes()).into()
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Puts the right hash at the end of bytes that somebody has changed: for tests, which would else try nothing but
/// the hash.
#[must_use]
pub fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len().saturating_sub(32);
    bytes.truncate(body);
    let hash = hash(&bytes);
    bytes.extend(hash);
    bytes
}
