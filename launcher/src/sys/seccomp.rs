//! Installing a system call filter.
//!
//! Invariant: no allocation: it is called between the clone and the exec.
//! Source: seccomp(2); seccomp_unotify(2); Linux Documentation/userspace-api/seccomp_filter.rst.

use libc::{
    SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_SET_MODE_FILTER, c_int,
    c_ulong, sock_filter, sock_fprog,
};
use nix::errno::Errno;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Confines the calling thread, without a listener: for a filter that notifies nobody (init's).
///
/// # Errors
/// EACCES without no_new_privs, EINVAL for a program that the kernel refuses or when it has no filters.
pub(crate) fn install(program: &[sock_filter]) -> Result<(), Errno> {
    set_mode_filter(0, program).map(drop)
}

/// Confines the calling thread and gives the listener for its notifications, close-on-exec.
///
/// A caller that waits for an answer can then only be killed, not interrupted, once its notification was read
/// (Linux 5.19); older kernels know no such flag, and the supervisor has to expect ENOENT when it answers.
///
/// # Errors
/// As [`install`], and EBUSY when a filter with a listener stands already, EMFILE without a free descriptor.
pub(crate) fn install_with_listener(program: &[sock_filter]) -> Result<OwnedFd, Errno> {
    let listener = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let number = match set_mode_filter(listener | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, program) {
        Err(Errno::EINVAL) => set_mode_filter(listener, program)?,
        other => other?,
    };
    // SAFETY: with the listener's flag a success is a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn set_mode_filter(flags: c_ulong, program: &[sock_filter]) -> Result<RawFd, Errno> {
    let program = sock_fprog {
        len: program.len().try_into().map_err(|_| Errno::E2BIG)?,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel reads `len` instructions from `filter`, which borrows a slice of that length, and writes nothing.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, std::ptr::from_ref(&program))
    };
    let number = Errno::result(result)?;
    c_int::try_from(number).map_err(|_| Errno::EOVERFLOW)
}

#[cfg(test)]
mod tests;
