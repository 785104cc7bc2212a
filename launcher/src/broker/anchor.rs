//! Path grants tied to folders of the host.
//!
//! A scope is letters; what it reaches is on a disk that others change while we look. So the fixed part of each scope is
//! resolved and opened once, and everything else is opened from there, through no link of any kind. Where a link stands
//! in the way, it is followed by a handle that opens nothing, and what it leads to is asked for anew, by its real path.
//!
//! Invariant: a path goes to the kernel only if its letters are in a scope, as the remainder below that scope's folder.
//! Whatever is swapped meanwhile, nothing else can be opened with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS.
//! Invariant: the answer for a link that leads out is the same whether or not anything is there.
//! Source: openat2(2); CVE-2019-5736 and CVE-2021-30465 for what happens otherwise.

use crate::sys::{fd, openat2};
use nix::errno::Errno;
use policies::{
    capability::Capability,
    ceiling::{Ceiling, Grant},
    scope::{Database, NormalPath, Scope, Target},
};
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// The kernel's own trees: no grant reaches them, as the plan has it too.
const KERNEL_TREES: [&str; 3] = ["/proc", "/sys", "/dev"];

/// One grant and its folder.
#[derive(Debug)]
pub(super) struct Anchor {
    grant: Grant,
    /// The fixed part of the scope, by its letters: the whole of it, or what stands before the last slash before the
    /// first star.
    prefix: String,
    /// The deepest folder of it that was there.
    folder: OwnedFd,
    /// Where that folder really is.
    real: String,
    /// The rest of the fixed part.
    below: String,
}

/// Something to open: a folder, and a path below it without links.
#[derive(Debug, Clone)]
pub(super) struct Place<'a> {
    pub(super) folder: BorrowedFd<'a>,
    /// Never empty; `.` is the folder itself.
    pub(super) path: String,
}

impl Place<'_> {
    /// The folder that holds it, and its name there. `None` for an anchor's own folder.
    pub(super) fn split(&self) -> Option<(&str, &str)> {
        match self.path.rsplit_once('/') {
            _ if self.path == "." => None,
            Some((parent, name)) => Some((parent, name)),
            None => Some((".", &self.path)),
        }
    }
}

/// Why there is no place for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// No grant covers it, or a link leads out of all that do.
    NotCovered,
    /// The kernel says no to a path that is covered.
    Kernel(Errno),
}

impl From<Errno> for NoPlace {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

impl Anchor {
    /// Opens the folder of a grant; `None` if not even the root can be opened, or if it leads out of what the program above
    /// may reach.
    fn new(grant: &Grant, outer: &Outer) -> Option<Self> {
        let letters = match grant.scope() {
            Scope::Path(path) | Scope::Database(Database::File(path)) => path.to_string(),
            // No file of the host.
            Scope::Database(Database::Memory | Database::Url(_)) => return None,
            Scope::Any | Scope::Host(_) | Scope::Command(_) | Scope::Name(_) | Scope::Port(_) => {
                "/*".to_owned()
            }
        };
        let pattern = letters.find('*');
        let prefix = match pattern {
            Some(star) => letters[..letters[..star].rfind('/').unwrap_or(0)].to_owned(),
            None => letters.clone(),
        };
        let tail = letters.get(prefix.len()..).unwrap_or_default();
        let prefix = if prefix == "/" { String::new() } else { prefix };
        // A pattern's fixed part is a folder. Another scope is one name, and its folder is the one that holds it.
        let mut at = real_path(&prefix).map(|real| match pattern {
            Some(_) => (real, String::new()),
            None => parted(&real),
        });
        let mut missing = Vec::new();
        let mut above = prefix.as_str();
        while at.is_none() {
            let (upper, name) = above.rsplit_once('/')?;
            missing.push(name);
            above = upper;
            at = real_path(above)
                .map(|real| (real, missing.iter().rev().copied().collect::<Vec<_>>().join("/")));
        }
        let (real, below) = at?;
        let folder = openat2::through_links(fd::cwd(), if real.is_empty() { "/" } else { &real }).ok()?;
        // Where what was opened really is, whatever was swapped meanwhile.
        let real = if outer.is_nobody() { real } else { real_of(folder.as_fd(), ".")? };
        let asked: &[Capability] = match grant.capability() {
            Capability::File => &[Capability::FileRead, Capability::FileWrite],
            other => &[other],
        };
        let fixed = joined(&real, &below);
        let stays = asked.iter().all(|capability| outer.allows(*capability, &fixed, tail));
        stays.then(|| Self { grant: grant.clone(), prefix, folder, real, below })
    }

