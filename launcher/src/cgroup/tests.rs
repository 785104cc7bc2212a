//! Real groups of this host, each limit met by a shell, and one of version 2 that a process is born in.

use super::*;
use policies::{
    facts::Caller,
    plan::{Limit, Means},
};
use std::{
    path::Path,
    process::{Command, Stdio},
};

fn limits(memory: Option<u64>, pids: Option<u64>, cpu: Option<u64>, means: Means) -> Limits {
    Limits {
        wall: Limit { value: None, means: Means::Supervisor },
        cpu: Limit { value: cpu.map(Millis), means },
        memory: Limit { value: memory.map(Bytes), means },
        pids: Limit { value: pids, means },
        nofile: 64,
        output: Limit { value: None, means: Means::Supervisor },
        disk: Bytes(0),
        grace: Millis(0),
    }
}

fn facts(cgroup: CgroupFacts) -> HostFacts {
    HostFacts {
        arch: "x86_64".into(),
        kernel: "6.1.0".into(),
        landlock_abi: 0,
        seccomp: false,
        user_namespaces: Ok(()),
        shared_network_namespace: false,
        caller: Caller::Root,
        cgroup,
        nofile_hard: 1024,
        idmapped_mounts: false,
    }
}

/// What this host lends; a test that can't run says so.
fn lent() -> Option<(HostFacts, Means)> {
    let found = super::super::look();
    match found {
        CgroupFacts::V1 { memory: true, pids: true, cpu: true } => Some((facts(found), Means::CgroupV1)),
        CgroupFacts::V2 { memory: true, pids: true, cpu: true } => Some((facts(found), Means::CgroupV2)),
        other => {
            eprintln!("not run: needs groups for memory, processes and processor time, has {other:?}");
            None
        }
    }
}

/// Runs `script` in the group: each entry file is one of its standard streams.
fn run_in(group: &Cgroup, script: &str) -> std::process::ExitStatus {
    let files = match group.entry().unwrap() {
        Entry::Written(files) => files,
        // Tests can't be born there, but may write as well.
        Entry::Born(folder) => {
            let path = format!("/proc/self/fd/{}/cgroup.procs", std::os::fd::AsRawFd::as_raw_fd(&folder));
            vec![std::fs::OpenOptions::new().write(true).open(path).unwrap().into()]
        }
    };
    let mut files = files.into_iter().map(Stdio::from);
    let mut next = || files.next().unwrap_or_else(Stdio::null);
    Command::new("sh")
        .args(["-c", &format!("for f in 0 1 2; do echo 0 >&$f; done; {script}")])
        .stdin(next())
        .stdout(next())
        .stderr(next())
        .status()
        .unwrap()
}

#[test]
fn without_limits_of_its_own_no_folder_is_made() {
    let Some((facts, _)) = lent() else { return };
    let group = Cgroup::create(&limits(Some(1 << 20), Some(3), Some(5), Means::Polling), &facts).unwrap();
    assert!(matches!(group.entry().unwrap(), Entry::Written(files) if files.is_empty()));
    assert_eq!(group.usage(), Usage::default());
}

#[test]
fn a_host_without_groups_is_refused() {
    let none = facts(CgroupFacts::None);
    let error = Cgroup::create(&limits(Some(1), None, None, Means::CgroupV1), &none).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
}

#[test]
fn memory_beyond_the_limit_rings_and_is_counted() {
    let Some((facts, means)) = lent() else { return };
    let group = Cgroup::create(&limits(Some(16 << 20), None, None, means), &facts).unwrap();
    let alarm = group.memory_alarm().unwrap().unwrap();
    assert!(run_in(&group, "head -c 2m /dev/zero | tail -c 2m >/dev/null").success());
    assert_eq!(group.memory_kills(), 0);
    assert!(!alarm.take());
    // The kernel kills tail, which keeps 64 MiB.
    run_in(&group, "head -c 64m /dev/zero | tail -c 64m >/dev/null");
    assert!(group.memory_kills() > 0);
    assert!(alarm.take() || alarm.meaning == Meaning::Changed);
    assert!(group.usage().memory_peak.unwrap().0 > 8 << 20);
}

