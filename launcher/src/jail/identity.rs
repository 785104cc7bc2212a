//! Who the payload is: id maps, the unused host id, idmapped mounts, Linux capabilities.
//!
//! Source: user_namespaces(7), capabilities(7), mount_setattr(2) "ID-mapped mounts".

use super::{
    holder::Holder,
    step::{AtStep, Failure, Step},
};
use crate::sys::{linux_caps, mount, process};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        signal::Signal,
        stat::{Mode, fstat},
    },
    unistd::{Pid, write},
};
use policies::plan::{Access, Identity, Outside};
use std::{
    ffi::CString,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
};

/// First of the host ids that a jail of a root caller may take: above all that distributions and systemd hand out
/// (systemd's "Users, Groups, UIDs and GIDs" page: containers end at 0x6FFFFFFF), below 2^31.
const FIRST_UNUSED: u32 = 0x7000_0000;

/// The ids that stand for the jail's user on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostIds {
    /// User.
    pub(crate) uid: u32,
    /// Group.
    pub(crate) gid: u32,
}

impl HostIds {
    /// Chosen for this launcher. Two launchers alive at one time have two pids, hence two ids, so that neither
    /// signals nor process limits of one jail meet another's.
    pub(crate) fn choose(identity: Identity) -> Self {
        match identity.outside {
            Outside::Caller => {
                Self { uid: nix::unistd::geteuid().as_raw(), gid: nix::unistd::getegid().as_raw() }
            }
            Outside::Unused => {
                // pid_max is at most 2^22 (proc_sys_kernel(5)).
                let own = std::process::id() & 0x3f_ffff;
                Self { uid: FIRST_UNUSED + own, gid: FIRST_UNUSED + own }
            }
        }
    }
}

/// Writes the maps of `pid`'s new user namespace: one id inside, one outside. `drops_groups` as [`may_drop_groups`] said.
pub(crate) fn write_maps(
    pid: Pid,
    inside: (u32, u32),
    outside: HostIds,
    drops_groups: bool,
) -> Result<(), Errno> {
    if !drops_groups {
        // Without it an unprivileged caller may not write a group map (user_namespaces(7)).
        write_proc(pid, "setgroups", "deny")?;
    }
    write_proc(pid, "uid_map", &format!("{} {} 1", inside.0, outside.uid))?;
    write_proc(pid, "gid_map", &format!("{} {} 1", inside.1, outside.gid))
}

/// Whether groups can be dropped in a new user namespace. A caller who is root of the host's own user namespace can, as nobody
/// refuses setgroups(2) there (user_namespaces(7)).
pub(crate) fn drops_groups(identity: Identity) -> bool {
    match identity.outside {
        Outside::Unused => true,
        Outside::Caller => may_drop_groups(),
    }
}

/// Whether groups can be dropped in a new user namespace: not by an ordinary user, nor by the root of a container that
/// was made by one, where the kernel refuses setgroups(2) for good.
fn may_drop_groups() -> bool {
    let denied = || std::fs::read("/proc/self/setgroups").is_ok_and(|state| state.starts_with(b"deny"));
    nix::unistd::geteuid().is_root() && !denied()
}

