//! Limits: one table of limit × means × verdict.
//!
//! | limit | first means | else | else | when it is met |
//! |---|---|---|---|---|
//! | wall | supervisor's timer | | | ends the run: `wall_time` |
//! | cpu | cgroup v2 | cgroup v1 | polling of the tree | ends the run: `cpu_time` |
//! | memory | cgroup v2 | cgroup v1 | polling of the tree | ends the run: `memory` |
//! | pids | cgroup v2 | cgroup v1 | rlimit | the act fails (EAGAIN); `processes` if the run then fails |
//! | output | supervisor's count | | | cut, ends the run: `output` |
//! | disk | size of the jail's tmpfs | | | the act fails (ENOSPC); `disk` if the run then fails |
//! | nofile | rlimit | | | the act fails (EMFILE) and is counted |

use super::{Limit, Limits, Means};
use crate::{
    error::Refusal,
    facts::{CgroupFacts, HostFacts},
    limits::{LimitSettings, Setting},
    units::{Bytes, Millis},
};
use std::fmt::Display;

/// The least memory that a cgroup keeps a process in.
const LEAST_MEMORY: Bytes = Bytes::mib(1);
/// The least that the jail's tmpfs takes for its own few files. Never 0, which the kernel reads as 'without limit'
/// (tmpfs(5), `size`).
const LEAST_DISK: Bytes = Bytes::kib(64);
/// Open files that a program needs to begin with: three streams, its own file, a library at a time.
const LEAST_NOFILE: u64 = 8;

/// The limits with the means that this host has for each.
pub(super) fn limits(
    asked: LimitSettings,
    host: &HostFacts,
    notes: &mut Vec<String>,
) -> Result<Limits, Refusal> {
    let asked = asked.over(LimitSettings::DEFAULT);
    let means = |v2: bool, v1: bool, otherwise: Means| {
        if v2 {
            Means::CgroupV2
        } else if v1 {
            Means::CgroupV1
        } else {
            otherwise
        }
    };
    let none = (false, false, false);
    let (v2, v1) = match host.cgroup {
        CgroupFacts::V2 { memory, pids, cpu } => ((memory, pids, cpu), none),
        CgroupFacts::V1 { memory, pids, cpu } => (none, (memory, pids, cpu)),
        CgroupFacts::None => (none, none),
    };
    let memory = value(asked.memory);
    at_least("memory", memory, LEAST_MEMORY)?;
    let pids = value(asked.pids);
    at_least("pids", pids, 1)?;
    let asked_nofile = asked.nofile.unwrap_or(LEAST_NOFILE);
    at_least("nofile", Some(asked_nofile), LEAST_NOFILE)?;
    let nofile = asked_nofile.min(host.nofile_hard);
    if nofile < asked_nofile {
        notes.push(format!(
            "open files: {nofile}, the caller's own hard limit, not the {asked_nofile} asked for"
        ));
    }
    let disk = asked.disk.unwrap_or(LEAST_DISK);
    at_least("disk", Some(disk), LEAST_DISK)?;
    at_least("wall", value(asked.wall), Millis(1))?;
    at_least("cpu", value(asked.cpu), Millis(1))?;
    Ok(Limits {
        wall: Limit { value: value(asked.wall), means: Means::Supervisor },
        cpu: Limit { value: value(asked.cpu), means: means(v2.2, v1.2, Means::Polling) },
        memory: Limit { value: memory, means: means(v2.0, v1.0, Means::Polling) },
        pids: Limit { value: pids, means: means(v2.1, v1.1, Means::Rlimit) },
        nofile,
        output: Limit { value: value(asked.output), means: Means::Supervisor },
        disk,
        grace: asked.grace.unwrap_or(Millis(0)),
    })
}

fn value<T>(setting: Option<Setting<T>>) -> Option<T> {
    setting.and_then(Setting::value)
}

fn at_least<T: PartialOrd + Display>(limit: &'static str, value: Option<T>, least: T) -> Result<(), Refusal> {
    match value {
        Some(value) if value < least => {
            Err(Refusal::LimitTooSmall { limit, value: value.to_string(), least: least.to_string() })
        }
        Some(_) | None => Ok(()),
    }
}

impl Means {
    /// In words, as the report has it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Rlimit => "rlimit",
            Self::Polling => "polling",
            Self::Supervisor => "supervisor",
            Self::Tmpfs => "tmpfs",
        }
    }
}
