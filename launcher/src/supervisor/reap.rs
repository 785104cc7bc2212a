//! The one cause of death.
//!
//! Precedence, highest first:
//! 1. The jail broke: the runtime's frames made no sense, init was killed by somebody else, or output could not be
//!    written where the caller wanted it (a full disk; a reader that went away is not this).
//! 2. A limit that fired while the program ran. The first one that fired is the cause; what follows from the kill is
//!    not. An exit that can be seen when the clock is looked at was in time: the supervisor may be late, not the program.
//! 3. A limit that is found to have been met when the program has ended: memory (the kernel killed any process of the
//!    tree), processor time, output, in this order. These are exact counts, so that the same program gets the same
//!    verdict however fast it ended.
//! 4. Out of fuel, as the language's machine says.
//! 5. A stop: the launcher got a signal, and the program died of a signal afterwards. A program that ends by itself after
//!    it was asked to has its own code and verdict.
//! 6. Failed after an act that the process limit or the disk limit refused: `processes`, `disk`.
//! 7. The program's own: `ok`, `nonzero` (137 by itself included), `signal`.

use crate::{jail::ExitRecord, sys::wait};
use nix::{errno::Errno, sys::signal::Signal};
use policies::report::Verdict;
use std::os::fd::BorrowedFd;

/// Why the supervisor ended the run, or found that it had to be over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// Memory limit.
    Memory,
    /// The heap's limit of the language's machine.
    Heap,
    /// Processor time limit.
    Cpu,
    /// Wall clock limit.
    Wall,
    /// Output limit.
    Output,
    /// The jail or its runtime broke, and how.
    Broken(String),
}

/// How the payload ended, as far as init could tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Init told.
    Told(ExitRecord),
    /// Init was killed before it could.
    Untold,
}

/// Limits whose act fails inside: whether they were met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Met {
    pub(super) processes: bool,
    pub(super) disk: bool,
}

/// Whether the language's machine ran out of fuel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FuelLeft {
    /// It didn't, or there is none.
    Enough,
    /// It did.
    None,
}

/// All that decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Evidence<'a> {
    pub(super) ending: Ending,
    pub(super) cause: Option<&'a Cause>,
    pub(super) stop: Option<Signal>,
    pub(super) fuel: FuelLeft,
    pub(super) met: Met,
}

/// The verdict with what goes beside it in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) exit: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// Decides.
#[must_use]
pub(super) fn judge(evidence: &Evidence<'_>) -> Judged {
    let (exit, signal) = match evidence.ending {
        Ending::Told(record) => own_end(record.status),
        Ending::Untold => (None, Some(libc::SIGKILL)),
    };
    let judged = |verdict| Judged { verdict, exit, signal };
    match evidence.cause {
        Some(Cause::Memory | Cause::Heap) => return judged(Verdict::Memory),
        Some(Cause::Cpu) => return judged(Verdict::CpuTime),
        Some(Cause::Wall) => return judged(Verdict::WallTime),
        Some(Cause::Output) => return judged(Verdict::Output),
        Some(Cause::Broken(_)) => return judged(Verdict::JailFailed),
        None => {}
    }
    if evidence.fuel == FuelLeft::None {
        return judged(Verdict::Fuel);
    }
    match (evidence.stop, exit, signal) {
        (Some(stop), None, Some(_)) => {
            return Judged { verdict: Verdict::Stopped, exit: None, signal: Some(stop as i32) };
        }
        (None, None, _) if evidence.ending == Ending::Untold => return judged(Verdict::JailFailed),
        _ => {}
    }
    if exit == Some(0) {
        return judged(Verdict::Ok);
    }
    if evidence.met.processes {
        return judged(Verdict::Processes);
    }
    if evidence.met.disk {
        return judged(Verdict::Disk);
    }
    judged(if signal.is_some() { Verdict::Signal } else { Verdict::Nonzero })
}

