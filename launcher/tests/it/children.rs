//! `run_program`: each child in a jail of its own, never above its parent.

use crate::program::{denials, program};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use policies::report::{Report, Verdict};
use std::time::{Duration, Instant};

#[test]
fn a_child_s_result_comes_back_as_a_value() {
    let report = program(
        "require sandbox_run\n\
         let r be run_program(\"print(2 + 3)\\nprint(\\\"a\\\\nb\\\")\", {\"ceiling\": \"stdout\"})\n\
         print(r[\"ok\"])\nprint(r[\"output\"])\nprint(r[\"exit\"])\nprint(r[\"timed_out\"])\nprint(r[\"errors\"])\n",
    )
    .go();
    assert_eq!(report.output, ["true", "[\"5\", \"a\\nb\"]", "0", "false", "[]"], "{:?}", report.errors);
    let call = report.audit.iter().find(|entry| entry.capability == "sandbox_run").unwrap();
    assert!(call.granted && call.source == "run_program()");
}

#[test]
fn without_the_capability_nothing_is_started() {
    let report = program("run_program(\"print(1)\")\n").go();
    assert_eq!(report.exit, Some(1));
    assert!(report.errors[0].contains("Capability not granted: sandbox_run"), "{:?}", report.errors);
    let inside = program("require sandbox_run\nsandbox\n    run_program(\"print(1)\")\n").go();
    assert!(inside.errors[0].contains("Capability not granted: sandbox_run"), "{:?}", inside.errors);
}

#[test]
fn a_child_that_asks_for_more_is_denied_and_that_is_data() {
    let report = program(
        "require sandbox_run\nrequire exec(\"sh\")\n\
         let r be run_program(\"require exec(\\\"sh\\\")\\nrun(\\\"sh\\\")\", {\"ceiling\": \"sandbox\", \"profile\": \"native\"})\n\
         print(r[\"ok\"])\nprint(r[\"exit\"])\nprint(r[\"errors\"][0])\n\
         each e in r[\"audit\"]\n    when starts_with(e[\"capability\"], \"exec(\")\n        print(e[\"reason\"])\n",
    )
    .go();
    assert!(report.output.len() >= 4, "{:?} {:?}", report.output, report.errors);
    assert_eq!(&report.output[..2], ["false", "1"]);
    assert!(report.output[2].contains("Capability not granted: exec"), "{:?}", report.output);
    assert!(report.output[3].contains("above host ceiling"), "{:?}", report.output);
}

#[test]
fn what_the_parent_has_not_is_cut_off_whole_and_audited() {
    let report = program(
        "require sandbox_run\nrequire net(\"uno\")\n\
         let r be run_program(\"print(1)\", {\"ceiling\": \"stdout,net=uno,net=dos,net=*\"})\nprint(r[\"output\"])\n",
    )
    .with("--cap-set", "stdout,net=uno,sandbox_run")
    .go();
    assert_eq!(report.output, ["[\"1\"]"], "{:?}", report.errors);
    for (check, times) in [("net(\"dos\")", 1), ("net", 1), ("net(\"uno\")", 0)] {
        let cut = denials(&report, check);
        assert_eq!(cut.len(), times, "{check}");
        assert!(cut.iter().all(|entry| entry.reason == "above parent ceiling"), "{cut:?}");
    }
}

#[test]
fn what_isn_t_lent_can_t_be_used() {
    let report = program(
        "require sandbox_run\n\
         let r be run_program(\"fetch(\\\"https://uno/\\\")\", {\"ceiling\": \"stdout,net=uno\"})\nprint(r[\"ok\"])\n\
         let s be run_program(\"print(1)\", {\"ceiling\": \"net=uno\"})\nprint(s[\"ok\"])\nprint(s[\"errors\"][0])\n",
    )
    .go();
    assert_eq!(&report.output[..2], ["false", "false"], "{:?}", report.errors);
    assert!(report.output[2].contains("Capability not granted: stdout"), "{:?}", report.output);
}

