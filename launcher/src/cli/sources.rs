//! The files that a program consists of: the one that was named, and the modules beside it.
//!
//! Where they stand others may write, also while they are read: a jail that was granted the folder, for one.
//!
//! Invariant: a module is opened beneath the program's folder and through no link; what was looked at is what is read.
//! Invariant: only regular files are read, so that nothing waits and no device is opened; all texts together are bounded.
//! Source: openat2(2), open(2) on O_PATH.

use crate::broker::Modules;
use crate::sys::{fd, openat2};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::stat::{Mode, SFlag, fstat},
};
use policies::wire::MAX_SOURCE;
use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

/// Tries where somebody renames on the way.
const TRIES: usize = 10;

/// The text of a file that the caller named, with the caller's rights.
pub(super) fn program(path: &str) -> io::Result<Vec<u8>> {
    bounded(regular(&openat2::through_links(fd::cwd(), path)?)?, MAX_SOURCE)
}

/// All of it, if it isn't too long.
pub(super) fn bounded(from: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take((most as u64).saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let bound = "a program has at most 64 MiB, its modules with it";
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, bound));
    }
    Ok(bytes)
}

/// Opens what a handle is on, if that is a regular file.
fn regular(handle: &OwnedFd) -> io::Result<File> {
    match SFlag::from_bits_truncate(fstat(handle)?.st_mode & libc::S_IFMT) {
        SFlag::S_IFREG => {}
        SFlag::S_IFDIR => return Err(io::ErrorKind::IsADirectory.into()),
        _other => {
            let why = "it is no regular file; `-` reads a program from standard input";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
    }
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    Ok(open(path.as_str(), flags, Mode::empty())?.into())
}

/// The folder that modules are found in, and how much of them may still be read.
#[derive(Debug)]
pub(super) struct Beside {
    folder: OwnedFd,
    /// What names of modules start with.
    prefix: String,
    left: usize,
}

impl Modules for Beside {
    fn module(&mut self, path: &str) -> io::Result<Option<Vec<u8>>> {
        Self::module(self, path)
    }
}

impl Beside {
    /// The folder of a program that has so many bytes itself.
    pub(super) fn of(program: &str, bytes: usize) -> io::Result<Self> {
        let folder = program.rsplit_once('/').map(|(folder, _)| folder);
        let path = match folder {
            None => ".",
            Some("") => "/",
            Some(folder) => folder,
        };
        let folder = folder.unwrap_or_default();
        // As the language joins them.
        let parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        let mut prefix = parts.join("/");
        if !prefix.is_empty() {
            prefix.push('/');
        }
        if program.starts_with('/') {
            prefix.insert(0, '/');
        }
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let folder = open(path, flags, Mode::empty())?;
        Ok(Self { folder, prefix, left: MAX_SOURCE.saturating_sub(bytes) })
    }

    /// A module's text; `None` if no file of that name is there, or another kind of file.
    ///
    /// # Errors
    /// It can't be read, or there is too much of all of them.
    pub(super) fn module(&mut self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(rest) = name.strip_prefix(&self.prefix) else { return Ok(None) };
        let Some(handle) = self.handle(rest) else { return Ok(None) };
        let file = match regular(&handle) {
            Ok(file) => file,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let text = bounded(file, self.left);
        // One that is too long has used up all: it isn't read again and again.
        self.left = match &text {
            Ok(text) => self.left - text.len(),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => 0,
            Err(_) => self.left,
        };
        let text = text?;
        Ok(Some(text))
    }

    fn handle(&self, rest: &str) -> Option<OwnedFd> {
        for _try in 0..TRIES {
            match openat2::inside(self.folder.as_fd(), rest, OFlag::O_PATH, Mode::empty()) {
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                opened => return opened.ok(),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::fcntl::{RenameFlags, renameat2};
    use std::{
        fs,
        os::unix::fs::symlink,
        path::Path,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("in/m.syn", "good"), ("in/deep/m.syn", "deep"), ("out.syn", "secret")] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn beside(top: &Path) -> (Beside, impl Fn(&str) -> String) {
        let top = top.join("in").to_str().unwrap().to_owned();
        let beside = Beside::of(&format!("{top}/p.syn"), 0).unwrap();
        (beside, move |name: &str| format!("{top}/{name}"))
    }

    #[test]
    fn modules_are_regular_files_below_the_folder_and_not_reached_through_links() {
        let folder = folder();
        let inside = folder.path().join("in");
        symlink("../out.syn", inside.join("link.syn")).unwrap();
        symlink("m.syn", inside.join("near.syn")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        nix::unistd::mkfifo(&inside.join("fifo.syn"), Mode::from_bits_truncate(0o600)).unwrap();
        let (mut beside, at) = beside(folder.path());
        for (name, text) in [("m.syn", "good"), ("deep/m.syn", "deep")] {
            assert_eq!(beside.module(&at(name)).unwrap().unwrap(), text.as_bytes());
        }
        let refused =
            ["link.syn", "near.syn", "up/out.syn", "../out.syn", "fifo.syn", "deep", "none.syn", "a\0b"];
        for name in refused {
            assert!(beside.module(&at(name)).unwrap().is_none(), "{name}");
        }
        assert!(beside.module(folder.path().join("out.syn").to_str().unwrap()).unwrap().is_none());
    }

    #[test]
    fn what_is_swapped_for_a_link_at_any_moment_is_never_followed() {
        let folder = folder();
        let (module, link) = (folder.path().join("in/m.syn"), folder.path().join("in/other"));
        symlink("../out.syn", &link).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    renameat2(fd::cwd(), &module, fd::cwd(), &link, RenameFlags::RENAME_EXCHANGE).unwrap();
                }
            });
            let (mut beside, at) = beside(folder.path());
            let texts: Vec<_> = (0..3000).map(|_| beside.module(&at("m.syn")).unwrap()).collect();
            over.store(true, Ordering::Relaxed);
            assert!(texts.iter().flatten().all(|text| text == b"good"));
        });
    }

    #[test]
    fn all_modules_together_are_bounded() {
        let folder = folder();
        let (mut beside, at) = beside(folder.path());
        beside.left = 8;
        assert!(beside.module(&at("m.syn")).unwrap().is_some());
        assert!(beside.module(&at("deep/m.syn")).unwrap().is_some());
        let error = beside.module(&at("m.syn")).unwrap_err();
        assert_eq!((error.kind(), beside.left), (io::ErrorKind::FileTooLarge, 0));
        let program = folder.path().join("in/m.syn");
        assert_eq!(super::program(program.to_str().unwrap()).unwrap(), b"good");
    }

    #[test]
    fn names_start_as_the_program_s_do() {
        for (program, prefix) in
            [("p.syn", ""), ("./p.syn", ""), ("/p.syn", "/"), ("/tmp//p.syn", "/tmp/"), ("../p.syn", "../")]
        {
            assert_eq!(Beside::of(program, 0).unwrap().prefix, prefix, "{program}");
        }
    }
}
