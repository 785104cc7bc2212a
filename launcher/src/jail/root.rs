//! The new root: a tmpfs with nothing in it but the plan's nodes, then pivot_root.
//!
//! Invariant: one tmpfs holds the root's own folders and all scratch, so its size is the disk limit of the jail.
//! Its root mount is sealed read-only; scratch folders are mounts of their own on the same tmpfs.
//! Source: mount_namespaces(7), pivot_root(2), tmpfs(5), proc(5).

use super::{
    identity::Trees,
    step::{AtStep, Failure, Step},
};
use crate::sys::{fd, mount};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    mount::{MntFlags, MsFlags, umount2},
    sys::stat::{Mode, SFlag, fchmod, fstat, mkdirat, mknodat, umask},
    unistd::{chdir, pivot_root, symlinkat, write},
};
use policies::{
    plan::{Access, Device, Execute, IdMap, Mount, Node},
    units::Bytes,
};
use std::{
    ffi::{CStr, CString},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// Where the new root is put together. Always there, and never a source of a bind: a folder of the host that was
/// covered here could not be granted.
const BASE: &CStr = c"/proc";

/// One node of the root, with all strings made.
#[derive(Debug)]
pub(crate) struct StagedNode {
    /// Relative to the root.
    at: CString,
    act: Act,
}

#[derive(Debug)]
enum Act {
    Folder,
    Scratch {
        mode: Mode,
        attributes: u64,
    },
    Text(Vec<u8>),
    Link(CString),
    /// `ready` is a detached mount that the parent made, where it takes its rights.
    Bind {
        source: CString,
        attributes: u64,
        ready: Option<OwnedFd>,
    },
    Device(&'static CStr),
    Proc,
    Pts,
}

/// The root as staged.
#[derive(Debug)]
pub(crate) struct StagedRoot {
    nodes: Vec<StagedNode>,
    tmpfs_options: CString,
}

impl StagedRoot {
    /// Makes all strings. `trees` makes the detached mounts, where the children's own rights don't do.
    pub(crate) fn new(mounts: &[Mount], disk: Bytes, mut trees: Option<Trees>) -> Result<Self, Failure> {
        let mut nodes = Vec::with_capacity(mounts.len());
        for (place, Mount { at, node }) in mounts.iter().enumerate() {
            let text = |s: &str| CString::new(s).map_err(|_| Errno::EINVAL).at_item(Step::BuildRoot, place);
            let act = match node {
                Node::Folder => Act::Folder,
                Node::Scratch { execute, mode } => {
                    Act::Scratch { mode: Mode::from_bits_truncate(*mode), attributes: attributes(*execute) }
                }
                Node::Text(content) => Act::Text(content.clone().into_bytes()),
                Node::Link(target) => Act::Link(text(target)?),
                Node::Device(device) => Act::Device(device_path(*device)),
                Node::Proc => Act::Proc,
                Node::Pts => Act::Pts,
                Node::Bind { source, access, execute, idmap } => Act::Bind {
                    source: text(&source.0)?,
                    attributes: attributes(*execute)
                        | match access {
                            Access::ReadOnly => mount::RDONLY,
                            Access::ReadWrite => 0,
                        },
                    ready: trees
                        .as_mut()
                        .map(|trees| match idmap {
                            IdMap::AsIs => Trees::plain(&source.0),
                            IdMap::OwnerIsJailUser => trees.idmapped(&source.0, *access),
                        })
                        .transpose()
                        .at_item(Step::BuildRoot, place)?,
                },
            };
            // The plan has none; one would be walked out of the tmpfs into the host's root.
            if at.0.split('/').any(|part| matches!(part, "." | "..")) {
                return Err(Errno::EINVAL).at_item(Step::BuildRoot, place);
            }
            nodes.push(StagedNode { at: text(at.0.trim_start_matches('/'))?, act });
        }
        // Inodes take kernel memory too: bounded with the size, an empty file of each page and some for the tree.
        let inodes = disk.0 / 4096 + 1024;
        let options = format!("size={},nr_inodes={inodes},mode=755", disk.0);
        let tmpfs_options = CString::new(options).map_err(|_| Errno::EINVAL).at(Step::MakeRoot)?;
        Ok(Self { nodes, tmpfs_options })
    }
}

fn attributes(execute: Execute) -> u64 {
    let plain = mount::NOSUID | mount::NODEV;
    match execute {
        Execute::Allowed => plain,
        Execute::Refused => plain | mount::NOEXEC,
    }
}

const fn device_path(device: Device) -> &'static CStr {
    match device {
        Device::Null => c"/dev/null",
        Device::Zero => c"/dev/zero",
        Device::Full => c"/dev/full",
        Device::Random => c"/dev/random",
        Device::Urandom => c"/dev/urandom",
        Device::Tty => c"/dev/tty",
    }
}

/// Mounts the tmpfs and gives a descriptor on its root.
pub(crate) fn make(root: &StagedRoot) -> Result<OwnedFd, Failure> {
    let step = Step::MakeRoot;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    nix::mount::mount(Some(c"tmpfs"), BASE, Some(c"tmpfs"), flags, Some(root.tmpfs_options.as_c_str()))
        .at(step)?;
    chdir(BASE).at(step)?;
    open(c".", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).at(step)
}

/// Makes the nodes, parents first.
pub(crate) fn build(root: &StagedRoot, top: BorrowedFd<'_>) -> Result<(), Failure> {
    // Modes as the plan has them, whatever the caller's mask.
    let mask = umask(Mode::empty());
    for (place, node) in root.nodes.iter().enumerate() {
        make_node(top, node).at_item(Step::BuildRoot, place)?;
    }
    umask(mask);
    Ok(())
}

fn make_node(top: BorrowedFd<'_>, node: &StagedNode) -> Result<(), Errno> {
    let at = node.at.as_c_str();
    match &node.act {
        Act::Folder => folder(top, at),
        Act::Scratch { mode, attributes } => {
            let made = mkdirat(top, at, *mode);
            let tree = mount::clone_tree(top, at)?;
            mount::set_attributes(tree.as_fd(), mount::Attributes { set: *attributes }, true)?;
            mount::attach(tree.as_fd(), top, at)?;
            match made {
                Err(Errno::EEXIST) => {
                    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
                    fchmod(openat(top, at, flags, Mode::empty())?, *mode)
                }
                made => made,
            }
        }
        Act::Text(content) => {
            let file = file(top, at)?;
            let written = write(&file, content)?;
            if written == content.len() { Ok(()) } else { Err(Errno::ENOSPC) }
        }
        Act::Link(target) => symlinkat(target.as_c_str(), top, at),
        Act::Bind { source, attributes, ready } => {
            let cloned;
            let tree = match ready {
                Some(tree) => tree,
                None => {
                    cloned = mount::clone_resolved_tree(source)?;
                    &cloned
                }
            };
            if fstat(tree)?.st_mode & libc::S_IFMT == libc::S_IFDIR {
                folder(top, at)?;
            } else {
                place(top, at)?;
            }
            mount::set_attributes(tree.as_fd(), mount::Attributes { set: *attributes }, true)?;
            mount::attach(tree.as_fd(), top, at)
        }
        Act::Device(path) => {
            let tree = mount::clone_tree(fd::cwd(), path)?;
            place(top, at)?;
            // Not NODEV, or the node could not be opened. Read-only is about the inode, which is the host's: its times and
            // mode stay, while the device can still be written to.
            let set = mount::RDONLY | mount::NOSUID | mount::NOEXEC;
            mount::set_attributes(tree.as_fd(), mount::Attributes { set }, false)?;
            mount::attach(tree.as_fd(), top, at)
        }
        Act::Proc => {
            folder(top, at)?;
            let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
            // subset=pid: no kernel log, no sysctl, no host facts. hidepid=4: init, which can't be traced, is not
            // even listed (proc(5), "Mount options").
            nix::mount::mount(Some(c"proc"), at, Some(c"proc"), flags, Some(c"subset=pid,hidepid=4"))
        }
        Act::Pts => {
            folder(top, at)?;
            let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
            let options = c"newinstance,ptmxmode=0666,mode=600,max=16";
            nix::mount::mount(Some(c"devpts"), at, Some(c"devpts"), flags, Some(options))
        }
    }
}

fn folder(top: BorrowedFd<'_>, at: &CStr) -> Result<(), Errno> {
    match mkdirat(top, at, Mode::from_bits_truncate(0o755)) {
        Err(Errno::EEXIST) => Ok(()),
        other => other,
    }
}

/// An empty file to mount upon. Inside a bound tree it is there already, and mknod says so even where the tree is
/// read-only or not the caller's to write: opening it would fail.
fn place(top: BorrowedFd<'_>, at: &CStr) -> Result<(), Errno> {
    match mknodat(top, at, SFlag::S_IFREG, Mode::from_bits_truncate(0o644), 0) {
        Err(Errno::EEXIST) => Ok(()),
        other => other,
    }
}

fn file(top: BorrowedFd<'_>, at: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    openat(top, at, flags, Mode::from_bits_truncate(0o644))
}

/// Puts the tmpfs in the place of the host's root, which is gone from this namespace afterwards.
///
/// The two dots put the old root on top of the new one, from where it is detached (pivot_root(2), NOTES).
pub(crate) fn pivot() -> Result<(), Failure> {
    let step = Step::PivotRoot;
    pivot_root(c".", c".").at(step)?;
    umount2(c".", MntFlags::MNT_DETACH).at(step)?;
    chdir(c"/").at(step)
}

/// Makes the root's own mount read-only; the mounts on it keep their own state.
pub(crate) fn seal() -> Result<(), Failure> {
    let step = Step::SealRoot;
    let root = open(c"/", OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()).at(step)?;
    let set = mount::RDONLY | mount::NOSUID | mount::NODEV | mount::NOEXEC;
    mount::set_attributes(root.as_fd(), mount::Attributes { set }, false).at(step)
}
