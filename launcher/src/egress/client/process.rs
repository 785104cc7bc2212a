//! The client as a process: one job after another, until the supervisor hangs up; or one connection, for as long as it lasts.
//!
//! Source: setns(2), network_namespaces(7).

use super::{
    Job, MOST_MESSAGE, News, Setup, Told,
    carry::{Broken, Carry},
    exchange::Exchange,
    tls::{self, Spoken, Tls},
    wire::{Failed, Way},
};
use crate::{
    egress::{
        confine,
        dial::{self, OwnAddresses},
        guard::{Guard, Names},
        limits,
        resolve::{Found, HostNames, Place, Resolver},
    },
    sys::socket,
};
use nix::{
    errno::Errno,
    sched::{CloneFlags, setns},
    sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout},
};
use policies::{
    connection::{Connect, Security},
    fetch::{Failure, Outcome},
    scope::{Host, HostTarget},
};
use rustls::ClientConnection;
use std::{
    fs::File,
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// How often servers of names that are silent are looked at.
const TICK: Duration = Duration::from_millis(200);
/// Longest reason that is told, in bytes.
const MOST_REASON: usize = 1000;

/// What the process has while it works.
struct Worker<'s> {
    setup: &'s Setup,
    resolver: Resolver,
    own: OwnAddresses,
    epoll: Epoll,
    tls: Tls,
}

/// How a job went, for the audit.
#[derive(Debug, Default)]
pub(super) struct Account {
    dialled: Option<SocketAddr>,
    pub(super) sent: u64,
    pub(super) got: u64,
    refused: bool,
}

/// Serves until the other end is closed.
pub(super) fn run(setup: &Setup, socket: OwnedFd) -> Result<(), Errno> {
    let mut worker = Worker::confined(setup, &[&socket])?;
    let mut message = vec![0; MOST_MESSAGE];
    loop {
        let (length, beside) = match socket::receive(socket.as_fd(), &mut message) {
            Ok((0, _)) => return Ok(()),
            Ok(received) => received,
            Err(Errno::EINTR) => continue,
            Err(errno) => return Err(errno),
        };
        let mut job: Job =
            serde_json::from_slice(message.get(..length).unwrap_or_default()).map_err(|_| Errno::EPROTO)?;
        if let Some(provider) = job.provider {
            job.fields.extend(provider.fields(setup.key.as_ref().map_or("", |key| key.text())));
        }
        let mut beside = beside.into_iter().map(File::from);
        let answer = beside.next().ok_or(Errno::EPROTO)?;
        let told = worker.serve(&job, answer, beside.next());
        let bytes = serde_json::to_vec(&told).map_err(|_| Errno::EPROTO)?;
        socket::send(socket.as_fd(), &bytes, &[])?;
    }
}

/// Makes one connection and carries it to its end. What becomes of it is told to `news`; `program` is the supervisor's side.
pub(super) fn carry(setup: &Setup, connect: &Connect, news: &OwnedFd, program: OwnedFd) -> Result<(), Errno> {
    let mut worker = Worker::confined(setup, &[news, &program])?;
    let tell = |what: &News| {
        let bytes = serde_json::to_vec(what).map_err(|_| Errno::EPROTO)?;
        socket::send(news.as_fd(), &bytes, &[])
    };
    let mut account = Account::default();
    let (way, target, tls) = match worker.open(connect, &mut account) {
        Ok(opened) => opened,
        Err(Failed { kind, why, .. }) => {
            return tell(&News::Failed { kind, why: cut(why), granted: !account.refused });
        }
    };
    let peer = account.dialled.map_or_else(String::new, |peer| peer.to_string());
    tell(&News::Open { peer })?;
    let network = &setup.network;
    let names = Names {
        may_name: &|name| network.may_name(&target, name),
        by_address: matches!(target.host, Host::Ip(_)),
    };
    let guard = if network.any_name(&target) { Guard::opaque() } else { Guard::new(target.port) };
    // Told before the supervisor's side is closed: whoever sees its end finds the reason.
    match Carry::new(way.into_socket(), &program, tls).run(guard, &names) {
        Ok(()) => tell(&News::Ended { why: None, granted: true }),
        Err(Broken { why, granted }) => tell(&News::Ended { why: Some(cut(why)), granted }),
    }
}

/// A certificate may put long names into a reason.
fn cut(why: String) -> String {
    if why.len() <= MOST_REASON { why } else { why.chars().take(MOST_REASON / 4).collect() }
}

impl<'s> Worker<'s> {
    /// Ready to work, with nothing but its sockets.
    fn confined(setup: &'s Setup, keep: &[&OwnedFd]) -> Result<Self, Errno> {
        if let Some(home) = &setup.home {
            setns(home, CloneFlags::CLONE_NEWNET)?;
        }
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let (names, own) = (HostNames::read(), OwnAddresses::read());
        let tls = Tls::new(tls::roots(setup.roots.as_deref()));
        let kept = keep.iter().map(|file| file.as_raw_fd()).chain([epoll.0.as_raw_fd()]);
        confine::keep_only(kept.collect())?;
        setup.walls.give_up()?;
        Ok(Self { setup, resolver: Resolver::new(names), own, epoll, tls })
    }
}

