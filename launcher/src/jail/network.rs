//! The empty network namespace: one prepared and shared by all jails without sockets, or a new one.
//!
//! Making and destroying a network namespace is the dearest step of a start. Jails without sockets and without a /proc
//! can't tell whether theirs is shared: its loopback is down, the filter refuses sockets, and Landlock scopes abstract
//! ones. A /proc would list the others' socket pairs (net/unix), so a jail that has one gets a namespace of its own.
//! Source: network_namespaces(7), setns(2), ioctl_ns(2).

use super::{
    holder::Holder,
    step::{AtStep, Failure, Step},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    mount::MsFlags,
    sched::{CloneFlags, setns},
    sys::{stat::Mode, statfs},
};
use std::{ffi::CString, fs, io, os::fd::OwnedFd, os::unix::fs::MetadataExt, path::Path};

/// The pin: a bind mount of the namespace's file. `umount` and `rm` remove it; the next start makes it anew.
pub const PIN: &str = "/run/thirdwall/empty-network";

/// linux/magic.h
const NSFS_MAGIC: i64 = 0x6e73_6673;

/// Enters the prepared namespace, which is made if it isn't there yet. Root only.
pub(crate) fn enter_shared() -> Result<(), Failure> {
    let namespace = match open_pin() {
        Some(pin) => pin,
        None => make_pin().at(Step::EnterNetwork)?,
    };
    setns(namespace, CloneFlags::CLONE_NEWNET).at(Step::EnterNetwork)
}

/// The pin, if it is a namespace. Only root can write where it stands.
fn open_pin() -> Option<OwnedFd> {
    let pin = open(PIN, OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW, Mode::empty()).ok()?;
    let kind = statfs::fstatfs(&pin).ok()?.filesystem_type();
    (kind.0 as i64 == NSFS_MAGIC).then_some(pin)
}

/// Makes the namespace in a child and pins it.
///
/// Two launchers may do this at once: each mounts on the same file, both namespaces are empty, and the later one is
/// the one that starts find from then on.
fn make_pin() -> Result<OwnedFd, Errno> {
    let errno = |error: io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    let folder = Path::new(PIN).parent().ok_or(Errno::EINVAL)?;
    fs::create_dir_all(folder).map_err(errno)?;
    if fs::symlink_metadata(folder).map_err(errno)?.uid() != 0 {
        return Err(Errno::EPERM);
    }
    fs::OpenOptions::new().create(true).append(true).open(PIN).map_err(errno)?;
    let holder = Holder::of(libc::CLONE_NEWNET)?;
    let path = format!("/proc/{}/ns/net", holder.pid());
    let file = CString::new(path.as_str()).map_err(|_| Errno::EINVAL)?;
    let made = open(file.as_c_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    // Where /run can't be mounted on, the namespace still serves this start.
    let _pinned = nix::mount::mount(Some(path.as_str()), PIN, None::<&str>, MsFlags::MS_BIND, None::<&str>);
    Ok(made)
}
