//! Descriptors by number: needed only between the fork and the exec.

use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The current folder, for the `*at` calls.
pub(crate) fn cwd() -> BorrowedFd<'static> {
    // SAFETY: AT_FDCWD is a constant that the `*at` calls accept; it is never closed.
    unsafe { BorrowedFd::borrow_raw(libc::AT_FDCWD) }
}

/// Makes `fd` also be number `to`, which stays open over an exec unless `cloexec`.
///
/// Source: dup(2).
pub(crate) fn duplicate_to(fd: BorrowedFd<'_>, to: RawFd, cloexec: bool) -> Result<(), Errno> {
    if fd.as_raw_fd() == to {
        let flags = if cloexec { libc::FD_CLOEXEC } else { 0 };
        // SAFETY: fcntl with F_SETFD takes plain numbers.
        return Errno::result(unsafe { libc::fcntl(to, libc::F_SETFD, flags) }).map(drop);
    }
    // SAFETY: dup3 takes plain numbers; what was open at `to` is replaced on purpose.
    Errno::result(unsafe { libc::dup3(fd.as_raw_fd(), to, if cloexec { libc::O_CLOEXEC } else { 0 }) })
        .map(drop)
}

/// A duplicate with a number of at least `least`, close-on-exec.
///
/// Source: fcntl(2), F_DUPFD_CLOEXEC.
pub(crate) fn duplicate_above(fd: BorrowedFd<'_>, least: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: fcntl with F_DUPFD_CLOEXEC takes plain numbers.
    let new = Errno::result(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, least) })?;
    // SAFETY: fcntl succeeded: the descriptor is new and only ours.
    Ok(unsafe { OwnedFd::from_raw_fd(new) })
}

/// Marks all descriptors from `first` on close-on-exec, whoever opened them.
///
/// Source: close_range(2), CLOSE_RANGE_CLOEXEC, Linux 5.11.
pub(crate) fn close_on_exec_from(first: RawFd) -> Result<(), Errno> {
    close_range(first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Closes the descriptors `first..=last`, whoever opened them.
///
/// Source: close_range(2), Linux 5.9.
pub(crate) fn close_between(first: RawFd, last: RawFd) -> Result<(), Errno> {
    if first > last { Ok(()) } else { close_range(first, last as libc::c_uint, 0) }
}

/// Closes all descriptors from `first` on.
pub(crate) fn close_from(first: RawFd) -> Result<(), Errno> {
    close_range(first, libc::c_uint::MAX, 0)
}

fn close_range(first: RawFd, last: libc::c_uint, flags: libc::c_uint) -> Result<(), Errno> {
    // SAFETY: takes plain numbers; the callers are children that never use what is closed here again.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, last, flags) };
    Errno::result(done).map(drop)
}

/// A descriptor of another process's making that this process owns from now on.
///
/// Invariant: `fd` came from the kernel just now (an SCM_RIGHTS message, an inherited number at program start).
pub(crate) fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: see Invariant; nobody else in this process knows the number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A descriptor by number, without owning it.
///
/// Invariant: the caller keeps `fd` open for as long as the result lives.
pub(crate) fn borrow(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: see Invariant; used between fork and exec, where nothing closes the standard streams meanwhile.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// A descriptor that the caller left open for this process, by its number.
///
/// # Errors
/// EBADF if nothing of the caller's is open there: what this process opened itself is closed by an exec, and what came over
/// one isn't.
pub(crate) fn inherited(fd: RawFd) -> Result<OwnedFd, Errno> {
    // SAFETY: fcntl with F_GETFD takes plain numbers.
    let flags = Errno::result(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(Errno::EBADF);
    }
    Ok(own(fd))
}
