//! Request → plan → jail → report: the way that `run`, `exec` and `explain` share.

use super::{
    args::{CommonArgs, RunArgs},
    copy::{self, CopyOut},
    exit,
    lookup::{self, Sockets},
    report::Destination,
};
use crate::{
    broker::{Children, Lent, MOST_OUTPUT, Model, Modules, Nesting, Order, Outer, Outside},
    cgroup::{Cgroup, Entry},
    egress::Prepared,
    error::Error,
    jail::{CopyIn, Inputs, Jail},
    supervisor::{
        self, Keep, Sink, Source, Wants,
        signals::{self, SignalSource},
    },
    sys::winsize,
};
use nix::{
    pty::Winsize,
    sched::{CloneFlags, setns},
};
use policies::{
    broker::Profile,
    capability::Capability,
    ceiling::Ceiling,
    facts::HostFacts,
    plan::{Means, Network, Plan},
    report::Report,
    request::{self, Request, Subject, Terminal},
    scope::Base,
    units::Bytes,
    wire::JobHeader,
};
use std::{
    env,
    fs::File,
    io::{self, IsTerminal},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

/// Output that is kept for the report where no limit bounds it.
const MOST_KEPT: Bytes = Bytes::mib(8);

/// Makes the plan. Nothing is started.
pub(super) fn plan(request: &Request, host: &HostFacts, sockets: Sockets) -> Result<Plan, Error> {
    plan_below(request, host, sockets, &Outer::nobody())
}

/// Likewise, for a program that another one starts: what is found elsewhere than that one reaches isn't there.
pub(super) fn plan_below(
    request: &Request,
    host: &HostFacts,
    sockets: Sockets,
    outer: &Outer,
) -> Result<Plan, Error> {
    let mut facts = lookup::look_up(request, sockets)?;
    for found in facts.found.values_mut() {
        found.retain(|found| {
            let tail = if found.kind == request::Kind::Folder { "/*" } else { "" };
            outer.lets_in(request.ceiling(), &found.at.0, &found.real.0, tail)
        });
    }
    policies::plan::plan(request, &facts, host)
        .map_err(|refusal| Error::Policy(format!("plan the jail: {refusal}"), refusal.help()))
}

/// Whether the payload gets a terminal: where the caller's input and output are one.
pub(super) fn terminal(common: &CommonArgs) -> Terminal {
    let both = common.stdin.is_none() && io::stdin().is_terminal() && io::stdout().is_terminal();
    if both && common.report.as_deref() != Some("-") { Terminal::Own } else { Terminal::None }
}

/// The size of the caller's terminal, where the payload gets one.
pub(super) fn window(terminal: Terminal) -> Result<Option<Winsize>, Error> {
    let failed =
        |errno: nix::errno::Errno| Error::Supervise { act: "read the window size", source: errno.into() };
    match terminal {
        Terminal::Own => winsize::get(io::stdin().as_fd()).map(Some).map_err(failed),
        Terminal::None => Ok(None),
    }
}

/// What a start needs besides its request.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// The runtime's job.
    pub(super) job: Option<OwnedFd>,
    /// Files to put into the scratch folder.
    pub(super) copy_in: Vec<CopyIn>,
    /// Files to take from it.
    pub(super) copy_out: Vec<CopyOut>,
    /// The size of the payload's terminal, where it has one.
    pub(super) terminal: Option<Winsize>,
    /// What a runtime may ask for.
    pub(super) lending: Option<Lending>,
    /// Where a program's saved state goes.
    pub(super) state: Option<OwnedFd>,
    /// Whom to tell which process is the jail's init, for a nested jail.
    pub(super) started: Option<OwnedFd>,
}

/// What a language runtime may ask for: what its jail was planned with.
#[derive(Debug)]
pub(super) struct Lending {
    pub(super) ceiling: Ceiling,
    pub(super) base: Base,
    pub(super) profile: Profile,
    pub(super) nesting: Nesting,
    /// What the program that started this one may reach.
    pub(super) outer: Outer,
    /// The folder of the program's file: there its notebook is kept.
    pub(super) beside: Option<String>,
    /// Where a conversation's modules are found.
    pub(super) modules: Option<Box<dyn Modules>>,
    pub(super) fuel: Option<u64>,
    pub(super) heap: Option<u64>,
    pub(super) model: Option<Model>,
    /// Tokens of models that the program that started this one has left.
    pub(super) tokens: Option<u64>,
}

