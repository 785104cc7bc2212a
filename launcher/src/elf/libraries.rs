//! The loader and the libraries that a program names, and those that they name in turn.
//!
//! The order of the search is the loader's: DT_RPATH of the file and of those that led to it, DT_RUNPATH of the file, the
//! loader's cache, the standard folders. The standard folders come before the cache here, so that the cache has to be in
//! the jail only for programs with libraries elsewhere. LD_LIBRARY_PATH isn't followed: the environment is emptied.
//!
//! Not found: what a program opens by name while it runs (dlopen, NSS, plug-ins). A policy's `[provides]` names those.
//! Source: ld.so(8); musl ldso/dynlink.c for its folders.

use super::{
    HostFile,
    cache::{self, Cache},
    header::{self, Headers},
};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Files in one closure.
const MOST_FILES: usize = 1024;

#[cfg(target_arch = "x86_64")]
const TRIPLE: &str = "x86_64-linux-gnu";
#[cfg(target_arch = "aarch64")]
const TRIPLE: &str = "aarch64-linux-gnu";

/// What a program needs besides its own file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// The loader; `None` for a static program.
    pub loader: Option<HostFile>,
    /// The libraries, and the loader's cache if one of them is found only through it.
    pub files: Vec<HostFile>,
    /// Names that were found nowhere: the loader will say so too, unless the program does without.
    pub missing: Vec<String>,
}

/// A file whose names are to be looked for.
struct Object {
    headers: Headers,
    /// Its folder, for $ORIGIN.
    origin: PathBuf,
    /// DT_RPATH of the files that led to it, expanded.
    inherited: Vec<PathBuf>,
}

/// Reads the closure of a program, by its path without links.
///
/// # Errors
/// What opening the program or its loader gives; `InvalidData` for a broken or endless closure.
pub fn libraries(program: &Path) -> io::Result<Libraries> {
    let broken = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let headers = header::read(&open(program)?).map_err(|_| broken("not a program for this host"))?;
    let Some(interpreter) = headers.interpreter.clone() else { return Ok(Libraries::default()) };
    if !interpreter.starts_with('/') {
        return Err(broken("its loader's path is relative"));
    }
    let loader = HostFile::at(PathBuf::from(&interpreter))?;
    let search = Search::new(&interpreter);
    let mut found: BTreeMap<String, Option<HostFile>> = BTreeMap::new();
    let mut from_cache = false;
    let mut queue = VecDeque::from([Object { headers, origin: folder_of(program), inherited: Vec::new() }]);
    while let Some(object) = queue.pop_front() {
        let own = expand(
            object.headers.rpath.as_deref().filter(|_| object.headers.runpath.is_none()),
            &object.origin,
        );
        let rpath: Vec<PathBuf> = own.into_iter().chain(object.inherited).take(MOST_FILES).collect();
        let runpath = expand(object.headers.runpath.as_deref(), &object.origin);
        for name in &object.headers.needed {
            if found.contains_key(name) || search.is_the_loader(name) {
                continue;
            }
            if found.len() >= MOST_FILES {
                return Err(broken("it needs more than 1024 libraries"));
            }
            // A file with DT_RUNPATH is looked for without the RPATH of those that led to it.
            let listed = if object.headers.runpath.is_some() { &runpath } else { &rpath };
            let Some(hit) = search.find(name, listed) else {
                found.insert(name.clone(), None);
                continue;
            };
            from_cache |= hit.from_cache;
            queue.push_back(Object {
                headers: hit.headers,
                origin: folder_of(&hit.file.asked),
                inherited: rpath.clone(),
            });
            found.insert(name.clone(), Some(hit.file));
        }
    }
    let missing = found.iter().filter(|(_, file)| file.is_none()).map(|(name, _)| name.clone()).collect();
    let mut files: Vec<HostFile> =
        found.into_values().flatten().filter(|file| file.real != loader.real).collect();
    if from_cache {
        files.push(HostFile::at(PathBuf::from(cache::PATH))?);
    }
    files.sort();
    files.dedup();
    Ok(Libraries { loader: Some(loader), files, missing })
}

struct Hit {
    file: HostFile,
    headers: Headers,
    from_cache: bool,
}

/// Where one kind of loader looks.
struct Search {
    folders: Vec<PathBuf>,
    cache: std::cell::OnceCell<Cache>,
    musl: bool,
}

impl Search {
    fn new(interpreter: &str) -> Self {
        let musl = interpreter.contains("/ld-musl-");
        let folders = if musl {
            vec!["/lib".into(), "/usr/local/lib".into(), "/usr/lib".into()]
        } else {
            vec![
                format!("/lib/{TRIPLE}").into(),
                format!("/usr/lib/{TRIPLE}").into(),
                "/lib64".into(),
                "/usr/lib64".into(),
                "/lib".into(),
                "/usr/lib".into(),
            ]
        };
        Self { folders, cache: std::cell::OnceCell::new(), musl }
    }

    /// musl's loader is its C library, under these names too.
    fn is_the_loader(&self, name: &str) -> bool {
        self.musl && (name == "libc.so" || name.starts_with("libc.musl-"))
    }

    fn find(&self, name: &str, listed: &[PathBuf]) -> Option<Hit> {
        if name.contains('/') {
            // A path is taken as it is; a relative one would hang on the working folder.
            return name.starts_with('/').then(|| hit(PathBuf::from(name), false)).flatten();
        }
        let cached = || {
            let cache = self.cache.get_or_init(|| if self.musl { Cache::default() } else { Cache::read() });
            cache.find(name).into_iter()
        };
        let folders = listed.iter().chain(&self.folders);
        folders
            .map(|folder| folder.join(name))
            .find_map(|path| hit(path, false))
            .or_else(|| cached().find_map(|path| hit(path, true)))
    }
}

/// The file at `path`, if it is a library for this host: the loader passes over others too.
fn hit(path: PathBuf, from_cache: bool) -> Option<Hit> {
    let headers = header::read(&open(&path).ok()?).ok()?;
    Some(Hit { file: HostFile::at(path).ok()?, headers, from_cache })
}

/// Opens a regular file; never waits on a FIFO.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// The absolute folders of a search path.
fn expand(path: Option<&str>, origin: &Path) -> Vec<PathBuf> {
    let Some(origin) = origin.to_str() else { return Vec::new() };
    let lib = format!("lib/{TRIPLE}");
    path.unwrap_or_default()
        .split(':')
        .take(64)
        .map(|folder| {
            folder
                .replace("${ORIGIN}", origin)
                .replace("$ORIGIN", origin)
                .replace("${LIB}", &lib)
                .replace("$LIB", &lib)
        })
        .filter(|folder| folder.starts_with('/') && folder.len() <= 4096)
        .map(PathBuf::from)
        .collect()
}

fn folder_of(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("/")).to_owned()
}
