//! Signals to the launcher reach the program, and a stop ends within its grace.

use crate::run::{Outcome, Run, script};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use policies::report::Verdict;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

/// A run whose script has printed its first line.
struct Started {
    run: Run,
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

fn start(run: Run) -> Started {
    let mut child = run.spawn();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Started { run, child, output }
}

impl Started {
    fn send(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    fn finish(mut self) -> (Outcome, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.run.outcome(self.child.wait_with_output().unwrap()), rest)
    }
}

#[test]
fn a_program_that_dies_of_the_stop_was_stopped() {
    let stops = [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
        (Signal::SIGALRM, 142),
        (Signal::SIGXCPU, 152),
        (Signal::SIGIO, 157),
    ];
    for (signal, code) in stops {
        let started = start(script("echo ready; exec sleep 60"));
        started.send(signal);
        let (outcome, _) = started.finish();
        assert_eq!((outcome.report.status, outcome.code), (Verdict::Stopped, Some(code)));
        assert_eq!(outcome.report.signal, Some(signal as i32));
    }
}

#[test]
fn a_program_that_ends_by_itself_when_asked_has_its_own_end() {
    let asked = |code: u8| {
        let started =
            start(script(&format!("trap 'exit {code}' TERM; echo ready; while :; do sleep 0.05; done")));
        started.send(Signal::SIGTERM);
        started.finish().0
    };
    assert_eq!((asked(0).report.status, asked(0).code), (Verdict::Ok, Some(0)));
    assert_eq!((asked(5).report.status, asked(5).code), (Verdict::Nonzero, Some(5)));
}

#[test]
fn a_program_that_does_not_end_is_killed_after_its_grace() {
    let started =
        start(script("trap '' TERM; echo ready; while :; do sleep 0.05; done").with("--grace 400ms"));
    let asked = Instant::now();
    started.send(Signal::SIGTERM);
    let (outcome, _) = started.finish();
    assert!(asked.elapsed() >= Duration::from_millis(400));
    assert_eq!((outcome.report.status, outcome.code), (Verdict::Stopped, Some(143)));
}

#[test]
fn a_second_stop_does_not_wait_for_the_grace() {
    let run = script("trap 'echo asked' TERM; echo ready; while :; do sleep 0.05; done").with("--grace 100s");
    let mut started = start(run);
    started.send(Signal::SIGTERM);
    let mut line = String::new();
    started.output.read_line(&mut line).unwrap();
    assert_eq!(line, "asked\n");
    let asked = Instant::now();
    started.send(Signal::SIGTERM);
    let (outcome, _) = started.finish();
    assert!(asked.elapsed() < Duration::from_secs(50));
    assert_eq!((outcome.report.status, outcome.code), (Verdict::Stopped, Some(143)));
}

#[test]
fn other_signals_are_passed_on() {
    let traps = "trap 'echo usr1' USR1; trap 'echo usr2; exit 0' USR2; trap 'echo hup' HUP";
    let mut started = start(script(&format!("{traps}; echo ready; while :; do sleep 0.05; done")));
    for (signal, name) in [(Signal::SIGUSR1, "usr1\n"), (Signal::SIGHUP, "hup\n")] {
        started.send(signal);
        let mut line = String::new();
        started.output.read_line(&mut line).unwrap();
        assert_eq!(line, name);
    }
    started.send(Signal::SIGUSR2);
    let (outcome, rest) = started.finish();
    assert_eq!((outcome.report.status, rest.as_str()), (Verdict::Ok, "usr2\n"));
}

#[test]
fn a_signal_that_the_caller_ignores_stays_ignored() {
    let run = script("echo ready; sleep 0.5; echo still here");
    let mut command = std::process::Command::new("nohup");
    // Behind `env`, which would put the signal back.
    let inner = run.command();
    command.args(inner.get_args().skip_while(|word| word.to_string_lossy().starts_with("--default-signal")));
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let started = Started { run, child, output };
    started.send(Signal::SIGHUP);
    let (outcome, rest) = started.finish();
    assert_eq!((outcome.report.status, rest.as_str()), (Verdict::Ok, "still here\n"));
}

#[test]
fn a_jail_can_not_stop_its_launcher() {
    let started = start(script("echo ready; kill -STOP 0; sleep 60").with("--wall 700ms"));
    let (outcome, _) = started.finish();
    assert_eq!(outcome.report.status, Verdict::WallTime);
}

#[test]
fn a_killed_launcher_takes_its_jail_along() {
    let mut started = start(script("echo ready; exec sleep 4747"));
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    let gone = || {
        let found = std::process::Command::new("pgrep").args(["-fx", "sleep 4747"]).output().unwrap();
        found.stdout.is_empty()
    };
    let until = Instant::now() + Duration::from_secs(20);
    while !gone() {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
    // Its groups are what `doctor` removes.
    let _removed = launcher::cgroup::sweep();
}
