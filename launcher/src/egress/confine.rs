//! What a process of the supervisor's side gives up before it reads a stranger's first byte.
//!
//! Source: seccomp(2), landlock(7), PR_SET_PDEATHSIG(2const), capabilities(7).

use crate::{jail::filter, sys::fd};
use ::landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr};
use caps::CapSet;
use nix::{
    errno::Errno,
    fcntl::{OFlag, open},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::Signal,
        stat::Mode,
    },
    unistd::{Gid, Uid, setgroups, setresgid, setresuid, setsid},
};
use policies::plan::Plan;
use std::os::fd::{AsFd, RawFd};

/// First of the host ids for such processes of a root caller: behind those of the jails.
const FIRST_ID: u32 = 0x7040_0000;
/// Descriptors that it is given at most.
const MOST_FILES: u64 = 4096;

/// The layers that the plan found: what the jail has, these processes have.
#[derive(Debug, Clone, Copy)]
pub struct Walls {
    abi: u32,
    filtered: bool,
}

impl Walls {
    /// Those of a plan.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        Self { abi: plan.landlock.abi, filtered: plan.filter.is_some() }
    }

    /// None: for tests of what is asked for before a process is made.
    #[must_use]
    pub fn none() -> Self {
        Self { abi: 0, filtered: false }
    }

    /// Gives up all but what is open. Tells how many descriptors there may be.
    pub(super) fn give_up(self) -> Result<u64, Errno> {
        setsid()?;
        if nix::unistd::geteuid().is_root() {
            // While CAP_SETPCAP is there. An ordinary caller's bounding set is out of reach for both of us: without
            // Linux capabilities, and with no_new_privs, nothing in it can be had.
            caps::clear(None, CapSet::Bounding).map_err(|_| Errno::EPERM)?;
            let id = FIRST_ID + (std::process::id() & 0x3f_ffff);
            setgroups(&[])?;
            setresgid(Gid::from_raw(id), Gid::from_raw(id), Gid::from_raw(id))?;
            setresuid(Uid::from_raw(id), Uid::from_raw(id), Uid::from_raw(id))?;
        }
        let parent = nix::unistd::getppid();
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        if nix::unistd::getppid() != parent {
            return Err(Errno::ESRCH);
        }
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
        let files = hard.min(MOST_FILES);
        setrlimit(Resource::RLIMIT_NOFILE, files, files)?;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        setrlimit(Resource::RLIMIT_NPROC, 0, 0)?;
        for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
            caps::clear(None, set).map_err(|_| Errno::EPERM)?;
        }
        nix::sys::prctl::set_dumpable(false)?;
        nix::sys::prctl::set_no_new_privs()?;
        if self.abi > 0 {
            let nothing = Ruleset::default()
                .handle_access(AccessFs::from_all(ABI::from(self.abi as i32)))
                .and_then(Ruleset::create)
                .and_then(|ruleset| ruleset.restrict_self());
            nothing.map_err(|_| Errno::EOPNOTSUPP)?;
        }
        if self.filtered {
            filter::confine_egress()?;
        }
        Ok(files)
    }
}

/// Closes every descriptor but these; the standard ones become /dev/null, so that no socket gets their numbers.
pub(super) fn keep_only(mut keep: Vec<RawFd>) -> Result<(), Errno> {
    let null = open(c"/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    for number in 0..3 {
        fd::duplicate_to(null.as_fd(), number, true)?;
    }
    drop(null);
    keep.sort_unstable();
    let mut next = 3;
    for number in keep {
        fd::close_between(next, number - 1)?;
        next = number + 1;
    }
    fd::close_from(next)
}