    /// The place of a path whose letters are in the scope.
    fn by_letters(&self, letters: &str) -> Option<Place<'_>> {
        self.place(beneath(&self.prefix, letters)?)
    }

    /// The place of a path without links, if it is in the scope as that would read without links.
    fn by_real_path(&self, capability: Capability, real: &str) -> Option<Place<'_>> {
        // A scope's letters have none: it would be read as a slash.
        if real.contains('\\') {
            return None;
        }
        let fixed = joined(&self.real, &self.below);
        let rest = beneath(&fixed, real)?;
        let letters = NormalPath::parse(&format!("{}{rest}", self.prefix)).ok()?;
        if covers(&self.grant, capability, &letters) { self.place(rest) } else { None }
    }

    fn place(&self, rest: &str) -> Option<Place<'_>> {
        let path = joined(&self.below, rest.trim_start_matches('/'));
        let path = path.trim_start_matches('/');
        if in_kernel_tree(&joined(&self.real, path)) {
            return None;
        }
        let path = if path.is_empty() { "." } else { path };
        Some(Place { folder: self.folder.as_fd(), path: path.to_owned() })
    }
}

/// What the program above may reach, by real paths. Letters alone don't hold a program below: with a link in a granted
/// folder, a scope that reads as if it were inside leads out.
#[derive(Debug, Clone)]
pub struct Outer(Option<Vec<Known>>);

/// A grant of the program above.
#[derive(Debug, Clone)]
struct Known {
    grant: Grant,
    prefix: String,
    /// Where the prefix really is.
    fixed: String,
}

impl Known {
    /// Whether the grant reaches what stands at a real path, read as if no link led there.
    fn allows(&self, capability: Capability, real: &str, tail: &str) -> bool {
        if self.grant.covers_grant(&Grant::whole(capability)) {
            return true;
        }
        // A scope's letters have none: it would be read as a slash. A star in a real path would be read as a pattern.
        if real.contains(['\\', '*']) {
            return false;
        }
        let Some(rest) = beneath(&self.fixed, real) else { return false };
        let letters = format!("{}{rest}{tail}", self.prefix);
        Grant::new(capability, Some(&letters)).is_ok_and(|asked| self.grant.covers_grant(&asked))
    }
}

impl Outer {
    /// A person starts the program: nothing is above it but the ceiling itself. Not a default: it is the open case.
    #[must_use]
    pub const fn nobody() -> Self {
        Self(None)
    }

    /// A person started the program.
    fn is_nobody(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the program above reaches what stands at a real path: itself, or with a tail all of that below it.
    fn allows(&self, capability: Capability, real: &str, tail: &str) -> bool {
        self.0.as_ref().is_none_or(|known| known.iter().any(|one| one.allows(capability, real, tail)))
    }

    /// Whether what was found on the host may come into the jail of a program below, as `ceiling` has it there.
    pub(crate) fn lets_in(&self, ceiling: &Ceiling, at: &str, real: &str, tail: &str) -> bool {
        [Capability::FileRead, Capability::FileWrite].iter().all(|capability| {
            let asked = Grant::new(*capability, Some(&format!("{at}{tail}")));
            let asked = asked.is_ok_and(|asked| ceiling.covers_grant(&asked));
            !asked || self.allows(*capability, real, tail)
        })
    }
}

/// The grants on files of one jail.
#[derive(Debug)]
pub(super) struct Anchors(Vec<Anchor>);

impl Anchors {
    /// Of a ceiling whose paths are absolute.
    pub(super) fn new(ceiling: &Ceiling, outer: &Outer) -> Self {
        let files = |grant: &&Grant| {
            matches!(
                grant.capability(),
                Capability::File | Capability::FileRead | Capability::FileWrite | Capability::Db
            )
        };
        Self(ceiling.grants().filter(files).filter_map(|grant| Anchor::new(grant, outer)).collect())
    }

    /// For the programs that this one starts.
    pub(super) fn outer(&self) -> Outer {
        let known = |anchor: &Anchor| Known {
            grant: anchor.grant.clone(),
            prefix: anchor.prefix.clone(),
            fixed: joined(&anchor.real, &anchor.below),
        };
        Outer(Some(self.0.iter().map(known).collect()))
    }

