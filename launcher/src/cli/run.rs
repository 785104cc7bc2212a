//! `thirdwall run`, `test`, `check`, `conform`: a program of one of the two languages, in the runtime's process, in a
//! jail.

use super::{
    apart,
    args::{Format, RunArgs, TestArgs},
    audit::Audit,
    env_file, exit, given,
    job::{self, Program},
    keys,
    launch::{self, Extras, Lending, Streams},
    lookup::Sockets,
    report::Destination,
    result_line, saving, settings,
};
use crate::{
    broker::{Model, Nesting},
    error::Error,
    probe,
};
use nix::sys::signal::Signal;
use policies::{
    ceiling::Ceiling,
    report::{Report, Verdict},
    wire::{JobHeader, Mode},
};
use std::{
    env, fs, io,
    io::Write,
    path::{Path, PathBuf},
};

/// Runs the program and gives the exit code.
pub(super) fn run(args: &RunArgs) -> Result<u8, Error> {
    apart::of_run(args)?;
    let audit = Audit::of_language(&args.common)?;
    let ended = match args.format {
        Format::Text => one(args, Mode::Run, None)?,
        Format::Json => {
            let mut ended = one(args, Mode::Run, Some(Streams::told_in_a_line(args)?))?;
            let line = result_line::of_run(&ended.report, exit_of_run(&ended.report));
            ended.late = ended.late.and(result_line::write(&line));
            ended
        }
    };
    super::tell(&ended.report);
    let code = exit_of_run(&ended.report);
    Audit::tell(audit, &ended.report, code)?;
    ended.late.map(|()| code)
}

/// Reads the program without running it.
pub(super) fn check(args: &RunArgs) -> Result<u8, Error> {
    apart::of_run(args)?;
    if args.format == Format::Text {
        let ended = one(args, Mode::Check, None)?;
        return ended.late.map(|()| exit::code(&ended.report));
    }
    let ended = one(args, Mode::Check, Some(Streams::told_in_a_line(args)?))?;
    let code = exit::code(&ended.report);
    result_line::write(&result_line::of_check(&ended.report, code))?;
    ended.late.map(|()| code)
}

/// Runs it and prints one line of JSON.
pub(super) fn conform(args: &RunArgs) -> Result<u8, Error> {
    apart::of_run(args)?;
    let audit = Audit::of_language(&args.common)?;
    let ended = one(args, Mode::Conform, Some(Streams::told_in_a_line(args)?))?;
    // That the program failed is what the line says.
    let code = match ended.report.status {
        Verdict::JailFailed | Verdict::Stopped => exit::code(&ended.report),
        _ => 0,
    };
    super::tell(&ended.report);
    Audit::tell(audit, &ended.report, code)?;
    ended.late?;
    result_line::write(&result_line::of_conform(ended.report, args.swarm))?;
    Ok(code)
}

/// The ceiling that a run gets where the host gives none.
pub(super) fn required(args: &RunArgs) -> Result<Option<Ceiling>, Error> {
    let ceiling = settings::host_ceiling(args)?;
    let mut program = Program::read(&args.file)?;
    program.grant(args.allow.granted()?);
    program.explore(ceiling.as_ref(), &args.common)?;
    Ok(program.required())
}

/// The report of a `check` that found something; `None` for a program that can be run.
pub(super) fn refusals(args: &RunArgs) -> Result<Option<Report>, Error> {
    let report = one(args, Mode::Check, Some(Streams::kept()))?.report;
    Ok((!report.ok).then_some(report))
}

/// Runs the program that this executable was built with; all arguments are its own.
pub(super) fn bundled(header: &JobHeader, program: Program) -> Result<u8, Error> {
    let args = RunArgs::bundled(header, env::args().skip(1).collect());
    let audit = Audit::of_language(&args.common)?;
    let ended = of_program(&args, Mode::Run, None, program)?;
    super::tell(&ended.report);
    let code = exit_of_run(&ended.report);
    Audit::tell(audit, &ended.report, code)?;
    ended.late.map(|()| code)
}

/// As every run's, but a reader who has had enough is no failure of the program.
fn exit_of_run(report: &Report) -> u8 {
    let closed = report.status == Verdict::Stopped && report.signal == Some(Signal::SIGPIPE as i32);
    if closed { 0 } else { exit::code(report) }
}

/// How a run ended.
struct Ended {
    report: Report,
    /// What couldn't be written afterwards. The audit is told all the same: a program that can make a file unwritable must not
    /// silence it.
    late: Result<(), Error>,
}

