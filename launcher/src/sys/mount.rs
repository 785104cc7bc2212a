//! The mount calls that work on descriptors: open_tree(2), mount_setattr(2), move_mount(2).

use nix::errno::Errno;
use std::{
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// Attributes of one mount, as for mount_setattr(2).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes {
    /// `MOUNT_ATTR_*` bits to set.
    pub(crate) set: u64,
}

/// linux/mount.h
pub(crate) const RDONLY: u64 = 0x1;
/// linux/mount.h
pub(crate) const NOSUID: u64 = 0x2;
/// linux/mount.h
pub(crate) const NODEV: u64 = 0x4;
/// linux/mount.h
pub(crate) const NOEXEC: u64 = 0x8;
/// linux/mount.h
const IDMAP: u64 = 0x0010_0000;
/// linux/mount.h
const OPEN_TREE_CLONE: libc::c_uint = 1;
/// linux/mount.h
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x4;

/// struct mount_attr of linux/mount.h, version 0.
#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// A detached copy of the mount tree at `path`, submounts included.
///
/// Submounts must come along: in a less privileged mount namespace they are locked to their parent.
/// Source: open_tree(2), Linux 5.2; mount_namespaces(7), "Restrictions on mount namespaces".
pub(crate) fn clone_tree(at: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OPEN_TREE_CLONE | libc::O_CLOEXEC as libc::c_uint | libc::AT_RECURSIVE as libc::c_uint;
    // SAFETY: `path` is NUL-terminated and live; the other arguments are plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, at.as_raw_fd(), path.as_ptr(), flags) };
    let fd = Errno::result(fd)?;
    // SAFETY: open_tree succeeded: the descriptor is new and only ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// A detached copy of the mount tree at an absolute path in which no part is a link.
///
/// The path was resolved when the jail was planned: a link that stands there now was put there since, to lead elsewhere.
///
/// # Errors
/// ELOOP for a link, and those of openat2(2) and open_tree(2).
pub(crate) fn clone_resolved_tree(path: &CStr) -> Result<OwnedFd, Errno> {
    let top = super::openat2::resolved(path)?;
    let flags = OPEN_TREE_CLONE
        | libc::O_CLOEXEC as libc::c_uint
        | libc::AT_RECURSIVE as libc::c_uint
        | libc::AT_EMPTY_PATH as libc::c_uint;
    // SAFETY: the empty path is NUL-terminated; the other arguments are plain numbers.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, top.as_raw_fd(), c"".as_ptr(), flags) };
    let fd = Errno::result(fd)?;
    // SAFETY: open_tree succeeded: the descriptor is new and only ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// Sets attributes on a mount and, if `recursive`, on all below it.
///
/// Source: mount_setattr(2), Linux 5.12.
pub(crate) fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: Attributes,
    recursive: bool,
) -> Result<(), Errno> {
    setattr(
        mount,
        c"",
        &MountAttr { attr_set: attributes.set, attr_clr: 0, propagation: 0, userns_fd: 0 },
        recursive,
    )
}

/// Makes owner ids appear through the maps of `userns` on the mount at `path` of a detached one, and, if `recursive`, on all
/// below it.
///
/// Source: mount_setattr(2), "ID-mapped mounts", Linux 5.12 (filesystem by filesystem).
pub(crate) fn set_idmap(
    mount: BorrowedFd<'_>,
    path: &CStr,
    userns: BorrowedFd<'_>,
    recursive: bool,
) -> Result<(), Errno> {
    let attr =
        MountAttr { attr_set: IDMAP, attr_clr: 0, propagation: 0, userns_fd: userns.as_raw_fd() as u64 };
    setattr(mount, path, &attr, recursive)
}

fn setattr(mount: BorrowedFd<'_>, path: &CStr, attr: &MountAttr, recursive: bool) -> Result<(), Errno> {
    let flags =
        libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is NUL-terminated, `attr` is live and of the size passed, the kernel only reads both.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const *attr,
            size_of::<MountAttr>(),
        )
    };
    Errno::result(done).map(drop)
}

/// Attaches a detached mount at `path`, seen from `at`.
///
/// Source: move_mount(2), Linux 5.2.
pub(crate) fn attach(mount: BorrowedFd<'_>, at: BorrowedFd<'_>, path: &CStr) -> Result<(), Errno> {
    // SAFETY: both paths are NUL-terminated and live; the rest are plain numbers.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mount.as_raw_fd(),
            c"".as_ptr(),
            at.as_raw_fd(),
            path.as_ptr(),
            MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    Errno::result(done).map(drop)
}
