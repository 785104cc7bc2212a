//! What a request names, looked up on the host: the facts that the plan is made from.
//!
//! Invariant: looks only; follows links to tell where they lead, and opens nothing but the headers of programs.

use crate::{
    elf::{self, CommandError, HostFile},
    error::Error,
};
use policies::{
    plan::HostPath,
    request::{Found, Kind, OpenTo, PathFacts, PathQuery, ProgramFacts, Request, Subject},
    scope::glob,
};
use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Entries that are looked at for one pattern, or for sockets in one tree.
const MOST_ENTRIES: usize = 200_000;

/// Whether trees are searched for path sockets: it costs a walk, and only `explain` tells of them. In a run nothing
/// can reach one, since the filter grants no socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Search.
    Searched,
    /// Don't.
    Skipped,
}

/// Looks up all that `request` asks for.
pub(super) fn look_up(request: &Request, sockets: Sockets) -> Result<PathFacts, Error> {
    let mut facts = PathFacts::default();
    for query in request.paths() {
        let found = match &query {
            PathQuery::Path(path) => one(&path.0, sockets)?.into_iter().collect(),
            PathQuery::Pattern(pattern) => matching(pattern)?,
        };
        facts.found.insert(query, found);
    }
    let search = OsStr::new(request.search_path());
    for name in request.commands() {
        if let Ok(command) = elf::locate(name, Some(search)) {
            facts.commands.insert(name.to_owned(), program(command, &[])?);
        }
    }
    if let Subject::Command { argv } = request.subject() {
        let Some((name, rest)) = argv.split_first() else {
            return Err(Error::Usage { what: "no command".into(), remedy: "write it behind `--`".into() });
        };
        facts.program = Some(program(elf::locate(name, Some(search))?, rest)?);
    }
    Ok(facts)
}

fn program(command: elf::Command, rest: &[String]) -> Result<ProgramFacts, Error> {
    let unreadable = |path: &Path| {
        let path = path.display().to_string();
        move |source| Error::File { act: "read the headers of", path, source }
    };
    let libraries = if command.dynamic {
        elf::libraries(&command.program.real).map_err(unreadable(&command.program.asked))?
    } else {
        elf::Libraries::default()
    };
    // What the command named itself by; the rest is what this file asks for, and it may be hostile.
    let named = command.scripts.first().unwrap_or(&command.program).real.clone();
    let comes_along = |file: &HostFile| file.may_come_with(&named).map_err(unreadable(&file.asked));
    let private = |file: &HostFile, what: &str| {
        Error::Command(CommandError::NotExecutable {
            path: named.display().to_string(),
            why: format!("{what} {} is not open to everybody", file.asked.display()),
            help: "let others read it and the folders above it, or put it beside the program",
        })
    };
    for script in command.scripts.iter().skip(1).chain([&command.program]) {
        if script.real != named && !comes_along(script)? {
            return Err(private(script, "its interpreter"));
        }
    }
    if let Some(loader) = &libraries.loader
        && !comes_along(loader)?
    {
        return Err(private(loader, "its loader"));
    }
    let mut files = Vec::with_capacity(libraries.files.len() + command.scripts.len());
    for file in libraries.files {
        // The loader will tell of one that isn't there.
        if comes_along(&file)? {
            files.push(as_found(file)?);
        }
    }
    for script in command.scripts {
        files.push(as_found(script)?);
    }
    let mut argv = command.argv;
    argv.extend_from_slice(rest);
    Ok(ProgramFacts {
        program: as_found(command.program)?,
        argv,
        loader: libraries.loader.map(as_found).transpose()?,
        files,
    })
}

fn as_found(file: HostFile) -> Result<Found, Error> {
    let failed = |source| Error::File { act: "look at", path: file.real.display().to_string(), source };
    let mode = fs::metadata(&file.real).map_err(failed)?.mode();
    let link = fs::read_link(&file.asked).ok().map(|link| text(&link)).transpose()?;
    Ok(Found {
        at: host_path(&file.asked)?,
        real: host_path(&file.real)?,
        kind: Kind::File,
        open_to: OpenTo::of_mode(mode),
        link,
        socket: None,
    })
}

