//! A child's supervisor, from its fork to its end.
//!
//! Invariant: one that is dropped is ended first, with everything in its jail.

use super::{child::Kept, files::No};
use crate::sys::{pidfd, socket};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        resource::{UsageWho, getrusage},
        signal::Signal,
        time::TimeVal,
        wait::{Id, WaitPidFlag, waitid},
    },
};
use policies::{
    audit::Entry,
    broker::{Exited, Ran},
    capability::Capability,
};
use std::{
    fs::File,
    io::{Read, Seek},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

/// How long those may take together that are asked to end.
pub(super) const MOST_STOPPING: Duration = Duration::from_secs(2);

/// A child that runs.
#[derive(Debug)]
pub(super) struct Running {
    /// What it may use.
    pub(super) kept: Kept,
    /// Tokens of models that it may use, where they are limited.
    tokens: Option<u64>,
    supervisor: OwnedFd,
    started: OwnedFd,
    /// Its jail's init, once its supervisor has told.
    init: Option<OwnedFd>,
    result: OwnedFd,
    reaped: bool,
}

/// What a child left behind.
#[derive(Debug)]
pub(super) struct Spent {
    /// A [`Ran`] or an [`Exited`].
    pub(super) json: Vec<u8>,
    pub(super) fuel: u64,
    /// Tokens of models.
    pub(super) tokens: u64,
}

/// How far a start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// Nobody knows yet.
    Pending,
    /// It runs, or has run.
    Done,
    /// It will never run.
    Failed,
}

impl Running {
    pub(super) fn new(
        (kept, tokens): (Kept, Option<u64>),
        supervisor: OwnedFd,
        started: OwnedFd,
        result: OwnedFd,
    ) -> Self {
        Self { kept, tokens, supervisor, started, init: None, result, reaped: false }
    }

