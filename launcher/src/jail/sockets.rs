//! The sockets of a named network: made by init inside the namespace, used by the egress outside.
//!
//! A socket stays in the network namespace that it was made in, whoever holds it. So nothing of the supervisor's side
//! ever has to enter the jail's namespace, and nothing in the jail holds one of these.
//!
//! Source: network_namespaces(7), socket(7), ipv6(7) (IPV6_V6ONLY), ip(7), unix(7) (SCM_RIGHTS).

use super::{
    Channel,
    netlink::{self, Netlink},
    step::{AtStep, Failure, Step},
};
use nix::{
    errno::Errno,
    sys::socket::{
        AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, getsockname, getsockopt, listen,
        setsockopt, socket, sockopt,
    },
};
use policies::plan::{
    NamedNetwork,
    network::{RESOLVER, Reach},
};
use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Duration,
};

/// Sockets that go into the jail's served ports, for each family: so many connections at one time.
const CONNECTORS: usize = 64;
/// Sockets for ports that are opened when the jail first connects to them: so many different ones in a run, in messages of
/// [`CONNECTORS`].
const SPARES: usize = 4 * CONNECTORS;
/// Unprivileged ports start here in a new namespace (ip_sysctl, ip_unprivileged_port_start).
const FIRST_FREE_PORT: u16 = 1024;

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The name server, UDP.
    NamesByUdp,
    /// The name server, TCP.
    NamesByTcp,
    /// The proxy.
    Proxy,
    /// A granted port, on all addresses.
    Port(u16),
    /// Every port, by redirect.
    Redirect,
    /// Not connected yet: goes to the jail's own 127.0.0.1.
    ConnectorV4,
    /// Likewise, to ::1.
    ConnectorV6,
    /// Neither bound nor listening yet: for a port that the jail connects to, where the kernel lends no redirect.
    Spare,
}

impl Purpose {
    pub(crate) fn encode(self) -> [u8; 3] {
        let (kind, port) = match self {
            Self::NamesByUdp => (0, 0),
            Self::NamesByTcp => (1, 0),
            Self::Proxy => (2, 0),
            Self::Port(port) => (3, port),
            Self::Redirect => (4, 0),
            Self::ConnectorV4 => (5, 0),
            Self::ConnectorV6 => (6, 0),
            Self::Spare => (7, 0),
        };
        let [high, low] = port.to_be_bytes();
        [kind, high, low]
    }

    pub(crate) fn decode([kind, high, low]: [u8; 3]) -> Option<Self> {
        Some(match kind {
            0 => Self::NamesByUdp,
            1 => Self::NamesByTcp,
            2 => Self::Proxy,
            3 => Self::Port(u16::from_be_bytes([high, low])),
            4 => Self::Redirect,
            5 => Self::ConnectorV4,
            6 => Self::ConnectorV6,
            7 => Self::Spare,
            _ => return None,
        })
    }
}

/// Sets the namespace up and sends its sockets out. By init, while it holds the Linux capabilities of the namespace.
///
/// `redirect`: an error stands for a kernel without the tables that a redirect takes.
pub(super) fn make(
    network: &NamedNetwork,
    redirect: Result<(), Errno>,
    channel: Channel<'_>,
) -> Result<(), Failure> {
    let step = Step::Network;
    let routes = Netlink::routes().at(step)?;
    routes.loopback_up().at(step)?;
    for (place, (address, prefix)) in network.routes().into_iter().enumerate() {
        match (routes.local_route(address, prefix), address) {
            // A host without IPv6: the names then have IPv4 addresses that work.
            (Err(Errno::EOPNOTSUPP | Errno::EAFNOSUPPORT | Errno::ENODEV | Errno::EACCES), IpAddr::V6(_)) => {
            }
            (done, _) => done.at_item(step, place)?,
        }
    }
    if network.serve().iter().any(|port| *port < FIRST_FREE_PORT) {
        // The namespace's own value: the file shows the opener's namespace. Nothing else in there could be taken.
        let written = fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
        written.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))).at(step)?;
    }
    let send = |purpose: Purpose, sockets: &[OwnedFd]| channel.network(purpose, sockets).at(step);
    if !network.grants().is_empty() {
        let resolver = SocketAddr::new(IpAddr::V4(RESOLVER), 53);
        send(Purpose::NamesByUdp, &[bound(resolver, SockType::Datagram).at(step)?])?;
        if !network.ports().contains(&53) {
            send(Purpose::NamesByTcp, &[listening(resolver).at(step)?])?;
        }
        if let Some(port) = network.proxy() {
            send(Purpose::Proxy, &[listening(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)).at(step)?])?;
        }
        for port in network.ports() {
            send(Purpose::Port(*port), &[listening_anywhere(*port).at(step)?])?;
        }
    }
    if network.reach() == Reach::EveryPort {
        match redirect.and_then(|()| redirected()) {
            Ok(sockets) => send(Purpose::Redirect, &sockets)?,
            // Where the kernel doesn't lend these tables, the supervisor opens each port as the jail first connects to it.
            Err(_) => {
                for _ in 0..SPARES / CONNECTORS {
                    let spares: Result<Vec<OwnedFd>, Errno> = (0..CONNECTORS).map(|_| spare()).collect();
                    send(Purpose::Spare, &spares.at(step)?)?;
                    channel.taken();
                }
            }
        }
    }
    if !network.serve().is_empty() {
        for (purpose, family) in
            [(Purpose::ConnectorV4, AddressFamily::Inet), (Purpose::ConnectorV6, AddressFamily::Inet6)]
        {
            let sockets: Result<Vec<OwnedFd>, Errno> = (0..CONNECTORS).map(|_| tcp(family)).collect();
            match (sockets, purpose) {
                (Ok(sockets), _) => send(purpose, &sockets)?,
                (Err(Errno::EAFNOSUPPORT), Purpose::ConnectorV6) => {}
                (Err(errno), _) => return Err(errno).at(step),
            }
        }
    }
    Ok(())
}

