//! ZIP: stored and deflated entries.
//!
//! Invariant: the list of entries is read by the crate and counted by hand: the crate keeps one entry of a name, and an
//! archive with two of them means two things.
//! Source: APPNOTE.TXT 6.3.10, sections 4.3.7, 4.3.12 and 4.3.16.

use super::caps::Caps;
use super::names::{Kind, Names, fit};
use super::source;
use super::{PIECE, broken, damaged, make_folder, may_write, opened, refused, write_entry};
use crate::builtins::files::{self, path_of};
use crate::builtins::{Args, Ctx};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use ::zip::read::ZipArchive;
use ::zip::write::{SimpleFileOptions, ZipWriter};
use ::zip::{CompressionMethod, DateTime};
use policies::broker::Request;
use policies::capability::Capability;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom};

/// Where the record of the end can stand: it is 22 bytes long and has a comment of up to 64 KiB behind it.
const END: u64 = 22 + 65_535;
/// Largest list of entries: each takes 46 bytes and its name.
const MOST_LIST: u64 = 64 << 20;
/// The kind of a file in its Unix mode.
const KIND: u32 = 0o170_000;

pub(super) fn create(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    ctx.ask(Capability::FileWrite, Some(&path))?;
    let sources = source::of(ctx, args, 1, &path)?;
    let mut caps = Caps::to_make();
    let file = files::open(ctx, &path, &Request::Replace { path: path.clone() })?;
    let failed = |ctx: &Ctx<'_>, why: String| raised(format!("{}: {path}: {why}", ctx.name));
    let mut zip = ZipWriter::new(BufWriter::new(file));
    for source in &sources {
        caps.entry(ctx)?;
        let options = SimpleFileOptions::default()
            .last_modified_time(DateTime::default())
            .compression_method(CompressionMethod::Deflated)
            .large_file(source.size() >= u64::from(u32::MAX));
        let mut from = source.open(ctx, &mut caps)?;
        let done = if source.is_folder() {
            zip.add_directory(source.name.as_str(), options.unix_permissions(0o755))
                .map_err(|e| e.to_string())
        } else {
            zip.start_file(source.name.as_str(), options.unix_permissions(0o644))
                .map_err(|e| e.to_string())
                .and_then(|()| std::io::copy(&mut from, &mut zip).map(drop).map_err(|e| e.to_string()))
        };
        done.map_err(|why| failed(ctx, format!("{}: {why}", source.name)))?;
    }
    let written = zip.finish().map_err(|e| e.to_string());
    let written = written.and_then(|file| file.into_inner().map(drop).map_err(|e| e.to_string()));
    written.map_err(|why| failed(ctx, why))?;
    files::ask(ctx, &path, &Request::Commit {})?;
    Ok(caps.told())
}

/// One entry, as it was found to be fit.
struct Found {
    index: usize,
    name: String,
    kind: Kind,
    size: u64,
}

