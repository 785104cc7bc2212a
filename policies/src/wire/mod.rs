//! What passes between the launcher and the runtime's process: one job in, frames out.
//!
//! Invariant: everything is bounded before it is kept, and the decoder of frames treats the other side as hostile:
//! the runtime may have been taken over. A frame that breaks a rule ends the stream.

mod decode;
mod frame;
mod job;
#[cfg(test)]
mod tests;

pub use decode::FrameDecoder;
pub use frame::{EndFrame, ErrorFrame, Frame, WantFrame, Wanted, encode, encode_print, encode_print_part};
pub use job::{Explain, Job, JobHeader, Language, Mode, Needs, Profile, decode_job, encode_job};

/// First bytes of a job: name and version.
pub const MAGIC: [u8; 8] = *b"3wall\0\0\x01";
/// Bytes of a job's header at most.
pub const MAX_HEADER: usize = 1 << 20;
/// Bytes of one source at most.
pub const MAX_SOURCE: usize = 64 << 20;
/// Modules of a program at most.
pub const MAX_MODULES: usize = 1000;
/// Bytes of a program's saved state at most.
pub const MAX_STATE: usize = 64 << 20;
/// Bytes of a frame's payload at most; a longer print is split.
pub const MAX_FRAME: usize = 16 << 20;

/// Bytes of a frame's JSON at most: what is parsed takes many times its length.
pub const MAX_JSON: usize = 2 << 20;
/// Bytes of one text of an error at most: what is longer is cut when it is sent.
const MAX_ERROR: usize = 48 << 10;
/// Likewise, of an audit entry.
const MAX_ENTRY: usize = 8 << 10;
/// Functions of an error's stack at most.
const MAX_STACK: usize = 64;

/// Why bytes are no job or no frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The first bytes are wrong.
    #[error("read the job: not a job of this version")]
    Magic,
    /// A length is beyond its bound.
    #[error("read {what}: {length} bytes, at most {limit} are allowed")]
    TooLong {
        /// Of what.
        what: &'static str,
        /// The length that was claimed.
        length: u64,
        /// The bound.
        limit: usize,
    },
    /// The bytes end before what they announce.
    #[error("read {what}: the bytes end early")]
    Short {
        /// Of what.
        what: &'static str,
    },
    /// A JSON part isn't what it should be.
    #[error("read {what}: {reason}")]
    Json {
        /// Of what.
        what: &'static str,
        /// The parser's words.
        reason: String,
    },
    /// A kind that doesn't exist.
    #[error("read a frame: no kind {0}")]
    Kind(u8),
    /// A text that isn't UTF-8.
    #[error("read a frame: its text is not UTF-8")]
    Text,
    /// Something after the last frame.
    #[error("read a frame: there is one after the end")]
    AfterEnd,
}
