//! THE FENCE: the only place with unsafe code. One system call a block, one block a function, safe signatures.
#![expect(unsafe_code, reason = "system calls that no library wraps; this folder is the fence")]

pub(crate) mod disposition;
pub(crate) mod notify;
pub(crate) mod pidfd;
pub(crate) mod probe;
pub(crate) mod seccomp;
pub(crate) mod secret_page;
pub(crate) mod winsize;
