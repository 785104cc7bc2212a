//! Files, opened for a peer that may be anybody.
//!
//! Invariant: only regular files are opened, and what something is, is looked at by a handle before it is opened: a FIFO
//! would make the supervisor wait, a device would act.
//! Invariant: what is made has the mode 0644 or 0755 less the umask, and no bit beyond.

use super::anchor::{Anchors, NoPlace, Outer, Place};
use crate::sys::openat2;
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{AtFlags, OFlag, open, renameat},
    sys::{
        stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat},
        statfs::{FsType, fstatfs},
    },
    unistd::{Gid, Uid, UnlinkatFlags, fchown, geteuid, unlinkat},
};
use policies::{
    broker::{By, How, Listed, MOST_ENTRIES, Refused, Seen, What},
    capability::Capability,
    ceiling::{Ceiling, check_form},
    scope::{Base, Database, NormalPath, Target},
};
use std::{
    ffi::CString,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// File systems that are the kernel's own. Source: linux/magic.h.
const KERNEL_MAGIC: [libc::c_long; 12] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4342_4e50, // smackfs
    0xcafe_4a11, // bpf
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6265_6570, // configfs
    0xde5e_81e4, // efivarfs
];

/// A denial, or another reason to say no.
#[derive(Debug)]
pub(super) struct No {
    pub(super) refused: Refused,
    /// The capability in its check form, where the ceiling says no.
    pub(super) denied: Option<(String, String)>,
}

impl No {
    pub(super) fn kernel(errno: Errno) -> Self {
        let refused = Refused { by: By::Kernel(errno as i32), why: errno.desc().to_owned() };
        Self { refused, denied: None }
    }

    pub(super) fn misuse(why: impl Into<String>) -> Self {
        Self { refused: Refused { by: By::Misuse, why: why.into() }, denied: None }
    }

    pub(super) fn limit(why: impl Into<String>) -> Self {
        Self { refused: Refused { by: By::Limit, why: why.into() }, denied: None }
    }

    pub(super) fn ceiling(capability: Capability, target: Option<&str>) -> Self {
        let check = check_form(capability, target);
        let refused = Refused { by: By::Ceiling, why: format!("{check} is above the host ceiling") };
        Self { refused, denied: Some((check, target.unwrap_or_default().to_owned())) }
    }
}

/// A file that is being written beside its place.
#[derive(Debug)]
struct Begun {
    folder: OwnedFd,
    part: CString,
    name: CString,
}

impl Begun {
    fn abandon(self) {
        let _gone = unlinkat(&self.folder, self.part.as_c_str(), UnlinkatFlags::NoRemoveDir);
    }
}

/// The files of one jail.
#[derive(Debug)]
pub(super) struct Files {
    ceiling: Ceiling,
    base: Base,
    outer: Outer,
    /// Made when the first path comes.
    anchors: Option<Anchors>,
    begun: Option<Begun>,
    serial: u64,
}

impl Files {
    /// `ceiling` has absolute paths.
    pub(super) fn new(ceiling: Ceiling, base: Base, outer: Outer) -> Self {
        Self { ceiling, base, outer, anchors: None, begun: None, serial: 0 }
    }

    /// What the programs that this one starts may reach at most.
    pub(super) fn outer(&mut self) -> Outer {
        self.anchors.get_or_insert_with(|| Anchors::new(&self.ceiling, &self.outer)).outer()
    }

    /// A regular file.
    pub(super) fn open(&mut self, path: &str, how: How) -> Result<OwnedFd, No> {
        let capability = match how {
            How::Read => Capability::FileRead,
            How::Append => Capability::FileWrite,
        };
        let (anchors, path) = self.covered(capability, path)?;
        match how {
            How::Read => {
                found(anchors.node(capability, &path, &|at| regular(at, OFlag::O_RDONLY)), capability, &path)
            }
            How::Append => {
                let flags = OFlag::O_WRONLY | OFlag::O_APPEND;
                let file = open_or_make(
                    || anchors.node(capability, &path, &|at| regular(at, flags)),
                    || {
                        anchors.entry(capability, &path, &|at| {
                            let (folder, name) = parent(at)?;
                            make(folder.as_fd(), &name, flags, None)
                        })
                    },
                );
                found(file, capability, &path)
            }
        }
    }

