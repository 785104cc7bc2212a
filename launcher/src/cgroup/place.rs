//! Where a group may be made: beneath the caller's own, or the nearest group above it that lends a place.
//!
//! Invariant: the caller's own group comes first, so that limits on the caller hold for its jails too.
//! Invariant: on version 2 no process but this one is ever moved, and it only where it is alone in a group that was lent to
//! it (a service's, with `Delegate=yes`): into a leaf that goes with the group when the service manager removes it.
//! Source: cgroups(7); kernel documents `cgroup-v1/` and `cgroup-v2` ("no internal processes", "delegation").

use super::folder::{read_small, write_value};
use nix::{
    sys::statfs::{CGROUP2_SUPER_MAGIC, statfs},
    unistd::{AccessFlags, access},
};
use policies::facts::CgroupFacts;
use std::{
    borrow::Cow,
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Where hierarchies are mounted. Hosts that mount them elsewhere are treated as having none.
const MOUNTED: &str = "/sys/fs/cgroup";

/// The caller's own groups, read once: a launcher starts one jail, and is not moved meanwhile. The supervisor of a nested
/// jail is a fork that was moved into its parent's group, so it reads for itself.
pub(super) fn own() -> Cow<'static, str> {
    static OWN: OnceLock<(u32, String)> = OnceLock::new();
    let read = || read_small(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let (reader, own) = OWN.get_or_init(|| (std::process::id(), read()));
    if *reader == std::process::id() { Cow::Borrowed(own) } else { Cow::Owned(read()) }
}

/// What this caller may use.
#[must_use]
pub fn look() -> CgroupFacts {
    let own = &*own();
    if is_unified() {
        return match unified(own) {
            Some(place) => {
                let has = |controller: &str| place.controllers.iter().any(|one| one == controller);
                CgroupFacts::V2 { memory: has("memory"), pids: has("pids"), cpu: true }
            }
            None => CgroupFacts::None,
        };
    }
    let [memory, pids, cpu] = controller_places(own).each_ref().map(Option::is_some);
    if memory || pids || cpu { CgroupFacts::V1 { memory, pids, cpu } } else { CgroupFacts::None }
}

/// Version 1: the controllers that limits are held by.
pub(super) const CONTROLLERS: [&str; 3] = ["memory", "pids", "cpuacct"];

/// Version 1: where groups of the controllers may be made, in the order of [`CONTROLLERS`]; looked up once, as [`own`].
pub(super) fn controller_places(own: &str) -> Cow<'static, [Option<PathBuf>; 3]> {
    static PLACES: OnceLock<(u32, [Option<PathBuf>; 3])> = OnceLock::new();
    let look = || CONTROLLERS.map(|controller| controller_place(own, controller));
    let (looker, places) = PLACES.get_or_init(|| (std::process::id(), look()));
    if *looker == std::process::id() { Cow::Borrowed(places) } else { Cow::Owned(look()) }
}

/// Version 1: the folder in which a group of `controller` may be made.
fn controller_place(own: &str, controller: &str) -> Option<PathBuf> {
    let top = Path::new(MOUNTED).join(controller);
    let path = own_path(own, |controllers| controllers.split(',').any(|one| one == controller))?;
    // Inside a container the path may be the host's, which isn't mounted here: then the top is our own group.
    [join(&top, path), top].into_iter().find(|place| is_writable(place) && place.join("tasks").exists())
}

/// A group of the unified hierarchy that may have children.
#[derive(Debug)]
pub(super) struct Unified {
    /// The group.
    pub(super) path: PathBuf,
    /// The controllers that its children have, or can be given.
    pub(super) controllers: Vec<String>,
    /// What has to be written to `cgroup.subtree_control` first, if anything.
    pub(super) enable: Option<String>,
    /// Whether this process stands in the group and has to go into a leaf of it before.
    pub(super) step: Step,
}

/// Whether the caller has to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It stands elsewhere.
    None,
    /// It stands in the group itself, alone.
    Aside,
}

/// The leaf for the launcher itself.
const LEAF: &str = "thirdwall-launcher";

impl Unified {
    /// Makes the group ready for children.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn prepare(&self) -> io::Result<()> {
        if self.step == Step::Aside {
            let leaf = self.path.join(LEAF);
            match std::fs::create_dir(&leaf) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => write_value(&leaf.join("cgroup.procs"), "0")?,
            }
        }
        self.enable
            .as_ref()
            .map_or(Ok(()), |enable| write_value(&self.path.join("cgroup.subtree_control"), enable))
    }
}

/// Version 2: the nearest group, from the caller's own upwards, in which a group may be made.
pub(super) fn unified(own: &str) -> Option<Unified> {
    let top = Path::new(MOUNTED);
    let own = join(top, own_path(own, str::is_empty)?);
    own.ancestors()
        .take_while(|group| group.starts_with(top))
        .find_map(usable)
        .or_else(|| lent(&own, std::process::id()))
}

