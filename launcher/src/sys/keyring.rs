//! The session keyring.

use nix::errno::Errno;

/// Joins a new anonymous session keyring, so that the caller's can't be searched.
///
/// ENOSYS means a kernel without keyrings: nothing to leave behind.
/// Source: keyctl(2), KEYCTL_JOIN_SESSION_KEYRING; session-keyring(7).
pub(crate) fn new_session() -> Result<(), Errno> {
    /// linux/keyctl.h
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for an anonymous keyring; nothing is read or written in our memory.
    let done = unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<libc::c_char>())
    };
    match Errno::result(done) {
        Ok(_) | Err(Errno::ENOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}
