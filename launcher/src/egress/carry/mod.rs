//! The loop: one epoll for the jail's sockets, the hosts' and the supervisor's.
//!
//! Sockets of connections are watched for every change at once (edge-triggered), and each change moves what can be
//! moved in both directions; a connection that could go on for long is taken up again after the others.
//!
//! Invariant: nothing here waits but the one epoll_wait.
//! Order of reading: [`accept`] and [`questions`] (what begins), [`talk`] (what a proxy is told), [`reach`] (to a connection),
//! [`pump`] (while it lasts), [`ends`], [`clock`].
//!
//! Source: epoll(7).

mod accept;
mod clock;
mod ends;
mod pump;
mod questions;
mod reach;
mod talk;

use super::{
    connection::{Connection, Stage},
    dial::OwnAddresses,
    entry::{Granted, Log},
    names::{AddressBook, Bucket},
    relay::Pipes,
    resolve::{HostNames, Place, Resolver},
};
use crate::{jail::Purpose, sys::socket::receive};
use nix::{
    errno::Errno,
    sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout},
};
use policies::plan::NamedNetwork;
use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// How often the clock is looked at while something is under way.
const TICK: Duration = Duration::from_millis(200);
/// Waits are whole milliseconds: what is shorter is no wait.
const MILLISECOND: Duration = Duration::from_millis(1);

/// A port of the host that leads into the jail.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) port: u16,
    pub(super) listener: OwnedFd,
}

/// What the process was given before it gave up everything else.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) epoll: Epoll,
    pub(super) sockets: Vec<(Purpose, OwnedFd)>,
    pub(super) served: Vec<Served>,
    pub(super) names: HostNames,
    pub(super) own: OwnAddresses,
}

/// Where an event belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Socket(usize),
    Served(usize),
    Lookup(Place),
    First(usize),
    Second(usize),
    Log,
}

impl Token {
    fn encode(self) -> u64 {
        let (kind, half, number) = match self {
            Self::Socket(place) => (0, 0, place),
            Self::Served(place) => (1, 0, place),
            Self::Lookup(Place { lookup, half }) => (2, half as u64, lookup),
            Self::First(slot) => (3, 0, slot),
            Self::Second(slot) => (4, 0, slot),
            Self::Log => (5, 0, 0),
        };
        kind << 60 | half << 56 | (number as u64 & 0xff_ffff_ffff_ffff)
    }

    fn decode(bits: u64) -> Self {
        let number = (bits & 0xff_ffff_ffff_ffff) as usize;
        match bits >> 60 {
            0 => Self::Socket(number),
            1 => Self::Served(number),
            2 => Self::Lookup(Place { lookup: number, half: (bits >> 56 & 1) as usize }),
            3 => Self::First(number),
            4 => Self::Second(number),
            _ => Self::Log,
        }
    }
}

#[derive(Debug)]
struct Carrier<'n> {
    network: &'n NamedNetwork,
    epoll: Epoll,
    listeners: Vec<(Purpose, OwnedFd)>,
    served: Vec<Served>,
    connectors: [Vec<OwnedFd>; 2],
    /// Connectors that still deliver, since when.
    delivering: Vec<(OwnedFd, Instant)>,
    /// No connector is free: visitors wait in the kernel's queue.
    full: bool,
    book: AddressBook<'n>,
    resolver: Resolver,
    own: OwnAddresses,
    log: Log,
    refusals: Bucket,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    open: u32,
    most: u32,
    carried: u64,
    pipes: Pipes,
    again: Vec<usize>,
    ended: bool,
}

