//! Output: counted, cut at the limit, and never waited for.
//!
//! One buffer for each stream. It is filled only when it is empty, so that a slow reader slows the program and nothing
//! else; the caller's end is never written to in a way that could block.
//!
//! Invariant: bytes up to the limit are delivered, over all streams together; the first byte beyond ends the run.
//! Invariant: the caller's descriptors keep their flags: O_NONBLOCK would be shared with whoever else has the file
//! open, the caller's shell included. Pipes and terminals are opened anew for that; other files don't block.
//! Source: pipe(7), tty_ioctl(4), open(2) on O_NONBLOCK.

use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        socket::{MsgFlags, send},
        stat::{Mode, SFlag, fstat},
    },
    unistd::{isatty, read, write},
};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// As much as a pipe holds.
pub(super) const BUFFER: usize = 64 * 1024;
/// The first buffer of a stream: most programs print little, and a page that isn't touched costs nothing.
const FIRST_BUFFER: usize = 4096;

/// Output bytes that may still be taken.
#[derive(Debug)]
pub(super) struct Allowance {
    left: Option<u64>,
    used: u64,
}

impl Allowance {
    pub(super) fn new(limit: Option<u64>) -> Self {
        Self { left: limit, used: 0 }
    }

    /// Takes as many of `wanted` bytes as are left.
    pub(super) fn take(&mut self, wanted: usize) -> usize {
        let granted = match self.left {
            Some(left) => wanted.min(usize::try_from(left).unwrap_or(usize::MAX)),
            None => wanted,
        };
        self.left = self.left.map(|left| left.saturating_sub(granted as u64));
        self.used = self.used.saturating_add(granted as u64);
        granted
    }

    /// One byte more than is left: to see whether there is one.
    fn look_ahead(&self) -> usize {
        self.left.map_or(BUFFER, |left| usize::try_from(left).unwrap_or(BUFFER).saturating_add(1).min(BUFFER))
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// So many bytes.
    Bytes(usize),
    /// None yet.
    Later,
    /// Nobody reads any more.
    Gone,
    /// The file can't take more: a full disk, a lost device.
    Failed(Errno),
}

/// How a file is written to without waiting.
#[derive(Debug)]
pub(super) enum Manner {
    /// It never blocks, or is non-blocking and our own.
    Plain,
    /// A file description of our own.
    Reopened(OwnedFd),
    /// A flag for each call.
    Socket,
    /// So many bytes at most, after poll said that there is room.
    Small(usize),
}

/// The manner for `file`, which belongs to the caller.
pub(super) fn manner_of(file: BorrowedFd<'_>, access: OFlag) -> Manner {
    let kind = fstat(file).map(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT);
    let small = match kind {
        Ok(SFlag::S_IFSOCK) => return Manner::Socket,
        Ok(SFlag::S_IFIFO) => libc::PIPE_BUF,
        Ok(SFlag::S_IFCHR) if isatty(file) == Ok(true) => 512,
        _ => return Manner::Plain,
    };
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = access | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    open(path.as_str(), flags, Mode::empty()).map_or(Manner::Small(small), Manner::Reopened)
}

/// Writes without waiting.
pub(super) fn write_now(file: BorrowedFd<'_>, manner: &Manner, bytes: &[u8]) -> Written {
    let done = match manner {
        Manner::Plain => write(file, bytes),
        Manner::Reopened(own) => write(own, bytes),
        Manner::Socket => send(file.as_raw_fd(), bytes, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL),
        Manner::Small(most) => {
            let mut one = [PollFd::new(file, PollFlags::POLLOUT)];
            if poll(&mut one, PollTimeout::ZERO) != Ok(1) {
                return Written::Later;
            }
            write(file, bytes.get(..*most).unwrap_or(bytes))
        }
    };
    match done {
        Ok(count) => Written::Bytes(count),
        Err(Errno::EAGAIN | Errno::EINTR) => Written::Later,
        // EIO is a terminal that was hung up.
        Err(Errno::EPIPE | Errno::ECONNRESET | Errno::EIO) => Written::Gone,
        Err(errno) => Written::Failed(errno),
    }
}

/// Bytes on their way.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    /// Whether a read has ever filled it.
    was_full: bool,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn pending(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads into the empty buffer.
    pub(super) fn fill(&mut self, from: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
        let wanted = if self.was_full { BUFFER } else { FIRST_BUFFER };
        if self.bytes.len() < wanted {
            // Fresh zero pages cost nothing until they are written.
            self.bytes = vec![0; wanted];
        }
        (self.start, self.end) = (0, 0);
        let most = most.min(self.bytes.len());
        let room = self.bytes.get_mut(..most).unwrap_or_default();
        self.end = read(from, room)?;
        self.was_full |= self.end == most;
        Ok(self.end)
    }

    /// Adds bytes after what is pending.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.is_empty() {
            self.clear();
        }
        self.bytes.truncate(self.end);
        self.bytes.extend_from_slice(bytes);
        self.end = self.bytes.len();
    }

    pub(super) fn took(&mut self, count: usize) {
        self.start = self.end.min(self.start + count);
    }

    pub(super) fn cut_to(&mut self, length: usize) {
        self.end = self.end.min(self.start + length);
    }

    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }
}

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    /// Bytes, or none just now.
    Bytes,
    /// The stream has ended.
    End,
    /// More than was allowed; the surplus is gone.
    Over,
}

