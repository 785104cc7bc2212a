//! pid 1 of the jail: makes the shared surroundings, forks the payload, reaps, and tells how the payload ended.
//!
//! Invariant: it never executes anything, uses no secret, is not dumpable, has a filter of its own, and ends when
//! the payload or the supervisor does; the kernel then kills all that is left in its pid namespace.
//! Source: pid_namespaces(7), signalfd(2), PR_SET_PDEATHSIG(2const).

use super::{
    Channel, ExitRecord, filter, identity, payload, root, sockets,
    stage::Staged,
    step::{AtStep, Failure, Step},
};
use crate::{
    cgroup::Entry,
    sys::{clone, fd, keyring, process::exit_now, socket, wait},
};
use nix::{
    errno::Errno,
    fcntl::{OFlag, openat},
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sched::{CloneFlags, unshare},
    sys::{
        resource::{UsageWho, getrusage},
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        stat::Mode,
    },
    unistd::{Pid, setsid, write},
};
use policies::plan::Network;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// init's ends.
#[derive(Debug)]
pub(crate) struct InitPipes {
    pub(crate) control: OwnedFd,
    pub(crate) exit: OwnedFd,
    pub(crate) lifeline: OwnedFd,
}

/// Runs as pid 1. Never returns.
pub(crate) fn run(staged: Staged, pipes: InitPipes) -> ! {
    let channel = Channel(pipes.control.as_fd());
    match prepare(staged, &pipes) {
        Ok((payload, signals)) => watch(payload, &signals, pipes),
        Err(failure) => {
            channel.fail(failure);
            exit_now(125)
        }
    }
}

/// All steps of pid 1, the fork of the payload last.
fn prepare(staged: Staged, pipes: &InitPipes) -> Result<(Pid, SignalFd), Failure> {
    let channel = Channel(pipes.control.as_fd());
    staged.reached(Step::EnterCgroup)?;
    if let Entry::Written(files) = &staged.cgroup {
        for file in files {
            // "0" is the writer itself, wherever it stands: no lock of other groups is taken.
            write(file, b"0").at(Step::EnterCgroup)?;
        }
    }
    staged.reached(Step::CgroupNamespace)?;
    unshare(CloneFlags::CLONE_NEWCGROUP).at(Step::CgroupNamespace)?;
    staged.reached(Step::BoundingSet)?;
    identity::empty_bounding_set()?;
    staged.reached(Step::IdMaps)?;
    let mut go = [0];
    if socket::receive(channel.0, &mut go).at(Step::IdMaps)?.0 != 1 {
        return Err(Errno::EPIPE).at(Step::IdMaps);
    }
    staged.reached(Step::BecomeUser)?;
    identity::become_user(staged.inside.0, staged.inside.1, staged.drop_groups)?;
    staged.reached(Step::ParentDeath)?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).at(Step::ParentDeath)?;
    staged.reached(Step::Session)?;
    setsid().at(Step::Session)?;
    staged.reached(Step::Keyring)?;
    keyring::new_session().at(Step::Keyring)?;

    if let Network::Named(network) = &staged.network {
        staged.reached(Step::Network)?;
        sockets::make(network, staged.may_redirect(), channel)?;
    }
    staged.reached(Step::MakeRoot)?;
    let top = root::make(&staged.root)?;
    staged.reached(Step::BuildRoot)?;
    root::build(&staged.root, top.as_fd())?;
    staged.reached(Step::CopyIn)?;
    copy_in(&staged, top.as_fd())?;
    staged.reached(Step::PivotRoot)?;
    root::pivot()?;
    staged.reached(Step::SealRoot)?;
    root::seal()?;
    staged.reached(Step::HostName)?;
    nix::unistd::sethostname(std::ffi::OsStr::new(staged.hostname.to_str().unwrap_or("jail")))
        .at(Step::HostName)?;

    staged.reached(Step::ForkPayload)?;
    // Before the fork, so that the end of a short payload is not missed.
    let mut child = SigSet::empty();
    child.add(Signal::SIGCHLD);
    SigSet::all().thread_block().at(Step::ForkPayload)?;
    let signals = SignalFd::with_flags(&child, SfdFlags::SFD_CLOEXEC).at(Step::ForkPayload)?;
    let (pid, pidfd) = clone::lend_memory(&staged.payload_stack, &mut || payload::run(&staged, channel))
        .at(Step::ForkPayload)?;
    // Here the payload was executed, or has told why not: its word came first.
    channel.payload(pidfd.as_fd(), top.as_fd()).at(Step::ForkPayload)?;
    // Nothing of it is used again: freeing memory would copy the pages that are still shared, and the descriptors all go
    // at once.
    std::mem::forget((staged, top, pidfd));
    Ok((pid, signals))
}

