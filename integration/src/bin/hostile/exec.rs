//! Executing something, though only the first exec was granted.

use super::raw::{call, int, leak, leak_words, say, tell};
use nix::errno::Errno;

const EMPTY_PATH: usize = 0x1000;

/// One way each; `nofile` is the number on which the launcher had the program's file.
pub(crate) fn attack(arguments: &[&str]) {
    let Some((way, rest)) = arguments.split_first() else { return };
    let nofile: usize = rest.first().and_then(|word| word.parse().ok()).unwrap_or(256);
    let arguments = leak_words(&[leak(b"hostile") as u64, leak(b"executed") as u64, 0]);
    let environment = leak_words(&[0]);
    match *way {
        // Its own file by its path; where /proc is, by the link.
        "path" => {
            let path = rest.get(1).copied().unwrap_or("/proc/self/exe");
            tell("execve", &call(libc::SYS_execve, [leak(path.as_bytes()), arguments, environment, 0, 0, 0]));
        }
        // The number as the launcher used it: closed by the exec, and a path of one's own at another address.
        "number" => {
            for (name, path) in [("number-empty", leak(b"")), ("number-absolute", own_path(rest))] {
                let answer = call(libc::SYS_execveat, [nofile, path, arguments, environment, EMPTY_PATH, 0]);
                tell(name, &answer);
            }
        }
        // Anything put on the number: the hard limit stands below it.
        "put" => {
            let own = open_own(rest);
            tell("dup2", &call(libc::SYS_dup2, [own, nofile, 0, 0, 0, 0]));
            tell("dup3", &call(libc::SYS_dup3, [own, nofile, 0o2000000, 0, 0, 0]));
            tell("fcntl", &call(libc::SYS_fcntl, [own, libc::F_DUPFD as usize, nofile, 0, 0, 0]));
            tell("below", &call(libc::SYS_dup2, [own, nofile - 1, 0, 0, 0, 0]));
        }
        // The limit raised again.
        "raise" => {
            let more = leak_words(&[nofile as u64 + 1, nofile as u64 + 1]);
            let limit = libc::RLIMIT_NOFILE as usize;
            tell("setrlimit", &call(libc::SYS_setrlimit, [limit, more, 0, 0, 0, 0]));
            tell("prlimit", &call(libc::SYS_prlimit64, [0, limit, more, 0, 0, 0]));
        }
        // The number by other descriptors, and in spellings that a careless comparison takes for it.
        "spellings" => {
            let own = open_own(rest);
            let high = nofile | 1 << 32;
            for (name, number) in [("other", own), ("high-bits", high), ("cwd", int(libc::AT_FDCWD))] {
                let answer =
                    call(libc::SYS_execveat, [number, leak(b""), arguments, environment, EMPTY_PATH, 0]);
                tell(name, &answer);
            }
            let more_flags = EMPTY_PATH | 0x100;
            tell(
                "more-flags",
                &call(libc::SYS_execveat, [nofile, leak(b""), arguments, environment, more_flags, 0]),
            );
            tell("null-path", &call(libc::SYS_execveat, [nofile, 0, arguments, environment, EMPTY_PATH, 0]));
        }
        // Pages mapped wherever the secret path may have stood, each with an absolute path in it: a flood of guesses.
        "guess" => {
            let path = own_path(rest);
            let mut refused = 0_u32;
            for guess in 0..300_usize {
                let at = (path & !0xfff) ^ (guess << 12);
                match call(libc::SYS_execveat, [nofile, at, arguments, environment, EMPTY_PATH, 0]) {
                    Err(Errno::EPERM) => refused += 1,
                    answer => tell("guessed", &answer),
                }
            }
            say("refused", refused);
        }
        // The kernel's own traces of the exec: the program's name, auxiliary vector, stack.
        "traces" => {
            let name = std::fs::read("/proc/self/auxv").map(|bytes| bytes.len());
            say("auxv", name.map_or_else(|error| error.to_string(), |length| format!("{length}")));
            // SAFETY: getauxval reads the vector that the kernel gave this process; the name is a C string on the stack.
            let name =
                unsafe { std::ffi::CStr::from_ptr(libc::getauxval(libc::AT_EXECFN) as *const libc::c_char) };
            say("name", name.to_string_lossy());
        }
        _unknown => say("unknown-way", way),
    }
}

fn own_path(rest: &[&str]) -> usize {
    leak(rest.get(1).copied().unwrap_or("/proc/self/exe").as_bytes())
}

fn open_own(rest: &[&str]) -> usize {
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as usize;
    call(libc::SYS_openat, [int(libc::AT_FDCWD), own_path(rest), flags, 0, 0, 0]).unwrap_or(int(-1))
}
