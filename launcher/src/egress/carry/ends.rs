//! How connections end: in words, with a reset, or as their sides did.

use super::{
    super::{
        connection::{Side, Stage},
        entry::Granted,
        proxy::{Manner, Outcome},
        relay,
    },
    Carrier,
};
use nix::sys::socket::{MsgFlags, Shutdown, setsockopt, shutdown, sockopt};
use std::{
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

impl Carrier<'_> {
    /// Tells the program in its own manner that there will be no connection.
    pub(super) fn turn_away(&mut self, slot: usize, outcome: Outcome, why: &str, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        let granted = match outcome {
            Outcome::Refused => Granted::No,
            Outcome::Unreachable | Outcome::Open => Granted::Yes,
        };
        match connection.manner {
            Manner::Direct => self.abort(slot, granted, why, now),
            manner => self.part(slot, manner.words(outcome), granted, why, now),
        }
    }

    /// Says last words and waits a little until they were read: a reset would overtake them.
    pub(super) fn part(&mut self, slot: usize, words: &[u8], granted: Granted, why: &str, now: Instant) {
        self.tell(slot, granted, why, now);
        let Some(connection) = self.connections[slot].as_mut() else { return };
        connection.down.push(words);
        connection.stage = Stage::Farewell { until: now + Duration::from_secs(1) };
        let side = connection.side;
        if let Some(second) = connection.second.take() {
            self.give_back(second, side, now);
        }
        self.farewell(slot, now);
    }

    pub(super) fn farewell(&mut self, slot: usize, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        let mut buffer = [0; 4096];
        connection.down.end();
        let said = connection.down.flush(&connection.first, &mut self.pipes);
        let read = loop {
            match relay::read(&connection.first, &mut buffer, MsgFlags::empty()) {
                Ok(Some(1..)) => {}
                other => break other,
            }
        };
        if said.is_err() || matches!(read, Ok(Some(_)) | Err(_)) {
            self.close(slot, Granted::No, "", now);
        }
    }

    /// It is over before anything was wanted. What was left half said is told, as often as what is refused is.
    pub(super) fn leaves(&mut self, slot: usize, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        let why = connection.half_said().filter(|_| self.refusals.take(now));
        connection.told = why.is_none();
        self.close(slot, Granted::No, why.unwrap_or_default(), now);
    }

    /// Makes the entry, once.
    pub(super) fn tell(&mut self, slot: usize, granted: Granted, why: &str, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        if std::mem::replace(&mut connection.told, true) {
            return;
        }
        let (capability, target) = connection.subject();
        let reason = connection.account(why, now);
        self.log.add(capability, granted, &target, &reason);
    }

    /// Ends both sides with a reset.
    pub(super) fn abort(&mut self, slot: usize, granted: Granted, why: &str, now: Instant) {
        if let Some(connection) = self.connections[slot].as_ref() {
            reset(&connection.first);
            if let (Some(second), Side::FromJail) = (&connection.second, connection.side) {
                reset(second);
            }
        }
        self.close(slot, granted, why, now);
    }

    pub(super) fn close(&mut self, slot: usize, granted: Granted, why: &str, now: Instant) {
        self.tell(slot, granted, why, now);
        let Some(connection) = self.connections[slot].take() else { return };
        self.open -= 1;
        self.free.push(slot);
        if let Some(second) = connection.second {
            // Whatever is left to deliver is delivered, then a connector serves again.
            let _ended = shutdown(second.as_raw_fd(), Shutdown::Write);
            self.give_back(second, connection.side, now);
        }
    }
}

/// The close that follows tells the other side that something was cut off.
pub(super) fn reset(socket: &OwnedFd) {
    let _set = setsockopt(socket, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 });
}
