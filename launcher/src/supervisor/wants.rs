//! What the caller of a run wants of its streams.

use super::signals::SignalSource;
use crate::broker::Lent;
use crate::egress::Egress;
use policies::{
    units::Bytes,
    wire::{WantFrame, Wanted},
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Where standard input comes from.
#[derive(Debug)]
pub enum Source {
    /// Nowhere: the input is empty.
    Empty,
    /// The caller's own.
    Caller,
    /// An open file, pipe or socket.
    File(OwnedFd),
}

/// Where a standard stream goes.
#[derive(Debug)]
pub enum Sink {
    /// The caller's standard output.
    Stdout,
    /// The caller's standard error.
    Stderr,
    /// An open file, pipe or socket.
    File(OwnedFd),
    /// Nowhere; it is still counted, and kept if that is wanted.
    Nowhere,
}

impl Sink {
    /// The open file behind it.
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Stdout => Some(standard(1)),
            Self::Stderr => Some(standard(2)),
            Self::File(file) => Some(file.as_fd()),
            Self::Nowhere => None,
        }
    }
}

impl Source {
    /// The open file behind it.
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Empty => None,
            Self::Caller => Some(standard(0)),
            Self::File(file) => Some(file.as_fd()),
        }
    }
}

/// Standard streams of this process; std keeps all three open from its start on.
fn standard(number: u8) -> BorrowedFd<'static> {
    use std::sync::LazyLock;
    static STREAMS: LazyLock<(std::io::Stdin, std::io::Stdout, std::io::Stderr)> =
        LazyLock::new(|| (std::io::stdin(), std::io::stdout(), std::io::stderr()));
    match number {
        0 => STREAMS.0.as_fd(),
        1 => STREAMS.1.as_fd(),
        _ => STREAMS.2.as_fd(),
    }
}

/// Whether output is kept for the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Only counted.
    Nothing,
    /// The first bytes of it, as lines.
    AtMost(Bytes),
}

/// What whoever asks a person for a line is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prompt(pub WantFrame);

impl Prompt {
    /// Bytes of one.
    pub const SIZE: usize = 2;

    /// As bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::SIZE] {
        let what = match self.0.what {
            Wanted::Entry => 0,
            Wanted::More => 1,
            Wanted::Line => 2,
        };
        [what, self.0.indent]
    }

    /// From bytes; what is unknown is the first line of an entry.
    #[must_use]
    pub fn decode([what, indent]: [u8; Self::SIZE]) -> Self {
        let what = match what {
            1 => Wanted::More,
            2 => Wanted::Line,
            _ => Wanted::Entry,
        };
        Self(WantFrame { what, indent })
    }
}

/// What the caller wants.
#[derive(Debug)]
pub struct Wants {
    /// Standard input.
    pub stdin: Source,
    /// Standard output, and everything that comes from a terminal.
    pub stdout: Sink,
    /// Standard error.
    pub stderr: Sink,
    /// Lines for the report.
    pub keep: Keep,
    /// Signals, blocked before the jail was made; `None` where the caller has its own way to stop a run.
    pub signals: Option<SignalSource>,
    /// What a language runtime may ask for; `None`: nothing.
    pub lent: Option<Lent>,
    /// Errors of the language are kept, and not told on standard error.
    pub quiet: bool,
    /// The egress of a named network.
    pub egress: Option<Egress>,
    /// Where a person is asked for the lines that the runtime waits for: [`Prompt`]s are written here. An interrupt is
    /// then passed on instead of ending the run.
    pub person: Option<OwnedFd>,
    /// Where a language program's saved state goes; `None`: none is wanted.
    pub state: Option<OwnedFd>,
}
