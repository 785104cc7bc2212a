//! `run`: foreign commands of a program, each in a jail of its own within the program's.

use crate::program::{denials, program};
use policies::report::Verdict;
use std::fs;

#[test]
fn a_granted_command_gives_its_output_and_code_as_data() {
    let text = "require exec(\"sh\")\nrequire exec(\"cat\")\nlet r be run(\"sh\", [\"-c\", \"cat; echo err >&2; exit 3\"], 20, {\"stdin\": \"in\"})\nprint(r)\n";
    let report = program(text).go();
    assert_eq!(
        report.output,
        [
            "{exit_code: 3, stdout: \"in\", stderr: \"err\\n\", stdout_truncated: false, stderr_truncated: false}"
        ],
        "{:?}",
        report.errors
    );
    assert!(report.audit.iter().any(|entry| entry.granted && entry.capability == "exec(\"sh\")"));
}

#[test]
fn a_command_that_is_not_granted_is_denied_wherever_it_is_not() {
    let text = "require exec(\"sh\")\nprint(run(\"sh\", [\"-c\", \"echo ran\"]).stdout)\n";
    let report = program(text).with("--cap-set", "stdout,exec=true").go();
    assert_eq!((report.status, report.output.len()), (Verdict::Nonzero, 0));
    assert_eq!(denials(&report, "exec(\"sh\")").len(), 2, "{:?}", report.audit);
    assert_eq!(program(text).with("--cap-set", "stdout,exec=sh").go().output, ["ran\n"]);
}

#[test]
fn a_command_reaches_no_more_than_its_program() {
    let text = "require exec(\"cat\")\nrequire file.read(\"data/*\")\nlet at be args()[0]\n\
                print(run(\"cat\", [at + \"/data/a\"]).stdout)\nprint(run(\"cat\", [at + \"/secret\"]).exit_code)\n\
                print(run(\"cat\", [\"a\"], 20, {\"cwd\": \"data\"}).stdout)\n\
                try\n    run(\"cat\", [\"a\"], 20, {\"cwd\": \"/etc\"})\nrecover err\n    print(err)\n\
                print(sandbox run(\"cat\", []))\n";
    let given = program(text).file("data/a", "granted").file("secret", "s");
    let mut command = given.command();
    let at = given.at("").trim_end_matches('/').to_owned();
    let output = command.args(["--", &at]).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        out, "granted\n1\ngranted\nCapability not granted: file_read(\"/etc/*\") is above the host ceiling\n",
        "{err}"
    );
    assert!(err.contains("Capability not granted: exec(\"cat\")"), "{err}");
}

#[test]
fn a_command_writes_where_its_program_may_and_nowhere_else() {
    let text = "require exec(\"sh\")\nrequire file(\"out/*\")\nlet r be run(\"sh\", [\"-c\", \"echo x > made; echo y > ../p.syn\"], 20, {\"cwd\": \"out\"})\n\
                print(r.exit_code)\n";
    let given = program(text);
    fs::create_dir(given.at("out")).unwrap();
    let report = given.go();
    assert_ne!(report.output, ["0"], "{:?}", report.errors);
    assert_eq!(fs::read_to_string(given.at("out/made")).unwrap(), "x\n");
    assert!(fs::read_to_string(given.at("p.syn")).unwrap().starts_with("require"));
}

#[test]
fn time_and_output_of_a_command_are_bounded() {
    let text = "require exec(\"*\")\ntry\n    run(\"sleep\", [60], 0.5)\nrecover err\n    print(err)\n\
                let r be run(\"sh\", [\"-c\", \"echo 123456789\"], 20, {\"max_output\": 4})\nprint(r.stdout, r.stdout_truncated)\n\
                let s be run(\"yes\", [], 20)\nprint(length(s.stdout), s.stdout_truncated)\n\
                print(run(\"sh\", [\"-c\", \"kill -9 $$\"]).exit_code)\n";
    let report = program(text).go();
    assert_eq!(
        report.output,
        ["run: \"sleep\" timed out after 0.5s", "1234 true", "1048576 true", "137"],
        "{:?}",
        report.errors
    );
}

#[test]
fn the_environment_of_a_command_is_what_the_call_says() {
    let text = "require exec(\"*\")\nrequire secret(\"KEY\")\nrequire env(\"SEEN\")\n\
                print(run(\"sh\", [\"-c\", \"echo $KEY-$SEEN-$MINE\"], 20, {\"env\": {\"MINE\": 1}}).stdout)\n\
                each bad in [{\"PATH\": \"/tmp\"}, {\"LD_PRELOAD\": \"x\"}]\n    try\n        run(\"sh\", [], 20, {\"env\": bad})\n        print(\"ran\")\n    recover err\n        print(\"refused\")\n\
                try\n    run(\"no-such-program\")\nrecover err\n    print(\"missing\")\n";
    let report = program(text).env("KEY", "k").env("SEEN", "s").go();
    assert_eq!(report.output, ["--1\n", "refused", "refused", "missing"], "{:?}", report.errors);
}
