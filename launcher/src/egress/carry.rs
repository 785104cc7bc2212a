//! The loop: one epoll for the jail's sockets, the hosts' and the supervisor's.
//!
//! Sockets of connections are watched for every change at once (edge-triggered), and each change moves what can be
//! moved in both directions; a connection that could go on for long is taken up again after the others.
//!
//! Invariant: nothing here waits but the one epoll_wait.
//! Source: epoll(7), accept(2), ip(7), netfilter's SO_ORIGINAL_DST.

use super::{
    connection::{Connection, Side, Stage},
    dial::{self, OwnAddresses},
    entry::{Granted, Log},
    guard::{Guard, Names},
    limits, local_address,
    names::{AddressBook, Bucket},
    plain,
    proxy::{Manner, Outcome, Step, Talk, Wanted},
    relay::{self, Moved, Pipes},
    resolve::{Found, HostNames, Place, Resolver},
};
use crate::{jail::Purpose, sys::socket as socket_of};
use nix::{
    errno::Errno,
    sys::{
        epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout},
        socket::{
            MsgFlags, Shutdown, SockFlag, SockaddrStorage, accept4, connect, getpeername, getsockopt,
            recvfrom, sendto, setsockopt, shutdown, sockopt,
        },
    },
};
use policies::{
    capability::Capability,
    plan::{NamedNetwork, network::RESOLVER},
    scope::{Host, HostTarget},
};
use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// How often the clock is looked at while something is under way.
const TICK: Duration = Duration::from_millis(200);
/// Connections that are accepted in one turn.
const ACCEPTS: usize = 64;
/// Questions that are answered in one turn.
const QUESTIONS: usize = 64;
/// Answers over TCP that may wait for the program to read them.
const ANSWERS: usize = 64 << 10;

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
    fn turns(&mut self) -> Result<(), Errno> {
        let mut events = [EpollEvent::empty(); 128];
        let mut ticked = Instant::now();
        while !self.ended {
            let timeout = if !self.again.is_empty() {
                EpollTimeout::ZERO
            } else if self.open > 0 || self.resolver.is_busy() || !self.delivering.is_empty() {
                EpollTimeout::try_from(TICK).unwrap_or(EpollTimeout::ZERO)
            } else {
                EpollTimeout::NONE
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
                        let found =
                            self.resolver.ready(place, now, &mut |socket, place| watch(epoll, socket, place));
                        self.found(found, now);
                    }
                    Token::First(slot) => self.go_on(slot, now),
                    Token::Second(slot) => self.answered(slot, now),
                    Token::Log => self.ended = true,
                }
            }
            for slot in std::mem::take(&mut self.again) {
                self.pump(slot, now);
            }
            if now.duration_since(ticked) >= TICK {
                ticked = now;
                self.tick(now);
            }
        }
        let now = Instant::now();
        for slot in 0..self.connections.len() {
            if let Some(Connection { stage: Stage::Names { .. } | Stage::Talk(_), told, .. }) =
                &mut self.connections[slot]
            {
                // Nothing was asked for yet.
                *told = true;
            }
            self.close(slot, Granted::Yes, "the jail ended", now);
        }
        self.log.finish();
        Ok(())
    }

    // ---- Accepting --------------------------------------------------------------------------------------------------

    fn socket(&mut self, place: usize, now: Instant) {
        let Some((purpose, _)) = self.listeners.get(place) else { return };
        if *purpose == Purpose::NamesByUdp {
            self.questions(place, now);
            return;
        }
        let purpose = *purpose;
        for _ in 0..ACCEPTS {
            let Some(accepted) = accept(&self.listeners[place].1) else { return };
            if let Some(accepted) = self.has_room(accepted, now) {
                self.begin(accepted, purpose, now);
            }
        }
    }

    /// Whether there is room for one more; if not, it is ended.
    fn has_room(&mut self, accepted: OwnedFd, now: Instant) -> Option<OwnedFd> {
        if self.open < self.most {
            return Some(accepted);
        }
        self.refuse_at_once(accepted, "*", "too many connections at one time", now);
        None
    }

    /// Ends a connection about which nothing more is to be known.
    fn refuse_at_once(&mut self, socket: OwnedFd, target: &str, why: &str, now: Instant) {
        reset(&socket);
        drop(socket);
        if self.refusals.take(now) {
            self.log.add(Capability::Net, Granted::No, target, why);
        }
    }

    /// What a new connection from the jail means.
    fn begin(&mut self, socket: OwnedFd, purpose: Purpose, now: Instant) {
        let meant = match purpose {
            Purpose::Redirect => original_address(&socket),
            Purpose::NamesByUdp
            | Purpose::NamesByTcp
            | Purpose::Proxy
            | Purpose::Port(_)
            | Purpose::ConnectorV4
            | Purpose::ConnectorV6 => local_address(&socket),
        };
        let Ok(meant) = meant else { return };
        let _soon = setsockopt(&socket, sockopt::TcpNoDelay, &true);
        if meant == SocketAddr::new(IpAddr::V4(RESOLVER), 53) {
            self.add(Connection::new(socket, Stage::Names { got: Vec::new() }, Side::FromJail, now));
            return;
        }
        if purpose == Purpose::Proxy {
            self.add(Connection::new(socket, Stage::Talk(Talk::default()), Side::FromJail, now));
            return;
        }
        let Some(host) = self.book.meant(meant.ip()) else {
            self.refuse_at_once(socket, &meant.to_string(), "a private address that no name has", now);
            return;
        };
        let mut connection =
            Connection::new(socket, Stage::Lookup { until: now + limits::LOOKUP }, Side::FromJail, now);
        connection.target = Some(HostTarget { host, port: meant.port() });
        let slot = self.add(connection);
        self.look_up(slot, now);
    }

    /// A visitor at a served port.
    fn visit(&mut self, place: usize, now: Instant) {
        for _ in 0..ACCEPTS {
            if self.connectors[0].is_empty() {
                self.deliver(now);
            }
            if self.connectors[0].is_empty() {
                self.full = true;
                self.watch_visitors(EpollFlags::empty());
                return;
            }
            let Some(served) = self.served.get(place) else { return };
            let port = served.port;
            let Some(accepted) = accept(&served.listener) else { return };
            let Some(accepted) = self.has_room(accepted, now) else { continue };
            let from = getpeername::<SockaddrStorage>(accepted.as_raw_fd()).and_then(|peer| plain(&peer));
            let Ok(from) = from else { continue };
            let _soon = setsockopt(&accepted, sockopt::TcpNoDelay, &true);
            let rest = VecDeque::from([
                SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
                SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
            ]);
            let until = now + limits::DIAL;
            let stage = Stage::Dial { at: from, rest, one_until: until, until };
            let mut connection = Connection::new(accepted, stage, Side::ToJail(from), now);
            connection.target = Some(HostTarget { host: Host::Ip(Ipv4Addr::LOCALHOST.into()), port });
            let slot = self.add(connection);
            self.try_next(slot, now);
        }
    }

    fn watch_visitors(&mut self, events: EpollFlags) {
        for (place, served) in self.served.iter().enumerate() {
            let mut event = EpollEvent::new(events, Token::Served(place).encode());
            let _watched = self.epoll.modify(&served.listener, &mut event);
        }
    }

    /// Takes a connection in and looks at what has come already.
    fn add(&mut self, connection: Connection) -> usize {
        let slot = self.free.pop().unwrap_or(self.connections.len());
        let events =
            EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        // With no memory for one more it stands until its time is over.
        let _watched =
            self.epoll.add(&connection.first, EpollEvent::new(events, Token::First(slot).encode()));
        if slot == self.connections.len() {
            self.connections.push(Some(connection));
        } else {
            self.connections[slot] = Some(connection);
        }
        self.open += 1;
        slot
    }

    // ---- Names ------------------------------------------------------------------------------------------------------

    fn questions(&mut self, place: usize, now: Instant) {
        for _ in 0..QUESTIONS {
            let raw = self.listeners[place].1.as_raw_fd();
            let mut message = [0; limits::DATAGRAM];
            let (length, from) = match recvfrom::<SockaddrStorage>(raw, &mut message) {
                Ok((length, Some(from))) => (length, from),
                Err(Errno::EINTR) => continue,
                Ok((_, None)) | Err(_) => return,
            };
            if let Some(answer) = self.answer_question(&message[..length], now) {
                // A program that doesn't read its answers loses them.
                let _sent = sendto(raw, &answer, &from, MsgFlags::MSG_DONTWAIT);
            }
        }
    }

    fn answer_question(&mut self, message: &[u8], now: Instant) -> Option<Vec<u8>> {
        let (answer, refused) = self.book.answer(message);
        if let Some(name) = refused
            && self.refusals.take(now)
        {
            let why = "the name server was asked for a name that isn't granted";
            self.log.add(Capability::Net, Granted::No, &name, why);
        }
        answer
    }

    fn questions_by_tcp(&mut self, slot: usize, now: Instant) {
        let mut buffer = [0; 4096];
        loop {
            let Some(connection) = self.connections[slot].as_mut() else { return };
            let _written = connection.down.flush(&connection.first, &mut self.pipes);
            let Stage::Names { got } = &mut connection.stage else { return };
            match relay::read(&connection.first, &mut buffer, MsgFlags::empty()) {
                Ok(None) => return,
                Ok(Some(0)) | Err(_) => {
                    connection.told = true;
                    self.close(slot, Granted::Yes, "", now);
                    return;
                }
                Ok(Some(length)) => got.extend_from_slice(&buffer[..length]),
            }
            connection.active = now;
            let mut got = std::mem::take(got);
            while let Some((length, rest)) = got.split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                if length > limits::DATAGRAM {
                    self.close(slot, Granted::No, "a question of more than 1232 bytes", now);
                    return;
                }
                let Some(message) = rest.get(..length) else { break };
                let answer = self.answer_question(message, now);
                got.drain(..2 + length);
                let Some(connection) = self.connections[slot].as_mut() else { return };
                if let Some(answer) = answer {
                    connection.down.push(&(answer.len() as u16).to_be_bytes());
                    connection.down.push(&answer);
                }
                if connection.down.pending().len() > ANSWERS {
                    self.close(slot, Granted::No, "answers that nobody reads", now);
                    return;
                }
            }
            if let Some(Connection { stage: Stage::Names { got: kept }, .. }) =
                self.connections[slot].as_mut()
            {
                *kept = got;
            }
        }
    }

    // ---- From what is meant to a connection --------------------------------------------------------------------------

    /// Asks the ceiling, then for addresses.
    fn look_up(&mut self, slot: usize, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        let Some(target) = connection.target.clone() else { return };
        if !self.network.opens(&target) {
            self.turn_away(slot, Outcome::Refused, "the ceiling doesn't grant this host and port", now);
            return;
        }
        if self.network.any_name(&target) {
            connection.guard = Guard::opaque();
        } else if connection.manner != Manner::Absolute {
            connection.guard = Guard::new(target.port);
        }
        connection.stage = Stage::Lookup { until: now + limits::LOOKUP };
        let addresses = match &target.host {
            Host::Ip(address) => Some(vec![*address]),
            Host::Name(name) => {
                let epoll = &self.epoll;
                self.resolver.ask(name, slot, now, &mut |socket, place| watch(epoll, socket, place))
            }
        };
        if let Some(addresses) = addresses {
            self.dial(slot, addresses, now);
        }
    }

    fn found(&mut self, found: impl IntoIterator<Item = Found>, now: Instant) {
        for Found { name, waiting, addresses } in found {
            for slot in waiting {
                // The slot may belong to another connection by now, which must not get this one's addresses.
                let waits = self.connections[slot].as_ref().is_some_and(|connection| {
                    let same = connection
                        .target
                        .as_ref()
                        .is_some_and(|target| target.host == Host::Name(name.clone()));
                    same && matches!(connection.stage, Stage::Lookup { .. })
                });
                if waits {
                    self.dial(slot, addresses.clone(), now);
                }
            }
        }
    }

    /// Chooses what may be dialled and begins with the first.
    fn dial(&mut self, slot: usize, mut addresses: Vec<IpAddr>, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        let Some(target) = connection.target.clone() else { return };
        let prefers_v4 = local_address(&connection.first).is_ok_and(|local| local.is_ipv4());
        addresses.sort_by_key(|address| address.is_ipv4() != prefers_v4);
        let mut rest = VecDeque::new();
        let mut why = None;
        for address in &addresses {
            let address = SocketAddr::new(*address, target.port);
            match dial::refused(address, self.network, &self.own) {
                Some(reason) => why = why.or(Some(format!("{} {reason}", address.ip()))),
                None if rest.len() < limits::ADDRESSES => rest.push_back(address),
                None => {}
            }
        }
        if rest.is_empty() {
            match why {
                Some(why) => self.turn_away(slot, Outcome::Refused, &why, now),
                None => self.turn_away(slot, Outcome::Unreachable, "the name has no address", now),
            }
            return;
        }
        let until = now + limits::DIAL;
        let Some(connection) = self.connections[slot].as_mut() else { return };
        connection.stage = Stage::Dial { at: rest[0], rest, one_until: until, until };
        self.try_next(slot, now);
    }

    /// Begins a connection to the next address.
    fn try_next(&mut self, slot: usize, now: Instant) {
        let mut last = Errno::ECONNREFUSED;
        loop {
            let Some(connection) = self.connections[slot].as_mut() else { return };
            if let Some(second) = connection.second.take() {
                if let Ok(Err(errno)) = getsockopt(&second, sockopt::SocketError).map(as_error) {
                    last = errno;
                }
                let side = connection.side;
                self.give_back(second, side, now);
            }
            let Some(connection) = self.connections[slot].as_mut() else { return };
            let Stage::Dial { at, rest, one_until, .. } = &mut connection.stage else { return };
            let Some(address) = rest.pop_front() else {
                let why = match connection.side {
                    Side::FromJail => format!("it can't be reached: {}", last.desc().to_lowercase()),
                    Side::ToJail(_) => "nobody listens on that port in the jail".to_owned(),
                };
                self.turn_away(slot, Outcome::Unreachable, &why, now);
                return;
            };
            *at = address;
            let more = !rest.is_empty();
            *one_until = now + if more { limits::DIAL_ONE } else { limits::DIAL };
            let begun = match connection.side {
                Side::FromJail => dial::begin(address),
                Side::ToJail(_) => match self.connectors[usize::from(address.is_ipv6())].pop() {
                    None if address.is_ipv6() => Err(Errno::ECONNREFUSED),
                    None => {
                        self.turn_away(slot, Outcome::Unreachable, "too many connections into the jail", now);
                        return;
                    }
                    Some(connector) => {
                        match connect(connector.as_raw_fd(), &SockaddrStorage::from(address)) {
                            Ok(()) | Err(Errno::EINPROGRESS) => Ok(connector),
                            Err(errno) => {
                                self.delivering.push((connector, now));
                                Err(errno)
                            }
                        }
                    }
                },
            };
            match begun {
                Ok(socket) => {
                    let _soon = setsockopt(&socket, sockopt::TcpNoDelay, &true);
                    let events = EpollFlags::EPOLLIN
                        | EpollFlags::EPOLLOUT
                        | EpollFlags::EPOLLRDHUP
                        | EpollFlags::EPOLLET;
                    let _watched =
                        self.epoll.add(&socket, EpollEvent::new(events, Token::Second(slot).encode()));
                    if let Some(connection) = self.connections[slot].as_mut() {
                        connection.second = Some(socket);
                    }
                    return;
                }
                Err(errno) => last = errno,
            }
        }
    }

    /// A connector goes back to the others once everything is delivered; any other socket is closed.
    fn give_back(&mut self, socket: OwnedFd, side: Side, now: Instant) {
        match side {
            Side::FromJail => drop(socket),
            Side::ToJail(_) => {
                let _unwatched = self.epoll.delete(&socket);
                self.delivering.push((socket, now));
                if self.full {
                    self.deliver(now);
                }
            }
        }
    }

    /// Something happened on the second side.
    fn answered(&mut self, slot: usize, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        let (Stage::Dial { at, .. }, Some(second)) = (&connection.stage, &connection.second) else {
            self.pump(slot, now);
            return;
        };
        let at = *at;
        match getsockopt(second, sockopt::SocketError).map(as_error) {
            Ok(Ok(())) if getpeername::<SockaddrStorage>(second.as_raw_fd()).is_ok() => {
                connection.dialled = Some(at);
                connection.stage = Stage::Open;
                connection.active = now;
                let words = connection.manner.words(Outcome::Open);
                connection.down.push(words);
                self.pump(slot, now);
            }
            Ok(Ok(())) => {}
            Ok(Err(errno)) => {
                // Asked once, the error is gone: it is kept for the account.
                if let Stage::Dial { rest, .. } = &connection.stage
                    && rest.is_empty()
                    && connection.side == Side::FromJail
                {
                    let why = format!("{at} can't be reached: {}", errno.desc().to_lowercase());
                    self.turn_away(slot, Outcome::Unreachable, &why, now);
                    return;
                }
                self.try_next(slot, now);
            }
            Err(_) => self.try_next(slot, now),
        }
    }

    // ---- While it lasts ----------------------------------------------------------------------------------------------

    /// Something happened on the first side.
    fn go_on(&mut self, slot: usize, now: Instant) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else { return };
        match &mut connection.stage {
            Stage::Names { .. } => self.questions_by_tcp(slot, now),
            Stage::Talk(_) => self.talk(slot, now),
            Stage::Lookup { .. } | Stage::Dial { .. } => {}
            Stage::Open => self.pump(slot, now),
            Stage::Farewell { .. } => self.farewell(slot, now),
        }
    }

    /// The proxy's conversation.
    fn talk(&mut self, slot: usize, now: Instant) {
        let mut buffer = [0; 16 << 10];
        loop {
            let Some(connection) = self.connections[slot].as_mut() else { return };
            let Stage::Talk(talk) = &mut connection.stage else { return };
            let mut step = match relay::read(&connection.first, &mut buffer, MsgFlags::empty()) {
                Ok(None) => return,
                Ok(Some(0)) | Err(_) => {
                    connection.told = true;
                    self.close(slot, Granted::Yes, "", now);
                    return;
                }
                Ok(Some(length)) => talk.take(&buffer[..length]),
            };
            if let Step::Say(words) = step {
                connection.down.push(words);
                let _said = connection.down.flush(&connection.first, &mut self.pipes);
                step = talk.take(&[]);
            }
            match step {
                Step::More | Step::Say(_) => {}
                Step::Wrong(words, why) => {
                    self.part(slot, words, Granted::No, why, now);
                    return;
                }
                Step::Wants(wanted) => {
                    self.wants(slot, wanted, now);
                    return;
                }
            }
        }
    }

    fn wants(&mut self, slot: usize, wanted: Wanted, now: Instant) {
        let Wanted { mut target, manner, first, rest } = wanted;
        // A program that asked our name server itself gives the proxy a private address.
        if let Host::Ip(address) = target.host {
            match self.book.meant(address) {
                Some(host) => target.host = host,
                None => {
                    let Some(connection) = self.connections[slot].as_mut() else { return };
                    (connection.target, connection.manner) = (Some(target), manner);
                    self.turn_away(slot, Outcome::Refused, "a private address that no name has", now);
                    return;
                }
            }
        }
        let Some(connection) = self.connections[slot].as_mut() else { return };
        (connection.target, connection.manner) = (Some(target), manner);
        let body = first.map(|(head, body)| {
            connection.up.push(&head);
            body
        });
        self.look_up(slot, now);
        let Some(connection) = self.connections[slot].as_mut() else { return };
        if let Some(body) = body {
            connection.guard = Guard::behind_proxy_head(body);
        }
        if !matches!(connection.stage, Stage::Farewell { .. }) {
            self.first_bytes(slot, &rest, now);
        }
    }

    /// Puts bytes of the first side past the guard.
    fn first_bytes(&mut self, slot: usize, bytes: &[u8], now: Instant) -> bool {
        let Some(connection) = self.connections[slot].as_mut() else { return false };
        let Some(target) = &connection.target else { return false };
        let network = self.network;
        let names = Names {
            may_name: &|name| network.may_name(target, name),
            by_address: matches!(target.host, Host::Ip(_)),
        };
        match connection.guard.take(bytes, &names, connection.up.pending()) {
            Ok(()) => true,
            Err(why) => {
                self.abort(slot, Granted::No, &why, now);
                false
            }
        }
    }

    /// Moves what can be moved.
    fn pump(&mut self, slot: usize, now: Instant) {
        let mut moved_in_all = 0;
        loop {
            let Some(connection) = self.connections[slot].as_mut() else { return };
            if !matches!(connection.stage, Stage::Open) {
                return;
            }
            let before = connection.up.bytes + connection.down.bytes;
            let went = self.back(slot, now).and_then(|back| Ok((back, self.there(slot, now)?)));
            let Some(connection) = self.connections[slot].as_mut() else { return };
            let moved = connection.up.bytes + connection.down.bytes - before;
            self.carried += moved;
            let busy = match went {
                Ok((back, there)) => back | there,
                Err(errno) => {
                    let why = format!("broken off: {}", errno.desc().to_lowercase());
                    self.abort(slot, Granted::Yes, &why, now);
                    return;
                }
            };
            if moved > 0 {
                connection.active = now;
                moved_in_all += moved as usize;
            }
            let alone = connection.guard.is_done() && connection.up.is_empty();
            if connection.down.is_over() && (connection.up.is_over() || alone) {
                self.close(slot, Granted::Yes, "closed", now);
                return;
            }
            if self.carried > self.network.limits().bytes.0 {
                self.abort(slot, Granted::No, "the jail's limit of bytes is met", now);
                return;
            }
            if !busy {
                return;
            }
            if moved_in_all > limits::TURN {
                self.again.push(slot);
                return;
            }
        }
    }

    /// One step from the second side to the first; tells whether there may be another.
    fn back(&mut self, slot: usize, now: Instant) -> Result<bool, Errno> {
        let Some(connection) = self.connections[slot].as_mut() else { return Ok(false) };
        let Some(second) = &connection.second else { return Ok(false) };
        if connection.down.is_over() {
            return Ok(false);
        }
        let mut filled = Moved::Blocked;
        if connection.down.is_empty() && !connection.down.has_ended() {
            if connection.guard.awaits_switch() {
                let mut first = [0; 12];
                match relay::read(second, &mut first, MsgFlags::MSG_PEEK)? {
                    Some(length) if length == first.len() || length == 0 => {
                        let target = connection.target.clone();
                        let network = self.network;
                        let names = Names {
                            may_name: &|name| {
                                target.as_ref().is_some_and(|target| network.may_name(target, name))
                            },
                            by_address: true,
                        };
                        let out = connection.up.pending();
                        if let Err(why) = connection.guard.answered(&first[..length], &names, out) {
                            self.abort(slot, Granted::No, &why, now);
                            return Ok(false);
                        }
                    }
                    Some(_) | None => return Ok(false),
                }
            }
            filled = connection.down.fill(second, &mut self.pipes)?;
        }
        let flushed = connection.down.flush(&connection.first, &mut self.pipes)?;
        Ok(matches!(filled, Moved::Some(_)) && flushed != Moved::Blocked
            || matches!(flushed, Moved::Some(1..)))
    }

    /// One step from the first side to the second.
    fn there(&mut self, slot: usize, now: Instant) -> Result<bool, Errno> {
        let Some(connection) = self.connections[slot].as_mut() else { return Ok(false) };
        if connection.up.is_over() {
            return Ok(false);
        }
        let mut filled = false;
        if connection.up.is_empty() && !connection.up.has_ended() && !connection.guard.is_done() {
            if connection.guard.is_opaque() {
                filled = matches!(connection.up.fill(&connection.first, &mut self.pipes)?, Moved::Some(_));
            } else if !connection.guard.is_full() {
                let mut buffer = [0; 16 << 10];
                match relay::read(&connection.first, &mut buffer, MsgFlags::empty())? {
                    None => {}
                    Some(0) => {
                        let out = connection.up.pending();
                        if let Err(why) = connection.guard.end(out) {
                            self.abort(slot, Granted::No, &why, now);
                            return Ok(false);
                        }
                        connection.up.end();
                    }
                    Some(length) => {
                        filled = true;
                        if !self.first_bytes(slot, &buffer[..length], now) {
                            return Ok(false);
                        }
                    }
                }
            }
        }
        let Some(connection) = self.connections[slot].as_mut() else { return Ok(false) };
        let Some(second) = &connection.second else { return Ok(false) };
        let flushed = connection.up.flush(second, &mut self.pipes)?;
        Ok(filled && flushed != Moved::Blocked || matches!(flushed, Moved::Some(1..)))
    }

    // ---- Ends --------------------------------------------------------------------------------------------------------

    /// Tells the program in its own manner that there will be no connection.
    fn turn_away(&mut self, slot: usize, outcome: Outcome, why: &str, now: Instant) {
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
    fn part(&mut self, slot: usize, words: &[u8], granted: Granted, why: &str, now: Instant) {
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

    fn farewell(&mut self, slot: usize, now: Instant) {
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

    /// Makes the entry, once.
    fn tell(&mut self, slot: usize, granted: Granted, why: &str, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        if std::mem::replace(&mut connection.told, true) {
            return;
        }
        let (capability, target) = connection.subject();
        let reason = connection.account(why, now);
        self.log.add(capability, granted, &target, &reason);
    }

    /// Ends both sides with a reset.
    fn abort(&mut self, slot: usize, granted: Granted, why: &str, now: Instant) {
        if let Some(connection) = self.connections[slot].as_ref() {
            reset(&connection.first);
            if let (Some(second), Side::FromJail) = (&connection.second, connection.side) {
                reset(second);
            }
        }
        self.close(slot, granted, why, now);
    }

    fn close(&mut self, slot: usize, granted: Granted, why: &str, now: Instant) {
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

    // ---- The clock ---------------------------------------------------------------------------------------------------

    fn tick(&mut self, now: Instant) {
        let epoll = &self.epoll;
        let found = self.resolver.clock(now, &mut |socket, place| watch(epoll, socket, place));
        self.found(found, now);
        self.deliver(now);
        let idle = Duration::from_millis(self.network.limits().idle.0);
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connections[slot].as_mut() else { continue };
            connection.held = match (connection.guard.is_holding(), connection.held) {
                (true, None) => Some(now),
                (true, since) => since,
                (false, _) => None,
            };
            let held = connection.held.is_some_and(|since| now.duration_since(since) > limits::HELLO);
            let quiet = now.duration_since(connection.active);
            match &connection.stage {
                Stage::Names { .. } if quiet > limits::HELLO => {
                    connection.told = true;
                    self.close(slot, Granted::Yes, "", now);
                }
                Stage::Talk(_) if quiet > limits::HELLO => {
                    self.abort(slot, Granted::No, "a proxy request that didn't come to an end", now);
                }
                Stage::Lookup { until } if now > *until + limits::QUESTION => {
                    self.turn_away(slot, Outcome::Unreachable, "the name could not be looked up", now);
                }
                Stage::Dial { until, .. } if now > *until => {
                    self.turn_away(slot, Outcome::Unreachable, "it can't be reached: no answer", now);
                }
                Stage::Dial { one_until, .. } if now > *one_until => self.try_next(slot, now),
                Stage::Open if held => {
                    self.abort(slot, Granted::No, "a hello or head that didn't come to an end", now);
                }
                Stage::Open if quiet > idle => self.abort(slot, Granted::Yes, "idle for too long", now),
                Stage::Farewell { until } if now > *until => self.close(slot, Granted::No, "", now),
                Stage::Names { .. }
                | Stage::Talk(_)
                | Stage::Lookup { .. }
                | Stage::Dial { .. }
                | Stage::Open
                | Stage::Farewell { .. } => {}
            }
        }
    }

    /// Takes connectors back that have delivered everything.
    fn deliver(&mut self, now: Instant) {
        for (socket, since) in std::mem::take(&mut self.delivering) {
            let done = socket_of::queued(socket.as_fd()).map_or(true, |bytes| bytes == 0);
            if !done && now.duration_since(since) < limits::DIAL {
                self.delivering.push((socket, since));
                continue;
            }
            let v6 = getsockopt(&socket, sockopt::Ipv6V6Only).is_ok();
            if socket_of::disconnect(socket.as_fd()).is_ok() {
                self.connectors[usize::from(v6)].push(socket);
            }
        }
        if self.full && !self.connectors[0].is_empty() {
            self.full = false;
            self.watch_visitors(EpollFlags::EPOLLIN);
        }
    }
}

/// The next connection that waits.
fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    loop {
        match accept4(listener, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC) {
            Ok(accepted) => return Some(accepted),
            Err(Errno::EINTR | Errno::ECONNABORTED) => {}
            Err(_) => return None,
        }
    }
}

fn watch(epoll: &Epoll, socket: BorrowedFd<'_>, place: Place) {
    let events = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
    // Not watched means not answered, and that has its time.
    let _watched = epoll.add(socket, EpollEvent::new(events, Token::Lookup(place).encode()));
}

fn as_error(code: i32) -> Result<(), Errno> {
    if code == 0 { Ok(()) } else { Err(Errno::from_raw(code)) }
}

/// The close that follows tells the other side that something was cut off.
fn reset(socket: &OwnedFd) {
    let _set = setsockopt(socket, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 });
}

/// Where a redirected connection was to go.
fn original_address(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
    if local_address(socket)?.is_ipv4() {
        let meant = getsockopt(socket, sockopt::OriginalDst)?;
        let ip = Ipv4Addr::from(u32::from_be(meant.sin_addr.s_addr));
        return Ok(SocketAddr::new(ip.into(), u16::from_be(meant.sin_port)));
    }
    let meant = getsockopt(socket, sockopt::Ip6tOriginalDst)?;
    let ip = Ipv6Addr::from(meant.sin6_addr.s6_addr);
    let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
    Ok(SocketAddr::new(ip, u16::from_be(meant.sin6_port)))
}
