//! `run_program` with what it can't work with, and children that exhaust what they have: the parent can always tell.

use crate::program::{Program, program};
use policies::report::{Report, Verdict};

/// Nests `code` so that it runs at `depth`; each level tells what its child's result was, the innermost first.
fn at_depth(depth: usize, code: &str, options: &str) -> String {
    let mut text = code.to_owned();
    for _ in 0..depth {
        let quoted = serde_json::to_string(&text).unwrap();
        text = format!(
            "require sandbox_run\nlet r be run_program({quoted}, {{\"ceiling\": \"stdout,time,sandbox_run\"{options}}})\n\
             each line in r[\"output\"]\n    when starts_with(line, \"level\")\n        print(line)\n\
             print(\"level ok=\" + text(r[\"ok\"]) + \" \" + text(r[\"errors\"]))\n"
        );
    }
    text
}

fn exhausted(what: &str, depth: usize, given: &Program, tells: &[&str]) -> Report {
    let report = given.go();
    assert_eq!(report.status, Verdict::Ok, "{what} at {depth}: {:?} {:?}", report.output, report.errors);
    assert_eq!(report.output.len(), depth, "{what} at {depth}: {:?} {:?}", report.output, report.errors);
    let innermost = &report.output[0];
    assert!(innermost.starts_with("level ok=false"), "{what} at {depth}: {:?}", report.output);
    assert!(tells.iter().any(|tell| innermost.contains(tell)), "{what} at {depth}: {innermost}");
    // Whoever has a child that could tell is well itself.
    assert!(
        report.output[1..].iter().all(|line| line.starts_with("level ok=true")),
        "{what}: {:?}",
        report.output
    );
    report
}

#[test]
fn time_processor_time_and_fuel_of_a_child_are_told_at_every_depth() {
    let endless = "let n be 0\nwhile true\n    set n to n + 1\n";
    for depth in 1..=4 {
        // Each level gives a second less, so that it is still there when its child's time is over.
        let mut text = "while true\n    sleep(0.02)\n".to_owned();
        for level in 0..depth {
            text = at_depth(1, &text, &format!(", \"timeout\": {}", 1 + 2 * level));
        }
        exhausted("wall", depth, &program(&text).with("--wall", "60s"), &["timed out after 1 s"]);
        let text = at_depth(depth, endless, ", \"timeout\": 50");
        let given = program(&text).with("--wall", "100s").with("--cpu", "3s");
        exhausted("processor time", depth, &given, &["processor time"]);
        let given = program(&text).with("--wall", "100s").with("--cpu", "100s").with("--fuel", "3000000");
        let report = exhausted("fuel", depth, &given, &["out of fuel"]);
        // What the children used is the parent's.
        assert!(
            report.usage.fuel.is_some_and(|fuel| fuel > 1_000_000 && fuel <= 3_000_000),
            "{:?}",
            report.usage
        );
    }
}

#[test]
fn processes_and_depth_run_out_and_are_told() {
    for depth in 1..=3 {
        // Room for so many jails, and not for one more.
        let pids = (3 + 4 * depth).to_string();
        let deeper = at_depth(4, "print(1)\n", "");
        let report = program(&deeper).with("--pids", &pids).go();
        assert_eq!(report.status, Verdict::Ok, "{pids}: {:?} {:?}", report.output, report.errors);
        let told = |line: &String| {
            line.starts_with("level ok=false") && line.contains("too little room for processes")
        };
        assert!(report.output.iter().any(told), "{pids}: {:?}", report.output);
    }
    let report = program(&at_depth(5, "print(1)\n", "")).go();
    assert!(report.output[0].contains("max depth 4 exceeded"), "{:?}", report.output);
}

#[test]
fn heap_and_fuel_of_the_host_bind_children_too() {
    let big =
        "let x be \"0123456789abcdef\"\nwhile length(x) < 8000000\n    set x to x + x\nprint(length(x))\n";
    let text = at_depth(1, big, "");
    let free = program(&text).go();
    assert!(free.output[0].starts_with("level ok=true"), "{:?}", free.output);
    let bound = program(&text).with("--memory-heap", "2M").go();
    assert!(bound.output[0].starts_with("level ok=false"), "{:?}", bound.output);
    // Many children use as much together as one would.
    let many = "require sandbox_run\nlet n be 0\nwhile n < 100\n    set n to n + 1\n    \
                run_program(\"let n be 0\\nwhile n < 10000\\n    set n to n + 1\\n\", {\"ceiling\": \"stdout\"})\nprint(\"end\")\n";
    let report = program(many).with("--fuel", "200000").with("--wall", "60s").go();
    assert_eq!((report.status, report.output.len()), (Verdict::Fuel, 0), "{:?}", report.errors);
    let enough = program(many).with("--fuel", "20000000").with("--wall", "60s").go();
    assert_eq!((enough.status, enough.output.len()), (Verdict::Ok, 1), "{:?}", enough.errors);
}

#[test]
fn a_source_that_is_none_is_named_and_nothing_is_lost() {
    for (source, named) in [
        ("encode_bytes", "source"),
        ("3", "source"),
        ("nothing", "source"),
        ("as_secret(\"print(1)\")", "source"),
    ] {
        let source = if source == "encode_bytes" { "bytes([255, 254, 112])" } else { source };
        let report =
            program(&format!("require sandbox_run\nprint(\"before\")\nrun_program({source})\n")).go();
        assert_eq!((report.exit, report.output.as_slice()), (Some(1), &["before".to_owned()][..]));
        assert!(
            report.errors[0].contains("run_program") && report.errors[0].contains(named),
            "{:?}",
            report.errors
        );
    }
    // Twin.
    let report = program("require sandbox_run\nprint(run_program(\"print(1)\")[\"output\"])\n").go();
    assert_eq!(report.output, ["[\"1\"]"]);
}

