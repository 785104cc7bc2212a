//! Standard input, from the caller to the jail.
//!
//! One buffer, filled only when it is empty. The end of the input is passed on: the jail's pipe is closed, or its terminal
//! gets the end-of-file character.
//!
//! Invariant: reading never waits, also where others read the same pipe or the terminal has another foreground.

use super::relay::{BUFFER, Buffer, Manner, Written, manner_of, write_now};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::isatty,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// ^D, as terminals have it unless told otherwise.
const END_OF_FILE: u8 = 4;

/// The caller's input to the jail.
#[derive(Debug)]
pub(super) struct Inlet {
    from: super::wants::Source,
    reopened: Option<OwnedFd>,
    to: Option<OwnedFd>,
    /// Whether writes to the jail return at once.
    nonblocking: bool,
    buffer: Buffer,
    state: InletState,
    at_end: AtEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InletState {
    Fresh,
    Open,
    /// In the background of its terminal.
    Paused,
    Ended,
}

/// What the jail gets at the input's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// Its pipe is closed.
    Close,
    /// The terminal's end-of-file character.
    Character,
}

impl Inlet {
    pub(super) fn new(from: super::wants::Source, to: Option<OwnedFd>, at_end: AtEnd) -> Self {
        let (to, state) = match (from.file().is_some(), to) {
            (true, Some(to)) => (Some(to), InletState::Fresh),
            _ => (None, InletState::Ended),
        };
        Self { from, reopened: None, to, nonblocking: false, buffer: Buffer::default(), state, at_end }
    }

    /// The caller's end, when more of it can be taken.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        let open = matches!(self.state, InletState::Fresh | InletState::Open);
        if !open || !self.buffer.is_empty() || self.to.is_none() {
            return None;
        }
        self.reopened.as_ref().map(AsFd::as_fd).or_else(|| self.from.file())
    }

    /// The jail's end, when something waits for it.
    pub(super) fn writable(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| !self.buffer.is_empty()).map(AsFd::as_fd)
    }

    /// Takes what the caller has, and passes it on at once if there is room.
    pub(super) fn fill(&mut self) {
        if self.state == InletState::Fresh {
            self.open();
        }
        let Some(from) = self.reopened.as_ref().map(AsFd::as_fd).or_else(|| self.from.file()) else { return };
        match self.buffer.fill(from, BUFFER) {
            Ok(0) => self.end(),
            Ok(_) => {
                if !self.nonblocking
                    && let Some(to) = &self.to
                {
                    set_nonblocking(to.as_fd());
                    self.nonblocking = true;
                }
                self.flush();
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(Errno::EIO) if isatty(from) == Ok(true) => self.state = InletState::Paused,
            Err(_) => self.end(),
        }
    }

    /// Passes on what waits.
    pub(super) fn flush(&mut self) {
        let Some(to) = &self.to else { return };
        match write_now(to.as_fd(), &Manner::Plain, self.buffer.pending()) {
            Written::Bytes(count) => self.buffer.took(count),
            Written::Later => {}
            Written::Gone | Written::Failed(_) => self.close(),
        }
        if self.state == InletState::Ended && self.buffer.is_empty() {
            self.to = None;
        }
    }

    /// Reads again after a pause.
    pub(super) fn resume(&mut self) {
        if self.state == InletState::Paused {
            self.state = InletState::Open;
        }
    }

    /// Closes the jail's end.
    pub(super) fn close(&mut self) {
        self.state = InletState::Ended;
        self.to = None;
        self.buffer.clear();
    }

    fn open(&mut self) {
        self.state = InletState::Open;
        // A pipe may be read by others too, and then be empty by the time that we read.
        if let Some(Manner::Reopened(own)) = self.from.file().map(|file| manner_of(file, OFlag::O_RDONLY)) {
            self.reopened = Some(own);
        }
    }

    fn end(&mut self) {
        match self.at_end {
            AtEnd::Close => self.close(),
            AtEnd::Character => {
                self.state = InletState::Ended;
                self.buffer.push(&[END_OF_FILE]);
                self.flush();
            }
        }
    }
}

/// For our own descriptors only.
fn set_nonblocking(file: BorrowedFd<'_>) {
    let flags = fcntl(file, FcntlArg::F_GETFL).map(OFlag::from_bits_retain).unwrap_or(OFlag::empty());
    // It can't fail on an open descriptor; if it did, writes to it would merely wait.
    let _ = fcntl(file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK));
}
