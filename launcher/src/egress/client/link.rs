//! A client for one connection that a program keeps, as the supervisor sees it: a process, its news, and a socket for the bytes.

use super::{Setup, process};
use crate::sys::{
    clone::{self, Side},
    pidfd,
    process::exit_now,
    socket,
};
use nix::{
    errno::Errno,
    sys::{
        signal::Signal,
        socket::{AddressFamily, SockFlag, SockType, socketpair},
        wait::{Id, WaitPidFlag, waitid},
    },
};
use policies::{connection::Connect, fetch::Failure};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest news.
const MOST_NEWS: usize = 4 << 10;

/// What the process tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum News {
    /// The connection is there.
    Open { peer: String },
    /// It never will be.
    Failed { kind: Failure, why: String, granted: bool },
    /// It is no more; with a reason, if it was broken off.
    Ended { why: Option<String>, granted: bool },
    /// The process has gone without a word.
    Lost,
}

/// The process. Dropped, it is ended.
#[derive(Debug)]
pub(crate) struct Link {
    process: OwnedFd,
    /// `None` once there are no more.
    news: Option<OwnedFd>,
}

impl Link {
    /// Starts it, and gives the supervisor's side of the connection: no call on it may wait.
    ///
    /// # Errors
    /// As clone3(2) and socketpair(2).
    pub(crate) fn start(setup: &Setup, connect: &Connect) -> Result<(Self, OwnedFd), Errno> {
        let pair = |kind| socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC);
        let (news, tells) = pair(SockType::SeqPacket)?;
        let (ours, theirs) = pair(SockType::Stream)?;
        match clone::fork_into(0, None)? {
            Side::Child => {
                drop((news, ours));
                let ended = process::carry(setup, connect, &tells, theirs);
                exit_now(if ended.is_ok() { 0 } else { 125 })
            }
            Side::Parent { pidfd, .. } => Ok((Self { process: pidfd, news: Some(news) }, ours)),
        }
    }

    /// Readable when there are news; `None`: there will be none.
    pub(crate) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.news.as_ref().map(AsFd::as_fd)
    }

    /// Takes the next news; `None`: nothing yet, or no more.
    pub(crate) fn news(&mut self) -> Option<News> {
        let from = self.news.as_ref()?;
        let mut message = vec![0; MOST_NEWS];
        let told = match socket::receive_plain(from.as_fd(), &mut message) {
            Ok(socket::Plain::Bytes(length @ 1..)) => {
                serde_json::from_slice(message.get(..length).unwrap_or_default()).ok()
            }
            Err(Errno::EAGAIN | Errno::EINTR) => return None,
            Ok(_) | Err(_) => None,
        };
        let told = told.unwrap_or(News::Lost);
        if !matches!(told, News::Open { .. }) {
            self.news = None;
        }
        Some(told)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // ESRCH: it has ended by itself.
        let _ended = pidfd::send_signal(self.process.as_fd(), Signal::SIGKILL);
        let _reaped = waitid(Id::PIDFd(self.process.as_fd()), WaitPidFlag::WEXITED);
    }
}
