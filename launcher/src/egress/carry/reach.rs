//! From what is meant to a connection: the ceiling, the addresses, the one that answers.
//!
//! Invariant: an address is dialled right after it was checked, in the same turn.

use super::{
    super::{
        connection::{Side, Stage},
        dial::{self, Reached},
        guard::Guard,
        limits, local_address,
        proxy::{Manner, Outcome},
        resolve::{Found, Place},
    },
    Carrier, Token,
};
use nix::{
    errno::Errno,
    sys::{
        epoll::{Epoll, EpollEvent, EpollFlags},
        socket::{SockaddrStorage, connect, getpeername, getsockopt, setsockopt, sockopt},
    },
};
use policies::scope::Host;
use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    time::Instant,
};

impl Carrier<'_> {
    /// Asks the ceiling, then for addresses.
    pub(super) fn look_up(&mut self, slot: usize, now: Instant) {
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

    pub(super) fn found(&mut self, found: impl IntoIterator<Item = Found>, now: Instant) {
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
    pub(super) fn dial(&mut self, slot: usize, mut addresses: Vec<IpAddr>, now: Instant) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        let Some(target) = connection.target.clone() else { return };
        let prefers_v4 = local_address(&connection.first).is_ok_and(|local| local.is_ipv4());
        addresses.sort_by_key(|address| address.is_ipv4() != prefers_v4);
        let mut rest = VecDeque::new();
        let mut why = None;
        for address in &addresses {
            let address = SocketAddr::new(*address, target.port);
            match dial::refused(address, Reached::Public, self.network, &self.own) {
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
    pub(super) fn try_next(&mut self, slot: usize, now: Instant) {
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
    pub(super) fn give_back(&mut self, socket: OwnedFd, side: Side, now: Instant) {
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
    pub(super) fn answered(&mut self, slot: usize, now: Instant) {
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
}

pub(super) fn watch(epoll: &Epoll, socket: BorrowedFd<'_>, place: Place) {
    let events = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
    // Not watched means not answered, and that has its time.
    let _watched = epoll.add(socket, EpollEvent::new(events, Token::Lookup(place).encode()));
}

pub(super) fn as_error(code: i32) -> Result<(), Errno> {
    if code == 0 { Ok(()) } else { Err(Errno::from_raw(code)) }
}
