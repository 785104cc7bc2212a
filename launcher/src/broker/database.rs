//! The files of databases: the one that is granted, and those that SQLite keeps beside it.
//!
//! Invariant: what stands beside a database is reached only by way of the database: in the same folder, under its name
//! with one of two endings. A grant for a database reaches nothing else there.
//! Invariant: locks are the peer's own, on a file description that only it has: a peer can keep others waiting for a
//! database that it was given, and for nothing else.

use super::{
    anchor::Outer,
    anchor::{NoPlace, Place},
    files::{self, Files, No},
};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::stat::FileStat,
    unistd::{UnlinkatFlags, unlinkat},
};
use policies::{
    broker::{Act, Part, Seen},
    capability::Capability,
    ceiling::{Ceiling, Grant},
    plan::database::ENDINGS,
    scope::{Base, Target},
};
use std::os::fd::{AsFd, OwnedFd};

/// What came of a request.
#[derive(Debug)]
pub(super) enum Got {
    File(OwnedFd),
    Seen(Seen),
    Removed,
}

/// Whether the folders to a new database are made too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folders {
    AreThere,
    AreMade,
}

impl Files {
    /// Acts on one file of a database.
    pub(super) fn database(&mut self, path: &str, part: Part, act: Act, folders: Folders) -> Result<Got, No> {
        let capability = Capability::Db;
        let (anchors, path) = self.covered(capability, path)?;
        if part == Part::Main {
            let flags = match act {
                Act::Read => OFlag::O_RDONLY,
                Act::Write | Act::Make => OFlag::O_RDWR,
                Act::Look => {
                    let seen = anchors.node(capability, &path, &files::stat_regular);
                    return seen_or_nothing(seen.map(|stat| files::seen(&stat)), |no| {
                        files::found::<()>(Err(no), capability, &path).err()
                    });
                }
                Act::Remove => return Err(No::misuse("a database is not removed")),
            };
            let open = || anchors.node(capability, &path, &|at| files::regular(at, flags));
            let make = || {
                anchors.entry(capability, &path, &|at| {
                    let (folder, name) = match folders {
                        Folders::AreMade => files::parent(at)?,
                        Folders::AreThere => {
                            let (above, name) = at.split().ok_or(Errno::EISDIR)?;
                            (files::folder_of(at, above)?, name.to_owned())
                        }
                    };
                    files::make(folder.as_fd(), &name, OFlag::O_RDWR, None)
                })
            };
            let file = if act == Act::Make { files::open_or_make(open, make) } else { open() };
            return files::found(file, capability, &path).map(Got::File);
        }
        let done = anchors.node(capability, &path, &|at| {
            // A link in the database's place is refused here, and followed by the caller of this.
            let main = files::stat_regular(at)?;
            let beside = Place { folder: at.folder, path: format!("{}{}", at.path, part.ending()) };
            match act {
                Act::Read => files::regular(&beside, OFlag::O_RDONLY).map(Got::File),
                Act::Write => files::regular(&beside, OFlag::O_RDWR).map(Got::File),
                Act::Make => made_beside(at, part.ending(), &main).map(Got::File),
                Act::Look => match files::stat_regular(&beside) {
                    Ok(stat) => Ok(Got::Seen(files::seen(&stat))),
                    Err(Errno::ENOENT) => Ok(Got::Seen(Seen::NOTHING)),
                    Err(Errno::ELOOP) => Err(Errno::ENOTSUP),
                    Err(errno) => Err(errno),
                },
                Act::Remove => {
                    let (above, name) = beside.split().ok_or(Errno::EISDIR)?;
                    let folder = files::folder_of(&beside, above)?;
                    unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir).map(|()| Got::Removed)
                }
            }
        });
        files::found(done, capability, &path)
    }
}

/// Makes those files of a database that aren't there, for a command that is granted it: each is then a mount, at which nothing
/// can be made. Links are held as for a program of ours: none is made or opened through.
///
/// # Errors
/// Why one of them can't be made, in words.
pub(crate) fn prepare(file: &str, base: &Base) -> Result<(), String> {
    let grant = Grant::new(Capability::Db, Some(file)).map_err(|error| error.to_string())?;
    let mut files = Files::new(Ceiling::of([grant]), base.clone(), Outer::nobody());
    let said = |no: No| no.refused.why;
    files.database(file, Part::Main, Act::Make, Folders::AreThere).map_err(said)?;
    let (anchors, path) = files.covered(Capability::Db, file).map_err(said)?;
    let made = anchors.node(Capability::Db, &path, &|at| {
        let main = files::stat_regular(at)?;
        for ending in ENDINGS.iter().skip(1) {
            made_beside(at, ending, &main)?;
        }
        Ok(())
    });
    files::found(made, Capability::Db, &path).map_err(said)
}

