//! The payload's process, from its fork to the exec: every step here is the payload's alone.
//!
//! Invariant: returns never; either the program runs with all layers in force, or a failure was told and nothing ran.

use super::{
    Channel, filter, identity, landlock,
    stage::{ChildStreams, Program, Staged},
    step::{AtStep, Failure, Step},
};
use crate::sys::{
    fd,
    process::{self, exit_now},
    winsize,
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        resource::{Resource, setrlimit},
        stat::Mode,
    },
    unistd::{chdir, setsid},
};
use std::{
    convert::Infallible,
    ffi::CString,
    os::fd::{AsFd, OwnedFd},
};

/// Runs as the payload's first process.
///
/// It runs on init's memory, which stands still meanwhile: nothing of `staged` is given up here.
pub(crate) fn run(staged: &Staged, channel: Channel<'_>) -> ! {
    // The channel moves out of the way of the low numbers, so that a failure after they are closed can be told too.
    let control = match fd::duplicate_above(channel.0, 16).at(Step::PayloadSession) {
        Ok(control) => control,
        Err(failure) => {
            channel.fail(failure);
            exit_now(125)
        }
    };
    let channel = Channel(control.as_fd());
    match confine(staged, channel) {
        Ok(never) => match never {},
        Err(failure) => {
            channel.fail(failure);
            exit_now(125)
        }
    }
}

fn confine(staged: &Staged, channel: Channel<'_>) -> Result<Infallible, Failure> {
    staged.reached(Step::PayloadSession)?;
    setsid().at(Step::PayloadSession)?;
    let terminal = match &staged.terminal {
        Some(size) => Some(open_terminal(size, channel).at(Step::PayloadSession)?),
        None => None,
    };
    staged.reached(Step::Streams)?;
    // The program's file moves out of the way of the low numbers.
    let program = match &staged.program {
        Program::Itself(file) => Some(fd::duplicate_above(file.as_fd(), 16).at(Step::Streams)?),
        Program::Path(_) => None,
    };
    let passed = streams(staged.streams.as_ref(), terminal.as_ref()).at(Step::Streams)?;
    // What this process inherited is not used from here on: the low numbers go now, so that they are free under any
    // limit on descriptors, and the rest goes at the exec.
    fd::close_between(passed, 15).at(Step::Streams)?;
    fd::close_on_exec_from(passed).at(Step::Streams)?;
    staged.reached(Step::WorkFolder)?;
    chdir(staged.workdir.as_c_str()).at(Step::WorkFolder)?;

    staged.reached(Step::OpenProgram)?;
    let opened = match (program, &staged.program) {
        (Some(file), _) => file,
        (None, Program::Path(path)) => {
            open(path.as_c_str(), OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty()).at(Step::OpenProgram)?
        }
        (None, Program::Itself(_)) => return Err(Errno::EBADF).at(Step::OpenProgram),
    };
    let number = i32::try_from(staged.nofile).map_err(|_| Errno::EINVAL).at(Step::OpenProgram)?;
    // The soft limit may stand below the number; the hard one was checked by the plan.
    setrlimit(Resource::RLIMIT_NOFILE, staged.nofile + 1, hard_nofile(staged.nofile).at(Step::OpenProgram)?)
        .at(Step::OpenProgram)?;
    fd::duplicate_to(opened.as_fd(), number, true).at(Step::OpenProgram)?;
    let itself = matches!(staged.program, Program::Itself(_)).then(|| opened.as_fd());

    staged.reached(Step::ResourceLimits)?;
    resource_limits(staged)?;
    staged.reached(Step::DropLinuxCaps)?;
    identity::drop_linux_caps()?;
    staged.reached(Step::NotDumpable)?;
    identity::not_dumpable()?;
    staged.reached(Step::NoNewPrivs)?;
    nix::sys::prctl::set_no_new_privs().at(Step::NoNewPrivs)?;
    identity::default_signals().at(Step::NoNewPrivs)?;
    staged.signal_mask.thread_set_mask().at(Step::NoNewPrivs)?;

    if let Some(rules) = &staged.landlock {
        staged.reached(Step::Landlock)?;
        landlock::restrict(rules, itself)?;
        staged.reached(Step::SelfTestOpen)?;
        self_test_open()?;
    }
    staged.reached(Step::DescriptorLimit)?;
    setrlimit(Resource::RLIMIT_NOFILE, staged.nofile, staged.nofile).at(Step::DescriptorLimit)?;
    let mut path = c"";
    if let Some(program) = &staged.filter {
        staged.reached(Step::Filter)?;
        let listener = filter::install(program).at(Step::Filter)?;
        channel.listener(listener.as_fd()).at(Step::Filter)?;
        drop(listener);
        staged.reached(Step::SelfTestCall)?;
        self_test_call()?;
        path = program.first_exec_path;
    }
    staged.reached(Step::Exec)?;
    process::exec(fd::borrow(number), path, &staged.argv, &staged.environment).at(Step::Exec)
}

