//! Bytes between a connection of the network and the supervisor's side of it, until both have said all.
//!
//! What the program sends goes past the guard, as the bytes of foreign programs do, before anything protects it. Each
//! direction holds one piece at most: who doesn't read lets the other side wait.
//!
//! Invariant: nothing here waits but the one poll, and that ends by itself when the program has gone.
//! Source: RFC 8446 section 6.1 (a TLS connection that ends without its own end was cut short); tcp(7), unix(7), poll(2).

use crate::egress::{
    guard::{Guard, Names},
    limits,
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, Shutdown, recv, send, shutdown},
};
use rustls::ClientConnection;
use std::{
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

/// What is read at once.
const PIECE: usize = 64 << 10;
/// How long what was taken is still sent, once the program has gone.
const LINGER: Duration = Duration::from_secs(2);
/// So much of a server's first words tells whether it changes the protocol.
const FIRST_WORDS: usize = 12;

/// Why it ended before both sides had said all.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) why: String,
    /// Whether it was no refusal.
    pub(super) granted: bool,
}

impl Broken {
    fn by(errno: Errno) -> Self {
        Self { why: errno.desc().to_lowercase(), granted: true }
    }

    fn refused(why: String) -> Self {
        Self { why, granted: false }
    }
}

/// One direction.
#[derive(Debug, Default)]
struct Flow {
    bytes: Vec<u8>,
    at: usize,
    /// The source has no more.
    ended: bool,
    /// The other side was told so.
    told: bool,
}

impl Flow {
    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Sends what is there; whether any of it went.
    fn send(&mut self, to: &OwnedFd) -> Result<bool, Errno> {
        let mut moved = false;
        while !self.is_empty() {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            match send(to.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT) {
                Ok(count) => self.at += count,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => return Ok(moved),
                Err(errno) => return Err(errno),
            }
            moved = true;
        }
        self.clear();
        Ok(moved)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.at = 0;
    }
}

/// The socket of the network, for TLS: it never waits.
struct Raw<'s>(&'s OwnedFd);

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT)?)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(self.0.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection that is carried.
pub(super) struct Carry<'c> {
    network: OwnedFd,
    program: &'c OwnedFd,
    tls: Option<ClientConnection>,
    /// To the network; with TLS the connection itself holds what isn't sent.
    there: Flow,
    /// To the program.
    back: Flow,
    /// The first words of a server that was asked for another protocol.
    first: Vec<u8>,
    buffer: Vec<u8>,
    /// The program takes nothing more.
    gone: Option<Instant>,
    held: Option<Instant>,
    broken: Option<Broken>,
}

impl<'c> Carry<'c> {
    /// Between these two; `tls` is past its handshake.
    pub(super) fn new(network: OwnedFd, program: &'c OwnedFd, mut tls: Option<ClientConnection>) -> Self {
        if let Some(tls) = &mut tls {
            // One piece at a time is put in, so nothing grows.
            tls.set_buffer_limit(None);
        }
        Self {
            network,
            program,
            tls,
            there: Flow::default(),
            back: Flow::default(),
            first: Vec::new(),
            buffer: vec![0; PIECE],
            gone: None,
            held: None,
            broken: None,
        }
    }

    /// Carries until both sides have said all, the program has gone, or something is wrong.
    pub(super) fn run(mut self, mut guard: Guard, names: &Names<'_>) -> Result<(), Broken> {
        loop {
            let moved = match self.step(&mut guard, names) {
                Ok(moved) => moved,
                Err(broken) => {
                    // What came before that still belongs to the program.
                    self.broken = Some(broken);
                    (self.there.ended, self.there.told, self.back.ended) = (true, true, true);
                    self.there.clear();
                    // Nothing more is said there, so nothing is waited for there.
                    (self.tls, self.held) = (None, None);
                    true
                }
            };
            let heard = self.back.told || self.gone.is_some();
            let late = self.gone.is_some_and(|since| since.elapsed() > LINGER);
            if self.there.told && heard || late {
                return self.broken.map_or(Ok(()), Err);
            }
            if !moved {
                self.wait(&guard)?;
            }
        }
    }

    /// Moves what can be moved; whether anything did.
    fn step(&mut self, guard: &mut Guard, names: &Names<'_>) -> Result<bool, Broken> {
        let back = self.give();
        if self.broken.is_some() {
            return Ok(back);
        }
        let arrived = self.hear(guard, names)?;
        let taken = self.take(guard, names)?;
        let sent = self.send_on()?;
        self.held = guard.is_holding().then(|| self.held.unwrap_or_else(Instant::now));
        if self.held.is_some_and(|since| since.elapsed() > limits::HELLO) {
            return Err(Broken::refused("a hello, head or first line that didn't come to an end".to_owned()));
        }
        Ok(back | arrived | taken | sent)
    }

    fn give(&mut self) -> bool {
        if self.gone.is_some() {
            self.back.clear();
            return false;
        }
        match self.back.send(self.program) {
            Ok(moved) => {
                if self.back.ended && self.back.is_empty() && !self.back.told {
                    self.back.told = true;
                    // Of one that is broken the reason is told first; its end follows by itself.
                    if self.broken.is_none() {
                        let _told = shutdown(self.program.as_raw_fd(), Shutdown::Write);
                    }
                    return true;
                }
                moved
            }
            Err(_gone) => {
                self.gone = Some(Instant::now());
                true
            }
        }
    }

