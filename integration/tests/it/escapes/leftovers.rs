//! A thousand jails in a row leave nothing but the one documented pin.

use super::sudden_death::processes_with;
use crate::{
    given::{Given, on_host},
    host::{self, Who, is_root},
};
use std::{collections::BTreeSet, fs, path::Path, process::Command, time::Instant};

/// What a jail could leave on this host under a name of thirdwall's.
pub(super) fn traces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains("thirdwall")).map(str::to_owned));
    for folder in ["/tmp", "/var/tmp", "/run", "/run/thirdwall", "/dev/shm"] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let named = entries.filter(|entry| {
            folder.ends_with("thirdwall") || entry.file_name().to_string_lossy().contains("thirdwall")
        });
        found.extend(
            named
                .map(|entry| entry.path().display().to_string())
                .filter(|path| !path.contains("thirdwall-test-")),
        );
    }
    cgroups(Path::new("/sys/fs/cgroup"), &mut found, 4);
    found
}

fn cgroups(folder: &Path, found: &mut BTreeSet<String>, depth: u32) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name().to_string_lossy().contains("thirdwall") {
                found.insert(entry.path().display().to_string());
            }
            cgroups(&entry.path(), found, depth - 1);
        }
    }
}

#[test]
fn a_thousand_jails_leave_nothing() {
    // The first one makes the pin.
    let mark = format!("thousand-{}", std::process::id());
    for who in Who::all() {
        Given::bare(*who).run(&["executed", &mark]);
    }
    let before = traces();
    let start = Instant::now();
    let everybody = Who::all();
    let script = format!(
        "i=0; while [ $i -lt {} ]; do {} exec --policy static -- {} executed {mark} || exit 1; i=$((i+1)); done",
        1000 / everybody.len(),
        host::programs().thirdwall.display(),
        host::programs().hostile.display()
    );
    for who in everybody {
        let mut command = Command::new("sh");
        command.args(["-c", &script]).current_dir("/");
        let ended = on_host(*who, command);
        assert_eq!((ended.code, ended.all("executed").len()), (0, 1000 / everybody.len()), "{ended:?}");
    }
    println!("1000 jails in {:?}", start.elapsed());
    assert_eq!(processes_with(&mark), [0; 0]);
    // Other tests' jails come and go meanwhile; theirs are gone when they are.
    let own: Vec<String> = traces().difference(&before).cloned().collect();
    settled(own);
    if is_root() && Path::new("/run/thirdwall").exists() {
        let pins: Vec<_> =
            fs::read_dir("/run/thirdwall").unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(pins, ["empty-network"]);
    }
}

/// Their supervisors are asked to end, each takes its groups with it, and so it is whatever ends the program.
#[test]
fn processes_that_live_longer_than_their_program_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let start = "require exec(\"sleep\")\nlet a be proc_spawn(\"sleep\", [\"3601\"])\nlet b be proc_spawn(\"sleep\", [\"3601\"])\n";
    let before = traces();
    for (name, end) in
        [("ends", "print(1)\n"), ("fails", "raise \"no\"\n"), ("waits", "print(proc_wait(a))\n")]
    {
        let file = folder.path().join(format!("{name}.syn"));
        fs::write(&file, format!("{start}{end}")).unwrap();
        for _ in 0..5 {
            let ended = Command::new(&host::programs().thirdwall)
                .args(["run", "--wall", "400ms"])
                .arg(&file)
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(matches!(ended.status.code(), Some(0 | 1 | 124)), "{ended:?}");
        }
    }
    assert_eq!(processes_with("3601"), [0; 0]);
    settled(traces().difference(&before).cloned().collect());
}

/// Each trace has gone, or goes soon: jails of tests that run beside this one are short.
fn settled(mut left: Vec<String>) {
    let start = Instant::now();
    while !left.is_empty() {
        assert!(start.elapsed().as_secs() < 60, "left behind: {left:#?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = traces();
        left.retain(|trace| now.contains(trace));
    }
}

/// In one process, as the service will: descriptors, children, mounts.
#[test]
fn jails_started_by_one_process_leave_no_descriptor() {
    for who in Who::all() {
        let mut command = Command::new(&host::programs().hostile);
        command.args(["as-runtime-again", "50"]).current_dir("/");
        let ended = on_host(*who, command);
        let (before, after) = (ended.answer("descriptors-before"), ended.answer("descriptors-after"));
        assert_eq!(before, after, "{ended:?}");
        ended.says("children", "0");
    }
}
