//! The five sets of Linux capabilities, emptied in the fewest calls.
//!
//! Source: capabilities(7); capset(2), version 3; PR_CAPBSET_DROP(2const); PR_CAP_AMBIENT(2const).

use nix::errno::Errno;

/// linux/capability.h
const VERSION_3: u32 = 0x2008_0522;
/// Numbers that the interface has room for; the kernel says EINVAL behind its last one.
const MOST: libc::c_ulong = 64;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// One half of the numbers.
#[repr(C)]
#[derive(Default)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops every number that this kernel knows from the bounding set.
///
/// # Errors
/// EPERM without CAP_SETPCAP.
pub(crate) fn empty_bounding_set() -> Result<(), Errno> {
    for number in 0..MOST {
        // SAFETY: takes plain numbers.
        match Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) }) {
            Ok(_) => {}
            Err(Errno::EINVAL) if number > 0 => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Empties the ambient, inheritable, permitted and effective sets.
///
/// # Errors
/// As the kernel gives them; less is always allowed.
pub(crate) fn empty_other_sets() -> Result<(), Errno> {
    // SAFETY: takes plain numbers.
    Errno::result(unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) })?;
    let header = Header { version: VERSION_3, pid: 0 };
    let none = [Half::default(), Half::default()];
    // SAFETY: version 3 reads one header and two halves, which live over the call; it writes the header only when it
    // doesn't know the version, and this one it does (Linux 2.6.26).
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clone::{Side, fork_into};
    use nix::sys::wait::{WaitStatus, waitpid};

    #[test]
    fn all_five_sets_are_empty_afterwards() {
        // In a user namespace of its own the child has all of them, whoever runs the test.
        let Side::Parent { pid, .. } = fork_into(libc::CLONE_NEWUSER as u64, None).unwrap() else {
            let emptied = empty_bounding_set().and_then(|()| empty_other_sets());
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
            let sets: Vec<_> = status.lines().filter(|line| line.starts_with("Cap")).collect();
            let clean = sets.len() == 5 && sets.iter().all(|set| set.ends_with("\t0000000000000000"));
            crate::sys::process::exit_now(if emptied.is_ok() && clean { 0 } else { 1 });
        };
        assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 0)));
    }
}
