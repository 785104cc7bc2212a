//! Signals by process descriptor: never to a number that another process may have taken over.
//!
//! Source: pidfd_send_signal(2) (Linux 5.1), pidfd_open(2).

use nix::{errno::Errno, sys::signal::Signal};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sends `signal` to the process of `pidfd`.
///
/// # Errors
/// `ESRCH` once the process has been reaped; `EPERM` if it belongs to somebody else.
pub(crate) fn send_signal(pidfd: BorrowedFd<'_>, signal: Signal) -> Result<(), Errno> {
    // SAFETY: the call reads no memory of ours (the info pointer is null) and `pidfd` is open for its whole length.
    let done = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal as libc::c_int,
            std::ptr::null::<libc::siginfo_t>(),
            0u32,
        )
    };
    Errno::result(done).map(drop)
}

/// Opens a descriptor of a process.
///
/// # Errors
/// `ESRCH` where there is none.
pub(crate) fn open(pid: nix::unistd::Pid) -> Result<std::os::fd::OwnedFd, Errno> {
    // SAFETY: the call takes two integers and reads no memory of ours.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0u32) };
    Errno::result(opened).map(own)
}

/// A copy of another process's descriptor.
///
/// Source: pidfd_getfd(2), Linux 5.6.
///
/// # Errors
/// `EBADF` where nothing is open there, `EPERM` where the process may not be traced, `ESRCH` where it is gone.
pub(crate) fn descriptor_of(process: BorrowedFd<'_>, number: i32) -> Result<std::os::fd::OwnedFd, Errno> {
    // SAFETY: the call takes three integers and reads no memory of ours.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0u32) };
    Errno::result(opened).map(own)
}

fn own(opened: libc::c_long) -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd;
    let opened = i32::try_from(opened).expect("descriptors are small");
    // SAFETY: the kernel has just given us this descriptor, and nobody else has its number.
    unsafe { std::os::fd::OwnedFd::from_raw_fd(opened) }
}