/// One program in its jail. `streams` instead of those of the command line.
fn one(args: &RunArgs, mode: Mode, streams: Option<Streams>) -> Result<Ended, Error> {
    of_program(args, mode, streams, Program::read(&args.file)?)
}

fn of_program(
    args: &RunArgs,
    mode: Mode,
    streams: Option<Streams>,
    mut program: Program,
) -> Result<Ended, Error> {
    let ceiling = settings::host_ceiling(args)?;
    program.grant(args.allow.granted()?);
    program.explore(ceiling.as_ref(), &args.common)?;
    if (args.save.is_some() || args.restore.is_some()) && !program.can_be_saved() {
        return Err(Error::Usage {
            what: format!("{}: only SCUA programs can be saved", args.file),
            remedy: "leave out --save and --restore, or give a .scua file".into(),
        });
    }
    if let Some(path) = args.restore.as_deref().filter(|_| mode == Mode::Run) {
        program.restore(saving::read(path)?);
    }
    let mut header = job::header(mode, &program, args, ceiling.as_ref())?;
    let host = probe::fast();
    let request = settings::of_run(args, program.required())?;
    let plan = launch::plan(&request, &host, Sockets::Skipped)?;
    header.env.clone_from(&plan.environment);
    header.workdir = Some(request.base().workdir.clone());
    header.home.clone_from(&request.base().home);
    header.interactive = mode == Mode::Run && job::interactive(&args.common);
    let destination = args.common.report.as_deref().map(Destination::open).transpose()?;
    let mut streams = match streams {
        Some(streams) => streams,
        None => Streams::of(&args.common, destination.as_ref())?,
    };
    if args.file == "-" {
        streams.no_input();
    }
    let saving = args.save.as_deref().filter(|_| mode == Mode::Run).map(saving::State::open).transpose()?;
    let model = model(args, mode, request.ceiling())?;
    let nesting = Nesting::top()?;
    let extras = Extras {
        lending: Lending::of(&request, nesting, &header).map(|lending| {
            // Only what runs keeps a notebook: tests start from nothing.
            let lending = lending.asking(model);
            if mode == Mode::Run { lending.beside(&args.file) } else { lending }
        }),
        job: Some(program.job(header)?),
        state: saving.as_ref().map(saving::State::sink).transpose()?,
        ..Extras::default()
    };
    let (mut report, _nothing_copied) = launch::start(plan, &host, extras, streams)?;
    let saved = saving.map_or(Ok(()), |saving| saving.keep(&report));
    if let Err(error) = &saved {
        report.errors.push(format!("failed to {}", super::chain(error)));
    }
    let written = destination.map_or(Ok(()), |destination| destination.write(&report));
    Ok(Ended { report, late: saved.and(written) })
}

const PROVIDER: &str = "SYNSEMA_LLM_PROVIDER";
const ADDRESS: &str = "SYNSEMA_LLM_BASE_URL";

/// The model, for a program that may ask one. Tests and checks are the same whether the host has one or not.
pub(super) fn model(args: &RunArgs, mode: Mode, ceiling: &Ceiling) -> Result<Option<Model>, Error> {
    if !matches!(mode, Mode::Run | Mode::Repl) || !Model::may_be_asked(ceiling) {
        return Ok(None);
    }
    let file = env_file::read(args)?;
    let variable = |name: &str| env::var(name).ok().or_else(|| file.of.get(name).cloned());
    let key = |name: &str| keys::of_environment(name).or_else(|| file.keys.get(name).cloned());
    // Where the key and all that is asked go: that is the caller's word, and no file's that merely lies in the folder.
    if !file.named
        && file.of.contains_key(ADDRESS)
        && env::var_os(ADDRESS).is_none()
        && variable(PROVIDER).is_some()
    {
        let _told = writeln!(
            io::stderr(),
            "thirdwall: no model is asked: {ADDRESS} stands in .env, which nobody named (set it in the environment, or say \
             --env-file .env)"
        );
        return Ok(None);
    }
    Model::read(&variable, &variable, &key).map_err(|what| Error::Usage {
        what,
        remedy:
            "set the variable in the environment or the file of variables, or SYNSEMA_LLM_PROVIDER=offline"
                .into(),
    })
}

