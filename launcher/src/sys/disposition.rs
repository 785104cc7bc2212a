//! Whether the caller had a signal ignored before we came (nohup, a shell's background job).
//!
//! Source: sigaction(2); POSIX on `nohup` and asynchronous lists.

use nix::sys::signal::Signal;
use std::mem::MaybeUninit;

/// Whether `signal` is ignored by this process. A failed question counts as "no".
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let mut old = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; `old` is writable and as large as the structure that libc fills.
    let done = unsafe { libc::sigaction(signal as libc::c_int, std::ptr::null(), old.as_mut_ptr()) };
    done == 0 && handler(old) == libc::SIG_IGN
}

fn handler(action: MaybeUninit<libc::sigaction>) -> libc::sighandler_t {
    // SAFETY: it was zeroed, which is a valid value of this plain structure, and then filled by the kernel.
    let action = unsafe { action.assume_init() };
    action.sa_sigaction
}
