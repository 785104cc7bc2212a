//! memfd_create(2): bytes that are handed out as a file.

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
};
use std::{
    fs::File,
    io::{Seek, Write},
    os::fd::OwnedFd,
};

/// An empty one that can be sealed and never executed.
///
/// Source: memfd_create(2), MFD_NOEXEC_SEAL (Linux 6.3; EINVAL before).
pub(crate) fn empty() -> Result<OwnedFd, Errno> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let no_exec = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(c"answer", flags | no_exec) {
        Err(Errno::EINVAL) => memfd_create(c"answer", flags),
        other => other,
    }
}

/// One with these bytes, which nobody can change any more (see [`seal`]), to be read from its start.
pub(crate) fn sealed(bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let mut file = File::from(empty()?);
    let written = file.write_all(bytes).and_then(|()| file.rewind());
    written.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
    seal(file.into())
}

/// One that was written, unchangeable from now on, but that it may be cut short: so its maker takes the memory back when
/// nobody has a right to it any longer.
///
/// # Errors
/// `EBUSY` while somebody has it mapped for writing.
pub(crate) fn seal(file: OwnedFd) -> Result<OwnedFd, Errno> {
    let seals = SealFlag::F_SEAL_SEAL | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}
