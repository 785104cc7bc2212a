//! What goes into an archive: files and folders by their paths, or bytes under a name.

use super::caps::Caps;
use super::files;
use super::names::{Kind, Names, fit};
use crate::broker::Reply;
use crate::builtins::{Args, Ctx};
use crate::vm::render::type_name;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use policies::broker::{How, Request, Seen};
use policies::capability::Capability;
use std::io::Read;

/// Where an entry's content is.
#[derive(Debug)]
pub(super) enum Content {
    /// In the file at a path, of so many bytes when it was looked at.
    Path(String, u64),
    /// In the call itself.
    Bytes(Vec<u8>),
    /// There is none: it is a folder.
    Folder,
}

/// An entry that will be made.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) content: Content,
}

/// Everything that argument `i` names, looked at, in the order of the names.
pub(super) fn of(ctx: &mut Ctx<'_>, args: &Args<'_>, i: usize, archive: &str) -> Result<Vec<Source>, Fault> {
    let mut all = Vec::new();
    let mut caps = Caps::to_make();
    match args.at(i) {
        Value::Map(map) => {
            for (name, value) in map.entries() {
                let name = checked(ctx, name.as_str())?;
                match (value.as_text(), value.as_bytes()) {
                    (Some(path), _) => walk(ctx, name, path, archive, &mut caps, &mut all)?,
                    (None, Some(bytes)) => {
                        caps.entry(ctx)?;
                        all.push(Source { name, content: Content::Bytes(bytes.to_vec()) });
                    }
                    (None, None) => {
                        return Err(raised(format!(
                            "{}: \"{name}\" is a path or bytes, got {}",
                            ctx.name,
                            type_name(value)
                        )));
                    }
                }
            }
        }
        value => {
            let paths = match (value.as_text(), value.as_list()) {
                (Some(_), _) => std::slice::from_ref(value),
                (None, Some(list)) => list,
                (None, None) => {
                    return Err(args.wrong(i, "a path, a list of paths, or a map from name to path or bytes"));
                }
            };
            for path in paths {
                let Some(path) = path.as_text() else {
                    return Err(raised(format!("{}: a path is a text, got {}", ctx.name, type_name(path))));
                };
                let name = checked(ctx, files::shown(path).trim_start_matches('/'))?;
                walk(ctx, name, path, archive, &mut caps, &mut all)?;
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    let mut names = Names::default();
    for source in &all {
        let kind = if matches!(source.content, Content::Folder) { Kind::Folder } else { Kind::File };
        names
            .add(&source.name, kind)
            .map_err(|why| raised(format!("{}: the files have {why}: \"{}\"", ctx.name, source.name)))?;
    }
    Ok(all)
}

/// A name that every reader of archives takes.
fn checked(ctx: &Ctx<'_>, name: &str) -> Result<String, Fault> {
    match fit(name) {
        Ok(name) => Ok(name),
        Err(why) => Err(raised(format!(
            "{}: {why} can't stand in an archive: {name:?}; a map gives a file another name: {{\"name\": path}}",
            ctx.name
        ))),
    }
}

/// A file, or a folder with everything below it.
fn walk(
    ctx: &mut Ctx<'_>,
    name: String,
    path: &str,
    archive: &str,
    caps: &mut Caps,
    all: &mut Vec<Source>,
) -> Result<(), Fault> {
    let mut waiting = vec![(name, files::shown(path))];
    while let Some((name, path)) = waiting.pop() {
        ctx.ask(Capability::FileRead, Some(&path))?;
        let seen = match files::ask(ctx, &path, &Request::Look { path: path.clone() })? {
            Reply::Seen(seen) => seen,
            _ => Seen::NOTHING,
        };
        if !seen.exists {
            return Err(raised(format!("File not found: {path}")));
        }
        // The archive of the last time is no part of the next one.
        if path == archive {
            continue;
        }
        caps.entry(ctx)?;
        if !seen.is_dir {
            all.push(Source { name, content: Content::Path(path, seen.size) });
            continue;
        }
        for entry in files::entries(ctx, &path)? {
            let inner = if name.is_empty() { entry.name.clone() } else { format!("{name}/{}", entry.name) };
            waiting.push((checked(ctx, &inner)?, super::below(&path, &entry.name)));
        }
        if !name.is_empty() {
            all.push(Source { name, content: Content::Folder });
        }
    }
    Ok(())
}

impl Source {
    /// Whether it is a folder.
    pub(super) fn is_folder(&self) -> bool {
        matches!(self.content, Content::Folder)
    }

    /// The bytes that will be written.
    pub(super) fn size(&self) -> u64 {
        match &self.content {
            Content::Path(_, size) => *size,
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Folder => 0,
        }
    }

    /// The content, exactly as many bytes as [`size`](Self::size) says; paid for here.
    pub(super) fn open(&self, ctx: &mut Ctx<'_>, caps: &mut Caps) -> Result<Exact<'_>, Fault> {
        let size = self.size();
        // Packing costs more than reading.
        ctx.charge(size / 8)?;
        caps.add(ctx, size)?;
        let from: Box<dyn Read + '_> = match &self.content {
            Content::Folder => Box::new(std::io::empty()),
            Content::Bytes(bytes) => Box::new(bytes.as_slice()),
            Content::Path(path, _) => {
                let open = Request::Open { path: path.clone(), how: How::Read };
                Box::new(files::open(ctx, path, &open)?)
            }
        };
        Ok(Exact { from, left: size })
    }
}

/// A reader that ends where it was said to, or fails: a file may change while it is read.
pub(super) struct Exact<'s> {
    from: Box<dyn Read + 's>,
    left: u64,
}

impl Read for Exact<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let n = self.from.read(&mut buffer[..most])?;
        self.left -= n as u64;
        if n == 0 && most > 0 {
            return Err(std::io::Error::other("it got shorter while it was read"));
        }
        Ok(n)
    }
}