    /// Begins a file that will take a place whole.
    pub(super) fn replace(&mut self, path: &str) -> Result<OwnedFd, No> {
        if let Some(begun) = self.begun.take() {
            begun.abandon();
        }
        self.serial += 1;
        let part = format!(".thirdwall-{}-{}.part", std::process::id(), self.serial);
        let capability = Capability::FileWrite;
        let (anchors, path) = self.covered(capability, path)?;
        let begin = |at: &Place<'_>, old: Option<&FileStat>| {
            let (folder, name) = parent(at)?;
            let file = make(folder.as_fd(), &part, OFlag::O_WRONLY, old)?;
            Ok((file, Begun { folder, part: c_string(&part)?, name: c_string(&name)? }))
        };
        let over = anchors.node(capability, &path, &|at| {
            let old = stat_regular(at)?;
            begin(at, Some(&old))
        });
        let done = match over {
            Err(NoPlace::Kernel(Errno::ENOENT)) => anchors.entry(capability, &path, &|at| begin(at, None)),
            other => other,
        };
        let (file, begun) = found(done, capability, &path)?;
        self.begun = Some(begun);
        Ok(file)
    }

    /// Puts the begun file to its place.
    pub(super) fn commit(&mut self) -> Result<(), No> {
        let begun = self.begun.take().ok_or_else(|| No::misuse("no file was begun"))?;
        let moved = renameat(&begun.folder, begun.part.as_c_str(), &begun.folder, begun.name.as_c_str());
        moved.map_err(|errno| {
            begun.abandon();
            No::kernel(errno)
        })
    }

    /// What stands at a path.
    pub(super) fn look(&mut self, path: &str) -> Result<Seen, No> {
        let capability = Capability::FileRead;
        let (anchors, path) = self.covered(capability, path)?;
        let seen = anchors.node(capability, &path, &|at| {
            let handle = handle(at, OFlag::empty())?;
            fstat(&handle)
        });
        match seen {
            Ok(stat) => Ok(self::seen(&stat)),
            Err(NoPlace::Kernel(Errno::ENOENT | Errno::ENOTDIR)) => Ok(Seen::NOTHING),
            Err(no) => found(Err(no), capability, &path),
        }
    }

    /// What is in a folder, sorted.
    pub(super) fn list(&mut self, path: &str) -> Result<Vec<Listed>, No> {
        let capability = Capability::FileRead;
        let (anchors, path) = self.covered(capability, path)?;
        let folder = anchors.node(capability, &path, &|at| {
            let handle = handle(at, OFlag::O_DIRECTORY)?;
            reopen(&handle, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
        });
        let mut folder = Dir::from_fd(found(folder, capability, &path)?).map_err(No::kernel)?;
        let top = folder.as_fd().try_clone_to_owned().map_err(|_| No::kernel(Errno::EMFILE))?;
        let mut listed = Vec::new();
        for entry in folder.iter() {
            let entry = entry.map_err(No::kernel)?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if listed.len() == MOST_ENTRIES {
                return Err(No::limit(format!("the folder has more than {MOST_ENTRIES} entries")));
            }
            // It may be gone by now.
            let Ok(stat) = fstatat(&top, name, AtFlags::AT_SYMLINK_NOFOLLOW) else { continue };
            listed.push(Listed {
                name: name.to_string_lossy().into_owned(),
                is_dir: kind(&stat) == SFlag::S_IFDIR,
                size: u64::try_from(stat.st_size).unwrap_or(0),
                changed: stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec),
            });
        }
        listed.sort();
        Ok(listed)
    }

    /// A folder and those to it.
    pub(super) fn make_folder(&mut self, path: &str) -> Result<(), No> {
        let capability = Capability::FileWrite;
        let (anchors, path) = self.covered(capability, path)?;
        let made = anchors.node(capability, &path, &|at| handle(at, OFlag::O_DIRECTORY).map(drop));
        let made = match made {
            Err(NoPlace::Kernel(Errno::ENOENT)) => anchors.entry(capability, &path, &|at| {
                let (folder, name) = parent(at)?;
                make_one(folder.as_fd(), &name)
            }),
            other => other,
        };
        found(made, capability, &path)
    }

    /// One entry less.
    pub(super) fn remove(&mut self, path: &str, what: What) -> Result<(), No> {
        let capability = Capability::FileWrite;
        let (anchors, path) = self.covered(capability, path)?;
        let flag = match what {
            What::File => UnlinkatFlags::NoRemoveDir,
            What::Folder => UnlinkatFlags::RemoveDir,
        };
        let removed = anchors.entry(capability, &path, &|at| {
            let (above, name) = at.split().ok_or(Errno::EBUSY)?;
            let folder = folder_of(at, above)?;
            unlinkat(&folder, name, flag)
        });
        found(removed, capability, &path)
    }

    /// The first of the two checks: the path's letters against the ceiling.
    pub(super) fn covered(
        &mut self,
        capability: Capability,
        path: &str,
    ) -> Result<(&Anchors, NormalPath), No> {
        let absolute = NormalPath::parse(path).and_then(|path| path.absolute(&self.base));
        let absolute = absolute.map_err(|fault| No::misuse(format!("the path is no path: {fault}")))?;
        let database;
        let target = if capability == Capability::Db {
            database = Database::File(absolute.clone());
            Target::Database(&database)
        } else {
            Target::Path(&absolute)
        };
        if !self.ceiling.covers(capability, target) {
            return Err(No::ceiling(capability, Some(&absolute.to_string())));
        }
        Ok((self.anchors.get_or_insert_with(|| Anchors::new(&self.ceiling, &self.outer)), absolute))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(begun) = self.begun.take() {
            begun.abandon();
        }
    }
}

pub(super) fn found<T>(
    found: Result<T, NoPlace>,
    capability: Capability,
    path: &NormalPath,
) -> Result<T, No> {
    found.map_err(|no| match no {
        NoPlace::NotCovered => No::ceiling(capability, Some(&path.to_string())),
        // What the kernel keeps for itself, and what is no file.
        NoPlace::Kernel(Errno::ENOTSUP) => No::misuse(format!("{path} is no regular file")),
        NoPlace::Kernel(errno) => No::kernel(errno),
    })
}

