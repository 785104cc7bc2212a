//! The languages' commands: run, test, check, conform, build, and the names that the binary is called by.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

const SANDBOX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/synsema/sandbox.syn");

/// A folder with the binary linked as `synsema`, and programs.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_thirdwall"), folder.path().join("synsema")).unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn go(&self, program: &str, words: &[&str]) -> Ended {
        let program = if program == "thirdwall" {
            env!("CARGO_BIN_EXE_thirdwall").into()
        } else {
            self.path().join(program)
        };
        let done = Command::new(program)
            .args(words)
            .current_dir(self.path())
            .env("MINE", "from the environment")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Ended::of(&done)
    }
}

#[derive(Debug)]
struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    fn of(done: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: done.status.code().unwrap_or(-1), out: text(&done.stdout), err: text(&done.stderr) }
    }
}

#[test]
fn the_first_run_prints_its_result() {
    let folder = Folder::new(&[]);
    for words in
        [vec!["run", "--sandbox", SANDBOX], vec!["run", SANDBOX], vec!["run", "--profile", "pure", SANDBOX]]
    {
        let ended = folder.go("thirdwall", &words);
        assert_eq!((ended.code, ended.out.as_str()), (0, "sandbox result: 49\n"), "{ended:?}");
    }
}

#[test]
fn without_stdout_in_the_ceiling_a_print_is_refused_and_the_error_names_the_host() {
    let folder = Folder::new(&[("p.syn", "print(1)\n")]);
    let ended = folder.go("thirdwall", &["run", "--cap-set", "none", "p.syn", "--report", "r.json"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{ended:?}");
    let report = fs::read_to_string(folder.path().join("r.json")).unwrap();
    assert!(report.contains("Capability not granted: stdout"), "{report}");
}

#[test]
fn a_program_that_does_not_parse_runs_nothing_and_shows_each_line() {
    let folder = Folder::new(&[("p.syn", "print(\"never\")\nlet x be\nx += 1\n")]);
    let ended = folder.go("thirdwall", &["run", "--sandbox", "p.syn"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    assert!(
        ended.err.contains("Parse error: p.syn:2:9") && ended.err.contains(" 3 | x += 1"),
        "{}",
        ended.err
    );
    assert_eq!(folder.go("thirdwall", &["check", "p.syn"]).code, 1);
    let as_data = folder.go("thirdwall", &["check", "--format", "json", "p.syn"]);
    let line: serde_json::Value = serde_json::from_str(&as_data.out).unwrap();
    assert_eq!(
        (as_data.code, &line["ok"], line["errors"].as_array().map(Vec::len)),
        (1, &false.into(), Some(2))
    );
    assert_eq!(folder.go("thirdwall", &["check", SANDBOX]).code, 0);
}

#[test]
fn called_as_synsema_it_has_the_pages_exit_codes() {
    let folder = Folder::new(&[("p.syn", "print(1)\n")]);
    assert_eq!(folder.go("synsema", &["run", "--sandbox", "p.syn"]).out, "1\n");
    let unknown = folder.go("synsema", &["run", "--bad", "p.syn"]);
    assert_eq!((unknown.code, unknown.err.as_str()), (2, "unknown flag '--bad'\n"));
    let both = folder.go("synsema", &["run", "--sandbox", "--cap-set", "none", "p.syn"]);
    assert_eq!(both.code, 2);
    assert!(both.err.contains("mutually exclusive"), "{}", both.err);
    assert_eq!(folder.go("synsema", &["run", "nosuch.syn"]).code, 2);
    assert_eq!(folder.go("synsema", &["run", "--cap-set", "", "p.syn"]).code, 2);
    assert_eq!(folder.go("synsema", &["run", "--cap-set", "stdot", "p.syn"]).code, 2);
}

#[test]
fn format_json_is_one_line_with_the_exit_code_unchanged() {
    let folder = Folder::new(&[("p.syn", "print(\"a\")\nprint(1 / 0)\n")]);
    let ended = folder.go("synsema", &["run", "--format", "json", "p.syn"]);
    assert_eq!(ended.code, 1);
    let line: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(line["ok"], false);
    assert_eq!(line["output"], serde_json::json!(["a"]));
    assert_eq!(line["errors"], serde_json::json!(["Runtime error: p.syn:2:9: Division by zero"]));
    assert_eq!(line["exit"], 1);
}

#[test]
fn conform_prints_one_line_and_succeeds_even_when_the_program_fails() {
    let folder = Folder::new(&[("p.syn", "print(\"a\")\nprint(1 / 0)\n")]);
    let ended = folder.go("synsema", &["conform", "p.syn"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let line: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(line["ok"], false);
    assert_eq!(line["out"], serde_json::json!(["a"]));
}

#[test]
fn tests_of_a_folder_are_counted_over_all_files() {
    let good = "test \"adds\"\n    assert_eq(1 + 1, 2)\n";
    let bad = "test \"fails\"\n    assert_eq(1, 2)\n";
    let folder = Folder::new(&[
        ("t/a.syn", good),
        ("t/deep/b.syn", bad),
        ("t/other.txt", ""),
        ("blob", "\u{7f}ELF\0\u{1}"),
    ]);
    let ended = folder.go("synsema", &["test", "t"]);
    assert_eq!(ended.code, 1);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines[..2], ["t/a.syn:", "✓ adds"], "{ended:?}");
    assert_eq!(*lines.last().unwrap(), "1 passed, 1 failed (2 total)");
    assert_eq!(folder.go("synsema", &["test", "t/a.syn"]).out, "✓ adds\n1 passed, 0 failed (1 total)\n");
    assert_eq!(folder.go("synsema", &["test", "blob"]).code, 1, "a binary is no program");
}

#[test]
fn modules_beside_the_program_are_found_and_others_are_not() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("far.syn"), "export let x be 1\n").unwrap();
    let folder = Folder::new(&[
        ("m/lib.syn", "use \"deep.syn\" as deep\nexport task sq(n)\n    give deep.one() * n * n\n"),
        ("m/deep.syn", "export task one()\n    give 1\n"),
        ("p.syn", "use \"m/lib.syn\" as lib\nprint(lib.sq(7))\n"),
        ("q.syn", "use \"link.syn\" as far\nprint(far.x)\n"),
    ]);
    symlink(outside.path().join("far.syn"), folder.path().join("link.syn")).unwrap();
    for words in [vec!["run", "p.syn"], vec!["run", "--sandbox", "p.syn"]] {
        assert_eq!(folder.go("thirdwall", &words).out, "49\n");
    }
    let through_a_link = folder.go("thirdwall", &["run", "q.syn"]);
    assert_eq!(through_a_link.code, 1);
    assert!(through_a_link.err.contains("Module not found"), "{}", through_a_link.err);
    for name in [".env", "alias.syn"] {
        let program = format!("use \"{name}\" as far\nprint(1)\n");
        fs::write(folder.path().join(".env"), "KEY=secret\n").unwrap();
        let _made = symlink(".env", folder.path().join("alias.syn"));
        fs::write(folder.path().join("r.syn"), program).unwrap();
        let ended = folder.go("thirdwall", &["run", "--sandbox", "r.syn"]);
        assert!(ended.code == 1 && !ended.err.contains("secret"), "{name}: {ended:?}");
    }
}

#[test]
fn a_built_executable_carries_program_modules_and_ceiling() {
    let folder = Folder::new(&[
        ("m/lib.syn", "export task sq(n)\n    give n * n\n"),
        ("p.syn", "use \"m/lib.syn\" as lib\nprint(lib.sq(7))\nprint(args())\n"),
    ]);
    assert_eq!(folder.go("thirdwall", &["build", "p.syn", "-o", "open", "--cap-set", "stdout"]).code, 0);
    assert_eq!(folder.go("thirdwall", &["build", "p.syn", "-o", "shut", "--cap-set", "none"]).code, 0);
    fs::remove_dir_all(folder.path().join("m")).unwrap();
    let open = folder.go("open", &["--help", "x"]);
    assert_eq!((open.code, open.out.as_str()), (0, "49\n[\"--help\", \"x\"]\n"), "{open:?}");
    assert_eq!(folder.go("shut", &[]).code, 1);
}

#[test]
fn every_example_runs_and_passes_its_tests() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let folder = Folder::new(&[]);
    let mut seen = 0;
    for language in fs::read_dir(examples).unwrap().flatten() {
        for example in fs::read_dir(language.path()).unwrap().flatten() {
            let path = example.path().display().to_string();
            if !path.ends_with(".syn") {
                continue;
            }
            seen += 1;
            for command in ["run", "test"] {
                let ended = folder.go("thirdwall", &[command, &path]);
                assert_eq!(ended.code, 0, "{command} {path}: {ended:?}");
            }
        }
    }
    assert!(seen >= 3, "the examples are gone");
}

#[test]
fn a_variable_may_be_set_to_a_builtin_called_with_nothing() {
    let folder = Folder::new(&[("p.syn", "let a be 1\nset a to args()\nprint(a)\n")]);
    let ended = folder.go("thirdwall", &["run", "--sandbox", "p.syn"]);
    assert_eq!((ended.code, ended.out.as_str()), (0, "[]\n"), "{ended:?}");
}

#[test]
fn fuel_ends_a_program_that_never_ends() {
    let folder = Folder::new(&[("p.syn", "print(\"before\")\nwhile true\n    let x be 1\n")]);
    let ended = folder.go("thirdwall", &["run", "--sandbox", "--fuel", "100000", "p.syn"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, "before\n"), "{ended:?}");
    let timed = folder.go("thirdwall", &["run", "--sandbox", "--wall", "3s", "p.syn"]);
    assert_eq!((timed.code, timed.out.as_str()), (124, "before\n"), "what was printed stays: {timed:?}");
}

#[test]
fn flags_may_follow_the_file_and_the_rest_is_for_the_program() {
    let folder = Folder::new(&[("p.syn", "print(args())\n")]);
    assert_eq!(
        folder.go("synsema", &["run", "p.syn", "a", "--sandbox", "-1", "b"]).out,
        "[\"a\", \"-1\", \"b\"]\n"
    );
    assert_eq!(folder.go("synsema", &["run", "p.syn", "--", "--sandbox"]).out, "[\"--sandbox\"]\n");
    let ceiling = folder.go("synsema", &["run", "p.syn", "x", "--cap-set", "none"]);
    assert_eq!(
        (ceiling.code, ceiling.out.as_str()),
        (1, ""),
        "a ceiling after an argument is one: {ceiling:?}"
    );
    for command in ["run", "test", "check", "conform"] {
        let unknown = folder.go("synsema", &[command, "p.syn", "--wat"]);
        assert_eq!((unknown.code, unknown.err.as_str()), (2, "unknown flag '--wat'\n"), "{command}");
    }
    let valueless = folder.go("synsema", &["run", "--cap-set", "--foo", "p.syn"]);
    assert_eq!((valueless.code, valueless.err.as_str()), (2, "--cap-set requires a value\n"));
    let fixed = folder.go("synsema", &["run", "--deterministic", "--sandbox", "p.syn"]);
    assert!(fixed.code == 2 && fixed.err.contains("--deterministic already fixes the ceiling"), "{fixed:?}");
    assert_eq!(folder.go("synsema", &["run", "--labels", "--jitless", "--provider", "x", "p.syn"]).code, 0);
}

#[test]
fn a_deterministic_run_is_the_same_each_time() {
    let program =
        "print(format_time(1.0))\nprint(rng(1) |> random)\ntry\n    now()\nrecover e\n    print(e)\n";
    let folder = Folder::new(&[("p.syn", program)]);
    let first = folder.go("synsema", &["run", "--deterministic", "p.syn"]);
    assert_eq!(first.code, 0, "{first:?}");
    assert!(
        first.out.contains("above the host ceiling") || first.out.contains("missing capability"),
        "{first:?}"
    );
    assert_eq!(folder.go("synsema", &["run", "p.syn", "--deterministic"]).out, first.out);
}

#[test]
fn explained_errors_show_what_was_around() {
    let program = "intent: \"divide\"\nlet total be 3\nlet key be as_secret(\"hush\", \"K\")\ntask f(a, b)\n    \
                   let c be a + b\n    give c / (b - 2)\nprint(\"before\")\nprint(f(total, 2))\n";
    let folder = Folder::new(&[("p.syn", program), ("q.syn", "print(lenght([1]))\n")]);
    let text = folder.go("synsema", &["run", "--explain", "p.syn"]);
    assert_eq!((text.code, text.out.as_str()), (1, "before\n"));
    for part in [
        "Runtime error: p.syn:6:12: Division by zero\n",
        " → 6 |     give c / (b - 2)\n",
        "    f (p.syn:6)\n    <program> (p.syn:8)\n",
        "    c = 5\n    b = 2\n    a = 3\n",
        "    total = 3\n",
        "    key = secret(K)\n",
        "intent: divide\n",
        "kind: logic\n",
        "recoverable: yes",
        "try: look at the divisor first",
    ] {
        assert!(text.err.contains(part), "{part:?} in {}", text.err);
    }
    assert!(!text.err.contains("hush"), "{}", text.err);
    let json = folder.go("synsema", &["run", "--explain", "--format", "json", "p.syn"]);
    assert_eq!(json.code, 1);
    let line: serde_json::Value = serde_json::from_str(json.out.trim()).unwrap();
    assert_eq!(line["output"], serde_json::json!(["before"]));
    let object: serde_json::Value =
        json.err.lines().find_map(|line| serde_json::from_str(line).ok()).unwrap();
    assert_eq!((object["line"].as_u64(), object["category"].as_str()), (Some(6), Some("logic")));
    assert_eq!(object["variables"]["c"], "5");
    assert_eq!(object["recoverable"], true);
    let near = folder.go("synsema", &["run", "--explain", "q.syn"]);
    assert!(near.err.contains("did you mean `length`?"), "{}", near.err);
    // Without the flag, only the line.
    assert!(!folder.go("synsema", &["run", "p.syn"]).err.contains("variables"));
}

#[test]
fn conform_tells_of_the_swarm_when_asked() {
    let program = "agent A\n    share [1, 2.5] as \"sum\"\nagent B\n    raise \"bad\"\nspawn A\nspawn B\n";
    let folder = Folder::new(&[("p.syn", program)]);
    let plain = folder.go("synsema", &["conform", "p.syn"]);
    let line: serde_json::Value = serde_json::from_str(plain.out.trim()).unwrap();
    assert_eq!(line.as_object().unwrap().len(), 3, "{line}");
    let swarm = folder.go("synsema", &["conform", "--swarm", "p.syn"]);
    assert_eq!(swarm.code, 0);
    let line: serde_json::Value = serde_json::from_str(swarm.out.trim()).unwrap();
    assert_eq!(line["blackboard"], serde_json::json!({"sum": [1, 2.5]}));
    assert_eq!(
        (line["agents"][0]["state"].as_str(), line["agents"][1]["error"].as_str()),
        (Some("completed"), Some("bad"))
    );
}

#[test]
fn patterns_name_test_files_and_variables_come_from_a_file() {
    let env = "require env(\"K\")\ntest \"sees it\"\n    assert_eq(env(\"K\"), \"v\")\n";
    let folder =
        Folder::new(&[("t/a1.syn", env), ("t/a2.syn", env), ("t/b.syn", "let x be\n"), ("vars", "K=v\n")]);
    let ended = folder.go("synsema", &["test", "--env-file", "vars", "t/a?.syn"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.ends_with("2 passed, 0 failed (2 total)\n"), "{ended:?}");
    assert_eq!(folder.go("synsema", &["test", "t/c*.syn"]).code, 2);
}

#[test]
fn a_reader_who_has_had_enough_is_no_failure() {
    let folder =
        Folder::new(&[("p.syn", "each i in range(1000000)\n    print(i, \"and more of the same line\")\n")]);
    let mut child = Command::new(folder.path().join("synsema"))
        .args(["run", "p.syn"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = Ended::of(&child.wait_with_output().unwrap());
    assert_eq!((done.code, done.err.as_str()), (0, ""));
}

#[test]
fn a_built_executable_writes_its_audit_where_it_was_told_to() {
    let folder = Folder::new(&[("p.syn", "print(now() > 0)\n")]);
    assert_eq!(
        folder.go("synsema", &["build", "p.syn", "-o", "app", "--sandbox", "--audit", "json"]).code,
        0
    );
    let ended = folder.go("app", &[]);
    assert_eq!((ended.code, ended.out.as_str()), (0, "true\n"), "{ended:?}");
    assert!(ended.err.ends_with("\"exit\":0}}\n"), "{}", ended.err);
}

#[test]
fn conform_tells_what_it_can_in_one_line_whatever_happens() {
    let folder = Folder::new(&[
        ("p.syn", "print(\"hi\")\n"),
        ("logs.syn", "log \"one\"\nprint(\"two\")\neprint(\"three\")\n"),
        ("bad.syn", "let x be\n"),
        ("loop.syn", "print(1)\nwhile true\n    nothing\n"),
        ("asks.syn", "print(approve \"really?\")\nprint(ask \"which?\" with [\"a\", \"b\"])\n"),
    ]);
    let line = |words: &[&str]| {
        let ended = folder.go("synsema", &[&["conform"], words].concat());
        assert_eq!((ended.code, ended.out.lines().count()), (0, 1), "{ended:?}");
        (serde_json::from_str::<serde_json::Value>(&ended.out).unwrap(), ended.err)
    };
    let texts = |value: &serde_json::Value| serde_json::from_value::<Vec<String>>(value.clone()).unwrap();
    // Where the program may not print, the line is the launcher's own.
    for ceiling in ["time", "none"] {
        let (told, _) = line(&["--cap-set", ceiling, "p.syn"]);
        assert_eq!((&told["ok"], texts(&told["out"]).len()), (&serde_json::json!(false), 0), "{told}");
        assert!(texts(&told["err"])[0].contains("stdout"), "{told}");
    }
    assert_eq!(
        line(&["--cap-set", "stdout", "p.syn"]).0,
        serde_json::json!({"ok": true, "out": ["hi"], "err": []})
    );
    let (told, err) = line(&["logs.syn"]);
    assert_eq!(
        (texts(&told["out"]), err.as_str()),
        (vec!["[LOG] one".to_owned(), "two".to_owned()], "three\n")
    );
    let (told, err) = line(&["bad.syn"]);
    assert!(texts(&told["err"])[0].starts_with("Parse error: bad.syn:1:") && err.is_empty(), "{told} {err}");
    let (told, _) = line(&["--wall", "1s", "loop.syn"]);
    assert_eq!(texts(&told["out"]), ["1"]);
    assert!(texts(&told["err"])[0].contains("wall clock limit"), "{told}");
    // Nobody is asked.
    assert_eq!(texts(&line(&["asks.syn"]).0["out"]), ["true", "a"]);
    assert_eq!(folder.go("synsema", &["conform", "--no-such-flag", "p.syn"]).code, 2);
}

#[test]
fn a_result_as_json_has_the_logs_the_limit_and_the_exit_code() {
    let folder = Folder::new(&[
        ("logs.syn", "print(\"one\")\nlog \"two\"\neprint(\"three\")\nprint(read_line())\n"),
        ("heap.syn", "let xs be range(3000000)\nprint(length(xs))\n"),
        ("loop.syn", "while true\n    nothing\n"),
        ("in", "typed\n"),
    ]);
    let line = |words: &[&str]| {
        let ended = folder.go("synsema", &[&["run", "--format", "json"], words].concat());
        let told: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(told["exit"], ended.code, "{ended:?}");
        (told, ended)
    };
    let (told, ended) = line(&["--stdin", "in", "logs.syn"]);
    assert_eq!(told["output"], serde_json::json!(["one", "[LOG] two", "typed"]));
    assert_eq!((ended.code, ended.err.as_str()), (0, "three\n"));
    let (told, ended) = line(&["--memory-heap", "8M", "heap.syn"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("--memory-heap"), "{ended:?}");
    assert!(told["audit"].to_string().contains("--memory-heap"), "{told}");
    let (told, ended) = line(&["--wall", "1s", "loop.syn"]);
    assert_eq!(ended.code, 124);
    assert!(told["errors"][0].as_str().unwrap().contains("wall clock limit"), "{told}");
}

#[test]
fn what_runs_inside_a_sandbox_reads_no_input_and_neither_do_its_agents() {
    let agent = "agent A\n    require file.read(\"d/*\")\n    share read_file(\"d/b.txt\") as \"got\"\n\
                 task evil()\n    spawn A\n";
    let folder = Folder::new(&[
        ("plain.syn", "print(read_line())\n"),
        (
            "inside.syn",
            "try\n    print(sandbox read_line())\nrecover e\n    print(\"no:\", e)\nprint(read_line())\n",
        ),
        ("agent.syn", &format!("{agent}require file.read(\"d/*\")\nevil()\n")),
        ("boxed.syn", &format!("{agent}require file.read(\"d/*\")\nsandbox evil()\n")),
        ("d/b.txt", "private"),
        ("in", "typed\n"),
    ]);
    assert_eq!(folder.go("synsema", &["run", "--stdin", "in", "plain.syn"]).out, "typed\n");
    let ended = folder.go("synsema", &["run", "--stdin", "in", "inside.syn"]);
    assert!(ended.out.starts_with("no: Capability not granted: stdin"), "{ended:?}");
    assert!(ended.out.ends_with("typed\n"), "{ended:?}");
    let board = |file: &str| folder.go("synsema", &["conform", "--swarm", file]).out;
    assert!(board("agent.syn").contains("private"), "{}", board("agent.syn"));
    let boxed = board("boxed.syn");
    assert!(!boxed.contains("private") && boxed.contains("Capability not granted"), "{boxed}");
}

#[test]
fn a_require_line_that_asks_for_every_name_is_warned_of() {
    let folder = Folder::new(&[
        ("wide.syn", "require reveal\nprint(1)\n"),
        ("named.syn", "require reveal(\"KEY\")\nrequire net\nprint(1)\n"),
    ]);
    for command in ["check", "run"] {
        let wide = folder.go("synsema", &[command, "wide.syn"]);
        assert_eq!(
            (wide.code, wide.err.matches("warning: wide.syn:1:").count()),
            (0, 1),
            "{command} {wide:?}"
        );
        let named = folder.go("synsema", &[command, "named.syn"]);
        assert_eq!((named.code, named.err.as_str()), (0, ""), "{command}");
    }
}

/// Nothing of such a program runs, so nothing says what it may do; what is wrong is shown all the same, with its line.
#[test]
fn what_does_not_parse_shows_its_line_without_a_ceiling_as_with_one() {
    let folder = Folder::new(&[("p.syn", "let x = 1\n"), ("m.syn", "use \"./x.txt\" as p\n")]);
    for (file, mark) in
        [("p.syn", " 1 | let x = 1\n   |       ^\n"), ("m.syn", " 1 | use \"./x.txt\" as p\n   |     ^\n")]
    {
        let alone = folder.go("synsema", &["run", file]);
        assert_eq!((alone.code, alone.err.ends_with(mark)), (1, true), "{}", alone.err);
        assert_eq!(folder.go("synsema", &["run", "--sandbox", file]).err, alone.err);
    }
}

#[test]
fn a_reader_of_a_line_of_json_who_has_had_enough_is_no_failure() {
    let folder = Folder::new(&[("big.syn", "print(range(200000))\n")]);
    for command in ["run --format json", "conform"] {
        let script = format!("{{ \"$1\" {command} big.syn; echo $? >&2; }} | head -c 20");
        let done = Command::new("bash")
            .args(["-c", &script, "bash", env!("CARGO_BIN_EXE_thirdwall")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stderr), "0\n", "{command}");
    }
}

/// What is packed is the program itself: no capability, any folder, under the pure profile too. What isn't stays the host's.
#[test]
fn a_packed_file_is_read_wherever_the_executable_runs_and_no_other_is() {
    let text = "print(read_file(\"data/w.txt\", 2, 1), read_file(\"./data/sub/d.txt\"), file_exists(\"data/w.txt\"))\n\
                sandbox\n    print(length(read_file_bytes(\"data/w.txt\")))\n\
                each path in [\"data/other.txt\", \"/etc/hostname\", \"data/link\"]\n    try\n        print(read_file(path))\n    \
                recover e\n        print(\"refused\")\n";
    let folder = Folder::new(&[
        ("p.syn", text),
        ("data/w.txt", "one\ntwo\n"),
        ("data/sub/d.txt", "deep"),
        ("data/other.txt", "no"),
    ]);
    symlink("other.txt", folder.path().join("data/sub/link")).unwrap();
    for profile in ["native", "pure"] {
        let build = [
            "build",
            "p.syn",
            "-o",
            "p",
            "--asset",
            "data/w.txt",
            "--asset",
            "./data/sub",
            "--profile",
            profile,
        ];
        let built = folder.go("synsema", &build);
        assert_eq!((built.code, built.err.as_str()), (0, ""));
        let moved = tempfile::tempdir().unwrap();
        let done = Command::new(folder.path().join("p")).current_dir(moved.path()).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&done.stdout),
            "two deep true\n8\nrefused\nrefused\nrefused\n",
            "{profile}"
        );
    }
    for outside in ["/etc/hostname", "../x", "nowhere"] {
        let built = folder.go("thirdwall", &["build", "p.syn", "-o", "q", "--asset", outside]);
        assert_eq!((built.code, built.err.contains(outside)), (125, true), "{}", built.err);
    }
    let over = folder.go("thirdwall", &["build", "p.syn", "-o", "data/w.txt", "--asset", "data/w.txt"]);
    assert_eq!((over.code, folder.go("synsema", &["run", "p.syn"]).code), (125, 1));
}
