//! `term_*`: the caller's terminal key by key, and as it was afterwards.

use crate::console::{Console, language};
use nix::sys::{
    signal::{Signal, kill},
    termios::{LocalFlags, OutputFlags, tcgetattr},
};
use policies::report::Verdict;

/// Reads keys until `q`, and tells each.
const KEYS: &str = r#"require stdin
let t be term_open()
let s be term_size(t)
print(type_of(t), s.columns, s.rows)
let open be true
while open
    let k be term_read(t, 30)
    print(k.key, k.ctrl, k.alt, k.shift)
    set open to k.key != "q"
"#;

fn takes_keys(console: &Console) -> bool {
    let flags = tcgetattr(&console.slave).unwrap().local_flags;
    !flags.intersects(LocalFlags::ICANON | LocalFlags::ECHO) && flags.contains(LocalFlags::ISIG)
}

#[test]
fn keys_are_read_one_by_one_and_the_terminal_is_as_before() {
    let mut console = language(KEYS, &[]);
    console.sees("terminal 101 33\r\n");
    assert!(takes_keys(&console));
    assert!(tcgetattr(&console.slave).unwrap().output_flags.contains(OutputFlags::OPOST));
    for (typed, seen) in [
        ("a", "a false false false"),
        ("é", "é false false false"),
        ("\r", "enter false false false"),
        ("\u{1}", "a true false false"),
        ("\u{1b}[A", "up false false false"),
        ("\u{1b}[1;5C", "right true false false"),
        ("\u{1b}x", "x false true false"),
        ("\u{1b}", "escape false false false"),
        ("\u{1b}[3~\u{7f}", "delete false false false\r\nbackspace false false false"),
        ("q", "q false false false"),
    ] {
        console.types(typed);
        console.sees(&format!("{seen}\r\n"));
    }
    assert!(console.ends().report.ok);
}

#[test]
fn it_is_closed_written_to_and_opened_again() {
    let program = r#"require stdin
let t be term_open()
term_write(t, "ESC[1mname: ")
print(term_read(t, 0), term_close(t), term_close(t))
try
    term_read(t)
recover e
    print(e)
print("line?")
print(read_line())
let again be term_open()
print(again == t, select([again], 0))
print(select([again], 30) == [again], term_read(again).key)
let twice be term_open()
print(twice == again, term_size(twice).columns)
print(term_read(twice, 30).key)
"#;
    let mut console = language(&program.replace("ESC", "\u{1b}"), &[]);
    console.sees(
        "\u{1b}[1mname: {kind: nothing, key: \"\", ctrl: false, alt: false, shift: false} true false\r\n",
    );
    console.sees("term_read: the terminal is closed\r\n");
    console.sees("line?\r\n");
    assert!(!takes_keys(&console));
    console.types("hello\r");
    console.sees("hello\r\nhello\r\n");
    console.sees("true []\r\n");
    assert!(takes_keys(&console));
    console.types("x");
    console.sees("true x\r\n");
    // Opened once more it is what it was: keys still come one by one, and aren't shown.
    console.sees("true 101\r\n");
    assert!(takes_keys(&console));
    console.types("y");
    console.sees("y\r\n");
    assert!(console.ends().report.ok);
}

#[test]
fn a_line_is_not_waited_for_among_keys() {
    let program = r#"require stdin
let t be term_open()
try
    print(read_line("line?"))
recover e
    print(e)
term_close(t)
print(read_line("line?"))
term_open()
let sure be approve "sure"
eprint(sure)
"#;
    let mut console = language(program, &[]);
    console.sees("read_line: the terminal is open: use term_read, or term_close it before\r\n");
    console.sees("line?\r\n");
    console.types("hello\r");
    console.sees("hello\r\nhello\r\n");
    console.sees("approve: nobody can be asked here; denied\r\nfalse\r\n");
    assert!(console.ends().report.ok);
}

#[test]
fn however_it_ends_the_terminal_is_given_back() {
    // An interrupt is the launcher's, whatever the program wants.
    let mut console = language(KEYS, &[]);
    console.sees("terminal 101 33");
    console.types("\u{3}");
    let left = console.ends();
    assert_eq!(left.report.status, Verdict::Stopped, "{:?}", left.report);
    // A signal, and a limit.
    let mut console = language(KEYS, &[]);
    console.sees("terminal 101 33");
    kill(console.pid(), Signal::SIGTERM).unwrap();
    assert_eq!(console.ends().report.status, Verdict::Stopped);
    let program = "require stdin\nlet t be term_open()\nprint(\"open\")\nwhile true\n    let x be 1\n";
    let mut console = language(program, &["--cpu", "300ms"]);
    console.sees("open");
    assert_eq!(console.ends().report.status, Verdict::CpuTime);
    // An error of the program, and its own end.
    let mut console = language("require stdin\nlet t be term_open()\nprint(1 / 0)\n", &[]);
    console.sees("Division by zero");
    assert_eq!(console.ends().report.status, Verdict::Nonzero);
}

#[test]
fn without_the_input_or_without_a_terminal_there_is_none() {
    let program = "try\n    print(term_open())\nrecover e\n    print(e)\n";
    let mut console = language(program, &["--cap-set", "stdout"]);
    console.sees("Capability not granted: stdin");
    assert!(console.ends().report.ok);
    // Required, but above the ceiling.
    let mut console = language(&format!("require stdin\n{program}"), &["--cap-set", "stdout"]);
    console.sees("above the host ceiling");
    assert!(console.ends().report.ok);
    let with = format!("require stdin\n{program}");
    let mut console = language(&with, &["--cap-set", "stdout,stdin"]);
    console.sees("terminal\r\n");
    assert!(console.ends().report.ok);
    let mut console = language(&with, &["--profile", "pure"]);
    console.sees("nothing\r\n");
    assert!(console.ends().report.ok);
    let report = crate::program::program(&with).go();
    assert_eq!(report.output, ["nothing"], "{:?}", report.errors);
    // A use needs what its opening needed.
    let program = "require stdin\nlet t be term_open()\neach use in [() => term_read(t, 0), () => term_size(t), () => term_write(t, \"x\"), () => select([t], 0)]\n    \
                   try\n        sandbox use()\n        print(\"used\")\n    recover e\n        print(contains(e, \"Capability not granted: stdin\"))\n";
    let mut console = language(program, &[]);
    console.sees("true\r\ntrue\r\ntrue\r\ntrue\r\n");
    assert!(console.ends().report.ok);
}
