//! The runtime's side of the broker: one request, its answer, the next request.
//!
//! Invariant: a descriptor is taken only where the answer announces one.

use policies::broker::{Answer, MOST_MESSAGE, Refused, Request};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long an answer is asked for again and again before it is slept for.
const SOON: Duration = Duration::from_micros(30);

/// A connection to the supervisor.
#[derive(Debug)]
pub struct Broker {
    socket: OwnedFd,
    last: u32,
    /// Where answers come in; as large as the largest one, and made once.
    buffer: Vec<u8>,
}

/// What the supervisor answered.
#[derive(Debug)]
pub enum Reply {
    /// It is done.
    Done,
    /// An open file.
    File(File),
    /// What stands at a path.
    Seen(policies::broker::Seen),
    /// JSON.
    Json(Vec<u8>),
    /// What became of a request to the outside, and its body.
    Beside {
        /// An [`Outcome`](policies::fetch::Outcome) as JSON.
        outcome: Vec<u8>,
        /// The body, from its start.
        body: File,
        /// Its bytes.
        bytes: u64,
    },
    /// What a process has written.
    Piece {
        /// The bytes.
        bytes: Vec<u8>,
        /// Whether there will be no more.
        ended: bool,
    },
    /// No.
    Refused(Refused),
}

impl Broker {
    /// Speaks over the given socket.
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, last: 0, buffer: Vec::new() }
    }

    /// Asks for one act.
    ///
    /// # Errors
    /// The connection is gone, or the answer makes no sense.
    pub fn ask(&mut self, request: &Request, raw: &[u8]) -> Result<Reply, String> {
        let wrong = |e: policies::broker::Breach| format!("ask the broker: {e}");
        request.bounded().map_err(wrong)?;
        let next = self.last.wrapping_add(1);
        let message = policies::broker::encode(next, request, raw).map_err(wrong)?;
        rustix::net::sendmsg(
            &self.socket,
            &[IoSlice::new(&message)],
            &mut SendAncillaryBuffer::default(),
            SendFlags::NOSIGNAL,
        )
        .map_err(|e| format!("ask the broker: {e}"))?;
        // Only what was sent has had its number: the supervisor counts what it gets.
        self.last = next;
        self.buffer.resize(MOST_MESSAGE, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let begun = Instant::now();
        let received = loop {
            // Most answers are there sooner than it takes to be put to sleep and woken up again.
            let soon = begun.elapsed() < SOON;
            let flags =
                if soon { RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT } else { RecvFlags::CMSG_CLOEXEC };
            let mut into = [IoSliceMut::new(&mut self.buffer)];
            match rustix::net::recvmsg(&self.socket, &mut into, &mut control, flags) {
                Err(Errno::AGAIN) if soon => std::thread::yield_now(),
                other => break other.map_err(|e| format!("hear the broker: {e}"))?,
            }
        };
        let mut file = None;
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = part {
                file = descriptors.last();
            }
        }
        let answer = policies::broker::answer(&self.buffer[..received.bytes])
            .map_err(|e| format!("read the broker's answer: {e}"))?;
        if answer.id != self.last {
            return Err("read the broker's answer: it is for another request".to_owned());
        }
        let beside =
            || file.map(File::from).ok_or("read the broker's answer: the file is missing".to_owned());
        Ok(match answer.what {
            Answer::Done => Reply::Done,
            Answer::Opened => Reply::File(beside()?),
            Answer::Seen(seen) => Reply::Seen(seen),
            Answer::Inline => Reply::Json(answer.raw.to_vec()),
            Answer::Filed { bytes } => {
                let mut all = Vec::new();
                beside()?
                    .take(bytes)
                    .read_to_end(&mut all)
                    .map_err(|e| format!("read the broker's answer: {e}"))?;
                Reply::Json(all)
            }
            Answer::Beside { bytes } => {
                Reply::Beside { outcome: answer.raw.to_vec(), body: beside()?, bytes }
            }
            Answer::Piece { ended } => Reply::Piece { bytes: answer.raw.to_vec(), ended },
            Answer::Refused(refused) => Reply::Refused(refused),
        })
    }
}
