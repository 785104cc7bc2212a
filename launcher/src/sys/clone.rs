//! clone3(2) and clone(2): the two processes that a start makes.

use nix::{errno::Errno, unistd::Pid};
use std::{
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

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

/// Stack of a child that runs on its parent's memory, with a page below that can't be touched. Takes no memory until used, and
/// is never given back: a process makes one.
#[derive(Debug)]
pub(crate) struct Stack {
    top: *mut libc::c_void,
}

impl Stack {
    const SIZE: usize = 256 * 1024;
    /// At least a page on every platform that is planned.
    const GUARD: usize = 64 * 1024;

    /// Takes the addresses.
    ///
    /// Source: mmap(2), mprotect(2).
    pub(crate) fn new() -> Result<Self, Errno> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let low = unsafe { libc::mmap(ptr::null_mut(), Self::SIZE, protection, flags, -1, 0) };
        if low == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        // SAFETY: the lowest part of the mapping made just now, which nobody uses.
        Errno::result(unsafe { libc::mprotect(low, Self::GUARD, libc::PROT_NONE) })?;
        Ok(Self { top: low.wrapping_byte_add(Self::SIZE) })
    }
}

/// Makes a child that runs `child` on this process's own memory, on `stack`, and returns when it has executed a program or has
/// ended: no page table is copied, and none is torn down by its exec. Descriptors, folder, signals and limits are its own.
///
/// Source: clone(2), CLONE_VM, CLONE_VFORK, CLONE_PIDFD (the pidfd is put where `parent_tid` points).
///
/// Invariant: called by a single-threaded process only. What the child leaves in memory stays; it allocates as it likes, since
/// this process stands still meanwhile.
///
/// # Errors
/// The errno of clone(2).
pub(crate) fn lend_memory(stack: &Stack, mut child: &mut dyn FnMut()) -> Result<(Pid, OwnedFd), Errno> {
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    let argument = (&raw mut child).cast();
    // SAFETY: `stack` is the top of a mapping of its own that nothing else uses; `child` and `pidfd` live until the call
    // returns, which is after the child has left this memory; `enter` never returns.
    let pid = unsafe { libc::clone(enter, stack.top, flags, argument, &raw mut pidfd) };
    let pid = Errno::result(pid)?;
    // SAFETY: clone succeeded with CLONE_PIDFD, so the kernel wrote a descriptor that only we hold.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok((Pid::from_raw(pid), pidfd))
}

extern "C" fn enter(argument: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `lend_memory` passes a pointer to its `child`, which lives as long as this process runs here.
    let child = unsafe { &mut *argument.cast::<&mut dyn FnMut()>() };
    child();
    super::process::exit_now(125)
}
