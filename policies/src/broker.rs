//! The broker's wire: what a confined runtime may ask of its supervisor, bounded on both sides.
//!
//! One SOCK_SEQPACKET pair; the runtime's end is descriptor [`DESCRIPTOR`]. A message is one request or one answer:
//! four bytes, little endian, with the length of a JSON head; the head; raw bytes behind it (a piece of a source, a
//! list). The runtime sends one request, waits for its answer, and sends the next one with the next number.
//!
//! Invariant: a message has at most [`MOST_MESSAGE`] bytes, its head a fixed depth, its paths [`MOST_PATH`] bytes.
//! Invariant: only answers carry a descriptor. There is no request for which the supervisor takes one.
//! Invariant: there is no rename, no link, no chmod: with grants that differ for two paths, each of them would let a
//! file change from one to the other.

use crate::{
    audit::Entry,
    ceiling::Ceiling,
    fetch::{Fetch, Prompt},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// The runtime's end.
pub const DESCRIPTOR: i32 = 5;
/// Largest message, in bytes.
pub const MOST_MESSAGE: usize = 64 << 10;
/// Largest head, in bytes.
pub const MOST_HEAD: usize = 48 << 10;
/// Most raw bytes behind a head.
pub const MOST_PIECE: usize = MOST_MESSAGE - 4 - 1024;
/// Longest path, in bytes.
pub const MOST_PATH: usize = 4096;
/// Longest source of a child, in bytes.
pub const MOST_SOURCE: usize = 4 << 20;
/// Most variables of a child.
pub const MOST_VARIABLES: usize = 256;
/// Most words of a command.
pub const MOST_WORDS: usize = 4096;
/// Most entries of a listed folder.
pub const MOST_ENTRIES: usize = 10_000;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Request {
    /// A regular file, open.
    Open {
        /// Absolute, or from the caller's working folder.
        path: String,
        /// For what.
        how: How,
    },
    /// A new file that takes the place of what is at a path when it is complete. Folders to it are made.
    Replace {
        /// Where.
        path: String,
    },
    /// The file of the last [`Replace`](Self::Replace) is complete.
    Commit {},
    /// What stands at a path.
    Look {
        /// Where.
        path: String,
    },
    /// What is in a folder.
    List {
        /// Which.
        path: String,
    },
    /// A new folder, and those to it.
    MakeFolder {
        /// Where.
        path: String,
    },
    /// One file or one empty folder less.
    Remove {
        /// Which.
        path: String,
        /// What it is.
        what: What,
    },
    /// One file of a database.
    Database {
        /// The database: absolute, or from the caller's working folder.
        path: String,
        /// Which of its files.
        part: Part,
        /// What with it.
        act: Act,
    },
    /// One file of the notebook that the caller declared.
    Notebook {
        /// Its name.
        name: String,
        /// Which of its files.
        part: Part,
        /// What with it.
        act: Act,
    },
    /// The raw bytes are the next piece of a child's source.
    Source {},
    /// Runs the collected source in a jail of its own.
    RunProgram(Box<Child>),
    /// Runs a foreign command in a jail of its own; what was collected as a source is its input.
    RunCommand(Box<Command>),
    /// The raw bytes are the next piece of a request's body, or of a prompt.
    Body {},
    /// One request of HTTP, with the collected body.
    Fetch(Box<Fetch>),
    /// The collected body as a prompt for the model.
    Prompt(Box<Prompt>),
    /// What is known of the model: a [`ModelState`](crate::fetch::ModelState) as JSON.
    Model {},
}

/// For what a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Reading.
    Read,
    /// Writing behind its end; it is made if it isn't there, and folders to it too.
    Append,
}

/// The files of a database: those that SQLite keeps beside it have its name and an ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The database itself.
    Main,
    /// `-journal`: what a transaction changes, to undo it.
    Journal,
    /// `-wal`: what transactions changed, to do it.
    Log,
}

impl Part {
    /// What stands behind the database's name.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Journal => "-journal",
            Self::Log => "-wal",
        }
    }
}

/// What happens to a database's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// It is opened for reading.
    Read,
    /// It is opened for reading and writing.
    Write,
    /// As [`Write`](Self::Write); it is made if it isn't there.
    Make,
    /// It is looked at.
    Look,
    /// It is removed. Never the database itself.
    Remove,
}

/// What is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A file, or a link itself.
    File,
    /// An empty folder.
    Folder,
}

/// Which builtins a child has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Those that need nothing of the local machine.
    Pure,
    /// All.
    Native,
}