    /// Readable when the child's supervisor has ended.
    pub(super) fn ended(&self) -> BorrowedFd<'_> {
        self.supervisor.as_fd()
    }

    /// Readable when its supervisor has told that the child runs, or that it never will.
    pub(super) fn started(&self) -> BorrowedFd<'_> {
        self.started.as_fd()
    }

    /// Whether it runs.
    pub(super) fn start(&mut self) -> Start {
        if self.init.is_some() {
            return Start::Done;
        }
        if !is_there(self.started.as_fd(), PollFlags::POLLIN) {
            return Start::Pending;
        }
        self.take_init();
        if self.init.is_some() { Start::Done } else { Start::Failed }
    }

    /// Signals its supervisor, which passes it on.
    pub(super) fn signal(&self, signal: Signal) {
        // ESRCH: it has ended.
        let _gone = pidfd::send_signal(self.supervisor.as_fd(), signal);
    }

    /// Collects it, and gives the processor time of its supervisor and of all that this one has collected.
    ///
    /// Source: getrusage(2), RUSAGE_CHILDREN: nothing else is collected meanwhile.
    pub(super) fn spent(&mut self) -> Duration {
        Self::measured(|| self.collect())
    }

    /// The same for one that may still run: it is ended first, with everything in its jail.
    pub(super) fn end(&mut self) -> Duration {
        Self::measured(|| self.finish())
    }

    fn measured(collect: impl FnOnce()) -> Duration {
        let collected = || {
            let of = |time: TimeVal| {
                let (seconds, micros) = (u64::try_from(time.tv_sec()), u64::try_from(time.tv_usec()));
                Duration::from_secs(seconds.unwrap_or(0)) + Duration::from_micros(micros.unwrap_or(0))
            };
            let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
            usage.map_or(Duration::ZERO, |usage| of(usage.user_time()) + of(usage.system_time()))
        };
        let before = collected();
        collect();
        collected().saturating_sub(before)
    }

    /// What a program left behind. Its audit goes to this jail's: the host knows what a program's child did, whatever the
    /// program makes of it.
    pub(super) fn ran(mut self, tell: &mut dyn FnMut(Entry)) -> Result<Spent, No> {
        let ran = match serde_json::from_slice::<Result<Ran, String>>(&self.told()?) {
            Ok(Ok(ran)) => {
                ran.audit.iter().cloned().map(of_child).for_each(tell);
                ran
            }
            Ok(Err(why)) => return Err(No::misuse(why)),
            // It was killed: by the kernel, for memory that this jail's group counts too.
            Err(_) => {
                tell(untold());
                Ran {
                    ok: false,
                    output: Vec::new(),
                    errors: vec!["run_program: the child's supervisor was killed".to_owned()],
                    audit: Vec::new(),
                    exit: None,
                    timed_out: false,
                    // It couldn't say: it counts as if it had used all.
                    llm_tokens: self.tokens.unwrap_or(0),
                    fuel: 0,
                }
            }
        };
        let json = serde_json::to_vec(&ran).map_err(|_| No::kernel(Errno::EINVAL))?;
        Ok(Spent { json, fuel: ran.fuel, tokens: ran.llm_tokens })
    }

    /// How a command ended; its audit goes to this jail's. `None`: its supervisor was killed.
    pub(super) fn exited(mut self, tell: &mut dyn FnMut(Entry)) -> Result<Option<Exited>, No> {
        let bytes = self.told()?;
        let exited = serde_json::from_slice::<Result<Exited, String>>(&bytes);
        // What a command printed is held twice at most.
        drop(bytes);
        match exited {
            Ok(Ok(mut exited)) => {
                std::mem::take(&mut exited.audit).into_iter().for_each(tell);
                Ok(Some(exited))
            }
            Ok(Err(why)) => Err(No::misuse(why)),
            Err(_) => Ok(None),
        }
    }

    fn told(&mut self) -> Result<Vec<u8>, No> {
        self.collect();
        let mut file = File::from(self.result.try_clone().map_err(|_| No::kernel(Errno::EMFILE))?);
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|_| No::kernel(Errno::EIO))?;
        Ok(bytes)
    }

    /// Asks it to end before its time, with its jail, and to tell what it has. Whether it did.
    pub(super) fn stop(&self) -> bool {
        self.ask_to_end();
        self.ends_by(Instant::now() + MOST_STOPPING)
    }

    /// The asking alone.
    pub(super) fn ask_to_end(&self) {
        // A second stop doesn't wait until the program has ended by itself.
        for stop in [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
            self.signal(stop);
        }
    }

    /// Whether it has ended by then; waits for that.
    pub(super) fn ends_by(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let mut over = [PollFd::new(self.supervisor.as_fd(), PollFlags::POLLIN)];
        poll(&mut over, timeout) == Ok(1)
    }

    /// Ends it at once. What it would have told is lost.
    pub(super) fn kill(&self) {
        self.signal(Signal::SIGKILL);
    }

    /// Waits for the child's supervisor, which has ended or was killed.
    fn collect(&mut self) {
        if !self.reaped {
            self.reaped = true;
            while waitid(Id::PIDFd(self.supervisor.as_fd()), WaitPidFlag::WEXITED) == Err(Errno::EINTR) {}
        }
    }

    /// Ends the child's jail, and waits until it is gone.
    fn finish(&mut self) {
        if self.reaped {
            return;
        }
        self.kill();
        self.collect();
        // Its supervisor is dead, so what it had to tell is there; the end of the channel comes after it.
        if self.init.is_none() {
            self.take_init();
        }
        if let Some(init) = &self.init {
            // ESRCH: it has ended.
            let _gone = pidfd::send_signal(init.as_fd(), Signal::SIGKILL);
            let mut gone = [PollFd::new(init.as_fd(), PollFlags::POLLIN)];
            let _waited = poll(&mut gone, PollTimeout::from(2000_u16));
        }
    }

    fn take_init(&mut self) {
        let mut message = [0; 1];
        if let Ok((1, descriptors)) = socket::receive(self.started.as_fd(), &mut message)
            && let Ok([init]) = <[OwnedFd; 1]>::try_from(descriptors)
        {
            self.init = Some(init);
        }
    }
}

impl Drop for Running {
    /// Ends the child's jail, and waits until it is gone.
    fn drop(&mut self) {
        self.finish();
    }
}

/// What stands before the context of a child's entry.
pub(crate) const CHILD: &str = "child:";

/// A child's entry, as it stands in the audit of the jail that started it.
fn of_child(entry: Entry) -> Entry {
    Entry { context: format!("{CHILD}{}", entry.context), ..entry }
}

/// What stands there in the place of entries that are lost.
pub(super) fn untold() -> Entry {
    of_child(Entry {
        source: "run_program()".to_owned(),
        reason: "its supervisor was killed: what it did before isn't known".to_owned(),
        ..super::denial(Capability::SandboxRun.name().to_owned(), "audit".to_owned())
    })
}

/// Whether one of these, or an end, is there now.
pub(super) fn is_there(file: BorrowedFd<'_>, flags: PollFlags) -> bool {
    let mut one = [PollFd::new(file, flags)];
    poll(&mut one, PollTimeout::ZERO) == Ok(1)
}