/// Copies the files for the working folder, on the jail's account: the tmpfs bounds them.
fn copy_in(staged: &Staged, top: BorrowedFd<'_>) -> Result<(), Failure> {
    let step = Step::CopyIn;
    if staged.copy_in.is_empty() {
        return Ok(());
    }
    let workdir = staged.workdir.to_bytes();
    let relative = workdir.strip_prefix(b"/").unwrap_or(workdir);
    let folder = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
    let workdir = openat(top, relative, folder, Mode::empty()).at(step)?;
    for (place, (name, file)) in staged.copy_in.iter().enumerate() {
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        let target = openat(&workdir, name.as_c_str(), flags, Mode::from_bits_truncate(file.mode))
            .at_item(step, place)?;
        loop {
            match nix::sys::sendfile::sendfile(&target, &file.file, None, 1 << 30).at_item(step, place)? {
                0 => break,
                _more => {}
            }
        }
    }
    Ok(())
}

/// Gives up everything, then waits for the payload's end or the supervisor's.
fn watch(payload: Pid, signals: &SignalFd, pipes: InitPipes) -> ! {
    // From here on only these three; what stood open for the mounts and streams is closed.
    let (exit, lifeline) = (pipes.exit.as_fd(), pipes.lifeline.as_fd());
    let Ok([exit, lifeline, signals]) = keep_only([exit, lifeline, signals.as_fd()]) else { exit_now(125) };
    std::mem::forget(pipes);
    if identity::drop_linux_caps().is_err()
        || identity::not_dumpable().is_err()
        || nix::sys::prctl::set_no_new_privs().is_err()
        || filter::confine_init().is_err()
    {
        exit_now(125);
    }
    loop {
        let mut events = [PollFd::new(signals, PollFlags::POLLIN), PollFd::new(lifeline, PollFlags::empty())];
        match poll(&mut events, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => exit_now(125),
        }
        if events[1].revents().is_some_and(|seen| !seen.is_empty()) {
            exit_now(125);
        }
        let mut drained = [0; 512];
        let _emptied = nix::unistd::read(signals, &mut drained);
        while let Ok(Some((pid, status))) = wait::ended_child() {
            if pid == payload {
                tell(exit, status);
            }
        }
    }
}

/// Writes the record and ends, and with it the jail.
fn tell(exit: BorrowedFd<'_>, status: i32) -> ! {
    let (mut cpu_us, mut max_rss_kib) = (0, 0);
    if let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) {
        let micros = |time: nix::sys::time::TimeVal| time.tv_sec() as u64 * 1_000_000 + time.tv_usec() as u64;
        cpu_us = micros(usage.user_time()) + micros(usage.system_time());
        max_rss_kib = usage.max_rss() as u64;
    }
    let record = ExitRecord { status, cpu_us, max_rss_kib };
    let _told = write(exit, &record.encode());
    exit_now(0)
}

/// Moves the three to the numbers 0, 1, 2 and closes all else.
fn keep_only(kept: [BorrowedFd<'_>; 3]) -> Result<[BorrowedFd<'static>; 3], Errno> {
    // Out of the way first, so that none is overwritten by another.
    let high = [
        fd::duplicate_above(kept[0], 64)?,
        fd::duplicate_above(kept[1], 64)?,
        fd::duplicate_above(kept[2], 64)?,
    ];
    for (number, descriptor) in high.iter().enumerate() {
        fd::duplicate_to(descriptor.as_fd(), number as i32, true)?;
    }
    std::mem::forget(high);
    fd::close_from(3)?;
    Ok([fd::borrow(0), fd::borrow(1), fd::borrow(2)])
}

/// Whether pid 1 is still a child of ours, for callers that reap.
pub(crate) fn reap(pidfd: &OwnedFd) -> Result<(), Errno> {
    wait::collect(pidfd.as_fd())
}
