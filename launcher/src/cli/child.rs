//! A program that a program starts: the launcher's own way, for an order instead of a command line.

use super::{
    job::Program,
    launch::{self, Extras, Lending, Streams},
    lookup::Sockets,
    settings,
};
use crate::{
    broker::{Nesting, Order},
    error::Error,
    probe,
};
use policies::{
    broker::{Profile, Ran},
    policy::Policy,
    report::{Report, Verdict},
    request::{self, Options, Subject},
    units::Millis,
    wire::{self, JobHeader},
};
use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

/// How deep programs may start programs, where [`MOST_DEPTH`] says nothing.
const DEPTH: u32 = 4;
/// The host's own word on it; a program can't set it.
const MOST_DEPTH: &str = "SYNSEMA_RUN_PROGRAM_MAX_DEPTH";

impl Nesting {
    /// A program that a person starts.
    pub(super) fn top() -> Self {
        let most = env::var(MOST_DEPTH).ok().and_then(|text| text.parse().ok());
        Self { depth: 0, most: most.unwrap_or(DEPTH) }
    }
}

/// Runs the order in a jail of its own. Called in a fork of the caller's supervisor.
pub(super) fn start(order: Order) -> Result<Ran, String> {
    let timeout = order.limits.wall.and_then(policies::limits::Setting::value);
    match run(order) {
        Ok(report) => Ok(ran(report, timeout)),
        Err(error) => Err(format!("failed to {}", super::chain(&error))),
    }
}

fn run(order: Order) -> Result<Report, Error> {
    let (language_profile, profile) = match order.profile {
        Profile::Pure => (wire::Profile::Pure, request::Profile::Pure),
        Profile::Native => (wire::Profile::Native, request::Profile::Native),
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
    header.env.clone_from(&plan.environment);
    header.workdir = Some(order.base.workdir.clone());
    header.home.clone_from(&order.base.home);
    header.now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
    let extras = Extras {
        job: Some(program.job(header)?),
        lending: Lending::of(&request, order.nesting),
        started: Some(order.started),
        ..Extras::default()
    };
    launch::start(plan, &host, extras, Streams::of_child()).map(|(report, _nothing_copied)| report)
}

/// The report as a program sees it.
fn ran(report: Report, timeout: Option<Millis>) -> Ran {
    let why = match report.status {
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
    };
    let mut errors: Vec<String> = why.map(|why| format!("run_program: {why}")).into_iter().collect();
    errors.extend(report.errors);
    let by_itself = matches!(report.status, Verdict::Ok | Verdict::Nonzero | Verdict::Fuel);
    Ran {
        ok: report.ok,
        output: report.output,
        errors,
        audit: report.audit,
        exit: report.exit.filter(|_| by_itself),
        timed_out: report.timed_out,
        llm_tokens: report.llm_tokens,
    }
}
