//! Where the report goes: opened before the start, so that a run is not made for a report that can't be kept.

use crate::{error::Error, sys::fd};
use policies::report::Report;
use std::{
    fs::File,
    io::{self, Write},
};

/// A place for the report.
#[derive(Debug)]
pub(super) enum Destination {
    /// Standard output, with nothing else on it.
    Stdout,
    /// A file or a descriptor of the caller's.
    File {
        /// As given.
        name: String,
        /// Open for writing.
        file: File,
    },
}

impl Destination {
    /// From `FILE`, `-` or `fd:N`.
    pub(super) fn open(text: &str) -> Result<Self, Error> {
        if text == "-" {
            return Ok(Self::Stdout);
        }
        let file = match text.strip_prefix("fd:") {
            Some(number) => {
                let number =
                    number.parse().ok().filter(|number| *number > 2).ok_or_else(|| Error::Usage {
                        what: format!("--report {text}: no number of an open descriptor"),
                        remedy: "write fd:N with N from 3 up, open for writing (fd:3 with 3>report.json)"
                            .into(),
                    })?;
                fd::inherited(number).map_err(io::Error::from).map(File::from)
            }
            None => File::create(text),
        };
        let file =
            file.map_err(|source| Error::File { act: "open the report", path: text.to_owned(), source })?;
        Ok(Self::File { name: text.to_owned(), file })
    }

    /// Whether it is standard output.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Writes it as one line of JSON.
    pub(super) fn write(self, report: &Report) -> Result<(), Error> {
        let (name, written) = match self {
            Self::Stdout => ("standard output".to_owned(), line(&mut io::stdout().lock(), report)),
            Self::File { name, mut file } => (name, line(&mut file, report)),
        };
        written.map_err(|source| Error::File { act: "write the report to", path: name, source })
    }
}

fn line(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let mut text = serde_json::to_vec(report)?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()
}