#[test]
fn a_child_sees_its_own_variables_only() {
    let report = program(
        "require sandbox_run\nrequire env(\"*\")\n\
         let code be \"require env(\\\"*\\\")\\nprint(env(\\\"TOOL\\\"))\\nprint(env(\\\"MINE\\\", \\\"none\\\"))\\nprint(env(\\\"FROM_FILE\\\", \\\"none\\\"))\"\n\
         let r be run_program(code, {\"ceiling\": \"stdout,env=*\", \"env\": {\"TOOL\": \"package\"}})\n\
         print(r[\"output\"])\nprint(r[\"errors\"])\nprint(env(\"MINE\"))\nprint(env(\"FROM_FILE\"))\n",
    )
    .file(".env", "FROM_FILE=yes\n")
    .env("MINE", "parent")
    .go();
    assert_eq!(
        report.output,
        ["[\"package\", \"none\", \"none\"]", "[]", "parent", "yes"],
        "{:?}",
        report.errors
    );
}

#[test]
fn a_time_out_ends_the_child_and_keeps_what_it_printed() {
    let start = Instant::now();
    let report = program(
        "require sandbox_run\n\
         let r be run_program(\"print(1)\\nwhile true\\n    sleep(0.05)\", {\"ceiling\": \"sandbox\", \"timeout\": 1})\n\
         print(r[\"ok\"])\nprint(r[\"timed_out\"])\nprint(r[\"exit\"])\nprint(r[\"output\"])\nprint(r[\"errors\"][0])\n",
    )
    .go();
    assert!(start.elapsed() < Duration::from_secs(8));
    assert_eq!(
        &report.output[..4],
        ["false", "true", "nothing", "[\"1\"]"],
        "{:?} {:?}",
        report.output,
        report.errors
    );
    assert!(report.output[4].contains("timed out after 1 s"), "{:?}", report.output);
}

#[test]
fn a_pure_parent_has_pure_children() {
    let report = program(
        "require sandbox_run\n\
         let r be run_program(\"read_file(\\\"x\\\")\", {\"ceiling\": \"stdout\", \"profile\": \"native\"})\nprint(r[\"errors\"][0])\n",
    )
    .with("--profile", "pure")
    .go();
    assert!(report.output[0].contains("read_file: not available in the pure profile"), "{:?}", report.output);
    assert!(report.audit.iter().any(|entry| entry.reason == "above parent profile"), "{:?}", report.audit);
}

/// A program that runs itself, one level deeper each time.
const DEEPER: &str = "require sandbox_run\n\
    let code be \"require sandbox_run\\nrequire env(\\\"CODE\\\")\\nlet r be run_program(env(\\\"CODE\\\"), {\\\"ceiling\\\": \\\"stdout,sandbox_run,env=CODE\\\", \\\"env\\\": {\\\"CODE\\\": env(\\\"CODE\\\")}})\\nprint(\\\"in\\\")\\nprint(r)\"\n\
    require env(\"CODE\")\n\
    let r be run_program(code, {\"ceiling\": \"stdout,sandbox_run,env=CODE\", \"env\": {\"CODE\": code}})\nprint(r)\n";

#[test]
fn depth_is_bounded_and_a_child_can_t_change_that() {
    let report = program(DEEPER).env("SYNSEMA_RUN_PROGRAM_MAX_DEPTH", "2").go();
    assert!(report.output[0].contains("max depth 2 exceeded"), "{:?} {:?}", report.output, report.errors);
    let report = program(DEEPER).go();
    assert!(report.output[0].contains("max depth 4 exceeded"), "{:?} {:?}", report.output, report.errors);
    let report = program(
        "require sandbox_run\nrun_program(\"1\", {\"env\": {\"SYNSEMA_RUN_PROGRAM_MAX_DEPTH\": \"99\"}})\n",
    )
    .go();
    assert!(report.errors[0].contains("SYNSEMA_RUN_PROGRAM_MAX_DEPTH"), "{:?}", report.errors);
}

