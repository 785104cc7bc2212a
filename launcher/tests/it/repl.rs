//! The conversation: piped, and with a person at a terminal.

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    pty::{Winsize, openpty},
    sys::termios::{LocalFlags, Termios, tcgetattr},
    unistd::{read, write},
};
use std::{
    fs,
    io::Write,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::symlink,
    },
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);
const SIZE: Winsize = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    symlink(env!("CARGO_BIN_EXE_thirdwall"), folder.path().join("synsema")).unwrap();
    folder
}

fn command(folder: &TempDir, words: &[&str]) -> Command {
    let mut command = Command::new(folder.path().join("synsema"));
    command.arg("repl").args(words).current_dir(folder.path());
    command.env("THIRDWALL_HISTORY", folder.path().join("history")).env("TERM", "xterm").env("NO_COLOR", "1");
    command
}

/// Exit code, standard output, standard error.
fn piped(words: &[&str], input: &str) -> (i32, String, String) {
    let folder = folder();
    let mut child = command(&folder, words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
}

#[test]
fn piped_statements_are_evaluated_in_order_and_errors_survived() {
    let input = "let x be 20\nx + 1\nprint(1 / 0)\ntask twice(n)\n    let r be n * 2\n\n    give r\ntwice(x)\n\
                 when x > 10\n    print(\"big\")\notherwise\n    print(\"small\")\n[1,\n 2]\n\"last\"";
    let (code, out, err) = piped(&[], input);
    assert_eq!((code, out.as_str()), (0, "21\n40\nbig\n[1, 2]\n\"last\"\n"), "{err}");
    assert!(err.starts_with("Runtime error: <repl:3>:1:9: Division by zero\n"), "{err}");
    assert_eq!(err.matches("error").count(), 1, "{err}");
}

#[test]
fn the_exit_code_is_that_of_exit() {
    assert_eq!(piped(&[], "print(1)\nexit(7)\nprint(2)\n"), (7, "1\n".into(), String::new()));
}

#[test]
fn the_ceiling_holds_and_what_it_covers_is_granted() {
    let program = "require file.read(\"note.txt\")\nread_file(\"note.txt\")\n";
    let (_, out, err) = piped(&[], program);
    assert_eq!(out, "");
    assert!(err.contains("above the host ceiling"), "{err}");
    let folder = folder();
    fs::write(folder.path().join("note.txt"), "hello").unwrap();
    let mut child = command(&folder, &["--cap-set", "stdout,file.read=note.txt"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "\"hello\"\n");
}

#[test]
fn a_module_of_the_folder_is_used_and_none_beside_it() {
    let folder = folder();
    fs::create_dir(folder.path().join("in")).unwrap();
    for (name, text) in [
        (
            "in/m.syn",
            "use \"deep/n.syn\" as n\nexport task twice(x)\n    give n.two * x\nexport let count be 0\nprint(\"loaded\")\n",
        ),
        ("in/deep/n.syn", "export let two be 2\n"),
        ("in/bad.syn", "let x be\n"),
        ("in/note.txt", "export let x be 1\n"),
        ("out.syn", "export let secret be 1\n"),
    ] {
        fs::create_dir_all(folder.path().join("in/deep")).unwrap();
        fs::write(folder.path().join(name), text).unwrap();
    }
    symlink("../out.syn", folder.path().join("in/link.syn")).unwrap();
    let input = "use \"m.syn\" as m\nm.twice(21)\nlet f be m.twice\nf(2)\nuse \"m.syn\" as again\nagain.twice(3)\n\
                 use \"bad.syn\" as b\nuse \"../out.syn\" as o\nuse \"link.syn\" as l\nuse \"note.txt\" as t\nuse \"none.syn\" as q\n1 + 1\n";
    let mut command = command(&folder, &["--cap-set", "stdout"]);
    let mut child = command
        .current_dir(folder.path().join("in"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(out, "loaded\n42\n4\n6\n2\n", "{err}");
    for wanted in [
        "bad.syn:1:",
        "<repl:8>:1:1: module path escapes the importing directory",
        "<repl:9>:1:1: Module not found: 'link.syn'",
        "<repl:10>:1:5: module path must end in '.syn'",
        "<repl:11>:1:1: Module not found: 'none.syn'",
    ] {
        assert!(err.contains(wanted), "{wanted}: {err}");
    }
}

#[test]
fn limits_hold() {
    let loops = "let n be 0\nwhile true\n    set n to n + 1\nprint(\"never\")\n";
    let (code, out, err) = piped(&["--fuel", "100000"], loops);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("fuel limit reached"), "{err}");
    assert_eq!(piped(&["--cpu", "200ms"], loops).0, 124);
    // The heap is free again after the error.
    let (code, out, err) = piped(&["--memory-heap", "1M"], "range(1000000)\n1 + 1\n");
    assert_eq!((code, out.as_str()), (0, "2\n"), "{err}");
    assert!(err.contains("memory limit reached"), "{err}");
}

#[test]
fn a_program_reads_the_lines_that_follow() {
    let (code, out, err) = piped(&[], "require stdin\nlet name be read_line()\nAna\n`hello {name}`\n");
    assert_eq!((code, out.as_str()), (0, "\"hello Ana\"\n"), "{err}");
}

/// A person at a terminal.
struct Person {
    _folder: TempDir,
    child: Child,
    master: OwnedFd,
    slave: OwnedFd,
    seen: String,
    before: Termios,
}

fn person(words: &[&str]) -> Person {
    let folder = folder();
    let pty = openpty(&SIZE, None).unwrap();
    let before = tcgetattr(&pty.slave).unwrap();
    let inner = command(&folder, words);
    let end = || Stdio::from(pty.slave.try_clone().unwrap());
    let child = Command::new("setsid")
        .args(["--ctty", "env", "--default-signal=HUP,INT,QUIT,TERM"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .current_dir(folder.path())
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    let mut person =
        Person { _folder: folder, child, master: pty.master, slave: pty.slave, seen: String::new(), before };
    person.sees(">>> ");
    person
}

/// A test that fails leaves nothing behind: with the launcher its jail goes.
impl Drop for Person {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _gone = self.child.kill();
            let _collected = self.child.wait();
        }
    }
}

impl Person {
    fn types(&self, text: &str) {
        write(&self.master, text.as_bytes()).unwrap();
    }

    fn take(&mut self) {
        let mut one = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut one, PollTimeout::from(50_u8)).unwrap() > 0 {
            let mut bytes = [0; 4096];
            let count = read(&self.master, &mut bytes).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    /// Reads until `text` has come.
    fn sees(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            assert!(Instant::now() < until, "waited for {text:?}, saw {:?}", self.seen);
            self.take();
        }
        let at = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..at);
    }

    /// Waits until a statement runs: the editor has then given the terminal back.
    fn waits_until_it_runs(&mut self) {
        let until = Instant::now() + PATIENCE;
        while !tcgetattr(&self.slave).unwrap().local_flags.contains(LocalFlags::ICANON) {
            assert!(Instant::now() < until, "saw {:?}", self.seen);
            self.take();
        }
    }

    /// Waits for the end; the terminal must be as it was.
    fn ends(mut self) -> i32 {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "saw {:?}", self.seen);
            self.take();
        };
        assert_eq!(tcgetattr(&self.slave).unwrap(), self.before);
        status.code().unwrap_or(-1)
    }
}