/// Where the streams of a run go.
#[derive(Debug)]
pub(super) struct Streams {
    stdin: Source,
    stdout: Sink,
    stderr: Sink,
    kept: Option<Bytes>,
    /// Errors of the language stand in what is kept, and nowhere else.
    quiet: bool,
    person: Option<OwnedFd>,
}

impl Streams {
    /// Those that the command line names. A report on standard output is alone there.
    pub(super) fn of(common: &CommonArgs, report: Option<&Destination>) -> Result<Self, Error> {
        let stdin = match &common.stdin {
            Some(path) => {
                let failed = |source| Error::File { act: "open", path: path.clone(), source };
                let file = File::open(path).map_err(failed)?;
                if file.metadata().map_err(failed)?.is_dir() {
                    return Err(failed(io::ErrorKind::IsADirectory.into()));
                }
                Source::File(file.into())
            }
            None => Source::Caller,
        };
        let alone = report.is_some_and(Destination::is_stdout);
        Ok(Self {
            stdin,
            stdout: if alone { Sink::Nowhere } else { Sink::Stdout },
            stderr: if alone { Sink::Nowhere } else { Sink::Stderr },
            kept: report.map(|_| MOST_KEPT),
            quiet: false,
            person: None,
        })
    }

    /// No input, and all output kept for the launcher itself.
    pub(super) fn kept() -> Self {
        Self {
            stdin: Source::Empty,
            stdout: Sink::Nowhere,
            stderr: Sink::Nowhere,
            kept: Some(MOST_KEPT),
            quiet: false,
            person: None,
        }
    }

    /// No input, and all output kept for the program that started this one.
    pub(super) fn of_child() -> Self {
        Self { kept: Some(MOST_OUTPUT), ..Self::kept() }
    }

    /// The input as it is given, prints and errors kept for a line of JSON; what else is said is seen on standard error.
    pub(super) fn told_in_a_line(args: &RunArgs) -> Result<Self, Error> {
        let given = Self::of(&args.common, None)?;
        Ok(Self { stdout: Sink::Nowhere, kept: Some(MOST_KEPT), quiet: !args.explain, ..given })
    }

    /// The input is what a person types, who is asked for each line.
    pub(super) fn talk(&mut self, lines: OwnedFd, person: OwnedFd) {
        self.stdin = Source::File(lines);
        self.person = Some(person);
    }

    /// A command's, for the program that started it: each stream has a file of its own.
    pub(super) fn of_command(stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> Self {
        Self {
            stdin: Source::File(stdin),
            stdout: Sink::File(stdout),
            stderr: Sink::File(stderr),
            kept: None,
            quiet: false,
            person: None,
        }
    }

    /// A process's, while it runs: pipes, or a terminal that is input and output.
    pub(super) fn of_process(stdin: OwnedFd, stdout: OwnedFd, stderr: Option<OwnedFd>) -> Self {
        let stderr = stderr.map_or(Sink::Nowhere, Sink::File);
        Self {
            stdin: Source::File(stdin),
            stdout: Sink::File(stdout),
            stderr,
            kept: None,
            quiet: false,
            person: None,
        }
    }

    /// The caller's input was the program itself.
    pub(super) fn no_input(&mut self) {
        self.stdin = Source::Empty;
    }
}

impl Lending {
    /// To a language runtime at the top, or nested; nothing to a foreign command.
    pub(super) fn of(request: &Request, nesting: Nesting, header: &JobHeader) -> Option<Self> {
        let profile = match request.subject() {
            Subject::Runtime { profile: request::Profile::Pure } => Profile::Pure,
            Subject::Runtime { profile: request::Profile::Native } => Profile::Native,
            Subject::Command { .. } => return None,
        };
        let (ceiling, base) = (request.ceiling().clone(), request.base().clone());
        let (fuel, heap) = (header.fuel, header.heap);
        let (outer, beside, model, tokens) = (Outer::nobody(), None, None, None);
        let modules = None;
        Some(Self { ceiling, base, profile, nesting, outer, beside, modules, fuel, heap, model, tokens })
    }

