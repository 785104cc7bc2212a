//! clone3(2): the two forks of a start.

use nix::{errno::Errno, unistd::Pid};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Namespace and behaviour flags of clone3(2), as one word.
pub(crate) type CloneFlags = u64;

/// From linux/sched.h.
const CLONE_INTO_CGROUP: CloneFlags = 0x2_0000_0000;

/// Which side of the fork runs.
#[derive(Debug)]
pub(crate) enum Side {
    /// The one that called, with handles on the new process.
    Parent {
        /// The child as the caller's pid namespace sees it.
        pid: Pid,
        /// Its pidfd.
        pidfd: OwnedFd,
    },
    /// The new process.
    Child,
}

/// Forks into new namespaces and, if given, into a group of cgroup version 2 (its folder; Linux 5.7). The child runs on a
/// copy of the caller's memory, as after fork(2).
///
/// Source: clone(2), section "clone3()"; Linux 5.3 (with `CLONE_PIDFD`, 5.2); cgroups(7).
///
/// Invariant: called by a single-threaded process only, so that no lock of another thread is copied while held.
///
/// # Errors
/// The errno of clone3(2): EPERM and ENOSPC where namespaces are not to be had.
pub(crate) fn fork_into(flags: CloneFlags, group: Option<BorrowedFd<'_>>) -> Result<Side, Errno> {
    let mut pidfd: libc::c_int = -1;
    let mut args = libc::clone_args {
        flags: flags | libc::CLONE_PIDFD as u64 | group.map_or(0, |_| CLONE_INTO_CGROUP),
        pidfd: (&raw mut pidfd) as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: group.map_or(0, |group| group.as_raw_fd() as u64),
    };
    // SAFETY: `args` is a live clone_args of the size passed and `pidfd` outlives the call; without CLONE_VM the
    // child has a copy of this memory and of this stack; the process has one thread (see Invariant).
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>()) };
    match pid {
        ..0 => Err(Errno::last()),
        0 => Ok(Side::Child),
        _ => {
            // SAFETY: clone3 succeeded with CLONE_PIDFD, so the kernel wrote a descriptor that only we hold.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Side::Parent { pid: Pid::from_raw(pid as libc::pid_t), pidfd })
        }
    }
}
