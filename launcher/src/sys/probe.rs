//! Questions that only the kernel can answer, none of which changes anything.
//!
//! Source: landlock_create_ruleset(2); seccomp(2), SECCOMP_GET_ACTION_AVAIL; clone(2).

use nix::{
    errno::Errno,
    sys::wait::{WaitStatus, waitpid},
    unistd::Pid,
};

/// The Landlock ABI, 0 where there is none (not built in, or not in the kernel's `lsm=` list).
pub(crate) fn landlock_abi() -> u32 {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1; // linux/landlock.h
    // SAFETY: with the version flag the attribute has to be null and is not read.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

/// Whether the kernel has filters that can notify (Linux 5.0).
pub(crate) fn seccomp_notifies() -> bool {
    let action: u32 = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: the kernel reads one u32 from the pointer, which is one.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    result == 0
}

/// Makes a child with these CLONE_NEW* flags that ends at once.
///
/// # Errors
/// What clone gives; EPERM also when the child could not be what was asked for.
pub(crate) fn try_clone(flags: libc::c_int) -> Result<(), Errno> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with no stack this is a fork; no thread state is shared, and the other pointers are
    // for flags that are not set. The child makes one call, _exit, which is async-signal-safe.
    let pid = Errno::result(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
    if pid == 0 {
        leave();
    }
    let pid = libc::pid_t::try_from(pid).map_err(|_| Errno::EOVERFLOW)?;
    match waitpid(Pid::from_raw(pid), None)? {
        WaitStatus::Exited(_, 0) => Ok(()),
        _other => Err(Errno::EPERM),
    }
}

fn leave() -> ! {
    // SAFETY: ends the process; nothing runs afterwards.
    unsafe { libc::_exit(0) }
}
