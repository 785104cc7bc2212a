//! openat2(2): opening what a hostile process may have left.

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Opens a file below `top` for reading, through no link of any kind, without waiting.
///
/// Source: openat2(2), Linux 5.6.
pub(crate) fn beneath(top: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW)
        .resolve(
            ResolveFlag::RESOLVE_BENEATH
                | ResolveFlag::RESOLVE_NO_MAGICLINKS
                | ResolveFlag::RESOLVE_NO_SYMLINKS,
        );
    openat2(top, path, how)
}
