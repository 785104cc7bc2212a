//! THE FENCE: the only place with unsafe code. One system call (or call of a C library) a block, safe signatures outside.
#![expect(unsafe_code, reason = "calls that no library wraps; this folder is the fence")]

pub(crate) mod clone;
pub(crate) mod disposition;
pub(crate) mod fd;
pub(crate) mod keyring;
pub(crate) mod linux_caps;
pub(crate) mod memory_file;
pub(crate) mod mount;
pub(crate) mod notify;
pub(crate) mod openat2;
pub(crate) mod pidfd;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod seccomp;
pub(crate) mod secret_page;
pub(crate) mod socket;
pub(crate) mod sqlite_clock;
pub(crate) mod wait;
pub(crate) mod winsize;
pub(crate) mod wiped_on_fork;
