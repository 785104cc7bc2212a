//! `thirdwall exec`: any command in a jail.

use super::{
    apart,
    args::ExecArgs,
    audit::Audit,
    copy, databases, exit,
    launch::{self, Extras, Streams},
    lookup::Sockets,
    report::Destination,
    settings,
};
use crate::{error::Error, probe};
use policies::report::{Report, Verdict};
use std::io::{self, Write};

/// Runs the command and gives the exit code.
pub(super) fn exec(args: &ExecArgs) -> Result<u8, Error> {
    apart::of_exec(args)?;
    let request = settings::of_exec(args, launch::terminal(&args.common))?;
    let terminal = request.terminal();
    databases::prepare(&request)?;
    let extras = Extras {
        job: None,
        copy_in: copy::into(&args.copy_in)?,
        copy_out: copy::out_of(&args.copy_out)?,
        terminal: launch::window(terminal)?,
        lending: None,
        started: None,
        state: None,
    };
    let host = probe::fast();
    let plan = launch::plan(&request, &host, Sockets::Skipped)?;
    let audit = Audit::wanted(&args.common)?;
    let destination = args.common.report.as_deref().map(Destination::open).transpose()?;
    let streams = Streams::of(&args.common, destination.as_ref())?;
    let (mut report, copied) = launch::start(plan, &host, extras, streams)?;
    if let Err(error) = &copied {
        report.errors.push(format!("failed to {}", super::chain(error)));
    }
    // A program's own failure says more than that of the copy that it didn't leave.
    let code = if copied.is_err() && report.ok { exit::LAUNCHER } else { exit::code(&report) };
    super::tell(&report);
    advise(args, &report);
    let written = destination.map_or(Ok(()), |destination| destination.write(&report));
    // Whatever else can't be written.
    Audit::tell(audit, &report, code)?;
    written?;
    if let Err(error) = &copied {
        super::complain(error);
    }
    Ok(code)
}

/// Tells of what the person may have meant otherwise.
fn advise(args: &ExecArgs, report: &Report) {
    let dropped =
        report.audit.iter().any(|entry| entry.capability == "stdout" && entry.source == "supervisor");
    if dropped {
        let _told = writeln!(
            io::stderr(),
            "thirdwall: output was dropped: the ceiling has no stdout (add it to --cap-set, or to the policy's [ceiling])"
        );
    }
    let policy = args.policy.is_none().then(|| args.command.first().and_then(|command| made_for(command)));
    if let Some(policy) = policy.flatten().filter(|_| report.status == Verdict::Nonzero) {
        let _told = writeln!(
            io::stderr(),
            "thirdwall: without --policy the command finds its own file and libraries only; --policy {policy} has what it is made of"
        );
    }
}

/// The ready policy that was made for a command.
fn made_for(command: &str) -> Option<&'static str> {
    let name = command.rsplit('/').next()?.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match name {
        "python" => Some("python"),
        "node" | "nodejs" => Some("node"),
        "gcc" | "cc" | "g++" | "c++" => Some("gcc"),
        "sh" | "bash" | "dash" => Some("sh"),
        _ => None,
    }
}