    /// Below a program that may reach no more than that, and has so many tokens of models left.
    pub(super) fn below(self, outer: Outer, tokens: Option<u64>) -> Self {
        Self { outer, tokens, ..self }
    }

    /// With modules that are read when they are used.
    pub(super) fn reading(self, modules: Box<dyn Modules>) -> Self {
        Self { modules: Some(modules), ..self }
    }

    /// With a model to ask, if there is one.
    pub(super) fn asking(self, model: Option<Model>) -> Self {
        Self { model, ..self }
    }

    /// With the folder that a program's own state is kept in. The pure profile keeps it in memory.
    pub(super) fn beside(mut self, program: &str) -> Self {
        let file = Path::new(program);
        if self.profile == Profile::Native && file.is_file() {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let real = folder.unwrap_or(Path::new(".")).canonicalize();
            self.beside = real.ok().and_then(|folder| folder.to_str().map(str::to_owned));
        }
        self
    }
}

fn lent(lending: Lending, plan: &Plan, cgroup: Option<&Cgroup>, home: Option<OwnedFd>) -> io::Result<Lent> {
    let Lending { ceiling, base, profile, nesting, outer, beside, modules, fuel, heap, model, tokens } =
        lending;
    let children = if ceiling.has(Capability::SandboxRun) || ceiling.has(Capability::Exec) {
        let groups = cgroup.map_or(Ok(Vec::new()), Cgroup::nesting)?;
        let limits = plan.limits.clone();
        let home = home.as_ref().map(OwnedFd::try_clone).transpose()?;
        Some(Children {
            start: super::child::start,
            command: super::child::command,
            profile,
            nesting,
            limits,
            fuel,
            heap,
            groups,
            home,
        })
    } else {
        None
    };
    // The variable that other clients of TLS know as well.
    let roots = env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let outside = Outside::of(plan).with_roots(roots).with_model(model).within(tokens).in_network(home);
    Ok(Lent { ceiling, base, outer, notebooks: beside, children, modules, outside })
}

/// The network that this process was in before a start took it to another: it goes back there when this is dropped, so that
/// the next start finds the host's.
#[derive(Debug)]
struct Home(OwnedFd);

impl Home {
    fn here() -> Result<Self, Error> {
        let network = File::open("/proc/self/ns/net");
        let lost = |source| Error::Supervise { act: "open the host's network", source };
        Ok(Self(network.map_err(lost)?.into()))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // It fails only where it has never left: who could leave may come back.
        let _here = setns(&self.0, CloneFlags::CLONE_NEWNET);
    }
}

/// Starts and supervises what is only looked at, before the run that was asked for: output is kept, and a signal that
/// comes too late for it ends this process.
pub(super) fn look(plan: Plan, host: &HostFacts, job: OwnedFd) -> Result<Report, Error> {
    let extras = Extras { job: Some(job), ..Extras::default() };
    let signals = block_signals()?.with_late_ones();
    let stop = signals.noted_stop();
    let (report, _nothing_copied) = started(plan, host, extras, Streams::kept(), signals)?;
    // Also if it came when the look was over: who asked for an end doesn't want the run.
    match stop.get() {
        None => Ok(report),
        Some(signal) => Err(Error::Looking {
            why: format!("stopped by {signal}"),
            code: u8::try_from(128 + signal as i32).unwrap_or(exit::LIMIT),
            remedy: None,
        }),
    }
}

/// Starts and supervises. The second answer is how copying out went.
pub(super) fn start(
    plan: Plan,
    host: &HostFacts,
    extras: Extras,
    streams: Streams,
) -> Result<(Report, Result<(), Error>), Error> {
    let signals = block_signals()?;
    started(plan, host, extras, streams, signals)
}

fn block_signals() -> Result<SignalSource, Error> {
    signals::block().map_err(|errno| Error::Supervise { act: "block signals", source: errno.into() })
}

fn started(
    plan: Plan,
    host: &HostFacts,
    extras: Extras,
    streams: Streams,
    signals: SignalSource,
) -> Result<(Report, Result<(), Error>), Error> {
    let lost = |act| move |source: io::Error| Error::Supervise { act, source };
    let cgroup = if needs_cgroup(&plan) {
        Some(Cgroup::create(&plan.limits, host).map_err(lost("make a cgroup"))?)
    } else {
        None
    };
    let entry = match &cgroup {
        Some(cgroup) => cgroup.entry().map_err(lost("open the cgroup"))?,
        None => Entry::Written(Vec::new()),
    };
    let inputs = Inputs {
        cgroup: entry,
        terminal: extras.terminal,
        job: extras.job,
        copy_in: extras.copy_in,
        signal_mask: *signals.mask_before(),
    };
    let planned = plan.clone();
    let (jail, plan) = Jail::planned(plan).stage(inputs).map_err(|failure| Error::step(failure, &planned))?;
    let prepared =
        Prepared::of(&plan).map_err(|(address, errno)| Error::Listen { address, source: errno })?;
    // The start of a jail in the shared empty network takes this process there.
    let home = if plan.network == Network::SharedEmpty { Some(Home::here()?) } else { None };
    let reached = home.as_ref().filter(|_| reaches_out(extras.lending.as_ref()));
    let reached = reached.map(|home| home.0.try_clone()).transpose();
    let reached = reached.map_err(lost("keep the host's network"))?;
    let mut running = jail.start().map_err(|failure| Error::step(failure, &plan))?;
    if let Some(started) = extras.started {
        Order::tell_started(started.as_fd(), running.init_pidfd.as_fd())
            .map_err(io::Error::from)
            .map_err(lost("tell who was started"))?;
    }
    let lent = extras.lending.map(|lending| lent(lending, &plan, cgroup.as_ref(), reached));
    let lent = lent.transpose().map_err(lost("open the cgroup"))?;
    // On an error the jail ends with its lifeline, and nothing of it has reached anything.
    let egress = match prepared {
        Some(prepared) => {
            let sockets = std::mem::take(&mut running.network);
            Some(prepared.start(sockets).map_err(io::Error::from).map_err(lost("start the egress"))?)
        }
        None => None,
    };
    let scratch = match (&running.scratch, extras.copy_out.is_empty()) {
        (Some(scratch), false) => Some(scratch.try_clone().map_err(lost("keep the scratch folder"))?),
        (Some(_) | None, _) => None,
    };
    let wants = Wants {
        stdin: streams.stdin,
        stdout: streams.stdout,
        stderr: streams.stderr,
        keep: match streams.kept {
            Some(most) => Keep::AtMost(plan.limits.output.value.map_or(most, |limit| limit.min(most))),
            None => Keep::Nothing,
        },
        signals: Some(signals),
        lent,
        egress,
        quiet: streams.quiet,
        person: streams.person,
        state: extras.state,
    };
    let report = supervisor::supervise(running, &plan, cgroup, wants);
    let copied = scratch.map_or(Ok(()), |scratch| copy::take(&scratch, &plan, &extras.copy_out));
    Ok((report, copied))
}

/// Whether the supervisor's side may have to speak for the runtime, or for a program that it starts.
fn reaches_out(lending: Option<&Lending>) -> bool {
    let outside =
        [Capability::Net, Capability::Llm, Capability::Judge, Capability::SandboxRun, Capability::Exec];
    lending.is_some_and(|lending| outside.iter().any(|capability| lending.ceiling.has(*capability)))
}

/// A cgroup is made only if it holds something.
fn needs_cgroup(plan: &Plan) -> bool {
    let by_cgroup = |means| matches!(means, Means::CgroupV1 | Means::CgroupV2);
    let limits = &plan.limits;
    (limits.memory.value.is_some() && by_cgroup(limits.memory.means))
        || (limits.pids.value.is_some() && by_cgroup(limits.pids.means))
        || (limits.cpu.value.is_some() && by_cgroup(limits.cpu.means))
}
