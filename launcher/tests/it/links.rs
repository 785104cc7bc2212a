//! Links in a granted folder lead no program below to where the program above may not go.

use crate::program::{Program, program};
use std::{fs, os::unix::fs::symlink};

/// `data` is granted; `data/out` leads out of it, `data/in` to another folder of it.
fn with_links(text: &str) -> Program {
    let given = program(text).file("data/real/a", "inside").file("elsewhere/a", "outside");
    symlink(given.at("elsewhere"), given.at("data/out")).unwrap();
    symlink(given.at("data/real"), given.at("data/in")).unwrap();
    given
}

/// A program below that reads and writes through `data/<folder>`, and tells what came of it.
fn below(folder: &str) -> String {
    let inner = format!(
        "require file(\\\"data/{folder}/*\\\")\\ntry\\n    print(read_file(\\\"data/{folder}/a\\\"))\\nrecover err\\n    print(\\\"no\\\")\\n\
         try\\n    write_file(\\\"data/{folder}/b\\\", \\\"x\\\")\\n    print(\\\"written\\\")\\nrecover err\\n    print(\\\"no\\\")"
    );
    format!(
        "print(run_program(\"{inner}\", {{\"ceiling\": \"stdout,file=data/{folder}/*\", \"profile\": \"native\"}}).output)\n"
    )
}

#[test]
fn a_program_below_reaches_nothing_through_a_link_that_leads_out() {
    let text = format!("require sandbox_run\nrequire file(\"data/*\")\n{}{}", below("out"), below("in"));
    let given = with_links(&text);
    let report = given.go();
    assert_eq!(
        report.output,
        ["[\"no\", \"no\"]", "[\"inside\", \"written\"]"],
        "{:?} {:?}",
        report.errors,
        report.audit
    );
    assert!(!fs::exists(given.at("elsewhere/b")).unwrap());
    assert_eq!(fs::read_to_string(given.at("data/real/b")).unwrap(), "x");
}

#[test]
fn nor_does_one_below_that_one() {
    let inner = below("out").replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let text = format!(
        "require sandbox_run\nrequire file(\"data/*\")\nlet r be run_program(\"require sandbox_run\\nrequire file(\\\"data/*\\\")\\n{inner}\", \
         {{\"ceiling\": \"stdout,sandbox_run,file=data/*\", \"profile\": \"native\"}})\nprint(r.output)\n"
    );
    let report = with_links(&text).go();
    assert_eq!(report.output, ["[\"[\\\"no\\\", \\\"no\\\"]\"]"], "{:?} {:?}", report.errors, report.audit);
}

#[test]
fn a_database_below_is_not_reached_through_a_link_that_leads_out() {
    let text = |folder: &str| {
        format!(
            "require sandbox_run\nrequire db(\"data/*\")\nlet r be run_program(\"require db(\\\"data/{folder}/x.db\\\")\\ndb_open(\\\"data/{folder}/x.db\\\")\\nsql_exec(\\\"create table t (a)\\\")\\nprint(1)\", \
             {{\"ceiling\": \"stdout,db=data/{folder}/x.db\", \"profile\": \"native\"}})\nprint(r.output)\n"
        )
    };
    let given = with_links(&text("out"));
    assert_eq!(given.go().output, ["[]"]);
    assert!(!fs::exists(given.at("elsewhere/x.db")).unwrap());
    let given = with_links(&text("in"));
    let report = given.go();
    assert_eq!(report.output, ["[\"1\"]"], "{:?} {:?}", report.errors, report.audit);
}

#[test]
fn a_command_works_in_no_folder_that_a_link_leads_out_to() {
    let text = "require exec(\"sh\")\nrequire file(\"data/*\")\n\
                each folder in [\"out\", \"real\", \"in\"]\n    try\n        let r be run(\"sh\", [\"-c\", \"read x < a; echo $x; echo x > made\"], 20, {\"cwd\": \"data/\" + folder})\n        print(r.stdout)\n    recover err\n        print(\"no\")\n";
    let given = with_links(text);
    let report = given.go();
    assert_eq!(report.output, ["no", "inside\n", "inside\n"], "{:?}", report.errors);
    assert!(!fs::exists(given.at("elsewhere/made")).unwrap());
}

#[test]
fn a_command_s_word_leads_nowhere_else_than_its_letters_say() {
    let text = "require exec(\"/usr/bin/*\")\nrequire exec(\"ech*\")\n\
                each word in [\"/usr/bin/id\", \"echo\", \"/usr/bin/../bin/id\", \"/usr/bin/../../bin/sh\", \"ech/../../usr/bin/id\", \"echo/x\"]\n    try\n        print(run(word, [\"-u\"]).exit_code)\n    recover err\n        print(\"no\")\n";
    let report = program(text).go();
    assert_eq!(report.output, ["0", "0", "no", "no", "no", "no"], "{:?}", report.errors);
}

#[test]
fn a_link_that_leads_out_is_told_to_whoever_can_change_it() {
    let acts = [
        ("read_file(\"data/out/a\")", "file_read(\"data/out/a\")"),
        ("write_file(\"data/out/b\", \"x\")", "file_write(\"data/out/b\")"),
        ("db_open(\"data/out/x.db\")", "db(\"data/out/x.db\")"),
    ];
    for (act, check) in acts {
        let text = format!("require file(\"data/*\")\nrequire db(\"data/*\")\n{act}\n");
        let told = |given: Program| given.go().errors.remove(0);
        let missing = told(with_links(&text));
        let line = format!(
            "Capability not granted: {check} — missing capability — it leads out through a link: add `require"
        );
        assert!(missing.contains(&line), "{missing}");
        let above = told(with_links(&text).with("--cap-set", "stdout,file=data/*,db=data/*"));
        let line = format!(
            "Capability not granted: {check} — declared but above the host ceiling — it leads out through a link: the program"
        );
        assert!(above.contains(&line), "{above}");
        let granted = act.replace("out", "in");
        let report = with_links(&text.replace(act, &granted)).go();
        assert_eq!(report.errors, [""; 0], "{granted}");
    }
}
