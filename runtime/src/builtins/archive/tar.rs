//! TAR, plain or packed with gzip.
//!
//! Invariant: an archive is read twice, the first time only to look: a name, a link or a size that is refused is refused
//! before anything is written.
//! Invariant: entries are taken as they stand in the file; longer names and the fields of pax are read here, within bounds,
//! and what would change a size is refused.
//! Source: POSIX.1-2017 pax (ustar, extended headers), tar(5), RFC 1952.

use super::caps::Caps;
use super::names::{Kind, Names, fit};
use super::source;
use super::{PIECE, broken, make_folder, may_write, opened, refused, write_entry};
use crate::builtins::files::{self, path_of};
use crate::builtins::{Args, Ctx};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use ::tar::{Archive, Builder, EntryType, Header, PaxExtensions};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use policies::broker::Request;
use policies::capability::Capability;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};

/// Bytes of a long name or of an entry's further fields.
const MOST_FIELDS: u64 = 64 << 10;

pub(super) fn create(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = path_of(args, 0)?;
    ctx.ask(Capability::FileWrite, Some(&path))?;
    let sources = source::of(ctx, args, 1, &path)?;
    let mut caps = Caps::to_make();
    let file = BufWriter::new(files::open(ctx, &path, &Request::Replace { path: path.clone() })?);
    let failed = |ctx: &Ctx<'_>, why: std::io::Error| raised(format!("{}: {path}: {why}", ctx.name));
    if path.ends_with(".gz") || path.ends_with(".tgz") {
        let packed = GzEncoder::new(file, Compression::default());
        let packed = fill(ctx, packed, &sources, &mut caps)?;
        packed.finish().and_then(|mut file| file.flush()).map_err(|e| failed(ctx, e))?;
    } else {
        fill(ctx, file, &sources, &mut caps)?.flush().map_err(|e| failed(ctx, e))?;
    }
    files::ask(ctx, &path, &Request::Commit {})?;
    Ok(caps.told())
}

fn fill<W: Write>(ctx: &mut Ctx<'_>, to: W, sources: &[source::Source], caps: &mut Caps) -> Result<W, Fault> {
    let failed =
        |ctx: &Ctx<'_>, name: &str, why: std::io::Error| raised(format!("{}: {name}: {why}", ctx.name));
    let mut tar = Builder::new(to);
    for source in sources {
        caps.entry(ctx)?;
        let mut header = Header::new_gnu();
        header.set_size(source.size());
        header.set_mtime(0);
        let (kind, mode, name) = if source.is_folder() {
            (EntryType::Directory, 0o755, format!("{}/", source.name))
        } else {
            (EntryType::Regular, 0o644, source.name.clone())
        };
        header.set_entry_type(kind);
        header.set_mode(mode);
        let from = source.open(ctx, caps)?;
        tar.append_data(&mut header, &name, from).map_err(|e| failed(ctx, &source.name, e))?;
    }
    tar.into_inner().map_err(|e| failed(ctx, "the end", e))
}

pub(super) fn extract(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (path, folder) = (path_of(args, 0)?, path_of(args, 1)?);
    let (mut file, packed) = opened(ctx, &path)?;
    let caps = Caps::of(args, 2, packed)?;
    let mut looked = caps;
    let mut names = Names::default();
    let mut found = Vec::new();
    walk(ctx, &path, &mut file, &mut looked, &mut |ctx, caps, entry, from| {
        let name = fit(&entry.name).map_err(|why| refused(ctx, &path, &entry.name, why))?;
        names.add(&name, entry.kind).map_err(|why| refused(ctx, &path, &entry.name, why))?;
        found.push((name, entry.kind));
        skip(ctx, &path, from, entry.size, caps)
    })?;
    if let Some(clash) = names.clash() {
        return Err(refused(ctx, &path, clash, "a file that is a folder as well"));
    }
    may_write(ctx, &folder, &found)?;
    file.rewind().map_err(|e| broken(ctx, &path, e))?;
    let mut caps = caps;
    // The file may have changed: a name counts only if it was looked at.
    let mut known = found.into_iter();
    walk(ctx, &path, &mut file, &mut caps, &mut |ctx, caps, entry, from| {
        let (name, kind) = known.next().ok_or_else(|| broken(ctx, &path, "it changed while it was read"))?;
        if fit(&entry.name).as_deref() != Ok(name.as_str()) || entry.kind != kind {
            return Err(broken(ctx, &path, "it changed while it was read"));
        }
        match kind {
            Kind::Folder if name.is_empty() => Ok(()),
            Kind::Folder => make_folder(ctx, &folder, &name),
            Kind::File => write_entry(ctx, (&folder, &name), from, entry.size, caps),
        }
    })?;
    Ok(caps.told())
}

/// An entry with all that other entries say of it.
struct Entry {
    name: String,
    kind: Kind,
    size: u64,
}

/// What is done with an entry and its content.
type Each<'e> = dyn FnMut(&mut Ctx<'_>, &mut Caps, &Entry, &mut dyn Read) -> Result<(), Fault> + 'e;

