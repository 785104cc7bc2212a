//! The jail: planned → staged → confined.
//!
//! ```text
//! supervisor ── clone ──▶ init (pid 1): cgroup, ids, session, root, pivot ── fork ──▶ payload: streams, limits,
//!     ▲  ids maps, go ──▶                                                             Linux caps, Landlock, filter,
//!     │                                                                               self-test, exec
//!     └─── control channel: descriptors on the way, a failure record, or init's word when the exec succeeded
//! ```
//!
//! Invariant: the steps happen in the order of [`Step::ALL`]; a failed one ends the start, and nothing of the program
//! has run. The type says how far a jail is: only a staged one can be started, and only once.

pub mod filter;
mod holder;
mod identity;
mod init;
#[cfg(debug_assertions)]
mod inject;
mod landlock;
mod netlink;
pub mod network;
mod payload;
mod root;
mod running;
mod sockets;
mod stage;
mod step;

pub use running::{ExitRecord, Running, Streams};
pub use sockets::Purpose;
pub(crate) use sockets::open_spare;
pub use stage::{CopyIn, Inputs};
pub use step::{Failure, Step};

use crate::{
    cgroup::Entry,
    sys::{
        clone::{self, Side},
        socket,
    },
};
use init::InitPipes;
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::{
        signal::Signal,
        socket::{AddressFamily, SockFlag, SockType, socketpair},
    },
    unistd::pipe2,
};
use policies::plan::{Network, Plan};
use stage::{ParentStreams, Staged};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use step::AtStep;

/// The first argument that makes thirdwall's own file the language runtime.
pub const RUNTIME_FLAG: &str = "--runtime-process";

/// A jail that was decided on. `State` says how far it is.
///
/// ```compile_fail
/// # fn wrong(plan: policies::plan::Plan) {
/// // A jail that was only planned can't be started.
/// launcher::jail::Jail::planned(plan).start();
/// # }
/// ```
#[derive(Debug)]
pub struct Jail<State>(State);

/// Decided, nothing done.
#[derive(Debug)]
pub struct Planned(Plan);

/// All material made, no process yet.
#[derive(Debug)]
pub struct Ready {
    staged: Staged,
    streams: ParentStreams,
}

impl Jail<Planned> {
    /// From a plan.
    #[must_use]
    pub fn planned(plan: Plan) -> Self {
        Self(Planned(plan))
    }

    /// Makes all that the children need.
    ///
    /// # Errors
    /// The step whose material could not be made.
    pub fn stage(self, inputs: Inputs) -> Result<(Jail<Ready>, Plan), Failure> {
        let (staged, streams) = stage::stage(&self.0.0, inputs)?;
        Ok((Jail(Ready { staged, streams }), self.0.0))
    }
}

impl Jail<Ready> {
    /// Builds the jail and executes the program in it.
    ///
    /// # Errors
    /// The step that failed; everything that was begun is gone again, and nothing of the program has run.
    pub fn start(self) -> Result<Running, Failure> {
        let Ready { staged, streams } = self.0;
        let (control, control_child) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
                .at(Step::Clone)?;
        let (exit_pipe, exit) = pipe2(OFlag::O_CLOEXEC).at(Step::Clone)?;
        let (lifeline_child, lifeline) = pipe2(OFlag::O_CLOEXEC).at(Step::Clone)?;

        let mut namespaces = libc::CLONE_NEWUSER
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNS
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUTS;
        staged.reached(Step::EnterNetwork)?;
        match &staged.network {
            Network::SharedEmpty => network::enter_shared()?,
            Network::OwnEmpty | Network::Named(_) => namespaces |= libc::CLONE_NEWNET,
        }
        staged.reached(Step::Clone)?;
        let drops_groups = staged.drop_groups;
        let (inside, host, filtered) = (staged.inside, staged.host, staged.filter.is_some());
        let group = match &staged.cgroup {
            Entry::Born(folder) => Some(folder.as_fd()),
            Entry::Written(_) => None,
        };
        match clone::fork_into(namespaces as u64, group).at(Step::Clone)? {
            Side::Child => {
                // Of the parent's ends the channel's goes now, so that its end is seen here when the supervisor dies; the
                // others are closed with all the rest, by init before it watches and by the payload's exec.
                drop(control);
                std::mem::forget((exit_pipe, lifeline, streams));
                init::run(staged, InitPipes { control: control_child, exit, lifeline: lifeline_child })
            }
            Side::Parent { pid, pidfd } => {
                // First what the child waits for.
                let released = identity::write_maps(pid, inside, host, drops_groups)
                    .and_then(|()| socket::send(control.as_fd(), b"g", &[]))
                    .at(Step::IdMaps);
                drop((control_child, exit, lifeline_child, staged));
                let told = match released {
                    Ok(()) => listen(control.as_fd()),
                    Err(failure) => {
                        // A child that failed before is gone or deaf, and has told why.
                        let _gone = crate::sys::pidfd::send_signal(pidfd.as_fd(), Signal::SIGKILL);
                        Err(listen(control.as_fd()).err().unwrap_or(failure))
                    }
                };
                match told {
                    // A payload that died without a word before the filter stood looks to init just like an exec.
                    Ok(Told { payload: Some(payload_pidfd), listener, scratch, terminal, network })
                        if listener.is_some() == filtered =>
                    {
                        Ok(Running {
                            init: pid,
                            init_pidfd: pidfd,
                            payload_pidfd,
                            exit_pipe,
                            lifeline,
                            listener,
                            scratch,
                            network,
                            streams: Streams {
                                stdin: streams.stdin,
                                stdout: streams.stdout,
                                stderr: streams.stderr,
                                terminal,
                                frames: streams.frames,
                                broker: streams.broker,
                            },
                        })
                    }
                    told => {
                        drop(lifeline);
                        let _gone = crate::sys::pidfd::send_signal(pidfd.as_fd(), Signal::SIGKILL);
                        let _reaped = init::reap(&pidfd);
                        Err(told.err().unwrap_or(Failure {
                            step: Step::ForkPayload,
                            errno: Errno::ECHILD,
                            item: None,
                        }))
                    }
                }
            }
        }
    }
}

