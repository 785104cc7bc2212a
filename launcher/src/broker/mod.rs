//! One hostile peer: what a confined runtime may ask of its supervisor.
//!
//! The runtime's own root is empty and its filter lets it open nothing, so every file that the language touches comes
//! through here as a descriptor ([`files`]), by way of folders that were opened once ([`anchor`]).
//!
//! Invariant: the ceiling is checked here for every request, whatever the peer's own gate has said.
//! Invariant: the peer sends one request at a time and in order. Anything else ends it, and the report says why: a runtime
//! that breaks the protocol has been taken over.
//! Invariant: nothing here waits for the peer, and a peer that asks too fast waits by itself ([`rate`]).
//! Invariant: descriptors only go out. What comes with a request is closed by the kernel before it gets a number here.

mod anchor;
mod files;
mod rate;

use crate::sys::{memory_file, socket};
use files::{Files, No};
use nix::errno::Errno;
use policies::{
    audit::{Entry, Origin},
    broker::{self, Answer, Breach, MOST_MESSAGE, MOST_PIECE, Message, Request},
    ceiling::Ceiling,
    layer::Layer,
    scope::Base,
};
use rate::Bucket;
use serde::Serialize;
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// What a jail's runtime may ask for.
#[derive(Debug)]
pub struct Lent {
    /// What the jail was planned with, paths from the root.
    pub ceiling: Ceiling,
    /// Where the program's relative paths start.
    pub base: Base,
}

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct Broker {
    /// `None` once the peer has closed its end.
    socket: Option<OwnedFd>,
    files: Files,
    bucket: Bucket,
    /// Number of the next request.
    next: u32,
    buffer: Vec<u8>,
}

/// An answer with what goes beside it.
struct Reply {
    answer: Answer,
    raw: Vec<u8>,
    file: Option<OwnedFd>,
    /// How many ordinary requests it cost.
    cost: u32,
}

impl Reply {
    fn of(answer: Answer) -> Self {
        Self { answer, raw: Vec::new(), file: None, cost: 1 }
    }

    fn opened(file: OwnedFd) -> Self {
        Self { file: Some(file), ..Self::of(Answer::Opened) }
    }

    /// JSON in the message, or in a file if it is too long.
    fn data(value: &impl Serialize) -> Result<Self, No> {
        let raw = serde_json::to_vec(value).map_err(|_| No::kernel(Errno::EINVAL))?;
        if raw.len() <= MOST_PIECE {
            return Ok(Self { raw, ..Self::of(Answer::Inline) });
        }
        let file = memory_file::sealed(&raw).map_err(No::kernel)?;
        Ok(Self { file: Some(file), ..Self::of(Answer::Filed { bytes: raw.len() as u64 }) })
    }
}

impl Broker {
    /// Listens to the peer at the other end of `socket`.
    pub(crate) fn new(socket: OwnedFd, lent: Lent) -> Self {
        Self {
            socket: Some(socket),
            files: Files::new(lent.ceiling, lent.base),
            bucket: Bucket::new(Instant::now()),
            next: 1,
            // One byte more than a message may have: what is longer is seen to be.
            buffer: vec![0; MOST_MESSAGE + 1],
        }
    }

    /// What to poll for requests.
    pub(crate) fn requests(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    /// When a request could be served, if not now.
    pub(crate) fn ready_at(&mut self, now: Instant) -> Option<Instant> {
        self.bucket.ready_at(now)
    }

    /// Serves one request, if one is there.
    ///
    /// # Errors
    /// The breach for which the peer has to be ended.
    pub(crate) fn serve(&mut self, tell: &mut dyn FnMut(Entry)) -> Result<(), Breach> {
        let Some(socket) = &self.socket else { return Ok(()) };
        let length = match socket::receive_plain(socket.as_fd(), &mut self.buffer) {
            Ok(socket::Plain::Bytes(0)) => {
                self.socket = None;
                return Ok(());
            }
            Ok(socket::Plain::Bytes(length)) => length,
            Ok(socket::Plain::Cut) => return Err(Breach::TooLong),
            Ok(socket::Plain::WithDescriptor) => return Err(Breach::Descriptor),
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
            Err(_gone) => {
                self.socket = None;
                return Ok(());
            }
        };
        let buffer = std::mem::take(&mut self.buffer);
        let served = self.answer(buffer.get(..length).unwrap_or_default(), tell);
        self.buffer = buffer;
        served
    }

    fn answer(&mut self, message: &[u8], tell: &mut dyn FnMut(Entry)) -> Result<(), Breach> {
        let Message { id, what, raw } = broker::request(message)?;
        if id != self.next {
            return Err(Breach::Number { wanted: self.next, got: id });
        }
        self.next = self.next.wrapping_add(1);
        let reply = self.act(what, raw).unwrap_or_else(|no| {
            if let Some((check, target)) = no.denied {
                tell(denial(check, target));
            }
            Reply::of(Answer::Refused(no.refused))
        });
        self.bucket.take(reply.cost);
        self.send(id, &reply)
    }

    fn act(&mut self, what: Request, _raw: &[u8]) -> Result<Reply, No> {
        match what {
            Request::Open { path, how } => self.files.open(&path, how).map(Reply::opened),
            Request::Replace { path } => self.files.replace(&path).map(Reply::opened),
            Request::Commit {} => self.files.commit().map(|()| Reply::of(Answer::Done)),
            Request::Look { path } => self.files.look(&path).map(|seen| Reply::of(Answer::Seen(seen))),
            Request::List { path } => {
                let listed = self.files.list(&path)?;
                let cost = u32::try_from(listed.len() / 16).unwrap_or(u32::MAX).saturating_add(1);
                Ok(Reply { cost, ..Reply::data(&listed)? })
            }
            Request::MakeFolder { path } => self.files.make_folder(&path).map(|()| Reply::of(Answer::Done)),
            Request::Remove { path, what } => {
                self.files.remove(&path, what).map(|()| Reply::of(Answer::Done))
            }
            Request::Source {} | Request::RunProgram(_) => {
                Err(No::misuse("this supervisor starts no children"))
            }
        }
    }

    fn send(&mut self, id: u32, reply: &Reply) -> Result<(), Breach> {
        let bytes = broker::encode(id, &reply.answer, &reply.raw)?;
        let Some(socket) = &self.socket else { return Ok(()) };
        match socket::try_send(socket.as_fd(), &bytes, reply.file.as_ref().map(AsFd::as_fd)) {
            Ok(()) => Ok(()),
            // Its last answers fill the queue: it has asked without reading them.
            Err(Errno::EAGAIN) => Err(Breach::Early),
            Err(_gone) => {
                self.socket = None;
                Ok(())
            }
        }
    }
}

/// An entry about what the ceiling refused.
fn denial(capability: String, target: String) -> Entry {
    Entry {
        ts: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
        context: "program".to_owned(),
        capability,
        granted: false,
        source: "broker".to_owned(),
        reason: "above host ceiling (--sandbox/--cap-set)".to_owned(),
        origin: Origin::Program,
        file: None,
        line: None,
        seq: 0,
        layer: Layer::Broker,
        target,
    }
}
