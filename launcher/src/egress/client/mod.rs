//! The client: requests of the language and of its model operations, made by a small confined process.
//!
//! ```text
//! runtime ── broker message ──▶ supervisor: ceiling? ── job ──▶ client: name → address → public? → connect
//!    ◀── outcome, body as a file ──┘              ◀── outcome ──┘        → TLS → request → answer, bounded
//! ```
//!
//! The process is made when the first request comes, and lives as long as the jail. It is confined as the egress is: no
//! file, no Linux capability, a filter that knows no open and no exec. It reads the certificates of the authorities
//! before that; the jail needs none.
//!
//! A connection that a program keeps has a client of its own ([`link`]): it dials as for a request, then carries bytes between the
//! network and a socket of the supervisor's ([`carry`]), past the same guard as the bytes of foreign programs.
//!
//! Invariant: the supervisor reads nothing of what a server sends but the bounded message about it; what a kept connection brings it passes on
//! unread.
//! Invariant: a client serves one purpose. What a program's own requests bring in is never read by the process that sends the
//! model's key, and no other process that the launcher forks has it.

mod carry;
mod exchange;
mod link;
mod model;
mod process;
mod reply;
mod tls;
mod wire;

pub(crate) use link::{Link, News};
pub(crate) use model::Provider;

use super::{confine::Walls, dial::Reached};
use crate::sys::{
    clone::{self, Side},
    memory_file, pidfd,
    process::exit_now,
    socket,
    wiped_on_fork::WipedOnFork,
};
use nix::{
    errno::Errno,
    sys::{
        signal::Signal,
        socket::{AddressFamily, SockFlag, SockType, socketpair},
        wait::{Id, WaitPidFlag, waitid},
    },
};
use policies::{
    fetch::{Failure, Form, Outcome},
    plan::NamedNetwork,
};
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::Seek,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

/// Largest message in either direction.
const MOST_MESSAGE: usize = 160 << 10;
/// How much longer than its own time a client is waited for.
const SLACK: Duration = Duration::from_secs(2);

/// What a client is made with.
#[derive(Debug)]
pub(crate) struct Setup {
    /// What may be reached.
    pub(crate) network: NamedNetwork,
    /// Which addresses a name may have.
    pub(crate) reached: Reached,
    /// What it is confined by.
    pub(crate) walls: Walls,
    /// Certificates of the authorities, instead of the host's own.
    pub(crate) roots: Option<PathBuf>,
    /// The host's network, where the supervisor has left it for the jail's empty one.
    pub(crate) home: Option<OwnedFd>,
    /// The key of a model's provider, for the client that asks it.
    pub(crate) key: Option<Arc<WipedOnFork>>,
}

/// One request, decided on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) method: String,
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The host as the request names it.
    pub(crate) authority: String,
    /// Path and query.
    pub(crate) path: String,
    /// Without those of a model's provider, which its client adds.
    pub(crate) fields: Vec<(String, String)>,
    /// Bytes of the body, which stands beside the message.
    pub(crate) body: Option<u64>,
    pub(crate) timeout_ms: u64,
    /// Bytes of the answer's body at most.
    pub(crate) most: u64,
    /// Whose answer is to be read, if a model's.
    pub(crate) provider: Option<Provider>,
    /// What is read from it.
    pub(crate) form: Form,
}

/// What the process tells of a request.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    outcome: Outcome,
    /// Bytes of the body beside it.
    bytes: u64,
    granted: bool,
    /// For the audit.
    account: String,
    /// Tokens of an answer that was given and can't be read.
    #[serde(default)]
    unread: u64,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) outcome: Outcome,
    /// The answer's body: sealed, to be read from its start.
    pub(crate) body: OwnedFd,
    pub(crate) bytes: u64,
    pub(crate) granted: bool,
    pub(crate) account: String,
    /// Tokens of a model's answer that was given and can't be read.
    pub(crate) unread: u64,
}

/// A client, as the supervisor sees it.
#[derive(Debug)]
pub(crate) struct Client {
    setup: Setup,
    peer: Option<Peer>,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Peer {
    process: OwnedFd,
    socket: OwnedFd,
}

#[derive(Debug)]
struct Waiting {
    answer: OwnedFd,
    until: Instant,
}

impl Client {
    /// Nothing is started yet.
    pub(crate) fn new(setup: Setup) -> Self {
        Self { setup, peer: None, waiting: None }
    }