/// A child program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Child {
    /// What it may do, after the caller's own gate. The supervisor clips it to the jail's.
    pub ceiling: Ceiling,
    /// Which builtins it has; never more than the caller.
    pub profile: Profile,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Until it is killed, in milliseconds.
    pub timeout_ms: u64,
    /// Fuel, where the caller's is limited. The supervisor gives no more than is left of the jail's.
    pub fuel: Option<u64>,
    /// Its folder, where not the caller's.
    pub cwd: Option<String>,
    /// Its name in messages.
    pub filename: String,
}

/// A foreign command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    /// Its words; the first names it as the ceiling does.
    pub argv: Vec<String>,
    /// What it may do, after the caller's own gate. The supervisor clips it to the jail's.
    pub ceiling: Ceiling,
    /// Variables beside the usual ones.
    pub env: BTreeMap<String, String>,
    /// Until it is killed, in milliseconds.
    pub timeout_ms: u64,
    /// Its folder, where not the caller's.
    pub cwd: Option<String>,
    /// Bytes of each stream that are given back.
    pub most_output: u64,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exited {
    /// Its exit code; 128 and its signal, if one killed it.
    pub exit_code: Option<i32>,
    /// What it wrote; what isn't UTF-8 is replaced.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Whether there was more.
    pub stdout_truncated: bool,
    /// Whether there was more.
    pub stderr_truncated: bool,
    /// Why it was ended, if it didn't end by itself.
    pub ended: Option<String>,
    /// Whether its time was over.
    pub timed_out: bool,
    /// Its audit.
    pub audit: Vec<Entry>,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// It ended by itself with 0.
    pub ok: bool,
    /// What it printed.
    pub output: Vec<String>,
    /// What went wrong.
    pub errors: Vec<String>,
    /// Its audit.
    pub audit: Vec<Entry>,
    /// Its exit code, if it ended by itself.
    pub exit: Option<i32>,
    /// Whether its time was over.
    pub timed_out: bool,
    /// Tokens of its model calls.
    pub llm_tokens: u64,
    /// Fuel that it used, its own children's with it.
    #[serde(default)]
    pub fuel: u64,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It is done.
    Done,
    /// The descriptor beside it is the file.
    Opened,
    /// What stands there.
    Seen(Seen),
    /// The raw bytes are JSON: a list of [`Listed`], or a [`Ran`].
    Inline,
    /// They are too long for a message: the descriptor beside it is a file with them.
    Filed {
        /// How many.
        bytes: u64,
    },
    /// The raw bytes are JSON, an [`Outcome`](crate::fetch::Outcome); the descriptor beside it is the body.
    Beside {
        /// How many bytes.
        bytes: u64,
    },
    /// No.
    Refused(Refused),
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Whether anything does.
    pub exists: bool,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
    /// Unix time in seconds.
    pub modified: f64,
}

impl Seen {
    /// Nothing is there.
    pub const NOTHING: Self = Self { exists: false, is_dir: false, size: 0, modified: 0.0 };
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Listed {
    /// Its name; what isn't UTF-8 is replaced.
    pub name: String,
    /// Whether it is a folder.
    pub is_dir: bool,
    /// Bytes.
    pub size: u64,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// By whom.
    pub by: By,
    /// Why, as a fragment.
    pub why: String,
}

/// Who refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The ceiling.
    Ceiling,
    /// The kernel, with this errno.
    Kernel(i32),
    /// A bound of the broker.
    Limit,
    /// The request makes no sense.
    Misuse,
}

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
    let path = |path: &str| if path.len() > MOST_PATH { Err(Breach::Bound("a path")) } else { Ok(()) };
    let takes_raw = match &message.what {
        Request::Open { path: at, .. }
        | Request::Replace { path: at }
        | Request::Look { path: at }
        | Request::List { path: at }
        | Request::MakeFolder { path: at }
        | Request::Remove { path: at, .. } => path(at).map(|()| false)?,
        Request::Database { path: at, .. } | Request::Notebook { name: at, .. } => {
            path(at).map(|()| false)?
        }
        Request::Commit {} | Request::Model {} => false,
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
        Request::RunCommand(command) => {
            path(command.cwd.as_deref().unwrap_or(""))?;
            if command.env.len() > MOST_VARIABLES {
                return Err(Breach::Bound("the number of variables"));
            }
            if command.argv.len() > MOST_WORDS {
                return Err(Breach::Bound("the number of words"));
            }
            false
        }
    };
    if !takes_raw && !message.raw.is_empty() {
        return Err(Breach::Bound("raw bytes"));
    }
    Ok(message)
}

/// An answer. The runtime reads it; a supervisor is no enemy, but its answer is read as strictly.
///
/// # Errors
/// The [`Breach`].
pub fn answer(bytes: &[u8]) -> Result<Message<'_, Answer>, Breach> {
    decode(bytes)
}