#[test]
fn a_source_of_fifty_million_bytes_is_refused_before_anything_starts() {
    let report = program(
        "require sandbox_run\nprint(\"before\")\nlet big be \"print(1)\\n\"\nwhile length(big) < 50000000\n    set big to big + big\nprint(length(big) > 50000000)\n\
         try\n    run_program(big)\nrecover e\n    print(e)\nprint(run_program(\"print(2)\")[\"output\"])\n",
    )
    .with("--memory", "512M")
    .go();
    assert_eq!(report.output.len(), 4, "{:?} {:?}", report.output, report.errors);
    assert!(report.output[2].contains("run_program: source: more than 4194304 bytes"), "{:?}", report.output);
    assert_eq!((report.output[0].as_str(), report.output[3].as_str()), ("before", "[\"2\"]"));
}

#[test]
fn a_file_that_is_not_utf_8_is_named() {
    let given = program("");
    std::fs::write(given.at("p.syn"), b"print(\"\xff\")\n").unwrap();
    let report = given.go();
    assert_eq!(report.exit, Some(1));
    assert!(report.errors[0].contains("p.syn:1:1: the file is not UTF-8"), "{:?}", report.errors);
}

#[test]
fn options_of_the_wrong_kind_name_their_key() {
    for (options, named) in [
        ("{\"timeout\": -1}", "timeout"),
        ("{\"timeout\": true}", "timeout"),
        ("{\"timeout\": [1]}", "timeout"),
        ("{\"timeout\": 0.0}", "timeout"),
        ("{\"timeout\": inf}", "timeout"),
        ("{\"timeout\": nan}", "timeout"),
        ("{\"cwd\": 3}", "cwd"),
        ("{\"cwd\": \"p.syn\"}", "cwd"),
        ("{\"cwd\": \"\"}", "cwd"),
        ("{\"filename\": 3}", "filename"),
        ("{\"profile\": 3}", "profile"),
        ("{\"ceiling\": \"stdout,none\"}", "ceiling"),
        ("{\"ceiling\": \"\"}", "ceiling"),
        ("{\"ceiling\": [\"stdout\"]}", "ceiling"),
        ("{\"ceiling\": as_secret(\"stdout\")}", "ceiling"),
        ("{\"env\": \"A=1\"}", "env"),
        ("{\"env\": {\"\": \"x\"}}", "env"),
        ("{\"env\": {\"A=B\": \"x\"}}", "env"),
        ("{\"env\": {\"SYNSEMA_AUDIT\": \"x\"}}", "SYNSEMA_AUDIT"),
        ("{\"env\": {\"KEY\": bearer(as_secret(\"hush\"))}}", "KEY"),
        ("3", "options"),
    ] {
        let text = format!("require sandbox_run\nprint(\"before\")\nrun_program(\"print(1)\", {options})\n");
        let report = program(&text).go();
        assert_eq!(
            (report.exit, report.output.as_slice()),
            (Some(1), &["before".to_owned()][..]),
            "{options}: {:?}",
            report.errors
        );
        let error = &report.errors[0];
        assert!(error.contains("run_program") && error.contains(named), "{options}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn what_is_too_long_to_be_asked_is_named_and_the_next_request_works() {
    let cases = [
        (r#"run("true", many)"#, "run: args has 160001 bytes"),
        (r#"run("true", range(5000))"#, "run: args has 5000 arguments, of 4095 at most"),
        (r#"run("true", [], 5, {"env": variables})"#, "run: env has 5000 variables, of 256 at most"),
        (r#"run("true", [], 5, {"cwd": long})"#, "run: cwd has 102400 bytes, of 4096 at most"),
        (r#"run("true", [], 5, {"stdin": "left over", "cwd": long})"#, "run: cwd has 102400 bytes"),
        (r#"proc_spawn("true", many)"#, "proc_spawn: args has "),
        (r#"proc_spawn("true", [], {"cwd": long})"#, "proc_spawn: cwd has 102400 bytes"),
        (r#"run_program("print(1)", {"env": variables})"#, "run_program: env has 5000 variables"),
        (r#"run_program("print(1)", {"env": {"A": long}})"#, "run_program: env has 102408 bytes, and all"),
        (r#"run_program("print(1)", {"filename": long})"#, "run_program: filename has 102400 bytes"),
        (r#"run_program("print(1)", {"cwd": long})"#, "run_program: cwd has 102400 bytes"),
    ];
    for (call, tells) in cases {
        let text = format!(
            "require exec(\"true\")\nrequire exec(\"cat\")\nrequire sandbox_run\n\
             let long be \"x\"\nwhile length(long) < 102400\n    set long to long + long\nset long to slice(long, 0, 102400)\n\
             let many be apply(range(4000), (i) => \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\")\n\
             let variables be {{}}\neach i in range(5000)\n    set variables[\"V\" + text(i)] to i\n\
             try\n    {call}\nrecover e\n    print(e)\n\
             print(run(\"cat\", [], 5, {{\"stdin\": \"in\"}}).stdout)\n\
             print(run_program(\"print(2)\", {{\"ceiling\": \"stdout\"}}).output)\n"
        );
        let report = program(&text).go();
        assert_eq!(report.status, Verdict::Ok, "{call}: {:?} {:?}", report.output, report.errors);
        assert!(report.output[0].contains(tells), "{call}: {:?}", report.output);
        assert_eq!(report.output[1..], ["in", "[\"2\"]"], "{call}");
    }
}
