//! A program that a program starts: the launcher's own way, for an order instead of a command line.

use super::{
    job::Program,
    keys::{self, Keys},
    launch::{self, Extras, Lending, Streams},
    lookup::Sockets,
    settings,
};
use crate::{
    broker::{CommandStreams, Model, Nesting, Order, Words},
    error::Error,
    probe,
    sys::memory_file,
};
use nix::pty::Winsize;
use policies::{
    audit::{Entry, Origin},
    broker::{Exited, Profile, Ran},
    capability::Capability,
    ceiling::Grant,
    layer::Layer,
    plan::{Access, HostPath},
    policy::{Policy, ready},
    report::{Report, Verdict},
    request::{self, Options, Subject, Terminal, Workdir},
    units::Millis,
    wire::{self, JobHeader},
};
use std::{
    borrow::Cow,
    env,
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::fd::OwnedFd,
    time::{SystemTime, UNIX_EPOCH},
};

/// How deep programs may start programs, where [`MOST_DEPTH`] says nothing.
const DEPTH: u32 = 4;
/// The host's own word on it; a program can't set it.
const MOST_DEPTH: &str = "SYNSEMA_RUN_PROGRAM_MAX_DEPTH";

impl Nesting {
    /// A program that a person starts.
    ///
    /// # Errors
    /// The variable says something that is no number: a bound that isn't understood holds nobody.
    pub(super) fn top() -> Result<Self, Error> {
        let most = match env::var_os(MOST_DEPTH) {
            None => DEPTH,
            Some(text) => text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| Error::Usage {
                what: format!("{MOST_DEPTH}={}: no number of levels", text.to_string_lossy()),
                remedy: format!("set it to a whole number from 0 on, or unset it ({DEPTH} levels then)"),
            })?,
        };
        Ok(Self { depth: 0, most })
    }
}

/// Runs the order in a jail of its own. Called in a fork of the caller's supervisor.
pub(super) fn start(order: Order) -> Result<Ran, String> {
    let timeout = order.limits.wall.and_then(policies::limits::Setting::value);
    let fuel = order.fuel;
    match run(order) {
        Ok(report) => Ok(ran(report, timeout, fuel)),
        Err(error) => Err(format!("failed to {}", super::chain(&error))),
    }
}

/// Runs a foreign command in a jail of its own. Called in a fork of the caller's supervisor.
pub(super) fn command(order: Order, words: Words) -> Result<Exited, String> {
    let told = |error: Error| format!("failed to {}", super::chain(&error));
    let lost = |errno: nix::errno::Errno| format!("failed to make room for output: {}", errno.desc());
    let timeout = order.limits.wall.and_then(policies::limits::Setting::value);
    let Words { argv, folder, streams } = words;
    let most = match streams {
        CommandStreams::Kept(most) => most,
        CommandStreams::Live { stdin, stdout, stderr, terminal } => {
            let streams = Streams::of_process(stdin, stdout, stderr);
            let report = run_command(order, (argv, folder), streams, terminal).map_err(told)?;
            return Ok(exited(report, timeout));
        }
    };
    let (stdout, stderr) = (memory_file::empty().map_err(lost)?, memory_file::empty().map_err(lost)?);
    let own =
        |file: &OwnedFd| file.try_clone().map_err(|error| format!("failed to make room for output: {error}"));
    let stdin = memory_file::sealed(&order.source).map_err(lost)?;
    let streams = Streams::of_command(stdin, own(&stdout)?, own(&stderr)?);
    let report = run_command(order, (argv, folder), streams, None).map_err(told)?;
    let (stdout, more_stdout) = read_back(stdout, most, MOST_HANDED)?;
    let room = MOST_HANDED.saturating_sub(on_the_way(&stdout));
    let (stderr, more_stderr) = read_back(stderr, most, room)?;
    let over = report.status == Verdict::Output;
    Ok(Exited {
        stdout,
        stderr,
        stdout_truncated: more_stdout || over,
        stderr_truncated: more_stderr || over,
        ..exited(report, timeout)
    })
}

