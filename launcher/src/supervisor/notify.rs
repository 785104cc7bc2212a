//! Refused system calls: each gets its EPERM and, within bounds, an entry in the audit.
//!
//! Invariant: a flood costs the supervisor a bounded share of one processor. Answers come from a bucket of tokens; with
//! none left the callers wait (they can be killed while they do), and nobody else does. The listener is never closed:
//! calls would then get ENOSYS without a trace.
//! Source: seccomp_unotify(2).

use super::audit::Audit;
use crate::{jail::filter, sys::notify};
use nix::errno::Errno;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// Answers that can be given at once.
const BURST: u32 = 256;
/// Time that one more answer takes to become free: some 100 µs of work each make a share of 5 % at most.
const REFILL: Duration = Duration::from_millis(2);
/// Answers in one turn of the loop: the other events come first again after that.
const TURN: u32 = 32;

/// The filter's notifications and the bucket.
#[derive(Debug)]
pub(super) struct Refuser {
    listener: OwnedFd,
    tokens: u32,
    filled: Instant,
}

impl Refuser {
    pub(super) fn new(listener: OwnedFd) -> Self {
        Self { listener, tokens: BURST, filled: Instant::now() }
    }

    /// Whether a notification could be answered now; if not, when.
    pub(super) fn ready_at(&mut self, now: Instant) -> Option<Instant> {
        self.refill(now);
        (self.tokens == 0).then(|| self.filled + REFILL)
    }

    /// Answers what waits.
    pub(super) fn answer(&mut self, audit: &mut Audit) {
        for _ in 0..TURN.min(self.tokens) {
            match notify::receive(self.listener.as_fd()) {
                Ok(notice) => {
                    self.tokens -= 1;
                    audit.refused_call(filter::syscall_name(notice.nr), filter::capability_of(notice.nr));
                    // ENOENT: the caller was killed while it waited, and needs no answer.
                    let _: Result<(), Errno> = notify::refuse(self.listener.as_fd(), notice);
                }
                // Each of these was somebody's notification, or none at all: look again when poll says so.
                Err(_) => return,
            }
            if !self.has_more() {
                return;
            }
        }
    }

    /// Whether another one waits: receiving would block without one.
    fn has_more(&self) -> bool {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let mut one = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        poll(&mut one, PollTimeout::ZERO).is_ok()
            && one[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN))
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled);
        let more = u32::try_from(passed.as_nanos() / REFILL.as_nanos()).unwrap_or(u32::MAX);
        if more > 0 {
            self.tokens = self.tokens.saturating_add(more).min(BURST);
            self.filled = now;
        }
    }
}

impl AsFd for Refuser {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
