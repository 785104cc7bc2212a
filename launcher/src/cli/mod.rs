//! The command line: one module for each command, and the exit codes.

mod apart;
mod args;
mod audit;
mod bundle;
mod child;
mod copy;
mod databases;
pub mod doctor;
mod env_file;
mod exec;
pub mod exit;
mod explain;
mod given;
mod job;
mod keys;
mod launch;
mod lookup;
mod names;
mod repl;
mod report;
mod result_line;
mod run;
mod saving;
mod scua;
mod settings;
mod sources;

use crate::{
    error::Error,
    supervisor,
    sys::{fd, sqlite_clock},
};
use args::Command;
use policies::report::{Report, Verdict};
use std::{
    borrow::Cow,
    io::{self, Write},
};

/// Reads the command line, does what it says, and gives the exit code.
#[must_use]
pub fn main() -> u8 {
    crate::sys::process::steady_heap();
    crate::sys::process::whole_streams();
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == crate::jail::RUNTIME_FLAG) {
        return runtime_process();
    }
    if let Err(error) = keys::take() {
        return finish(Err(error), names::called_as());
    }
    if let Some(bundle) = bundle::own() {
        return finish(
            bundle.and_then(|(header, program)| run::bundled(&header, program)),
            names::Name::Synsema,
        );
    }
    let name = names::called_as();
    let command = match name.parse() {
        Ok(command) => command,
        Err(code) => return code,
    };
    let done = match &command {
        Command::Run(args) => run::run(args),
        Command::Test(args) => run::test(args),
        Command::Check(args) => run::check(args),
        Command::Conform(args) => run::conform(args),
        Command::Build(args) => bundle::build(args),
        Command::Repl(args) => repl::repl(args),
        Command::Exec(args) => exec::exec(args),
        Command::Explain(args) => explain::explain(args),
        Command::Doctor(args) => {
            let format = if args.json { doctor::Format::Json } else { doctor::Format::Page };
            doctor::run(format, &mut io::stdout().lock()).map_err(|source| Error::File {
                act: "write to",
                path: "standard output".into(),
                source,
            })
        }
    };
    finish(done, name)
}

/// The exit code; an error is told first.
fn finish(done: Result<u8, Error>, name: names::Name) -> u8 {
    match done {
        Ok(code) => code,
        Err(error) => {
            complain(&error);
            name.exit_code(&error)
        }
    }
}

/// The jailed process: descriptors 3, 4 and 5 are the job, the frames and the broker, put there before the exec.
fn runtime_process() -> u8 {
    runtime::builtins::mend_clock_with(sqlite_clock::as_of_the_default);
    let broker = fd::own(policies::broker::DESCRIPTOR);
    let code = runtime::worker::run_with(fd::own(3).into(), fd::own(4).into(), Some(broker));
    u8::try_from(code).unwrap_or(exit::LANGUAGE)
}

/// One message: what, where, why, and what to do.
fn complain(error: &Error) {
    let text = format!("{}: failed to {}\n", names::called_as().speaks(), chain(error));
    let _told = io::stderr().write_all(given::printable(&text).as_bytes());
}

/// The error, its causes and its remedy.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    if let Some(help) = error.help() {
        text.push_str("\n  help: ");
        text.push_str(&help);
    }
    text
}

/// Tells of an end that isn't the program's own.
fn tell(report: &Report) {
    if let Some(what) = verdict(report) {
        let name = names::called_as();
        let what = name.as_typed(&what);
        let _told = writeln!(io::stderr(), "{}: {}", name.speaks(), given::printable(&what));
    }
}

/// What ended the program, where that was neither its own doing nor the caller's.
fn verdict(report: &Report) -> Option<Cow<'static, str>> {
    Some(Cow::Borrowed(match report.status {
        Verdict::Ok | Verdict::Nonzero | Verdict::Signal | Verdict::Stopped => return None,
        Verdict::WallTime => "the wall clock limit ended the program (raise it with --wall)",
        Verdict::CpuTime => "the CPU time limit ended the program (raise it with --cpu)",
        Verdict::Memory if supervisor::met_heap(report) => {
            "the heap's limit ended the program (raise it with --memory-heap)"
        }
        Verdict::Memory => "the memory limit ended the program (raise it with --memory)",
        Verdict::Output => "the output limit ended the program (raise it with --output)",
        Verdict::Disk => "the scratch folders were full, and the program failed (raise it with --disk)",
        Verdict::Processes => "the limit on processes was met, and the program failed (raise it with --pids)",
        Verdict::Fuel => "the program ran out of fuel (raise it with --fuel)",
        Verdict::JailFailed => {
            let why = report.errors.first().map_or("", String::as_str);
            return Some(Cow::Owned(format!("the jail failed: {why}")));
        }
    }))
}