#[test]
fn a_bound_of_the_depth_that_is_no_number_is_a_refusal() {
    let name = "SYNSEMA_RUN_PROGRAM_MAX_DEPTH";
    for bad in ["abc", "-1", "", "O", "4.0", "99999999999999999999"] {
        let output = program("print(1)\n").env(name, bad).command().output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]), "{bad}: {told}");
        assert!(told.contains(&format!("{name}={bad}: no number of levels")), "{told}");
    }
    let report = program(DEEPER).env(name, "0").go();
    assert!(report.errors[0].contains("max depth 0 exceeded"), "{:?} {:?}", report.output, report.errors);
}

#[test]
fn bad_options_name_the_key_and_lose_nothing() {
    for (options, named) in [
        ("{\"ceilin\": \"stdout\"}", "ceilin"),
        ("{\"ceiling\": \"nett=x\"}", "nett"),
        ("{\"ceiling\": 3}", "ceiling"),
        ("{\"timeout\": 0}", "timeout"),
        ("{\"timeout\": \"long\"}", "timeout"),
        ("{\"cwd\": \"/no/such/folder\"}", "cwd"),
        ("{\"profile\": \"wide\"}", "profile"),
        ("{\"env\": {\"LD_PRELOAD\": \"x\"}}", "LD_PRELOAD"),
        ("{\"env\": {\"A\": [1]}}", "'A'"),
        ("{\"env\": {\"KEY\": as_secret(\"hush\")}}", "is a secret"),
    ] {
        let text = format!("require sandbox_run\nprint(\"before\")\nrun_program(\"print(1)\", {options})\n");
        let report = program(&text).go();
        assert_eq!((report.status, report.output.as_slice()), (Verdict::Nonzero, &["before".to_owned()][..]));
        assert!(report.errors[0].contains(named), "{options}: {:?}", report.errors);
        assert!(!report.errors[0].contains("hush"));
    }
}

#[test]
fn a_source_beyond_the_bound_is_refused_and_nothing_is_lost() {
    let report = program(
        "require sandbox_run\nprint(\"before\")\nlet big be \"print(1)\\n\"\nwhile length(big) < 9000000\n    set big to big + big\nrun_program(big)\n",
    )
    .go();
    assert_eq!(report.output, ["before"]);
    assert!(report.errors[0].contains("source"), "{:?}", report.errors);
    let wrong = program("require sandbox_run\nprint(run_program(\"let be\")[\"ok\"])\n").go();
    assert_eq!(wrong.output, ["false"], "{:?}", wrong.errors);
}

/// Nests `code` so that it runs at `depth`; each level prints what its child's result was.
fn at_depth(depth: usize, code: &str) -> String {
    let mut text = code.to_owned();
    for _ in 0..depth {
        let quoted = serde_json::to_string(&text).unwrap();
        text = format!(
            "require sandbox_run\nlet r be run_program({quoted}, {{\"ceiling\": \"stdout,time,sandbox_run\", \"timeout\": 20}})\n\
             print(\"told\")\nprint(r[\"ok\"])\nprint(r[\"errors\"])\nprint(length(r[\"output\"]))\n"
        );
    }
    text
}

#[test]
fn a_child_that_exhausts_a_resource_is_told_of_by_its_parent() {
    for depth in 1..=4 {
        for (what, code) in [
            ("memory", "let x be [\"0123456789abcdef\"]\nwhile true\n    set x to x + x\n"),
            (
                "output",
                "let x be \"0123456789\"\nwhile length(x) < 100000\n    set x to x + x\nwhile true\n    print(x)\n",
            ),
            ("recursion", "task f(n)\n    give f(n + 1) + 1\nprint(f(0))\n"),
        ] {
            let report = program(&at_depth(depth, code))
                .with("--wall", "60s")
                .with("--cpu", "60s")
                .with("--memory", "256M")
                .go();
            assert_eq!(report.status, Verdict::Ok, "{what} at {depth}: {:?}", report.errors);
            assert_eq!(report.output[0], "told", "{what} at {depth}");
            assert!(report.output.len() == 4, "{what} at {depth}");
            if depth == 1 {
                assert_eq!(report.output[1], "false", "{what}: {:?}", report.output[2]);
            }
        }
    }
}

