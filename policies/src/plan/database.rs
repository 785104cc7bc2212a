//! Databases of a foreign command: the file and the three that SQLite keeps beside it, each a mount of its own.
//!
//! Nothing can be made or removed where a mount stands, so all four are there before the start (the launcher makes what is
//! missing), and a program keeps its journal instead of deleting it: journal_mode PERSIST, TRUNCATE or MEMORY, or WAL where the
//! database is in that mode already (SQLite deletes a journal when it switches to it).
//!
//! Invariant: a grant for a database reaches nothing else in its folder, and none of the four is a link.

use super::{
    files::{Granting, Outcome},
    layout::Layout,
    wanted::Reach,
};
use crate::{
    ceiling::Grant,
    error::Refusal,
    plan::HostPath,
    request::{Kind, PathQuery},
    scope::{Database, Scope},
};

/// What stands behind a database's name: nothing, or the ending of what SQLite keeps beside it.
pub const ENDINGS: [&str; 4] = ["", "-journal", "-wal", "-shm"];

/// The file that a grant names; `None` for a pattern, and for what is no file.
#[must_use]
pub fn file_of(grant: &Grant) -> Option<String> {
    match grant.scope() {
        Scope::Database(Database::File(path)) => Some(path.to_string()).filter(|path| !path.contains('*')),
        Scope::Database(Database::Memory | Database::Url(_))
        | Scope::Any
        | Scope::Path(_)
        | Scope::Host(_)
        | Scope::Command(_)
        | Scope::Name(_)
        | Scope::Port(_) => None,
    }
}

/// What to ask the host about a grant.
pub(crate) fn queries(grant: &Grant) -> Vec<PathQuery> {
    let Some(file) = file_of(grant) else { return Vec::new() };
    ENDINGS.iter().map(|ending| PathQuery::Path(HostPath(format!("{file}{ending}")))).collect()
}

impl Granting<'_> {
    /// One `db` grant.
    pub(super) fn database(&mut self, layout: &mut Layout, grant: &Grant) -> Result<Outcome, Refusal> {
        let refused = |why| Refusal::Database { grant: grant.to_string(), why };
        match grant.scope() {
            Scope::Database(Database::Memory) => {
                return Ok(Outcome::exact(
                    "a database in memory is the program's own: nothing of the host's",
                ));
            }
            Scope::Database(Database::Url(_)) => {
                return Err(refused("a server of databases is reached by its host and port"));
            }
            Scope::Database(Database::File(_))
            | Scope::Any
            | Scope::Path(_)
            | Scope::Host(_)
            | Scope::Command(_)
            | Scope::Name(_)
            | Scope::Port(_) => {}
        }
        if file_of(grant).is_none() {
            return Err(refused("each file of a database is a mount, so it must be named"));
        }
        let mut there = Vec::new();
        for query in queries(grant) {
            let Some(found) = self.one(&query).cloned() else {
                return Ok(Outcome::nothing("a file of it isn't there; exec makes what is missing"));
            };
            if found.link.is_some() {
                return Err(refused("a link stands where one of its files belongs"));
            }
            if found.kind != Kind::File {
                return Err(refused("what stands where one of its files belongs is no file"));
            }
            there.push(found);
        }
        for found in &there {
            let at = self.bind(layout, found, Reach::Both)?;
            layout.allow(&at, Reach::Both.file());
        }
        if let Some(main) = there.first() {
            self.note_no_disk_limit(&main.at);
        }
        Ok(Outcome::exact(
            "mounts and Landlock rules on the file, its -journal, -wal and -shm; none can be deleted, so its \
             journal_mode is PERSIST, TRUNCATE or MEMORY, or WAL if it is that already",
        ))
    }
}