/// Runs the `test` blocks of files, each file in a jail of its own.
pub(super) fn test(args: &TestArgs) -> Result<u8, Error> {
    let files = files(&args.paths)?;
    let many = files.len() > 1;
    for file in &files {
        apart::of_run(&args.as_run(file))?;
    }
    let mut audit = Audit::of_language(&args.common)?;
    let (mut passed, mut failed) = (0, 0);
    let mut out = io::stdout().lock();
    let unwritable = |source| Error::File { act: "write to", path: "standard output".into(), source };
    for file in &files {
        let run = args.as_run(file);
        let ended = one(&run, Mode::Test, Some(Streams::kept()))?;
        let report = ended.report;
        if let Some(audit) = &mut audit {
            audit.add(&report)?;
        }
        ended.late?;
        if many {
            writeln!(out, "{}:", given::printable(file)).map_err(unwritable)?;
        }
        // The last line is the file's own summary; the one of all files stands at the end.
        let (lines, summary) = match report.output.split_last() {
            Some((last, lines)) => match counts(last) {
                Some(counts) => (lines, counts),
                None => (report.output.as_slice(), (0, 1)),
            },
            None => (report.output.as_slice(), (0, 1)),
        };
        for line in lines {
            writeln!(out, "{line}").map_err(unwritable)?;
        }
        for error in &report.errors {
            let _told = writeln!(io::stderr(), "{error}");
        }
        super::tell(&report);
        passed += summary.0;
        failed += summary.1;
    }
    writeln!(out, "{passed} passed, {failed} failed ({} total)", passed + failed).map_err(unwritable)?;
    let code = u8::from(failed > 0);
    audit.map_or(Ok(()), |audit| audit.finish(code))?;
    Ok(code)
}

/// `N passed, M failed (K total)`
fn counts(line: &str) -> Option<(u64, u64)> {
    let (passed, rest) = line.split_once(" passed, ")?;
    let (failed, _total) = rest.split_once(" failed (")?;
    Some((passed.parse().ok()?, failed.parse().ok()?))
}

/// The files of paths: a folder stands for all `.syn` files below it, in the order of their names.
fn files(paths: &[String]) -> Result<Vec<String>, Error> {
    let mut files = Vec::new();
    for path in paths {
        if Path::new(path).is_dir() {
            let before = files.len();
            below(Path::new(path), &mut files).map_err(|source| Error::File {
                act: "list",
                path: path.clone(),
                source,
            })?;
            if files.len() == before {
                return Err(Error::Usage {
                    what: format!("no .syn files in '{path}'"),
                    remedy: "name a file, or a folder that holds some".into(),
                });
            }
        } else if !Path::new(path).exists() && path.contains(['*', '?']) {
            let found = matching(path).map_err(|source| Error::File {
                act: "list what matches",
                path: path.clone(),
                source,
            })?;
            if found.is_empty() {
                return Err(Error::Usage {
                    what: format!("no .syn files in '{path}'"),
                    remedy: "name a file, or a folder that holds some".into(),
                });
            }
            files.extend(found);
        } else {
            files.push(path.clone());
        }
    }
    Ok(files)
}

/// The files whose last part fits a pattern, sorted. A shell does this too, but not inside quotes.
fn matching(pattern: &str) -> io::Result<Vec<String>> {
    let (folder, wanted) = pattern.rsplit_once('/').map_or((".", pattern), |(folder, last)| (folder, last));
    let wanted: Vec<char> = wanted.chars().collect();
    let prefix = pattern.len() - pattern.rsplit('/').next().unwrap_or(pattern).len();
    let mut found: Vec<String> = fs::read_dir(if folder.is_empty() { "/" } else { folder })?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| fits(&wanted, &name.chars().collect::<Vec<_>>()))
        .map(|name| format!("{}{name}", &pattern[..prefix]))
        .filter(|path| Path::new(path).is_file())
        .collect();
    found.sort();
    Ok(found)
}

/// Whether a name fits a pattern: `*` is any run of characters, `?` any one. Linear in both for each star.
fn fits(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, taken)) => {
                    (p, n) = (at + 1, taken + 1);
                    star = Some((at, taken + 1));
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

fn below(folder: &Path, files: &mut Vec<String>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for entry in entries {
        let kind = fs::symlink_metadata(&entry)?.file_type();
        if kind.is_dir() {
            below(&entry, files)?;
        } else if entry.extension().is_some_and(|extension| extension == "syn") {
            files.extend(entry.to_str().map(str::to_owned));
        }
    }
    Ok(())
}