#[test]
fn one_process_more_than_the_limit_is_refused_and_counted() {
    let Some((facts, means)) = lent() else { return };
    // The limit is 2, and the jail's init is one more.
    let group = Cgroup::create(&limits(None, Some(2), None, means), &facts).unwrap();
    assert!(run_in(&group, "sleep 0 & sleep 0 & wait").success());
    assert_eq!(group.events(), Events::default());
    // The shell gives up at the third; its children still have to end, or the group couldn't be removed.
    run_in(&group, "(sleep 0.1 & sleep 0.1 & sleep 0.1 & wait); sleep 0.2");
    assert!(group.processes_refused() > 0);
    assert_eq!(group.usage().processes_peak, Some(2));
}

#[test]
fn processor_time_of_all_processes_is_counted() {
    let Some((facts, means)) = lent() else { return };
    let group = Cgroup::create(&limits(None, None, Some(1000), means), &facts).unwrap();
    run_in(&group, "head -c 100m /dev/zero | cksum >/dev/null");
    assert!(group.cpu_us().unwrap() > 10_000);
}

#[test]
fn the_group_is_gone_after_remove() {
    let Some((facts, means)) = lent() else { return };
    let group = Cgroup::create(&limits(Some(16 << 20), Some(9), Some(9), means), &facts).unwrap();
    let paths: Vec<_> = match &group.kind {
        Kind::V1(group) => group.paths(),
        Kind::V2(group) => group.paths(),
    }
    .into_iter()
    .map(Path::to_owned)
    .collect();
    assert!(!paths.is_empty());
    assert!(paths.iter().all(|path| path.is_dir()));
    group.remove();
    assert!(!paths.iter().any(|path| path.exists()));
}

#[test]
fn a_process_is_born_in_a_group_of_version_2() {
    // Where the controllers are version 1's, the unified hierarchy still counts processor time.
    let place = Path::new("/sys/fs/cgroup/unified");
    if !place.join("cgroup.procs").exists() {
        eprintln!("not run: needs a unified hierarchy beside version 1's");
        return;
    }
    let place = super::super::place::Unified {
        path: place.to_owned(),
        controllers: Vec::new(),
        enable: None,
        step: super::super::place::Step::None,
    };
    let group = v2::Group::create_in(&place, None, None).unwrap();
    let path = group.paths()[0].to_owned();
    let group = Cgroup { kind: Kind::V2(group) };
    run_in(&group, "head -c 100m /dev/zero | cksum >/dev/null");
    assert!(group.cpu_us().unwrap() > 10_000);
    assert!(group.memory_alarm().unwrap().is_none());
    let Entry::Born(folder) = group.entry().unwrap() else { unreachable!() };
    assert_eq!(born_in(&folder), format!("0::/{}\n", path.file_name().unwrap().to_str().unwrap()));
}

/// Which unified group a process that is made in `folder` says it is in.
fn born_in(folder: &OwnedFd) -> String {
    use crate::sys::{clone, process, wait};
    let (read, write) = std::io::pipe().unwrap();
    match clone::fork_into(0, Some(folder.as_fd())).unwrap() {
        clone::Side::Child => {
            // Other threads are not there: no allocation until the end.
            let mut bytes = [0; 1024];
            let file = nix::fcntl::open(
                "/proc/self/cgroup",
                nix::fcntl::OFlag::O_RDONLY,
                nix::sys::stat::Mode::empty(),
            );
            let length = file.ok().and_then(|file| nix::unistd::read(&file, &mut bytes).ok()).unwrap_or(0);
            let _told = nix::unistd::write(&write, &bytes[..length]);
            process::exit_now(0)
        }
        clone::Side::Parent { pidfd: child, .. } => {
            drop(write);
            let told = std::io::read_to_string(read).unwrap();
            wait::collect(child.as_fd()).unwrap();
            told.lines().filter(|line| line.starts_with("0::")).map(|line| format!("{line}\n")).collect()
        }
    }
}
