//! 'Refused for everyone': each call gets EPERM and an entry, or ENOSYS in silence, and outside it does what it does.

use crate::{
    given::{Given, outside_as_root},
    host::{Who, skip},
};
use policies::report::Verdict;

/// What the same call gets where no jail is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outside {
    /// It works.
    Works,
    /// The kernel reads the arguments and finds this one wrong: it would act on right ones, which would harm the host.
    Reads(&'static str),
}
use Outside::{Reads, Works};

/// Act of `hostile calls`, the call's name in the audit, its twin.
const REFUSED: &[(&str, &str, Outside)] = &[
    ("io_uring_setup", "io_uring_setup", Works),
    ("io_uring_enter", "io_uring_enter", Reads("EBADF")),
    ("io_uring_register", "io_uring_register", Reads("EINVAL")),
    ("ptrace", "ptrace", Works),
    ("process_vm_readv", "process_vm_readv", Works),
    ("process_vm_writev", "process_vm_writev", Works),
    ("kcmp", "kcmp", Works),
    ("pidfd_getfd", "pidfd_getfd", Works),
    ("bpf", "bpf", Works),
    ("perf_event_open", "perf_event_open", Works),
    ("userfaultfd", "userfaultfd", Works),
    ("keyctl", "keyctl", Works),
    ("add_key", "add_key", Works),
    ("request_key", "request_key", Reads("ENOKEY")),
    ("mount", "mount", Works),
    ("umount2", "umount2", Works),
    ("pivot_root", "pivot_root", Reads("ENOENT")),
    ("chroot", "chroot", Works),
    ("move_mount", "move_mount", Reads("EBADF")),
    ("open_tree", "open_tree", Works),
    ("open_tree_attr", "open_tree_attr", Works),
    ("fsopen", "fsopen", Works),
    ("fsconfig", "fsconfig", Reads("EINVAL")),
    ("fsmount", "fsmount", Reads("EBADF")),
    ("fspick", "fspick", Works),
    ("mount_setattr", "mount_setattr", Works),
    ("statmount", "statmount", Reads("EFAULT")),
    ("listmount", "listmount", Works),
    ("setns", "setns", Reads("EBADF")),
    ("unshare-user", "unshare", Works),
    ("unshare-mount", "unshare", Works),
    ("unshare-pid", "unshare", Works),
    ("unshare-network", "unshare", Works),
    ("unshare-ipc", "unshare", Works),
    ("unshare-uts", "unshare", Works),
    ("unshare-cgroup", "unshare", Works),
    ("unshare-time", "unshare", Works),
    ("clone-user", "clone", Works),
    ("clone-mount", "clone", Works),
    ("clone-pid", "clone", Works),
    ("clone-network", "clone", Works),
    ("clone-uts", "clone", Works),
    ("clone-ipc", "clone", Works),
    ("clone-cgroup", "clone", Works),
    ("ioctl-tiocsti", "ioctl", Works),
    ("ioctl-tiocsti-high-bits", "ioctl", Works),
    ("ioctl-tioclinux", "ioctl", Reads("ENOTTY")),
    ("ioctl-tioccons", "ioctl", Reads("EBADF")),
    ("ioctl-tiocsetd", "ioctl", Works),
    ("kexec_load", "kexec_load", Reads("EINVAL")),
    ("kexec_file_load", "kexec_file_load", Reads("EINVAL")),
    ("reboot", "reboot", Reads("EINVAL")),
    ("init_module", "init_module", Reads("ENOEXEC")),
    ("finit_module", "finit_module", Reads("EBADF")),
    ("delete_module", "delete_module", Reads("ENOENT")),
    ("syslog", "syslog", Works),
    ("acct", "acct", Reads("ENOENT")),
    ("swapon", "swapon", Reads("ENOENT")),
    ("swapoff", "swapoff", Reads("ENOENT")),
    ("sethostname", "sethostname", Works),
    ("setdomainname", "setdomainname", Works),
    ("settimeofday", "settimeofday", Works),
    ("clock_settime", "clock_settime", Reads("EFAULT")),
    ("clock_adjtime", "clock_adjtime", Works),
    ("adjtimex", "adjtimex", Works),
    ("name_to_handle_at", "name_to_handle_at", Works),
    ("open_by_handle_at", "open_by_handle_at", Reads("EFAULT")),
    ("fanotify_init", "fanotify_init", Works),
    ("fanotify_mark", "fanotify_mark", Reads("EBADF")),
    ("quotactl", "quotactl", Reads("ENOENT")),
    ("quotactl_fd", "quotactl_fd", Reads("EBADF")),
    ("socket-inet", "socket", Works),
    ("socket-inet6", "socket", Works),
    ("socket-unix", "socket", Works),
    ("socket-netlink", "socket", Works),
    ("socket-vsock", "socket", Works),
    ("socket-alg", "socket", Works),
    ("socket-packet", "socket", Works),
    ("socket-raw", "socket", Works),
    ("socketpair-dgram", "socketpair", Works),
    ("socketpair-dgram-nonblock", "socketpair", Works),
    ("socketpair-high-bits", "socketpair", Works),
    ("connect", "connect", Reads("EBADF")),
    ("bind", "bind", Reads("EBADF")),
    ("listen", "listen", Reads("EBADF")),
    ("accept", "accept", Reads("EBADF")),
    ("accept4", "accept4", Reads("EBADF")),
    ("move_pages", "move_pages", Works),
    ("migrate_pages", "migrate_pages", Reads("EINVAL")),
    ("process_madvise", "process_madvise", Reads("EBADF")),
    ("process_mrelease", "process_mrelease", Reads("EBADF")),
    ("shmget", "shmget", Works),
    ("shmat", "shmat", Reads("EINVAL")),
    ("shmctl", "shmctl", Reads("EINVAL")),
    ("shmdt", "shmdt", Reads("EINVAL")),
    ("msgget", "msgget", Works),
    ("msgsnd", "msgsnd", Reads("EINVAL")),
    ("msgrcv", "msgrcv", Reads("EINVAL")),
    ("msgctl", "msgctl", Reads("EINVAL")),
    ("semget", "semget", Works),
    ("semop", "semop", Reads("EINVAL")),
    ("semtimedop", "semtimedop", Reads("EINVAL")),
    ("semctl", "semctl", Reads("EINVAL")),
    ("memfd-plain", "memfd_create", Works),
    ("memfd-exec", "memfd_create", Works),
    ("memfd-huge", "memfd_create", Works),
    ("mmap-huge", "mmap", Works),
    ("prctl-perf-events", "prctl", Works),
    ("prctl-mce-kill", "prctl", Works),
    ("prctl-set-mm", "prctl", Works),
    ("prctl-io-flusher", "prctl", Works),
    ("prctl-user-dispatch", "prctl", Works),
    ("personality-no-randomize", "personality", Works),
    ("personality-read-implies-exec", "personality", Works),
    ("prlimit-other", "prlimit64", Works),
    ("prlimit-core", "prlimit64", Works),
    ("setrlimit-core", "setrlimit", Works),
    ("fcntl-lease", "fcntl", Works),
    ("fcntl-notify", "fcntl", Reads("EBADF")),
    ("sync", "sync", Works),
    ("mknod-char", "mknodat", Works),
    ("mknod-block", "mknodat", Works),
    ("mknod-setuid", "mknodat", Works),
    ("create-setuid", "openat", Works),
    ("create-setgid", "openat", Works),
    ("tmpfile-setuid", "openat", Works),
    ("chmod-setuid", "fchmodat", Works),
    ("fchmod-setgid", "fchmod", Works),
    ("fchmodat2-setuid", "fchmodat2", Works),
    ("seccomp-listener", "seccomp", Works),
    ("execveat", "execveat", Reads("EBADF")),
    ("execve", "execve", Reads("ENOENT")),
    ("setsockopt-filter", "setsockopt", Works),
    ("setsockopt-bpf", "setsockopt", Reads("EBADF")),
];

