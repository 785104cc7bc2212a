//! The egress as a process: made by the supervisor, confined before it reads the first byte, and ended with the jail.
//!
//! Source: unix(7) (SOCK_SEQPACKET), pidfd_send_signal(2).

use super::{
    carry::{self, Served},
    confine::{self, Walls},
    dial::OwnAddresses,
    entry::{self, Log},
    resolve::HostNames,
};
use crate::{
    jail::{Purpose, open_spare},
    sys::{
        clone::{self, Side},
        pidfd,
        process::exit_now,
        socket::try_send,
    },
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        epoll::{Epoll, EpollCreateFlags},
        signal::Signal,
        socket::{
            AddressFamily, Backlog, MsgFlags, Shutdown, SockFlag, SockType, SockaddrStorage, bind, listen,
            recv, setsockopt, shutdown, socket, socketpair, sockopt,
        },
        wait::{Id, WaitPidFlag, waitid},
    },
};
use policies::{
    audit::Entry,
    layer::Layer,
    plan::{NamedNetwork, Network, Plan, network::Reach},
};
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

/// Entries that are taken at the end: more than there can be connections.
const MOST_LAST: usize = 4096;
/// How long the last entries are waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What is made before the jail: the host's own listeners, so that a port that is taken is a refusal.
#[derive(Debug)]
pub struct Prepared {
    network: NamedNetwork,
    served: Vec<Served>,
    walls: Walls,
}

/// A running egress, as the supervisor sees it.
#[derive(Debug)]
pub struct Egress {
    process: OwnedFd,
    audit: OwnedFd,
    /// Every port leads to it by a redirect.
    redirects: bool,
    /// Sockets in the jail's namespace for ports that are opened later.
    spares: Vec<OwnedFd>,
    opened: BTreeSet<u16>,
}

impl Prepared {
    /// Listens where the plan says; `None` if the plan has no network to carry.
    ///
    /// # Errors
    /// As bind(2) and listen(2), with the address.
    pub fn of(plan: &Plan) -> Result<Option<Self>, (SocketAddr, Errno)> {
        let Network::Named(network) = &plan.network else { return Ok(None) };
        let mut served = Vec::new();
        for port in network.serve() {
            let address = SocketAddr::new(network.serve_address(), *port);
            let listener = listening(address).map_err(|errno| (address, errno))?;
            served.push(Served { port: *port, listener });
        }
        Ok(Some(Self { network: (**network).clone(), served, walls: Walls::of(plan) }))
    }

    /// Starts the process, with the sockets that init made.
    ///
    /// # Errors
    /// As clone3(2) and socketpair(2).
    pub fn start(self, sockets: Vec<(Purpose, OwnedFd)>) -> Result<Egress, Errno> {
        let (spares, sockets): (Vec<_>, Vec<_>) =
            sockets.into_iter().partition(|(purpose, _)| *purpose == Purpose::Spare);
        let redirects = sockets.iter().any(|(purpose, _)| *purpose == Purpose::Redirect);
        let spares = spares.into_iter().map(|(_, spare)| spare).collect();
        let (audit, to) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        match clone::fork_into(0, None)? {
            Side::Child => {
                drop(audit);
                let ended = self.run(sockets, to);
                exit_now(if ended.is_ok() { 0 } else { 125 })
            }
            Side::Parent { pidfd, .. } => {
                Ok(Egress { process: pidfd, audit, redirects, spares, opened: BTreeSet::new() })
            }
        }
    }

    fn run(self, sockets: Vec<(Purpose, OwnedFd)>, to: OwnedFd) -> Result<(), Errno> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let names = HostNames::read();
        let own = OwnAddresses::read();
        let mut keep: Vec<RawFd> = vec![to.as_raw_fd(), epoll.0.as_raw_fd()];
        keep.extend(sockets.iter().map(|(_, socket)| socket.as_raw_fd()));
        keep.extend(self.served.iter().map(|served| served.listener.as_raw_fd()));
        confine::keep_only(keep)?;
        let connections = self.most(self.walls.give_up()?);
        carry::run(
            &self.network,
            connections,
            carry::Given { epoll, sockets, served: self.served, names, own },
            Log::new(to),
        )
    }

    /// How many connections the descriptors are enough for: two sockets and, under load, two pipes each; the rest for
    /// listeners and questions.
    fn most(&self, files: u64) -> u32 {
        let fit = files.saturating_sub(256 + self.served.len() as u64) / 6;
        u32::try_from(fit).unwrap_or(u32::MAX).min(self.network.limits().connections).max(1)
    }
}

