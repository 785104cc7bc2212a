//! What the program learns of its surroundings from /proc, /sys, /etc and /dev.

use super::sudden_death::all_gone;
use crate::{
    given::{Given, outside},
    host::{self, Who},
};
use policies::report::Verdict;
use std::{
    fs,
    io::{BufRead, BufReader},
};

#[test]
fn the_narrowest_policy_has_no_proc_no_sys_and_no_etc() {
    for who in Who::all() {
        let ended = Given::bare(*who).run(&["files", "list", "/"]);
        // Landlock grants no listing of the root itself.
        ended.says("/", "EACCES");
        let paths = ["/proc", "/sys", "/etc", "/usr", "/lib", "/run", "/home", "/root"];
        let mut acts = vec!["files", "list"];
        acts.extend(paths);
        let ended = Given::bare(*who).run(&acts).expect(Verdict::Ok);
        ended.each_says(&paths, "ENOENT");
    }
}

#[test]
fn dev_holds_five_devices_shm_and_links() {
    for who in Who::all() {
        let ended = Given::usual(*who).run(&["files", "list", "/dev"]).expect(Verdict::Ok);
        let mut names = ended.all("/dev");
        names.sort_unstable();
        assert_eq!(
            names,
            ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
        );
        let others =
            ["/dev/kmsg", "/dev/mem", "/dev/tty", "/dev/ptmx", "/dev/fuse", "/dev/kvm", "/dev/net/tun"];
        let mut acts = vec!["files", "read"];
        acts.extend(others);
        let ended = Given::usual(*who).run(&acts).expect(Verdict::Ok);
        ended.each_says(&others, "ENOENT");
        let ended = Given::usual(*who).run(&["files", "read", "/dev/null", "/dev/zero", "/dev/urandom"]);
        ended.says("/dev/zero", "ok");
    }
}

#[test]
fn proc_shows_only_the_jails_own_processes() {
    for who in Who::all() {
        let ended = Given::usual(*who).run(&["files", "list", "/proc"]).expect(Verdict::Ok);
        let mut names = ended.all("/proc");
        names.sort_unstable();
        // pid 1 is not even listed: it can't be traced.
        assert_eq!(names, ["2", "self", "thread-self"], "{who:?}");
        let gone = [
            "/proc/1/environ",
            "/proc/1/cmdline",
            "/proc/1/maps",
            "/proc/1/cwd",
            "/proc/1/root",
            "/proc/kmsg",
            "/proc/kallsyms",
            "/proc/kcore",
            "/proc/sys/kernel/hostname",
            "/proc/sysrq-trigger",
            "/proc/cmdline",
            "/proc/keys",
            "/proc/mounts/../cpuinfo",
            "/proc/net/tcp",
            "/proc/modules",
            "/proc/sys/kernel/core_pattern",
        ];
        let mut acts = vec!["files", "read"];
        acts.extend(gone);
        let ended = Given::usual(*who).run(&acts).expect(Verdict::Ok);
        for path in gone {
            assert!(["ENOENT", "ENOTDIR"].contains(&ended.answer(path)), "{path}: {ended:?}");
        }
    }
    outside(Who::ordinary(), &["files", "read", "/proc/1/cmdline"]).says("/proc/1/cmdline", "ok");
    outside(Who::ordinary(), &["files", "read", "/proc/cmdline"]).says("/proc/cmdline", "ok");
}

#[test]
fn proc_cant_be_written() {
    for who in Who::all() {
        let paths = ["/proc/self/oom_score_adj", "/proc/self/mem", "/proc/self/uid_map", "/proc/self/comm"];
        let mut acts = vec!["files", "write"];
        acts.extend(paths);
        let ended = Given::usual(*who).run(&acts).expect(Verdict::Ok);
        for path in paths {
            assert!(["EROFS", "EACCES"].contains(&ended.answer(path)), "{path}: {ended:?}");
        }
        outside(*who, &["files", "write", "/proc/self/comm"]).says("/proc/self/comm", "ok");
    }
}

