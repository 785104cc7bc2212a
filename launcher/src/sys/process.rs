//! What a process says of itself: signals, terminal, limits, the end.

use nix::errno::Errno;
use std::{
    convert::Infallible,
    ffi::CStr,
    os::fd::{AsRawFd, BorrowedFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// Pointers to strings, ended by a null pointer, for execveat(2). Made before the fork.
#[derive(Debug)]
pub(crate) struct StringArray {
    pointers: Vec<*const libc::c_char>,
    _strings: Vec<std::ffi::CString>,
}

impl StringArray {
    /// Takes the strings.
    pub(crate) fn new(strings: Vec<std::ffi::CString>) -> Self {
        let mut pointers: Vec<_> = strings.iter().map(|s| s.as_ptr()).collect();
        pointers.push(std::ptr::null());
        Self { pointers, _strings: strings }
    }
}

/// Executes the file that `fd` is open on. Returns only when that failed. `empty` is the empty path at the address that
/// the filter asks for.
///
/// Source: execveat(2), AT_EMPTY_PATH.
pub(crate) fn exec(
    fd: BorrowedFd<'_>,
    empty: &CStr,
    argv: &StringArray,
    environment: &StringArray,
) -> Result<Infallible, Errno> {
    // SAFETY: the path is NUL-terminated; both arrays hold live NUL-terminated strings and end with a null pointer.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            fd.as_raw_fd(),
            empty.as_ptr(),
            argv.pointers.as_ptr(),
            environment.pointers.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    Err(Errno::last())
}

/// Tells the allocator to ask the kernel seldom and to give nothing back: a launcher is small and short, and its heap
/// grows in steps otherwise, with a call and a page fault for each.
///
/// Source: mallopt(3), M_TOP_PAD, M_TRIM_THRESHOLD.
#[cfg(target_env = "gnu")]
pub(crate) fn steady_heap() {
    // SAFETY: takes plain numbers; a refusal changes nothing.
    unsafe {
        libc::mallopt(libc::M_TOP_PAD, 256 * 1024);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 8 * 1024 * 1024);
    }
}

/// Other allocators have no such settings.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn steady_heap() {}

/// What a program needs of its process before anything else: descriptors 0, 1 and 2 open, so that no file of ours gets one
/// of their numbers, and a write to a closed pipe, or beyond the limit on a file's size, as an error instead of the end.
///
/// Source: poll(2), POLLNVAL; signal(7), SIGPIPE and SIGXFSZ; setrlimit(2), RLIMIT_FSIZE.
pub(crate) fn whole_streams() {
    let mut streams = [0, 1, 2].map(|fd| libc::pollfd { fd, events: 0, revents: 0 });
    // SAFETY: an array of live pollfds with its length; looks, and doesn't wait. One that fails tells of no number.
    unsafe { libc::poll(streams.as_mut_ptr(), 3, 0) };
    for libc::pollfd { fd: number, revents, .. } in streams {
        if revents & libc::POLLNVAL != 0 {
            // SAFETY: the path is NUL-terminated. The lowest free number is this one, as those below are open. Without
            // /dev/null there is nothing better to do than to end, as std does.
            if unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) } != number {
                exit_now(125);
            }
        }
    }
    // SAFETY: SIG_IGN installs no handler of ours.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

static BEGAN_BLOCKED: AtomicBool = AtomicBool::new(false);

/// Says that this process is the fork of a supervisor, which had its signals blocked: one that comes before anybody reads them
/// must not end it, or what it has made stays behind.
pub(crate) fn begin_blocked() {
    BEGAN_BLOCKED.store(true, Ordering::Relaxed);
}

/// Whether that was said.
pub(crate) fn began_blocked() -> bool {
    BEGAN_BLOCKED.load(Ordering::Relaxed)
}

/// Ends this process at once, without destructors or buffers: for children between fork and exec.
///
/// Source: _exit(2).
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process; nothing runs afterwards.
    unsafe { libc::_exit(code) }
}

/// Puts the action of `signal` back to the default. The launcher ignores two, and that would survive an exec.
///
/// Source: signal(7); execve(2), "ignored signals stay ignored".
pub(crate) fn default_action(signal: nix::sys::signal::Signal) -> Result<(), Errno> {
    // SAFETY: SIG_DFL installs no handler of ours.
    let before = unsafe { libc::signal(signal as libc::c_int, libc::SIG_DFL) };
    if before == libc::SIG_ERR { Err(Errno::last()) } else { Ok(()) }
}

/// Makes `terminal` the controlling terminal of the calling session leader.
///
/// Source: ioctl_tty(2), TIOCSCTTY.
pub(crate) fn control_terminal(terminal: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: TIOCSCTTY takes a plain number.
    Errno::result(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) }).map(drop)
}

/// The number of a pseudo-terminal from its master, after unlocking it.
///
/// Source: ioctl_tty(2), TIOCSPTLCK, TIOCGPTN.
pub(crate) fn unlock_terminal(master: BorrowedFd<'_>) -> Result<u32, Errno> {
    let mut number: libc::c_uint = 0;
    let unlocked: libc::c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int that lives over the call.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) })?;
    // SAFETY: TIOCGPTN writes one unsigned int that lives over the call.
    Errno::result(unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTN, &raw mut number) })?;
    Ok(number)
}

/// A call that no filter of ours knows, with arguments that the kernel itself would answer with EINVAL.
///
/// Source: clone(2), "clone3()": EINVAL for a size below CLONE_ARGS_SIZE_VER0.
pub(crate) fn unknown_call() -> Errno {
    // SAFETY: a null pointer with size 0 is refused before it is read.
    unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<libc::clone_args>(), 0usize) };
    Errno::last()
}
