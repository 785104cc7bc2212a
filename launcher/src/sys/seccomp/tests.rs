//! Real filters in the kernel. A filter confines one thread, so each test confines one of its own and answers its
//! notifications from outside.

use super::*;
use crate::jail::filter::{self, Program, syscall_name};
use libc::{c_long, seccomp_notif, seccomp_notif_resp};
use policies::plan::FilterName;
use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    sync::mpsc,
    thread,
};

/// From linux/seccomp.h: SECCOMP_IOWR(0, struct seccomp_notif) and SECCOMP_IOWR(1, struct seccomp_notif_resp).
const NOTIF_RECV: libc::c_ulong = 0xc050_2100;
const NOTIF_SEND: libc::c_ulong = 0xc018_2101;

/// Confines a thread that runs `inside`, refuses what it is asked, and gives the names of what it was asked.
fn confined<T: Send + 'static>(
    program: Program,
    inside: impl FnOnce(&Program) -> T + Send + 'static,
) -> (T, Vec<&'static str>) {
    let (sender, receiver) = mpsc::channel();
    let child = thread::spawn(move || {
        nix::sys::prctl::set_no_new_privs().unwrap();
        sender.send(filter::install(&program).unwrap()).unwrap();
        inside(&program)
    });
    let listener = receiver.recv().unwrap();
    let mut asked = Vec::new();
    // The listener hangs up when the last confined thread has ended.
    while let Some(number) = answer(listener.as_fd()) {
        asked.push(syscall_name(number));
    }
    (child.join().unwrap(), asked)
}

fn answer(listener: BorrowedFd<'_>) -> Option<i32> {
    let mut events = [nix::poll::PollFd::new(listener, nix::poll::PollFlags::POLLIN)];
    nix::poll::poll(&mut events, nix::poll::PollTimeout::NONE).unwrap();
    if !events[0].revents().unwrap().contains(nix::poll::PollFlags::POLLIN) {
        return None;
    }
    // SAFETY: all zero is what the kernel asks for, and the structure is made of integers.
    let mut asked: seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one seccomp_notif.
    Errno::result(unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_RECV, &raw mut asked) }).unwrap();
    let mut response = seccomp_notif_resp { id: asked.id, val: 0, error: -libc::EPERM, flags: 0 };
    // SAFETY: the request reads one seccomp_notif_resp.
    Errno::result(unsafe { libc::ioctl(listener.as_raw_fd(), NOTIF_SEND, &raw mut response) }).unwrap();
    Some(asked.data.nr)
}

/// Makes a call with these arguments; those that are tried are refused or harmless.
fn call(number: c_long, args: [usize; 5]) -> Result<c_long, Errno> {
    // SAFETY: the tests pass null pointers, small numbers and addresses of live constants only.
    Errno::result(unsafe { libc::syscall(number, args[0], args[1], args[2], args[3], args[4], 0) })
}

fn program(name: FilterName) -> Program {
    filter::program(name, 900, filter::Memfd::Allowed).unwrap()
}