/// Goes through an archive from its start.
fn walk(
    ctx: &mut Ctx<'_>,
    path: &str,
    file: &mut File,
    caps: &mut Caps,
    each: &mut Each<'_>,
) -> Result<(), Fault> {
    let mut start = [0; 2];
    let packed = file.read(&mut start).and_then(|n| file.rewind().map(|()| n == 2 && start == [0x1f, 0x8b]));
    let packed = packed.map_err(|e| broken(ctx, path, e))?;
    let from = BufReader::with_capacity(PIECE, file);
    if packed {
        entries(ctx, path, &mut Archive::new(MultiGzDecoder::new(from)), caps, each)
    } else {
        entries(ctx, path, &mut Archive::new(from), caps, each)
    }
}

fn entries<R: Read>(
    ctx: &mut Ctx<'_>,
    path: &str,
    archive: &mut Archive<R>,
    caps: &mut Caps,
    each: &mut Each<'_>,
) -> Result<(), Fault> {
    let mut long: Option<String> = None;
    for entry in archive.entries().map_err(|e| broken(ctx, path, e))?.raw(true) {
        let mut entry = entry.map_err(|e| broken(ctx, path, e))?;
        caps.entry(ctx)?;
        let size = entry.header().entry_size().map_err(|e| broken(ctx, path, e))?;
        // Before any of it is read: skipping over it would unpack it as well.
        caps.fits(ctx, size)?;
        let kind = entry.header().entry_type();
        let own = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let shown = long.clone().unwrap_or_else(|| own.clone());
        let kind = match kind {
            EntryType::Regular | EntryType::Continuous if own.ends_with('/') => Kind::Folder,
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Folder,
            EntryType::GNULongName => {
                let bytes = fields(ctx, path, &mut entry, size)?;
                let bytes = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
                long = Some(text(ctx, path, bytes)?);
                continue;
            }
            EntryType::XHeader => {
                let bytes = fields(ctx, path, &mut entry, size)?;
                if let Some(name) = further(ctx, path, &bytes)? {
                    long = Some(name);
                }
                continue;
            }
            EntryType::XGlobalHeader => {
                let bytes = fields(ctx, path, &mut entry, size)?;
                if further(ctx, path, &bytes)?.is_some() {
                    return Err(refused(ctx, path, &shown, "one name for all that follows"));
                }
                continue;
            }
            EntryType::Link | EntryType::Symlink | EntryType::GNULongLink => {
                return Err(refused(ctx, path, &shown, "a link"));
            }
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                return Err(refused(ctx, path, &shown, "a device or pipe"));
            }
            EntryType::GNUSparse => return Err(refused(ctx, path, &shown, "a file with holes")),
            _ => return Err(refused(ctx, path, &shown, "an entry of an unknown kind")),
        };
        if kind == Kind::Folder && size > 0 {
            return Err(refused(ctx, path, &shown, "a folder with content"));
        }
        let name = match long.take() {
            Some(name) => name,
            None => text(ctx, path, &entry.path_bytes())?,
        };
        each(ctx, caps, &Entry { name, kind, size }, &mut entry)?;
    }
    if long.is_some() {
        return Err(broken(ctx, path, "a name without its entry"));
    }
    Ok(())
}

/// The content of an entry that says something of the next one.
fn fields(ctx: &mut Ctx<'_>, path: &str, from: &mut dyn Read, size: u64) -> Result<Vec<u8>, Fault> {
    if size > MOST_FIELDS {
        return Err(broken(ctx, path, format!("more than {MOST_FIELDS} bytes about one entry")));
    }
    ctx.charge(size / 32)?;
    let mut bytes = Vec::new();
    from.take(size).read_to_end(&mut bytes).map_err(|e| broken(ctx, path, e))?;
    if bytes.len() as u64 == size { Ok(bytes) } else { Err(broken(ctx, path, "it is cut short")) }
}

/// The name in pax fields, if one stands there.
fn further(ctx: &Ctx<'_>, path: &str, bytes: &[u8]) -> Result<Option<String>, Fault> {
    let mut name = None;
    for field in PaxExtensions::new(bytes) {
        let field = field.map_err(|e| broken(ctx, path, e))?;
        match field.key_bytes() {
            b"path" => name = Some(text(ctx, path, field.value_bytes())?),
            b"size" | b"linkpath" => {
                return Err(refused(ctx, path, &String::from_utf8_lossy(field.key_bytes()), "a pax field"));
            }
            key if key.starts_with(b"GNU.sparse") => {
                return Err(refused(ctx, path, "GNU.sparse", "a file with holes"));
            }
            _ => {}
        }
    }
    Ok(name)
}

fn text(ctx: &Ctx<'_>, path: &str, bytes: &[u8]) -> Result<String, Fault> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(refused(ctx, path, &String::from_utf8_lossy(bytes), "a name that is not UTF-8")),
    }
}

/// Reads over an entry's content, which must be there.
fn skip(ctx: &mut Ctx<'_>, path: &str, from: &mut dyn Read, size: u64, caps: &mut Caps) -> Result<(), Fault> {
    let mut piece = vec![0; PIECE];
    let mut got = 0;
    loop {
        let n = from.read(&mut piece).map_err(|e| broken(ctx, path, e))?;
        if n == 0 {
            break;
        }
        got += n as u64;
        caps.add(ctx, n as u64)?;
    }
    if got == size { Ok(()) } else { Err(broken(ctx, path, "it is cut short")) }
}