/// How a command ended; one of its own making, and one that was cut for its output, are results.
fn exited(report: Report, timeout: Option<Millis>) -> Exited {
    let ended = why(&report, timeout);
    Exited {
        exit_code: report.exit.or(report.signal.map(|signal| 128 + signal)),
        stdout: String::new(),
        stderr: String::new(),
        stdout_truncated: false,
        stderr_truncated: false,
        ended: ended.filter(|_| !matches!(report.status, Verdict::Signal | Verdict::Output)),
        timed_out: report.timed_out,
        audit: audit(report.audit, report.audit_dropped),
    }
}

fn run_command(
    order: Order,
    (argv, folder): (Vec<String>, Option<String>),
    streams: Streams,
    terminal: Option<Winsize>,
) -> Result<Report, Error> {
    let mut options = Options::new(Subject::Command { argv }, order.base);
    options.ceiling = Some(order.ceiling.clone());
    options.set = order.env;
    options.limits = order.limits;
    options.terminal = if terminal.is_some() { Terminal::Own } else { Terminal::None };
    if let Some(folder) = folder {
        let all = Grant::new(Capability::FileWrite, Some(&format!("{}/*", folder.trim_end_matches('/'))));
        let writes = all.is_ok_and(|all| order.ceiling.covers_grant(&all));
        let access = if writes { Access::ReadWrite } else { Access::ReadOnly };
        options.workdir = Workdir::Host { path: HostPath(folder), access };
    }
    let policy = ready::get("auto").map_err(settings::refused)?;
    let request = request::resolve(&policy, options).map_err(settings::unsettled)?;
    let host = probe::fast();
    let plan = launch::plan_below(&request, &host, Sockets::Skipped, &order.outer)?;
    let extras = Extras { started: Some(order.started), terminal, ..Extras::default() };
    launch::start(plan, &host, extras, streams).map(|(report, _nothing_copied)| report)
}

/// Bytes of text, as JSON, that are handed to the program: its supervisor holds them, on nobody's account.
const MOST_HANDED: u64 = 16 << 20;

/// Bytes that a text takes as JSON: control characters are written as `\u0000`.
fn on_the_way(text: &str) -> u64 {
    text.chars().map(in_json).sum()
}

fn in_json(letter: char) -> u64 {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8() as u64,
    }
}

/// The first bytes of what was written, and whether there was more.
fn read_back(file: OwnedFd, most: u64, room: u64) -> Result<(String, bool), String> {
    let failed = |error: io::Error| format!("failed to read its output: {error}");
    let mut file = File::from(file);
    let all = file.seek(SeekFrom::End(0)).map_err(failed)?;
    file.rewind().map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(failed)?;
    let mut text = match String::from_utf8_lossy(&bytes) {
        Cow::Borrowed(_) => String::from_utf8(bytes).unwrap_or_default(),
        Cow::Owned(text) => text,
    };
    let mut taken = 0;
    let end = text.char_indices().find_map(|(at, letter)| {
        taken += in_json(letter);
        (taken > room).then_some(at)
    });
    if let Some(end) = end {
        text.truncate(end);
    }
    Ok((text, all > most || end.is_some()))
}

