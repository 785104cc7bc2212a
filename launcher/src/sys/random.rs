//! getrandom(2).

use nix::errno::Errno;

/// Fills `bytes`, which are few.
pub(crate) fn fill(bytes: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: the kernel writes at most `bytes.len()` bytes to a slice of that length.
    let done = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    // Up to 256 bytes always come whole (getrandom(2)).
    if Errno::result(done)? as usize == bytes.len() { Ok(()) } else { Err(Errno::EIO) }
}
