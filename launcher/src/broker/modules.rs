//! Modules of a conversation: files of the folder that it was begun in, read when a statement uses them.
//!
//! A program's modules come with its job, because they are known before it runs. What will be typed isn't.
//!
//! Invariant: only what is named as programs are is read, beneath the folder and through no link; all of it together is bounded.

use super::{Reply, files::No};
use nix::errno::Errno;
use std::{fmt::Debug, io};

/// Where modules are found.
pub trait Modules: Debug {
    /// A module's text by its path from the folder; `None`: there is none.
    ///
    /// # Errors
    /// It can't be read, or there is too much of all of them.
    fn module(&mut self, path: &str) -> io::Result<Option<Vec<u8>>>;
}

/// The text of a module, for the caller.
pub(super) fn module(modules: Option<&mut Box<dyn Modules>>, path: &str) -> Result<Reply, No> {
    let modules = modules.ok_or_else(|| No::misuse("a program's modules come with it"))?;
    // The errors of a module show its lines, and what is typed may come from anywhere.
    let found = if path.ends_with(".syn") { modules.module(path) } else { Ok(None) };
    match found {
        Ok(Some(text)) => Reply::bytes(text),
        Ok(None) => Err(No::kernel(Errno::ENOENT)),
        Err(error) => match error.raw_os_error() {
            Some(number) => Err(No::kernel(Errno::from_raw(number))),
            None => Err(No::limit(error.to_string())),
        },
    }
}