    /// Sends a request on its way; `body` is read from where it stands.
    ///
    /// # Errors
    /// As clone3(2), memfd_create(2) and sendmsg(2).
    pub(crate) fn begin(&mut self, job: &Job, body: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let answer = memory_file::empty()?;
        let message = serde_json::to_vec(job).map_err(|_| Errno::EINVAL)?;
        let beside: Vec<BorrowedFd<'_>> = [answer.as_fd()].into_iter().chain(body).collect();
        let sent = socket::send(self.peer()?.socket.as_fd(), &message, &beside);
        if sent.is_err() {
            // It has ended since the last request; a new one is asked once.
            self.peer = None;
            socket::send(self.peer()?.socket.as_fd(), &message, &beside)?;
        }
        let until = Instant::now() + Duration::from_millis(job.timeout_ms) + SLACK;
        self.waiting = Some(Waiting { answer, until });
        Ok(())
    }

    fn peer(&mut self) -> Result<&Peer, Errno> {
        if self.peer.is_none() {
            self.peer = Some(Peer::start(&self.setup)?);
        }
        self.peer.as_ref().ok_or(Errno::ECHILD)
    }

    /// Readable when the request has come to an end.
    pub(crate) fn answered(&self) -> Option<BorrowedFd<'_>> {
        self.waiting.as_ref().and(self.peer.as_ref()).map(|peer| peer.socket.as_fd())
    }

    /// When it is not waited for any longer.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.waiting.as_ref().map(|waiting| waiting.until)
    }

    /// Takes what has become of the request; `None`: nothing yet.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Done> {
        let (waiting, peer) = (self.waiting.as_ref()?, self.peer.as_ref()?);
        let mut message = vec![0; MOST_MESSAGE];
        let told = match socket::receive_plain(peer.socket.as_fd(), &mut message) {
            Ok(socket::Plain::Bytes(length @ 1..)) => {
                serde_json::from_slice::<Told>(message.get(..length).unwrap_or_default()).ok()
            }
            Err(Errno::EAGAIN | Errno::EINTR) if now < waiting.until => return None,
            Err(Errno::EAGAIN | Errno::EINTR) => Some(Told::failed(Failure::Timeout, "the time is over")),
            Ok(_) | Err(_) => None,
        };
        let keep = told.as_ref().is_some_and(|told| {
            !matches!(told.outcome, Outcome::Failed { kind: Failure::Timeout, .. }) || now < waiting.until
        });
        if !keep {
            self.peer = None;
        }
        let told = told.unwrap_or_else(|| Told::failed(Failure::Io, "the client has ended before its time"));
        let Waiting { answer, .. } = self.waiting.take()?;
        let mut answer = File::from(answer);
        // The size is the kernel's word; what can't be sealed is not handed in.
        let bytes = answer.metadata().map_or(0, |data| data.len()).min(told.bytes);
        let body = answer.rewind().map_err(|_| Errno::EIO).and_then(|()| memory_file::seal(answer.into()));
        match body {
            Ok(body) => Some(Done {
                outcome: told.outcome,
                body,
                bytes,
                granted: told.granted,
                account: told.account,
                unread: told.unread,
            }),
            Err(errno) => {
                let told = Told::failed(Failure::Io, errno.desc());
                let body = memory_file::sealed(&[]).ok()?;
                let Told { outcome, account, .. } = told;
                Some(Done { outcome, body, bytes: 0, granted: true, account, unread: 0 })
            }
        }
    }
}

impl Told {
    fn failed(kind: Failure, why: &str) -> Self {
        let outcome = Outcome::Failed { kind, why: why.to_owned() };
        Self { outcome, bytes: 0, granted: true, account: why.to_owned(), unread: 0 }
    }
}

impl Peer {
    fn start(setup: &Setup) -> Result<Self, Errno> {
        let (socket, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        let fork = || clone::fork_into(0, None);
        let side = match &setup.key {
            Some(key) => key.lent(fork)?,
            None => fork(),
        };
        match side? {
            Side::Child => {
                drop(socket);
                let ended = process::run(setup, theirs);
                exit_now(if ended.is_ok() { 0 } else { 125 })
            }
            Side::Parent { pidfd, .. } => Ok(Self { process: pidfd, socket }),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // ESRCH: it has ended by itself.
        let _ended = pidfd::send_signal(self.process.as_fd(), Signal::SIGKILL);
        let _reaped = waitid(Id::PIDFd(self.process.as_fd()), WaitPidFlag::WEXITED);
    }
}