pub(super) fn seen(stat: &FileStat) -> Seen {
    Seen {
        exists: true,
        is_dir: kind(stat) == SFlag::S_IFDIR,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified: stat.st_mtime as f64 + stat.st_mtime_nsec as f64 / 1e9,
    }
}

pub(super) fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

pub(super) fn c_string(text: &str) -> Result<CString, Errno> {
    CString::new(text).map_err(|_| Errno::EINVAL)
}

/// A handle on what is at a place, and not the kernel's own.
pub(super) fn handle(at: &Place<'_>, flags: OFlag) -> Result<OwnedFd, Errno> {
    let handle = openat2::inside(at.folder, &at.path, OFlag::O_PATH | flags, Mode::empty())?;
    let FsType(magic) = fstatfs(&handle)?.filesystem_type();
    if KERNEL_MAGIC.contains(&(magic & 0xffff_ffff)) {
        return Err(Errno::ENOTSUP);
    }
    Ok(handle)
}

pub(super) fn stat_regular(at: &Place<'_>) -> Result<FileStat, Errno> {
    let stat = fstat(handle(at, OFlag::empty())?)?;
    if kind(&stat) == SFlag::S_IFREG { Ok(stat) } else { Err(Errno::ENOTSUP) }
}

/// Opens a regular file.
pub(super) fn regular(at: &Place<'_>, flags: OFlag) -> Result<OwnedFd, Errno> {
    let handle = handle(at, OFlag::empty())?;
    if kind(&fstat(&handle)?) != SFlag::S_IFREG {
        return Err(Errno::ENOTSUP);
    }
    reopen(&handle, flags)
}

/// Opens what a handle is on. Without waiting: a lease of somebody else would hold us for 45 seconds.
fn reopen(handle: &OwnedFd, flags: OFlag) -> Result<OwnedFd, Errno> {
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    open(link.as_str(), flags | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC, Mode::empty())
}

pub(super) fn folder_of(at: &Place<'_>, above: &str) -> Result<OwnedFd, Errno> {
    handle(&Place { folder: at.folder, path: above.to_owned() }, OFlag::O_DIRECTORY)
}

/// The folder that holds a place, made if it isn't there, and the name in it.
pub(super) fn parent(at: &Place<'_>) -> Result<(OwnedFd, String), Errno> {
    let (above, name) = at.split().ok_or(Errno::EISDIR)?;
    match folder_of(at, above) {
        Err(Errno::ENOENT) => {}
        other => return other.map(|folder| (folder, name.to_owned())),
    }
    let mut folder = folder_of(at, ".")?;
    for part in above.split('/') {
        let next = |folder: &OwnedFd| folder_of(&Place { folder: folder.as_fd(), path: ".".into() }, part);
        folder = match next(&folder) {
            Err(Errno::ENOENT) => {
                make_one(folder.as_fd(), part)?;
                next(&folder)?
            }
            other => other?,
        };
    }
    Ok((folder, name.to_owned()))
}

fn make_one(folder: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    match mkdirat(folder, name, Mode::from_bits_truncate(0o755)) {
        Ok(()) => {
            let made = openat2::inside(folder, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY, Mode::empty())?;
            give(&made, folder, None)
        }
        // Somebody else was faster.
        Err(Errno::EEXIST) => Ok(()),
        other => other,
    }
}

/// How often a file is looked for and made anew while others make it and remove it.
const MOST_TURNS: u32 = 16;

/// Opens a file, or makes it where there is none. Somebody else may make it, or remove it, between the two.
pub(super) fn open_or_make<E: From<Errno> + PartialEq>(
    open: impl Fn() -> Result<OwnedFd, E>,
    make: impl Fn() -> Result<OwnedFd, E>,
) -> Result<OwnedFd, E> {
    for _ in 0..MOST_TURNS {
        match open() {
            Err(error) if error == Errno::ENOENT.into() => {}
            other => return other,
        }
        match make() {
            Err(error) if error == Errno::EEXIST.into() => {}
            other => return other,
        }
    }
    Err(Errno::EEXIST.into())
}

/// Makes a file that isn't there.
pub(super) fn make(
    folder: BorrowedFd<'_>,
    name: &str,
    flags: OFlag,
    old: Option<&FileStat>,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
    let file = openat2::inside(folder, name, flags, Mode::from_bits_truncate(0o644))?;
    give(&file, folder, old)?;
    if let Some(old) = old {
        nix::sys::stat::fchmod(&file, Mode::from_bits_truncate(old.st_mode & 0o777))?;
    }
    Ok(file)
}

/// What root makes belongs to whom the file that it replaces belongs, or the folder: as in a jail, where it is mapped.
fn give(made: &OwnedFd, folder: BorrowedFd<'_>, old: Option<&FileStat>) -> Result<(), Errno> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let stat = match old {
        Some(old) => *old,
        None => fstat(folder)?,
    };
    fchown(made, Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}
