//! The README's console blocks, run as they stand: each command in a shell, its output as printed there.
//!
//! A line `...` stands for any lines, a command without output below it must only succeed, and what a machine lacks
//! (a compiler, python3) is told and left out.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

const MARK: &str = "@@end-of-command";

/// One command of a block and the lines below it.
struct Case {
    command: String,
    expected: Vec<String>,
}

fn cases(page: &str) -> Vec<Vec<Case>> {
    let mut blocks = Vec::new();
    let mut block: Option<Vec<Case>> = None;
    for line in page.lines() {
        match (&mut block, line) {
            (None, "```console") => block = Some(Vec::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(cases), line) => match line.strip_prefix("$ ") {
                Some(command) => {
                    let command = command.split("   #").next().unwrap_or_default().trim().to_owned();
                    cases.push(Case { command, expected: Vec::new() });
                }
                None => {
                    cases.last_mut().expect("a block begins with a command").expected.push(line.to_owned())
                }
            },
            (None, _prose) => {}
        }
    }
    blocks
}

fn has(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}

/// Whether the lines are the expected ones, `...` standing for any number.
fn matches(expected: &[String], actual: &[&str]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((first, rest)) if first.trim() == "..." => {
            (0..=actual.len()).any(|skip| matches(rest, &actual[skip..]))
        }
        Some((first, rest)) => actual.first() == Some(&first.as_str()) && matches(rest, &actual[1..]),
    }
}

#[test]
fn console_blocks_run_as_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let page = fs::read_to_string(root.join("README.md")).expect("README.md");
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(
        folder.path().join("hello.c"),
        "#include <stdio.h>\nint main(void) { puts(\"hello from C\"); }\n",
    )
    .expect("hello.c");
    for example in ["sandbox.syn", "words.syn"] {
        fs::copy(root.join("examples/synsema").join(example), folder.path().join(example))
            .expect("an example");
    }
    let binary =
        Path::new(env!("CARGO_BIN_EXE_thirdwall")).parent().expect("its folder").display().to_string();
    let path = format!("{binary}:{}", std::env::var("PATH").unwrap_or_default());
    for block in cases(&page) {
        let mut script = String::new();
        for case in &block {
            script.push_str(&format!("{}\ns=$?; printf '\\n{MARK}%s\\n' $s; (exit $s)\n", case.command));
        }
        let done = Command::new("sh")
            .args(["-c", &format!("exec 2>&1; {script}")])
            .current_dir(folder.path())
            .env("PATH", &path)
            .stdin(Stdio::null())
            .output()
            .expect("sh");
        let text = String::from_utf8_lossy(&done.stdout);
        let mut rest = text.as_ref();
        for case in &block {
            let (output, after) = rest.split_once(&format!("\n{MARK}")).expect("a mark behind each command");
            let (status, after) = after.split_once('\n').expect("a status behind each mark");
            rest = after;
            if let Some(missing) =
                ["python3", "gcc"].into_iter().find(|tool| case.command.contains(tool) && !has(tool))
            {
                println!("skipped: {}: this machine has no {missing}", case.command);
                continue;
            }
            let lines: Vec<&str> = output.lines().collect();
            if case.expected.is_empty() {
                let fine = status == "0" || case.command.contains("doctor");
                assert!(fine || case.expected == lines, "{}: exit {status}\n{output}", case.command);
            } else {
                assert!(matches(&case.expected, &lines), "{}\nprinted:\n{output}", case.command);
            }
        }
    }
}