#[test]
fn named_denied_calls_are_notified_and_give_eperm() {
    let named: &[(c_long, [usize; 5])] = &[
        (libc::SYS_io_uring_setup, [0; 5]),
        (libc::SYS_ptrace, [0; 5]),
        (libc::SYS_process_vm_readv, [0; 5]),
        (libc::SYS_process_vm_writev, [0; 5]),
        (libc::SYS_bpf, [0; 5]),
        (libc::SYS_perf_event_open, [0; 5]),
        (libc::SYS_userfaultfd, [0; 5]),
        (libc::SYS_keyctl, [0; 5]),
        (libc::SYS_add_key, [0; 5]),
        (libc::SYS_request_key, [0; 5]),
        (libc::SYS_mount, [0; 5]),
        (libc::SYS_umount2, [0; 5]),
        (libc::SYS_pivot_root, [0; 5]),
        (libc::SYS_chroot, [0; 5]),
        (libc::SYS_move_mount, [0; 5]),
        (libc::SYS_open_tree, [0; 5]),
        (libc::SYS_fsopen, [0; 5]),
        (libc::SYS_mount_setattr, [0; 5]),
        (libc::SYS_setns, [0; 5]),
        (libc::SYS_unshare, [0x1000_0000, 0, 0, 0, 0]),
        (libc::SYS_clone, [0x1000_0000 | libc::SIGCHLD as usize, 0, 0, 0, 0]),
        (libc::SYS_clone, [0x4000_0000, 0, 0, 0, 0]),
        (libc::SYS_socket, [libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0, 0, 0]),
        (libc::SYS_socket, [libc::AF_ALG as usize, libc::SOCK_SEQPACKET as usize, 0, 0, 0]),
        (libc::SYS_socketpair, [libc::AF_UNIX as usize, libc::SOCK_DGRAM as usize, 0, 0, 0]),
        (libc::SYS_ioctl, [900, 0x5412, 0, 0, 0]),
        (libc::SYS_ioctl, [900, 0x5412 | 1 << 32, 0, 0, 0]),
        (libc::SYS_memfd_create, [0; 5]),
        (libc::SYS_execve, [0; 5]),
        (libc::SYS_execveat, [900, 0, 0, 0, 0x1000]),
        (libc::SYS_openat, [libc::AT_FDCWD as usize, 0, libc::O_CREAT as usize, 0o4755, 0]),
        (libc::SYS_fchmodat, [libc::AT_FDCWD as usize, 0, 0o2755, 0, 0]),
        (libc::SYS_pidfd_getfd, [0; 5]),
        (libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0]),
    ];
    let (results, asked) = confined(program(FilterName::Command), move |_| {
        named.iter().map(|(number, args)| call(*number, *args)).collect::<Vec<_>>()
    });
    for ((number, args), result) in named.iter().zip(results) {
        assert_eq!(result, Err(Errno::EPERM), "{} {args:x?}", syscall_name(*number as i32));
    }
    let expected: Vec<_> = named.iter().map(|(number, _)| syscall_name(*number as i32)).collect();
    assert_eq!(asked, expected);
}

#[test]
fn calls_in_no_list_are_unknown_in_silence() {
    for name in [FilterName::Runtime, FilterName::Command, FilterName::CommandExec] {
        // Without the filter the self-test's call is there, and says EINVAL.
        assert_eq!(call(filter::SELF_TEST_CALL, [0; 5]), Err(Errno::EINVAL));
        let (results, asked) = confined(program(name), |_| {
            [filter::SELF_TEST_CALL, libc::SYS_memfd_secret, 999].map(|number| call(number, [0; 5]))
        });
        assert_eq!(results, [Err(Errno::ENOSYS); 3], "{name:?}");
        assert!(asked.is_empty(), "{name:?} {asked:?}");
    }
}