impl Staged {
    /// Marks the place of a step; in debug builds a test can make it fail here.
    #[cfg(debug_assertions)]
    pub(crate) fn reached(&self, step: Step) -> Result<(), Failure> {
        if self.fail_at == Some(step) { Err(Errno::EIO).at(step) } else { Ok(()) }
    }

    /// Whether a redirect may be tried; in debug builds a test can take it away.
    #[cfg(debug_assertions)]
    pub(crate) fn may_redirect(&self) -> Result<(), Errno> {
        if self.lends_no_redirect { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }

    /// Whether a redirect may be tried.
    #[cfg(not(debug_assertions))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the debug build's signature")]
    pub(crate) fn may_redirect(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// Marks the place of a step.
    #[cfg(not(debug_assertions))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the debug build's signature")]
    pub(crate) fn reached(&self, _step: Step) -> Result<(), Failure> {
        Ok(())
    }
}

/// The children's end of the control channel: one tagged message each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Channel<'a>(pub(crate) BorrowedFd<'a>);

const PAYLOAD: u8 = b'p';
const LISTENER: u8 = b'l';
const TERMINAL: u8 = b't';
const NETWORK: u8 = b'n';
const FAILED: u8 = b'f';

impl Channel<'_> {
    fn payload(self, pidfd: BorrowedFd<'_>, scratch: BorrowedFd<'_>) -> Result<(), Errno> {
        socket::send(self.0, &[PAYLOAD], &[pidfd, scratch])
    }
    fn listener(self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        socket::send(self.0, &[LISTENER], &[fd])
    }
    fn terminal(self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        socket::send(self.0, &[TERMINAL], &[fd])
    }
    fn fail(self, failure: Failure) {
        let mut message = [FAILED; Failure::SIZE + 1];
        message[1..].copy_from_slice(&failure.encode());
        // Nobody to tell means that the supervisor is gone; this process ends next in any case.
        let _told = socket::send(self.0, &message, &[]);
    }
}

#[derive(Debug, Default)]
struct Told {
    payload: Option<OwnedFd>,
    listener: Option<OwnedFd>,
    scratch: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    network: Vec<(Purpose, OwnedFd)>,
}

/// Reads the channel until init tells that the payload was executed, or one of both tells what failed.
fn listen(control: BorrowedFd<'_>) -> Result<Told, Failure> {
    let mut told = Told::default();
    loop {
        let mut message = [0; Failure::SIZE + 1];
        let (length, descriptors) = match socket::receive(control, &mut message) {
            // A child that ended without reading its go resets the channel; what it had told is still there.
            Err(Errno::EINTR | Errno::ECONNRESET) => continue,
            other => other.at(Step::Clone)?,
        };
        if length == 0 {
            // Both children are gone without the word that ends a start.
            return Err(Failure { step: Step::ForkPayload, errno: Errno::ECHILD, item: None });
        }
        match message[0] {
            PAYLOAD => {
                let mut both = descriptors.into_iter();
                (told.payload, told.scratch) = (both.next(), both.next());
                return Ok(told);
            }
            LISTENER => told.listener = descriptors.into_iter().next(),
            TERMINAL => told.terminal = descriptors.into_iter().next(),
            NETWORK => {
                if let Some(purpose) = Purpose::decode([message[1], message[2], message[3]]) {
                    told.network.extend(descriptors.into_iter().map(|socket| (purpose, socket)));
                }
            }
            _failed => {
                let mut record = [0; Failure::SIZE];
                record.copy_from_slice(&message[1..]);
                let unreadable = Failure { step: Step::Clone, errno: Errno::EPROTO, item: None };
                return Err(Failure::decode(&record).unwrap_or(unreadable));
            }
        }
    }
}