/// By whatever means: a group that counts them too, or what was collected of them.
#[test]
fn processor_time_of_children_is_the_parent_s() {
    let burn = |turns: u32| {
        let code = format!("let n be 0\\nwhile n < {turns}\\n    set n to n + 1\\n");
        let text = format!(
            "require sandbox_run\nlet i be 0\nwhile i < 30\n    set i to i + 1\n    run_program(\"{code}\", {{\"ceiling\": \"stdout\"}})\nprint(\"end\")\n"
        );
        program(&text).with("--wall", "60s").with("--cpu", "2s").go()
    };
    let over = burn(5_000_000);
    // Each child may use a part of what is left, so that the last ones end at once and the sum may stay just below.
    assert!(matches!(over.status, Verdict::CpuTime | Verdict::Ok), "{over:?}");
    assert!(over.usage.cpu.is_some_and(|cpu| (1_000..4_000).contains(&cpu.0)), "{over:?}");
    assert!(over.usage.wall.is_some_and(|wall| wall.0 < 30_000), "{over:?}");
    let within = burn(10);
    assert_eq!(
        (within.status, within.output.as_slice()),
        (Verdict::Ok, &["end".to_owned()][..]),
        "{within:?}"
    );
}

#[test]
fn the_parent_s_end_is_the_child_s() {
    let report = program(
        "require sandbox_run\nprint(\"start\")\n\
         run_program(\"while true\\n    sleep(0.05)\", {\"ceiling\": \"sandbox\", \"timeout\": 60})\n",
    )
    .with("--wall", "3s")
    .go();
    assert_eq!((report.status, report.output.as_slice()), (Verdict::WallTime, &["start".to_owned()][..]));
}

#[test]
fn files_that_are_lent_stay_where_the_parent_had_them() {
    let report = program(
        "require sandbox_run\nrequire file.read(\"data/*\")\n\
         let code be \"require file.read(\\\"data/*\\\")\\nprint(read_file(\\\"data/a.txt\\\"))\"\n\
         let r be run_program(code, {\"ceiling\": \"stdout,file.read=data/*\", \"profile\": \"native\"})\n\
         print(r[\"output\"])\nprint(r[\"errors\"])\n\
         let s be run_program(code, {\"ceiling\": \"stdout,file.read=data/*\", \"profile\": \"native\", \"cwd\": \"other\"})\n\
         print(s[\"ok\"])\n",
    )
    .file("data/a.txt", "lent")
    .file("other/data/a.txt", "not lent")
    .go();
    assert_eq!(report.output, ["[\"lent\"]", "[]", "false"], "{:?}", report.errors);
}

#[test]
fn what_a_child_uses_counts_for_its_parent_where_groups_nest() {
    let report = program(
        "require sandbox_run\n\
         let r be run_program(\"while true\\n    sleep(0.02)\", {\"ceiling\": \"sandbox\", \"timeout\": 0.3})\nprint(r[\"timed_out\"])\n",
    )
    .go();
    assert_eq!(report.output, ["true"], "{:?}", report.errors);
    let pids = report.limits.iter().find(|row| row.limit == policies::report::LimitName::Pids).unwrap();
    // Kernels before 6.1 don't tell the peak.
    if let (true, Some(peak)) = (pids.means.starts_with("cgroup v1"), report.usage.processes_peak) {
        // The runtime, the child's supervisor, its init, its runtime.
        assert_eq!(peak, 4, "{:?}", report.usage);
    }
}

/// What children of the run did, as `+target` or `-target` behind the context.
fn of_children(report: &Report) -> Vec<String> {
    let told = report.audit.iter().filter(|entry| entry.context.starts_with("child:"));
    told.map(|entry| format!("{} {}{}", entry.context, if entry.granted { '+' } else { '-' }, entry.target))
        .collect()
}

