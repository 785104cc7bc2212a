//! Native code in the runtime's place, with exactly the runtime's plan: the narrower filter, and no memory becomes code.

use crate::{
    ended::Ended,
    given::{on_host, outside},
    host::{self, Who},
};
use policies::{layer::Layer, report::Report};
use std::process::Command;

fn in_the_runtimes_place(who: Who) -> (Ended, Report) {
    let mut command = Command::new(&host::programs().hostile);
    command.arg("as-runtime").current_dir("/");
    let ended = on_host(who, command);
    let report = serde_json::from_str(ended.answer("report")).unwrap();
    (ended, report)
}

const DENIED: [(&str, &str); 16] = [
    ("map-write-exec", "mmap"),
    ("map-exec", "mmap"),
    ("protect-exec", "mprotect"),
    ("protect-write-exec", "mprotect"),
    ("protect-high-bits", "mprotect"),
    ("open-write", "openat"),
    ("open-path", "openat"),
    ("fork", "clone"),
    ("thread", "clone"),
    ("socket", "socket"),
    ("socketpair", "socketpair"),
    ("memfd-sealed", "memfd_create"),
    ("kill", "kill"),
    ("mkdir", "mkdirat"),
    ("rename", "renameat2"),
    ("execve", "execve"),
];
const UNKNOWN: [&str; 5] = ["pkey-protect", "read-implies-exec", "open-plain", "ioctl", "prctl"];

#[test]
fn the_runtimes_filter_refuses_code_files_processes_and_sockets() {
    for who in Who::all() {
        let (ended, report) = in_the_runtimes_place(*who);
        // It speaks no frames, so the verdict is about them; it ran to its end all the same.
        assert_eq!(report.exit, Some(0), "{who:?}: {ended:?}");
        for (act, _) in DENIED {
            ended.says(act, "EPERM");
        }
        for act in UNKNOWN {
            ended.says(act, "ENOSYS");
        }
        let of_filter = report.audit.iter().filter(|entry| entry.layer == Layer::Filter);
        let entries: Vec<&str> = of_filter.map(|entry| entry.target.as_str()).collect();
        assert_eq!(entries, DENIED.map(|(_, call)| call), "{who:?}");
    }
}

#[test]
fn memory_becomes_code_outside() {
    let twin = outside(Who::ordinary(), &["memory", "code"]);
    for act in [
        "map-write-exec",
        "map-exec",
        "protect-exec",
        "protect-write-exec",
        "pkey-protect",
        "read-implies-exec",
    ] {
        twin.says(act, "ok");
    }
}
