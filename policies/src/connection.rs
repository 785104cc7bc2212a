//! Connections that a program keeps: what its runtime may ask of each.
//!
//! The runtime holds no socket: its filter knows none. It names a connection by the number that it was given when it was made;
//! what dials, speaks TLS and carries the bytes is a confined process of the supervisor's, one for each connection.
//!
//! Invariant: a number is given once in a run, so an old one never means a newer connection.
//! Invariant: what is asked of a connection never waits. Waits are asked for by themselves
//! ([`Request::Await`](crate::broker::Request::Await)).

use crate::{
    broker::Breach,
    fetch::{Failure, LONGEST_MS},
};
use serde::{Deserialize, Serialize};

/// Connections that a program may have at one time.
pub const MOST_OPEN: usize = 32;
/// Longest name of a host.
const MOST_HOST: usize = 512;

/// How a connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Security {
    /// Not at all.
    Plain,
    /// By TLS.
    Tls,
    /// By TLS, for HTTP/1.1: what a WebSocket begins with.
    TlsForHttp,
}

/// A connection that is asked for. Answered with [`Connected`] as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is protected.
    pub security: Security,
    /// Until it is there.
    pub timeout_ms: u64,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Connected {
    /// It is there.
    Open {
        /// Its number.
        number: u32,
        /// The address at its other end.
        peer: String,
    },
    /// It is not.
    Failed {
        /// Of which kind.
        kind: Failure,
        /// Why, as a fragment.
        why: String,
    },
}

/// What is asked of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// The raw bytes are to be sent. Answered with how many were taken, which may be none.
    Send,
    /// No more will be sent.
    EndSending,
    /// What has come, as much as is there and fits.
    Receive {
        /// Bytes at most.
        most: u32,
    },
    /// Nobody asks of it again; what was taken is still sent.
    Close,
}

impl Connect {
    /// Bounds of size alone; a peer that passes them is dropped.
    pub(crate) fn bounded(&self) -> Result<(), Breach> {
        match self {
            _ if self.host.len() > MOST_HOST => Err(Breach::Bound("a host")),
            _ if self.timeout_ms > LONGEST_MS => Err(Breach::Bound("the time of a connection")),
            _ => Ok(()),
        }
    }
}
