//! Where the audit goes.

use crate::program::{denials, program};
use serde_json::Value;
use std::{fs, io::Read, os::unix::net::UnixListener};

const TEXT: &str = "require sandbox_run\nlet r be run_program(\"print(1)\", {\"ceiling\": \"stdout,net=x\"})\nprint(\"out\")\n";

/// The fields of an entry's line in their order, and the summary.
fn check(lines: &str) {
    let lines: Vec<&str> = lines.lines().collect();
    let (last, entries) = lines.split_last().unwrap();
    assert!(entries.len() >= 2, "{lines:?}");
    for line in entries {
        assert!(line.starts_with("{\"ts\":"), "{line}");
        let places: Vec<usize> = [
            "\"ts\":",
            "\"context\":",
            "\"capability\":",
            "\"granted\":",
            "\"source\":",
            "\"reason\":",
            "\"origin\":",
            "\"file\":",
            "\"line\":",
        ]
        .iter()
        .map(|field| line.find(field).unwrap())
        .collect();
        assert!(places.is_sorted(), "{line}");
    }
    let granted = entries.iter().filter(|line| line.contains("\"granted\":true")).count();
    let denied = entries.len() - granted;
    assert_eq!(*last, format!("{{\"summary\":{{\"granted\":{granted},\"denied\":{denied},\"exit\":0}}}}"));
    assert!(entries.iter().any(|line| line.contains("above parent ceiling")));
}

#[test]
fn it_goes_to_standard_error_a_file_a_descriptor_or_a_socket() {
    let output = program(TEXT).with("--audit", "json").command().output().unwrap();
    assert_eq!(output.stdout, b"out\n");
    check(std::str::from_utf8(&output.stderr).unwrap());

    let given = program(TEXT).with("--audit", "audit.jsonl").file("audit.jsonl", "old");
    assert!(given.command().status().unwrap().success());
    check(&fs::read_to_string(given.at("audit.jsonl")).unwrap());

    let given = program(TEXT).with("--audit", "fd:2");
    check(std::str::from_utf8(&given.command().output().unwrap().stderr).unwrap());

    let given = program(TEXT).with("--audit", "unix:audit.sock");
    let listener = UnixListener::bind(given.at("audit.sock")).unwrap();
    assert!(given.command().status().unwrap().success());
    let mut lines = String::new();
    listener.accept().unwrap().0.read_to_string(&mut lines).unwrap();
    check(&lines);

    let given = program(TEXT).env("SYNSEMA_AUDIT", "audit.jsonl");
    assert!(given.command().status().unwrap().success());
    check(&fs::read_to_string(given.at("audit.jsonl")).unwrap());
}

#[test]
fn a_place_that_can_t_be_opened_is_a_refusal_and_nothing_runs() {
    for place in ["/no/such/folder/x", "unix:/no/such/socket", "fd:x", "fd:77"] {
        let output = program(TEXT).with("--audit", place).command().output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]), "{place}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(place), "{place}");
    }
}

#[test]
fn sealed_values_stand_nowhere_in_it() {
    let given = program(
        "require secret(\"KEY\")\nrequire reveal(\"KEY\")\nlet k be secret(\"KEY\")\nprint(k)\nprint(length(reveal(k)))\n",
    )
    .env("KEY", "hush-hush")
    .with("--audit", "json");
    let output = given.command().output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "secret(KEY)\n9\n");
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(lines.contains("reveal(\\\"KEY\\\")") && !lines.contains("hush"), "{lines}");
    assert!(!fs::read_to_string(given.at("report.json")).unwrap().contains("hush"));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.last().unwrap()["summary"]["denied"], 0);
}

#[test]
fn its_reason_is_that_of_the_error() {
    let missing = "No matching grant found";
    let above = "above host ceiling (--sandbox/--cap-set)";
    for (ceiling, text, capability, reason) in [
        ("stdout", "print(now())\n", "time", missing),
        ("stdout", "require time\nprint(now())\n", "time", above),
        ("time", "print(1)\n", "stdout", missing),
        ("time", "require stdout\nprint(1)\n", "stdout", above),
        ("stdout", "print(reason(\"x\"))\n", "llm", missing),
        ("stdout", "require llm\nprint(reason(\"x\"))\n", "llm", above),
    ] {
        let report = program(text).with("--cap-set", ceiling).go();
        let entry = denials(&report, capability)
            .into_iter()
            .find(|entry| entry.line.is_some() && entry.source != "ceiling");
        assert_eq!(entry.unwrap().reason, reason, "{ceiling} {text}: {:?}", report.audit);
        let error = if reason == missing { "missing capability" } else { "above the host ceiling" };
        assert!(report.errors[0].contains(error), "{ceiling} {text}: {:?}", report.errors);
    }
}

#[test]
fn what_everybody_gets_is_refused_once_however_many_agents_there_are() {
    let text = "agent Other\n    share text(k) as \"k\"\neach n in range(5)\n    spawn Other with k = n\n";
    let ambient = |ceiling: &str| {
        let report = program(text).with("--cap-set", ceiling).go();
        assert_eq!(report.errors, [""; 0]);
        report.audit.iter().filter(|entry| entry.source == "ambient").count()
    };
    assert_eq!(ambient("stdout"), 2);
    assert_eq!(ambient("stdout,time,llm"), 0);
}