/// Calls that only x86-64 has.
const REFUSED_X86: &[(&str, &str, Outside)] = &[
    ("iopl", "iopl", Works),
    ("ioperm", "ioperm", Reads("EINVAL")),
    ("modify_ldt", "modify_ldt", Works),
    ("sysfs", "sysfs", Works),
    ("ustat", "ustat", Reads("EINVAL")),
    ("chmod-old-setuid", "chmod", Works),
    ("creat-setuid", "creat", Works),
    ("open-setuid", "open", Works),
    ("mknod-old-char", "mknod", Works),
];

/// In no list: silence, so that a newer C library falls back.
const UNKNOWN: &[(&str, Outside)] = &[
    ("clone3", Reads("EINVAL")),
    ("openat2", Works),
    ("io_setup", Works),
    ("memfd_secret", Works),
    ("cachestat", Reads("EBADF")),
    ("vmsplice", Works),
    ("tee", Reads("EINVAL")),
    ("splice", Reads("EINVAL")),
    ("prctl-name-mapping", Reads("EINVAL")),
];

fn refused() -> Vec<(&'static str, &'static str, Outside)> {
    let native = if cfg!(target_arch = "x86_64") { REFUSED_X86 } else { &[] };
    REFUSED.iter().chain(native).copied().collect()
}

