//! Version 1: one folder for each controller that holds a limit.
//!
//! Source: kernel documents `cgroup-v1/memory.rst`, `pids.rst`, `cpuacct.rst`.

use super::{
    folder::{Folder, fresh_name},
    group::{Meaning, MemoryAlarm},
    place::controller_places,
};
use nix::{
    poll::PollFlags,
    sys::eventfd::{EfdFlags, EventFd},
};
use policies::plan::{Limits, Means};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
};

/// Folders of one jail.
#[derive(Debug)]
pub(super) struct Group {
    memory: Option<Folder>,
    pids: Option<Folder>,
    cpu: Option<Folder>,
}

impl Group {
    pub(super) fn create(limits: &Limits, own: &str) -> io::Result<Self> {
        let name = fresh_name();
        let places = controller_places(own);
        let [memory, pids, cpu] = places.each_ref();
        let make = |place: &Option<PathBuf>| -> io::Result<Folder> {
            Folder::create(place.as_ref().ok_or(io::ErrorKind::Unsupported)?, &name)
        };
        let mut group = Self { memory: None, pids: None, cpu: None };
        if let (Some(limit), Means::CgroupV1) = (limits.memory.value, limits.memory.means) {
            let folder = make(memory)?;
            let bytes = limit.0.to_string();
            folder.set("memory.limit_in_bytes", &bytes)?;
            // With swap, memory beyond the limit would only move there. The file is absent where swap isn't accounted.
            match folder.set("memory.memsw.limit_in_bytes", &bytes) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    folder.set("memory.swappiness", "0")?
                }
                other => other?,
            }
            group.memory = Some(folder);
        }
        if let (Some(limit), Means::CgroupV1) = (limits.pids.value, limits.pids.means) {
            let folder = make(pids)?;
            // The jail's init is one more.
            folder.set("pids.max", &limit.saturating_add(1).to_string())?;
            group.pids = Some(folder);
        }
        if let (Some(_), Means::CgroupV1) = (limits.cpu.value, limits.cpu.means) {
            group.cpu = Some(make(cpu)?);
        }
        Ok(group)
    }

    pub(super) fn entry_files(&self) -> io::Result<Vec<OwnedFd>> {
        [&self.memory, &self.pids, &self.cpu]
            .into_iter()
            .flatten()
            .map(|folder| folder.open_to_write("tasks"))
            .collect()
    }

    #[cfg(test)]
    pub(super) fn paths(&self) -> Vec<&std::path::Path> {
        [&self.memory, &self.pids, &self.cpu].into_iter().flatten().map(Folder::path).collect()
    }

    pub(super) fn cpu_us(&self) -> Option<u64> {
        self.cpu.as_ref()?.number("cpuacct.usage").map(|ns| ns / 1000)
    }

    pub(super) fn memory_now(&self) -> Option<u64> {
        self.memory.as_ref()?.number("memory.usage_in_bytes")
    }

    pub(super) fn processes_now(&self) -> Option<u64> {
        self.pids.as_ref()?.number("pids.current")
    }

    pub(super) fn memory_peak(&self) -> Option<u64> {
        self.memory.as_ref()?.number("memory.max_usage_in_bytes")
    }

    pub(super) fn processes_peak(&self) -> Option<u64> {
        self.pids.as_ref()?.number("pids.peak")
    }

    pub(super) fn memory_kills(&self) -> u64 {
        let count = |folder: &Folder| folder.field("memory.oom_control", "oom_kill");
        self.memory.as_ref().and_then(count).unwrap_or(0)
    }

    pub(super) fn processes_refused(&self) -> u64 {
        self.pids.as_ref().and_then(|folder| folder.field("pids.events", "max")).unwrap_or(0)
    }

    pub(super) fn memory_alarm(&self) -> io::Result<Option<MemoryAlarm>> {
        let Some(folder) = &self.memory else { return Ok(None) };
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let control = folder.open_to_read("memory.oom_control")?;
        folder.set("cgroup.event_control", &format!("{} {}", event_number(&event), control.as_raw_fd()))?;
        Ok(Some(MemoryAlarm { file: OwnedFd::from(event), flags: PollFlags::POLLIN, meaning: Meaning::Kill }))
    }
}

fn event_number(event: &EventFd) -> i32 {
    use std::os::fd::AsFd;
    event.as_fd().as_raw_fd()
}
