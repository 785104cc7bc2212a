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
    time::{SystemTime, UNIX_EPOCH},
};

/// Largest entry on the way.
pub(super) const LARGEST: usize = 8 << 10;

/// Whether a connection was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Granted {
    Yes,
    No,
}

/// The way to the supervisor: one message for each entry, never waited for.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) to: OwnedFd,
    lost: u64,
}

impl Log {
    pub(super) fn new(to: OwnedFd) -> Self {
        Self { to, lost: 0 }
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
        let Ok(message) = serde_json::to_vec(&entry) else { return };
        loop {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            match send(self.to.as_raw_fd(), &message, flags) {
                Err(Errno::EINTR) => {}
                Ok(_) => return,
                Err(_) => {
                    self.lost += 1;
                    return;
                }
            }
        }
    }

    /// Tells of entries for which there was no room.
    pub(super) fn finish(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            self.add(Capability::Net, Granted::No, "*", &format!("{lost} more entries found no room"));
        }
    }
}