impl Worker<'_> {
    fn serve(&mut self, job: &Job, answer: File, body: Option<File>) -> Told {
        let began = Instant::now();
        let mut account = Account::default();
        let mut exchange = Exchange { job, answer, written: 0 };
        let went = self.attempt(job, &mut exchange, body, began, &mut account);
        let ms = began.elapsed().as_millis();
        let mut unread = 0;
        let (outcome, why) = match went {
            Ok(outcome) => {
                let why = match &outcome {
                    Outcome::Answered { status, .. } => format!("status {status}"),
                    Outcome::Said { tokens } => format!("{tokens} tokens"),
                    Outcome::Failed { why, .. } => why.clone(),
                    Outcome::Offline | Outcome::Spent { .. } => String::new(),
                };
                (outcome, why)
            }
            Err(Failed { kind, why, tokens }) => {
                unread = tokens;
                exchange.written = 0;
                (Outcome::Failed { kind, why: why.clone() }, why)
            }
        };
        let account_text = match account.dialled {
            Some(at) => {
                format!("to {at}: {} bytes there, {} back, {ms} ms; {why}", account.sent, account.got)
            }
            None => why,
        };
        Told { outcome, bytes: exchange.written, granted: !account.refused, account: account_text, unread }
    }

    fn attempt(
        &mut self,
        job: &Job,
        exchange: &mut Exchange<'_>,
        body: Option<File>,
        began: Instant,
        account: &mut Account,
    ) -> Result<Outcome, Failed> {
        let until = began + Duration::from_millis(job.timeout_ms);
        let (mut way, target) = self.reach(&job.host, job.port, until, account)?;
        let went = exchange.over(&mut way, &mut self.tls, &target.host, body);
        (account.sent, account.got) = (way.sent, way.got);
        went
    }

    /// A connection to be kept, its handshake behind it.
    fn open(
        &mut self,
        connect: &Connect,
        account: &mut Account,
    ) -> Result<(Way, HostTarget, Option<ClientConnection>), Failed> {
        let until = Instant::now() + Duration::from_millis(connect.timeout_ms);
        let (mut way, target) = self.reach(&connect.host, connect.port, until, account)?;
        let spoken = match connect.security {
            Security::Plain => return Ok((way, target, None)),
            Security::Tls => Spoken::Anything,
            Security::TlsForHttp => Spoken::Http,
        };
        let tls = self.tls.shake_hands(spoken, &target.host, &mut way)?;
        Ok((way, target, Some(tls)))
    }

    /// A connection to where the ceiling lets it go.
    fn reach(
        &mut self,
        host: &str,
        port: u16,
        until: Instant,
        account: &mut Account,
    ) -> Result<(Way, HostTarget), Failed> {
        let host = Host::parse(host).map_err(|_| Failed::new(Failure::Dns, "the host is none"))?;
        let target = HostTarget { host, port };
        // The supervisor has asked already; what dials asks for itself.
        if !self.setup.network.opens(&target) {
            account.refused = true;
            return Err(Failed::new(Failure::Refused, "the ceiling doesn't grant this host and port"));
        }
        let addresses = match &target.host {
            Host::Ip(address) => vec![*address],
            Host::Name(name) => self.addresses(name, until)?,
        };
        let way = self.dial(&addresses, port, until, account)?;
        Ok((way, target))
    }

    fn addresses(&mut self, name: &str, until: Instant) -> Result<Vec<IpAddr>, Failed> {
        let epoll = &self.epoll;
        let mut watch = |socket: BorrowedFd<'_>, place: Place| {
            let events =
                EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
            // Not watched means not answered, and that has its time.
            let _watched = epoll.add(socket, EpollEvent::new(events, place.encode()));
        };
        let mut known = self.resolver.ask(name, 0, Instant::now(), &mut watch);
        let mut events = [EpollEvent::empty(); 16];
        while known.is_none() {
            let now = Instant::now();
            if now >= until {
                return Err(Failed::new(Failure::Timeout, "the name could not be looked up in time"));
            }
            let wait = EpollTimeout::try_from(TICK.min(until - now)).unwrap_or(EpollTimeout::ZERO);
            let count = match epoll.wait(&mut events, wait) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(errno) => return Err(Failed::new(Failure::Io, errno.desc())),
            };
            let now = Instant::now();
            let mut found: Vec<Found> = Vec::new();
            for event in events.iter().take(count) {
                found.extend(self.resolver.ready(Place::decode(event.data()), now, &mut watch));
            }
            found.extend(self.resolver.clock(now, &mut watch));
            // One that was given up on earlier may come in as well.
            known = found.into_iter().find(|found| found.name == name).map(|found| found.addresses);
        }
        match known {
            Some(addresses) if !addresses.is_empty() => Ok(addresses),
            Some(_) | None => Err(Failed::new(Failure::Dns, "the name has no address")),
        }
    }

    /// Connects to the first address that may be reached and answers.
    fn dial(
        &mut self,
        addresses: &[IpAddr],
        port: u16,
        until: Instant,
        account: &mut Account,
    ) -> Result<Way, Failed> {
        let mut why = None;
        let mut open = Vec::new();
        for address in addresses.iter().take(limits::ADDRESSES) {
            let address = SocketAddr::new(*address, port);
            match dial::refused(address, self.setup.reached, &self.setup.network, &self.own) {
                Some(reason) => why = why.or(Some(format!("{} {reason}", address.ip()))),
                None => open.push(address),
            }
        }
        if open.is_empty() {
            account.refused = true;
            return Err(Failed::new(Failure::Refused, why.unwrap_or_default()));
        }
        let mut last = Failed::new(Failure::Io, "no address could be tried");
        let count = open.len();
        for (place, address) in open.into_iter().enumerate() {
            let one = if place + 1 < count { limits::DIAL_ONE } else { limits::DIAL };
            match Way::connect(address, until.min(Instant::now() + one), until) {
                Ok(way) => {
                    account.dialled = Some(address);
                    return Ok(way);
                }
                Err(failed) => last = Failed::new(failed.kind, format!("{address}: {}", failed.why)),
            }
        }
        Err(last)
    }
}