    /// The place of a node that is to be opened, links on the way followed if they stay inside.
    ///
    /// `open` is tried on it: what it gives for a path through a link must be ELOOP.
    pub(super) fn node<T>(
        &self,
        capability: Capability,
        path: &NormalPath,
        open: &dyn Fn(&Place<'_>) -> Result<T, Errno>,
    ) -> Result<T, NoPlace> {
        // What isn't there has a real path too: that of the folder, and the name.
        let follow = |place: &Place<'_>| real_of(place.folder, &place.path).or_else(|| real_entry(place));
        self.find(capability, path, open, &follow)
    }

    /// The place of an entry that is to be made or removed: links on the way to its folder are followed if they stay
    /// inside, one at the place itself is the entry.
    pub(super) fn entry<T>(
        &self,
        capability: Capability,
        path: &NormalPath,
        act: &dyn Fn(&Place<'_>) -> Result<T, Errno>,
    ) -> Result<T, NoPlace> {
        self.find(capability, path, act, &real_entry)
    }

    fn find<T>(
        &self,
        capability: Capability,
        path: &NormalPath,
        act: &dyn Fn(&Place<'_>) -> Result<T, Errno>,
        follow: &dyn Fn(&Place<'_>) -> Option<String>,
    ) -> Result<T, NoPlace> {
        let letters = path.to_string();
        let covering = || {
            self.0
                .iter()
                .filter(|anchor| covers(&anchor.grant, capability, path))
                .filter_map(|anchor| anchor.by_letters(if letters == "/" { "" } else { &letters }))
        };
        let mut last = None;
        for place in covering() {
            match act(&place) {
                Ok(done) => return Ok(done),
                Err(errno) => last = Some(errno),
            }
            if last != Some(Errno::ELOOP) {
                continue;
            }
            let Some(real) = follow(&place) else { continue };
            for place in self.0.iter().filter_map(|anchor| anchor.by_real_path(capability, &real)) {
                match act(&place) {
                    Ok(done) => return Ok(done),
                    Err(errno) => last = Some(errno),
                }
            }
        }
        match last {
            // A link that leads out, or to nothing, or that was changed under our eyes.
            Some(Errno::ELOOP | Errno::EXDEV | Errno::EAGAIN) | None => Err(NoPlace::NotCovered),
            Some(errno) => Err(NoPlace::Kernel(errno)),
        }
    }
}

/// Whether a grant covers a path, as a file or as a database.
fn covers(grant: &Grant, capability: Capability, path: &NormalPath) -> bool {
    if capability == Capability::Db {
        grant.covers(capability, Target::Database(&Database::File(path.clone())))
    } else {
        grant.covers(capability, Target::Path(path))
    }
}

/// What is left of `path` below `above`: empty for itself, else with a slash in front.
fn beneath<'a>(above: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(above).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn joined(folder: &str, rest: &str) -> String {
    match (folder, rest) {
        (folder, "") => folder.to_owned(),
        ("", rest) if !rest.starts_with('/') => format!("/{rest}"),
        (folder, rest) => format!("{folder}/{rest}"),
    }
}

/// A real path as its folder and its name.
fn parted(real: &str) -> (String, String) {
    real.rsplit_once('/')
        .map_or((String::new(), String::new()), |(folder, name)| (folder.to_owned(), name.to_owned()))
}

fn in_kernel_tree(path: &str) -> bool {
    KERNEL_TREES.iter().any(|tree| beneath(tree, path).is_some())
}

/// The real path of an entry, whether it is there or not.
fn real_entry(place: &Place<'_>) -> Option<String> {
    let (parent, name) = place.split()?;
    Some(joined(&real_of(place.folder, parent)?, name))
}

/// Where a path of the host leads; the root is empty.
fn real_path(path: &str) -> Option<String> {
    real_of(fd::cwd(), if path.is_empty() { "/" } else { path })
}

/// Where a path below a folder leads, through links; the root is empty.
fn real_of(folder: BorrowedFd<'_>, path: &str) -> Option<String> {
    let handle = openat2::through_links(folder, path).ok()?;
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let real = std::fs::read_link(Path::new(&link)).ok()?.into_os_string().into_string().ok()?;
    if real == "/" { Some(String::new()) } else { Some(real) }
}
