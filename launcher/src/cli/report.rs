//! Where the report goes: opened before the start, so that a run is not made for a report that can't be kept.

use super::given;
use crate::{error::Error, sys::fd};
use policies::report::Report;
use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
};

/// Stands at the head of a file that an earlier report is in, until this run's is whole: no JSON, should the launcher be killed.
const UNFINISHED: &[u8] = b"unfinished: ";

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
        /// Bytes of an earlier content.
        was: u64,
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
                // What stands in it already is the caller's, and this report comes behind it.
                fd::inherited(number).map_err(io::Error::from).map(|file| (File::from(file), 0))
            }
            // Not cut to nothing: on ext4 that costs a wait for the disk when the file is closed (ext4(5), auto_da_alloc).
            None => given::target(text).and_then(|file| spoil(&file).map(|was| (file, was))),
        };
        let (file, was) =
            file.map_err(|source| Error::File { act: "open the report", path: text.to_owned(), source })?;
        Ok(Self::File { name: text.to_owned(), file, was })
    }

    /// Whether it is standard output.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Writes it as one line of JSON.
    pub(super) fn write(self, report: &Report) -> Result<(), Error> {
        let (name, written) = match self {
            Self::Stdout => ("standard output".to_owned(), line(&mut io::stdout().lock(), report).map(drop)),
            Self::File { name, mut file, was } => {
                let written = line(&mut file, report);
                // Only what this launcher spoiled is its own to cut: that, and what the program put behind it meanwhile.
                let cut = |length| match file.metadata() {
                    Ok(now) if was > 0 && now.is_file() && now.len() > length => file.set_len(length),
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                };
                (name, written.and_then(cut))
            }
        };
        written.map_err(|source| Error::File { act: "write the report to", path: name, source })
    }
}

/// Writes over the head of what stands in a file, and gives its length: a report that isn't this run's must not look like it.
fn spoil(file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() == 0 {
        return Ok(0);
    }
    let head = UNFINISHED.len().min(usize::try_from(metadata.len()).unwrap_or(usize::MAX));
    file.write_all_at(UNFINISHED.get(..head).unwrap_or_default(), 0)?;
    Ok(metadata.len())
}

/// One line of JSON, and its length.
fn line(out: &mut impl Write, report: &Report) -> io::Result<u64> {
    let mut text = serde_json::to_vec(report)?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()?;
    Ok(text.len() as u64)
}