pub(super) fn extract(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (path, folder) = (path_of(args, 0)?, path_of(args, 1)?);
    let (mut file, packed) = opened(ctx, &path)?;
    let mut caps = Caps::of(args, 2, packed)?;
    let list = list_size(&mut file, packed).map_err(|why| broken(ctx, &path, why))?;
    // What is kept of an entry takes several times what it takes in the list.
    ctx.reserve(usize::try_from(list).unwrap_or(usize::MAX).saturating_mul(8))?;
    ctx.charge(list / 8)?;
    let mut zip =
        ZipArchive::new(BufReader::with_capacity(PIECE, file)).map_err(|e| broken(ctx, &path, e))?;
    let start = zip.central_directory_start();
    let mut counted = 0_usize;
    let mut names = Names::default();
    let mut found = Vec::with_capacity(zip.len().min(1024));
    let mut stated = 0_u64;
    for index in 0..zip.len() {
        caps.entry(ctx)?;
        let entry = zip.by_index_raw(index).map_err(|e| broken(ctx, &path, e))?;
        let shown = entry.name().to_owned();
        let mode = entry.unix_mode().unwrap_or(0) & KIND;
        let kind = if entry.is_dir() { Kind::Folder } else { Kind::File };
        let odd = match (mode, kind) {
            (0, _) | (0o100_000, Kind::File) | (0o040_000, Kind::Folder) => None,
            (0o120_000, _) => Some("a link"),
            (0o020_000 | 0o060_000 | 0o010_000 | 0o140_000, _) => Some("a device, pipe or socket"),
            _ => Some("an entry whose kind is none"),
        };
        let odd = odd.or(entry.encrypted().then_some("an encrypted entry"));
        let odd = odd.or(match entry.compression() {
            CompressionMethod::Stored | CompressionMethod::Deflated => None,
            _ => Some("an entry that is neither stored nor deflated"),
        });
        let odd =
            odd.or(std::str::from_utf8(entry.name_raw()).is_err().then_some("a name that is not UTF-8"));
        if let Some(why) = odd {
            return Err(refused(ctx, &path, &shown, why));
        }
        let name = fit(&shown).map_err(|why| refused(ctx, &path, &shown, why))?;
        names.add(&name, kind).map_err(|why| refused(ctx, &path, &shown, why))?;
        stated = stated.saturating_add(entry.size());
        found.push(Found { index, name, kind, size: entry.size() });
    }
    caps.fits(ctx, stated)?;
    let mut file = zip.into_inner().into_inner();
    file.seek(SeekFrom::Start(start)).map_err(|e| broken(ctx, &path, e))?;
    let mut list = BufReader::with_capacity(PIECE, &mut file);
    while let Some(rest) = next_in_list(&mut list).map_err(|e| broken(ctx, &path, e))? {
        counted += 1;
        std::io::copy(&mut (&mut list).take(rest), &mut std::io::sink())
            .map_err(|e| broken(ctx, &path, e))?;
    }
    if counted != found.len() {
        return Err(refused(ctx, &path, &format!("{counted} entries"), "a name that is there twice"));
    }
    if let Some(clash) = names.clash() {
        return Err(refused(ctx, &path, clash, "a file that is a folder as well"));
    }
    let places: Vec<(String, Kind)> = found.iter().map(|one| (one.name.clone(), one.kind)).collect();
    may_write(ctx, &folder, &places)?;
    file.rewind().map_err(|e| broken(ctx, &path, e))?;
    let mut zip =
        ZipArchive::new(BufReader::with_capacity(PIECE, file)).map_err(|e| broken(ctx, &path, e))?;
    for Found { index, name, kind, size } in found {
        match kind {
            Kind::Folder if name.is_empty() => {}
            Kind::Folder => make_folder(ctx, &folder, &name)?,
            Kind::File => {
                let mut entry = zip.by_index(index).map_err(|e| damaged(ctx, &name, &e.to_string()))?;
                write_entry(ctx, (&folder, &name), &mut entry, size, &mut caps)?;
            }
        }
    }
    Ok(caps.told())
}

/// Bytes of the list of entries, as the record at the end says.
fn list_size(file: &mut File, packed: u64) -> Result<u64, String> {
    let from = packed.saturating_sub(END);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(from))
        .and_then(|_| file.take(END).read_to_end(&mut tail))
        .and_then(|_| file.rewind())
        .map_err(|e| e.to_string())?;
    let at = tail.windows(4).rposition(|four| four == b"PK\x05\x06").ok_or("it has no end of a zip file")?;
    let size = tail.get(at + 12..at + 16).and_then(|four| four.first_chunk::<4>());
    let size = u64::from(size.map_or(0, |four| u32::from_le_bytes(*four)));
    // In a large archive another record has the number: the list can't be longer than the file.
    let size = if size == u64::from(u32::MAX) { packed } else { size };
    if size > MOST_LIST {
        Err(format!("its list of entries has more than {MOST_LIST} bytes"))
    } else {
        Ok(size)
    }
}

/// The head of the next entry in the list: how many bytes follow it. `None`: the list is over.
fn next_in_list(list: &mut impl Read) -> std::io::Result<Option<u64>> {
    let mut head = [0; 46];
    let mut got = 0;
    while got < head.len() {
        match list.read(&mut head[got..])? {
            0 => return Ok(None),
            n => got += n,
        }
    }
    if !head.starts_with(b"PK\x01\x02") {
        return Ok(None);
    }
    let number = |at: usize| u64::from(u16::from_le_bytes([head[at], head[at + 1]]));
    Ok(Some(number(28) + number(30) + number(32)))
}
