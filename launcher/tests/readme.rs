//! The commands of the README and of the pages in docs: console blocks are run as they stand, each command in a shell, its
//! output as printed there; of shell blocks each `exec` and `run` is explained, so that a jail can be planned for it.
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

/// A folder with what the pages' commands name: the examples, and the files that the recipes are about.
fn workplace(root: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let put = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        fs::write(path, text).expect("a file");
    };
    put("hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello from C\"); }\n");
    put("count.py", "import sys\nprint(sum(1 for line in open(sys.argv[1])), 'lines')\n");
    put("data/in.csv", "a,1\nb,2\nc,3\n");
    for example in ["sandbox.syn", "words.syn"] {
        let example = format!("examples/synsema/{example}");
        put(&example, &fs::read_to_string(root.join(&example)).expect("an example"));
    }
    folder
}

/// The search path with the binary in front.
fn path() -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_thirdwall")).parent().expect("its folder").display();
    format!("{binary}:{}", std::env::var("PATH").unwrap_or_default())
}

fn page(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

fn lacking(command: &str) -> Option<&'static str> {
    ["python3", "gcc", "node", "curl"].into_iter().find(|tool| command.contains(tool) && !has(tool))
}

#[test]
fn console_blocks_run_as_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    for name in ["README.md", "docs/recipes.md", "docs/refused.md"] {
        let folder = workplace(root);
        for block in cases(&page(root, name)) {
            run_as_printed(name, &block, folder.path());
        }
    }
}

fn run_as_printed(page: &str, block: &[Case], folder: &Path) {
    let mut script = String::new();
    for case in block {
        script.push_str(&format!("{}\ns=$?; printf '\\n{MARK}%s\\n' $s; (exit $s)\n", case.command));
    }
    let done = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {script}")])
        .current_dir(folder)
        .env("PATH", path())
        .stdin(Stdio::null())
        .output()
        .expect("sh");
    let text = String::from_utf8_lossy(&done.stdout);
    let mut rest = text.as_ref();
    for case in block {
        let (output, after) = rest.split_once(&format!("\n{MARK}")).expect("a mark behind each command");
        let (status, after) = after.split_once('\n').expect("a status behind each mark");
        rest = after;
        if let Some(missing) = lacking(&case.command) {
            eprintln!("skipped: {}: this machine has no {missing}", case.command);
            continue;
        }
        let lines: Vec<&str> = output.lines().collect();
        if case.expected.is_empty() {
            let fine = status == "0" || case.command.contains("doctor");
            assert!(fine || case.expected == lines, "{page}: {}: exit {status}\n{output}", case.command);
        } else {
            assert!(matches(&case.expected, &lines), "{page}: {}\nprinted:\n{output}", case.command);
        }
    }
}

#[test]
fn each_command_of_a_shell_block_can_be_planned() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let folder = workplace(root);
    let mut planned = 0;
    for name in ["README.md", "docs/network.md", "docs/recipes.md", "docs/policies.md"] {
        let mut shell = false;
        for line in page(root, name).lines() {
            if line.starts_with("```") {
                shell = line == "```sh" && !shell;
                continue;
            }
            // The whole line is the shell's, quotes and variables with it.
            let Some(rest) = line.strip_prefix("thirdwall ").filter(|_| shell) else { continue };
            if !rest.starts_with("exec ") && !rest.starts_with("run ") {
                continue;
            }
            if let Some(missing) = lacking(rest) {
                println!("skipped: {line}: this machine has no {missing}");
                continue;
            }
            let done = Command::new("sh")
                .args(["-c", &format!("thirdwall explain {rest}")])
                .current_dir(folder.path())
                .env("PATH", path())
                .stdin(Stdio::null())
                .output()
                .expect("sh");
            assert!(done.status.success(), "{name}: {line}\n{}", String::from_utf8_lossy(&done.stderr));
            planned += 1;
        }
    }
    println!("{planned} commands planned");
}
