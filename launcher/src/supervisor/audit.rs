//! The run's audit: entries of all walls in one order, bounded.

use crate::broker::CHILD;
use policies::{
    audit::{Entry, Origin},
    capability::Capability,
    ceiling::check_form,
    layer::Layer,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a command is called in its supervisor's entries.
pub(super) const COMMAND: &str = "command";
/// Most entries of the filter: a loop around a refused call would fill any log. As many once more of what the program starts.
const FILTER_ENTRIES: usize = 100;
/// Most denials of the broker: a runtime that was taken over may ask for ever. As many once more of what the program starts.
const BROKER_ENTRIES: usize = 1000;
/// Most entries of what found nobody in the jail's network: trying every port would fill any log.
const CONTACTS: usize = 100;
/// Most entries of a run, and most bytes of text in them: some come from a peer that may be hostile.
const ENTRIES: usize = 10_000;
const TEXT: usize = 4 << 20;
/// Most of both from what the program starts, all together: none of it hides what the program itself does.
const ENTRIES_BELOW: usize = ENTRIES / 2;
const TEXT_BELOW: usize = TEXT / 2;

/// What is kept of the program's own entries, or of those of what it starts.
#[derive(Debug, Default)]
struct Kept {
    of_filter: usize,
    of_broker: usize,
    entries: usize,
    text: usize,
}

/// The entries so far.
#[derive(Debug)]
pub(super) struct Audit {
    context: &'static str,
    entries: Vec<Entry>,
    own: Kept,
    below: Kept,
    contacts: usize,
    /// Datagrams that found nobody and have their entries.
    pub(super) told_datagrams: u64,
    dropped: u64,
    next: u64,
}

impl Audit {
    /// An empty one; `context` is what the payload is called in entries that the supervisor makes.
    pub(super) fn new(context: &'static str) -> Self {
        Self {
            context,
            entries: Vec::new(),
            own: Kept::default(),
            below: Kept::default(),
            contacts: 0,
            told_datagrams: 0,
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

    /// Takes an entry from the language, or from a jail of what it has started.
    pub(super) fn add(&mut self, mut entry: Entry) {
        let below = self.is_below(&entry);
        let text = [&entry.context, &entry.capability, &entry.source, &entry.reason, &entry.target];
        let text =
            text.iter().map(|one| one.len()).sum::<usize>() + entry.file.as_ref().map_or(0, String::len);
        let side = if below { &self.below } else { &self.own };
        let over = match entry.layer {
            Layer::Filter => side.of_filter >= FILTER_ENTRIES,
            Layer::Broker => side.of_broker >= BROKER_ENTRIES,
            Layer::Gate
            | Layer::Profile
            | Layer::Namespaces
            | Layer::Root
            | Layer::Landlock
            | Layer::Network
            | Layer::Limits => self.entries.len() >= ENTRIES,
        };
        let over_below = below
            && (self.below.entries >= ENTRIES_BELOW || self.below.text.saturating_add(text) > TEXT_BELOW);
        if over || over_below || (self.own.text + self.below.text).saturating_add(text) > TEXT {
            self.dropped += 1;
            return;
        }
        let side = if below { &mut self.below } else { &mut self.own };
        side.of_filter += usize::from(entry.layer == Layer::Filter);
        side.of_broker += usize::from(entry.layer == Layer::Broker);
        side.entries += 1;
        side.text += text;
        entry.seq = self.next;
        self.next += 1;
        self.entries.push(entry);
    }

    /// Whether an entry comes from what the program started: another program's has a mark, and a command's is the
    /// supervisor's of a command. A runtime that says so of its own has less room, and that is all.
    fn is_below(&self, entry: &Entry) -> bool {
        entry.context.starts_with(CHILD) || self.context != COMMAND && entry.context == COMMAND
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
    fn what_is_started_hides_nothing_of_the_program_itself() {
        let mut audit = Audit::new("program");
        let entry = |context: &str, layer, size| Entry {
            context: context.into(),
            target: "x".repeat(size),
            ..Audit::new("program").denial(layer, "file_read", "read_file()", String::new(), "")
        };
        // Gate, broker, filter, and a command's network: each has its share, and the program has all of its own.
        (0..9000).for_each(|_| audit.add(entry("child:program", Layer::Gate, 0)));
        (0..9000).for_each(|_| audit.add(entry("command", Layer::Network, 0)));
        let mut of_layers = Audit::new("program");
        for layer in [Layer::Broker, Layer::Filter] {
            (0..2000).for_each(|_| of_layers.add(entry("child:child:program", layer, 0)));
            (0..2000).for_each(|_| of_layers.add(entry("program", layer, 0)));
        }
        assert_eq!((of_layers.entries.len(), of_layers.dropped), (2200, 8000 - 2200));
        assert_eq!((audit.entries.len(), audit.dropped), (5000, 13_000));
        (0..5001).for_each(|_| audit.add(entry("program", Layer::Gate, 0)));
        assert_eq!((audit.entries.len(), audit.dropped), (10_000, 13_001));
        // So with long texts.
        let mut audit = Audit::new("program");
        (0..9).for_each(|_| audit.add(entry("child:program", Layer::Gate, 1 << 19)));
        let of_child = audit.entries.len();
        (0..9).for_each(|_| audit.add(entry("program", Layer::Gate, 1 << 19)));
        assert_eq!((of_child, audit.entries.len()), (3, 7));
        // A command has nothing below it.
        let mut audit = Audit::new("command");
        (0..10_001).for_each(|_| audit.add(entry("command", Layer::Network, 0)));
        assert_eq!((audit.entries.len(), audit.dropped), (10_000, 1));
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