#[test]
fn what_a_child_does_stands_once_in_the_audit_of_the_run() {
    let child = "require file.read(\\\"data/*\\\")\\nprint(read_file(\\\"data/a\\\"))\\nread_file(\\\"/etc/shadow\\\")";
    let text = format!(
        "require sandbox_run\nrequire file.read(\"data/*\")\n\
         let r be run_program(\"{child}\", {{\"ceiling\": \"stdout,file.read=data/*\", \"profile\": \"native\"}})\n\
         print(r.output)\nprint(length(r.audit))\n"
    );
    let given = program(&text).file("data/a", "inside");
    let report = given.go();
    assert_eq!(report.output[0], "[\"inside\"]", "{:?}", report.errors);
    let told = of_children(&report);
    assert_eq!(told.len().to_string(), report.output[1], "the program is told the same: {told:?}");
    let ends = |what: &str| told.iter().filter(|entry| entry.ends_with(what)).count();
    assert_eq!((ends("+data/a"), ends("-/etc/shadow")), (1, 1), "{told:?}");
    assert!(report.audit.iter().map(|entry| entry.seq).eq(1..=report.audit.len() as u64));
    // Without a child there is nothing of the kind.
    assert!(of_children(&program("print(1)\n").go()).is_empty());
}

#[test]
fn what_a_child_of_a_child_does_stands_there_too() {
    let report = program(&at_depth(2, "read_file(\"/etc/shadow\")\n")).go();
    let told = of_children(&report);
    let denied: Vec<&String> = told.iter().filter(|entry| entry.ends_with("-read_file")).collect();
    assert_eq!(denied, ["child:child:program -read_file"], "{told:?}");
}

#[test]
fn what_a_child_did_is_told_when_it_is_ended_with_the_run() {
    let child = "require file.write(\\\"data/*\\\")\\ntry\\n    write_file(\\\"/etc/shadow\\\", \\\"x\\\")\\nrecover e\\n    print(e)\\n\
                 write_file(\\\"data/done\\\", \\\"x\\\")\\nwhile true\\n    sleep(0.05)";
    let text = format!(
        "require sandbox_run\nrequire file.write(\"data/*\")\n\
         run_program(\"{child}\", {{\"ceiling\": \"stdout,time,file.write=data/*\", \"profile\": \"native\", \"timeout\": 60}})\n"
    );
    let given = program(&text).file("data/a", "inside");
    let mut launcher = given.command().spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !std::fs::exists(given.at("data/done")).unwrap() {
        assert!(Instant::now() < until && launcher.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(Pid::from_raw(i32::try_from(launcher.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(launcher.wait().unwrap().code(), Some(143));
    let report: Report = serde_json::from_slice(&std::fs::read(given.at("report.json")).unwrap()).unwrap();
    let told = of_children(&report);
    assert!(told.contains(&"child:program -/etc/shadow".to_owned()), "{told:?}");
    assert!(told.contains(&"child:program +data/done".to_owned()), "{told:?}");
}

#[test]
fn a_flood_of_a_childs_denials_hides_none_of_its_program() {
    let flood = "let n be 0\\nwhile n < 12000\\n    set n to n + 1\\n    try\\n        read_file(\\\"x\\\")\\n    recover err\\n        let no be err\\n";
    let text = format!(
        "require sandbox_run\nlet r be run_program(\"{flood}\", {{\"ceiling\": \"stdout\", \"profile\": \"native\", \"timeout\": 100}})\nprint(r.ok)\n\
         each n in range(100)\n    try\n        read_file(\"own\" + text(n))\n    recover err\n        let no be err\n"
    );
    let report = program(&text).with("--wall", "100s").go();
    assert_eq!(report.output, ["true"], "{:?}", report.errors);
    let own = |n: usize| denials(&report, &format!("file_read(\"own{n}\")")).len();
    assert!((0..100).all(|n| own(n) == 1), "{}", report.audit.len());
    let below = report.audit.iter().filter(|entry| entry.context.starts_with("child:")).count();
    assert_eq!(below, 5000);
    assert!(report.audit_dropped > 4000, "{}", report.audit_dropped);
}
