//! What the host can do, asked once: on the way to a start only what the plan needs, for `doctor` all of it.
//!
//! Invariant: nothing on the host changes. `fast` makes no process and takes well under a tenth of a millisecond; a
//! host that refuses user namespaces shows it when the jail is cloned, and [`user_namespace_refusal`] explains that.
//! Source: user_namespaces(7); landlock(7); capabilities(7); Linux Documentation/admin-guide/sysctl/user.rst.

use crate::{cgroup, sys::probe};
use caps::{CapSet, Capability};
use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, getrlimit},
        utsname::uname,
    },
    unistd::{getegid, geteuid},
};
use policies::facts::{Caller, HostFacts};
use std::{fs, path::Path};

/// What a root caller needs of its Linux capabilities to build the jail as root does: mounts and namespaces, other ids.
const ROOT_NEEDS: [Capability; 3] =
    [Capability::CAP_SYS_ADMIN, Capability::CAP_SETUID, Capability::CAP_SETGID];

/// The facts that a start needs. Whether user namespaces can be made is taken for granted.
#[must_use]
pub fn fast() -> HostFacts {
    let kernel = kernel_release();
    let caller = caller();
    let root = caller == Caller::Root;
    HostFacts {
        arch: std::env::consts::ARCH.into(),
        landlock_abi: probe::landlock_abi(),
        seccomp: probe::seccomp_notifies(),
        user_namespaces: Ok(()),
        shared_network_namespace: root,
        idmapped_mounts: root && at_least(&kernel, 5, 12),
        caller,
        cgroup: cgroup::look(),
        nofile_hard: getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(_soft, hard)| hard),
        kernel,
    }
}

/// All facts; makes one short-lived process to see whether namespaces can be made.
#[must_use]
pub fn full() -> HostFacts {
    HostFacts { user_namespaces: user_namespaces(), ..fast() }
}

fn user_namespaces() -> Result<(), String> {
    let all = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    probe::try_clone(all).map_err(user_namespace_refusal)?;
    // AppArmor lets such a process be made, and then takes its rights away: only the setting tells.
    if caller() != Caller::Root && setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        return Err(
            "AppArmor gives user namespaces no rights (kernel.apparmor_restrict_unprivileged_userns = 1)"
                .into(),
        );
    }
    Ok(())
}

/// Why a clone with a new user namespace gave `errno`, as a sentence for people.
#[must_use]
pub fn user_namespace_refusal(errno: Errno) -> String {
    let cause = match errno {
        Errno::ENOSPC | Errno::EUSERS => match setting("user/max_user_namespaces") {
            Some(0) => "user.max_user_namespaces is 0",
            _ => "a limit on namespaces is reached (user.max_*_namespaces, or 32 levels of nesting)",
        },
        Errno::EPERM if setting("kernel/unprivileged_userns_clone") == Some(0) => {
            "kernel.unprivileged_userns_clone is 0"
        }
        Errno::EPERM if setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) => {
            "kernel.apparmor_restrict_unprivileged_userns is 1"
        }
        Errno::EPERM | Errno::EACCES | Errno::ENOSYS => {
            "the filter or security module of the container that thirdwall runs in, or a chroot, refuses it"
        }
        Errno::EINVAL => "the kernel was built without user namespaces",
        _ => "the kernel refuses it",
    };
    format!("{cause} ({errno})")
}

/// A numeric kernel setting; `None` where the kernel has no such one.
fn setting(name: &str) -> Option<u64> {
    fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?.trim().parse().ok()
}

/// Root is root of the host's own user namespace with the Linux capabilities that it takes: the root of a container
/// without them is a user like any other.
fn caller() -> Caller {
    let (uid, gid) = (geteuid(), getegid());
    let able = || ROOT_NEEDS.iter().all(|one| caps::has_cap(None, CapSet::Effective, *one).unwrap_or(false));
    if uid.is_root() && able() && fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_whole(&map)) {
        return Caller::Root;
    }
    Caller::User { uid: uid.as_raw(), gid: gid.as_raw() }
}

/// Whether an id map is the one of the host's own user namespace.
fn is_whole(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// The release up to the first thing that isn't a number: `6.18.44`.
fn kernel_release() -> String {
    let name = uname().ok();
    let release = name.as_ref().and_then(|name| name.release().to_str()).unwrap_or("0");
    numeric(release).to_owned()
}

fn numeric(release: &str) -> &str {
    let end = release.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(release.len());
    release.get(..end).unwrap_or(release).trim_end_matches('.')
}

/// Whether a release is that version or a newer one.
#[must_use]
pub(crate) fn at_least(kernel: &str, major: u32, minor: u32) -> bool {
    let mut numbers = kernel.split('.').map_while(|part| part.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(numeric("6.18.44-fc-v657"), "6.18.44");
        assert_eq!(numeric("6.1.0-28-amd64"), "6.1.0");
        assert_eq!(numeric("5.15.-rc1"), "5.15");
        assert!(at_least("5.12.0", 5, 12) && at_least("6.1", 5, 12) && at_least("5.100", 5, 12));
        assert!(!at_least("5.9.1", 5, 12) && !at_least("4.19", 5, 0) && !at_least("", 1, 0));
    }

    #[test]
    fn only_the_whole_id_map_is_the_hosts() {
        assert!(is_whole("         0          0 4294967295\n"));
        assert!(!is_whole("         0     100000      65536\n"));
        assert!(!is_whole(""));
    }

    #[test]
    fn what_is_asked_here_holds_here() {
        let facts = fast();
        assert_eq!(facts.arch, std::env::consts::ARCH);
        assert!(at_least(&facts.kernel, 4, 0), "{}", facts.kernel);
        assert_eq!(facts.caller == Caller::Root, facts.shared_network_namespace);
        assert!(facts.nofile_hard > 0);
        let all = full();
        assert_eq!(HostFacts { user_namespaces: Ok(()), ..all }, facts);
    }

    #[test]
    fn each_refusal_has_a_cause_and_the_errno() {
        for errno in [Errno::ENOSPC, Errno::EPERM, Errno::EINVAL, Errno::ENOMEM] {
            let text = user_namespace_refusal(errno);
            assert!(text.contains(&errno.to_string()), "{text}");
        }
    }
}
