//! Processes that go on beside the program that started them: what its runtime may ask of each.
//!
//! The runtime names a process by the number that it was given when it started; the supervisor holds the process's streams.
//!
//! Invariant: nothing here is a decision. A process is started as a command is ([`Command`]), and what is
//! asked of it later reaches no other one.

use crate::broker::Command;
use serde::{Deserialize, Serialize};

/// Most processes that run at once below one program.
pub const MOST_RUNNING: usize = 16;
/// Most processes that a program may know, ended ones with them.
pub const MOST_KNOWN: usize = 64;
/// Most processes and connections that one wait may be for.
pub const MOST_AWAITED: usize = 256;

/// A command that goes on beside its program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spawn {
    /// What is started. Its `most_output` says nothing here.
    pub command: Command,
    /// Whether it gets a terminal, and of what size.
    pub terminal: Option<Window>,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Width.
    pub columns: u16,
    /// Height.
    pub rows: u16,
}

/// What is asked of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// The raw bytes are for its input. Answered with how many were taken, which may be none.
    Feed,
    /// Its input has no more.
    EndInput,
    /// What it has written, as much as is there and fits.
    Read(Stream),
    /// How it ended: an [`Exited`](crate::broker::Exited) as JSON, or `null`.
    Look,
    /// A signal to it.
    Signal(Signal),
    /// Its terminal has another size.
    Resize(Window),
    /// It is ended, if it runs, and nobody asks of it again.
    Forget,
}

/// What a process writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output, or its terminal.
    Output,
    /// Standard error.
    Errors,
}

/// What can be sent to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// SIGTERM; what is still there after a grace is killed.
    Term,
    /// SIGINT, likewise.
    Int,
    /// SIGHUP.
    Hup,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
    /// It and everything in its jail ends now.
    Kill,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Awaited {
    /// Of which process or connection.
    pub number: u32,
    /// What.
    pub what: What,
}

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Of a process: output or errors, or the end of both.
    Output,
    /// Of a process: room for input, or that it takes no more.
    Room,
    /// Of a process: its end.
    End,
    /// Of a connection: bytes, or their end.
    Arrival,
    /// Of a connection: room for bytes, or that it takes no more.
    Outlet,
}

impl What {
    /// Whether it is a process that is waited for; otherwise it is a connection.
    #[must_use]
    pub const fn is_of_process(self) -> bool {
        match self {
            Self::Output | Self::Room | Self::End => true,
            Self::Arrival | Self::Outlet => false,
        }
    }
}
