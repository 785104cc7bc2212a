//! openat2(2): opening what a hostile process may have left.

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::stat::Mode,
};
use std::{
    ffi::CStr,
    os::fd::{BorrowedFd, OwnedFd},
};

/// Opens a file below `top` for reading, through no link of any kind, without waiting.
///
/// Source: openat2(2), Linux 5.6.
pub(crate) fn beneath(top: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_NOFOLLOW;
    inside(top, path, flags, Mode::empty())
}

/// Opens what is at `path` below `top`, through no link of any kind.
///
/// Source: openat2(2), Linux 5.6. EAGAIN: something was renamed meanwhile.
pub(crate) fn inside(top: BorrowedFd<'_>, path: &str, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
    let resolve =
        ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_SYMLINKS;
    openat2(top, path, OpenHow::new().flags(flags | OFlag::O_CLOEXEC).mode(mode).resolve(resolve))
}

/// A handle on what is at `path`, from `top` on and through links wherever they lead; nothing is opened by it.
pub(crate) fn through_links(top: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, Errno> {
    let how =
        OpenHow::new().flags(OFlag::O_PATH | OFlag::O_CLOEXEC).resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS);
    openat2(top, path, how)
}

/// A handle on what stands at an absolute path, none of whose parts may be a link.
///
/// Source: openat2(2), Linux 5.6.
pub(crate) fn resolved(path: &CStr) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        // Without O_NOFOLLOW, with which O_PATH would open a link itself.
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_MAGICLINKS | ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(super::fd::cwd(), path, how)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::CString, os::unix::ffi::OsStrExt, path::Path};

    #[test]
    fn a_resolved_path_has_no_link_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", top.join("link")).unwrap();
        let open = |path: &Path| resolved(&CString::new(path.as_os_str().as_bytes()).unwrap());
        assert!(open(&top.join("a/b")).is_ok());
        assert_eq!(open(&top.join("link/b")).unwrap_err(), Errno::ELOOP);
        assert_eq!(open(&top.join("link")).unwrap_err(), Errno::ELOOP);
    }
}
