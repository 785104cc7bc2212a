//! Exit codes: one table.
//!
//! | how it ended | code |
//! |---|---|
//! | `ok`, `nonzero` | the program's own |
//! | `signal` | 128 + the signal that killed it |
//! | `wall_time`, `cpu_time` | 124 |
//! | `memory`, `output`, `disk`, `processes` | 137 |
//! | `fuel`, `memory` of the language's heap, and a program that doesn't parse | 1 |
//! | `stopped` | 128 + the signal that the launcher got |
//! | `jail_failed`, and what the launcher refused or was called wrongly with | 125 |
//! | a command that isn't executable | 126 |
//! | a command that doesn't exist | 127 |
//!
//! A program that failed after it met its disk or process limit is `disk` or `processes`, and so 137, whatever its own
//! code was; the report has that one in `exit`.

use crate::supervisor::met_heap;
use policies::report::{Report, Verdict};

/// A time limit ended it.
pub const TIMED_OUT: u8 = 124;
/// The launcher failed, refused, or was called wrongly.
pub const LAUNCHER: u8 = 125;
/// The command can't be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command doesn't exist.
pub const NOT_FOUND: u8 = 127;
/// A limit other than time ended it.
pub const LIMIT: u8 = 137;
/// Out of fuel or heap, or no program of the language.
pub const LANGUAGE: u8 = 1;

/// The launcher's exit code for a run.
#[must_use]
pub fn code(report: &Report) -> u8 {
    let number = |code: Option<i32>| code.and_then(|code| u8::try_from(code).ok());
    match report.status {
        Verdict::Ok => 0,
        Verdict::Nonzero => number(report.exit).unwrap_or(LANGUAGE),
        Verdict::Signal | Verdict::Stopped => {
            number(report.signal.map(|signal| signal.saturating_add(128))).unwrap_or(LIMIT)
        }
        Verdict::WallTime | Verdict::CpuTime => TIMED_OUT,
        Verdict::Memory if met_heap(report) => LANGUAGE,
        Verdict::Memory | Verdict::Output | Verdict::Disk | Verdict::Processes => LIMIT,
        Verdict::Fuel => LANGUAGE,
        Verdict::JailFailed => LAUNCHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policies::report::Usage;

    fn ended(status: Verdict, exit: Option<i32>, signal: Option<i32>) -> u8 {
        code(&Report {
            ok: status == Verdict::Ok,
            status,
            exit,
            signal,
            output: Vec::new(),
            output_replaced: false,
            errors: Vec::new(),
            audit: Vec::new(),
            audit_dropped: 0,
            timed_out: false,
            llm_tokens: 0,
            usage: Usage::default(),
            layers: Vec::new(),
            limits: Vec::new(),
        })
    }

    #[test]
    fn the_table() {
        assert_eq!(ended(Verdict::Ok, Some(0), None), 0);
        assert_eq!(ended(Verdict::Nonzero, Some(255), None), 255);
        assert_eq!(ended(Verdict::Signal, None, Some(6)), 134);
        assert_eq!(ended(Verdict::Stopped, None, Some(15)), 143);
        assert_eq!(ended(Verdict::Fuel, Some(1), None), 1);
        assert_eq!(ended(Verdict::JailFailed, None, None), 125);
        for verdict in [Verdict::WallTime, Verdict::CpuTime] {
            assert_eq!(ended(verdict, None, Some(9)), 124);
        }
        for verdict in [Verdict::Memory, Verdict::Output, Verdict::Disk, Verdict::Processes] {
            assert_eq!(ended(verdict, Some(3), None), 137);
        }
    }
}