fn write_proc(pid: Pid, name: &str, content: &str) -> Result<(), Errno> {
    let path = CString::new(format!("/proc/{pid}/{name}")).map_err(|_| Errno::EINVAL)?;
    let file = open(path.as_c_str(), OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    write(&file, content.as_bytes()).map(drop)
}

/// Detached copies of host trees, for a caller whose jail has another id on the host than the caller itself: the jail's
/// user may not even be allowed to walk to them.
#[derive(Debug)]
pub(crate) struct Trees {
    host: HostIds,
    /// User namespaces that exist only for their maps, by the ids that they translate.
    translations: Vec<((u32, u32), OwnedFd)>,
}

impl Trees {
    /// For a jail that is `host` outside.
    pub(crate) fn new(host: HostIds) -> Self {
        Self { host, translations: Vec::new() }
    }

    /// The tree at `source`.
    pub(crate) fn plain(source: &str) -> Result<OwnedFd, Errno> {
        let path = CString::new(source).map_err(|_| Errno::EINVAL)?;
        mount::clone_resolved_tree(&path)
    }

    /// The tree at `source`, on which the owner of its top appears as the jail's user.
    ///
    /// Some filesystems can't do that (overlayfs; tmpfs before Linux 6.3). There a tree that is only read, and that
    /// everybody may read as its owner may, is taken as it is: the jail's user is one of everybody.
    pub(crate) fn idmapped(&mut self, source: &str, access: Access) -> Result<OwnedFd, Errno> {
        let tree = Self::plain(source)?;
        let owner = fstat(&tree)?;
        let (uid, gid) = (owner.st_uid, owner.st_gid);
        if (uid, gid) == (self.host.uid, self.host.gid) {
            return Ok(tree);
        }
        if !self.translations.iter().any(|(known, _)| *known == (uid, gid)) {
            self.translations.push(((uid, gid), user_namespace((uid, gid), self.host)?));
        }
        let (_, userns) =
            self.translations.iter().find(|(known, _)| *known == (uid, gid)).ok_or(Errno::ENOENT)?;
        match mount::set_idmap(tree.as_fd(), c"", userns.as_fd(), true) {
            Err(Errno::EINVAL) if access == Access::ReadOnly && is_for_everybody(owner.st_mode) => Ok(tree),
            Err(Errno::EINVAL) => one_by_one(&tree, source, userns.as_fd()).map(|()| tree),
            done => done.map(|()| tree),
        }
    }
}

/// As the whole tree can't be translated, its top, and each mount below that can. The others show the host's ids, under
/// which the jail's user is a stranger: it reaches less there, never more.
fn one_by_one(tree: &OwnedFd, source: &str, userns: BorrowedFd<'_>) -> Result<(), Errno> {
    mount::set_idmap(tree.as_fd(), c"", userns, false)?;
    let top = std::fs::canonicalize(source).map_err(|_| Errno::EINVAL)?;
    let mounts = procfs::process::Process::myself().and_then(|this| this.mountinfo());
    for mount in mounts.map_err(|_| Errno::EINVAL)? {
        let Ok(below) = mount.mount_point.strip_prefix(&top) else { continue };
        if !below.as_os_str().is_empty()
            && let Ok(path) = CString::new(below.as_os_str().as_bytes())
        {
            let _tried = mount::set_idmap(tree.as_fd(), &path, userns, false);
        }
    }
    Ok(())
}

/// Whether others may read and execute what the owner may.
const fn is_for_everybody(mode: libc::mode_t) -> bool {
    let owner = (mode >> 6) & 0o5;
    mode & owner == owner
}

/// A user namespace that exists only for its maps: a child makes it, and its descriptor keeps it.
fn user_namespace(inside: (u32, u32), outside: HostIds) -> Result<OwnedFd, Errno> {
    let holder = Holder::of(libc::CLONE_NEWUSER)?;
    write_maps(holder.pid(), inside, outside, may_drop_groups())?;
    let path = CString::new(format!("/proc/{}/ns/user", holder.pid())).map_err(|_| Errno::EINVAL)?;
    open(path.as_c_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
}

/// Becomes the jail's user, with no supplementary group where the kernel lets a process drop them.
///
/// The namespace's Linux capabilities stay: uid 0 is not mapped, so no change of ids is one away from root.
pub(crate) fn become_user(uid: u32, gid: u32, drop_groups: bool) -> Result<(), Failure> {
    let step = Step::BecomeUser;
    if drop_groups {
        nix::unistd::setgroups(&[]).at(step)?;
    }
    let (uid, gid) = (nix::unistd::Uid::from_raw(uid), nix::unistd::Gid::from_raw(gid));
    nix::unistd::setresgid(gid, gid, gid).at(step)?;
    nix::unistd::setresuid(uid, uid, uid).at(step)
}

/// Empties the bounding set, which takes CAP_SETPCAP: before the rest goes.
pub(crate) fn empty_bounding_set() -> Result<(), Failure> {
    linux_caps::empty_bounding_set().at(Step::BoundingSet)
}

/// Empties the other four sets of Linux capabilities.
pub(crate) fn drop_linux_caps() -> Result<(), Failure> {
    linux_caps::empty_other_sets().at(Step::DropLinuxCaps)
}

/// Takes the traces of the launcher from what others in the jail could read of this process.
pub(crate) fn not_dumpable() -> Result<(), Failure> {
    nix::sys::prctl::set_dumpable(false).at(Step::NotDumpable)
}

/// See [`process::default_action`].
pub(crate) fn default_signals() -> Result<(), Errno> {
    process::default_action(Signal::SIGPIPE)?;
    process::default_action(Signal::SIGXFSZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_may_what_the_owner_may() {
        for mode in [0o755, 0o644, 0o777, 0o444, 0o005, 0o000, 0o100_755, 0o200] {
            assert!(is_for_everybody(mode), "{mode:o}");
        }
        for mode in [0o700, 0o600, 0o754, 0o711, 0o640, 0o750, 0o100_700] {
            assert!(!is_for_everybody(mode), "{mode:o}");
        }
    }
}
