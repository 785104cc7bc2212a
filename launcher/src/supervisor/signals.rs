//! Signals to the launcher: taken in order, passed on, never lost.
//!
//! They are blocked before the jail is made, so that none arrives between; the jail's child gets the old mask back.
//!
//! Invariant: a signal that the caller had ignored (nohup, a shell's background job) stays ignored.
//! Invariant: SIGTTIN and SIGTTOU can't stop the supervisor: a stopped one would hold no limit.
//! Source: signal(7), signalfd(2).

use crate::sys::{disposition, process};
use nix::{
    errno::Errno,
    sys::{
        signal::{SigSet, SigmaskHow, Signal, sigprocmask},
        signalfd::{SfdFlags, SignalFd},
    },
};
use std::{
    cell::Cell,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

/// The first one asks the program to end; the second ends it. All whose default is to end a process, and that somebody may
/// well send: alarms of a wrapper's, the limit on this process's own CPU time, a power failure.
const STOPS: [Signal; 10] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGXCPU,
    Signal::SIGPWR,
    Signal::SIGIO,
];
/// These are passed on.
const PASSED: [Signal; 3] = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH];
/// These are about the terminal.
const JOB: [Signal; 2] = [Signal::SIGTSTP, Signal::SIGCONT];
/// Blocked, and never read.
const DEAF: [Signal; 2] = [Signal::SIGTTIN, Signal::SIGTTOU];

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// End the run.
    Stop(Signal),
    /// Tell the program.
    Pass(Signal),
    /// The window has another size.
    Resize,
    /// Stand still.
    Suspend,
    /// Go on.
    Resume,
}

/// The signals as a descriptor.
#[derive(Debug)]
pub struct SignalSource {
    file: SignalFd,
    before: SigSet,
    /// The mask of this process to go back to.
    own: SigSet,
    late: Late,
    stop: Rc<Cell<Option<Signal>>>,
}

/// What becomes of a signal that came too late for the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Late {
    /// It is dropped: it must not end the launcher before that has told how the run went.
    Dropped,
    /// It does what it does to any process: nothing is to be told yet.
    Taken,
}

/// Blocks the signals that the supervisor handles and opens the descriptor. To be called before the jail is made, in
/// a process with one thread.
///
/// # Errors
/// Those of sigprocmask(2) and signalfd(2).
pub fn block() -> Result<SignalSource, Errno> {
    let mut read = SigSet::empty();
    for signal in STOPS.into_iter().chain(PASSED).chain(JOB) {
        let asks = !STOPS.contains(&signal) || !disposition::is_ignored(signal);
        if asks {
            read.add(signal);
        }
    }
    let mut blocked = read;
    DEAF.into_iter().for_each(|signal| blocked.add(signal));
    let mut before = SigSet::empty();
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&blocked), Some(&mut before))?;
    let file = SignalFd::with_flags(&read, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let own = before;
    // A supervisor's fork has them blocked from the beginning. A program that it starts has none blocked.
    if process::began_blocked() {
        before = SigSet::empty();
    }
    Ok(SignalSource { file, before, own, late: Late::Dropped, stop: Rc::default() })
}

impl SignalSource {
    /// For what is only looked at: a signal that nobody has read by its end is the launcher's own.
    #[must_use]
    pub fn with_late_ones(mut self) -> Self {
        self.late = Late::Taken;
        self
    }

    /// Where the first stop is noted, whatever became of the program.
    #[must_use]
    pub fn noted_stop(&self) -> Rc<Cell<Option<Signal>>> {
        Rc::clone(&self.stop)
    }

    /// The mask from before, for the child to set.
    #[must_use]
    pub fn mask_before(&self) -> &SigSet {
        &self.before
    }

    /// The next signal, if one waits.
    pub(super) fn next(&self) -> Option<Asked> {
        let info = self.file.read_signal().ok()??;
        let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())?;
        Some(match signal {
            Signal::SIGTSTP => Asked::Suspend,
            Signal::SIGCONT => Asked::Resume,
            Signal::SIGWINCH => Asked::Resize,
            signal if STOPS.contains(&signal) => {
                self.stop.set(self.stop.get().or(Some(signal)));
                Asked::Stop(signal)
            }
            signal => Asked::Pass(signal),
        })
    }
}

impl AsFd for SignalSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SignalSource {
    fn drop(&mut self) {
        while self.late == Late::Dropped && self.next().is_some() {}
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.own), None);
    }
}
