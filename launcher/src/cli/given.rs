//! Files that the command line names, as the launcher opens them: bounded, and never through a link that somebody else may
//! have put there.
//!
//! What an untrusted program once left in a folder is hostile: a link in the place of a report, a device or an endless file
//! in the place of variables.
//! Source: open(2) (`O_NOFOLLOW`, `O_NONBLOCK`), fifo(7), rename(2).

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
};
use std::{
    borrow::Cow,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    mem,
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::Path,
    process,
};
use zeroize::Zeroizing;

/// Room for what is read, at first.
const FIRST: usize = 1 << 14;

/// Reads what the caller named, whatever it is, up to a bound.
pub(super) fn text(path: &str, most: u64, too_long: &'static str) -> io::Result<Zeroizing<String>> {
    bounded(File::open(path)?, most, too_long)
}

/// Reads what nobody named and is only looked for: a regular file, not a link to one.
pub(super) fn text_if_there(path: &str, most: u64, too_long: &'static str) -> io::Result<Zeroizing<String>> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).map_err(said)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    bounded(file, most, too_long)
}

/// No copy of what is read stays behind: it may be secrets, and a fork has all that this process's memory has.
fn bounded(mut file: File, most: u64, too_long: &'static str) -> io::Result<Zeroizing<String>> {
    // Its length is not asked: a file may grow, and a device has none.
    let mut bytes = Zeroizing::new(vec![0; FIRST]);
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            let mut more = Zeroizing::new(vec![0; filled * 2]);
            more.iter_mut().zip(bytes.iter()).for_each(|(to, from)| *to = *from);
            bytes = more;
        }
        match file.read(bytes.get_mut(filled..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if filled as u64 > most {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_long));
        }
    }
    bytes.truncate(filled);
    let no_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8");
    String::from_utf8(mem::take(&mut *bytes)).map(Zeroizing::new).map_err(|wrong| no_text(wrong.utf8_error()))
}

/// Opens a file to write into, made if it isn't there. A link in its place is an error; the links of `/dev` and `/proc`, as
/// `/dev/stderr`, are the kernel's own.
pub(super) fn target(path: &str) -> io::Result<File> {
    let mut flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    if !path.starts_with("/dev/") && !path.starts_with("/proc/") {
        flags |= OFlag::O_NOFOLLOW;
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags.bits())
        .open(path)
        .map_err(said)?;
    // What comes is written whole, also where a reader takes its time.
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
    Ok(file)
}

/// Writes a file that appears whole, in the place of an older one, or not at all.
pub(super) fn replace(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    replaceable(path)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let part = path.with_file_name(format!(".{name}.{}.part", process::id()));
    let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(&part);
    let done = made.and_then(|mut file| write(&mut file)).and_then(|()| fs::rename(&part, path));
    if done.is_err() {
        let _gone = fs::remove_file(&part);
    }
    done
}

/// Whether a new file may take a place. A link there is replaced itself, and never followed.
pub(super) fn replaceable(path: &Path) -> io::Result<()> {
    let Ok(there) = fs::symlink_metadata(path) else { return Ok(()) };
    let kind = there.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a device, FIFO or socket is not replaced"));
    }
    Ok(())
}

/// The kernel's words for what is refused here tell a person nothing.
fn said(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => {
            io::Error::new(io::ErrorKind::InvalidInput, "a link stands there, and is not followed")
        }
        Some(Errno::ENXIO) => {
            io::Error::new(io::ErrorKind::InvalidInput, "a FIFO that nobody reads, or a socket")
        }
        _ => error,
    }
}

/// A text with no power over the terminal that shows it.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    let tame = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if text.chars().all(tame) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|c| if tame(c) { c.to_string() } else { c.escape_unicode().to_string() });
    Cow::Owned(shown.collect())
}