#[test]
fn a_command_may_work() {
    let (ended, asked) = confined(program(FilterName::Command), |_| {
        let written = std::env::temp_dir().join(format!("thirdwall-filter-{}", std::process::id()));
        std::fs::write(&written, "x").unwrap();
        std::fs::remove_file(&written).unwrap();
        let (_one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let child = thread::spawn(|| 7).join().unwrap();
        let memory = call(libc::SYS_memfd_create, [c"m".as_ptr().addr(), 0x9, 0, 0, 0]).is_ok();
        (child, memory)
    });
    assert_eq!(ended.0, 7);
    // MFD_NOEXEC_SEAL is there since Linux 6.3; older kernels say EINVAL by themselves.
    assert!(ended.1 || !kernel_is_at_least(6, 3));
    assert!(asked.is_empty(), "{asked:?}");
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let name = nix::sys::utsname::uname().unwrap();
    let mut numbers = name.release().to_str().unwrap().split(['.', '-']).map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

#[test]
fn the_runtime_makes_no_code_no_threads_no_files() {
    let anonymous = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let exec = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    let (results, asked) = confined(program(FilterName::Runtime), move |_| {
        [
            call(libc::SYS_mmap, [0, 4096, exec, anonymous, usize::MAX]),
            call(libc::SYS_mprotect, [0, 0, exec, 0, 0]),
            call(libc::SYS_clone, [libc::SIGCHLD as usize, 0, 0, 0, 0]),
            call(libc::SYS_openat, [libc::AT_FDCWD as usize, 0, libc::O_RDWR as usize, 0, 0]),
            call(libc::SYS_kill, [0; 5]),
            call(libc::SYS_openat, [libc::AT_FDCWD as usize, 0, libc::O_CLOEXEC as usize, 0, 0]),
            call(libc::SYS_mmap, [0, 4096, libc::PROT_READ as usize, anonymous, usize::MAX]).map(|_| 0),
        ]
    });
    let eperm = Err(Errno::EPERM);
    assert_eq!(results, [eperm, eperm, eperm, eperm, eperm, Err(Errno::ENOSYS), Ok(0)]);
    assert_eq!(asked, ["mmap", "mprotect", "clone", "openat", "kill"]);
}

#[test]
fn the_first_exec_gets_past_the_filter_and_an_absolute_path_does_not() {
    // Descriptor 900 isn't open: past the filter the kernel says EBADF, and ENOENT for an absolute path.
    let (results, asked) = confined(program(FilterName::Command), |program| {
        let absolute = c"/nonexistent-program".as_ptr().addr();
        let first = program.first_exec_path.as_ptr().addr();
        [first, absolute]
            .map(|path| call(libc::SYS_execveat, [900, path, 0, 0, libc::AT_EMPTY_PATH as usize]))
    });
    assert_eq!(results, [Err(Errno::EBADF), Err(Errno::EPERM)]);
    assert_eq!(asked, ["execveat"]);
}

/// Runs `inside` under the filter in a child of its own and gives how that ended: for what kills.
fn ended(program: &Program, inside: impl FnOnce()) -> nix::sys::wait::WaitStatus {
    // SAFETY: the child makes plain system calls only, on memory that was made before the fork, and ends by _exit.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let confined = nix::sys::prctl::set_no_new_privs().is_ok() && filter::install(program).is_ok();
            if confined {
                inside();
            }
            // SAFETY: ends the process; nothing runs afterwards.
            unsafe { libc::_exit(if confined { 0 } else { 99 }) }
        }
        nix::unistd::ForkResult::Parent { child } => nix::sys::wait::waitpid(child, None).unwrap(),
    }
}

fn is_killed(status: nix::sys::wait::WaitStatus) -> bool {
    matches!(status, nix::sys::wait::WaitStatus::Signaled(_, nix::sys::signal::Signal::SIGSYS, _))
}

#[test]
#[cfg(target_arch = "x86_64")]
fn x32_and_32_bit_calls_kill() {
    for name in [FilterName::Runtime, FilterName::Command, FilterName::CommandExec] {
        let program = program(name);
        let native = ended(&program, || {
            let _refused = call(libc::SYS_getpid, [0; 5]);
        });
        assert!(matches!(native, nix::sys::wait::WaitStatus::Exited(_, 0)), "{name:?} {native:?}");
        assert!(
            is_killed(ended(&program, || {
                let _refused = call(0x4000_0000 | libc::SYS_getpid, [0; 5]);
            })),
            "{name:?}"
        );
        let outside = ended_plain(interrupt_80);
        if outside == Some(0) {
            assert!(is_killed(ended(&program, interrupt_80)), "{name:?}");
        } else {
            // A kernel without 32-bit calls kills them by itself.
            assert_eq!(outside, None);
        }
    }
}

/// getpid by the 32-bit door.
#[cfg(target_arch = "x86_64")]
fn interrupt_80() {
    // SAFETY: int 0x80 with number 20 is getpid of i386: it takes nothing and writes eax only; the kernel clobbers r8–r11.
    unsafe {
        std::arch::asm!("int 0x80", inout("eax") 20 => _, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
}

/// The exit code of a child without a filter; `None` when a signal ended it.
#[cfg(target_arch = "x86_64")]
fn ended_plain(inside: impl FnOnce()) -> Option<i32> {
    // SAFETY: as in `ended`.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            inside();
            // SAFETY: ends the process; nothing runs afterwards.
            unsafe { libc::_exit(0) }
        }
        nix::unistd::ForkResult::Parent { child } => match nix::sys::wait::waitpid(child, None).unwrap() {
            nix::sys::wait::WaitStatus::Exited(_, code) => Some(code),
            _signal => None,
        },
    }
}

#[test]
fn nobody_else_may_listen() {
    let (result, asked) = confined(program(FilterName::Command), |_| {
        let pass = [sock_filter { code: 6, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }];
        (install_with_listener(&pass).map(drop), install(&pass))
    });
    assert_eq!(result, (Err(Errno::EPERM), Ok(())));
    assert_eq!(asked, ["seccomp"]);
}
