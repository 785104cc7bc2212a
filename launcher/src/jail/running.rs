//! What the supervisor gets: handles on a jail whose payload was executed.

use super::Purpose;
use nix::unistd::Pid;
use std::os::fd::OwnedFd;

/// The supervisor's ends of the payload's standard streams.
#[derive(Debug)]
pub struct Streams {
    /// Write end of the payload's standard input; `None` = empty input.
    pub stdin: Option<OwnedFd>,
    /// Read end of its standard output; `None` with a terminal.
    pub stdout: Option<OwnedFd>,
    /// Read end of its standard error; `None` with a terminal.
    pub stderr: Option<OwnedFd>,
    /// The master of the jail's own pseudo-terminal, which then is all three.
    pub terminal: Option<OwnedFd>,
    /// Read end of the language runtime's frames (`policies::wire`).
    pub frames: Option<OwnedFd>,
    /// The supervisor's end of the language runtime's requests (`policies::broker`).
    pub broker: Option<OwnedFd>,
}

/// Handles on a running jail. Dropping `lifeline` kills all of it.
#[derive(Debug)]
pub struct Running {
    /// The jail's init as the supervisor sees it; killing it kills everything in the jail.
    pub init: Pid,
    /// pidfd of init.
    pub init_pidfd: OwnedFd,
    /// pidfd of the payload's first process, for signals.
    pub payload_pidfd: OwnedFd,
    /// init writes one [`ExitRecord`] here when the payload has ended, then exits.
    pub exit_pipe: OwnedFd,
    /// init watches the other end.
    pub lifeline: OwnedFd,
    /// The filter's notifications.
    pub listener: Option<OwnedFd>,
    /// O_PATH descriptor on the jail's tmpfs root: fstatfs tells its fill.
    pub scratch: Option<OwnedFd>,
    /// Sockets inside the namespace of a named network, for the egress.
    pub network: Vec<(Purpose, OwnedFd)>,
    /// Standard streams.
    pub streams: Streams,
}

/// What init tells of the payload's end: 24 bytes, native endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitRecord {
    /// Raw wait status of the payload's first process, exact.
    pub status: i32,
    /// CPU time of it and the children it waited for, in microseconds.
    pub cpu_us: u64,
    /// Largest resident set of one process, in KiB.
    pub max_rss_kib: u64,
}

impl ExitRecord {
    /// Size on the pipe.
    pub const SIZE: usize = 24;

    /// To bytes.
    #[must_use]
    pub fn encode(self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[..8].copy_from_slice(&i64::from(self.status).to_ne_bytes());
        out[8..16].copy_from_slice(&self.cpu_us.to_ne_bytes());
        out[16..].copy_from_slice(&self.max_rss_kib.to_ne_bytes());
        out
    }

    /// From bytes; the status is cut to 32 bits.
    #[must_use]
    pub fn decode(bytes: [u8; Self::SIZE]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            word
        };
        Self {
            status: i64::from_ne_bytes(word(0)) as i32,
            cpu_us: u64::from_ne_bytes(word(8)),
            max_rss_kib: u64::from_ne_bytes(word(16)),
        }
    }
}
