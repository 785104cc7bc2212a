//! `thirdwall explain`: the plan of a run, and nothing started.

use super::{
    args::{ExplainArgs, Explained},
    given, launch,
    lookup::Sockets,
    settings,
};
use crate::{error::Error, probe};
use std::io::{self, Write};

/// Prints the plan as a page or as JSON.
pub(super) fn explain(args: &ExplainArgs) -> Result<u8, Error> {
    let request = match &args.of {
        Explained::Exec(exec) => settings::of_exec(exec, launch::terminal(&exec.common))?,
        Explained::Run(run) => settings::of_run(run, super::run::required(run)?)?,
    };
    let plan = launch::plan(&request, &probe::full(), Sockets::Searched)?;
    let text = if args.json {
        serde_json::to_string_pretty(&plan).map_err(|error| unwritable(error.into()))? + "\n"
    } else {
        given::printable(&policies::plan::explain(&plan)).into_owned()
    };
    io::stdout().write_all(text.as_bytes()).map_err(unwritable)?;
    Ok(0)
}

fn unwritable(source: io::Error) -> Error {
    Error::File { act: "write to", path: "standard output".into(), source }
}
