//! Who the program is: an unprivileged user of its own user namespace, with nothing to become another one.

use crate::{
    given::{Given, on_host, outside, outside_as_root},
    host::{self, Who, skip},
};
use policies::report::Verdict;
use std::{fs, os::unix::fs::MetadataExt, process::Command};

#[test]
fn ids_are_unprivileged_and_stay() {
    for who in Who::all() {
        for given in [Given::bare(*who), Given::usual(*who)] {
            let ended = given.run(&["probe", "ids"]).expect(Verdict::Ok);
            ended.says("uid", "1000 1000");
            ended.says("gid", "1000 1000");
            // What isn't mapped doesn't exist.
            assert_eq!(ended.all("setuid-0"), ["EINVAL"]);
            assert_eq!(ended.all("setgid-0"), ["EINVAL"]);
            ended.says("setuid-1", "EINVAL");
            ended.says("setgroups", "EPERM");
        }
    }
    let twin = outside_as_root(&["probe", "ids"]);
    twin.says("uid", "0 0");
    twin.says("setgid-0", "ok");
}

#[test]
fn a_root_callers_jail_has_an_unused_id_outside() {
    if !host::is_root() {
        return skip("an unused host id: only a root caller can give one");
    }
    let mut child = Given::bare(Who::Root).start(&["processes", "sleep", "20"]);
    let payload = super::sudden_death::payload_of(child.id());
    let owner = fs::metadata(format!("/proc/{payload}")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(owner.uid() >= 0x7000_0000 && owner.gid() >= 0x7000_0000, "{} {}", owner.uid(), owner.gid());
}

#[test]
fn all_linux_capabilities_are_gone() {
    for who in Who::all() {
        let ended = Given::bare(*who).run(&["probe", "linux-caps", "no-new-privs"]).expect(Verdict::Ok);
        ended.says("sets", "empty");
        ended.says("bounding", "0");
        ended.says("ambient", "0");
        ended.says("capset", "EPERM");
        ended.says("no-new-privs", "1");
    }
    let twin = outside_as_root(&["probe", "linux-caps", "no-new-privs"]);
    assert_ne!(twin.answer("sets"), "empty");
    assert_ne!(twin.answer("bounding"), "0");
    twin.says("no-new-privs", "0");
}

#[test]
fn the_session_is_new_and_has_no_terminal() {
    for who in Who::all() {
        let ended = Given::bare(*who).run(&["probe", "session"]).expect(Verdict::Ok);
        ended.says("session", "own");
        ended.says("parent", "1");
    }
}

#[test]
fn the_callers_session_keyring_is_out_of_reach() {
    for who in Who::all() {
        let ended = Given::bare(*who).run(&["probe", "key"]).expect(Verdict::Ok);
        for act in ["session-key", "user-session-key", "user-key", "request-key"] {
            ended.says(act, "EPERM");
        }
        assert_eq!(ended.refused_calls(), ["keyctl", "keyctl", "keyctl", "request_key"]);
    }
    let twin = outside(Who::ordinary(), &["probe", "make-key", "key"]);
    twin.each_says(&["join", "add", "session-key", "request-key"], "ok");
}

#[test]
fn the_environment_is_empty_but_for_the_policys() {
    for who in Who::all() {
        let given =
            Given::bare(*who).environment("SECRET_TOKEN", "hunter2").environment("LD_PRELOAD", "/tmp/x.so");
        let ended = given.run(&["probe", "environment"]).expect(Verdict::Ok);
        let mut names: Vec<&str> =
            ended.all("variable").iter().filter_map(|pair| pair.split('=').next()).collect();
        names.sort_unstable();
        assert_eq!(names, ["HOME", "PATH"], "{ended:?}");
    }
    let mut twin = Command::new(&host::programs().hostile);
    twin.args(["probe", "environment"]).env("SECRET_TOKEN", "hunter2");
    assert!(on_host(Who::ordinary(), twin).all("variable").contains(&"SECRET_TOKEN=hunter2"));
}

/// 0 would still let the kernel hand a crash to the host's handler; 1 is its word for not even that.
#[test]
fn core_files_are_off_and_the_limits_hard() {
    for who in Who::all() {
        let ended = Given::bare(*who).flag("--nofile", "77").run(&["probe", "limits"]).expect(Verdict::Ok);
        ended.says("core", "1 1");
        ended.says("nofile", "77 77");
    }
}
