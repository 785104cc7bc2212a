//! Files without a jail: for embedding and tests, where the gate is the only wall.
//!
//! It answers what the broker answers ([`crate::broker`]), from the process's own file system.
//!
//! Invariant: the gate has agreed before; nothing is checked here, and links are followed. Code that isn't trusted runs in a
//! jail instead.

use crate::broker::Reply;
use policies::broker::{Act, By, How, Listed, MOST_ENTRIES, Part, Refused, Request, Seen, What};
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The file system as it is.
#[derive(Debug)]
pub struct Plain {
    folder: PathBuf,
    /// The file that is written, and whose place it takes.
    begun: Option<(PathBuf, PathBuf)>,
}

impl Plain {
    /// With the folder that relative paths start from.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), begun: None }
    }

    /// One request.
    ///
    /// # Errors
    /// It needs a supervisor.
    pub fn answer(&mut self, request: &Request) -> Result<Reply, String> {
        let done = match request {
            Request::Open { path, how: How::Read } => File::open(self.at(path)).map(Reply::File),
            Request::Open { path, how: How::Append } => {
                made(&self.at(path), OpenOptions::new().append(true)).map(Reply::File)
            }
            Request::Replace { path } => self.replace(path),
            Request::Commit {} => match self.begun.take() {
                Some((part, place)) => fs::rename(part, place).map(|()| Reply::Done),
                None => Err(Error::from(ErrorKind::NotFound)),
            },
            Request::Look { path } => look(&self.at(path)),
            Request::List { path } => list(&self.at(path)),
            Request::MakeFolder { path } => fs::create_dir_all(self.at(path)).map(|()| Reply::Done),
            Request::Remove { path, what: What::File } => {
                fs::remove_file(self.at(path)).map(|()| Reply::Done)
            }
            Request::Remove { path, what: What::Folder } => {
                fs::remove_dir(self.at(path)).map(|()| Reply::Done)
            }
            Request::Database { path, part, act } => database(&self.at(path), *part, *act),
            Request::Notebook { name, part, act } => {
                database(&self.folder.join(format!(".synsema/state/{name}.db")), *part, *act)
            }
            Request::Module { .. }
            | Request::Source {}
            | Request::RunProgram(_)
            | Request::RunCommand(_)
            | Request::Spawn(_)
            | Request::Process { .. }
            | Request::Connect(_)
            | Request::Terminal { .. }
            | Request::Connection { .. }
            | Request::Await { .. }
            | Request::Body {}
            | Request::Fetch(_)
            | Request::Prompt(_)
            | Request::Model {} => {
                return Err("ask the supervisor: this run has none".to_owned());
            }
        };
        Ok(done.unwrap_or_else(|error| {
            let by = error.raw_os_error().map_or(By::Misuse, By::Kernel);
            Reply::Refused(Refused { by, why: error.to_string() })
        }))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    fn replace(&mut self, path: &str) -> Result<Reply, Error> {
        let place = self.at(path);
        let mut part = place.clone().into_os_string();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = made(&part, OpenOptions::new().write(true).truncate(true))?;
        self.begun = Some((part, place));
        Ok(Reply::File(file))
    }
}

fn made(path: &Path, how: &mut OpenOptions) -> Result<File, Error> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    how.create(true).open(path)
}

fn look(path: &Path) -> Result<Reply, Error> {
    let data = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Reply::Seen(Seen::NOTHING)),
        data => data?,
    };
    let since = data.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    Ok(Reply::Seen(Seen {
        exists: true,
        is_dir: data.is_dir(),
        size: data.len(),
        modified: since.map_or(0.0, |since| since.as_secs_f64()),
    }))
}

fn list(path: &Path) -> Result<Reply, Error> {
    let mut listed = Vec::new();
    for entry in fs::read_dir(path)?.take(MOST_ENTRIES) {
        let entry = entry?;
        let Ok(data) = entry.metadata() else { continue };
        listed.push(Listed {
            name: entry.file_name().to_string_lossy().into_owned(),
            is_dir: data.is_dir(),
            size: data.len(),
            changed: data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec()),
        });
    }
    listed.sort();
    serde_json::to_vec(&listed).map(Reply::Json).map_err(Error::other)
}

fn database(main: &Path, part: Part, act: Act) -> Result<Reply, Error> {
    let mut path = main.as_os_str().to_owned();
    path.push(part.ending());
    let path = PathBuf::from(path);
    match act {
        Act::Read => File::open(path).map(Reply::File),
        Act::Write => OpenOptions::new().read(true).write(true).open(path).map(Reply::File),
        Act::Make => made(&path, OpenOptions::new().read(true).write(true)).map(Reply::File),
        Act::Look => look(&path),
        Act::Remove => fs::remove_file(path).map(|()| Reply::Done),
    }
}
