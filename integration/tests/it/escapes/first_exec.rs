//! One exec is let through: the launcher's own. None of these is.

use crate::{
    given::{Given, outside},
    host::{self, Who},
};
use policies::report::Verdict;

/// The number on which the launcher has the program's file: the limit on descriptors.
const NUMBER: &str = "64";

fn own_file() -> &'static str {
    host::programs().hostile.to_str().unwrap()
}

fn inside(who: Who, way: &str) -> crate::ended::Ended {
    Given::usual(who).flag("--nofile", NUMBER).run(&["exec", way, NUMBER, own_file()]).expect(Verdict::Ok)
}

#[test]
fn a_program_by_its_path_is_refused() {
    for who in Who::all() {
        let ended = inside(*who, "path");
        ended.says("execve", "EPERM");
        assert_eq!(ended.refused_calls(), ["execve"]);
    }
    let twin = outside(Who::ordinary(), &["exec", "path", NUMBER, own_file()]);
    twin.says("executed", "yes");
}

#[test]
fn with_exec_granted_the_same_path_runs() {
    for who in Who::all() {
        let given = Given::usual(*who).flag("--cap-set", format!("stdout,exec={}", own_file()));
        let ended = given.run(&["exec", "path", NUMBER, own_file()]).expect(Verdict::Ok);
        ended.says("executed", "yes");
        assert!(ended.refused_calls().is_empty());
    }
}

#[test]
fn the_launchers_number_is_no_way_in() {
    for who in Who::all() {
        let ended = inside(*who, "number");
        ended.says("number-empty", "EPERM");
        // With an absolute path the kernel looks at no descriptor: only the path's secret address stands in the way.
        ended.says("number-absolute", "EPERM");
        assert_eq!(ended.refused_calls(), ["execveat"; 2]);
    }
    // Outside the absolute path is executed, whatever the number.
    outside(Who::ordinary(), &["exec", "number", NUMBER, own_file()]).says("executed", "yes");
}

#[test]
fn nothing_can_be_put_on_the_launchers_number() {
    for who in Who::all() {
        let ended = inside(*who, "put");
        ended.says("dup2", "EBADF");
        ended.says("dup3", "EBADF");
        ended.says("fcntl", "EINVAL");
        ended.says("below", "ok");
        let ended = inside(*who, "raise");
        ended.says("setrlimit", "EPERM");
        ended.says("prlimit", "EPERM");
    }
    let twin = outside(Who::ordinary(), &["exec", "put", NUMBER, own_file()]);
    for act in ["dup2", "dup3", "fcntl", "below"] {
        twin.says(act, "ok");
    }
}

#[test]
fn other_descriptors_flags_and_spellings_are_refused() {
    for who in Who::all() {
        let ended = inside(*who, "spellings");
        for act in ["other", "high-bits", "cwd", "more-flags", "null-path"] {
            ended.says(act, "EPERM");
        }
        assert_eq!(ended.refused_calls(), ["execveat"; 5]);
    }
    outside(Who::ordinary(), &["exec", "spellings", NUMBER, own_file()]).says("executed", "yes");
}

#[test]
fn guesses_of_the_secret_path_are_slow_and_each_is_told() {
    let ended = inside(Who::ordinary(), "guess");
    ended.says("refused", "300");
    let report = ended.report();
    assert_eq!(report.audit.len() as u64 + report.audit_dropped, 300);
}

#[test]
fn nothing_of_the_exec_tells_the_secret_path() {
    let ended = inside(Who::ordinary(), "traces");
    ended.says("name", &format!("/dev/fd/{NUMBER}"));
}

#[test]
fn code_from_a_file_without_a_name_is_refused() {
    for who in Who::all() {
        // Without a limit of memory nothing has to be counted, and such files may be made.
        let ended = Given::bare(*who).flag("--memory", "none").run(&["files", "memfd"]).expect(Verdict::Ok);
        ended.says("sealed", "ok");
        ended.says("chmod-exec", "EPERM");
    }
}
