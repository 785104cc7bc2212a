//! Messages: numbered heads with raw bytes behind them, read from a peer that may be anybody.

use super::{Answer, Command, MOST_HEAD, MOST_MESSAGE, MOST_PATH, MOST_VARIABLES, MOST_WORDS, Request};
use crate::connection::Act as OfConnection;
use crate::process::{Act, MOST_AWAITED};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Why a peer is not listened to any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// It is longer than a message may be, or was cut.
    #[error("a message of more than {MOST_MESSAGE} bytes")]
    TooLong,
    /// The length of the head doesn't fit.
    #[error("a message whose head is cut or too long")]
    Head,
    /// The head is not one that is known.
    #[error("a head that can't be read: {0}")]
    Unreadable(String),
    /// A part is longer than it may be.
    #[error("{0} beyond its bound")]
    Bound(&'static str),
    /// Not the next number.
    #[error("message number {got} in the place of {wanted}")]
    Number {
        /// Expected.
        wanted: u32,
        /// Found.
        got: u32,
    },
    /// A request while another one waits for its answer.
    #[error("a request before the answer to the last one")]
    Early,
    /// Descriptors, where none may be.
    #[error("a descriptor beside a request")]
    Descriptor,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head<T> {
    /// Number of the request, from 1; the answer has the same.
    id: u32,
    /// What.
    #[serde(rename = "is")]
    what: T,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message<'a, T> {
    /// Number of the request.
    pub id: u32,
    /// The head.
    pub what: T,
    /// The raw bytes.
    pub raw: &'a [u8],
}

/// A message as bytes.
///
/// # Errors
/// [`Breach::Bound`] if it would be too long: nothing that the other side would have to refuse is sent.
pub fn encode<T: Serialize>(id: u32, what: &T, raw: &[u8]) -> Result<Vec<u8>, Breach> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, &Head { id, what }).map_err(|e| Breach::Unreadable(e.to_string()))?;
    let head = bytes.len().saturating_sub(4);
    if head > MOST_HEAD {
        return Err(Breach::Bound("head"));
    }
    let length = u32::try_from(head).map_err(|_| Breach::Bound("head"))?;
    if let Some(front) = bytes.first_chunk_mut() {
        *front = length.to_le_bytes();
    }
    bytes.extend_from_slice(raw);
    if bytes.len() > MOST_MESSAGE { Err(Breach::TooLong) } else { Ok(bytes) }
}

/// A message from bytes.
///
/// # Errors
/// What makes it none.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<Message<'_, T>, Breach> {
    if bytes.len() > MOST_MESSAGE {
        return Err(Breach::TooLong);
    }
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or(Breach::Head)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| Breach::Head)?;
    if length > MOST_HEAD {
        return Err(Breach::Head);
    }
    let (head, raw) = rest.split_at_checked(length).ok_or(Breach::Head)?;
    // The reader stops at a depth of 128 by itself; no kind of head is deeper than five.
    let Head { id, what } = serde_json::from_slice(head).map_err(|e| Breach::Unreadable(e.to_string()))?;
    Ok(Message { id, what, raw })
}

/// A request, from a peer that may be anybody.
///
/// # Errors
/// The [`Breach`] for which the peer is dropped.
pub fn request(bytes: &[u8]) -> Result<Message<'_, Request>, Breach> {
    let message = decode::<Request>(bytes)?;
    let takes_raw = message.what.bounded()?;
    if !takes_raw && !message.raw.is_empty() {
        return Err(Breach::Bound("raw bytes"));
    }
    Ok(message)
}

impl Request {
    /// Whether raw bytes may stand behind it, if each of its parts is within its bound.
    ///
    /// # Errors
    /// [`Breach::Bound`] with the part that isn't. Whoever sends it asks too: the other side would drop the peer.
    pub fn bounded(&self) -> Result<bool, Breach> {
        let path = |path: &str| if path.len() > MOST_PATH { Err(Breach::Bound("a path")) } else { Ok(()) };
        Ok(match self {
            Request::Open { path: at, .. }
            | Request::Replace { path: at }
            | Request::Look { path: at }
            | Request::List { path: at }
            | Request::MakeFolder { path: at }
            | Request::Module { path: at }
            | Request::Remove { path: at, .. } => path(at).map(|()| false)?,
            Request::Database { path: at, .. } | Request::Notebook { name: at, .. } => {
                path(at).map(|()| false)?
            }
            Request::Commit {} | Request::Model {} | Request::Terminal { .. } => false,
            Request::Source {} | Request::Body {} => true,
            Request::Fetch(fetch) => fetch.bounded().map(|()| false)?,
            Request::Prompt(_) => false,
            Request::RunProgram(child) => {
                path(child.cwd.as_deref().unwrap_or(""))?;
                path(&child.filename)?;
                if child.env.len() > MOST_VARIABLES {
                    return Err(Breach::Bound("the number of variables"));
                }
                false
            }
            Request::RunCommand(command) => command.bounded().map(|()| false)?,
            Request::Spawn(spawn) => spawn.command.bounded().map(|()| false)?,
            Request::Process { act, .. } => matches!(act, Act::Feed),
            Request::Connect(connect) => connect.bounded().map(|()| false)?,
            Request::Connection { act, .. } => matches!(act, OfConnection::Send),
            Request::Await { all, .. } => {
                if all.len() > MOST_AWAITED {
                    return Err(Breach::Bound("the number of handles"));
                }
                false
            }
        })
    }
}

impl Command {
    fn bounded(&self) -> Result<(), Breach> {
        if self.cwd.as_ref().is_some_and(|cwd| cwd.len() > MOST_PATH) {
            return Err(Breach::Bound("a path"));
        }
        if self.env.len() > MOST_VARIABLES {
            return Err(Breach::Bound("the number of variables"));
        }
        if self.argv.len() > MOST_WORDS {
            return Err(Breach::Bound("the number of words"));
        }
        Ok(())
    }
}

/// An answer. The runtime reads it; a supervisor is no enemy, but its answer is read as strictly.
///
/// # Errors
/// The [`Breach`].
pub fn answer(bytes: &[u8]) -> Result<Message<'_, Answer>, Breach> {
    decode(bytes)
}
