//! In the runtime's place: native code with exactly the runtime's plan.
//!
//! The jail is built by the launcher's library around this very file, which then finds itself called as the runtime.

use super::raw::{call, int, leak, say, tell};
use launcher::{
    cgroup::{Cgroup, Entry},
    jail::{Inputs, Jail},
    probe,
    supervisor::{self, Keep, Sink, Source, Wants, signals},
};
use policies::{
    ceiling::Ceiling,
    policy::Policy,
    request::{self, Options, PathFacts, Profile, Subject},
    scope::Base,
    units::Bytes,
};
use std::{error::Error, io::Write, process::ExitCode};

/// Builds the jail that `run --sandbox` has, with this program in it; prints the report.
pub(crate) fn jail(arguments: &[&str]) -> ExitCode {
    match build(arguments) {
        Ok(report) => {
            say("report", report);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say("failed", error);
            ExitCode::FAILURE
        }
    }
}

/// Builds many, one after the other, and tells what this process holds before and after.
pub(crate) fn jails(arguments: &[&str]) -> ExitCode {
    let count = arguments.first().and_then(|word| word.parse().ok()).unwrap_or(1);
    // The first one makes what lasts: the secret page, the pin, std's streams.
    let first = build(&[]);
    say("descriptors-before", descriptors());
    for _again in 0..count {
        if let Err(error) = build(&[]) {
            say("failed", error);
            return ExitCode::FAILURE;
        }
    }
    say("descriptors-after", descriptors());
    let own = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    say("children", children.split_whitespace().count());
    if first.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn build(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let ceiling = match arguments.first() {
        Some(list) => Ceiling::parse(list)?,
        None => Ceiling::sandbox(),
    };
    let base = Base { workdir: "/".to_owned(), home: None };
    let mut options = Options::new(Subject::Runtime { profile: Profile::Native }, base);
    options.ceiling = Some(ceiling);
    let request = request::resolve(&Policy::runtime(), options)?;
    let host = probe::fast();
    let plan = policies::plan::plan(&request, &PathFacts::default(), &host)?;
    let signals = signals::block()?;
    let cgroup = Cgroup::create(&plan.limits, &host).ok();
    let entry = match &cgroup {
        Some(cgroup) => cgroup.entry()?,
        None => Entry::Written(Vec::new()),
    };
    let (job, mut feed) = std::io::pipe()?;
    feed.write_all(b"no job\n")?;
    drop(feed);
    let inputs = Inputs {
        cgroup: entry,
        terminal: None,
        job: Some(job.into()),
        copy_in: Vec::new(),
        signal_mask: *signals.mask_before(),
    };
    let (jail, plan) = Jail::planned(plan).stage(inputs).map_err(|failure| format!("{failure:?}"))?;
    let running = jail.start().map_err(|failure| format!("{failure:?}"))?;
    let wants = Wants {
        stdin: Source::Empty,
        stdout: Sink::Stdout,
        stderr: Sink::Stderr,
        keep: Keep::AtMost(Bytes::mib(1)),
        signals: Some(signals),
        quiet: false,
        egress: None,
        person: None,
        state: None,
        lent: None,
    };
    let report = supervisor::supervise(running, &plan, cgroup, wants);
    Ok(serde_json::to_string(&report)?)
}

/// Everything that the runtime's filter has to refuse beyond what it refuses to all.
pub(crate) fn attack() -> ExitCode {
    super::memory::code();
    let path = leak(b"/etc/passwd");
    tell(
        "open-plain",
        &call(libc::SYS_openat, [int(libc::AT_FDCWD), path, libc::O_CLOEXEC as usize, 0, 0, 0]),
    );
    tell("open-write", &call(libc::SYS_openat, [int(libc::AT_FDCWD), path, libc::O_RDWR as usize, 0, 0, 0]));
    tell("open-path", &call(libc::SYS_openat, [int(libc::AT_FDCWD), path, libc::O_PATH as usize, 0, 0, 0]));
    tell("fork", &call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]));
    tell("thread", &call(libc::SYS_clone, [libc::CLONE_THREAD as usize, 0, 0, 0, 0, 0]));
    tell("socket", &call(libc::SYS_socket, [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0, 0, 0, 0]));
    tell(
        "socketpair",
        &call(
            libc::SYS_socketpair,
            [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0, super::raw::leak_words(&[0]), 0, 0],
        ),
    );
    tell("memfd-sealed", &call(libc::SYS_memfd_create, [leak(b"x"), 0x8, 0, 0, 0, 0]));
    tell("kill", &call(libc::SYS_kill, [0, 0, 0, 0, 0, 0]));
    tell("mkdir", &call(libc::SYS_mkdirat, [int(libc::AT_FDCWD), leak(b"/tmp/x"), 0o700, 0, 0, 0]));
    tell("rename", &call(libc::SYS_renameat2, [int(libc::AT_FDCWD), path, int(libc::AT_FDCWD), path, 0, 0]));
    tell("ioctl", &call(libc::SYS_ioctl, [0, 0x5401, 0, 0, 0, 0]));
    tell("prctl", &call(libc::SYS_prctl, [15, leak(b"x"), 0, 0, 0, 0]));
    tell("execve", &call(libc::SYS_execve, [leak(b"/proc/self/exe"), 0, 0, 0, 0, 0]));
    ExitCode::SUCCESS
}
