//! One connection: where it stands, and what is told of it at its end.

use super::{
    guard::Guard,
    proxy::{Manner, Talk},
    relay::Flow,
};
use policies::{capability::Capability, scope::HostTarget};
use std::{collections::VecDeque, net::SocketAddr, os::fd::OwnedFd, time::Instant};

/// The target of entries about what is asked of the jail's name server.
pub(super) const NAME_SERVER: &str = "name server";

/// How far it is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Questions to the name server over TCP.
    Names { got: Vec<u8> },
    /// The proxy is being told what is wanted.
    Talk(Talk),
    /// The name is being looked up.
    Lookup { until: Instant },
    /// An address is being tried.
    Dial { at: SocketAddr, rest: VecDeque<SocketAddr>, one_until: Instant, until: Instant },
    /// Both sides are there.
    Open,
    /// The last words are on their way.
    Farewell { until: Instant },
}

/// Which side began it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The jail, to a host.
    FromJail,
    /// A host, to a port that the jail serves; the address that it came from.
    ToJail(SocketAddr),
}

/// One connection. `first` is the side that began it: the jail's, or a served port's visitor.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stage: Stage,
    pub(super) side: Side,
    pub(super) first: OwnedFd,
    pub(super) second: Option<OwnedFd>,
    pub(super) target: Option<HostTarget>,
    pub(super) manner: Manner,
    pub(super) guard: Guard,
    /// From the first side to the second one.
    pub(super) up: Flow,
    pub(super) down: Flow,
    pub(super) began: Instant,
    pub(super) active: Instant,
    /// Since when the guard has held something back.
    pub(super) held: Option<Instant>,
    pub(super) dialled: Option<SocketAddr>,
    /// The entry has been made.
    pub(super) told: bool,
}

impl Connection {
    pub(super) fn new(first: OwnedFd, stage: Stage, side: Side, now: Instant) -> Self {
        Self {
            stage,
            side,
            first,
            second: None,
            target: None,
            manner: Manner::Direct,
            guard: Guard::opaque(),
            up: Flow::default(),
            down: Flow::default(),
            began: now,
            active: now,
            held: None,
            dialled: None,
            told: false,
        }
    }

    /// What the program has begun to ask for, and not ended; `None` if it has asked for nothing, or was understood.
    pub(super) fn half_said(&self) -> Option<&'static str> {
        match &self.stage {
            Stage::Names { got } if !got.is_empty() => Some("a question that did not end"),
            Stage::Talk(talk) if !talk.has_heard_nothing() => Some("a proxy request that did not end"),
            _understood => None,
        }
    }

    /// What the entry is about.
    pub(super) fn subject(&self) -> (Capability, String) {
        let capability = match self.side {
            Side::FromJail => Capability::Net,
            Side::ToJail(_) => Capability::Serve,
        };
        let target = match (&self.target, self.side) {
            (Some(target), Side::ToJail(_)) => target.port.to_string(),
            (Some(target), Side::FromJail) => format!("{}:{}", target.host, target.port),
            (None, _) if matches!(self.stage, Stage::Names { .. }) => NAME_SERVER.to_owned(),
            (None, _) => "proxy".to_owned(),
        };
        (capability, target)
    }

    /// The entry's reason, from what was carried and why it ended.
    pub(super) fn account(&self, why: &str, now: Instant) -> String {
        let with = match (self.side, self.dialled) {
            (Side::ToJail(from), Some(_)) => format!("from {from}"),
            (Side::FromJail, Some(dialled)) => format!("to {dialled}"),
            (_, None) => return why.to_owned(),
        };
        let time = now.duration_since(self.began).as_millis();
        format!("{with}: {} bytes there, {} back, {time} ms; {why}", self.up.bytes, self.down.bytes)
    }
}
