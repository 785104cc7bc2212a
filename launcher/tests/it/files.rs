//! Files of the languages: through the broker, within the ceiling.

use crate::program::{denials, program};
use policies::report::Verdict;
use std::{fs, os::unix::fs::symlink};

#[test]
fn granted_files_are_read_and_written() {
    let given = program(
        "require file(\"data/*\")\nwrite_file(\"data/new/a.txt\", \"one\")\nappend_file(\"data/new/a.txt\", \" two\")\n\
         print(read_file(\"data/new/a.txt\"))\nprint(file_exists(\"data/none\"))\n",
    );
    fs::create_dir(given.at("data")).unwrap();
    let report = given.go();
    assert_eq!(report.output, ["one two", "false"], "{:?}", report.errors);
    assert_eq!(fs::read_to_string(given.at("data/new/a.txt")).unwrap(), "one two");
}

#[test]
fn a_folder_above_or_a_link_out_is_denied_by_its_layer() {
    let given =
        program("require file.read(\"data/*\")\nprint(read_file(\"data/../secret\"))\n").file("secret", "s");
    fs::create_dir(given.at("data")).unwrap();
    let report = given.go();
    assert_eq!(report.status, Verdict::Nonzero);
    assert!(
        report.errors[0].contains("Capability not granted: file_read(\"secret\")"),
        "{:?}",
        report.errors
    );
    assert_eq!(denials(&report, "file_read(\"secret\")").len(), 1);

    let given =
        program("require file.read(\"data/*\")\nprint(read_file(\"data/link\"))\n").file("secret", "s");
    fs::create_dir(given.at("data")).unwrap();
    symlink("../secret", given.at("data/link")).unwrap();
    let report = given.go();
    assert_eq!((report.status, report.output.len()), (Verdict::Nonzero, 0));
    let denied = report.audit.iter().find(|entry| !entry.granted && entry.source == "broker").unwrap();
    assert_eq!(denied.target, given.at("data/link"));
}

#[test]
fn absolute_and_relative_names_of_a_file_are_the_same_to_the_ceiling() {
    let text = "require file.read(\"data/*\")\nprint(read_file(\"data/a.txt\"))\n";
    let given = program(text).file("data/a.txt", "a");
    let absolute = format!("stdout,file.read={}/*", given.at("data"));
    assert_eq!(given.with("--cap-set", &absolute).go().output, ["a"]);
    let given = program(text).file("data/a.txt", "a");
    let absolute = given.at("data/a.txt");
    fs::write(
        given.at("p.syn"),
        text.replace("read_file(\"data/a.txt\")", &format!("read_file(\"{absolute}\")")),
    )
    .unwrap();
    assert_eq!(given.with("--cap-set", "stdout,file.read=./data/*").go().output, ["a"]);
}

#[test]
fn a_program_learns_its_folder_only_where_it_may_read_it() {
    let given = program("require file.read(\".\")\nprint(cwd())\n");
    assert_eq!(given.go().output, [given.at("").trim_end_matches('/')]);
    assert!(program("print(cwd())\n").go().errors[0].contains("file_read(\".\")"));
}
