//! The run's audit: entries of all walls in one order, bounded.

use policies::{
    audit::{Entry, Origin},
    capability::Capability,
    ceiling::check_form,
    layer::Layer,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most entries of the filter: a loop around a refused call would fill any log.
const FILTER_ENTRIES: usize = 100;
/// Most denials of the broker: a runtime that was taken over may ask for ever.
const BROKER_ENTRIES: usize = 1000;
/// Most entries of what found nobody in the jail's network: trying every port would fill any log.
const CONTACTS: usize = 100;
/// Most entries of a run, and most bytes of text in them: some come from a peer that may be hostile.
const ENTRIES: usize = 10_000;
const TEXT: usize = 4 << 20;

/// The entries so far.
#[derive(Debug)]
pub(super) struct Audit {
    context: &'static str,
    entries: Vec<Entry>,
    of_filter: usize,
    of_broker: usize,
    contacts: usize,
    /// Datagrams that found nobody and have their entries.
    pub(super) told_datagrams: u64,
    text: usize,
    dropped: u64,
    next: u64,
}

impl Audit {
    /// An empty one; `context` is what the payload is called in entries that the supervisor makes.
    pub(super) fn new(context: &'static str) -> Self {
        Self {
            context,
            entries: Vec::new(),
            of_filter: 0,
            of_broker: 0,
            contacts: 0,
            told_datagrams: 0,
            text: 0,
            dropped: 0,
            next: 1,
        }
    }

    /// Notes a refused system call, with the capability that stands nearest to it.
    pub(super) fn refused_call(&mut self, name: &str, capability: &str) {
        let reason = "refused by the filter with EPERM".to_owned();
        self.add(self.denial(Layer::Filter, capability, "seccomp", reason, name));
    }

    /// Notes output that isn't granted.
    pub(super) fn refused_output(&mut self) {
        let reason = "stdout isn't granted: the output is dropped".to_owned();
        self.add(self.denial(Layer::Broker, "stdout", "supervisor", reason, "stdout"));
    }

    /// Notes that nothing is carried any more.
    pub(super) fn lost_egress(&mut self) {
        let reason = "the egress has ended: nothing is reached any more".to_owned();
        self.add(self.denial(Layer::Network, "net", "supervisor", reason, "*"));
    }

    /// Notes a connect or send in the jail's network that found nobody.
    pub(super) fn nobody_there(&mut self, target: &str, why: &str) {
        if self.contacts == CONTACTS {
            self.dropped += 1;
            return;
        }
        self.contacts += 1;
        let capability = check_form(Capability::Net, Some(target));
        self.add(self.denial(Layer::Network, &capability, "supervisor", why.to_owned(), target));
    }

    /// Notes datagrams that the kernel has counted and that have no entry yet.
    pub(super) fn datagrams(&mut self, count: u64) {
        let more = count.saturating_sub(self.told_datagrams);
        if more > 0 {
            let reason =
                format!("{more} datagrams found nobody in the jail's network (counted by the kernel)");
            self.add(self.denial(Layer::Network, "net", "supervisor", reason, "*"));
        }
    }

    /// Notes a limit that was met.
    pub(super) fn limit_met(&mut self, limit: &str, reason: String) {
        self.add(self.denial(Layer::Limits, "limits", "supervisor", reason, limit));
    }

    /// Takes an entry from the language.
    pub(super) fn add(&mut self, mut entry: Entry) {
        let over = match entry.layer {
            Layer::Filter => self.of_filter >= FILTER_ENTRIES,
            Layer::Broker => self.of_broker >= BROKER_ENTRIES,
            Layer::Gate
            | Layer::Profile
            | Layer::Namespaces
            | Layer::Root
            | Layer::Landlock
            | Layer::Network
            | Layer::Limits => self.entries.len() >= ENTRIES,
        };
        let text = [&entry.context, &entry.capability, &entry.source, &entry.reason, &entry.target];
        let text =
            text.iter().map(|one| one.len()).sum::<usize>() + entry.file.as_ref().map_or(0, String::len);
        if over || self.text.saturating_add(text) > TEXT {
            self.dropped += 1;
            return;
        }
        self.of_filter += usize::from(entry.layer == Layer::Filter);
        self.of_broker += usize::from(entry.layer == Layer::Broker);
        self.text += text;
        entry.seq = self.next;
        self.next += 1;
        self.entries.push(entry);
    }

    /// The entries, and how many more there were.
    pub(super) fn finish(self) -> (Vec<Entry>, u64) {
        (self.entries, self.dropped)
    }

    fn denial(&self, layer: Layer, capability: &str, source: &str, reason: String, target: &str) -> Entry {
        Entry {
            ts: now(),
            context: self.context.to_owned(),
            capability: capability.to_owned(),
            granted: false,
            source: source.to_owned(),
            reason,
            origin: Origin::Program,
            file: None,
            line: None,
            seq: 0,
            layer,
            target: target.to_owned(),
        }
    }
}

/// Unix time in seconds.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refused_calls_is_counted_and_leaves_room_for_others() {
        let mut audit = Audit::new("command");
        (0..250).for_each(|_| audit.refused_call("ptrace", "syscall"));
        audit.limit_met("wall", "100 ms are over".into());
        let (entries, dropped) = audit.finish();
        assert_eq!((entries.len(), dropped), (101, 150));
        assert_eq!(entries.iter().map(|entry| entry.seq).collect::<Vec<_>>(), (1..=101).collect::<Vec<_>>());
        assert_eq!(entries[100].layer, Layer::Limits);
    }

    #[test]
    fn what_finds_nobody_is_told_a_hundred_times_and_then_counted() {
        let mut audit = Audit::new("command");
        (1..=130).for_each(|port| audit.nobody_there(&format!("192.0.2.7:{port}"), "nobody"));
        audit.told_datagrams = 3;
        audit.datagrams(3);
        audit.datagrams(5);
        let (entries, dropped) = audit.finish();
        assert_eq!((entries.len(), dropped), (101, 30));
        assert_eq!(
            (entries[99].capability.as_str(), entries[99].layer),
            ("net(\"192.0.2.7:100\")", Layer::Network)
        );
        assert!(entries[100].reason.starts_with("2 datagrams"), "{}", entries[100].reason);
    }
}
