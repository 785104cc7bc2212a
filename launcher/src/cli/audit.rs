//! Where the audit goes: one compact JSON object a line, the summary last.
//!
//! Invariant: the place is opened before the program starts, so that no act goes unrecorded for want of one.

use super::{args::CommonArgs, given};
use crate::{error::Error, sys::fd};
use policies::report::Report;
use serde::Serialize;
use std::{
    env,
    fs::File,
    io::{self, Write},
    os::unix::net::UnixStream,
};

/// The variable that says the same as `--audit`, for the languages' commands.
pub(super) const VARIABLE: &str = "SYNSEMA_AUDIT";

/// What the variable says, if anything.
pub(super) fn variable() -> Option<String> {
    env::var(VARIABLE).ok().filter(|text| !text.is_empty())
}

/// The last line. The field order is the order on the wire.
#[derive(Serialize)]
struct Last {
    summary: Summary,
}

#[derive(Serialize)]
struct Summary {
    granted: u64,
    denied: u64,
    exit: u8,
    /// Entries beyond the bound.
    #[serde(skip_serializing_if = "is_zero")]
    dropped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An open place for entries.
pub(super) struct Audit {
    name: String,
    out: Box<dyn Write>,
    granted: u64,
    denied: u64,
    dropped: u64,
}

impl Audit {
    /// What the command line asks for.
    pub(super) fn wanted(common: &CommonArgs) -> Result<Option<Self>, Error> {
        common.audit.as_deref().map(Self::open).transpose()
    }

    /// What the command line asks for, or else the variable.
    pub(super) fn of_language(common: &CommonArgs) -> Result<Option<Self>, Error> {
        match (Self::wanted(common)?, variable()) {
            (None, Some(text)) => Self::open(&text).map(Some),
            (wanted, _) => Ok(wanted),
        }
    }

    /// From `json`, `fd:N`, `unix:PATH` or a path.
    fn open(text: &str) -> Result<Self, Error> {
        let out: io::Result<Box<dyn Write>> = match text.split_once(':') {
            Some(("fd", number)) => {
                let number =
                    number.parse().ok().filter(|number| *number > 0).ok_or_else(|| Error::Usage {
                        what: format!("--audit {text}: no number of an open descriptor"),
                        remedy: "write fd:N with the number of a descriptor that is open for writing".into(),
                    })?;
                match number {
                    1 => Ok(Box::new(io::stdout())),
                    2 => Ok(Box::new(io::stderr())),
                    number => {
                        let file = fd::inherited(number).map_err(io::Error::from);
                        file.map(|file| Box::new(File::from(file)) as Box<dyn Write>)
                    }
                }
            }
            Some(("unix", path)) => {
                UnixStream::connect(path).map(|socket| Box::new(socket) as Box<dyn Write>)
            }
            _ if text == "json" => Ok(Box::new(io::stderr())),
            _ => given::target(text)
                // A device or FIFO has nothing to be cut.
                .and_then(
                    |file| if file.metadata()?.is_file() { file.set_len(0).map(|()| file) } else { Ok(file) },
                )
                .map(|file| Box::new(file) as Box<dyn Write>),
        };
        let out =
            out.map_err(|source| Error::File { act: "open the audit", path: text.to_owned(), source })?;
        Ok(Self { name: text.to_owned(), out, granted: 0, denied: 0, dropped: 0 })
    }

    /// Writes a run's entries.
    pub(super) fn add(&mut self, report: &Report) -> Result<(), Error> {
        let mut lines = Vec::new();
        for entry in &report.audit {
            *(if entry.granted { &mut self.granted } else { &mut self.denied }) += 1;
            serde_json::to_writer(&mut lines, entry).map_err(|error| self.unwritable(error.into()))?;
            lines.push(b'\n');
        }
        self.dropped += report.audit_dropped;
        self.out.write_all(&lines).map_err(|error| self.unwritable(error))
    }

    /// Writes the summary. `exit` is this process's code.
    pub(super) fn finish(mut self, exit: u8) -> Result<(), Error> {
        let (granted, denied, dropped) = (self.granted, self.denied, self.dropped);
        let line = Last { summary: Summary { granted, denied, exit, dropped } };
        let written = serde_json::to_writer(&mut self.out, &line)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(self.out))
            .and_then(|()| self.out.flush());
        written.map_err(|error| self.unwritable(error))
    }

    /// Both, for one run.
    pub(super) fn tell(audit: Option<Self>, report: &Report, exit: u8) -> Result<(), Error> {
        let Some(mut audit) = audit else { return Ok(()) };
        audit.add(report)?;
        audit.finish(exit)
    }

    fn unwritable(&self, source: io::Error) -> Error {
        Error::File { act: "write the audit to", path: self.name.clone(), source }
    }
}
