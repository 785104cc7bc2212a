//! Mounts and Landlock rules from path scopes, and from the trees that the program is made of.
//!
//! A scope reaches paths by their letters; a mount and a rule reach trees. Where the two differ, the outcome says by what.

use super::{
    Access, Execute, Fit, HostPath, IdMap, Node, Right,
    layout::{Bind, Layout, beneath},
    wanted::{Reach, Wanted},
};
use crate::{
    capability::Capability,
    ceiling::{Ceiling, Grant},
    error::Refusal,
    request::{Found, Kind, OpenTo, PathFacts, PathQuery},
    scope::glob,
};
use std::{collections::BTreeMap, fmt::Display};

/// How many single files and trees one pattern may stand for. Each is a mount, and mounts are what a start costs.
const MOST_MATCHES: usize = 256;
/// The kernel's own trees: the jail has its own, or none.
const KERNEL_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// How the row of a grant begins that gives nothing.
const NOTHING: &str = "nothing is given";

/// What became of a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) fit: Fit,
    pub(super) held_by: String,
}

impl Outcome {
    pub(super) fn exact(held_by: impl Into<String>) -> Self {
        Self { fit: Fit::Exact, held_by: held_by.into() }
    }

    /// The capability is granted, and the host has nothing that it reaches.
    pub(super) fn nothing(why: impl Display) -> Self {
        Self::exact(format!("{NOTHING}: {why}"))
    }

    pub(super) fn coarser(by: impl Into<String>, held_by: impl Into<String>) -> Self {
        Self { fit: Fit::Coarser(by.into()), held_by: held_by.into() }
    }

    /// What is left of it where Landlock is missing and the mount alone holds.
    pub(super) fn by_mounts_alone(self, capability: Capability) -> Self {
        if self.held_by.starts_with(NOTHING) {
            return self;
        }
        let more = if capability == Capability::FileWrite {
            "what may be written may be read, too"
        } else if capability == Capability::Exec {
            "every program there may be started, if its mount allows code"
        } else {
            return Self { held_by: "a mount".to_owned(), ..self };
        };
        Self { held_by: "a mount".to_owned(), ..self }.and_coarser(more)
    }

    /// Coarser by one thing more.
    fn and_coarser(self, more: &str) -> Self {
        if self.held_by.starts_with(NOTHING) {
            return self;
        }
        let by = match self.fit {
            Fit::Coarser(by) => format!("{by}; {more}"),
            Fit::Exact | Fit::LanguageOnly | Fit::NotBuilt => more.to_owned(),
        };
        Self::coarser(by, self.held_by)
    }
}

/// What holds the trees of the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// Mounts, and Landlock's rules on them.
    Both,
    /// Mounts alone: Landlock is missing, and was given up by name.
    MountsAlone,
}

/// The language's files: none is in the root. The supervisor opens each when it is asked for, after a check of its own.
pub(super) fn by_broker(
    ceiling: &Ceiling,
    outcomes: &mut BTreeMap<Grant, Outcome>,
    notes: &mut Vec<String>,
) -> Result<(), Refusal> {
    if ceiling.has(Capability::FileWrite) {
        notes.push(
            "files that the program writes are the host's: the disk limit doesn't count them".to_owned(),
        );
    }
    for grant in ceiling.grants().filter(|grant| Capability::File.includes(grant.capability())) {
        match Wanted::of(grant.scope()) {
            Wanted::Exact(path) | Wanted::Tree(path) if in_kernel_tree(&path) => refuse_kernel_trees(&path)?,
            Wanted::Exact(_) | Wanted::Tree(_) | Wanted::Pattern(_) | Wanted::Everything => {}
        }
        outcomes.insert(grant.clone(), Outcome::exact("the supervisor opens each file; no link leads out"));
    }
    Ok(())
}

/// What grants are laid out with.
pub(super) struct Granting<'a> {
    pub(super) facts: &'a PathFacts,
    /// What holds the trees.
    pub(super) holds: Holds,
    /// Ids on granted trees.
    pub(super) idmap: IdMap,
    pub(super) notes: Vec<String>,
    /// First path socket of the host that is in the root.
    pub(super) socket: Option<HostPath>,
}