#[test]
fn host_name_machine_id_and_user_names_are_the_jails_own() {
    let host_name = nix::unistd::gethostname().unwrap();
    for who in Who::all() {
        let ended = Given::usual(*who).run(&["probe", "host-name"]).expect(Verdict::Ok);
        ended.says("host-name", "jail");
        let ended = Given::usual(*who).run(&["files", "print", "/etc/passwd", "/etc/group", "/etc/hosts"]);
        assert!(!ended.expect(Verdict::Ok).stdout.contains(&*host_name.to_string_lossy()));
        let absent = [
            "/etc/machine-id",
            "/etc/hostname",
            "/etc/shadow",
            "/etc/resolv.conf",
            "/etc/fstab",
            "/etc/mtab",
            "/var/lib/dbus/machine-id",
        ];
        let mut acts = vec!["files", "read"];
        acts.extend(absent);
        let ended = Given::usual(*who).run(&acts).expect(Verdict::Ok);
        ended.each_says(&absent, "ENOENT");
    }
    outside(Who::ordinary(), &["probe", "host-name"]).says("host-name", &host_name.to_string_lossy());
}

#[test]
fn user_names_of_the_host_are_not_in_etc() {
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let ended = Given::usual(Who::ordinary()).run(&["files", "print", "/etc/passwd"]).expect(Verdict::Ok);
    let names: Vec<&str> =
        ended.all("/etc/passwd").iter().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["root", "user", "nobody"]);
    assert!(accounts.lines().count() > names.len());
}

/// What mountinfo does tell, since no rule can name it for every process: where on its disk each granted path lies, and
/// what disk that is. `explain` says so, and `proc = "none"` hides it.
#[test]
fn mountinfo_tells_of_granted_paths_and_nothing_else() {
    for who in Who::all() {
        let folder = who.folder();
        let scope = format!("stdout,file.read={}/*", folder.path().display());
        let ended =
            Given::usual(*who).flag("--cap-set", scope).run(&["files", "print", "/proc/self/mountinfo"]);
        let ended = ended.expect(Verdict::Ok);
        for line in ended.all("/proc/self/mountinfo") {
            let fields: Vec<&str> = line.split(' ').collect();
            let (root, at) = (fields[3], fields[4]);
            let own = ["/", "/proc", "/dev", "/tmp", "/work"]
                .iter()
                .any(|own| at == *own || at.starts_with("/dev/"));
            let granted = [folder.path(), host::programs().hostile.as_path()]
                .iter()
                .any(|granted| at == granted.to_str().unwrap());
            assert!(own || granted, "{line}");
            assert!(own || at.ends_with(root) || root.ends_with(at), "{line}");
        }
    }
}

/// Jails may share an empty network namespace; none may see from its /proc what the others have in it.
#[test]
fn socket_pairs_of_another_jail_are_not_listed() {
    for who in Who::all() {
        let mark = format!("neighbour-{}-{who:?}", std::process::id());
        let mut neighbours = Vec::new();
        for given in [Given::bare(*who), Given::usual(*who)] {
            let mut neighbour = given.plainly().start(&["memory", "sockets", "1", "5000", &mark]);
            let mut line = String::new();
            BufReader::new(neighbour.stdout.take().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "held 1\n");
            neighbours.push(neighbour);
        }
        let ended = Given::usual(*who).run(&["files", "print", "/proc/self/net/unix"]).expect(Verdict::Ok);
        for mut neighbour in neighbours {
            neighbour.kill().unwrap();
            neighbour.wait().unwrap();
        }
        let lines = ended.all("/proc/self/net/unix");
        assert!(lines.len() == 1 && lines[0].starts_with("Num"), "{who:?}: {lines:?}");
        all_gone(&mark);
    }
}