#[test]
fn a_person_types_and_sees_values_and_errors() {
    let mut p = person(&[]);
    p.types("6 * 7\r");
    p.sees("\r\n42\r\n");
    p.sees(">>> ");
    p.types("1 / 0\r");
    p.sees("Division by zero");
    p.sees(">>> ");
    // A block goes on, indented, until an empty line.
    p.types("each i in [1, 2]\r");
    p.sees("...     ");
    p.types("print(`item {i}`)\r");
    p.sees("...     ");
    p.types("\r");
    p.sees("item 1\r\nitem 2\r\n");
    p.sees(">>> ");
    p.types("\u{4}");
    assert_eq!(p.ends(), 0);
}

#[test]
fn an_interrupt_ends_what_runs_and_what_is_typed_but_not_the_conversation() {
    let mut p = person(&[]);
    p.types("let n be 0\r");
    p.sees(">>> ");
    for endless in ["while true\nset n to n + 1\n", "sleep(1000)", "wait_for \"x\" timeout 1000"] {
        for (i, line) in endless.split('\n').enumerate() {
            if i > 0 {
                p.sees("... ");
            }
            p.types(&format!("{line}\r"));
        }
        p.waits_until_it_runs();
        p.sees("\r\n");
        // Until it runs in earnest an interrupt is only the editor's.
        let until = Instant::now() + PATIENCE;
        while !p.seen.contains("cancelled: interrupted") {
            assert!(Instant::now() < until, "saw {:?}", p.seen);
            p.types("\u{3}");
            let pause = Instant::now() + Duration::from_millis(300);
            while Instant::now() < pause && !p.seen.contains("cancelled") {
                p.take();
            }
        }
        p.sees("cancelled: interrupted");
        p.sees(">>> ");
    }
    // What was begun is given up.
    p.types("let half be [1,\u{3}");
    p.sees(">>> ");
    p.types("n > 0\r");
    p.sees("true\r\n");
    p.sees(">>> ");
    p.types("exit(5)\r");
    assert_eq!(p.ends(), 5);
}

#[test]
fn lines_are_remembered_and_a_program_can_ask() {
    let mut p = person(&[]);
    p.types("require stdin\r");
    p.sees(">>> ");
    p.types("let name be read_line(\"who?\")\r");
    p.sees("who?\r\n");
    p.types("Ana\r");
    p.sees(">>> ");
    p.types("`hello {name}`\r");
    p.sees("\"hello Ana\"");
    p.sees(">>> ");
    // The arrow up brings the last entry back, not what was typed to the program.
    p.types("\u{1b}[A\r");
    p.sees("\"hello Ana\"");
    p.sees(">>> ");
    p.types("\u{4}");
    assert_eq!(p.ends(), 0);
}

#[test]
fn the_terminal_is_given_back_when_a_limit_ends_the_conversation() {
    let p = person(&["--wall", "1s"]);
    assert_eq!(p.ends(), 124);
}

#[test]
fn errors_are_told_whether_anything_may_be_printed_or_not() {
    let input = "undefined_thing\n1 + 1\nprint(3)\neprint(4)\n";
    let (code, out, err) = piped(&["--cap-set", "none", "--audit", "audit.jsonl"], input);
    assert_eq!((code, out.as_str()), (0, ""), "{err}");
    let (code, out, told) = piped(&["--sandbox"], input);
    assert_eq!((code, out.as_str()), (0, "2\n3\n"), "{told}");
    let undefined =
        "Runtime error: <repl:1>:1:1: Undefined variable: 'undefined_thing'\n 1 | undefined_thing\n   | ^\n";
    assert_eq!(told, format!("{undefined}4\n"));
    assert!(err.starts_with(undefined), "{err}");
    assert_eq!(err.matches("Capability not granted: stdout").count(), 2, "{err}");
    // One act, one entry: the gate's.
    let (_, _, entries) = piped(&["--cap-set", "none", "--audit", "json"], "1 + 1\nprint(3)\n");
    assert_eq!(entries.matches("print()").count(), 1, "{entries}");
    assert!(!entries.contains("\"supervisor\""), "{entries}");
}
