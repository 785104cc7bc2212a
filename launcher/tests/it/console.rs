//! A run on a terminal that a test plays the person at.

use crate::{
    program::program,
    run::{Outcome, Run},
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    pty::{Winsize, openpty},
    sys::termios::{Termios, tcgetattr},
    unistd::{Pid, read, write},
};
use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

pub(crate) const SIZE: Winsize = Winsize { ws_row: 33, ws_col: 101, ws_xpixel: 0, ws_ypixel: 0 };
const PATIENCE: Duration = Duration::from_secs(30);

/// What is made of a run's end.
type Told = Box<dyn FnOnce(Output) -> Outcome>;

/// A run with a terminal.
pub(crate) struct Console {
    told: Option<Told>,
    child: Child,
    master: OwnedFd,
    /// Kept open, so that the settings can be looked at to the end.
    pub(crate) slave: OwnedFd,
    seen: String,
    before: Termios,
}

/// A foreign program's.
pub(crate) fn start(run: Run) -> Console {
    Console::of(run.command(), Box::new(move |output| run.outcome(output)))
}

/// One of a language's program, with these options.
pub(crate) fn language(text: &str, options: &[&str]) -> Console {
    let mut given = program(text);
    for pair in options.chunks(2) {
        given = given.with(pair[0], pair[1]);
    }
    let inner = given.command();
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(inner.get_program()).args(inner.get_args());
    command.current_dir(given.at(""));
    let told = move |output: Output| {
        let report = fs::read_to_string(given.at("report.json")).unwrap();
        let report = serde_json::from_str(&report).unwrap();
        Outcome { code: output.status.code(), stdout: output.stdout, stderr: output.stderr, report }
    };
    Console::of(command, Box::new(told))
}

/// A test that fails leaves nothing behind: with the launcher its jail goes.
impl Drop for Console {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _gone = self.child.kill();
            let _collected = self.child.wait();
        }
    }
}

impl Console {
    fn of(inner: Command, told: Told) -> Self {
        let pty = openpty(&SIZE, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        // A session of its own, with this terminal.
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(inner.get_program()).args(inner.get_args());
        if let Some(folder) = inner.get_current_dir() {
            command.current_dir(folder);
        }
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { told: Some(told), child, master: pty.master, slave: pty.slave, seen: String::new(), before }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    pub(crate) fn types(&self, text: &str) {
        write(&self.master, text.as_bytes()).unwrap();
    }

    /// Reads until `text` has come.
    pub(crate) fn sees(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            assert!(Instant::now() < until, "waited for {text:?}, saw {:?}", self.seen);
            self.take();
        }
        let at = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..at);
    }

    /// Types a key again and again until `text` comes: a program that is only just starting misses it.
    pub(crate) fn types_until(&mut self, key: &str, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            assert!(Instant::now() < until, "waited for {text:?}, saw {:?}", self.seen);
            self.types(key);
            let pause = Instant::now() + Duration::from_millis(300);
            while Instant::now() < pause && !self.seen.contains(text) {
                self.take();
            }
        }
        self.sees(text);
    }

    fn take(&mut self) {
        let mut one = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut one, PollTimeout::from(50_u8)).unwrap() > 0 {
            let mut bytes = [0; 4096];
            let count = read(&self.master, &mut bytes).unwrap();
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }

    pub(crate) fn waits_for(&self, what: &str, test: impl Fn(&Self) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !test(self) {
            assert!(Instant::now() < until, "waited for {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end; the settings must be those from before.
    pub(crate) fn ends(mut self) -> Outcome {
        let until = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "saw {:?}", self.seen);
            self.take();
        };
        assert_eq!(tcgetattr(&self.slave).unwrap(), self.before);
        let told = self.told.take().unwrap();
        told(Output { status, stdout: Vec::new(), stderr: Vec::new() })
    }
}