impl Granting<'_> {
    /// Refuses a grant that begins inside a folder granted for writing and leads out of it: what an earlier program put
    /// there as a link must not decide what a later one reaches.
    pub(super) fn refuse_ways_out(&self, grants: &[&Grant]) -> Result<(), Refusal> {
        let found = |grant: &Grant| match Wanted::of(grant.scope()) {
            wanted @ (Wanted::Exact(_) | Wanted::Tree(_)) => self.one(&wanted.query()),
            Wanted::Everything | Wanted::Pattern(_) => None,
        };
        let writes = |grant: &&&Grant| Reach::of(grant.capability()) != Reach::Read;
        for writable in grants.iter().filter(writes).filter_map(|grant| found(grant)) {
            let leads_out = |inner: &&Found| {
                beneath(&writable.at.0, &inner.at.0).is_some_and(|rest| !rest.is_empty())
                    && beneath(&writable.real.0, &inner.real.0).is_none()
            };
            if let Some(inner) = grants.iter().filter_map(|grant| found(grant)).find(leads_out) {
                let why = "it is a link in a folder that programs may write to, and leads out of it";
                return Err(Refusal::PathRefused { path: inner.at.0.clone(), why });
            }
        }
        Ok(())
    }

    /// One `file`, `file.read` or `file.write` grant.
    pub(super) fn grant(&mut self, layout: &mut Layout, grant: &Grant) -> Result<Outcome, Refusal> {
        let outcome = self.reach(layout, grant)?;
        // Landlock's rules reach through mounts: what stands in a scratch folder has that folder's rights too. Writing is
        // held back by a read-only mount; reading by nothing.
        let path = grant.scope().to_string();
        let scratch = layout.scratch_above(&path).filter(|scratch| *scratch != path.trim_end_matches("/*"));
        // A folder by itself, of which nothing but the list was granted.
        let listed = matches!((Wanted::of(grant.scope()), &outcome.fit), (Wanted::Exact(_), Fit::Coarser(_)));
        match (Reach::of(grant.capability()), scratch) {
            (Reach::Read | Reach::Both, Some(scratch)) if listed => Ok(outcome.and_coarser(&format!(
                "it stands in the jail's own {scratch}, so all that is in it may be read"
            ))),
            (Reach::Write, Some(scratch)) => Ok(outcome.and_coarser(&format!(
                "it stands in the jail's own {scratch}, so what may be written there may be read, too"
            ))),
            (Reach::Read | Reach::Write | Reach::Both, _) => Ok(outcome),
        }
    }

    fn reach(&mut self, layout: &mut Layout, grant: &Grant) -> Result<Outcome, Refusal> {
        let access = Reach::of(grant.capability());
        let wanted = Wanted::of(grant.scope());
        let query = wanted.query();
        match &wanted {
            Wanted::Exact(path) | Wanted::Tree(path) if path == "/tmp" => {
                if layout.nodes().contains_key("/tmp") {
                    return Ok(Outcome::exact("the jail's own /tmp, never the host's"));
                }
                layout.put("/tmp", Node::Scratch { execute: Execute::Refused, mode: 0o1777 });
                layout.allow("/tmp", access.tree());
                Ok(Outcome::exact("the jail's own /tmp, never the host's"))
            }
            Wanted::Exact(path) if path == "/" => Ok(Outcome::nothing("the root can't be listed")),
            Wanted::Exact(path) | Wanted::Tree(path) => {
                refuse_kernel_trees(path)?;
                let Some(found) = self.one(&query).cloned() else {
                    return Ok(self.not_there(path));
                };
                match wanted {
                    Wanted::Tree(_) if found.kind == Kind::Folder => self.tree(layout, &found, access, path),
                    Wanted::Tree(_) => Ok(Outcome::nothing(format!("{path} is no folder"))),
                    Wanted::Everything | Wanted::Exact(_) | Wanted::Pattern(_) => {
                        self.exact(layout, &found, access)
                    }
                }
            }
            Wanted::Pattern(pattern) => self.pattern(layout, pattern, &query, access),
            Wanted::Everything => self.everything(layout, &query, access),
        }
    }

    fn tree(
        &mut self,
        layout: &mut Layout,
        found: &Found,
        reach: Reach,
        path: &str,
    ) -> Result<Outcome, Refusal> {
        let at = self.bind(layout, found, reach)?;
        layout.allow(&at, reach.tree());
        let held_by = "a mount and a Landlock rule on the tree";
        Ok(match reach {
            Reach::Write => Outcome::exact(held_by),
            Reach::Read | Reach::Both => Outcome::coarser(format!("{path} itself may be listed"), held_by),
        })
    }

    fn exact(&mut self, layout: &mut Layout, found: &Found, reach: Reach) -> Result<Outcome, Refusal> {
        match (found.kind, reach) {
            (Kind::Folder, Reach::Write) => {
                Ok(Outcome::nothing(format!("a folder by itself can't be written; {}/* would", found.at)))
            }
            (Kind::Folder, Reach::Read | Reach::Both) if self.holds == Holds::MountsAlone => {
                Ok(Outcome::nothing("without Landlock, a mount would show all that is in it"))
            }
            (Kind::Folder, Reach::Read | Reach::Both) => {
                let at = self.bind(layout, found, Reach::Read)?;
                layout.allow(&at, &[Right::ReadDir]);
                Ok(Outcome::coarser(
                    "folders in it may be listed, and names, sizes and times of what is there be seen",
                    "a mount and a Landlock rule on the folder",
                ))
            }
            (Kind::File | Kind::Other, _) => {
                let at = self.bind(layout, found, reach)?;
                layout.allow(&at, reach.file());
                Ok(Outcome::exact("a mount and a Landlock rule on the file"))
            }
        }
    }

    fn pattern(
        &mut self,
        layout: &mut Layout,
        pattern: &str,
        query: &PathQuery,
        reach: Reach,
    ) -> Result<Outcome, Refusal> {
        let matches: Vec<Found> = self.facts.found.get(query).cloned().unwrap_or_default();
        // A link that matches is in the scope only if what it leads to is: whoever may make files in that folder could
        // make one that leads anywhere.
        let inside = |found: &Found| found.link.is_none() || glob::covers(pattern, &found.real.0);
        let matches: Vec<Found> = matches
            .into_iter()
            .filter(|found| found.kind != Kind::Other && !in_kernel_tree(&found.at.0) && inside(found))
            .collect();
        refuse_too_many(pattern, matches.len())?;
        for found in &matches {
            match found.kind {
                Kind::Folder if pattern.ends_with('*') => {
                    let at = self.bind(layout, found, reach)?;
                    layout.allow(&at, reach.tree());
                }
                Kind::Folder | Kind::File | Kind::Other => {
                    self.exact(layout, found, reach)?;
                }
            }
        }
        Ok(Outcome::exact(format!(
            "mounts and Landlock rules on the {} that match at the start",
            count(matches.len())
        )))
    }

    fn everything(
        &mut self,
        layout: &mut Layout,
        query: &PathQuery,
        reach: Reach,
    ) -> Result<Outcome, Refusal> {
        let entries: Vec<Found> = self.facts.found.get(query).cloned().unwrap_or_default();
        let mut hidden = Vec::new();
        for found in entries.iter().filter(|found| found.kind != Kind::Other && !in_kernel_tree(&found.at.0))
        {
            match &found.link {
                Some(text) if !layout.nodes().contains_key(&found.at.0) => {
                    layout.put(&found.at.0, Node::Link(text.clone()));
                }
                Some(_) => {}
                // The jail's own /tmp and working folder stand before the host's.
                None if stands_before(layout.nodes().get(&found.at.0), &found.real) => {
                    hidden.push(found.at.0.clone());
                }
                None => {
                    let at = self.bind(layout, found, reach)?;
                    layout.allow(&at, if found.kind == Kind::Folder { reach.tree() } else { reach.file() });
                }
            }
        }
        if !hidden.is_empty() {
            self.notes
                .push(format!("the host's {} stays hidden behind the jail's own", hidden.join(" and ")));
        }
        Ok(Outcome::exact("mounts and Landlock rules on everything in the root but /proc, /sys and /dev"))
    }

    /// Binds a granted tree or file; returns where.
    pub(super) fn bind(
        &mut self,
        layout: &mut Layout,
        found: &Found,
        reach: Reach,
    ) -> Result<String, Refusal> {
        self.check(found)?;
        let access = reach.access();
        if access == Access::ReadWrite && found.kind == Kind::Folder {
            self.note_no_disk_limit(&found.at);
        }
        // What everybody may read needs no other owner, and not every file system can give one.
        let idmap = if access == Access::ReadOnly && found.kind == Kind::File {
            self.idmap_of(found)
        } else {
            self.idmap
        };
        let bind = Bind { source: found.real.clone(), access, execute: Execute::Refused, idmap };
        layout.bind(&found.at.0, bind)
    }

    /// Ids for one file that is read: its owner's only where the jail's user could not read it otherwise.
    pub(super) fn idmap_of(&self, file: &Found) -> IdMap {
        match file.open_to {
            OpenTo::Everybody => IdMap::AsIs,
            OpenTo::Some => self.idmap,
        }
    }

    pub(super) fn note_no_disk_limit(&mut self, path: &HostPath) {
        self.notes.push(format!(
            "{path} is the host's, read and write: the disk limit doesn't count what is written there"
        ));
    }

    fn not_there(&mut self, path: &str) -> Outcome {
        self.notes.push(format!("{path} is granted and wasn't there at the start: nothing of it is given"));
        Outcome::nothing("it wasn't there at the start")
    }

    pub(super) fn check(&mut self, found: &Found) -> Result<(), Refusal> {
        refuse_kernel_trees(&found.real.0)?;
        if found.kind == Kind::Other {
            let why = "it is a socket, a device or a FIFO";
            return Err(Refusal::PathRefused { path: found.at.0.clone(), why });
        }
        if let Some(socket) = &found.socket {
            self.notes.push(format!(
                "{socket} is a socket of the host; the filter lets no program make one to call it"
            ));
            self.socket.get_or_insert_with(|| socket.clone());
        }
        Ok(())
    }

    /// The one answer to a query for one path.
    pub(super) fn one(&self, query: &PathQuery) -> Option<&Found> {
        self.facts.found.get(query).and_then(|found| found.first())
    }
}