fn run(order: Order) -> Result<Report, Error> {
    let (language_profile, profile) = match order.profile {
        Profile::Pure => (wire::Profile::Pure, request::Profile::Pure),
        Profile::Native => (wire::Profile::Native, request::Profile::Native),
    };
    // Its own variables alone: a program starts without its caller's keys. Where a provider is, only the host says.
    let own = order.env.clone();
    let model = if Model::may_be_asked(&order.ceiling) {
        let variable = |name: &str| own.get(name).cloned();
        let mut keys = Keys::new();
        for (name, value) in &own {
            keys.extend(keys::keep(name, value)?);
        }
        Model::read(&variable, &|name| env::var(name).ok(), &|name| keys.get(name).cloned())
            .map_err(|what| Error::Usage { what, remedy: "set it in the `env` of run_program".into() })?
    } else {
        None
    };
    let mut options = Options::new(Subject::Runtime { profile }, order.base.clone());
    options.ceiling = Some(order.ceiling.clone());
    options.environment = order.env;
    options.limits = order.limits;
    let request = request::resolve(&Policy::runtime(), options).map_err(settings::unsettled)?;
    let host = probe::fast();
    let plan = launch::plan(&request, &host, Sockets::Skipped)?;
    let program = Program::of_text(&order.filename, order.source);
    let mut header = JobHeader::run(&order.filename, Some(order.ceiling.to_string()));
    header.profile = language_profile;
    header.fuel = order.fuel;
    header.heap = order.heap;
    header.env.clone_from(&plan.environment);
    header.workdir = Some(order.base.workdir.clone());
    header.home.clone_from(&order.base.home);
    header.now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let extras = Extras {
        lending: Lending::of(&request, order.nesting, &header)
            .map(|lending| lending.below(order.outer, order.tokens).asking(model)),
        job: Some(program.job(header)?),
        started: Some(order.started),
        ..Extras::default()
    };
    launch::start(plan, &host, extras, Streams::of_child()).map(|(report, _nothing_copied)| report)
}

/// The report as a program sees it.
fn ran(report: Report, timeout: Option<Millis>, fuel: Option<u64>) -> Ran {
    let why = why(&report, timeout);
    let mut errors: Vec<String> = why.map(|why| format!("run_program: {why}")).into_iter().collect();
    errors.extend(report.errors);
    let by_itself = matches!(report.status, Verdict::Ok | Verdict::Nonzero | Verdict::Fuel);
    Ran {
        ok: report.ok,
        output: report.output,
        errors,
        audit: audit(report.audit, report.audit_dropped),
        exit: report.exit.filter(|_| by_itself),
        timed_out: report.timed_out,
        llm_tokens: report.llm_tokens,
        // One that was killed couldn't say: it counts as if it had used all.
        fuel: report.usage.fuel.or(fuel).unwrap_or(0),
    }
}

/// The audit for the jail that started it; what was only counted is told by one entry.
fn audit(mut kept: Vec<Entry>, dropped: u64) -> Vec<Entry> {
    if dropped > 0 {
        kept.push(Entry {
            ts: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            context: "program".to_owned(),
            capability: "limits".to_owned(),
            granted: false,
            source: "supervisor".to_owned(),
            reason: format!("{dropped} more entries are not kept"),
            origin: Origin::Runtime,
            file: None,
            line: None,
            seq: 0,
            layer: Layer::Limits,
            target: "audit".to_owned(),
        });
    }
    kept
}

/// What ended it, if it didn't end by itself.
fn why(report: &Report, timeout: Option<Millis>) -> Option<String> {
    match report.status {
        Verdict::Ok | Verdict::Nonzero => None,
        Verdict::WallTime => timeout.map(|limit| format!("timed out after {} s", limit.0 as f64 / 1000.0)),
        Verdict::CpuTime => Some("timed out after its share of processor time".to_owned()),
        Verdict::Signal => Some(format!("killed by signal {}", report.signal.unwrap_or(0))),
        Verdict::Memory => Some("it used more memory than there was for it".to_owned()),
        Verdict::Fuel => Some("out of fuel".to_owned()),
        Verdict::Output => Some("it printed more than 10 MiB".to_owned()),
        Verdict::Disk => Some("its disk was full".to_owned()),
        Verdict::Processes => Some("it made too many processes".to_owned()),
        Verdict::Stopped => Some("stopped".to_owned()),
        Verdict::JailFailed => Some("its jail failed".to_owned()),
    }
}
