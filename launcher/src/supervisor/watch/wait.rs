//! The one wait of a turn: for which events, for how long, and which of them are there.

use super::Watch;
use crate::{broker::Broker, supervisor::frames::Frames};
use nix::{
    poll::{PollFd, PollFlags, ppoll},
    sys::time::TimeSpec,
};
use std::{
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

/// What can happen. The order is that of the handlers in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The program has ended, or init was killed.
    Ended,
    /// Nothing of the jail is alive.
    Gone,
    /// A signal to the launcher.
    Signal,
    /// The memory limit was met.
    Memory,
    /// A system call was refused.
    Refused,
    /// No process is left under the filter.
    Unfiltered,
    /// The egress tells of a connection.
    Connection,
    /// The caller takes output.
    OutWritable,
    /// There is output.
    OutReadable,
    /// The caller takes errors.
    ErrWritable,
    /// There are errors.
    ErrReadable,
    /// The runtime has sent frames.
    Frames,
    /// The runtime asks for something.
    Asked,
    /// A program that the runtime started has ended.
    Child,
    /// Something of a process that runs beside the runtime.
    Process,
    /// A request of the runtime to the outside has come to an end.
    Outside,
    /// The jail takes input.
    InWritable,
    /// There is input.
    InReadable,
}

/// The events that are there.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ready {
    all: u32,
    /// Those of streams that have ended and hold nothing more.
    ended: u32,
}

impl Ready {
    fn add(&mut self, event: Event) {
        self.all |= 1 << event as u32;
    }

    fn add_ended(&mut self, event: Event) {
        self.ended |= 1 << event as u32;
    }

    pub(super) fn has(self, event: Event) -> bool {
        self.all & 1 << event as u32 != 0
    }

    pub(super) fn has_ended(self, event: Event) -> bool {
        self.ended & 1 << event as u32 != 0
    }
}

/// What a turn waits for.
#[derive(Debug, Default)]
struct Waiting<'a> {
    events: Vec<Event>,
    files: Vec<PollFd<'a>>,
}

impl<'a> Waiting<'a> {
    fn add(&mut self, event: Event, file: Option<BorrowedFd<'a>>, flags: PollFlags) {
        if let Some(file) = file {
            self.events.push(event);
            self.files.push(PollFd::new(file, flags));
        }
    }
}

impl Watch<'_> {
    /// The one place that waits.
    pub(super) fn wait(&mut self) -> Ready {
        let now = Instant::now();
        let refusals_at = self.refuser.as_mut().and_then(|refuser| refuser.ready_at(now));
        let requests_at = self.broker.as_mut().and_then(|broker| broker.ready_at(now));
        let timeout = self.timeout(now, refusals_at, requests_at);
        let running = self.ending.is_none();
        let mut on = Waiting::default();
        let alarm = self.watcher.alarm().filter(|_| running);
        let refuser = self.refuser.as_ref().filter(|_| refusals_at.is_none());
        on.add(Event::Ended, running.then(|| self.exit.as_fd()), PollFlags::POLLIN);
        on.add(Event::Gone, (!self.collected).then(|| self.init.as_fd()), PollFlags::POLLIN);
        on.add(Event::Signal, self.signals.as_ref().map(AsFd::as_fd), PollFlags::POLLIN);
        on.add(
            Event::Memory,
            alarm.map(AsFd::as_fd),
            alarm.map_or(PollFlags::empty(), |alarm| alarm.flags()),
        );
        on.add(Event::Refused, refuser.map(AsFd::as_fd), PollFlags::POLLIN);
        let broker = self.broker.as_ref().filter(|_| requests_at.is_none());
        on.add(Event::Asked, broker.and_then(Broker::requests), PollFlags::POLLIN);
        on.add(Event::Child, self.broker.as_ref().and_then(Broker::child), PollFlags::POLLIN);
        if let Some(broker) = &self.broker {
            broker.processes(&mut |file, flags| on.add(Event::Process, Some(file), flags));
        }
        on.add(Event::Outside, self.broker.as_ref().and_then(Broker::outside), PollFlags::POLLIN);
        on.add(Event::Connection, self.egress.as_ref().map(AsFd::as_fd), PollFlags::POLLIN);
        on.add(Event::OutWritable, self.out.writable(), PollFlags::POLLOUT);
        on.add(Event::OutReadable, self.out.readable(), PollFlags::POLLIN);
        on.add(Event::ErrWritable, self.err.writable(), PollFlags::POLLOUT);
        on.add(Event::ErrReadable, self.err.readable(), PollFlags::POLLIN);
        let frames = self.frames.as_ref().filter(|_| self.idle());
        on.add(Event::Frames, frames.and_then(Frames::readable), PollFlags::POLLIN);
        on.add(Event::InWritable, self.input.writable(), PollFlags::POLLOUT);
        on.add(Event::InReadable, self.input.readable(), PollFlags::POLLIN);
        let mut ready = Ready::default();
        // EINTR: a signal that isn't ours to read; the next turn waits again.
        if ppoll(&mut on.files, timeout.map(TimeSpec::from_duration), None).is_ok() {
            for (event, file) in on.events.into_iter().zip(on.files) {
                let found = file.revents().unwrap_or(PollFlags::empty());
                match event {
                    _any if found.is_empty() => {}
                    Event::Refused if !found.contains(PollFlags::POLLIN) => ready.add(Event::Unfiltered),
                    // Nobody is left to write, and nothing is left to read.
                    event @ (Event::OutReadable | Event::ErrReadable) if found == PollFlags::POLLHUP => {
                        ready.add_ended(event);
                    }
                    event => ready.add(event),
                }
            }
        }
        ready
    }

    /// How long the wait may last; `None`: for ever.
    fn timeout(
        &self,
        now: Instant,
        refusals_at: Option<Instant>,
        requests_at: Option<Instant>,
    ) -> Option<Duration> {
        if self.collected {
            // Without a writer left, what there is to read is there now.
            let frames = self.frames.as_ref().filter(|_| self.idle()).and_then(Frames::readable);
            let reads = self.out.readable().is_some() || self.err.readable().is_some() || frames.is_some();
            return reads.then_some(Duration::ZERO);
        }
        if self.ending.is_some() || self.killed {
            return None;
        }
        let outside = self.broker.as_ref().and_then(Broker::outside_until);
        let processes = self.broker.as_ref().and_then(Broker::processes_until);
        let at = [self.watcher.wake_at(), self.kill_at, refusals_at, requests_at, outside, processes];
        let at = at.into_iter().flatten().min();
        at.map(|at| at.saturating_duration_since(now))
    }
}
