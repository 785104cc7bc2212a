//! What a runtime may ask for.

use crate::{
    ceiling::Ceiling,
    connection::{Act as OfConnection, Connect},
    fetch::{Fetch, Prompt},
    process::{Act as OfProcess, Awaited, Spawn},
    terminal::Act as OfTerminal,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// The text of a module that a conversation uses.
    Module {
        /// From the folder that it was begun in.
        path: String,
    },
    /// The raw bytes are the next piece of a child's source.
    Source {},
    /// Runs the collected source in a jail of its own.
    RunProgram(Box<Child>),
    /// Runs a foreign command in a jail of its own; what was collected as a source is its input.
    RunCommand(Box<Command>),
    /// Starts a command that goes on beside the caller; answered with its number once it runs.
    Spawn(Box<Spawn>),
    /// Something of a process that the caller started.
    Process {
        /// Its number.
        number: u32,
        /// What.
        act: OfProcess,
    },
    /// A connection that goes on.
    Connect(Box<Connect>),
    /// Something of a connection that the caller has.
    Connection {
        /// Its number.
        number: u32,
        /// What.
        act: OfConnection,
    },
    /// Waits until one of these is there, or the time is over; answered with the places of those that are.
    Await {
        /// For what.
        all: Vec<Awaited>,
        /// For how long at most, in milliseconds.
        timeout_ms: u64,
    },
    /// Something of the caller's terminal.
    Terminal {
        /// What.
        act: OfTerminal,
    },
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
