//! Processes that go on beside the program that started them.
//!
//! Each is a command in a jail of its own, decided on as any other ([`Children`]). The program has its number alone; its
//! streams end here. Nothing of them is kept here while it runs: what the program doesn't read stays in a pipe, and the
//! process waits when that is full.
//!
//! Invariant: so many run at once and so many are known, whatever the program does, and all of them end with it.
//! Invariant: no answer waits for a process but that to a start and to a wait ([`awaiting`](super::awaiting)), and both of them end.

use super::{
    Reply,
    child::{Caller, Children, CommandStreams, Kept},
    files::No,
    running::{MOST_STOPPING, Running, Start, is_there, untold},
};
use crate::sys::winsize;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl},
    poll::PollFlags,
    pty::{OpenptyResult, Winsize, openpty},
    sys::{
        signal::Signal as Number,
        termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr},
    },
    unistd::{pipe2, read, write},
};
use policies::{
    audit::Entry,
    broker::{Answer, Exited, MOST_PIECE},
    process::{Act, Awaited, MOST_KNOWN, MOST_RUNNING, Signal, Spawn, Stream, What, Window},
};
use std::{
    collections::BTreeMap,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// Of each stream, what is kept of an ended process that nobody has read yet: more than a pipe holds.
const MOST_LEFT: usize = 256 << 10;
/// How long a killed process's supervisor may take to tell of it.
const MOST_KILLING: Duration = Duration::from_secs(3);
/// ^D: the end of what is typed.
const END_OF_FILE: u8 = 4;

/// The processes of one program.
#[derive(Debug, Default)]
pub(super) struct Processes {
    all: BTreeMap<u32, Process>,
    last: u32,
    pending: Option<Pending>,
    /// Processor time of those that were stopped.
    spent: Duration,
}

/// A start that is answered later.
#[derive(Debug)]
struct Pending {
    id: u32,
    number: u32,
}

#[derive(Debug)]
struct Process {
    /// Until its end was seen.
    running: Option<Running>,
    input: Option<OwnedFd>,
    output: Drain,
    errors: Drain,
    has_terminal: bool,
    exited: Option<Exited>,
    /// When it is ended without another word.
    kill_at: Option<Instant>,
}

/// Where a stream of a process comes from.
#[derive(Debug, Default)]
struct Drain {
    from: Option<OwnedFd>,
    /// What is left of it once that is closed.
    left: Vec<u8>,
}

impl Drain {
    fn of(file: OwnedFd) -> Self {
        Self { from: Some(file), left: Vec::new() }
    }

    /// What is there, at most a message full of it, and whether that was all.
    fn take(&mut self) -> Result<(Vec<u8>, bool), No> {
        if let Some(from) = &self.from {
            let mut bytes = vec![0; MOST_PIECE];
            match read(from, &mut bytes) {
                Ok(0) | Err(Errno::EIO) => self.from = None,
                Ok(count) => {
                    bytes.truncate(count);
                    return Ok((bytes, false));
                }
                Err(Errno::EAGAIN | Errno::EINTR) => return Ok((Vec::new(), false)),
                Err(errno) => return Err(No::kernel(errno)),
            }
        }
        let bytes = self.left.drain(..self.left.len().min(MOST_PIECE)).collect();
        Ok((bytes, self.left.is_empty()))
    }

    /// Keeps what is there and takes no more.
    fn close(&mut self) {
        let Some(from) = self.from.take() else { return };
        let mut piece = vec![0; MOST_PIECE];
        while self.left.len() < MOST_LEFT {
            match read(&from, &mut piece) {
                Ok(count) if count > 0 => self.left.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
    }

    /// Whether there is something to read.
    fn has_more(&self) -> bool {
        !self.left.is_empty()
            || self.from.as_ref().is_some_and(|from| is_there(from.as_fd(), PollFlags::POLLIN))
    }

    fn is_over(&self) -> bool {
        self.from.is_none() && self.left.is_empty()
    }
}

impl Process {
    fn is(&self, what: What) -> bool {
        match what {
            What::Output => {
                let (output, errors) = (&self.output, &self.errors);
                output.has_more() || errors.has_more() || (output.is_over() && errors.is_over())
            }
            What::Room => self.input.as_ref().is_none_or(|input| is_there(input.as_fd(), PollFlags::POLLOUT)),
            What::End => self.running.is_none(),
            What::Arrival | What::Outlet => true,
        }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<usize, No> {
        let Some(input) = &self.input else { return Err(No::misuse("it takes no more input")) };
        match write(input, bytes) {
            Ok(count) => Ok(count),
            Err(Errno::EAGAIN | Errno::EINTR) => Ok(0),
            Err(_gone) => {
                self.input = None;
                Err(No::misuse("it takes no more input"))
            }
        }
    }

    fn end_input(&mut self) {
        if let Some(input) = &self.input
            && self.has_terminal
        {
            // A terminal has no end; whoever reads it is told by this. With no room left nobody reads.
            let _told = write(input, &[END_OF_FILE]);
            return;
        }
        self.input = None;
    }

    fn signal(&mut self, signal: Signal, now: Instant) {
        let Some(running) = &self.running else { return };
        match signal {
            Signal::Term => running.signal(Number::SIGTERM),
            Signal::Int => running.signal(Number::SIGINT),
            Signal::Hup => running.signal(Number::SIGHUP),
            Signal::Usr1 => running.signal(Number::SIGUSR1),
            Signal::Usr2 => running.signal(Number::SIGUSR2),
            Signal::Kill => {
                // The first asks, the second ends it and lets its supervisor tell; nobody waits for its output there.
                running.signal(Number::SIGTERM);
                running.signal(Number::SIGINT);
                self.kill_at = now.checked_add(MOST_KILLING);
                self.input = None;
                self.output.close();
                self.errors.close();
            }
        }
    }

    fn resize(&self, window: Window) -> Result<(), No> {
        let (Some(input), true) = (&self.input, self.has_terminal) else {
            return Err(No::misuse("it has no terminal"));
        };
        winsize::set(input.as_fd(), size(window)).map_err(No::kernel)?;
        if let Some(running) = &self.running {
            running.signal(Number::SIGWINCH);
        }
        Ok(())
    }

    /// Its supervisor has ended: what it left is kept, and nothing is open any more.
    fn ended(&mut self, tell: &mut dyn FnMut(Entry)) -> Result<(), No> {
        let Some(running) = self.running.take() else { return Ok(()) };
        let was_killed = self.kill_at.take().is_some();
        self.input = None;
        self.output.close();
        self.errors.close();
        let mut exited = running.exited(tell)?.unwrap_or_else(killed);
        // Its supervisor tells of the signals that it was asked with, which aren't the program's.
        if was_killed && exited.ended.is_some() && !exited.timed_out {
            exited.exit_code = killed().exit_code;
        }
        self.exited = Some(exited);
        Ok(())
    }
}

impl Processes {
    /// Whether an answer is still due.
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// What is kept free for those that run.
    pub(super) fn kept(&self) -> Kept {
        self.running().fold(Kept::default(), |all, running| all.and(running.kept))
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.all.values().filter_map(|process| process.running.as_ref())
    }

    /// Starts one; the answer comes when it runs.
    pub(super) fn spawn(
        &mut self,
        id: u32,
        spawn: Spawn,
        children: &Children,
        caller: Caller<'_>,
    ) -> Result<(), No> {
        if self.running().count() >= MOST_RUNNING {
            return Err(No::limit(format!("{MOST_RUNNING} processes run already: wait for one, or end it")));
        }
        if self.all.len() >= MOST_KNOWN {
            return Err(No::limit(format!("{MOST_KNOWN} processes are open: close those that have ended")));
        }
        let (mut process, streams) = match spawn.terminal {
            None => pipes().map_err(No::kernel)?,
            Some(window) => terminal(window)?,
        };
        process.running = Some(children.begin_command(spawn.command, Vec::new(), streams, caller)?);
        self.last = self.last.wrapping_add(1);
        self.all.insert(self.last, process);
        self.pending = Some(Pending { id, number: self.last });
        Ok(())
    }

    /// Does what is asked of one.
    pub(super) fn act(&mut self, number: u32, act: Act, raw: &[u8]) -> Result<Reply, No> {
        if act == Act::Forget {
            // Dropped: what runs of it ends.
            return self.all.remove(&number).map(|_ended| done()).ok_or_else(unknown);
        }
        let process = self.all.get_mut(&number).ok_or_else(unknown)?;
        match act {
            Act::Feed => Reply::data(&process.feed(raw)?),
            Act::EndInput => {
                process.end_input();
                Ok(done())
            }
            Act::Read(stream) => {
                let drain = match stream {
                    Stream::Output => &mut process.output,
                    Stream::Errors => &mut process.errors,
                };
                let (raw, ended) = drain.take()?;
                Ok(Reply { raw, ..Reply::of(Answer::Piece { ended }) })
            }
            Act::Look => Reply::data(&process.exited),
            Act::Signal(signal) => {
                process.signal(signal, Instant::now());
                Ok(done())
            }
            Act::Resize(window) => process.resize(window).map(|()| done()),
            Act::Forget => Ok(done()),
        }
    }

    /// What to poll.
    pub(super) fn watched<'a>(&'a self, each: &mut dyn FnMut(BorrowedFd<'a>, PollFlags)) {
        self.running().for_each(|running| each(running.ended(), PollFlags::POLLIN));
        let begun = self.pending.as_ref().and_then(|pending| self.all.get(&pending.number));
        let begun = begun.and_then(|process| process.running.as_ref());
        begun.into_iter().for_each(|running| each(running.started(), PollFlags::POLLIN));
    }

    /// What to poll for one that is waited for.
    pub(super) fn watch<'a>(&'a self, awaited: &Awaited, each: &mut dyn FnMut(BorrowedFd<'a>, PollFlags)) {
        let Some(process) = self.all.get(&awaited.number) else { return };
        match awaited.what {
            What::Output => {
                let from = [&process.output.from, &process.errors.from];
                from.into_iter().flatten().for_each(|from| each(from.as_fd(), PollFlags::POLLIN));
            }
            What::Room => process.input.iter().for_each(|input| each(input.as_fd(), PollFlags::POLLOUT)),
            What::End | What::Arrival | What::Outlet => {}
        }
    }

    /// Whether it is there; a process that nobody knows is.
    pub(super) fn is(&self, awaited: &Awaited) -> bool {
        self.all.get(&awaited.number).is_none_or(|process| process.is(awaited.what))
    }

    /// When something is due by the clock.
    pub(super) fn until(&self) -> Option<Instant> {
        self.all.values().filter_map(|process| process.kill_at).min()
    }

    /// Something has happened: ends are seen, and a start is answered.
    pub(super) fn turn(
        &mut self,
        now: Instant,
        tell: &mut dyn FnMut(Entry),
        spent: &mut dyn FnMut(Duration),
    ) -> Option<(u32, Result<Reply, No>)> {
        let mut failed = None;
        for (number, process) in &mut self.all {
            let Some(running) = &mut process.running else { continue };
            if is_there(running.ended(), PollFlags::POLLIN) {
                let never = running.start() == Start::Failed;
                spent(running.spent());
                if let Err(no) = process.ended(tell) {
                    process.exited = Some(killed());
                    if never {
                        failed = Some((*number, no));
                    }
                }
            } else if process.kill_at.is_some_and(|at| now >= at) {
                running.kill();
                process.kill_at = None;
            }
        }
        let Pending { id, number } = self.pending.take()?;
        if let Some((_, no)) = failed.filter(|(failed, _)| *failed == number) {
            self.all.remove(&number);
            return Some((id, Err(no)));
        }
        let start = match self.all.get_mut(&number) {
            Some(Process { running: Some(running), .. }) => running.start(),
            Some(_) => Start::Done,
            None => return Some((id, Err(unknown()))),
        };
        if start == Start::Done {
            return Some((id, Reply::data(&number)));
        }
        // The end of one that failed is on its way, and says why.
        self.pending = Some(Pending { id, number });
        None
    }

    /// The program has ended, and so do they: each tells what its program did, and takes its control groups with it.
    pub(super) fn stop(&mut self, tell: &mut dyn FnMut(Entry)) {
        self.running().for_each(Running::ask_to_end);
        let until = Instant::now() + MOST_STOPPING;
        for process in self.all.values_mut() {
            let Some(running) = &mut process.running else { continue };
            if running.ends_by(until) {
                self.spent += running.spent();
                let _nobody_asks = process.ended(tell);
            } else {
                // It is asked once, waited for once, and told of once.
                tell(untold());
                self.spent += running.end();
                process.running = None;
            }
        }
    }

    /// Ends all that still run, and gives the processor time of those that were stopped and ended.
    pub(super) fn end(&mut self) -> Duration {
        self.running().for_each(Running::kill);
        let running = self.all.values_mut().filter_map(|process| process.running.as_mut());
        running.map(Running::end).sum::<Duration>() + std::mem::take(&mut self.spent)
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.end();
    }
}

fn done() -> Reply {
    Reply::of(Answer::Done)
}

fn unknown() -> No {
    No::misuse("there is no such process")
}

/// Of one whose supervisor couldn't tell.
fn killed() -> Exited {
    Exited {
        exit_code: Some(128 + libc::SIGKILL),
        stdout: String::new(),
        stderr: String::new(),
        stdout_truncated: false,
        stderr_truncated: false,
        ended: Some("killed".to_owned()),
        timed_out: false,
        audit: Vec::new(),
    }
}

/// Three pipes: our ends never wait.
fn pipes() -> Result<(Process, CommandStreams), Errno> {
    let pipe = || pipe2(OFlag::O_CLOEXEC);
    let (stdin, input) = pipe()?;
    let (output, stdout) = pipe()?;
    let (errors, stderr) = pipe()?;
    for file in [&input, &output, &errors] {
        never_wait(file)?;
    }
    let process = Process {
        running: None,
        input: Some(input),
        output: Drain::of(output),
        errors: Drain::of(errors),
        has_terminal: false,
        exited: None,
        kill_at: None,
    };
    Ok((process, CommandStreams::Live { stdin, stdout, stderr: Some(stderr), terminal: None }))
}

/// A terminal: the jail has one of its own, and the process's supervisor copies between the two as for a person's.
fn terminal(window: Window) -> Result<(Process, CommandStreams), No> {
    let none = |errno: Errno| No::misuse(format!("this host gives no terminal: {}", errno.desc()));
    let size = size(window);
    let OpenptyResult { master, slave } = openpty(Some(&size), None).map_err(none)?;
    let made = || -> Result<(Process, CommandStreams), Errno> {
        for file in [&master, &slave] {
            fcntl(file, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        // The treatment of what is typed is the inner one's.
        let mut raw = tcgetattr(&slave)?;
        cfmakeraw(&mut raw);
        tcsetattr(&slave, SetArg::TCSANOW, &raw)?;
        never_wait(&master)?;
        let again = |file: &OwnedFd| file.try_clone().map_err(|_| Errno::EMFILE);
        let process = Process {
            running: None,
            input: Some(again(&master)?),
            output: Drain::of(again(&master)?),
            errors: Drain::default(),
            has_terminal: true,
            exited: None,
            kill_at: None,
        };
        let (stdin, stdout) = (again(&slave)?, again(&slave)?);
        Ok((process, CommandStreams::Live { stdin, stdout, stderr: None, terminal: Some(size) }))
    };
    made().map_err(none)
}

fn size(window: Window) -> Winsize {
    Winsize { ws_row: window.rows, ws_col: window.columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// For our own descriptors only.
fn never_wait(file: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    fcntl(file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).map(drop)
}
