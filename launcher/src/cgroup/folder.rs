//! One folder of a hierarchy: made, set, read, removed.

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    sys::stat::{Mode, mkdirat},
    unistd::{UnlinkatFlags, read, unlinkat, write},
};
use std::{
    fs::OpenOptions,
    hash::{BuildHasher, RandomState},
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Names start so; `sweep` looks for it.
pub(super) const PREFIX: &str = "thirdwall-";

/// How often and how long a removal is tried again: the last process leaves its group shortly after its end.
const REMOVALS: u32 = 50;
const PAUSE: Duration = Duration::from_micros(500);

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A name that no other jail has: of this process by its serial number, of others by chance. A process number alone is not
/// enough: another pid namespace may have the same one, and so had a killed launcher whose group still stands.
pub(super) fn fresh_name() -> String {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let chance = RandomState::new().hash_one(serial);
    format!("{PREFIX}{}-{serial}-{chance:016x}", std::process::id())
}

/// A folder that is removed when dropped. All is done through its descriptor: a walk over the whole path costs more than what
/// is done at its end.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    place: OwnedFd,
    name: String,
    itself: OwnedFd,
}

impl Folder {
    /// Makes `parent/name`.
    ///
    /// # Errors
    /// Those of mkdir(2).
    pub(super) fn create(parent: &Path, name: &str) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let place = open(parent, flags, Mode::empty())?;
        mkdirat(&place, name, Mode::from_bits_truncate(0o755))?;
        let itself = openat(&place, name, flags | OFlag::O_NOFOLLOW, Mode::empty());
        let itself = match itself {
            Ok(itself) => itself,
            Err(errno) => {
                let _tried = unlinkat(&place, name, UnlinkatFlags::RemoveDir);
                return Err(errno.into());
            }
        };
        Ok(Self { path: parent.join(name), place, name: name.to_owned(), itself })
    }

    /// Its path.
    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets one value.
    ///
    /// # Errors
    /// Those of open(2) and write(2), with the file's path.
    pub(super) fn set(&self, file: &str, value: &str) -> io::Result<()> {
        let named = |errno: Errno| {
            io::Error::new(io::Error::from(errno).kind(), format!("{}/{file}: {errno}", self.path.display()))
        };
        let opened = openat(&self.itself, file, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty());
        let opened = opened.map_err(named)?;
        match write(&opened, value.as_bytes()).map_err(named)? {
            whole if whole == value.len() => Ok(()),
            _less => Err(named(Errno::EIO)),
        }
    }

    /// Opens a file for writing.
    ///
    /// # Errors
    /// Those of open(2).
    pub(super) fn open_to_write(&self, file: &str) -> io::Result<OwnedFd> {
        let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        openat(&self.itself, file, flags, Mode::empty()).map_err(io::Error::from)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// Those of open(2).
    pub(super) fn open_to_read(&self, file: &str) -> io::Result<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        openat(&self.itself, file, flags, Mode::empty()).map_err(io::Error::from)
    }

    /// A descriptor on the folder itself, as clone3(2) wants one.
    ///
    /// # Errors
    /// Those of open(2).
    pub(super) fn open_itself(&self) -> io::Result<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        openat(&self.itself, ".", flags, Mode::empty()).map_err(io::Error::from)
    }

    /// Reads a small file.
    ///
    /// # Errors
    /// Those of open(2) and read(2).
    pub(super) fn read(&self, file: &str) -> io::Result<String> {
        read_once(self.open_to_read(file)?.as_fd())
    }

    /// Reads one number.
    pub(super) fn number(&self, file: &str) -> Option<u64> {
        self.read(file).ok()?.trim().parse().ok()
    }

    /// Reads the number after `key` in a file of `key value` lines.
    pub(super) fn field(&self, file: &str, key: &str) -> Option<u64> {
        field_of(&self.read(file).ok()?, key)
    }

    /// Removes it, waiting a little for processes that have just ended.
    ///
    /// # Errors
    /// The last error of rmdir(2).
    fn remove(&self) -> io::Result<()> {
        let removed = || unlinkat(&self.place, self.name.as_str(), UnlinkatFlags::RemoveDir);
        for _ in 1..REMOVALS {
            match removed() {
                Err(Errno::EBUSY) => {
                    remove_below(&self.path);
                    std::thread::sleep(PAUSE);
                }
                Err(Errno::ENOENT) => return Ok(()),
                other => return other.map_err(io::Error::from),
            }
        }
        removed().map_err(io::Error::from)
    }
}

/// Removes the groups of nested jails whose supervisors were killed.
fn remove_below(path: &Path) {
    let Ok(entries) = std::fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
            remove_below(&entry.path());
            // What still lives in it keeps it for the next try.
            let _tried = std::fs::remove_dir(entry.path());
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that can't be removed now is `sweep`'s to find.
        let _ = self.remove();
    }
}

/// The number after `key` in `key value` lines.
pub(super) fn field_of(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Writes one value to an existing file.
pub(super) fn write_value(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Reads a file of at most 4 KiB in one go.
pub(super) fn read_small(path: &Path) -> io::Result<String> {
    read_once(open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?.as_fd())
}

fn read_once(file: BorrowedFd<'_>) -> io::Result<String> {
    let mut bytes = [0; 4096];
    let length = read(file, &mut bytes)?;
    Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_whole_key() {
        let text = "oom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(field_of(text, "oom_kill"), Some(2));
        assert_eq!(field_of(text, "oom"), Some(3));
        assert_eq!(field_of(text, "oom_"), None);
    }

    #[test]
    fn names_differ() {
        assert_ne!(fresh_name(), fresh_name());
    }

    #[test]
    fn a_folder_is_gone_after_drop() {
        let top = std::env::temp_dir();
        let name = fresh_name();
        let folder = Folder::create(&top, &name).unwrap();
        assert!(top.join(&name).is_dir());
        drop(folder);
        assert!(!top.join(&name).exists());
    }
}
