//! The filter's notifications: take one, refuse it, or let a call that was only to be seen go on.
//!
//! Invariant: [`go_on`] is no way to decide. What pointers lead to can change between our look and the kernel's, so it is for
//! calls that are let go whatever was seen.
//! Source: seccomp_unotify(2) (Linux 5.0). The request numbers encode the structures' sizes, so that a kernel with
//! larger ones would have new numbers.

use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// One call that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The kernel's name for it.
    id: u64,
    /// System call number, of the native architecture.
    pub(crate) nr: i32,
    /// The thread that made it, as we see it. The number may be another one's as soon as the caller is killed.
    pub(crate) thread: u32,
    /// Its arguments, as they were when the filter ran.
    pub(crate) args: [u64; 6],
}

/// Takes the next notification.
///
/// # Errors
/// `ENOENT` if the caller died meanwhile, `EAGAIN` or `EINTR` if there is nothing to take.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> Result<Notice, Errno> {
    let mut notice = libc::seccomp_notif {
        id: 0,
        pid: 0,
        flags: 0,
        data: libc::seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] },
    };
    // SAFETY: the request writes one `seccomp_notif`, and `notice` is one, zeroed as the kernel demands.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut notice) };
    Errno::result(done).map(|_| Notice {
        id: notice.id,
        nr: notice.data.nr,
        thread: notice.pid,
        args: notice.data.args,
    })
}

/// From `linux/seccomp.h`: who waits for notifications is woken on the processor of the caller, and the caller on ours.
const SYNC_WAKE_UP: u64 = 1;

/// Makes a notification and its answer cheap: the two processes take turns on one processor, and none is woken on another.
///
/// Source: `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` in `linux/seccomp.h` (Linux 6.6); older kernels say ENOTTY or EINVAL, and wake as
/// they did.
pub(crate) fn take_turns(listener: BorrowedFd<'_>) {
    // SAFETY: the request takes a word of flags as its argument, and no pointer.
    let _faster =
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
}

/// Whether the caller still waits: only then what was read by its number was its own.
pub(crate) fn waits(listener: BorrowedFd<'_>, notice: &Notice) -> bool {
    // SAFETY: the request reads one u64, the notification's name.
    let done = unsafe {
        libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const notice.id)
    };
    done == 0
}

/// Lets the call be made, as if no filter had been asked.
///
/// # Errors
/// `ENOENT` if the caller died meanwhile.
pub(crate) fn go_on(listener: BorrowedFd<'_>, notice: &Notice) -> Result<(), Errno> {
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error: 0, flags };
    // SAFETY: the request reads one `seccomp_notif_resp`, and `answer` is one that lives past the call.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    Errno::result(done).map(drop)
}

/// Answers with EPERM.
///
/// # Errors
/// `ENOENT` if the caller died meanwhile.
pub(crate) fn refuse(listener: BorrowedFd<'_>, notice: Notice) -> Result<(), Errno> {
    let mut answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error: -libc::EPERM, flags: 0 };
    // SAFETY: the request reads one `seccomp_notif_resp`, and `answer` is one that lives past the call.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    Errno::result(done).map(drop)
}