fn tcp(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)
}

fn bound(address: SocketAddr, kind: SockType) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let made = socket(family, kind, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&made, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() {
        setsockopt(&made, sockopt::Ipv6V6Only, &!address.ip().is_unspecified())?;
    }
    bind(made.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(made)
}

fn listening(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let made = bound(address, SockType::Stream)?;
    listen(&made, Backlog::new(512)?)?;
    Ok(made)
}

/// For a port that is known later only.
fn spare() -> Result<OwnedFd, Errno> {
    let made = match tcp(AddressFamily::Inet6) {
        Err(Errno::EAFNOSUPPORT) => tcp(AddressFamily::Inet)?,
        other => {
            let made = other?;
            setsockopt(&made, sockopt::Ipv6V6Only, &false)?;
            made
        }
    };
    setsockopt(&made, sockopt::ReuseAddr, &true)?;
    Ok(made)
}

/// Makes a spare socket listen on a port of its namespace, whichever the caller's is. Ports below 1024 take a Linux
/// capability there, which whoever made the namespace has.
pub(crate) fn open_spare(spare: &OwnedFd, port: u16) -> Result<(), Errno> {
    let v6 = getsockopt(spare, sockopt::Ipv6V6Only).is_ok();
    let anywhere: IpAddr = if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    bind(spare.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(anywhere, port)))?;
    listen(spare, Backlog::new(512)?)
}

/// One socket for both families; for IPv4 alone where the host has no IPv6.
fn listening_anywhere(port: u16) -> Result<OwnedFd, Errno> {
    match listening(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port)) {
        Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) => {
            listening(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
        }
        other => other,
    }
}

/// Two listeners on one port, one for each family: only so can each be asked for the original address.
fn redirected() -> Result<Vec<OwnedFd>, Errno> {
    let v4 = listening(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0))?;
    let port = getsockname::<SockaddrStorage>(v4.as_raw_fd())?;
    let port = port.as_sockaddr_in().ok_or(Errno::EAFNOSUPPORT)?.port();
    netlink::redirect_all(port, RESOLVER)?;
    let mut sockets = vec![v4];
    sockets.extend(listening(SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)).ok());
    Ok(sockets)
}

/// How often, and how long between two looks, it is waited for that the supervisor takes what was sent.
const LOOKS: (u32, Duration) = (20_000, Duration::from_micros(100));

impl Channel<'_> {
    /// Waits until the supervisor has taken all that was sent: descriptors on their way count against the sender's limit on
    /// open files (unix(7), ETOOMANYREFS), and the payload, which has a small one, has to send one as well.
    fn taken(self) {
        for _ in 0..LOOKS.0 {
            // A channel that can't be asked is gone, and the next message tells so.
            if crate::sys::socket::queued(self.0).map_or(true, |bytes| bytes == 0) {
                return;
            }
            std::thread::sleep(LOOKS.1);
        }
    }

    fn network(self, purpose: Purpose, sockets: &[OwnedFd]) -> Result<(), Errno> {
        let [kind, high, low] = purpose.encode();
        let borrowed: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
        crate::sys::socket::send(self.0, &[super::NETWORK, kind, high, low], &borrowed)
    }
}
