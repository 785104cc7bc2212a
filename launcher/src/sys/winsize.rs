//! The size of a terminal's window.
//!
//! Source: ioctl_tty(2), TIOCGWINSZ and TIOCSWINSZ.

use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Asks for the size.
///
/// # Errors
/// `ENOTTY` if `terminal` is none.
pub(crate) fn get(terminal: BorrowedFd<'_>) -> Result<libc::winsize, Errno> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one `winsize`, and `size` is one that lives past the call.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    Errno::result(done).map(|_| size)
}

/// Sets the size; the kernel sends SIGWINCH to the foreground group if it changed.
///
/// # Errors
/// `ENOTTY` if `terminal` is none.
pub(crate) fn set(terminal: BorrowedFd<'_>, size: libc::winsize) -> Result<(), Errno> {
    // SAFETY: TIOCSWINSZ reads one `winsize`, and `size` is one that lives past the call.
    let done = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    Errno::result(done).map(drop)
}
