//! Waiting for processes, with the status as the kernel gives it.
//!
//! Not by nix: its status has a closed list of signals, without the real-time ones, so that the end of a process that
//! was killed by one would be an error.
//! Source: wait4(2), waitid(2) (P_PIDFD since Linux 5.4).

use nix::{errno::Errno, unistd::Pid};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The next child that has ended, with its raw status; none if none has.
///
/// # Errors
/// `ECHILD` if there is no child at all.
pub(crate) fn ended_child() -> Result<Option<(Pid, i32)>, Errno> {
    let mut status = 0;
    // SAFETY: `status` is one int that lives past the call; a null usage is not written.
    let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, std::ptr::null_mut()) };
    let pid = Errno::result(pid)?;
    Ok((pid != 0).then(|| (Pid::from_raw(pid), status)))
}

/// Waits for the process of `pidfd` and collects it.
///
/// # Errors
/// `ECHILD` if it isn't a child of ours.
pub(crate) fn collect(pidfd: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: null info and usage pointers are not written.
    let done = unsafe {
        libc::syscall(
            libc::SYS_waitid,
            libc::P_PIDFD,
            pidfd.as_raw_fd(),
            std::ptr::null_mut::<libc::siginfo_t>(),
            libc::WEXITED,
            std::ptr::null_mut::<libc::rusage>(),
        )
    };
    Errno::result(done).map(drop)
}