/// Whether what the jail has at a place is its own, not the host's at that same place.
fn stands_before(node: Option<&Node>, real: &HostPath) -> bool {
    match node {
        None | Some(Node::Text(_) | Node::Folder) => false,
        Some(Node::Bind { source, .. }) => source != real,
        Some(Node::Scratch { .. } | Node::Link(_) | Node::Device(_) | Node::Proc | Node::Pts) => true,
    }
}

/// More than a jail is given.
pub(super) fn refuse_too_many(pattern: &str, found: usize) -> Result<(), Refusal> {
    if found <= MOST_MATCHES {
        return Ok(());
    }
    Err(Refusal::TooManyMatches { pattern: pattern.to_owned(), found, most: MOST_MATCHES })
}

fn count(n: usize) -> String {
    if n == 1 { "one path".to_owned() } else { format!("{n} paths") }
}

fn in_kernel_tree(path: &str) -> bool {
    KERNEL_TREES.iter().any(|tree| beneath(tree, path).is_some())
}

pub(super) fn refuse_kernel_trees(path: &str) -> Result<(), Refusal> {
    let why = if path == "/" {
        "it is the whole root: Landlock's rules must leave something out"
    } else if in_kernel_tree(path) {
        "it belongs to the host's kernel, and the jail has its own or none"
    } else {
        return Ok(());
    };
    Err(Refusal::PathRefused { path: path.to_owned(), why })
}
