//! Bytes from one socket to another: by splice(2) through a pipe, so that they are not copied through this process.
//!
//! A pipe belongs to a direction only while bytes are in it; an idle connection holds none. Nothing is read from one
//! side while the other one doesn't take what is there: that is all the back-pressure there is, and no memory grows.
//!
//! Source: splice(2), shutdown(2), tcp(7).

use super::limits;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice},
    sys::socket::{MsgFlags, Shutdown, recv, send, shutdown},
    unistd::pipe2,
};
use std::os::fd::{AsRawFd, OwnedFd};

/// Both ends of a pipe, empty.
#[derive(Debug)]
pub(super) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// Empty pipes for the next burst.
#[derive(Debug, Default)]
pub(super) struct Pipes(Vec<Pipe>);

impl Pipes {
    fn take(&mut self) -> Result<Pipe, Errno> {
        if let Some(pipe) = self.0.pop() {
            return Ok(pipe);
        }
        let (read, write) = pipe2(OFlag::O_NONBLOCK | OFlag::O_CLOEXEC)?;
        // A user's pipes share an allowance (pipe(7)); beyond it this one stays small, which is only slower.
        let _larger = fcntl(&write, FcntlArg::F_SETPIPE_SZ(limits::PIPE as i32));
        Ok(Pipe { read, write })
    }

    fn give(&mut self, pipe: Pipe) {
        if self.0.len() < limits::PIPES {
            self.0.push(pipe);
        }
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// Bytes of our own memory that go first: what was looked at, or what we say ourselves.
    pending: Vec<u8>,
    sent: usize,
    pipe: Option<(Pipe, usize)>,
    /// Bytes that arrived at the other side.
    pub(super) bytes: u64,
    ended: bool,
    closed: bool,
}

/// How far a step got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// So many bytes.
    Some(usize),
    /// Nothing can be done until a socket is ready.
    Blocked,
    /// The source has ended, and everything from it was delivered.
    Over,
}

impl Flow {
    /// Puts bytes behind those that wait.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    pub(super) fn pending(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    /// Whether nothing waits to be delivered.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.len() == self.sent && self.pipe.is_none()
    }

    /// Whether the source has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the end was passed on.
    pub(super) fn is_over(&self) -> bool {
        self.closed
    }

    /// No more will come.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Delivers what waits, then the end if there is one.
    pub(super) fn flush(&mut self, to: &OwnedFd, pipes: &mut Pipes) -> Result<Moved, Errno> {
        let mut moved = 0;
        while self.sent < self.pending.len() {
            match send(to.as_raw_fd(), &self.pending[self.sent..], MsgFlags::MSG_NOSIGNAL) {
                Ok(length) => {
                    self.sent += length;
                    self.bytes += length as u64;
                    moved += length;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(Moved::Blocked),
                Err(errno) => return Err(errno),
            }
        }
        if self.sent > 0 {
            self.pending = Vec::new();
            self.sent = 0;
        }
        while let Some((pipe, left)) = &mut self.pipe {
            let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
            match splice(&pipe.read, None, to, None, *left, flags) {
                Ok(0) => return Err(Errno::EPIPE),
                Ok(length) => {
                    *left -= length;
                    self.bytes += length as u64;
                    moved += length;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return Ok(Moved::Blocked),
                Err(errno) => return Err(errno),
            }
            if *left == 0
                && let Some((pipe, _)) = self.pipe.take()
            {
                pipes.give(pipe);
            }
        }
        if self.ended && !self.closed {
            self.closed = true;
            // ENOTCONN: the other side has gone meanwhile, and its own direction tells so.
            let _told = shutdown(to.as_raw_fd(), Shutdown::Write);
        }
        Ok(if self.closed { Moved::Over } else { Moved::Some(moved) })
    }

    /// Takes what the source has, unread. Only when nothing waits.
    pub(super) fn fill(&mut self, from: &OwnedFd, pipes: &mut Pipes) -> Result<Moved, Errno> {
        let pipe = pipes.take()?;
        loop {
            let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
            match splice(from, None, &pipe.write, None, limits::PIPE, flags) {
                Ok(0) => {
                    pipes.give(pipe);
                    self.ended = true;
                    return Ok(Moved::Over);
                }
                Ok(length) => {
                    self.pipe = Some((pipe, length));
                    return Ok(Moved::Some(length));
                }
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    pipes.give(pipe);
                    return if errno == Errno::EAGAIN { Ok(Moved::Blocked) } else { Err(errno) };
                }
            }
        }
    }
}

/// Reads into our own memory.
pub(super) fn read(from: &OwnedFd, buffer: &mut [u8], flags: MsgFlags) -> Result<Option<usize>, Errno> {
    loop {
        match recv(from.as_raw_fd(), buffer, flags) {
            Ok(length) => return Ok(Some(length)),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}