/// Version 2: the caller's own group, if it may have children once this process, which is alone in it, has stepped aside.
fn lent(own: &Path, this: u32) -> Option<Unified> {
    let files = ["cgroup.procs", "cgroup.subtree_control"];
    if !is_writable(own) || !files.iter().all(|file| is_writable(&own.join(file))) {
        return None;
    }
    if words(&own.join("cgroup.procs")) != [this.to_string()] {
        return None;
    }
    let controllers = wanted(&words(&own.join("cgroup.controllers")));
    let enable = enabling(&controllers, &[])?;
    Some(Unified { path: own.to_owned(), controllers, enable: Some(enable), step: Step::Aside })
}

/// The controllers of a list that jails can use.
fn wanted(list: &[String]) -> Vec<String> {
    ["memory", "pids"]
        .iter()
        .filter(|one| list.iter().any(|two| two == *one))
        .map(|&one| one.into())
        .collect()
}

/// What enables those controllers that aren't there; `None` if all are.
fn enabling(controllers: &[String], there: &[String]) -> Option<String> {
    let missing: Vec<_> =
        controllers.iter().filter(|one| !there.contains(one)).map(|one| format!("+{one}")).collect();
    (!missing.is_empty()).then(|| missing.join(" "))
}

/// Version 2: whether `group` lends a place: its children have the controllers already, or it is the real root, which
/// alone may have processes and children with controllers (it has no `cgroup.type`).
fn usable(group: &Path) -> Option<Unified> {
    if !is_writable(group) || !is_writable(&group.join("cgroup.procs")) {
        return None;
    }
    let there = wanted(&words(&group.join("cgroup.subtree_control")));
    if there.len() == 2 {
        return Some(Unified { path: group.to_owned(), controllers: there, enable: None, step: Step::None });
    }
    if group.join("cgroup.type").exists() {
        return None;
    }
    let controllers = wanted(&words(&group.join("cgroup.controllers")));
    let enable = enabling(&controllers, &there);
    Some(Unified { path: group.to_owned(), controllers, enable, step: Step::None })
}

/// Whether /sys/fs/cgroup is the unified hierarchy itself.
fn is_unified() -> bool {
    statfs(MOUNTED).is_ok_and(|info| info.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// The caller's path in the hierarchy whose controller list `matches`.
fn own_path(own: &str, matches: impl Fn(&str) -> bool) -> Option<&str> {
    own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        matches(controllers).then_some(path)
    })
}

fn join(top: &Path, path: &str) -> PathBuf {
    // A path above a cgroup namespace's root reads `/../..`; nothing of it is mounted here.
    if path.split('/').any(|part| part == "..") {
        return top.to_owned();
    }
    top.join(path.trim_start_matches('/'))
}

fn words(file: &Path) -> Vec<String> {
    read_small(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn is_writable(path: &Path) -> bool {
    access(path, AccessFlags::W_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "9:name=systemd:/\n4:memory:/outer/one\n2:cpu,cpuacct:/x\n0::/init.scope\n";

    #[test]
    fn the_own_path_is_found_by_controller() {
        let of = |controller: &str| own_path(HYBRID, |list| list.split(',').any(|one| one == controller));
        assert_eq!(of("memory"), Some("/outer/one"));
        assert_eq!(of("cpuacct"), Some("/x"));
        assert_eq!(of("pids"), None);
        assert_eq!(own_path(HYBRID, str::is_empty), Some("/init.scope"));
    }

    #[test]
    fn a_path_above_the_namespace_stays_at_the_top() {
        assert_eq!(join(Path::new("/sys/fs/cgroup"), "/../../other"), Path::new("/sys/fs/cgroup"));
        assert_eq!(join(Path::new("/sys/fs/cgroup"), "/a/b"), Path::new("/sys/fs/cgroup/a/b"));
    }

    #[test]
    fn a_group_whose_children_have_both_controllers_lends_a_place() {
        let group = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(group.path().join(name), text).unwrap();
        file("cgroup.procs", "");
        file("cgroup.type", "domain\n");
        file("cgroup.controllers", "cpu memory pids\n");
        file("cgroup.subtree_control", "pids\n");
        assert!(usable(group.path()).is_none(), "a group with processes can't give its children controllers");
        file("cgroup.subtree_control", "memory pids\n");
        assert!(usable(group.path()).unwrap().enable.is_none());
        std::fs::remove_file(group.path().join("cgroup.type")).unwrap();
        file("cgroup.subtree_control", "pids\n");
        assert_eq!(usable(group.path()).unwrap().enable.as_deref(), Some("+memory"));
    }

    #[test]
    fn a_lent_group_is_used_only_by_a_launcher_that_is_alone_in_it() {
        let group = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(group.path().join(name), text).unwrap();
        file("cgroup.subtree_control", "");
        file("cgroup.controllers", "memory pids\n");
        file("cgroup.procs", "71\n72\n");
        assert!(lent(group.path(), 71).is_none(), "somebody else would have to be moved");
        file("cgroup.procs", "71\n");
        let place = lent(group.path(), 71).unwrap();
        assert_eq!((place.enable.as_deref(), place.step), (Some("+memory +pids"), Step::Aside));
        file("cgroup.controllers", "cpu\n");
        assert!(lent(group.path(), 71).is_none());
    }
}