fn listening(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let listener = socket(family, SockType::Stream, flags, None)?;
    setsockopt(&listener, sockopt::ReuseAddr, &true)?;
    bind(listener.as_raw_fd(), &SockaddrStorage::from(address))?;
    listen(&listener, Backlog::new(512)?)?;
    Ok(listener)
}

impl Egress {
    /// Sees to it that the egress takes what the jail connects to, where the kernel lends no redirect: a port that none has
    /// connected to yet gets a listener in the jail's namespace, which the egress is handed. Whatever comes there, the
    /// egress asks the kernel where it was to go, and judges that.
    ///
    /// # Errors
    /// Why that port can't be opened: the connection finds nobody then.
    pub fn open_port(&mut self, network: &NamedNetwork, address: SocketAddr) -> Result<(), &'static str> {
        let port = address.port();
        let inside = address.ip().is_loopback() || address.ip().is_unspecified();
        if network.reach() != Reach::EveryPort
            || self.redirects
            || inside
            || network.ports().contains(&port)
            || self.opened.contains(&port)
        {
            return Ok(());
        }
        let Some(spare) = self.spares.pop() else {
            return Err("nobody is there: as many different ports as a run may have were opened before");
        };
        if open_spare(&spare, port).is_err() {
            self.spares.push(spare);
            return Err("nobody is there: the jail itself uses that port");
        }
        let told = try_send(self.audit.as_fd(), &Purpose::Port(port).encode(), Some(spare.as_fd()));
        told.map_err(|_| "nobody is there: the egress doesn't take that port")?;
        self.opened.insert(port);
        Ok(())
    }

    /// Takes the entries that wait; `Err`: the egress has ended.
    pub fn entries(&self) -> Result<Vec<Entry>, Errno> {
        let mut entries = Vec::new();
        let mut message = [0; entry::LARGEST];
        // A flood waits for the next turn.
        while entries.len() < 64 {
            match recv(self.audit.as_raw_fd(), &mut message, MsgFlags::MSG_DONTWAIT) {
                Ok(0) if entries.is_empty() => return Err(Errno::EPIPE),
                Ok(0) | Err(Errno::EAGAIN) => break,
                Ok(length) => {
                    // It parses what strangers send, so it is trusted with its own layer only.
                    let lines = message[..length].split(|byte| *byte == b'\n');
                    entries.extend(
                        lines
                            .filter_map(|line| serde_json::from_slice::<Entry>(line).ok())
                            .map(|entry| Entry { layer: Layer::Network, ..entry }),
                    );
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(entries)
    }

    /// Ends it: the connections that are left are told of, and nothing of it is alive afterwards.
    #[must_use]
    pub fn finish(self) -> Vec<Entry> {
        let mut all = Vec::new();
        let _told = shutdown(self.audit.as_raw_fd(), Shutdown::Write);
        let until = Instant::now() + LAST_WORDS;
        loop {
            match self.entries() {
                // Without end only where it was taken over.
                Ok(entries) if !entries.is_empty() && all.len() < MOST_LAST => {
                    all.extend(entries);
                    continue;
                }
                Ok(_) => {}
                Err(_) => break,
            }
            let left = until.saturating_duration_since(Instant::now());
            let mut one = [PollFd::new(self.audit.as_fd(), PollFlags::POLLIN)];
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            match poll(&mut one, timeout) {
                Ok(0) => break,
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => break,
            }
        }
        drop(self);
        all
    }
}

impl Drop for Egress {
    fn drop(&mut self) {
        // ESRCH: it has ended by itself.
        let _ended = pidfd::send_signal(self.process.as_fd(), Signal::SIGKILL);
        let _reaped = waitid(Id::PIDFd(self.process.as_fd()), WaitPidFlag::WEXITED);
    }
}

impl AsFd for Egress {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.audit.as_fd()
    }
}
