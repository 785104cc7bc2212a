//! The real runtime with no jail around it, and beside it a broker that lends the whole machine: what a program can't do
//! here, the language's own walls have refused. Only tests have such a thing; the launcher has no way to it.
//!
//! `hostile unjailed CEILING PROFILE FILE`, where the ceiling may be `open`: there is none. Prints the end as JSON.

use super::raw::{call, leak, own, say};
use launcher::{
    broker::{Broker, Children, Lent, Nesting, Order, Outer, Outside, Used, Words},
    probe,
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        socket::{AddressFamily, SockFlag, SockType, socketpair},
        wait::waitpid,
    },
    unistd::{ForkResult, fork},
};
use policies::{
    audit::Entry,
    broker::{self, Exited, Ran},
    ceiling::Ceiling,
    policy::Policy,
    request::{self, Options, PathFacts, Subject},
    scope::Base,
    units::Millis,
    wire::{self, Frame, FrameDecoder, JobHeader, Profile},
};
use std::{
    error::Error,
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::OwnedFd,
    process::ExitCode,
    time::{Duration, Instant},
};

/// Runs it and prints what became of it.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let done = match arguments {
        [ceiling, profile, file] => unjailed(ceiling, profile, file),
        _ => Err("a ceiling, a profile and a file are needed".into()),
    };
    match done.and_then(|ran| Ok(serde_json::to_string(&ran)?)) {
        Ok(json) => {
            say("ran", json);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say("failed", error);
            ExitCode::FAILURE
        }
    }
}

fn unjailed(ceiling: &str, profile: &str, file: &str) -> Result<Ran, Box<dyn Error>> {
    let source = std::fs::read(file)?;
    let workdir = std::env::current_dir()?.to_str().ok_or("the folder is not UTF-8")?.to_owned();
    let mut header = JobHeader::run(file, (ceiling != "open").then(|| ceiling.to_owned()));
    header.profile = if profile == "pure" { Profile::Pure } else { Profile::Native };
    header.env = std::env::vars().collect();
    header.workdir = Some(workdir.clone());
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    let job = filled(&wire::encode_job(&header, &source, &[], None)?)?;
    let frames = memory()?;
    let (job, written) = (job, frames.try_clone()?);
    // SAFETY: this process has one thread, so the child may do whatever the parent may.
    let child = match unsafe { fork() }? {
        ForkResult::Child => {
            drop(ours);
            std::process::exit(runtime::worker::run_with(job, written, Some(theirs)));
        }
        ForkResult::Parent { child } => child,
    };
    drop(theirs);
    let audit = serve(ours, Base { workdir, home: None })?;
    let _ended = waitpid(child, None)?;
    let mut ran = read(frames)?;
    ran.audit.extend(audit);
    Ok(ran)
}