/// Opens a pseudo-terminal of the jail's own devpts, sends its master out, and makes its slave the controlling
/// terminal.
fn open_terminal(size: &nix::pty::Winsize, channel: Channel<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = open(c"/dev/pts/ptmx", flags, Mode::empty())?;
    let number = process::unlock_terminal(master.as_fd())?;
    let slave = CString::new(format!("/dev/pts/{number}")).map_err(|_| Errno::EINVAL)?;
    let slave = open(slave.as_c_str(), flags, Mode::empty())?;
    process::control_terminal(slave.as_fd())?;
    winsize::set(slave.as_fd(), *size)?;
    channel.terminal(master.as_fd())?;
    Ok(slave)
}

/// Puts the streams to their numbers and gives the first number that is not passed.
fn streams(streams: Option<&ChildStreams>, terminal: Option<&OwnedFd>) -> Result<i32, Errno> {
    let plain = |wanted: [Option<&OwnedFd>; 6]| -> Result<i32, Errno> {
        // All out of the way first: one of them may stand on the number of another.
        let mut high: [Option<OwnedFd>; 6] = [None, None, None, None, None, None];
        for (slot, descriptor) in high.iter_mut().zip(wanted) {
            if let Some(descriptor) = descriptor {
                *slot = Some(fd::duplicate_above(descriptor.as_fd(), 16)?);
            }
        }
        let mut passed = 0;
        for (number, descriptor) in high.iter().enumerate() {
            if let Some(descriptor) = descriptor {
                fd::duplicate_to(descriptor.as_fd(), number as i32, false)?;
                passed = number as i32 + 1;
            }
        }
        Ok(passed)
    };
    match (streams, terminal) {
        (Some(s), _) => {
            let (job, frames, broker) = (s.job.as_ref(), s.frames.as_ref(), s.broker.as_ref());
            plain([Some(&s.stdin), Some(&s.stdout), Some(&s.stderr), job, frames, broker])
        }
        (None, Some(slave)) => plain([Some(slave), Some(slave), Some(slave), None, None, None]),
        (None, None) => Err(Errno::EBADF),
    }
}

fn hard_nofile(wanted: u64) -> Result<u64, Errno> {
    let (_, hard) = nix::sys::resource::getrlimit(Resource::RLIMIT_NOFILE)?;
    if hard > wanted { Ok(hard) } else { Err(Errno::EMFILE) }
}

fn resource_limits(staged: &Staged) -> Result<(), Failure> {
    let step = Step::ResourceLimits;
    // No core files, and no visit of the host's handler, which runs as the host's root: 0 only forbids files, the special
    // value 1 also the pipe to a handler (core(5); Linux fs/coredump.c). The filter lets nobody change it.
    setrlimit(Resource::RLIMIT_CORE, 1, 1).at(step)?;
    if let Some(processes) = staged.processes {
        // init counts on the same account.
        setrlimit(Resource::RLIMIT_NPROC, processes + 1, processes + 1).at(step)?;
    }
    Ok(())
}

/// The root itself is granted by no rule, so opening it must be refused.
fn self_test_open() -> Result<(), Failure> {
    match open(c"/", OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty()) {
        Err(Errno::EACCES) => Ok(()),
        Err(errno) => Err(errno).at(Step::SelfTestOpen),
        // Landlock let it pass: nothing may run.
        Ok(_) => Err(Errno::ENOTRECOVERABLE).at(Step::SelfTestOpen),
    }
}

/// A call in none of the lists must be unknown.
fn self_test_call() -> Result<(), Failure> {
    match process::unknown_call() {
        Errno::ENOSYS => Ok(()),
        _let_pass => Err(Errno::ENOTRECOVERABLE).at(Step::SelfTestCall),
    }
}
