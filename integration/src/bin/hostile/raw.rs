//! The one place from which system calls are made, and the one way in which answers are printed.

use nix::errno::Errno;
use std::io::Write;

/// Any system call with any arguments.
pub(crate) fn call(number: i64, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: none of the calls made here changes memory that Rust believes unchanged: pointers lead to leaked buffers
    // (see `leak`) or to nothing, and a fork's child makes only further calls from here and ends.
    let answer = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    usize::try_from(answer).map_err(|_negative| Errno::last())
}

/// Bytes that stay where they are for the rest of the process, zero-terminated; their address.
pub(crate) fn leak(bytes: &[u8]) -> usize {
    let mut owned = bytes.to_vec();
    owned.push(0);
    // 8 more, so that a kernel that reads a little further than told stays inside; aligned by the allocator.
    owned.extend([0; 8]);
    let leaked: &'static mut [u8] = Box::leak(owned.into_boxed_slice());
    leaked.as_mut_ptr().expose_provenance()
}

/// Words, likewise, aligned for anything.
pub(crate) fn leak_words(words: &[u64]) -> usize {
    let leaked: &'static mut [u64] = Box::leak(words.to_vec().into_boxed_slice());
    leaked.as_mut_ptr().expose_provenance()
}

/// A descriptor or a negative number, as the kernel reads it.
pub(crate) fn int(number: i32) -> usize {
    number as isize as usize
}

/// A descriptor by its number, for whoever has it to himself.
pub(crate) fn own(number: i32) -> std::fs::File {
    use std::os::fd::FromRawFd;
    // SAFETY: the callers name a descriptor that was put there for them, or that a call has just given them, once.
    std::fs::File::from(unsafe { std::os::fd::OwnedFd::from_raw_fd(number) })
}

/// Prints one answer.
pub(crate) fn say(name: &str, answer: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // A closed output is no reason to stop attacking.
    let _said = writeln!(out, "{name} {answer}").and_then(|()| out.flush());
}

/// Prints how a call ended.
pub(crate) fn tell<T>(name: &str, answer: &Result<T, Errno>) {
    match answer {
        Ok(_) => say(name, "ok"),
        Err(errno) => say(name, word(*errno)),
    }
}

/// Likewise for std's calls.
pub(crate) fn tell_io<T>(name: &str, answer: &std::io::Result<T>) {
    match answer {
        Ok(_) => say(name, "ok"),
        Err(error) => {
            say(name, error.raw_os_error().map_or("failed".into(), |raw| word(Errno::from_raw(raw))))
        }
    }
}

/// `EPERM`, not a sentence.
pub(crate) fn word(errno: Errno) -> String {
    format!("{errno:?}")
}
