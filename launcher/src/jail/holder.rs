//! A child that does nothing but hold new namespaces, for as long as its maker wants them.
//!
//! Invariant: it never outlives its maker, however that ends: it reads from a pipe whose only writer is the maker.
//! Source: namespaces(7), "Namespace lifetime".

use crate::sys::{
    clone::{self, Side},
    process::exit_now,
};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::{signal::Signal, wait::waitpid},
    unistd::{Pid, pipe2, read},
};
use std::os::fd::OwnedFd;

/// The maker's handle; dropped, the child is gone.
#[derive(Debug)]
pub(crate) struct Holder {
    pid: Pid,
    _lifeline: OwnedFd,
}

impl Holder {
    /// Forks into the new namespaces that `flags` name.
    ///
    /// # Errors
    /// As clone3(2) and pipe2(2) give them.
    pub(crate) fn of(flags: libc::c_int) -> Result<Self, Errno> {
        let (ours, lifeline) = pipe2(OFlag::O_CLOEXEC)?;
        match clone::fork_into(flags as u64, None)? {
            Side::Child => {
                drop(lifeline);
                let mut byte = [0];
                while read(&ours, &mut byte) == Err(Errno::EINTR) {}
                exit_now(0)
            }
            Side::Parent { pid, pidfd: _pidfd } => Ok(Self { pid, _lifeline: lifeline }),
        }
    }

    /// The child, under whose number /proc has its namespaces.
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Both can only fail if somebody else has collected the child.
        let _killed = nix::sys::signal::kill(self.pid, Signal::SIGKILL);
        let _collected = waitpid(self.pid, None);
    }
}
