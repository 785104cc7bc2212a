//! Version 2: one folder for everything.
//!
//! Source: kernel document `cgroup-v2`.

use super::{
    folder::{Folder, fresh_name},
    group::{Meaning, MemoryAlarm},
    place::{Unified, unified},
};
use nix::poll::PollFlags;
use policies::plan::{Limits, Means};
use std::{io, os::fd::OwnedFd};

/// The folder of one jail.
#[derive(Debug)]
pub(super) struct Group {
    folder: Option<Folder>,
    memory: bool,
}

impl Group {
    pub(super) fn create(limits: &Limits, own: &str) -> io::Result<Self> {
        let held = |means: Means| means == Means::CgroupV2;
        let memory = limits.memory.value.filter(|_| held(limits.memory.means));
        let pids = limits.pids.value.filter(|_| held(limits.pids.means));
        let cpu = limits.cpu.value.filter(|_| held(limits.cpu.means));
        if memory.is_none() && pids.is_none() && cpu.is_none() {
            return Ok(Self { folder: None, memory: false });
        }
        let place = unified(own).ok_or(io::ErrorKind::Unsupported)?;
        Self::create_in(&place, memory.map(|limit| limit.0), pids)
    }

    pub(super) fn create_in(place: &Unified, memory: Option<u64>, pids: Option<u64>) -> io::Result<Self> {
        place.prepare()?;
        let folder = Folder::create(&place.path, &fresh_name())?;
        if let Some(limit) = memory {
            folder.set("memory.max", &limit.to_string())?;
            // With swap, memory beyond the limit would only move there. The file is absent where there is no swap.
            match folder.set("memory.swap.max", "0") {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        if let Some(limit) = pids {
            // The jail's init is one more.
            folder.set("pids.max", &limit.saturating_add(1).to_string())?;
        }
        Ok(Self { folder: Some(folder), memory: memory.is_some() })
    }

    #[cfg(test)]
    pub(super) fn paths(&self) -> Vec<&std::path::Path> {
        self.folder.iter().map(Folder::path).collect()
    }

    /// The folder, if there is one.
    pub(super) fn folder(&self) -> io::Result<Option<OwnedFd>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        folder.open_itself().map(Some)
    }

    pub(super) fn cpu_us(&self) -> Option<u64> {
        self.folder.as_ref()?.field("cpu.stat", "usage_usec")
    }

    pub(super) fn memory_now(&self) -> Option<u64> {
        self.folder.as_ref()?.number("memory.current")
    }

    pub(super) fn processes_now(&self) -> Option<u64> {
        self.folder.as_ref()?.number("pids.current")
    }

    pub(super) fn memory_peak(&self) -> Option<u64> {
        // Linux 5.19.
        self.folder.as_ref()?.number("memory.peak")
    }

    pub(super) fn processes_peak(&self) -> Option<u64> {
        // Linux 6.1.
        self.folder.as_ref()?.number("pids.peak")
    }

    pub(super) fn memory_kills(&self) -> u64 {
        let count = |folder: &Folder| folder.field("memory.events", "oom_kill");
        self.folder.as_ref().and_then(count).unwrap_or(0)
    }

    pub(super) fn processes_refused(&self) -> u64 {
        self.folder.as_ref().and_then(|folder| folder.field("pids.events", "max")).unwrap_or(0)
    }

    pub(super) fn memory_alarm(&self) -> io::Result<Option<MemoryAlarm>> {
        let Some(folder) = self.folder.as_ref().filter(|_| self.memory) else { return Ok(None) };
        let events = folder.open_to_read("memory.events")?;
        let alarm = MemoryAlarm { file: events, flags: PollFlags::POLLPRI, meaning: Meaning::Changed };
        // Only a change after the last read rings.
        alarm.take();
        Ok(Some(alarm))
    }
}
