//! The egress's audit entries, and the way they take to the supervisor.

use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, send},
};
use policies::{
    audit::{Entry, Origin},
    capability::Capability,
    ceiling::check_form,
    layer::Layer,
};
use std::{
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Largest message on the way; an entry is far smaller.
pub(super) const LARGEST: usize = 16 << 10;
/// How long an entry waits for others: under load the supervisor is woken for many at once.
const TOGETHER: Duration = Duration::from_millis(20);

/// Whether a connection was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Granted {
    Yes,
    No,
}

/// The way to the supervisor: messages of entries, a line each, never waited for.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) to: OwnedFd,
    /// Lines that wait, how many, and since when.
    lines: Vec<u8>,
    count: u64,
    since: Option<Instant>,
    lost: u64,
}

impl Log {
    pub(super) fn new(to: OwnedFd) -> Self {
        Self { to, lines: Vec::new(), count: 0, since: None, lost: 0 }
    }

    pub(super) fn add(&mut self, capability: Capability, granted: Granted, target: &str, reason: &str) {
        let entry = Entry {
            ts: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            context: "command".to_owned(),
            capability: check_form(capability, Some(target)),
            granted: granted == Granted::Yes,
            source: "egress".to_owned(),
            reason: reason.to_owned(),
            origin: Origin::Program,
            file: None,
            line: None,
            seq: 0,
            layer: Layer::Network,
            target: target.to_owned(),
        };
        let Ok(line) = serde_json::to_vec(&entry) else { return };
        if self.lines.len() + line.len() >= LARGEST {
            self.send();
        }
        self.lines.extend_from_slice(&line);
        self.lines.push(b'\n');
        self.count += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    /// How long the entries may wait, if there are any.
    pub(super) fn wait(&self, now: Instant) -> Option<Duration> {
        self.since.map(|since| (since + TOGETHER).saturating_duration_since(now))
    }

    /// Sends what waits.
    pub(super) fn send(&mut self) {
        let count = std::mem::take(&mut self.count);
        if self.since.take().is_none() {
            return;
        }
        loop {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match send(self.to.as_raw_fd(), &self.lines, flags) {
                Err(Errno::EINTR) => {}
                Ok(_) => break,
                Err(_) => {
                    self.lost += count;
                    break;
                }
            }
        }
        self.lines.clear();
    }

    /// Sends all, and tells of entries for which there was no room.
    pub(super) fn finish(&mut self) {
        self.send();
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            self.add(Capability::Net, Granted::No, "*", &format!("{lost} more entries found no room"));
            self.send();
        }
    }
}
