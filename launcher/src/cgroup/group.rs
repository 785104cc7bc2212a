//! One jail's group, whichever version the host has.

use super::{v1, v2};
use nix::{errno::Errno, poll::PollFlags};
use policies::{
    facts::{CgroupFacts, HostFacts},
    plan::Limits,
    report::Usage,
    units::{Bytes, Millis},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

/// How init comes into its group.
#[derive(Debug)]
pub enum Entry {
    /// It writes `0` to each of these files (version 1: one for each hierarchy).
    Written(Vec<OwnedFd>),
    /// It is made in the group of this folder (version 2: CLONE_INTO_CGROUP, Linux 5.7).
    Born(OwnedFd),
}

/// What the kernel counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Events {
    /// Processes killed because the memory limit was met.
    pub memory_kills: u64,
    /// Processes and threads refused because the limit was met.
    pub processes_refused: u64,
}

/// Becomes readable when the memory limit is met.
#[derive(Debug)]
pub struct MemoryAlarm {
    pub(super) file: OwnedFd,
    pub(super) flags: PollFlags,
    pub(super) meaning: Meaning,
}

/// What a ring of the alarm says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The kernel is killing.
    Kill,
    /// Some counter changed: look at [`Events`].
    Changed,
}

impl MemoryAlarm {
    /// What to poll for.
    #[must_use]
    pub fn flags(&self) -> PollFlags {
        self.flags
    }

    /// Takes the ring, so that it doesn't ring for ever. True if it says by itself that the limit was met.
    pub fn take(&self) -> bool {
        let mut bytes = [0; 1024];
        match self.meaning {
            Meaning::Kill => nix::unistd::read(&self.file, &mut bytes) == Ok(8),
            Meaning::Changed => {
                let _: Result<usize, Errno> = nix::sys::uio::pread(&self.file, &mut bytes, 0);
                false
            }
        }
    }
}

impl AsFd for MemoryAlarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[derive(Debug)]
enum Kind {
    V1(v1::Group),
    V2(v2::Group),
}

/// One jail's group. Dropping it removes it, which only works once nothing lives in it.
#[derive(Debug)]
pub struct Cgroup {
    kind: Kind,
}

impl Cgroup {
    /// Makes the group with its limits. Limits that the plan holds by other means are left out; with none left, no
    /// folder is made at all.
    ///
    /// # Errors
    /// Those of the file system, with the path; `Unsupported` if the host lends no place.
    pub fn create(limits: &Limits, facts: &HostFacts) -> io::Result<Self> {
        let own = &*super::place::own();
        let kind = match facts.cgroup {
            CgroupFacts::V1 { .. } => Kind::V1(v1::Group::create(limits, own)?),
            CgroupFacts::V2 { .. } => Kind::V2(v2::Group::create(limits, own)?),
            CgroupFacts::None => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Self { kind })
    }

    /// The way in for init.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn entry(&self) -> io::Result<Entry> {
        match &self.kind {
            Kind::V1(group) => group.entry_files().map(Entry::Written),
            Kind::V2(group) => {
                group.folder().map(|folder| folder.map_or(Entry::Written(Vec::new()), Entry::Born))
            }
        }
    }

    /// What the group used until now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let (cpu_us, memory, processes) = match &self.kind {
            Kind::V1(group) => (group.cpu_us(), group.memory_peak(), group.processes_peak()),
            Kind::V2(group) => (group.cpu_us(), group.memory_peak(), group.processes_peak()),
        };
        Usage {
            cpu: cpu_us.map(|us| Millis(us / 1000)),
            memory_peak: memory.map(Bytes),
            // init is one of them.
            processes_peak: processes.map(|count| count.saturating_sub(1)),
            ..Usage::default()
        }
    }

    /// Memory in use now, in bytes; `None` if this group doesn't account for it.
    #[must_use]
    pub fn memory_now(&self) -> Option<u64> {
        match &self.kind {
            Kind::V1(group) => group.memory_now(),
            Kind::V2(group) => group.memory_now(),
        }
    }

    /// Processes and threads now, init among them; `None` if this group doesn't count them.
    #[must_use]
    pub fn processes_now(&self) -> Option<u64> {
        match &self.kind {
            Kind::V1(group) => group.processes_now(),
            Kind::V2(group) => group.processes_now(),
        }
    }

    /// Files through which the supervisor of a nested jail enters, so that its own group is made below this one. None on
    /// version 2, where a group with processes can have no group below it with controllers.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn nesting(&self) -> io::Result<Vec<OwnedFd>> {
        match &self.kind {
            Kind::V1(group) => group.entry_files(),
            Kind::V2(_) => Ok(Vec::new()),
        }
    }

    /// CPU time used until now, in microseconds; `None` if this group doesn't account for it.
    #[must_use]
    pub fn cpu_us(&self) -> Option<u64> {
        match &self.kind {
            Kind::V1(group) => group.cpu_us(),
            Kind::V2(group) => group.cpu_us(),
        }
    }

    /// What the kernel counted until now.
    #[must_use]
    pub fn events(&self) -> Events {
        Events { memory_kills: self.memory_kills(), processes_refused: self.processes_refused() }
    }

    /// The memory half of [`Self::events`].
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        match &self.kind {
            Kind::V1(group) => group.memory_kills(),
            Kind::V2(group) => group.memory_kills(),
        }
    }

    /// The processes half of [`Self::events`].
    #[must_use]
    pub fn processes_refused(&self) -> u64 {
        match &self.kind {
            Kind::V1(group) => group.processes_refused(),
            Kind::V2(group) => group.processes_refused(),
        }
    }

    /// A descriptor that rings when the memory limit is met; `None` if this group holds none.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn memory_alarm(&self) -> io::Result<Option<MemoryAlarm>> {
        match &self.kind {
            Kind::V1(group) => group.memory_alarm(),
            Kind::V2(group) => group.memory_alarm(),
        }
    }

    /// Removes the group. Dropping does the same.
    pub fn remove(self) {}
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
