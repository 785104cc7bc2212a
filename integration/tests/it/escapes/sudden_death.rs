//! The launcher is killed at any moment: nothing of the jail survives it.

use crate::{
    given::{Given, on_host},
    host::{self, Who, is_root},
};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Longest time that the kernel gets to tear a jail down on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Processes whose arguments hold the text. Init and the steps before the exec still have the launcher's.
pub(super) fn processes_with(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if pid != std::process::id() && String::from_utf8_lossy(&arguments).contains(text) {
            found.push(pid);
        }
    }
    found
}

#[track_caller]
pub(super) fn all_gone(text: &str) {
    let start = Instant::now();
    loop {
        let left = processes_with(text);
        if left.is_empty() {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{text} is still alive: {left:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The first process of the program in a launcher's jail, as the host counts.
pub(super) fn payload_of(launcher: u32) -> u32 {
    let start = Instant::now();
    let child = |pid: u32| -> Option<u32> {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    };
    loop {
        if let Some(payload) = child(launcher).and_then(child) {
            return payload;
        }
        assert!(start.elapsed() < PATIENCE, "{launcher} has no jail");
        thread::sleep(Duration::from_millis(1));
    }
}

fn nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| u64::from(now.subsec_nanos()))
}

/// 200 moments, from before the clone to well after the exec.
#[test]
fn nothing_survives_a_killed_launcher() {
    let (seed, everybody) = (nanos(), Who::all());
    let before = super::leftovers::traces();
    let rounds = 200 / everybody.len() as u64;
    for who in everybody {
        for round in 0..rounds {
            let mark = format!("sudden-death-{}-{who:?}-{round}", std::process::id());
            // Every fourth has a network, and with it one helper more.
            let given = match round % 4 {
                0 => Given::bare(*who).flag("--cap-set", "stdout,net=example.com:443"),
                _ => Given::bare(*who),
            };
            let mut launcher = given.start(&["processes", "outlive", "3", &mark]);
            // Evenly over 0 to 15 ms, in an order that differs from run to run.
            let moment = (round * 7_919 + seed) % 15_000;
            thread::sleep(Duration::from_micros(moment));
            launcher.kill().unwrap();
            launcher.wait().unwrap();
            all_gone(&mark);
        }
        sweep(*who, &before);
    }
}

/// Groups of jails in jails stand in one another.
#[test]
fn groups_of_processes_of_a_killed_launcher_are_found() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.syn");
    let text = "require exec(\"sleep\")\nlet a be proc_spawn(\"sleep\", [\"3602\"])\nprint(\"there\")\nproc_wait(a)\n";
    fs::write(&file, text).unwrap();
    let before = super::leftovers::traces();
    let mut launcher = Command::new(&host::programs().thirdwall)
        .arg("run")
        .arg(&file)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(launcher.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "there\n");
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    all_gone("3602");
    sweep(Who::Root, &before);
}

/// A killed launcher leaves its empty groups; `doctor` removes them. Other tests kill launchers meanwhile: where they do it as
/// root, only root's `doctor` can remove what those leave.
fn sweep(who: Who, before: &BTreeSet<String>) {
    let who = if is_root() { Who::Root } else { who };
    let start = Instant::now();
    loop {
        let mut doctor = Command::new(&host::programs().thirdwall);
        doctor.arg("doctor").current_dir("/");
        let ended = on_host(who, doctor);
        assert_eq!(ended.code, 0, "{ended:?}");
        let left = super::leftovers::traces();
        let groups: Vec<_> = left
            .difference(before)
            .filter(|trace| trace.starts_with("/sys/fs/cgroup") && is_abandoned(trace))
            .collect();
        if groups.is_empty() {
            return;
        }
        // A process leaves its group at the end of its own: its namespaces are taken down before.
        assert!(start.elapsed() < PATIENCE, "{groups:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the launcher that a group is named after is gone.
fn is_abandoned(group: &str) -> bool {
    let launcher = group.rsplit('/').next().and_then(|name| name.split('-').nth(1));
    launcher.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

#[test]
fn nothing_survives_a_launcher_killed_long_after_the_start() {
    for who in Who::all() {
        let mark = format!("late-death-{}-{who:?}", std::process::id());
        let given = Given::bare(*who).plainly();
        let mut launcher = given.start(&["processes", "outlive", "5", &mark]);
        let mut line = String::new();
        BufReader::new(launcher.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready yes\n");
        // Launcher, init, the program and its five children, which left their session and forgot their parent.
        assert_eq!(processes_with(&mark).len(), 8);
        launcher.kill().unwrap();
        launcher.wait().unwrap();
        all_gone(&mark);
    }
}

/// The kernel lets a stopped parent's children run on; init and the lifeline don't depend on it.
#[test]
fn a_killed_init_ends_the_run() {
    if !is_root() {
        return;
    }
    let mark = format!("killed-init-{}", std::process::id());
    let launcher = Given::bare(Who::Root).start(&["processes", "outlive", "3", &mark]);
    let payload = payload_of(launcher.id());
    let stat = fs::read_to_string(format!("/proc/{payload}/stat")).unwrap();
    let init: i32 = stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(init), nix::sys::signal::Signal::SIGKILL).unwrap();
    let ended = crate::given::end(launcher);
    assert_ne!(ended.code, 0, "{ended:?}");
    all_gone(&mark);
}