/// One path, or nothing if it isn't there.
fn one(path: &str, sockets: Sockets) -> Result<Option<Found>, Error> {
    let asked = Path::new(path);
    let failed = |source| Error::File { act: "look at", path: path.to_owned(), source };
    let metadata = match fs::symlink_metadata(asked) {
        Ok(metadata) => metadata,
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let link = if metadata.is_symlink() { Some(text(&fs::read_link(asked).map_err(failed)?)?) } else { None };
    let real = match fs::canonicalize(asked) {
        Ok(real) => real,
        // A link to nothing is as good as nothing.
        Err(error) if absent(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = fs::metadata(&real).map_err(failed)?;
    let kind = kind_of(metadata.file_type());
    let socket = match (sockets, kind) {
        (Sockets::Searched, Kind::Folder) => first_socket(&real)?,
        (Sockets::Searched | Sockets::Skipped, _) => None,
    };
    Ok(Some(Found {
        at: HostPath(path.to_owned()),
        real: host_path(&real)?,
        kind,
        open_to: OpenTo::of_mode(metadata.mode()),
        link,
        socket,
    }))
}

fn absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn kind_of(kind: fs::FileType) -> Kind {
    if kind.is_file() {
        Kind::File
    } else if kind.is_dir() {
        Kind::Folder
    } else {
        Kind::Other
    }
}

/// All paths that match, found from the folder in front of the first star. Links to folders are not followed.
fn matching(pattern: &str) -> Result<Vec<Found>, Error> {
    let fixed = pattern.split('*').next().unwrap_or_default();
    let top = &fixed[..fixed.rfind('/').map_or(0, |slash| slash + 1)];
    let mut found = Vec::new();
    let whole_below = pattern.ends_with('*');
    walk(Path::new(top), |path, _kind| {
        let Some(at) = path.to_str() else { return Ok(Walk::Into) };
        if !glob::covers(pattern, at) {
            return Ok(Walk::Into);
        }
        found.extend(one(at, Sockets::Skipped)?);
        Ok(if whole_below { Walk::Past } else { Walk::Into })
    })?;
    Ok(found)
}

fn first_socket(top: &Path) -> Result<Option<HostPath>, Error> {
    let mut socket = None;
    walk(top, |path, kind| {
        if kind.is_socket() {
            socket = Some(host_path(path)?);
            return Ok(Walk::Stop);
        }
        Ok(Walk::Into)
    })?;
    Ok(socket)
}

/// Where a walk goes on.
enum Walk {
    Into,
    Past,
    Stop,
}

/// Visits what stands below `top`, each folder's entries in the order of their names.
fn walk(top: &Path, mut visit: impl FnMut(&Path, fs::FileType) -> Result<Walk, Error>) -> Result<(), Error> {
    let mut queue = VecDeque::from([top.to_path_buf()]);
    let mut seen = 0;
    while let Some(folder) = queue.pop_front() {
        // A folder that the caller may not list can't be given to the jail either.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        let mut entries: Vec<fs::DirEntry> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            seen += 1;
            if seen > MOST_ENTRIES {
                return Err(Error::Usage {
                    what: format!("{} holds more than {MOST_ENTRIES} entries", top.display()),
                    remedy: "grant a smaller folder, or the whole of it".into(),
                });
            }
            let Ok(kind) = entry.file_type() else { continue };
            match visit(&entry.path(), kind)? {
                Walk::Into if kind.is_dir() => queue.push_back(entry.path()),
                Walk::Into | Walk::Past => {}
                Walk::Stop => return Ok(()),
            }
        }
    }
    Ok(())
}

fn host_path(path: &Path) -> Result<HostPath, Error> {
    text(path).map(HostPath)
}

fn text(path: &Path) -> Result<String, Error> {
    path.to_str().map(str::to_owned).ok_or_else(|| Error::Usage {
        what: format!("{} is not UTF-8", PathBuf::from(path).display()),
        remedy: "rename it, or grant the folder above it".into(),
    })
}
