//! A jail on a terminal: it has one of its own, and the caller's is as it was afterwards.

use crate::{
    console::{Console, SIZE, start},
    run::script,
};
use nix::{
    pty::openpty,
    sys::{
        signal::{Signal, kill},
        termios::{LocalFlags, tcgetattr},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
};
use policies::report::Verdict;
use std::process::{Command, Stdio};

fn is_raw(console: &Console) -> bool {
    !tcgetattr(&console.slave).unwrap().local_flags.contains(LocalFlags::ICANON)
}

#[test]
fn the_jail_has_a_terminal_of_the_same_size() {
    let mut console = start(script("test -t 0 && test -t 1 && test -t 2 && stty size && tty"));
    console.sees("33 101");
    console.sees("/dev/pts/0");
    assert!(console.ends().report.ok);
}

#[test]
fn what_is_typed_arrives_and_is_echoed_once() {
    let mut console = start(script("echo ready; read line; echo \"got $line\""));
    console.sees("ready");
    console.types("hello\r");
    console.sees("got hello");
    assert!(console.ends().report.ok);
}

#[test]
fn where_the_input_is_not_granted_what_is_typed_stays_with_the_caller() {
    let text = "test -t 0 || echo pi\"\"pe; read line; echo \"got ($line)\"";
    let mut console = start(script(text).with("--cap-set stdout,exec=/usr/bin/*"));
    console.types("password\r");
    console.sees("pipe");
    console.sees("got ()");
    assert!(console.ends().report.ok);
    let mut console = start(script(text).with("--cap-set stdout,stdin,exec=/usr/bin/*"));
    console.types("password\r");
    console.sees("got (password)");
    assert!(console.ends().report.ok);
}

#[test]
fn interrupt_reaches_the_program_and_not_the_launcher() {
    let mut console =
        start(script("trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"));
    console.sees("ready");
    assert!(is_raw(&console));
    console.types("\u{3}");
    console.sees("caught");
    let outcome = console.ends();
    assert_eq!((outcome.report.status, outcome.code), (Verdict::Nonzero, Some(5)));
}

#[test]
fn end_of_file_is_typed_as_ever() {
    let mut console = start(script("echo ready; cat; echo done"));
    console.sees("ready");
    console.types("a line\r\u{4}");
    console.sees("done");
    assert!(console.ends().report.ok);
}

#[test]
fn job_control_works_inside() {
    let mut console = start(script("exec sh -i"));
    console.sees("$ ");
    // The quotes keep the echo of what is typed from being taken for what is printed.
    console.types("sh -c 'echo be\"\"gun; exec sleep 100'\r");
    console.sees("begun");
    console.types_until("\u{1a}", "Stopped");
    // The shell warns once; the job that is stopped then ends with the jail.
    console.types("exit 6\r");
    console.sees("stopped jobs");
    console.types("exit 6\r");
    let outcome = console.ends();
    assert_eq!(outcome.code, Some(6));
}

#[test]
fn a_new_window_size_is_told() {
    let mut console =
        start(script("trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done"));
    console.sees("ready");
    // The person's terminal changes; the kernel tells the launcher, which is in its foreground.
    let status = Command::new("stty")
        .args(["rows", "40", "cols", "99"])
        .stdin(console.slave.try_clone().unwrap())
        .status()
        .unwrap();
    assert!(status.success());
    console.sees("40 99");
    assert!(console.ends().report.ok);
}

#[test]
fn the_terminal_is_given_back_when_the_launcher_is_told_to_end() {
    let mut console = start(script("echo ready; sleep 60"));
    console.sees("ready");
    kill(console.pid(), Signal::SIGTERM).unwrap();
    let outcome = console.ends();
    assert_eq!((outcome.report.status, outcome.code), (Verdict::Stopped, Some(143)));
}

#[test]
fn the_terminal_is_given_back_when_a_limit_ends_the_run() {
    let outcome = start(script("sleep 60").with("--wall 300ms")).ends();
    assert_eq!(outcome.code, Some(124));
}

#[test]
fn a_stopped_launcher_gives_the_terminal_back_and_takes_it_again() {
    let mut console = start(script("echo ready; read line; echo \"got $line\""));
    console.sees("ready");
    kill(console.pid(), Signal::SIGTSTP).unwrap();
    let stopped = waitpid(console.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
    assert!(matches!(stopped, WaitStatus::Stopped(..)), "{stopped:?}");
    assert!(!is_raw(&console));
    kill(console.pid(), Signal::SIGCONT).unwrap();
    console.waits_for("raw settings", is_raw);
    console.types("on\r");
    console.sees("got on");
    assert!(console.ends().report.ok);
}

#[test]
fn output_without_a_terminal_needs_none() {
    // Only the input is one: then the jail gets pipes, and the settings stay.
    let pty = openpty(&SIZE, None).unwrap();
    let run = script("test -t 0 || test -t 1 || echo pipes");
    let output = run.command().stdin(Stdio::from(pty.slave.try_clone().unwrap())).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "pipes\n");
    drop(pty);
}
