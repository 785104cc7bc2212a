//! One connection with a time at which it ends, read and written as if it could wait.
//!
//! Source: connect(2) (EINPROGRESS), poll(2), tcp(7).

use crate::egress::dial;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{MsgFlags, getsockopt, recv, send, setsockopt, sockopt},
};
use policies::fetch::Failure;
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::Instant,
};

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) kind: Failure,
    pub(super) why: String,
    /// Tokens that a model's provider counts for it all the same.
    pub(super) tokens: u64,
}

impl Failed {
    pub(super) fn new(kind: Failure, why: impl Into<String>) -> Self {
        Self { kind, why: why.into(), tokens: 0 }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let kind = match (error.kind(), tls) {
            (io::ErrorKind::TimedOut, _) => Failure::Timeout,
            (_, Some(_)) => Failure::Tls,
            (_, None) => Failure::Io,
        };
        let why = match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::TimedOut, _) => "the time is over".to_owned(),
            (io::ErrorKind::UnexpectedEof, _) => "the connection was closed too early".to_owned(),
            (_, Some(number)) => Errno::from_raw(number).desc().to_lowercase(),
            (_, None) => error.to_string(),
        };
        Self { kind, why, tokens: 0 }
    }
}

/// A connected socket.
#[derive(Debug)]
pub(super) struct Way {
    socket: OwnedFd,
    until: Instant,
    pub(super) sent: u64,
    pub(super) got: u64,
}

impl Way {
    /// Connects; `one` is when this address is given up, `until` when everything is.
    pub(super) fn connect(address: SocketAddr, one: Instant, until: Instant) -> Result<Self, Failed> {
        let refused = |errno: Errno| Failed::new(Failure::Refused, errno.desc().to_lowercase());
        let socket = dial::begin(address).map_err(refused)?;
        let way = Self { socket, until: one, sent: 0, got: 0 };
        way.wait(PollFlags::POLLOUT).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => Failed::new(Failure::Timeout, "no answer"),
            _ => Failed::from(error),
        })?;
        match getsockopt(&way.socket, sockopt::SocketError) {
            Ok(0) => {}
            Ok(code) => return Err(refused(Errno::from_raw(code))),
            Err(errno) => return Err(refused(errno)),
        }
        let _soon = setsockopt(&way.socket, sockopt::TcpNoDelay, &true);
        Ok(Self { until, ..way })
    }

    /// The socket alone, which never waits.
    pub(super) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut one = [PollFd::new(self.socket.as_fd(), flags)];
            // Rounded up, so that the last part of a millisecond is no busy loop.
            let ms = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
            match poll(&mut one, PollTimeout::from(ms)) {
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Read for Way {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty()) {
                Ok(length) => {
                    self.got += length as u64;
                    // A server that sends a byte now and then doesn't outlast the time.
                    if Instant::now() >= self.until {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    return Ok(length);
                }
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLIN)?,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl Write for Way {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(self.socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
                Ok(length) => {
                    self.sent += length as u64;
                    return Ok(length);
                }
                Err(Errno::EAGAIN) => self.wait(PollFlags::POLLOUT)?,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