#[test]
fn a_refused_call_gets_eperm_and_one_entry() {
    for who in Who::all() {
        // As many as the audit keeps of a filter.
        for some in refused().chunks(100) {
            let mut acts = vec!["calls"];
            acts.extend(some.iter().map(|(act, ..)| *act));
            let ended = Given::bare(*who).run(&acts).expect(Verdict::Ok);
            for (act, ..) in some {
                ended.says(act, "EPERM");
            }
            let mut entries = ended.refused_calls();
            let mut expected: Vec<&str> = some.iter().map(|(_, call, _)| *call).collect();
            entries.sort_unstable();
            expected.sort_unstable();
            assert_eq!(entries, expected, "{who:?}");
            assert_eq!(ended.report().audit_dropped, 0);
        }
    }
}

#[test]
fn the_same_call_is_read_by_the_kernel_outside() {
    let ended = outside_as_root(&["calls"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for (act, _, twin) in refused() {
        proven_outside(act, ended.answer(act), twin);
    }
    for (act, twin) in UNKNOWN {
        proven_outside(act, ended.answer(act), *twin);
    }
}

fn proven_outside(act: &str, answer: &str, twin: Outside) {
    match (answer, twin) {
        ("ok", Works) => {}
        (errno, Reads(expected)) if errno == expected => {}
        // A kernel without it, or a host whose root holds less than all Linux capabilities.
        ("ENOSYS" | "EAFNOSUPPORT" | "EPERM" | "EACCES", _) => {
            skip(&format!("twin of {act}: this host answers {answer} without any jail"));
        }
        _ => panic!("{act} gives {answer} outside, not {twin:?}"),
    }
}

#[test]
fn an_unlisted_call_gets_enosys_in_silence() {
    for who in Who::all() {
        let mut acts = vec!["calls", "number-9999"];
        acts.extend(UNKNOWN.iter().map(|(act, _)| *act));
        let ended = Given::bare(*who).run(&acts).expect(Verdict::Ok);
        for act in &acts[1..] {
            ended.says(act, "ENOSYS");
        }
        assert_eq!(ended.report().audit, [], "{who:?}");
    }
}

#[test]
fn exec_granted_lifts_nothing_but_exec() {
    for who in Who::all() {
        for some in refused().chunks(100) {
            let mut acts = vec!["calls"];
            acts.extend(some.iter().map(|(act, ..)| *act).filter(|act| !act.starts_with("execve")));
            let ended = Given::usual(*who).flag("--cap-set", "stdout,exec").run(&acts).expect(Verdict::Ok);
            for act in &acts[1..] {
                ended.says(act, "EPERM");
            }
        }
    }
}

#[test]
fn a_granted_host_opens_no_other_kind_of_socket() {
    let denied = [
        "socket-unix",
        "socket-netlink",
        "socket-vsock",
        "socket-alg",
        "socket-packet",
        "socket-raw",
        "socketpair-dgram",
        "socketpair-dgram-nonblock",
        "socketpair-high-bits",
    ];
    let mut acts = vec!["calls", "socket-inet", "socket-inet6"];
    acts.extend(denied);
    for who in Who::all() {
        let ended =
            Given::bare(*who).flag("--cap-set", "stdout,net=example.com:443").run(&acts).expect(Verdict::Ok);
        ended.each_says(&denied, "EPERM");
        ended.each_says(&["socket-inet", "socket-inet6"], "ok");
        assert_eq!(ended.refused_calls().len(), denied.len());
        let others: Vec<_> = refused().into_iter().filter(|(_, call, _)| !NETWORK.contains(call)).collect();
        for some in others.chunks(100) {
            let mut acts = vec!["calls"];
            acts.extend(some.iter().map(|(act, ..)| *act));
            let given = Given::bare(*who).flag("--cap-set", "stdout,net=example.com:443");
            given.run(&acts).expect(Verdict::Ok).each_says(&acts[1..], "EPERM");
        }
    }
}

/// Calls that a granted host does allow.
const NETWORK: [&str; 7] = ["socket", "socketpair", "connect", "bind", "listen", "accept", "accept4"];

#[test]
fn a_flood_of_refused_calls_is_slowed_and_counted() {
    let ended = Given::bare(Who::ordinary()).run(&["processes", "flood", "1000"]).expect(Verdict::Ok);
    let report = ended.report();
    assert_eq!(report.audit.len() as u64 + report.audit_dropped, 1000, "{report:#?}");
    assert_eq!(ended.refused_calls().len(), 100);
}

#[test]
fn many_callers_of_refused_calls_dont_stop_the_clock() {
    let given = Given::bare(Who::ordinary()).flag("--wall", "1s");
    let ended = given.run(&["processes", "refused-by-many", "30"]).expect(Verdict::WallTime);
    assert!(ended.report().usage.wall.is_some_and(|wall| wall.0 < 4_000), "{ended:?}");
}