    fn take(&mut self, guard: &mut Guard, names: &Names<'_>) -> Result<bool, Broken> {
        let waits = !self.there.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        if self.there.ended || waits || guard.is_full() {
            return Ok(false);
        }
        let passed = &mut self.there.bytes;
        match recv(self.program.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(0) | Err(Errno::ECONNRESET) => {
                self.there.ended = true;
                guard.end(passed).map_err(Broken::refused)?;
            }
            Ok(count) => {
                let bytes = self.buffer.get(..count).unwrap_or_default();
                guard.take(bytes, names, passed).map_err(Broken::refused)?;
            }
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            Err(errno) => return Err(Broken::by(errno)),
        }
        self.protect()?;
        Ok(true)
    }

    /// What has passed the guard goes into TLS, where there is TLS.
    fn protect(&mut self) -> Result<(), Broken> {
        if let Some(tls) = &mut self.tls {
            let rest = self.there.bytes.get(self.there.at..).unwrap_or_default();
            tls.writer().write_all(rest).map_err(|error| broken(&error))?;
            self.there.clear();
        }
        Ok(())
    }

    fn send_on(&mut self) -> Result<bool, Broken> {
        let mut moved = self.there.send(&self.network).map_err(Broken::by)?;
        let over = self.there.ended && self.there.is_empty() && !self.there.told;
        if let Some(tls) = &mut self.tls {
            if over {
                tls.send_close_notify();
            }
            while tls.wants_write() {
                match tls.write_tls(&mut Raw(&self.network)) {
                    Ok(_) => moved = true,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(broken(&error)),
                }
            }
        }
        if over {
            self.there.told = true;
            let _told = shutdown(self.network.as_raw_fd(), Shutdown::Write);
        }
        Ok(moved | over)
    }

    fn hear(&mut self, guard: &mut Guard, names: &Names<'_>) -> Result<bool, Broken> {
        if self.back.ended || !self.back.is_empty() {
            return Ok(false);
        }
        let count = match self.read()? {
            None => return Ok(false),
            Some(count) => count,
        };
        self.back.ended = count == 0;
        let bytes = self.buffer.get(..count).unwrap_or_default();
        if self.gone.is_none() {
            self.back.bytes.extend_from_slice(bytes);
        }
        if guard.awaits_switch() {
            let more = FIRST_WORDS.saturating_sub(self.first.len());
            self.first.extend(bytes.iter().take(more));
            if self.first.len() >= FIRST_WORDS || self.back.ended {
                let first = std::mem::take(&mut self.first);
                guard.answered(&first, names, &mut self.there.bytes).map_err(Broken::refused)?;
                self.protect()?;
            }
        }
        Ok(true)
    }

    /// What the network has, into the buffer; `None`: nothing yet.
    fn read(&mut self) -> Result<Option<usize>, Broken> {
        let Some(tls) = &mut self.tls else {
            return match recv(self.network.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(count) => Ok(Some(count)),
                Err(Errno::EAGAIN | Errno::EINTR) => Ok(None),
                Err(errno) => Err(Broken::by(errno)),
            };
        };
        match tls.reader().read(&mut self.buffer) {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(broken(&error)),
        }
        match tls.read_tls(&mut Raw(&self.network)) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(error) => return Err(broken(&error)),
        }
        if let Err(error) = tls.process_new_packets() {
            // The alert that says why; whether it arrives changes nothing.
            let _told = tls.write_tls(&mut Raw(&self.network));
            return Err(Broken { why: format!("tls: {error}"), granted: true });
        }
        match tls.reader().read(&mut self.buffer) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(broken(&error)),
        }
    }

    fn wait(&mut self, guard: &Guard) -> Result<(), Broken> {
        let tls_writes = self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        let sends = !self.there.is_empty() || tls_writes;
        let none = PollFlags::empty();
        let when = |wanted: bool, flag: PollFlags| if wanted { flag } else { none };
        let of_network = when(sends, PollFlags::POLLOUT)
            | when(!self.back.ended && self.back.is_empty(), PollFlags::POLLIN);
        let of_program = when(!self.back.is_empty(), PollFlags::POLLOUT)
            | when(!self.there.ended && !sends && !guard.is_full(), PollFlags::POLLIN);
        let mut files = Vec::with_capacity(2);
        // One that nothing is wanted of would end the wait by its own end, again and again.
        if of_network != none {
            files.push(PollFd::new(self.network.as_fd(), of_network));
        }
        let program = files.len();
        if self.gone.is_none() || of_program != none {
            files.push(PollFd::new(self.program.as_fd(), of_program));
        }
        let until = self.gone.map(|at| at + LINGER).or(self.held.map(|at| at + limits::HELLO));
        let timeout = until.map_or(PollTimeout::NONE, |until| {
            let left = until.saturating_duration_since(Instant::now()).as_millis() + 1;
            PollTimeout::from(u16::try_from(left).unwrap_or(u16::MAX))
        });
        match poll(&mut files, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(Broken::by(errno)),
        }
        let seen = files.get(program).and_then(PollFd::revents).unwrap_or(none);
        // Both of its directions are closed, and not by us alone: what it sent before is still there to be read.
        if self.gone.is_none() && seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
            self.gone = Some(Instant::now());
        }
        Ok(())
    }
}

fn broken(error: &io::Error) -> Broken {
    let why = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::UnexpectedEof, _) => "the connection was closed without an end of its TLS".to_owned(),
        (_, Some(number)) => Errno::from_raw(number).desc().to_lowercase(),
        (_, None) => error.to_string(),
    };
    Broken { why, granted: true }
}
