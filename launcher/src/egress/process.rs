//! The egress as a process: made by the supervisor, confined before it reads the first byte, and ended with the jail.
//!
//! Source: seccomp(2), landlock(7), PR_SET_PDEATHSIG(2const), unix(7) (SOCK_SEQPACKET).

use super::{
    carry::{self, Served},
    dial::OwnAddresses,
    entry::{self, Log},
    resolve::HostNames,
};
use crate::{
    jail::{Purpose, filter},
    sys::{
        clone::{self, Side},
        fd, pidfd,
        process::exit_now,
    },
};
use ::landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr};
use caps::CapSet;
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        epoll::{Epoll, EpollCreateFlags},
        resource::{Resource, getrlimit, setrlimit},
        signal::Signal,
        socket::{
            AddressFamily, Backlog, MsgFlags, Shutdown, SockFlag, SockType, SockaddrStorage, bind, listen,
            recv, setsockopt, shutdown, socket, socketpair, sockopt,
        },
        stat::Mode,
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::{Gid, Uid, setgroups, setresgid, setresuid, setsid},
};
use policies::{
    audit::Entry,
    layer::Layer,
    plan::{NamedNetwork, Network, Plan},
};
use std::{
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
    time::{Duration, Instant},
};

/// First of the host ids for the egresses of a root caller: behind those of the jails.
const FIRST_ID: u32 = 0x7040_0000;
/// Descriptors that the egress is given at most.
const MOST_FILES: u64 = 4096;
/// How long the last entries are waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What is made before the jail: the host's own listeners, so that a port that is taken is a refusal.
#[derive(Debug)]
pub struct Prepared {
    network: NamedNetwork,
    served: Vec<Served>,
    abi: u32,
    filtered: bool,
}

/// A running egress, as the supervisor sees it.
#[derive(Debug)]
pub struct Egress {
    process: OwnedFd,
    audit: OwnedFd,
}

impl Prepared {
    /// Listens where the plan says; `None` if the plan has no network to carry.
    ///
    /// # Errors
    /// As bind(2) and listen(2).
    pub fn of(plan: &Plan) -> Result<Option<Self>, Errno> {
        let Network::Named(network) = &plan.network else { return Ok(None) };
        let mut served = Vec::new();
        for port in network.serve() {
            let address = SocketAddr::new(network.serve_address(), *port);
            let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let listener = socket(family, SockType::Stream, flags, None)?;
            setsockopt(&listener, sockopt::ReuseAddr, &true)?;
            bind(listener.as_raw_fd(), &SockaddrStorage::from(address))?;
            listen(&listener, Backlog::new(512)?)?;
            served.push(Served { port: *port, listener });
        }
        Ok(Some(Self {
            network: (**network).clone(),
            served,
            abi: plan.landlock.abi,
            filtered: plan.filter.is_some(),
        }))
    }

    /// Starts the process, with the sockets that init made.
    ///
    /// # Errors
    /// As clone3(2) and socketpair(2).
    pub fn start(self, sockets: Vec<(Purpose, OwnedFd)>) -> Result<Egress, Errno> {
        let (audit, to) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        match clone::fork_into(0, None)? {
            Side::Child => {
                drop(audit);
                let ended = self.run(sockets, to);
                exit_now(if ended.is_ok() { 0 } else { 125 })
            }
            Side::Parent { pidfd, .. } => Ok(Egress { process: pidfd, audit }),
        }
    }

    fn run(self, sockets: Vec<(Purpose, OwnedFd)>, to: OwnedFd) -> Result<(), Errno> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let names = HostNames::read();
        let own = OwnAddresses::read();
        let mut keep: Vec<RawFd> = vec![to.as_raw_fd(), epoll.0.as_raw_fd()];
        keep.extend(sockets.iter().map(|(_, socket)| socket.as_raw_fd()));
        keep.extend(self.served.iter().map(|served| served.listener.as_raw_fd()));
        keep_only(keep)?;
        let connections = self.confine()?;
        carry::run(
            &self.network,
            connections,
            carry::Given { epoll, sockets, served: self.served, names, own },
            Log::new(to),
        )
    }

    /// Gives up all but the sockets. Tells how many connections the descriptors are enough for.
    fn confine(&self) -> Result<u32, Errno> {
        setsid()?;
        if nix::unistd::geteuid().is_root() {
            // While CAP_SETPCAP is there. An ordinary caller's bounding set is out of reach for both of us: without
            // Linux capabilities, and with no_new_privs, nothing in it can be had.
            caps::clear(None, CapSet::Bounding).map_err(|_| Errno::EPERM)?;
            let id = FIRST_ID + (std::process::id() & 0x3f_ffff);
            setgroups(&[])?;
            setresgid(Gid::from_raw(id), Gid::from_raw(id), Gid::from_raw(id))?;
            setresuid(Uid::from_raw(id), Uid::from_raw(id), Uid::from_raw(id))?;
        }
        let parent = nix::unistd::getppid();
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        if nix::unistd::getppid() != parent {
            return Err(Errno::ESRCH);
        }
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let files = hard.min(MOST_FILES);
        setrlimit(Resource::RLIMIT_NOFILE, files, files)?;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
        for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
            caps::clear(None, set).map_err(|_| Errno::EPERM)?;
        }
        nix::sys::prctl::set_dumpable(false)?;
        nix::sys::prctl::set_no_new_privs()?;
        if self.abi > 0 {
            let nothing = Ruleset::default()
                .handle_access(AccessFs::from_all(ABI::from(self.abi as i32)))
                .and_then(Ruleset::create)
                .and_then(|ruleset| ruleset.restrict_self());
            nothing.map_err(|_| Errno::EOPNOTSUPP)?;
        }
        if self.filtered {
            filter::confine_egress()?;
        }
        // Two sockets and, under load, two pipes each; the rest for listeners and questions.
        let fit = files.saturating_sub(256 + self.served.len() as u64) / 6;
        Ok(u32::try_from(fit).unwrap_or(u32::MAX).min(self.network.limits().connections).max(1))
    }
}

/// Closes every descriptor but these; the standard ones become /dev/null, so that no socket gets their numbers.
fn keep_only(mut keep: Vec<RawFd>) -> Result<(), Errno> {
    let null = open(c"/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    for number in 0..3 {
        fd::duplicate_to(null.as_fd(), number, true)?;
    }
    drop(null);
    keep.sort_unstable();
    let mut next = 3;
    for number in keep {
        fd::close_between(next, number - 1)?;
        next = number + 1;
    }
    fd::close_from(next)
}

impl Egress {
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
                    if let Ok(entry) = serde_json::from_slice::<Entry>(&message[..length]) {
                        entries.push(Entry { layer: Layer::Network, ..entry });
                    }
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
                Ok(entries) if !entries.is_empty() => {
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
