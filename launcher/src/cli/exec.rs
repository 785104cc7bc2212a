//! `thirdwall exec`: any command in a jail.

use super::{
    args::ExecArgs,
    audit::Audit,
    copy, exit,
    launch::{self, Extras, Streams},
    lookup::Sockets,
    report::Destination,
    settings,
};
use crate::{error::Error, probe};
use policies::request::Terminal;

/// Runs the command and gives the exit code.
pub(super) fn exec(args: &ExecArgs) -> Result<u8, Error> {
    let terminal = launch::terminal(&args.common);
    let request = settings::of_exec(args, terminal)?;
    let extras = Extras {
        job: None,
        copy_in: copy::into(&args.copy_in)?,
        copy_out: copy::out_of(&args.copy_out)?,
        terminal: terminal == Terminal::Own,
        lending: None,
        started: None,
        state: None,
    };
    let host = probe::fast();
    let plan = launch::plan(&request, &host, Sockets::Skipped)?;
    let audit = Audit::wanted(&args.common)?;
    let destination = args.common.report.as_deref().map(Destination::open).transpose()?;
    let streams = Streams::of(&args.common, destination.as_ref())?;
    let (report, copied) = launch::start(plan, &host, extras, streams)?;
    if let Some(destination) = destination {
        destination.write(&report)?;
    }
    super::tell(&report);
    Audit::tell(audit, &report, exit::code(&report))?;
    copied.map(|()| exit::code(&report))
}
