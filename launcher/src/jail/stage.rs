//! All that the two children need, made before the first of them exists.
//!
//! Invariant: between clone and exec nothing is parsed, looked up or decided; strings, rules, programs of the filter
//! and descriptors are ready here.

use super::{
    filter::{self, Memfd},
    identity::{self, HostIds, Trees},
    landlock::StagedRules,
    root::StagedRoot,
    step::{AtStep, Failure, Step},
};
use crate::{
    cgroup::Entry,
    sys::{clone::Stack, process::StringArray},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        signal::SigSet,
        socket::{AddressFamily, SockFlag, SockType, socketpair},
        stat::Mode,
    },
    unistd::pipe2,
};
use policies::plan::{FilterName, Limits, Network, Payload, Plan, Stream};
use std::{ffi::CString, os::fd::OwnedFd};

/// A file that is copied into the working folder before the payload starts.
#[derive(Debug)]
pub struct CopyIn {
    /// Open on the host's file.
    pub file: OwnedFd,
    /// Its name in the working folder: one component.
    pub name: String,
    /// Permission bits it gets.
    pub mode: u32,
}

/// What the caller hands over besides the plan.
#[derive(Debug)]
pub struct Inputs {
    /// The way into the cgroup.
    pub cgroup: Entry,
    /// Whether the payload gets a terminal of its own, and its size.
    pub terminal: Option<nix::pty::Winsize>,
    /// The runtime's job (`policies::wire`), for that payload.
    pub job: Option<OwnedFd>,
    /// Files for the working folder.
    pub copy_in: Vec<CopyIn>,
    /// The signal mask that the payload starts with.
    pub signal_mask: SigSet,
}

/// The payload's ends of its streams: numbers 0, 1, 2 and, for the runtime, 3, 4 and 5.
#[derive(Debug)]
pub(crate) struct ChildStreams {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) job: Option<OwnedFd>,
    pub(crate) frames: Option<OwnedFd>,
    pub(crate) broker: Option<OwnedFd>,
}

/// The file to execute.
#[derive(Debug)]
pub(crate) enum Program {
    /// thirdwall itself, open.
    Itself(OwnedFd),
    /// A path of the jail.
    Path(CString),
}

/// The steps' material.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) network: Network,
    pub(crate) inside: (u32, u32),
    pub(crate) host: HostIds,
    pub(crate) drop_groups: bool,
    pub(crate) cgroup: Entry,
    pub(crate) root: StagedRoot,
    pub(crate) copy_in: Vec<(CString, CopyIn)>,
    pub(crate) hostname: CString,
    pub(crate) workdir: CString,
    pub(crate) terminal: Option<nix::pty::Winsize>,
    pub(crate) streams: Option<ChildStreams>,
    pub(crate) program: Program,
    pub(crate) argv: StringArray,
    pub(crate) environment: StringArray,
    pub(crate) nofile: u64,
    pub(crate) processes: Option<u64>,
    pub(crate) landlock: Option<StagedRules>,
    pub(crate) filter: Option<filter::Program>,
    pub(crate) signal_mask: SigSet,
    pub(crate) payload_stack: Stack,
    #[cfg(debug_assertions)]
    pub(crate) fail_at: Option<Step>,
    #[cfg(debug_assertions)]
    pub(crate) lends_no_redirect: bool,
}

/// The supervisor's ends.
#[derive(Debug)]
pub(crate) struct ParentStreams {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) frames: Option<OwnedFd>,
    pub(crate) broker: Option<OwnedFd>,
}

