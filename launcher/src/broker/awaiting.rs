//! A wait of the program: for whichever comes first of its processes and connections.
//!
//! Invariant: a wait is answered by the turn in which something is there, or its time is over; nobody waits meanwhile but the
//! program itself.

use super::{Reply, connections::Connections, files::No, processes::Processes};
use nix::poll::PollFlags;
use policies::process::Awaited;
use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

/// The longest wait: the program asks again.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A wait that isn't answered yet.
#[derive(Debug)]
pub(super) struct Awaiting {
    id: u32,
    all: Vec<Awaited>,
    since: Instant,
    until: Instant,
}

/// Those that can be waited for.
pub(super) struct Handles<'h> {
    pub(super) processes: &'h Processes,
    pub(super) connections: &'h Connections,
}

impl<'h> Handles<'h> {
    /// The places of those that are there.
    fn ready(&self, all: &[Awaited]) -> Vec<usize> {
        let is = |awaited: &Awaited| match awaited.what.is_of_process() {
            true => self.processes.is(awaited),
            false => self.connections.is(awaited),
        };
        all.iter().enumerate().filter(|(_, awaited)| is(awaited)).map(|(place, _)| place).collect()
    }

    fn watch(&self, awaited: &Awaited, each: &mut dyn FnMut(BorrowedFd<'h>, PollFlags)) {
        match awaited.what.is_of_process() {
            true => self.processes.watch(awaited, each),
            false => self.connections.watch(awaited, each),
        }
    }
}

impl Awaiting {
    pub(super) fn new(id: u32, all: Vec<Awaited>, timeout_ms: u64, now: Instant) -> Self {
        Self { id, all, since: now, until: now + Duration::from_millis(timeout_ms).min(LONGEST) }
    }

    /// What to poll.
    pub(super) fn watched<'h>(&self, handles: &Handles<'h>, each: &mut dyn FnMut(BorrowedFd<'h>, PollFlags)) {
        self.all.iter().for_each(|awaited| handles.watch(awaited, each));
    }

    /// When it is answered at the latest: one that is there already is no event any more.
    pub(super) fn until(&self, handles: &Handles<'_>) -> Instant {
        if handles.ready(&self.all).is_empty() { self.until } else { self.since }
    }

    /// The answer, if it is due.
    pub(super) fn turn(&self, handles: &Handles<'_>, now: Instant) -> Option<(u32, Result<Reply, No>)> {
        let ready = handles.ready(&self.all);
        let waits = ready.is_empty() && now < self.until;
        (!waits).then(|| (self.id, Reply::data(&ready)))
    }
}
