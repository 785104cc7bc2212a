//! A program's saved state on its way to a file and back. It is never looked into here: the runtime reads it in its jail.

use super::given;
use crate::error::Error;
use nix::sys::memfd::{MFdFlags, memfd_create};
use policies::{
    report::{Report, Verdict},
    wire::MAX_STATE,
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process,
};

/// A file that a state will be written to. It holds the old one until the new one is whole.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    /// Beside it: what replaces it at the end.
    fresh: PathBuf,
    file: Option<File>,
    kept: File,
}

/// Reads a state.
pub(super) fn read(path: &str) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::File { act: "read the state", path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")));
    }
    file.take(MAX_STATE as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_STATE {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, "a state has at most 64 MiB")));
    }
    Ok(bytes)
}

impl State {
    /// Makes sure, before anything runs, that it can be written.
    pub(super) fn open(path: &str) -> Result<Self, Error> {
        let failed = |source| Error::File { act: "write the state to", path: path.to_owned(), source };
        let path_of = Path::new(path);
        given::replaceable(path_of).map_err(failed)?;
        let mut name = path_of.file_name().map(|name| name.to_os_string()).unwrap_or_default();
        name.push(format!(".{}.new", process::id()));
        let fresh = path_of.with_file_name(name);
        // The state is the program's memory: nobody else's to read.
        use std::os::unix::fs::OpenOptionsExt;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh);
        let file = file.map_err(failed)?;
        let kept = memory().map_err(failed)?;
        Ok(Self { path: path_of.to_owned(), fresh, file: Some(file), kept })
    }

    /// Where the supervisor puts it.
    pub(super) fn sink(&self) -> Result<OwnedFd, Error> {
        self.kept.try_clone().map(OwnedFd::from).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::File { act: "write the state to", path: self.path.display().to_string(), source }
    }

    /// Puts the new state in the old one's place, if the program came to rest and was saved. A program that failed is its
    /// own news; one that didn't, and yet wasn't saved, is an error.
    pub(super) fn keep(mut self, report: &Report) -> Result<(), Error> {
        let length = self.kept.stream_position().map_err(|source| self.failed(source))?;
        if length > 0 && matches!(report.status, Verdict::Ok | Verdict::Nonzero) {
            return self.write().map_err(|source| self.failed(source));
        }
        let why = "the program did not come to rest: it ended by `exit`, a limit or a signal";
        let error = self.failed(io::Error::other(why));
        if report.ok {
            return Err(error);
        }
        let _told = writeln!(io::stderr(), "thirdwall: failed to {error}: {why}");
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        self.kept.rewind()?;
        if let Some(mut file) = self.file.take() {
            io::copy(&mut self.kept, &mut file)?;
            file.flush()?;
            file.sync_all()?;
        }
        fs::rename(&self.fresh, &self.path)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // After the renaming there is nothing here any longer.
        let _gone = fs::remove_file(&self.fresh);
    }
}

fn memory() -> io::Result<File> {
    Ok(File::from(memfd_create(c"state", MFdFlags::MFD_CLOEXEC)?))
}
