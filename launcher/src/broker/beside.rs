//! What stands beside the program while it runs: its processes, its connections, and the caller's terminal. What is asked of
//! them is answered in a later turn of the supervisor's loop.

use super::{Answer, Breach, Broker, Reply, awaiting::Handles, refusal};
use nix::poll::PollFlags;
use policies::{audit::Entry, process::Window, terminal};
use std::{
    os::fd::BorrowedFd,
    time::{Duration, Instant},
};

impl Broker {
    /// What of the processes and connections beside the program has to be polled.
    pub(crate) fn processes<'a>(&'a self, each: &mut dyn FnMut(BorrowedFd<'a>, PollFlags)) {
        self.processes.watched(each);
        self.connections.watched(each);
        if let Some(awaiting) = &self.awaiting {
            awaiting.watched(&self.handles(), each);
        }
    }

    fn handles(&self) -> Handles<'_> {
        Handles { processes: &self.processes, connections: &self.connections }
    }

    /// When something of them is due by the clock.
    pub(crate) fn processes_until(&self) -> Option<Instant> {
        let awaiting = self.awaiting.as_ref().map(|awaiting| awaiting.until(&self.handles()));
        [self.processes.until(), self.connections.until(), awaiting].into_iter().flatten().min()
    }

    /// The program has ended, so they do; gives the processor time that they used.
    pub(crate) fn end_processes(&mut self, tell: &mut dyn FnMut(Entry)) -> Duration {
        self.processes.stop(tell);
        self.processes.end()
    }

    /// Something of them is there, or due.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub(crate) fn processes_turn(
        &mut self,
        now: Instant,
        tell: &mut dyn FnMut(Entry),
        spent: &mut dyn FnMut(Duration),
    ) -> Result<(), Breach> {
        let of_processes = self.processes.turn(now, tell, spent);
        let of_connections = self.connections.turn(now, tell);
        let awaited = self.awaiting.as_ref().and_then(|awaiting| awaiting.turn(&self.handles(), now));
        if awaited.is_some() {
            self.awaiting = None;
        }
        // One request at a time is waited for, so one of them at most.
        let Some((id, reply)) = of_processes.or(of_connections).or(awaited) else { return Ok(()) };
        let reply = reply.unwrap_or_else(|no| refusal(no, tell));
        self.bucket.take(reply.cost);
        self.send(id, reply)
    }

    /// What is asked of the caller's terminal; whoever has it answers.
    pub(crate) fn asks_terminal(&self) -> Option<terminal::Act> {
        self.of_terminal.map(|(_, act)| act)
    }

    /// The terminal's size is the answer; `None`: there is none.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub fn answer_terminal(&mut self, window: Option<Window>) -> Result<(), Breach> {
        let Some((id, _)) = self.of_terminal.take() else { return Ok(()) };
        self.bucket.take(1);
        let reply = Reply::data(&window).unwrap_or_else(|no| Reply::of(Answer::Refused(no.refused)));
        self.send(id, reply)
    }
}
