//! What a command is made of: its file, its interpreters, its loader and its libraries, read from the host's files.
//!
//! The files may be hostile (a submission's program): every size, count and depth has a bound, nothing is executed, and
//! no foreign text is parsed beyond the first line of a script and the headers of an ELF file.
//!
//! Source: elf(5); ld.so(8); execve(2), "Interpreter scripts".

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::cast_possible_truncation)
)]

mod cache;
mod command;
mod header;
mod libraries;

pub use command::{Command, CommandError, locate};
pub use libraries::{Libraries, libraries};

use std::path::PathBuf;

/// A file that a command needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostFile {
    /// The absolute path by which it will be asked for.
    pub asked: PathBuf,
    /// The same file without symbolic links.
    pub real: PathBuf,
}

impl HostFile {
    /// Follows the links of `asked`, which has to be absolute.
    fn at(asked: PathBuf) -> std::io::Result<Self> {
        let real = asked.canonicalize()?;
        Ok(Self { asked, real })
    }
}
