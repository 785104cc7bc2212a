//! `repl`: statements that a person types, or that stand on standard input, evaluated by the runtime in its jail.
//!
//! With a terminal, a process of its own reads the keys ([`editor`]), so that the supervisor goes on holding every limit
//! while the person thinks. Nothing that is typed is parsed here: the runtime tells when it wants another line, and of what.
//!
//! Invariant: the terminal is as it was found afterwards, however the conversation ends.

mod editor;

use super::{
    args::ReplArgs,
    audit::Audit,
    exit,
    job::{self, Program},
    launch::{self, Extras, Lending, Streams},
    lookup::Sockets,
    report::Destination,
    settings,
    sources::Beside,
};
use crate::{
    broker::{Modules, Nesting},
    error::Error,
    probe,
};
use editor::Editor;
use policies::wire::Mode;
use std::io::{self, IsTerminal};

/// What may be used where the command line says nothing: what needs no file, host or program.
const CEILING: &str = "stdin,stdout,time,random,llm";

/// One conversation; the exit code is that of its `exit`, or 0.
pub(super) fn repl(args: &ReplArgs) -> Result<u8, Error> {
    let mut run = args.as_run();
    super::apart::of_run(&run)?;
    let audit = Audit::of_language(&run.common)?;
    let ceiling = match settings::host_ceiling(&run)? {
        Some(ceiling) => ceiling,
        None => settings::ceiling(CEILING)?,
    };
    let program = Program::of_text("<repl>", Vec::new());
    let mut header = job::header(Mode::Repl, &program, &run, Some(&ceiling))?;
    let host = probe::fast();
    // The jail has an input whatever the program may read: the statements come through it.
    run.cap_set = Some(match ceiling.to_string().as_str() {
        "none" => "stdin".to_owned(),
        list => format!("{list},stdin"),
    });
    run.profile = Some(run.profile());
    (run.sandbox, run.deterministic) = (false, false);
    let request = settings::of_run(&run, None)?;
    let plan = launch::plan(&request, &host, Sockets::Skipped)?;
    header.env.clone_from(&plan.environment);
    header.workdir = Some(request.base().workdir.clone());
    header.home.clone_from(&request.base().home);
    let nesting = Nesting::top()?;
    let model = super::run::model(&run, Mode::Repl, request.ceiling())?;
    let terminal = io::stdout().is_terminal();
    header.interactive = terminal && run.common.stdin.is_none() && io::stdin().is_terminal();
    header.color = terminal && editor::colour_is_welcome();
    let beside = Beside::of("<repl>", 0).map_err(|source| Error::File {
        act: "open the working folder",
        path: ".".to_owned(),
        source,
    })?;
    let destination = run.common.report.as_deref().map(Destination::open).transpose()?;
    let mut streams = Streams::of(&run.common, destination.as_ref())?;
    // Before the jail is made: nothing of it is in the editor's hands.
    let editor = if header.interactive {
        let (editor, lines, person) =
            Editor::start().map_err(|source| Error::Supervise { act: "read from the terminal", source })?;
        streams.talk(lines, person);
        Some(editor)
    } else {
        None
    };
    let extras = Extras {
        lending: Lending::of(&request, nesting, &header).map(|lending| {
            let modules: Box<dyn Modules> = Box::new(beside);
            lending.asking(model).reading(modules)
        }),
        job: Some(program.job(header)?),
        ..Extras::default()
    };
    let ran = launch::start(plan, &host, extras, streams);
    if let Some(editor) = editor {
        editor.end();
    }
    let (report, _nothing_copied) = ran?;
    super::tell(&report);
    let code = exit::code(&report);
    let written = destination.map_or(Ok(()), |destination| destination.write(&report));
    Audit::tell(audit, &report, code)?;
    written.map(|()| code)
}
