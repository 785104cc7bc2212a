//! Archives: `zip_create`, `tar_create`, `zip_extract`, `tar_extract`.
//!
//! The archive and every file come through the broker, each path asked for by itself; the formats are read here, in the
//! jail.
//!
//! Invariant: an archive is hostile. Its names, kinds, number and size are looked at as a whole before the first file is
//! written, links and devices are refused by name, and no size that it states is believed.
//! Invariant: what is made is the same bytes for the same files: no times, no owners, entries in a settled order.

mod caps;
mod names;
mod source;
mod tar;
mod zip;

use super::files::{self, WHY};
use super::{Builtin, Cost, Ctx};
use crate::vm::trap::{Fault, raised};
use caps::Caps;
use names::Kind;
use policies::broker::{How, Request};
use policies::capability::Capability;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("zip_create", &["path", "files"], 2, zip::create).native(WHY).cost(Cost::Own),
    Builtin::new("tar_create", &["path", "files"], 2, tar::create).native(WHY).cost(Cost::Own),
    Builtin::new("zip_extract", &["path", "folder", "options"], 2, zip::extract)
        .named(3)
        .native(WHY)
        .cost(Cost::Own),
    Builtin::new("tar_extract", &["path", "folder", "options"], 2, tar::extract)
        .named(3)
        .native(WHY)
        .cost(Cost::Own),
];

/// What is read or written at once.
const PIECE: usize = 64 << 10;

/// The archive, open, and its size.
fn opened(ctx: &mut Ctx<'_>, path: &str) -> Result<(File, u64), Fault> {
    ctx.ask(Capability::FileRead, Some(path))?;
    let mut file = files::open(ctx, path, &Request::Open { path: path.to_owned(), how: How::Read })?;
    let size = file.seek(SeekFrom::End(0)).and_then(|size| file.rewind().map(|()| size));
    size.map(|size| (file, size)).map_err(|e| raised(format!("{}: {path}: {e}", ctx.name)))
}

/// An archive that can't be read on.
fn broken(ctx: &Ctx<'_>, path: &str, why: impl std::fmt::Display) -> Fault {
    raised(format!("{}: {path} can't be read as an archive: {why}", ctx.name))
}

/// An entry that is refused, and with it the archive.
fn refused(ctx: &Ctx<'_>, path: &str, entry: &str, why: &str) -> Fault {
    let entry: String = entry.chars().take(200).flat_map(char::escape_debug).collect();
    raised(format!("{}: {path} is refused, nothing was written: it has {why}: \"{entry}\"", ctx.name))
}

/// Where an entry goes.
fn below(folder: &str, name: &str) -> String {
    if folder.is_empty() || folder == "." {
        name.to_owned()
    } else {
        format!("{}/{name}", folder.trim_end_matches('/'))
    }
}

/// Asks for every place before anything is written there.
fn may_write(ctx: &mut Ctx<'_>, folder: &str, entries: &[(String, Kind)]) -> Result<(), Fault> {
    for (name, _) in entries.iter().filter(|(name, _)| !name.is_empty()) {
        ctx.charge(2)?;
        ctx.ask(Capability::FileWrite, Some(&below(folder, name)))?;
    }
    Ok(())
}

/// One folder; those above a file are made with it.
fn make_folder(ctx: &mut Ctx<'_>, folder: &str, name: &str) -> Result<(), Fault> {
    let path = below(folder, name);
    files::ask(ctx, &path, &Request::MakeFolder { path: path.clone() }).map(|_| ())
}

/// Writes one entry. It takes its place when it is whole; `size` is what the archive says it has.
fn write_entry(
    ctx: &mut Ctx<'_>,
    (folder, name): (&str, &str),
    from: &mut dyn Read,
    size: u64,
    caps: &mut Caps,
) -> Result<(), Fault> {
    let path = below(folder, name);
    let mut file = files::open(ctx, &path, &Request::Replace { path: path.clone() })?;
    let mut piece = vec![0; PIECE];
    let mut got = 0_u64;
    loop {
        let n = from.read(&mut piece).map_err(|e| damaged(ctx, name, &e.to_string()))?;
        if n == 0 {
            break;
        }
        got += n as u64;
        if got > size {
            return Err(damaged(ctx, name, "it is longer than it says"));
        }
        caps.add(ctx, n as u64)?;
        file.write_all(&piece[..n]).map_err(|e| raised(format!("{}: {path}: {e}", ctx.name)))?;
    }
    if got < size {
        return Err(damaged(ctx, name, "it is cut short"));
    }
    drop(file);
    files::ask(ctx, &path, &Request::Commit {}).map(|_| ())
}

fn damaged(ctx: &Ctx<'_>, name: &str, why: &str) -> Fault {
    raised(format!("{}: the entry \"{name}\" is damaged: {why}", ctx.name))
}
