//! A text that this process alone has: whatever forks from it finds zeros in its place, and a core dump leaves it out.
//!
//! A fork without an exec begins with a copy of its maker's memory. What must not come along stands here, and nowhere else: it
//! is taken out of the environment, and given to a fork by name only.
//!
//! Source: madvise(2), MADV_WIPEONFORK (Linux 4.14), MADV_DONTDUMP; environ(7), getenv(3), unsetenv(3).

use nix::errno::Errno;
use std::{ffi::CStr, fmt, process, ptr::NonNull, slice};

/// Largest text.
const MOST: usize = 1 << 16;

/// The text; never given back.
pub(crate) struct WipedOnFork {
    place: NonNull<u8>,
    length: usize,
}

// SAFETY: the bytes are written before the value exists, and never again: all that is done with `place` is to read there.
unsafe impl Send for WipedOnFork {}
// SAFETY: as above.
unsafe impl Sync for WipedOnFork {}

impl fmt::Debug for WipedOnFork {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("WipedOnFork").finish_non_exhaustive()
    }
}

impl WipedOnFork {
    /// Takes a variable out of the environment: its value is overwritten where it stood, which is where /proc/PID/environ
    /// shows it as well.
    ///
    /// Invariant: called while the process has one thread, and before anybody has kept a pointer into the environment.
    ///
    /// # Errors
    /// ENAMETOOLONG above 64 KiB, EILSEQ where it is no UTF-8 (it stays as it was), ENOMEM and EINVAL as mmap(2) and
    /// madvise(2) have them.
    pub(crate) fn take(variable: &CStr) -> Result<Option<Self>, Errno> {
        // SAFETY: a C string; one thread (see Invariant), so that nobody changes the environment meanwhile.
        let value = unsafe { libc::getenv(variable.as_ptr()) };
        let Some(value) = NonNull::new(value) else { return Ok(None) };
        // SAFETY: what getenv gives is a C string that stays until the environment changes, which is below.
        let text = unsafe { CStr::from_ptr(value.as_ptr()) };
        let length = text.count_bytes();
        let taken = Self::of(text.to_str().map_err(|_| Errno::EILSEQ)?)?;
        for at in 0..length {
            // SAFETY: within the C string, which is this process's own memory to write to (environ(7)); `text` isn't used any more.
            unsafe { value.add(at).write_volatile(0) };
        }
        // SAFETY: as for getenv.
        Errno::result(unsafe { libc::unsetenv(variable.as_ptr()) })?;
        Ok(Some(taken))
    }

    /// Keeps a copy. The caller sees to the original.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(crate) fn of(text: &str) -> Result<Self, Errno> {
        if text.len() > MOST {
            return Err(Errno::ENAMETOOLONG);
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place that the kernel chooses.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), text.len().max(1), protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        for advice in [libc::MADV_WIPEONFORK, libc::MADV_DONTDUMP] {
            // SAFETY: the mapping made just now.
            Errno::result(unsafe { libc::madvise(page, text.len().max(1), advice) })?;
        }
        let place = NonNull::new(page.cast::<u8>()).ok_or(Errno::EFAULT)?;
        // SAFETY: the mapping has room for the text, and nobody else knows of it.
        unsafe { place.copy_from_nonoverlapping(NonNull::from(text.as_bytes()).cast(), text.len()) };
        Ok(Self { place, length: text.len() })
    }

    /// The text; in a fork that it wasn't lent to, as many zeros.
    pub(crate) fn text(&self) -> &str {
        // SAFETY: so many bytes are mapped there for good, and nobody writes to them.
        let bytes = unsafe { slice::from_raw_parts(self.place.as_ptr(), self.length) };
        // They were a text when they came, and zeros are one.
        str::from_utf8(bytes).unwrap_or_default()
    }

    /// Does what makes a fork, and lets that one have the text.
    ///
    /// # Errors
    /// As madvise(2) has them.
    pub(crate) fn lent<T>(&self, fork: impl FnOnce() -> T) -> Result<T, Errno> {
        self.advise(libc::MADV_KEEPONFORK)?;
        let made = fork();
        // In the fork as well: what it forks in its turn hasn't got it.
        if self.advise(libc::MADV_WIPEONFORK).is_err() {
            // It was so before, so the kernel has no ground to refuse; rather no process than one whose forks all have it.
            process::abort();
        }
        Ok(made)
    }

    fn advise(&self, advice: libc::c_int) -> Result<(), Errno> {
        // SAFETY: the mapping of this value, which stays whatever the advice is.
        Errno::result(unsafe { libc::madvise(self.place.as_ptr().cast(), self.length.max(1), advice) })
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::WipedOnFork;
    use crate::sys::{
        clone::{Side, fork_into},
        process::exit_now,
    };
    use nix::sys::wait::{WaitStatus, waitpid};

    #[test]
    fn a_fork_has_it_only_when_it_was_lent() {
        let kept = WipedOnFork::of("a key that stays").unwrap();
        let ended = |pid| match waitpid(pid, None).unwrap() {
            WaitStatus::Exited(_, code) => code,
            other => panic!("{other:?}"),
        };
        let look = |side| match side {
            Side::Child => exit_now(match kept.text() {
                "a key that stays" => 1,
                wiped if wiped.bytes().all(|byte| byte == 0) => 2,
                _ => 3,
            }),
            Side::Parent { pid, .. } => ended(pid),
        };
        assert_eq!(look(fork_into(0, None).unwrap()), 2);
        assert_eq!(look(kept.lent(|| fork_into(0, None).unwrap()).unwrap()), 1);
        assert_eq!(look(fork_into(0, None).unwrap()), 2, "again, after it was lent");
        assert_eq!(kept.text(), "a key that stays");
    }

    #[test]
    fn texts_of_every_length() {
        for length in [0, 1, 4095, 4096, 4097, 1 << 16] {
            let text = "k".repeat(length);
            assert_eq!(WipedOnFork::of(&text).unwrap().text(), text);
        }
        assert!(WipedOnFork::of(&"k".repeat((1 << 16) + 1)).is_err());
    }
}
