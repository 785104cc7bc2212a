//! Files that were not granted, by every way that leads to one.

use super::raw::{call, int, leak, say, tell, tell_io, word};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::stat::Mode,
};
use std::{
    fs::{self, File, OpenOptions},
    io::{Read, Write},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

pub(crate) fn attack(arguments: &[&str]) {
    let Some((way, paths)) = arguments.split_first() else { return };
    for path in paths.iter().copied().chain(paths.is_empty().then_some("")) {
        one(way, path);
    }
}

fn one(way: &str, path: &str) {
    match way {
        "read" => {
            let mut head = [0; 64];
            tell_io(path, &File::open(path).and_then(|mut file| file.read(&mut head)));
        }
        "print" => match fs::read(path) {
            Ok(bytes) => {
                String::from_utf8_lossy(&bytes)
                    .split(['\n', '\0'])
                    .filter(|line| !line.is_empty())
                    .for_each(|line| say(path, line));
            }
            Err(error) => tell_io::<()>(path, &Err(error)),
        },
        "list" => match fs::read_dir(path) {
            Ok(entries) => entries.flatten().for_each(|entry| say(path, entry.file_name().to_string_lossy())),
            Err(error) => tell_io::<()>(path, &Err(error)),
        },
        "write" => tell_io(
            path,
            &OpenOptions::new().append(true).open(path).and_then(|mut file| file.write(b"hostile")),
        ),
        "create" => tell_io(path, &File::create(path)),
        "change" => {
            let path_at = leak(path.as_bytes());
            tell("chmod", &call(libc::SYS_fchmodat, [int(libc::AT_FDCWD), path_at, 0o777, 0, 0, 0]));
            tell("chown", &call(libc::SYS_fchownat, [int(libc::AT_FDCWD), path_at, int(-1), int(-1), 0, 0]));
            tell("utimes", &call(libc::SYS_utimensat, [int(libc::AT_FDCWD), path_at, 0, 0, 0, 0]));
            tell("truncate", &call(libc::SYS_truncate, [path_at, 0, 0, 0, 0, 0]));
            tell("unlink", &call(libc::SYS_unlinkat, [int(libc::AT_FDCWD), path_at, 0, 0, 0, 0]));
            tell(
                "setxattr",
                &call(libc::SYS_setxattr, [path_at, leak(b"user.hostile"), leak(b"x"), 1, 0, 0]),
            );
        }
        "through-links" => {
            let _made = std::os::unix::fs::symlink(path, "hostile-link");
            tell_io("symlink", &File::open("hostile-link"));
            let _made = std::os::unix::fs::symlink("/", "hostile-root");
            tell_io("root", &File::open(format!("hostile-root/{path}")));
            tell_io("dots", &File::open(format!("../../../../../../../..{path}")));
            tell_io("own-root", &File::open(format!("/proc/self/root{path}")));
            tell_io("parents-root", &File::open(format!("/proc/1/root{path}")));
            tell_io("own-cwd", &File::open(format!("/proc/self/cwd/../../..{path}")));
            tell_io("hard-link", &fs::hard_link(path, "hostile-hard"));
        }
        // All descriptors, and what they lead to.
        "descriptors" => {
            for number in 0..4096 {
                // SAFETY: only asked about, for the time of one call; a closed number gives EBADF.
                let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
                if fcntl(descriptor, FcntlArg::F_GETFD).is_err() {
                    continue;
                }
                let kind = nix::sys::stat::fstat(descriptor).map_or("unknown".to_owned(), |stat| {
                    match stat.st_mode & libc::S_IFMT {
                        libc::S_IFIFO => "pipe".to_owned(),
                        libc::S_IFDIR => "folder".to_owned(),
                        libc::S_IFSOCK => "socket".to_owned(),
                        libc::S_IFCHR => "device".to_owned(),
                        libc::S_IFREG => "file".to_owned(),
                        other => format!("{other:o}"),
                    }
                });
                say("descriptor", format!("{number} {kind}"));
            }
        }
        // Out by a folder that was left open.
        "by-descriptor" => {
            for number in 3..4096 {
                // SAFETY: as above.
                let folder = unsafe { BorrowedFd::borrow_raw(number) };
                let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
                match nix::fcntl::openat(folder, path, flags, Mode::empty()) {
                    Ok(_opened) => say("by-descriptor", format!("ok {number}")),
                    Err(Errno::EBADF | Errno::ENOTDIR) => {}
                    Err(errno) => say("by-descriptor", format!("{} {number}", word(errno))),
                }
            }
            say("by-descriptor", "done");
        }
        // Standard input was given for reading only; opened anew, it may be for writing.
        "reopen-input" => {
            for name in ["/proc/self/fd/0", "/dev/stdin", "/dev/fd/0"] {
                let opened = OpenOptions::new().write(true).open(name);
                tell_io(name, &opened.and_then(|mut file| file.write(b"overwritten by the jail")));
            }
            let direct = call(libc::SYS_write, [0, leak(b"overwritten"), 11, 0, 0, 0]);
            tell("write-0", &direct);
            tell("truncate-0", &call(libc::SYS_ftruncate, [0, 0, 0, 0, 0, 0]));
        }
        // Reserving and locking what is only to be read.
        "lock" => {
            let file = File::open(path);
            tell_io("open", &file);
            if let Ok(file) = file {
                tell_io("flock", &file.lock());
                tell(
                    "lease",
                    &call(
                        libc::SYS_fcntl,
                        [int(file.as_raw_fd()), libc::F_SETLEASE as usize, libc::F_RDLCK as usize, 0, 0, 0],
                    ),
                );
            }
        }
        // A file that no name leads to, made executable memory.
        "memfd" => {
            // MFD_NOEXEC_SEAL | MFD_ALLOW_SEALING
            match call(libc::SYS_memfd_create, [leak(b"hostile"), 0x8 | 0x2, 0, 0, 0, 0]) {
                Ok(number) => {
                    // SAFETY: the call just gave this descriptor to nobody else.
                    let file = unsafe { OwnedFd::from_raw_fd(number as i32) };
                    say("sealed", "ok");
                    tell("chmod-exec", &call(libc::SYS_fchmod, [number, 0o777, 0, 0, 0, 0]));
                    drop(file);
                }
                Err(errno) => say("sealed", word(errno)),
            }
        }
        _unknown => say("unknown-way", way),
    }
}
