//! New connections: whose they are and what they mean.
//!
//! Source: accept(2), ip(7), netfilter's SO_ORIGINAL_DST.

use super::{
    super::{
        connection::{Connection, Side, Stage},
        entry::Granted,
        limits, local_address, plain,
        proxy::Talk,
    },
    Carrier, Token,
    ends::reset,
};
use crate::jail::Purpose;
use nix::{
    errno::Errno,
    sys::{
        epoll::{EpollEvent, EpollFlags},
        socket::{SockFlag, SockaddrStorage, accept4, getpeername, getsockopt, setsockopt, sockopt},
    },
};
use policies::{
    capability::Capability,
    plan::network::RESOLVER,
    scope::{Host, HostTarget},
};
use std::{
    collections::VecDeque,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsRawFd, OwnedFd},
    time::Instant,
};

/// Connections that are accepted in one turn.
const ACCEPTS: usize = 64;

impl Carrier<'_> {
    pub(super) fn socket(&mut self, place: usize, now: Instant) {
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
    pub(super) fn has_room(&mut self, accepted: OwnedFd, now: Instant) -> Option<OwnedFd> {
        if self.open < self.most {
            return Some(accepted);
        }
        self.refuse_at_once(accepted, "*", "too many connections at one time", now);
        None
    }

    /// Ends a connection about which nothing more is to be known.
    pub(super) fn refuse_at_once(&mut self, socket: OwnedFd, target: &str, why: &str, now: Instant) {
        reset(&socket);
        drop(socket);
        if self.refusals.take(now) {
            self.log.add(Capability::Net, Granted::No, target, why);
        }
    }

    /// What a new connection from the jail means.
    pub(super) fn begin(&mut self, socket: OwnedFd, purpose: Purpose, now: Instant) {
        let meant = match purpose {
            Purpose::Redirect => original_address(&socket),
            Purpose::NamesByUdp
            | Purpose::NamesByTcp
            | Purpose::Proxy
            | Purpose::Port(_)
            | Purpose::Spare
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
    pub(super) fn visit(&mut self, place: usize, now: Instant) {
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

    pub(super) fn watch_visitors(&mut self, events: EpollFlags) {
        for (place, served) in self.served.iter().enumerate() {
            let mut event = EpollEvent::new(events, Token::Served(place).encode());
            let _watched = self.epoll.modify(&served.listener, &mut event);
        }
    }

    /// Takes a connection in and looks at what has come already.
    pub(super) fn add(&mut self, connection: Connection) -> usize {
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
}

/// The next connection that waits.
pub(super) fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    loop {
        match accept4(listener, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC) {
            Ok(accepted) => return Some(accepted),
            Err(Errno::EINTR | Errno::ECONNABORTED) => {}
            Err(_) => return None,
        }
    }
}

/// Where a redirected connection was to go.
pub(super) fn original_address(socket: &OwnedFd) -> Result<SocketAddr, Errno> {
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
