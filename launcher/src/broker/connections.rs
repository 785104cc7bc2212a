//! Connections that a program keeps.
//!
//! Each has a confined process of its own ([`Link`]), which dials and carries the bytes; the program has its number alone. What
//! nobody reads stays in the sockets between, and the other side waits.
//!
//! Invariant: host and port are asked for in the ceiling here, before a process is made, which asks once more before it dials.
//! Invariant: a connection is two entries, its beginning and its end; one that never was is one.
//! Invariant: so many are open, whatever the program does, and all of them end with it; what was taken of its bytes is given
//! [`FAREWELL`] to be sent.

use super::{Reply, fetch::Outside, files::No, running::is_there};
use crate::egress::{
    Reached,
    client::{Link, News},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, Shutdown, recv, send, shutdown},
};
use policies::{
    audit::{Entry, Origin},
    broker::{Answer, MOST_PIECE},
    capability::Capability,
    ceiling::{Ceiling, check_form},
    connection::{Act, Connect, Connected, MOST_OPEN},
    fetch::Failure,
    layer::Layer,
    plan::{NamedNetwork, NetworkLimits},
    process::{Awaited, What},
    scope::{Host, HostTarget, Target},
};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How much longer than its own time a connection's beginning is waited for.
const SLACK: Duration = Duration::from_secs(2);
/// How long what was taken may still be sent when the program has ended.
const FAREWELL: Duration = Duration::from_millis(500);

/// The connections of one program.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// Bytes of all of them, both ways.
    carried: u64,
    all: BTreeMap<u32, Connection>,
    /// Closed by the program, while the last bytes go.
    leaving: Vec<Connection>,
    last: u32,
    pending: Option<Pending>,
}

/// One that is begun, and who waits for it.
#[derive(Debug)]
struct Pending {
    id: u32,
    number: u32,
    until: Instant,
}

#[derive(Debug)]
struct Connection {
    /// Host and port.
    target: String,
    link: Link,
    /// The program's side; `None` once it was closed.
    side: Option<OwnedFd>,
    /// The program has said that it sends no more.
    shut: bool,
    state: State,
    sent: u64,
    got: u64,
    since: Instant,
}

#[derive(Debug)]
enum State {
    Opening,
    Open {
        peer: String,
    },
    Failed {
        kind: Failure,
        why: String,
    },
    /// With a reason, if it was broken off.
    Ended {
        why: Option<String>,
    },
}

impl Connection {
    /// Hears what its process tells.
    fn hear(&mut self, tell: &mut dyn FnMut(Entry)) {
        while let Some(news) = self.link.news() {
            match news {
                // Twice is no news: who says so has been taken over.
                News::Open { .. } if !matches!(self.state, State::Opening) => {
                    self.ended(Some("the process that carried it broke its rules".to_owned()), true, tell);
                    return;
                }
                News::Open { peer } => {
                    tell(self.entry(true, format!("connected to {peer}")));
                    self.state = State::Open { peer };
                }
                News::Failed { kind, why, granted } => {
                    tell(self.entry(granted, why.clone()));
                    self.state = State::Failed { kind, why };
                }
                News::Ended { why, granted } => {
                    self.ended(why, granted, tell);
                    return;
                }
                News::Lost if matches!(self.state, State::Opening) => {
                    let why = "the process that dials has ended before its time".to_owned();
                    tell(self.entry(true, why.clone()));
                    self.state = State::Failed { kind: Failure::Io, why };
                }
                News::Lost => {
                    self.ended(Some("the process that carried it has ended".to_owned()), true, tell)
                }
            }
        }
    }

    fn ended(&mut self, why: Option<String>, granted: bool, tell: &mut dyn FnMut(Entry)) {
        let ms = self.since.elapsed().as_millis();
        let how = why.as_deref().unwrap_or("closed");
        tell(self.entry(granted, format!("{} bytes there, {} back, {ms} ms; {how}", self.sent, self.got)));
        self.state = State::Ended { why };
    }