/// Carries connections until the supervisor hangs up.
pub(super) fn run(network: &NamedNetwork, most: u32, given: Given, log: Log) -> Result<(), Errno> {
    let now = Instant::now();
    let mut connectors = [Vec::new(), Vec::new()];
    let mut listeners = Vec::new();
    for (purpose, socket) in given.sockets {
        match purpose {
            Purpose::ConnectorV4 => connectors[0].push(socket),
            Purpose::ConnectorV6 => connectors[1].push(socket),
            Purpose::NamesByUdp
            | Purpose::NamesByTcp
            | Purpose::Proxy
            | Purpose::Port(_)
            | Purpose::Redirect => listeners.push((purpose, socket)),
            // The supervisor keeps these.
            Purpose::Spare => drop(socket),
        }
    }
    let mut carrier = Carrier {
        network,
        epoll: given.epoll,
        listeners,
        served: given.served,
        connectors,
        delivering: Vec::new(),
        full: false,
        book: AddressBook::new(network),
        resolver: Resolver::new(given.names),
        own: given.own,
        log,
        refusals: Bucket::new(now),
        connections: Vec::new(),
        free: Vec::new(),
        open: 0,
        most,
        carried: 0,
        pipes: Pipes::default(),
        again: Vec::new(),
        ended: false,
    };
    for (place, (_, socket)) in carrier.listeners.iter().enumerate() {
        carrier.epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, Token::Socket(place).encode()))?;
    }
    for (place, served) in carrier.served.iter().enumerate() {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, Token::Served(place).encode());
        carrier.epoll.add(&served.listener, event)?;
    }
    carrier.epoll.add(&carrier.log.to, EpollEvent::new(EpollFlags::EPOLLIN, Token::Log.encode()))?;
    carrier.turns()
}

impl Carrier<'_> {
    /// The supervisor hands a listener over, or hangs up.
    fn told(&mut self) {
        let mut message = [0; 3];
        let (length, sockets) = match receive(self.log.to.as_fd(), &mut message) {
            Ok(message) => message,
            Err(errno) => {
                self.ended = !matches!(errno, Errno::EAGAIN | Errno::EINTR);
                return;
            }
        };
        self.ended = length == 0;
        if let Some(purpose @ Purpose::Port(_)) = Purpose::decode(message) {
            for socket in sockets {
                let token = Token::Socket(self.listeners.len()).encode();
                let _watched = self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, token));
                self.listeners.push((purpose, socket));
            }
        }
    }

    fn turns(&mut self) -> Result<(), Errno> {
        let mut events = [EpollEvent::empty(); 128];
        let mut ticked = Instant::now();
        while !self.ended {
            let under_way = self.open > 0 || self.resolver.is_busy() || !self.delivering.is_empty();
            let waits = [
                (!self.again.is_empty()).then_some(Duration::ZERO),
                under_way.then_some(TICK),
                self.log.wait(Instant::now()),
            ];
            let timeout = match waits.into_iter().flatten().min() {
                Some(wait) => EpollTimeout::try_from(wait).unwrap_or(EpollTimeout::ZERO),
                None => EpollTimeout::NONE,
            };
            let count = match self.epoll.wait(&mut events, timeout) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(errno) => return Err(errno),
            };
            let now = Instant::now();
            for event in events.iter().take(count) {
                match Token::decode(event.data()) {
                    Token::Socket(place) => self.socket(place, now),
                    Token::Served(place) => self.visit(place, now),
                    Token::Lookup(place) => {
                        let epoll = &self.epoll;
                        let found = self
                            .resolver
                            .ready(place, now, &mut |socket, place| reach::watch(epoll, socket, place));
                        self.found(found, now);
                    }
                    Token::First(slot) => self.go_on(slot, now),
                    Token::Second(slot) => self.answered(slot, now),
                    Token::Log => self.told(),
                }
            }
            for slot in std::mem::take(&mut self.again) {
                self.pump(slot, now);
            }
            if self.log.wait(now).is_some_and(|wait| wait < MILLISECOND) {
                self.log.send();
            }
            if now.duration_since(ticked) >= TICK {
                ticked = now;
                self.tick(now);
            }
        }
        let now = Instant::now();
        for slot in 0..self.connections.len() {
            match &self.connections[slot] {
                Some(Connection { stage: Stage::Names { .. } | Stage::Talk(_), .. }) => {
                    self.leaves(slot, now)
                }
                Some(_) | None => self.close(slot, Granted::Yes, "the jail ended", now),
            }
        }
        self.log.finish();
        Ok(())
    }
}