/// Whether a variable of a child's environment would steer its loader or its runtime.
#[must_use]
pub fn steers(name: &str) -> bool {
    let allowed = ["SYNSEMA_LLM_PROVIDER", "SYNSEMA_LLM_MODEL"];
    name.starts_with("LD_")
        || name.starts_with("DYLD_")
        || (name.starts_with("SYNSEMA_") && !allowed.contains(&name))
}

/// Whether text can be a variable's name at all.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.len() <= 256 && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn open(path: &str) -> Request {
        Request::Open { path: path.to_owned(), how: How::Read }
    }

    fn framed(head: &str, raw: &[u8]) -> Vec<u8> {
        let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(raw);
        bytes
    }

    #[test]
    fn a_request_has_this_form() {
        let bytes = encode(7, &open("/a"), b"").unwrap();
        assert_eq!(&bytes[4..], br#"{"id":7,"is":{"open":{"path":"/a","how":"read"}}}"#);
        assert_eq!(request(&bytes).unwrap().what, open("/a"));
    }

    #[test]
    fn what_is_no_message_is_a_breach() {
        for (bytes, breach) in [
            (vec![], Breach::Head),
            (vec![1, 0, 0], Breach::Head),
            (vec![255; 8], Breach::Head),
            (framed("", b"").into_iter().chain([0]).collect(), Breach::Unreadable(String::new())),
            (vec![b'x'; MOST_MESSAGE + 1], Breach::TooLong),
            (framed(r#"{"id":1,"is":{"commit":{}}}"#, b"x"), Breach::Bound("raw bytes")),
            (framed(r#"{"id":1,"is":{"commit":{"x":1}}}"#, b""), Breach::Unreadable(String::new())),
            (framed(r#"{"id":1,"is":{"commit":{}},"more":1}"#, b""), Breach::Unreadable(String::new())),
            (framed(r#"{"id":4294967296,"is":{"commit":{}}}"#, b""), Breach::Unreadable(String::new())),
            (framed(&"[".repeat(40_000), b""), Breach::Unreadable(String::new())),
        ] {
            let got = request(&bytes).unwrap_err();
            assert_eq!(std::mem::discriminant(&got), std::mem::discriminant(&breach), "{got}");
        }
    }

    #[test]
    fn bounds_are_exact() {
        let path = |length: usize| encode(1, &open(&"a".repeat(length)), b"").unwrap();
        assert!(request(&path(MOST_PATH)).is_ok());
        assert_eq!(request(&path(MOST_PATH + 1)), Err(Breach::Bound("a path")));
        let piece = |length| encode(1, &Request::Source {}, &vec![0; length]);
        assert!(request(&piece(MOST_PIECE).unwrap()).is_ok());
        assert_eq!(piece(MOST_MESSAGE), Err(Breach::TooLong));
    }

    #[test]
    fn steering_names_are_known() {
        for (name, steering) in [
            ("LD_PRELOAD", true),
            ("DYLD_X", true),
            ("SYNSEMA_AUDIT", true),
            ("SYNSEMA_LLM_MODEL", false),
            ("LDX", false),
        ] {
            assert_eq!(steers(name), steering, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
            let _read = request(&bytes);
            let _read = answer(&bytes);
        }

        #[test]
        fn changed_messages_are_read_or_refused(
            at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
        ) {
            let child = Child {
                ceiling: Ceiling::sandbox(),
                profile: Profile::Pure,
                env: BTreeMap::from([("A".to_owned(), "b".to_owned())]),
                timeout_ms: 1000,
                fuel: Some(7),
                cwd: None,
                filename: "<program>".to_owned(),
            };
            let mut bytes = encode(3, &Request::RunProgram(Box::new(child)), b"").unwrap();
            let length = bytes.len();
            bytes[at.index(length)] = byte;
            let _read = request(&bytes);
            let _read = request(&bytes[..cut.index(length)]);
        }

        #[test]
        fn messages_come_back(id in any::<u32>(), path in "\\PC{1,200}", raw in prop::collection::vec(any::<u8>(), 0..100)) {
            let asked = Request::Remove { path, what: What::Folder };
            let bytes = encode(id, &asked, b"").unwrap();
            prop_assert_eq!(request(&bytes).unwrap(), Message { id, what: asked, raw: &[] });
            let told = Answer::Refused(Refused { by: By::Kernel(13), why: "x".to_owned() });
            let bytes = encode(id, &told, &raw).unwrap();
            prop_assert_eq!(answer(&bytes).unwrap(), Message { id, what: told, raw: &raw });
        }
    }
}