pub(crate) fn stage(plan: &Plan, inputs: Inputs) -> Result<(Staged, ParentStreams), Failure> {
    let host = HostIds::choose(plan.identity);
    let trees = match plan.identity.outside {
        policies::plan::Outside::Unused => Some(Trees::new(host)),
        // An ordinary caller's jail has the caller's own id outside: it may what the caller may.
        policies::plan::Outside::Caller => None,
    };
    let root = StagedRoot::new(&plan.root, plan.limits.disk, trees)?;
    let (child_streams, parent_streams) = streams(plan, inputs.job, inputs.terminal.is_some())?;
    let step = Step::Exec;
    let (program, argv) = match &plan.payload {
        Payload::Runtime => {
            let file = open(c"/proc/self/exe", OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty());
            (
                Program::Itself(file.at(Step::OpenProgram)?),
                vec![text("thirdwall", step)?, text(super::RUNTIME_FLAG, step)?],
            )
        }
        Payload::Command { program, argv, .. } => {
            let argv = argv.iter().map(|word| text(word, step)).collect::<Result<Vec<_>, _>>()?;
            (Program::Path(text(&program.0, step)?), argv)
        }
    };
    let environment = plan
        .environment
        .iter()
        .map(|(name, value)| text(&format!("{name}={value}"), step))
        .collect::<Result<Vec<_>, _>>()?;
    let copy_in = inputs
        .copy_in
        .into_iter()
        .map(|file| Ok((text(&file.name, Step::CopyIn)?, file)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let first_exec = u32::try_from(plan.limits.nofile).map_err(|_| Errno::EINVAL).at(Step::OpenProgram)?;
    let staged = Staged {
        network: plan.network.clone(),
        inside: (plan.identity.uid, plan.identity.gid),
        host,
        drop_groups: identity::drops_groups(plan.identity),
        cgroup: inputs.cgroup,
        root,
        copy_in,
        hostname: text(&plan.hostname, Step::HostName)?,
        workdir: text(&plan.workdir.0, Step::WorkFolder)?,
        terminal: inputs.terminal,
        streams: child_streams,
        program,
        argv: StringArray::new(argv),
        environment: StringArray::new(environment),
        nofile: plan.limits.nofile,
        processes: match plan.limits.pids.means {
            policies::plan::Means::Rlimit => plan.limits.pids.value,
            policies::plan::Means::CgroupV1
            | policies::plan::Means::CgroupV2
            | policies::plan::Means::Polling
            | policies::plan::Means::Supervisor
            | policies::plan::Means::Tmpfs => None,
        },
        landlock: StagedRules::new(&plan.landlock, &plan.network)?,
        filter: plan
            .filter
            .map(|name: FilterName| filter::program(name, first_exec, memfd(&plan.limits)))
            .transpose()
            .at(Step::Filter)?,
        signal_mask: inputs.signal_mask,
        payload_stack: Stack::new().at(Step::ForkPayload)?,
        #[cfg(debug_assertions)]
        fail_at: super::inject::wanted(),
        #[cfg(debug_assertions)]
        lends_no_redirect: super::inject::lends_no_redirect(),
    };
    Ok((staged, parent_streams))
}

/// Looks at processes don't see what is in a file without a name.
fn memfd(limits: &Limits) -> Memfd {
    use policies::plan::Means;
    match (limits.memory.value, limits.memory.means) {
        (Some(_), Means::Polling | Means::Rlimit) => Memfd::Refused,
        (Some(_), Means::CgroupV1 | Means::CgroupV2 | Means::Supervisor | Means::Tmpfs) | (None, _) => {
            Memfd::Allowed
        }
    }
}

fn text(string: &str, step: Step) -> Result<CString, Failure> {
    CString::new(string).map_err(|_| Errno::EINVAL).at(step)
}

/// Pipes, so that no descriptor of the caller's own is ever inside: one that is only for reading could be opened
/// anew for writing through /proc/self/fd.
fn streams(
    plan: &Plan,
    job: Option<OwnedFd>,
    terminal: bool,
) -> Result<(Option<ChildStreams>, ParentStreams), Failure> {
    let step = Step::Streams;
    if terminal {
        return Ok((
            None,
            ParentStreams { stdin: None, stdout: None, stderr: None, frames: None, broker: None },
        ));
    }
    let pipe = || pipe2(OFlag::O_CLOEXEC).at(step);
    let (stdin, stdin_feed) = pipe()?;
    let (stdout_drain, stdout) = pipe()?;
    let (stderr_drain, stderr) = pipe()?;
    let (frames_drain, frames, broker, broker_child) = match plan.payload {
        Payload::Runtime => {
            let (drain, feed) = pipe()?;
            let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC);
            let (ours, theirs) = pair.at(step)?;
            (Some(drain), Some(feed), Some(ours), Some(theirs))
        }
        Payload::Command { .. } => (None, None, None, None),
    };
    let child = ChildStreams { stdin, stdout, stderr, job, frames, broker: broker_child };
    let parent = ParentStreams {
        // Not granted: the only writer is closed here, so that the payload reads the end at once.
        stdin: match plan.stdin {
            Stream::Relayed => Some(stdin_feed),
            Stream::Closed => None,
        },
        stdout: Some(stdout_drain),
        stderr: Some(stderr_drain),
        frames: frames_drain,
        broker,
    };
    Ok((Some(child), parent))
}
