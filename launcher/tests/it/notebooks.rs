//! The notebook: kept beside the program, from run to run.

use crate::program::{denials, program};
use policies::report::Verdict;
use std::{fs, os::unix::fs::symlink, path::Path, process::Stdio};

const NOTE: &str = "require memory(\"notes\")\nremember(\"context\", {\"n\": length(recall())}, [\"a\"])\nadd_rule(\"r\", \"must\", \"be kind\")\n\
    create_progress(\"w\", [\"one\", \"two\"])\nprint(resume_point(\"w\"))\ncomplete_step(\"w\", \"one\")\n\
    print(recall(limit = 2))\nprint(length(get_rules()))\n";

#[test]
fn a_notebook_lasts_from_run_to_run() {
    let given = program(NOTE);
    let report = given.go();
    assert_eq!(
        report.output,
        ["one", "[{id: 1, category: \"context\", content: {n: 0}, tags: [\"a\"]}]", "1"],
        "{:?}",
        report.errors
    );
    assert!(Path::new(&given.at(".synsema/state/notes.db")).is_file());
    let report = given.go();
    assert_eq!(
        report.output,
        [
            "two",
            "[{id: 2, category: \"context\", content: {n: 1}, tags: [\"a\"]}, {id: 1, category: \"context\", content: {n: 0}, tags: [\"a\"]}]",
            "1"
        ],
        "{:?}",
        report.errors
    );
}

#[test]
fn without_memory_nothing_is_kept_and_under_the_pure_profile_it_is_in_memory() {
    let given = program(NOTE).with("--cap-set", "stdout,time");
    let report = given.go();
    assert_eq!(report.status, Verdict::Nonzero);
    assert!(!denials(&report, "memory(\"notes\")").is_empty());
    assert!(!Path::new(&given.at(".synsema")).exists());
    let given = program(NOTE).with("--profile", "pure");
    assert_eq!(given.go().output[0], "one");
    assert!(!Path::new(&given.at(".synsema")).exists());
}

#[test]
fn a_link_in_the_programs_folder_leads_no_notebook_out_of_it() {
    let given = program(NOTE);
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), given.at(".synsema")).unwrap();
    let report = given.go();
    assert_eq!((report.status, report.output.len()), (Verdict::Nonzero, 0), "{:?}", report.output);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn two_runs_with_one_notebook_lose_nothing() {
    let given = program(
        "require memory(\"notes\")\neach i in range(10)\n    remember(\"context\", i)\nprint(length(recall()))\n",
    );
    let runs: Vec<_> = (0..3)
        .map(|_| given.command().stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(given.go().output, ["40"]);
}

#[test]
fn a_file_that_is_no_notebook_is_an_error() {
    let given = program(NOTE).file(".synsema/state/notes.db", &"no database at all\n".repeat(100));
    let report = given.go();
    assert!(report.errors[0].contains("is not a database"), "{:?}", report.errors);
}