    fn entry(&self, granted: bool, reason: String) -> Entry {
        Entry {
            ts: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            context: "program".to_owned(),
            capability: check_form(Capability::Net, Some(&self.target)),
            granted,
            source: "client".to_owned(),
            reason,
            origin: Origin::Program,
            file: None,
            line: None,
            seq: 0,
            layer: Layer::Network,
            target: self.target.clone(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Failed { .. } | State::Ended { .. })
    }

    fn is_broken(&self) -> bool {
        matches!(self.state, State::Ended { why: Some(_) } | State::Failed { .. })
    }

    /// Why nothing can be sent: what its process has told of its end says more.
    fn after(&mut self, no: No, tell: &mut dyn FnMut(Entry)) -> No {
        self.hear(tell);
        if self.shut { no } else { self.gone() }
    }

    /// Why it is no more.
    fn gone(&self) -> No {
        match &self.state {
            State::Ended { why: Some(why) } | State::Failed { why, .. } => No::misuse(why.clone()),
            State::Ended { why: None } | State::Opening | State::Open { .. } => {
                No::misuse("the other side has closed it")
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<usize, No> {
        let Some(side) = &self.side else { return Err(self.gone()) };
        if self.shut {
            return Err(No::misuse("no more can be sent on it"));
        }
        if self.is_over() {
            return Err(self.gone());
        }
        match send(side.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
            Ok(count) => {
                self.sent = self.sent.saturating_add(count as u64);
                Ok(count)
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(_gone) => Err(self.gone()),
        }
    }

    /// What is there, and whether there will be no more.
    fn receive(&mut self, most: usize) -> Result<(Vec<u8>, bool), No> {
        let Some(side) = &self.side else { return Err(self.gone()) };
        let mut bytes = vec![0; most.clamp(1, MOST_PIECE)];
        match recv(side.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
            Ok(count @ 1..) => {
                self.got = self.got.saturating_add(count as u64);
                bytes.truncate(count);
                Ok((bytes, false))
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Ok((Vec::new(), false)),
            Ok(_) | Err(Errno::ECONNRESET) => Ok((Vec::new(), true)),
            Err(errno) => Err(No::kernel(errno)),
        }
    }

    fn is(&self, what: What) -> bool {
        let flags = match what {
            What::Arrival => PollFlags::POLLIN,
            What::Outlet => PollFlags::POLLOUT,
            What::Output | What::Room | What::End => return true,
        };
        self.is_over() || self.side.as_ref().is_none_or(|side| is_there(side.as_fd(), flags))
    }
}

impl Connections {
    /// Whether an answer is still due.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Begins one; the answer comes when it is there, or will never be.
    pub(super) fn open(
        &mut self,
        id: u32,
        connect: Connect,
        (ceiling, outside): (&Ceiling, &Outside),
    ) -> Result<(), No> {
        let host = Host::parse(&connect.host).map_err(|_| No::misuse("the host is none"))?;
        if connect.port == 0 {
            return Err(No::misuse("the port is 0"));
        }
        let to = HostTarget { host, port: connect.port };
        let target = format!("{}:{}", to.host, to.port);
        let denied = || No::ceiling(Capability::Net, Some(&target));
        if !ceiling.covers(Capability::Net, Target::Host(&to)) {
            return Err(denied());
        }
        if self.all.len() >= MOST_OPEN {
            return Err(No::limit(format!("{MOST_OPEN} connections are open already: close one")));
        }
        let network = NamedNetwork::of_language(ceiling).ok_or_else(denied)?;
        let setup = outside.setup(network, Reached::Public)?;
        self.last = self.last.checked_add(1).ok_or_else(|| No::limit("too many connections in one run"))?;
        let now = Instant::now();
        let until = now + Duration::from_millis(connect.timeout_ms) + SLACK;
        let connect = Connect { host: to.host.to_string(), ..connect };
        let (link, side) = Link::start(&setup, &connect).map_err(No::kernel)?;
        let connection = Connection {
            target,
            link,
            side: Some(side),
            shut: false,
            state: State::Opening,
            sent: 0,
            got: 0,
            since: now,
        };
        self.all.insert(self.last, connection);
        self.pending = Some(Pending { id, number: self.last, until });
        Ok(())
    }

    /// Does what is asked of one.
    pub(super) fn act(
        &mut self,
        number: u32,
        act: Act,
        raw: &[u8],
        tell: &mut dyn FnMut(Entry),
    ) -> Result<Reply, No> {
        let unknown = || No::misuse("there is no such connection");
        if self.carried >= NetworkLimits::DEFAULT.bytes.0 && matches!(act, Act::Send | Act::Receive { .. }) {
            return Err(No::limit("the run's connections have carried all that they may"));
        }
        // An end that was told stands before what the sockets say.
        let connection = self.all.get_mut(&number).ok_or_else(unknown)?;
        connection.hear(tell);
        match act {
            Act::Send => {
                let sent = connection.send(raw).map_err(|no| connection.after(no, tell))?;
                self.carried = self.carried.saturating_add(sent as u64);
                Reply::data(&sent)
            }
            Act::EndSending => {
                connection.shut = true;
                if let Some(side) = &connection.side {
                    // ENOTCONN: the other side has gone meanwhile, and nothing more is sent either way.
                    let _ended = shutdown(side.as_raw_fd(), Shutdown::Write);
                }
                Ok(Reply::of(Answer::Done))
            }
            Act::Receive { most } => {
                let most = usize::try_from(most).unwrap_or(MOST_PIECE);
                let (raw, ended) = connection.receive(most)?;
                self.carried = self.carried.saturating_add(raw.len() as u64);
                if ended {
                    // The reason was told before the end: it is there by now.
                    connection.hear(tell);
                    if connection.is_broken() {
                        return Err(connection.gone());
                    }
                }
                Ok(Reply { raw, ..Reply::of(Answer::Piece { ended }) })
            }
            Act::Close => {
                if let Some(connection) = self.all.remove(&number) {
                    self.leave(connection, tell);
                }
                Ok(Reply::of(Answer::Done))
            }
        }
    }

    fn leave(&mut self, mut connection: Connection, tell: &mut dyn FnMut(Entry)) {
        connection.side = None;
        if !connection.is_over() {
            // No more of them than of the others: the oldest one has had its time.
            if self.leaving.len() >= MOST_OPEN {
                let mut oldest = self.leaving.remove(0);
                oldest.ended(Some("closed before the other side had taken all".to_owned()), true, tell);
            }
            self.leaving.push(connection);
        }
    }

    /// What to poll.
    pub(super) fn watched<'a>(&'a self, each: &mut dyn FnMut(BorrowedFd<'a>, PollFlags)) {
        let all = self.all.values().chain(&self.leaving);
        all.filter_map(|connection| connection.link.watched()).for_each(|news| each(news, PollFlags::POLLIN));
    }

    /// What to poll for one that is waited for.
    pub(super) fn watch<'a>(&'a self, awaited: &Awaited, each: &mut dyn FnMut(BorrowedFd<'a>, PollFlags)) {
        let Some(side) = self.all.get(&awaited.number).and_then(|connection| connection.side.as_ref()) else {
            return;
        };
        let flags = if awaited.what == What::Outlet { PollFlags::POLLOUT } else { PollFlags::POLLIN };
        each(side.as_fd(), flags);
    }

    /// Whether it is there; a connection that nobody knows is.
    pub(super) fn is(&self, awaited: &Awaited) -> bool {
        self.all.get(&awaited.number).is_none_or(|connection| connection.is(awaited.what))
    }

    /// When something is due by the clock.
    pub(super) fn until(&self) -> Option<Instant> {
        self.pending.as_ref().map(|pending| pending.until)
    }

    /// Something has happened: ends are told, and what was begun is answered.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        tell: &mut dyn FnMut(Entry),
    ) -> Option<(u32, Result<Reply, No>)> {
        self.all.values_mut().chain(&mut self.leaving).for_each(|connection| connection.hear(tell));
        self.leaving.retain(|connection| !connection.is_over());
        let Pending { id, number, until } = self.pending.take()?;
        let failed = |kind, why: &str| Connected::Failed { kind, why: why.to_owned() };
        let connected = match self.all.get(&number).map(|connection| &connection.state) {
            Some(State::Opening) if now < until => {
                self.pending = Some(Pending { id, number, until });
                return None;
            }
            Some(State::Open { peer }) => {
                return Some((id, Reply::data(&Connected::Open { number, peer: peer.clone() })));
            }
            // It has come and gone within one turn.
            Some(State::Ended { why }) => {
                failed(Failure::Io, why.as_deref().unwrap_or("it was closed at once"))
            }
            Some(State::Failed { kind, why }) => failed(*kind, why),
            Some(State::Opening) | None => failed(Failure::Timeout, "the time is over"),
        };
        if let Some(connection) = self.all.remove(&number).filter(|one| matches!(one.state, State::Opening)) {
            tell(connection.entry(true, "the time is over".to_owned()));
        }
        Some((id, Reply::data(&connected)))
    }

    /// Nobody asks any more: what was sent is on its way, and nothing is waited for.
    pub(super) fn let_go(&mut self) {
        self.pending = None;
        for mut connection in std::mem::take(&mut self.all).into_values() {
            connection.side = None;
            if !connection.is_over() {
                self.leaving.push(connection);
            }
        }
    }

    /// The program has ended, so they do: what it sent is let go first, and their ends are told.
    pub(super) fn end(&mut self, tell: &mut dyn FnMut(Entry)) {
        self.let_go();
        let until = Instant::now() + FAREWELL;
        while !self.leaving.is_empty() {
            let files = self.leaving.iter().filter_map(|connection| connection.link.watched());
            let mut files: Vec<PollFd<'_>> = files.map(|news| PollFd::new(news, PollFlags::POLLIN)).collect();
            let left = until.saturating_duration_since(Instant::now()).as_millis();
            let timeout = PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX));
            let waited = poll(&mut files, timeout);
            self.leaving.iter_mut().for_each(|connection| connection.hear(tell));
            self.leaving.retain(|connection| !connection.is_over());
            if left == 0 || !matches!(waited, Ok(_) | Err(Errno::EINTR)) {
                break;
            }
        }
        for mut connection in self.leaving.drain(..) {
            connection.ended(Some("ended with the program".to_owned()), true, tell);
        }
    }
}
