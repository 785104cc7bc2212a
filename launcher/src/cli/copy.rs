//! `--copy-in` and `--copy-out`: single files into the scratch folder and out of it.
//!
//! What the jail leaves in its folder is hostile: links, FIFOs, sockets, files with holes. It is opened when nothing of
//! the jail is alive, below the folder, through no link, and only if it is a regular file of bounded size.
//! Source: openat2(2), RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS.

use super::given;
use crate::{error::Error, jail::CopyIn, sys::openat2};
use policies::plan::{JailPath, Plan};
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    },
    path::Path,
};

/// One `--copy-out`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyOut {
    name: String,
    to: String,
}

fn usage(what: String) -> Error {
    Error::Usage { what, remedy: "NAME is a plain file name, without a slash".into() }
}

fn plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && name.len() <= 255 && !name.contains(['/', '\0'])
}

/// Opens the files of `--copy-in FILE[:NAME]`.
pub(super) fn into(texts: &[String]) -> Result<Vec<CopyIn>, Error> {
    texts.iter().map(|text| one_in(text)).collect()
}

/// The file of `--copy-in FILE[:NAME]`.
pub(super) fn source(text: &str) -> &str {
    parts(text).0
}

fn parts(text: &str) -> (&str, &str) {
    match text.rsplit_once(':') {
        Some((path, name)) if !path.is_empty() && !name.contains('/') => (path, name),
        Some(_) | None => {
            (text, Path::new(text).file_name().and_then(|name| name.to_str()).unwrap_or_default())
        }
    }
}

fn one_in(text: &str) -> Result<CopyIn, Error> {
    let (path, name) = parts(text);
    if !plain(name) {
        return Err(usage(format!("--copy-in {text}: '{name}' is no name for a file")));
    }
    // `FILE:a/b` is a whole path to the rule above, and most likely no file.
    if let Some((_, name)) = text.rsplit_once(':').filter(|_| path == text)
        && fs::symlink_metadata(path).is_err()
    {
        return Err(usage(format!("--copy-in {text}: '{name}' is no name for a file")));
    }
    let failed = |source| Error::File { act: "copy in", path: path.to_owned(), source };
    // Not through a link in the last place, and not waiting on a FIFO.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = "it is no regular file; a folder comes in by --workdir, or by file.read=FOLDER/*";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, what)));
    }
    // Readable and executable as it was, for the jail's user as for its owner.
    let mode = 0o600 | (metadata.permissions().mode() & 0o111);
    Ok(CopyIn { file: OwnedFd::from(file), name: name.to_owned(), mode })
}

/// Reads `--copy-out NAME[:FILE]`.
pub(super) fn out_of(texts: &[String]) -> Result<Vec<CopyOut>, Error> {
    texts
        .iter()
        .map(|text| {
            let (name, to) = text.split_once(':').unwrap_or((text, text));
            if !plain(name) || to.is_empty() {
                return Err(usage(format!("--copy-out {text}: '{name}' is no name for a file")));
            }
            Ok(CopyOut { name: name.to_owned(), to: to.to_owned() })
        })
        .collect()
}

/// Copies the files out of the jail's tmpfs, whose root `scratch` is, once nothing of the jail is alive.
///
/// The target appears whole or not at all: it is written beside its place and then renamed.
pub(super) fn take(scratch: &OwnedFd, plan: &Plan, wanted: &[CopyOut]) -> Result<(), Error> {
    let JailPath(workdir) = &plan.workdir;
    for copy in wanted {
        let inside = format!("{}/{}", workdir.trim_start_matches('/'), copy.name);
        let failed = |source| Error::File { act: "copy out", path: copy.name.clone(), source };
        let file =
            File::from(openat2::beneath(scratch.as_fd(), &inside).map_err(io::Error::from).map_err(failed)?);
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(io::Error::new(
                io::ErrorKind::InvalidData,
                "the program left no regular file there",
            )));
        }
        // A file with holes can be longer than all that the jail could write.
        if metadata.len() > plan.limits.disk.0 || metadata.nlink() != 1 {
            return Err(failed(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it is longer than the scratch folder, or has two names",
            )));
        }
        let copied = given::replace(Path::new(&copy.to), 0o644, |target| {
            io::copy(&mut io::Read::take(&file, metadata.len()), target).map(drop)
        });
        copied.map_err(|source| Error::File { act: "write to", path: copy.to.clone(), source })?;
    }
    Ok(())
}
