//! `thirdwall exec`: any command in a jail.

use super::{
    args::ExecArgs,
    copy, exit,
    launch::{self, Extras},
    settings,
};
use crate::error::Error;
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
    };
    let report = launch::launch(&request, &args.common, extras)?;
    super::tell(&report);
    Ok(exit::code(&report))
}