/// One stream from the jail to the caller.
#[derive(Debug)]
pub(super) struct Outlet {
    from: Option<OwnedFd>,
    to: Option<super::wants::Sink>,
    manner: Option<Manner>,
    buffer: Buffer,
    /// Whether what the jail writes is counted and dropped, and only what is queued is delivered.
    deaf: bool,
}

impl Outlet {
    pub(super) fn new(from: Option<OwnedFd>, to: super::wants::Sink) -> Self {
        Self { from, to: Some(to), manner: None, buffer: Buffer::default(), deaf: false }
    }

    /// One that delivers nothing but what is queued.
    pub(super) fn deaf(from: Option<OwnedFd>, to: super::wants::Sink) -> Self {
        Self { deaf: true, ..Self::new(from, to) }
    }

    /// Whether what the program itself has to say goes nowhere.
    pub(super) fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// The jail's end, when more of it can be taken.
    pub(super) fn readable(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().filter(|_| self.buffer.is_empty()).map(AsFd::as_fd)
    }

    /// The caller's end, when something waits for it.
    pub(super) fn writable(&self) -> Option<BorrowedFd<'_>> {
        if self.buffer.is_empty() {
            return None;
        }
        match &self.manner {
            Some(Manner::Reopened(own)) => Some(own.as_fd()),
            _ => self.to.as_ref()?.file(),
        }
    }

    /// Whether nothing waits for the caller.
    pub(super) fn is_idle(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether everything was taken and delivered.
    pub(super) fn is_done(&self) -> bool {
        self.from.is_none() && self.buffer.is_empty()
    }

    /// Takes what the jail has written; `seen` gets what was allowed of it.
    pub(super) fn fill(&mut self, allowance: &mut Allowance, mut seen: impl FnMut(&[u8])) -> Filled {
        let Some(from) = &self.from else { return Filled::End };
        match self.buffer.fill(from.as_fd(), allowance.look_ahead()) {
            Ok(0) => {
                self.from = None;
                Filled::End
            }
            Ok(count) => {
                let granted = allowance.take(count);
                self.buffer.cut_to(granted);
                seen(self.buffer.pending());
                if self.deaf {
                    self.buffer.clear();
                }
                if granted < count { Filled::Over } else { Filled::Bytes }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => Filled::Bytes,
            // EIO: the last holder of the terminal's other side has closed it.
            Err(_) => {
                self.from = None;
                Filled::End
            }
        }
    }

    /// Queues bytes that didn't come from the jail's stream itself.
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.buffer.push(bytes);
    }

    /// Delivers what the caller takes now. `Gone` or `Failed` once: from then on everything is dropped.
    pub(super) fn flush(&mut self) -> Written {
        let mut delivered = 0;
        while !self.buffer.is_empty() {
            let Some(file) = self.to.as_ref().and_then(super::wants::Sink::file) else {
                self.buffer.clear();
                break;
            };
            let manner = self.manner.get_or_insert_with(|| manner_of(file, OFlag::O_WRONLY));
            match write_now(file, manner, self.buffer.pending()) {
                Written::Bytes(count) => {
                    self.buffer.took(count);
                    delivered += count;
                }
                Written::Later => return Written::Later,
                lost @ (Written::Gone | Written::Failed(_)) => {
                    // The program sees what it would see without us: its own write fails.
                    self.buffer.clear();
                    self.from = None;
                    self.to = None;
                    return lost;
                }
            }
        }
        Written::Bytes(delivered)
    }

    /// Takes nothing more from the jail; what was taken is still delivered.
    pub(super) fn close_from(&mut self) {
        self.from = None;
    }

    /// Gives up what the caller hasn't taken.
    pub(super) fn abandon(&mut self) {
        self.from = None;
        self.buffer.clear();
    }
}
