//! The system call filter: the precompiled program of a plan, completed for one jail.
//!
//! The programs come from `policies/tables/syscalls.toml` through the build script. What is left to do at a start is to
//! copy one and to put two values in: the number of the descriptor that holds the payload's file, and the address of the
//! empty path that the launcher's own execveat(2) passes.
//!
//! The first exec. The filter stands before the payload is executed, so it has to let exactly one execveat through. The
//! descriptor's number is not enough: given an absolute path the kernel ignores the descriptor, and a filter can't read
//! a path. But it can compare the path's address. The launcher keeps an empty text at a random place, the filter asks for
//! that address, and the payload, whose address space is a new one, can only guess among 2^38 or more (each wrong
//! guess is a notification).
//!
//! Invariant: `first_exec_path` is never printed, and no memory that the payload can read holds it.
//! Source: execveat(2); seccomp(2); Linux fs/exec.c, do_open_execat, and fs/namei.c, path_init.

use crate::sys::{seccomp, secret_page};
use libc::sock_filter;
use nix::errno::Errno;
use policies::plan::FilterName;
use std::{ffi::CStr, os::fd::OwnedFd, sync::OnceLock};

#[cfg(target_arch = "x86_64")]
mod native {
    use libc::sock_filter;
    include!(concat!(env!("OUT_DIR"), "/filters_x86_64.rs"));
}
#[cfg(target_arch = "aarch64")]
mod native {
    use libc::sock_filter;
    include!(concat!(env!("OUT_DIR"), "/filters_aarch64.rs"));
}

/// A call that every filter but init's answers with ENOSYS in silence, and the kernel alone with EINVAL when its arguments are
/// zero (Linux 5.3): what the self-test tries.
pub const SELF_TEST_CALL: libc::c_long = libc::SYS_clone3;

/// The markers of the table's `[constants]`.
const FIRST_EXEC_FD: u32 = 0x7e57_fd00;
const FIRST_EXEC_PATH_HIGH: u32 = 0x7e57_aa01;
const FIRST_EXEC_PATH_LOW: u32 = 0x7e57_aa02;

const MOST_MFD_FLAGS: u32 = 0x7e57_fd01;

/// Whether files without a name may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memfd {
    /// As the table says.
    Allowed,
    /// None: nothing would count what is in them.
    Refused,
}

/// A filter that is ready to be installed.
#[derive(Clone)]
pub struct Program {
    code: Vec<sock_filter>,
    /// The path that the launcher's execveat has to pass: empty, and at this very address.
    pub first_exec_path: &'static CStr,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Program").field("instructions", &self.code.len()).finish_non_exhaustive()
    }
}

/// The filter of a plan. Of all execs it lets `execveat(first_exec_fd, first_exec_path, …, AT_EMPTY_PATH)` through,
/// and with `CommandExec` any other.
///
/// # Errors
/// When the kernel has no random numbers or no page of memory to give.
pub fn program(name: FilterName, first_exec_fd: u32, memfd: Memfd) -> Result<Program, Errno> {
    let first_exec_path = empty_path()?;
    let template = match name {
        FilterName::Runtime => native::RUNTIME,
        FilterName::Command => native::COMMAND,
        FilterName::CommandExec => native::COMMAND_EXEC,
        FilterName::CommandNet => native::COMMAND_NET,
        FilterName::CommandNetExec => native::COMMAND_NET_EXEC,
    };
    Ok(Program {
        code: complete(template, first_exec_fd, first_exec_path.as_ptr().addr() as u64, memfd),
        first_exec_path,
    })
}

/// Confines the calling thread and gives the listener for its notifications.
///
/// From here on the payload's process makes few calls, and none of them may need an answer: it hands the listener
/// over (sendmsg), closes it, tries [`SELF_TEST_CALL`], tells of a failure (write, sendmsg, `exit_group`) and executes.
/// Landlock's own test comes before, since the runtime's filter knows no open; so do the last resource limits.
///
/// # Errors
/// As the kernel gives them; see `sys::seccomp`.
pub fn install(program: &Program) -> Result<OwnedFd, Errno> {
    seccomp::install_with_listener(&program.code)
}

/// Confines the jail's init. What its filter doesn't allow kills it, and with it the jail.
///
/// # Errors
/// As the kernel gives them; see `sys::seccomp`.
pub fn confine_init() -> Result<(), Errno> {
    seccomp::install(native::INIT)
}

/// Confines the egress. What its filter doesn't allow kills it; the jail then reaches nothing.
///
/// # Errors
/// As the kernel gives them; see `sys::seccomp`.
pub fn confine_egress() -> Result<(), Errno> {
    seccomp::install(native::EGRESS)
}

/// Whether a notification of this filter is one to look at, after which the call is made; any other is to be refused.
#[must_use]
pub fn is_watched(name: FilterName, number: i32) -> bool {
    let watches = match name {
        FilterName::CommandNet | FilterName::CommandNetExec => true,
        FilterName::Runtime | FilterName::Command | FilterName::CommandExec => false,
    };
    watches && u32::try_from(number).is_ok_and(|number| native::WATCHED.contains(&number))
}

/// The name of a call by its number.
#[must_use]
pub fn syscall_name(number: i32) -> &'static str {
    lookup(number).map_or("unknown", |(_, name, _)| name)
}

/// The capability that stands nearest to a call, for its audit entry; `syscall` where none does.
#[must_use]
pub fn capability_of(number: i32) -> &'static str {
    lookup(number).map_or("syscall", |(_, _, capability)| capability)
}

fn lookup(number: i32) -> Option<(u32, &'static str, &'static str)> {
    let number = u32::try_from(number).ok()?;
    let at = native::CALLS.binary_search_by_key(&number, |(known, _, _)| *known).ok()?;
    native::CALLS.get(at).copied()
}

fn complete(
    template: &[sock_filter],
    first_exec_fd: u32,
    first_exec_path: u64,
    memfd: Memfd,
) -> Vec<sock_filter> {
    let mut code = template.to_vec();
    for instruction in &mut code {
        instruction.k = match instruction.k {
            FIRST_EXEC_FD => first_exec_fd,
            MOST_MFD_FLAGS => match memfd {
                Memfd::Allowed => u32::MAX,
                Memfd::Refused => 0,
            },
            FIRST_EXEC_PATH_HIGH => (first_exec_path >> 32) as u32,
            FIRST_EXEC_PATH_LOW => (first_exec_path & 0xffff_ffff) as u32,
            other => other,
        };
    }
    code
}

/// One for the whole process: what it guards against is in other processes.
fn empty_path() -> Result<&'static CStr, Errno> {
    static PATH: OnceLock<&'static CStr> = OnceLock::new();
    if let Some(path) = PATH.get() {
        return Ok(path);
    }
    let path = secret_page::empty_text()?;
    Ok(PATH.get_or_init(|| path))
}

#[cfg(test)]
mod tests;