/// Opens a file beside a database for writing, made if it isn't there. Who may read the database may read it, and nobody else.
fn made_beside(at: &Place<'_>, ending: &str, main: &FileStat) -> Result<OwnedFd, Errno> {
    let beside = Place { folder: at.folder, path: format!("{}{ending}", at.path) };
    let open = || files::regular(&beside, OFlag::O_RDWR);
    let make = || {
        let (above, name) = beside.split().ok_or(Errno::EISDIR)?;
        let folder = files::folder_of(&beside, above)?;
        files::make(folder.as_fd(), name, OFlag::O_RDWR, Some(main))
    };
    match files::open_or_make(open, make) {
        // What is a link there leads nowhere that is granted.
        Err(Errno::ELOOP) => Err(Errno::ENOTSUP),
        other => other,
    }
}

fn seen_or_nothing(seen: Result<Seen, NoPlace>, no: impl Fn(NoPlace) -> Option<No>) -> Result<Got, No> {
    match seen {
        Ok(seen) => Ok(Got::Seen(seen)),
        Err(NoPlace::Kernel(Errno::ENOENT | Errno::ENOTDIR)) => Ok(Got::Seen(Seen::NOTHING)),
        Err(other) => Err(no(other).unwrap_or_else(|| No::kernel(Errno::EIO))),
    }
}

/// Where a program's notebook is kept.
const FOLDER: &str = ".synsema/state";
/// Longest name of a notebook.
const MOST_NAME: usize = 100;

/// The notebooks beside one program.
#[derive(Debug)]
pub(super) struct Notebooks {
    /// The program's folder, and files that reach no further than it: a link that stands in it and leads out is not
    /// followed.
    kept: Option<(String, Files)>,
}

impl Notebooks {
    pub(super) fn new(folder: Option<String>, base: &Base) -> Self {
        let kept = folder.and_then(|folder| {
            let all = format!("{}/*", folder.trim_end_matches('/'));
            let grant = Grant::new(Capability::Db, Some(&all)).ok()?;
            Some((folder, Files::new(Ceiling::of([grant]), base.clone(), Outer::nobody())))
        });
        Self { kept }
    }

    /// Acts on one file of a notebook, if the jail's ceiling has it.
    pub(super) fn act(&mut self, ceiling: &Ceiling, name: &str, part: Part, act: Act) -> Result<Got, No> {
        if !ceiling.covers(Capability::Memory, Target::Name(name)) {
            return Err(No::ceiling(Capability::Memory, Some(name)));
        }
        let Some((folder, files)) = &mut self.kept else {
            // The runtime keeps it in memory then.
            return Err(No::kernel(Errno::EOPNOTSUPP));
        };
        let letters = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ');
        if name.is_empty() || name.len() > MOST_NAME || name.starts_with('.') || !name.chars().all(letters) {
            return Err(No::misuse(format!(
                "'{name}' is no name for a notebook: letters, digits, `_`, `-` and `.`, at most {MOST_NAME}"
            )));
        }
        let path = format!("{}/{FOLDER}/{name}.db", folder.trim_end_matches('/'));
        files.database(&path, part, act, Folders::AreMade)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policies::broker::How;
    use std::sync::Barrier;

    fn files(folder: &std::path::Path) -> Files {
        let grant = |capability| Grant::new(capability, Some(&format!("{}/*", folder.display()))).unwrap();
        let ceiling = Ceiling::of([grant(Capability::Db), grant(Capability::FileWrite)]);
        Files::new(ceiling, Base { workdir: "/".to_owned(), home: None }, Outer::nobody())
    }

    #[test]
    fn whoever_makes_a_file_first_the_others_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let together = Barrier::new(4);
        let one = || {
            let mut files = files(folder.path());
            let mut failed = Vec::new();
            for turn in 0..200 {
                let at = |name: &str| format!("{}/{turn}.{name}", folder.path().display());
                together.wait();
                failed.extend(files.database(&at("db"), Part::Main, Act::Make, Folders::AreThere).err());
                failed.extend(files.database(&at("db"), Part::Journal, Act::Make, Folders::AreThere).err());
                failed.extend(files.open(&at("txt"), How::Append).err());
            }
            failed
        };
        // Nobody ends early: the others would wait for it.
        let failed: Vec<_> = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            all.into_iter().flat_map(|one| one.join().unwrap()).collect()
        });
        assert!(failed.is_empty(), "{failed:?}");
    }
}
