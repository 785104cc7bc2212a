//! Notified system calls: a refused one gets its EPERM and, within bounds, an entry in the audit; a watched one is looked at
//! ([`contact`](super::contact)) and goes on.
//!
//! Invariant: a flood costs the supervisor a bounded share of one processor. Answers come from a bucket of tokens; with
//! none left the callers wait (they can be killed while they do), and nobody else does. The listener is never closed:
//! calls would then get ENOSYS without a trace.
//! Source: seccomp_unotify(2).

use super::{audit::Audit, contact::Place};
use crate::{jail::filter, sys::notify};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
};
use policies::plan::FilterName;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// Time that one more token takes to become free.
const TOKEN: Duration = Duration::from_micros(200);
/// Tokens of a refusal: one in 2 ms, so that some 100 µs of work each make a share of 5 % at most.
const REFUSAL: u32 = 10;
/// Tokens of a look: what a program does that connects often must not be slow.
const LOOK: u32 = 1;
/// Tokens that can be saved: refusals that can be answered at once.
const BURST: u32 = 256 * REFUSAL;
/// Answers in one turn of the loop: the other events come first again after that.
const TURN: u32 = 32;

/// Whether anybody is confined by this filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callers {
    /// Maybe.
    Living,
    /// Nobody, and nobody will be.
    Gone,
}

/// The filter's notifications and the bucket.
#[derive(Debug)]
pub(super) struct Refuser {
    listener: OwnedFd,
    filter: Option<FilterName>,
    tokens: u32,
    filled: Instant,
    /// Whether callers and we take turns on one processor: asked for with the first call that is only watched.
    turns: bool,
}

impl Refuser {
    /// Of a filter's listener; which filter it is says which calls are only watched.
    pub(super) fn new(listener: OwnedFd, filter: Option<FilterName>) -> Self {
        Self { listener, filter, tokens: BURST, filled: Instant::now(), turns: false }
    }

    /// Whether a notification could be answered now; if not, when.
    pub(super) fn ready_at(&mut self, now: Instant) -> Option<Instant> {
        self.refill(now);
        // What comes next isn't known before it is taken.
        (self.tokens < REFUSAL).then(|| self.filled + TOKEN * (REFUSAL - self.tokens))
    }

    /// Answers what waits.
    pub(super) fn answer(&mut self, audit: &mut Audit, mut place: Option<Place<'_>>) -> Callers {
        for _ in 0..TURN {
            if self.tokens < REFUSAL {
                break;
            }
            match self.asked() {
                events if events.contains(PollFlags::POLLIN) => {}
                events if events.is_empty() => break,
                _hung_up => return Callers::Gone,
            }
            // ENOENT: the caller was killed while it waited, and needs no answer.
            let Ok(notice) = notify::receive(self.listener.as_fd()) else { break };
            if self.filter.is_some_and(|name| filter::is_watched(name, notice.nr)) {
                self.tokens -= LOOK;
                if !std::mem::replace(&mut self.turns, true) {
                    notify::take_turns(self.listener.as_fd());
                }
                if let Some(place) = &mut place {
                    place.look(self.listener.as_fd(), &notice, audit);
                }
                let _: Result<(), Errno> = notify::go_on(self.listener.as_fd(), &notice);
                continue;
            }
            self.tokens -= REFUSAL;
            audit.refused_call(filter::syscall_name(notice.nr), filter::capability_of(notice.nr));
            let _: Result<(), Errno> = notify::refuse(self.listener.as_fd(), notice);
        }
        Callers::Living
    }

    /// Whether one waits: receiving would block without one, also after the last confined process has ended (which
    /// hangs the listener up).
    fn asked(&self) -> PollFlags {
        let mut one = [PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        let polled = poll(&mut one, PollTimeout::ZERO);
        polled.ok().and_then(|_| one[0].revents()).unwrap_or(PollFlags::empty())
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled);
        let more = u32::try_from(passed.as_nanos() / TOKEN.as_nanos()).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(more).min(BURST);
        // What is left of the time counts for the next one.
        self.filled = if self.tokens == BURST { now } else { self.filled + TOKEN * more };
    }
}

impl AsFd for Refuser {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, unshare};

    /// A filter confines one thread; this one makes refused calls and tells what each gave.
    fn asker(calls: u32) -> (OwnedFd, std::thread::JoinHandle<Vec<Errno>>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let asker = std::thread::spawn(move || {
            nix::sys::prctl::set_no_new_privs().unwrap();
            let program = filter::program(FilterName::Command, 900, filter::Memfd::Allowed).unwrap();
            sender.send(filter::install(&program).unwrap()).unwrap();
            (0..calls).map(|_| unshare(CloneFlags::CLONE_NEWUSER).unwrap_err()).collect()
        });
        (receiver.recv().unwrap(), asker)
    }

    #[test]
    fn a_flood_is_refused_slowly_and_audited_in_part() {
        let calls = BURST / REFUSAL + 50;
        let started = Instant::now();
        let (listener, asker) = asker(calls);
        let mut refuser = Refuser::new(listener, Some(FilterName::Command));
        let mut audit = Audit::new("command");
        // The listener hangs up when the one confined thread has ended.
        loop {
            match refuser.ready_at(Instant::now()) {
                Some(at) => std::thread::sleep(at.saturating_duration_since(Instant::now())),
                None if refuser.answer(&mut audit, None) == Callers::Gone => break,
                None => {}
            }
        }
        let passed = started.elapsed();
        let given = asker.join().unwrap();
        assert_eq!((given.len(), given.iter().all(|&errno| errno == Errno::EPERM)), (calls as usize, true));
        assert!(passed >= TOKEN * REFUSAL * 49, "{passed:?}");
        let (entries, dropped) = audit.finish();
        assert_eq!((entries.len(), dropped), (100, u64::from(calls) - 100));
        assert_eq!(entries[0].target, "unshare");
        assert_eq!(entries[0].layer, policies::layer::Layer::Filter);
    }
}
