//! `thirdwall doctor`: what this host has of each wall, what holds each limit, and how to get what is missing.
//!
//! Looking is split from judging: `look` asks the host, `examine` is a pure function of the answers, so that hosts which
//! nobody has at hand are tested too. The one thing that is changed: cgroups of launchers that were killed are removed.

mod examine;
mod page;

pub use examine::{Diagnosis, Finding, Jail, LandlockStep, LimitRow, Remedy, Surroundings, Who, examine};

use crate::{cgroup, jail::network::PIN, probe};
use std::{fs, io::Write, path::Path};

/// How the diagnosis is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Page,
    /// For programs.
    Json,
}

/// Prints the diagnosis. The exit code is 0 when a full jail can be built here, 1 otherwise.
///
/// # Errors
/// When `out` can't be written to.
pub fn run(format: Format, out: &mut impl Write) -> std::io::Result<u8> {
    print(&examine(&probe::full(), &look()), format, out)
}

fn print(diagnosis: &Diagnosis, format: Format, out: &mut impl Write) -> std::io::Result<u8> {
    match format {
        Format::Page => write!(out, "{diagnosis}")?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, diagnosis)?;
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(match diagnosis.jail {
        Jail::Full => 0,
        Jail::Incomplete => 1,
    })
}

fn look() -> Surroundings {
    Surroundings {
        pinned_network: Path::new(PIN).exists(),
        masked_proc: masked(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()),
        removed_cgroups: cgroup::sweep().into_iter().map(|path| path.display().to_string()).collect(),
    }
}

/// Mounts on top of /proc, which a container puts there to hide parts of it. A new proc would show them, so the kernel
/// refuses one in a user namespace (`mount_too_revealing`). An empty folder of it may be covered.
fn masked(mountinfo: &str) -> Vec<String> {
    let mut points: Vec<String> = mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|point| point.starts_with("/proc/") && *point != "/proc/sys/fs/binfmt_misc")
        .map(str::to_owned)
        .collect();
    points.sort();
    points.dedup();
    points
}

#[cfg(test)]
mod tests;