/// Exit code or signal of a raw wait status.
fn own_end(status: i32) -> (Option<i32>, Option<i32>) {
    if libc::WIFSIGNALED(status) {
        (None, Some(libc::WTERMSIG(status)))
    } else {
        (Some(libc::WEXITSTATUS(status)), None)
    }
}

/// Collects init, whose end was seen on its pidfd. Nothing of the jail is alive after that: the kernel lets the first
/// process of a pid namespace go only after all the others.
///
/// Source: pid_namespaces(7).
pub(super) fn collect(init: BorrowedFd<'_>) {
    // ECHILD: somebody else's child (it was started by the spawner), who then collects it.
    while wait::collect(init) == Err(Errno::EINTR) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn exited(code: i32) -> Ending {
        Ending::Told(ExitRecord { status: code << 8, cpu_us: 0, max_rss_kib: 0 })
    }

    const fn killed(signal: i32) -> Ending {
        Ending::Told(ExitRecord { status: signal, cpu_us: 0, max_rss_kib: 0 })
    }

    fn evidence(ending: Ending) -> Evidence<'static> {
        Evidence { ending, cause: None, stop: None, fuel: FuelLeft::Enough, met: Met::default() }
    }

    fn verdict(evidence: &Evidence<'_>) -> (Verdict, Option<i32>, Option<i32>) {
        let judged = judge(evidence);
        (judged.verdict, judged.exit, judged.signal)
    }

    #[test]
    fn a_program_has_its_own_end() {
        assert_eq!(verdict(&evidence(exited(0))), (Verdict::Ok, Some(0), None));
        assert_eq!(verdict(&evidence(exited(3))), (Verdict::Nonzero, Some(3), None));
        assert_eq!(verdict(&evidence(exited(137))), (Verdict::Nonzero, Some(137), None));
        assert_eq!(verdict(&evidence(killed(6))), (Verdict::Signal, None, Some(6)));
        // With a core file the status has one more bit.
        assert_eq!(verdict(&evidence(killed(6 | 0x80))), (Verdict::Signal, None, Some(6)));
    }

    #[test]
    fn a_limit_comes_before_the_program_s_own_end() {
        for (cause, expected) in [
            (Cause::Memory, Verdict::Memory),
            (Cause::Heap, Verdict::Memory),
            (Cause::Cpu, Verdict::CpuTime),
            (Cause::Wall, Verdict::WallTime),
            (Cause::Output, Verdict::Output),
        ] {
            for ending in [exited(0), killed(9), Ending::Untold] {
                let stop = Some(Signal::SIGTERM);
                let with = Evidence { cause: Some(&cause), stop, ..evidence(ending) };
                assert_eq!(judge(&with).verdict, expected);
            }
        }
    }

    #[test]
    fn refused_acts_matter_only_to_a_run_that_failed() {
        let met = |processes, disk, ending| Evidence { met: Met { processes, disk }, ..evidence(ending) };
        assert_eq!(judge(&met(true, true, exited(0))).verdict, Verdict::Ok);
        assert_eq!(judge(&met(true, false, exited(1))).verdict, Verdict::Processes);
        assert_eq!(judge(&met(false, true, killed(6))).verdict, Verdict::Disk);
    }

    #[test]
    fn a_stop_is_the_cause_only_of_a_death_by_signal() {
        let stopped = |ending| Evidence { stop: Some(Signal::SIGTERM), ..evidence(ending) };
        assert_eq!(verdict(&stopped(killed(15))), (Verdict::Stopped, None, Some(15)));
        assert_eq!(verdict(&stopped(killed(9))), (Verdict::Stopped, None, Some(15)));
        assert_eq!(verdict(&stopped(Ending::Untold)), (Verdict::Stopped, None, Some(15)));
        assert_eq!(verdict(&stopped(exited(0))), (Verdict::Ok, Some(0), None));
        assert_eq!(verdict(&stopped(exited(5))), (Verdict::Nonzero, Some(5), None));
    }

    #[test]
    fn a_killed_init_is_a_broken_jail() {
        assert_eq!(judge(&evidence(Ending::Untold)).verdict, Verdict::JailFailed);
    }
}