/// Lends everything until the peer has gone.
fn serve(socket: OwnedFd, base: Base) -> Result<Vec<Entry>, Box<dyn Error>> {
    let mut options = Options::new(Subject::Runtime { profile: request::Profile::Native }, base.clone());
    // Only its limits are asked for.
    options.ceiling = Some(Ceiling::sandbox());
    let request = request::resolve(&Policy::runtime(), options)?;
    let plan = policies::plan::plan(&request, &PathFacts::default(), &probe::fast())?;
    let children = Children {
        start: in_this_process,
        command: without_a_jail,
        profile: broker::Profile::Native,
        nesting: Nesting { depth: 0, most: 4 },
        limits: plan.limits,
        fuel: None,
        heap: None,
        groups: Vec::new(),
        home: None,
    };
    let (ceiling, outside) = (Ceiling::everything(), Outside::bare());
    let lent = Lent {
        ceiling,
        base,
        outer: Outer::nobody(),
        notebooks: None,
        children: Some(children),
        modules: None,
        outside,
    };
    let mut broker = Broker::new(socket, lent);
    let mut entries = Vec::new();
    loop {
        let (asked, ended) = {
            let Some(requests) = broker.requests() else { return Ok(entries) };
            let mut watched = vec![PollFd::new(requests, PollFlags::POLLIN)];
            watched.extend(broker.outside().map(|outside| PollFd::new(outside, PollFlags::POLLIN)));
            watched.extend(broker.child().map(|child| PollFd::new(child, PollFlags::POLLIN)));
            poll(&mut watched, PollTimeout::NONE)?;
            let any = |at: usize| watched.get(at).is_some_and(|one| one.any().unwrap_or(false));
            (any(0), any(1))
        };
        // Only one of the two is ever under way.
        let fetched = ended && broker.outside().is_some();
        if fetched {
            broker.outside_ended(Instant::now(), &mut |entry| entries.push(entry))?;
        } else if ended {
            broker.child_ended(&mut |entry| entries.push(entry), &mut |_spent: Duration| ())?;
        }
        if asked {
            let mut used = || Used { memory: 0, processes: 1, cpu: Millis(0) };
            broker.serve(&mut |entry| entries.push(entry), &mut used)?;
            // Nobody's terminal is lent.
            broker.answer_terminal(None)?;
        }
    }
}

/// In the place of a launcher: the command as it is.
fn without_a_jail(_order: Order, words: Words) -> Result<Exited, String> {
    let (first, rest) = words.argv.split_first().ok_or("no command")?;
    let output =
        std::process::Command::new(first).args(rest).output().map_err(|error| format!("{first}: {error}"))?;
    Ok(Exited {
        exit_code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        stdout_truncated: false,
        stderr_truncated: false,
        ended: None,
        timed_out: false,
        audit: Vec::new(),
    })
}

/// A child of the program, in the fork that its supervisor would be.
fn in_this_process(order: Order) -> Result<Ran, String> {
    let mut header = JobHeader::run(&order.filename, Some(order.ceiling.to_string()));
    header.env = order.env;
    header.workdir = Some(order.base.workdir);
    header.profile = match order.profile {
        broker::Profile::Pure => Profile::Pure,
        broker::Profile::Native => Profile::Native,
    };
    let job = wire::encode_job(&header, &order.source, &[], None).map_err(|error| error.to_string())?;
    let run = || -> io::Result<Ran> {
        let frames = memory()?;
        let _exit = runtime::worker::run_with(filled(&job)?, frames.try_clone()?, None);
        read(frames)
    };
    run().map_err(|error| error.to_string())
}

fn memory() -> io::Result<File> {
    // MFD_CLOEXEC | MFD_NOEXEC_SEAL
    let number = call(libc::SYS_memfd_create, [leak(b"unjailed"), 0x1 | 0x8, 0, 0, 0, 0])?;
    Ok(own(number as i32))
}

fn filled(bytes: &[u8]) -> io::Result<File> {
    let mut file = memory()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Frames as the supervisor reads them.
fn read(mut frames: File) -> io::Result<Ran> {
    let mut bytes = Vec::new();
    frames.rewind()?;
    frames.read_to_end(&mut bytes)?;
    let mut decoder = FrameDecoder::new();
    decoder.push(&bytes);
    let mut ran = Ran {
        ok: false,
        output: Vec::new(),
        errors: Vec::new(),
        audit: Vec::new(),
        exit: None,
        timed_out: false,
        llm_tokens: 0,
        fuel: 0,
    };
    while let Some(frame) = decoder.next_frame().map_err(io::Error::other)? {
        match frame {
            Frame::Print(text) | Frame::PrintPart(text) => ran.output.push(text),
            Frame::Log(_) | Frame::Want(_) | Frame::State(_) => {}
            Frame::Error(error) => ran.errors.push(error.text),
            Frame::Audit(entry) => ran.audit.push(entry),
            Frame::End(end) => {
                ran.ok = end.exit == 0;
                ran.exit = Some(end.exit);
            }
        }
    }
    Ok(ran)
}
