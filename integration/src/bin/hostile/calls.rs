//! System calls that no jail lets through, one by one, each with arguments that an unconfined kernel accepts or at least
//! reads: an answer other than EPERM outside is the proof that EPERM inside came from the jail.

use super::raw::{call, int, leak, leak_words, say, tell};
use libc::{AT_FDCWD, c_long};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    pty::{grantpt, posix_openpt, ptsname_r, unlockpt},
    unistd::{Pid, getpid},
};
use std::{fs::OpenOptions, os::fd::IntoRawFd};

/// Makes the named calls, or all of them.
pub(crate) fn make(names: &[&str]) {
    // Clones first: a process that has left its namespaces can't make all of them.
    for (name, act) in NEWER.iter().chain(NATIVE).chain(COMMON) {
        if names.is_empty() || names.contains(name) {
            tell(name, &act());
        }
    }
}

/// Makes one.
pub(crate) fn one(name: &str) -> Option<Result<usize, Errno>> {
    NEWER.iter().chain(NATIVE).chain(COMMON).find(|(other, _)| *other == name).map(|(_, act)| act())
}

type Act = fn() -> Result<usize, Errno>;

fn plain(number: c_long, arguments: &[usize]) -> Result<usize, Errno> {
    let mut six = [0; 6];
    for (to, from) in six.iter_mut().zip(arguments) {
        *to = *from;
    }
    call(number, six)
}

fn nowhere() -> usize {
    leak(b"/nonexistent")
}

const NO_FD: i32 = -1;

macro_rules! calls {
    ($($name:literal => $number:ident($($argument:expr),* $(,)?)),* $(,)?) => {
        &[$(($name, || plain(libc::$number, &[$($argument as usize),*]))),*]
    };
}

const COMMON: &[(&str, Act)] = calls! {
    "io_uring_setup" => SYS_io_uring_setup(1, leak_words(&[0; 15])),
    "io_uring_enter" => SYS_io_uring_enter(int(NO_FD), 0, 0, 0, 0),
    "io_uring_register" => SYS_io_uring_register(int(NO_FD), 0, 0, 0),
    "process_vm_readv" => SYS_process_vm_readv(getpid().as_raw(), vector(), 1, vector(), 1, 0),
    "process_vm_writev" => SYS_process_vm_writev(getpid().as_raw(), vector(), 1, vector(), 1, 0),
    "kcmp" => SYS_kcmp(getpid().as_raw(), getpid().as_raw(), 0, 0, 0),
    "pidfd_getfd" => SYS_pidfd_getfd(own_pidfd(), 0, 0),
    // BPF_MAP_CREATE of an array with one entry of four bytes.
    "bpf" => SYS_bpf(0, leak_words(&[2 | 4 << 32, 4 | 1 << 32, 0, 0, 0, 0, 0, 0, 0]), 72),
    // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, on oneself.
    "perf_event_open" => SYS_perf_event_open(leak_words(&[1 | 112 << 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 0, int(-1), int(-1), 0),
    "userfaultfd" => SYS_userfaultfd(libc::O_CLOEXEC),
    "keyctl" => SYS_keyctl(0, int(-3), 1),
    "add_key" => SYS_add_key(leak(b"user"), leak(b"thirdwall"), leak(b"x"), 1, int(-2)),
    "request_key" => SYS_request_key(leak(b"user"), leak(b"thirdwall-none"), 0, int(-2)),
    "mount" => SYS_mount(leak(b"none"), leak(b"/tmp"), leak(b"tmpfs"), 0, 0),
    "umount2" => SYS_umount2(leak(b"/tmp"), libc::MNT_DETACH),
    "pivot_root" => SYS_pivot_root(nowhere(), nowhere()),
    "chroot" => SYS_chroot(leak(b"/")),
    "move_mount" => SYS_move_mount(int(NO_FD), leak(b"x"), int(NO_FD), leak(b"x"), 0),
    "open_tree" => SYS_open_tree(int(AT_FDCWD), leak(b"/"), 0),
    "fsopen" => SYS_fsopen(leak(b"tmpfs"), 0),
    "fsconfig" => SYS_fsconfig(int(NO_FD), 6, 0, 0, 0),
    "fsmount" => SYS_fsmount(int(NO_FD), 0, 0),
    "fspick" => SYS_fspick(int(AT_FDCWD), leak(b"/"), 0),
    "mount_setattr" => SYS_mount_setattr(int(AT_FDCWD), leak(b"/"), 0, leak_words(&[0; 4]), 32),
    "setns" => SYS_setns(int(NO_FD), 0),
    "unshare-uts" => SYS_unshare(libc::CLONE_NEWUTS),
    "unshare-ipc" => SYS_unshare(libc::CLONE_NEWIPC),
    "unshare-mount" => SYS_unshare(libc::CLONE_NEWNS),
    "unshare-network" => SYS_unshare(libc::CLONE_NEWNET),
    "unshare-pid" => SYS_unshare(libc::CLONE_NEWPID),
    "unshare-cgroup" => SYS_unshare(libc::CLONE_NEWCGROUP),
    "unshare-time" => SYS_unshare(0x80),
    "kexec_load" => SYS_kexec_load(0, 17, 0, 0),
    "reboot" => SYS_reboot(0, 0, 0, 0),
    "init_module" => SYS_init_module(leak(b""), 0, leak(b"")),
    "finit_module" => SYS_finit_module(int(NO_FD), leak(b""), 0),
    "delete_module" => SYS_delete_module(leak(b"thirdwall_none"), libc::O_NONBLOCK),
    "syslog" => SYS_syslog(10, 0, 0),
    "acct" => SYS_acct(nowhere()),
    "swapon" => SYS_swapon(nowhere(), 0),
    "swapoff" => SYS_swapoff(nowhere()),
    "sethostname" => SYS_sethostname(leak(b"hostile"), 7),
    "setdomainname" => SYS_setdomainname(leak(b"hostile"), 7),
    "settimeofday" => SYS_settimeofday(0, 0),
    "clock_settime" => SYS_clock_settime(libc::CLOCK_REALTIME, 0),
    "clock_adjtime" => SYS_clock_adjtime(libc::CLOCK_REALTIME, leak_words(&[0; 32])),
    "adjtimex" => SYS_adjtimex(leak_words(&[0; 32])),
    "name_to_handle_at" => SYS_name_to_handle_at(int(AT_FDCWD), leak(b"/"), leak_words(&[128; 20]), leak_words(&[0]), 0),
    "open_by_handle_at" => SYS_open_by_handle_at(int(AT_FDCWD), 0, 0),
    "fanotify_init" => SYS_fanotify_init(0, 0),
    "fanotify_mark" => SYS_fanotify_mark(int(NO_FD), 1, 1, int(AT_FDCWD), 0),
    "quotactl" => SYS_quotactl(0x800007 << 8, nowhere(), 0, 0),
    "quotactl_fd" => SYS_quotactl_fd(int(NO_FD), 0, 0, 0),
    "socket-inet" => SYS_socket(libc::AF_INET, libc::SOCK_STREAM, 0),
    "socket-inet6" => SYS_socket(libc::AF_INET6, libc::SOCK_DGRAM, 0),
    "socket-unix" => SYS_socket(libc::AF_UNIX, libc::SOCK_STREAM, 0),
    "socket-netlink" => SYS_socket(libc::AF_NETLINK, libc::SOCK_RAW, 0),
    "socket-vsock" => SYS_socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0),
    "socket-alg" => SYS_socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0),
    "socket-packet" => SYS_socket(libc::AF_PACKET, libc::SOCK_RAW, 0),
    "socket-raw" => SYS_socket(libc::AF_INET, libc::SOCK_RAW, 1),
    "socketpair-dgram" => SYS_socketpair(libc::AF_UNIX, libc::SOCK_DGRAM, 0, leak_words(&[0])),
    "socketpair-dgram-nonblock" => SYS_socketpair(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_NONBLOCK, 0, leak_words(&[0])),
    "socketpair-high-bits" => SYS_socketpair(1_usize << 32 | libc::AF_UNIX as usize, libc::SOCK_DGRAM, 0, leak_words(&[0])),
    "connect" => SYS_connect(int(NO_FD), 0, 0),
    "bind" => SYS_bind(int(NO_FD), 0, 0),
    "listen" => SYS_listen(int(NO_FD), 0),
    "accept" => SYS_accept(int(NO_FD), 0, 0),
    "accept4" => SYS_accept4(int(NO_FD), 0, 0, 0),
    "move_pages" => SYS_move_pages(0, 0, 0, 0, 0, 0),
    "migrate_pages" => SYS_migrate_pages(0, 0, 0, 0),
    "process_madvise" => SYS_process_madvise(int(NO_FD), 0, 0, 0, 0),
    "process_mrelease" => SYS_process_mrelease(int(NO_FD), 0),
    "shmget" => SYS_shmget(libc::IPC_PRIVATE, 4096, 0o600),
    "shmat" => SYS_shmat(int(-1), 0, 0),
    "shmctl" => SYS_shmctl(int(-1), 0, 0),
    "shmdt" => SYS_shmdt(0),
    "msgget" => SYS_msgget(libc::IPC_PRIVATE, 0o600),
    "msgsnd" => SYS_msgsnd(int(-1), leak_words(&[1, 0]), 1, 0),
    "msgrcv" => SYS_msgrcv(int(-1), leak_words(&[1, 0]), 1, 0, 0),
    "msgctl" => SYS_msgctl(int(-1), 0, 0),
    "semget" => SYS_semget(libc::IPC_PRIVATE, 1, 0o600),
    "semop" => SYS_semop(int(-1), leak_words(&[0]), 1),
    "semtimedop" => SYS_semtimedop(int(-1), leak_words(&[0]), 1, 0),
    "semctl" => SYS_semctl(int(-1), 0, 0, 0),
    "memfd-plain" => SYS_memfd_create(leak(b"x"), 0),
    "memfd-exec" => SYS_memfd_create(leak(b"x"), 0x10),
    // MFD_HUGETLB: pages come when they are touched.
    "memfd-huge" => SYS_memfd_create(leak(b"x"), 0xc),
    // MAP_NORESERVE: works where the pool is empty.
    "mmap-huge" => SYS_mmap(0, 2 << 20, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_NORESERVE, int(NO_FD), 0),
    "prctl-perf-events" => SYS_prctl(31),
    "prctl-mce-kill" => SYS_prctl(33, 0, 0, 0, 0),
    // PR_SET_MM_MAP_SIZE: the one of these that needs no Linux capability.
    "prctl-set-mm" => SYS_prctl(35, 15, leak_words(&[0]), 0, 0),
    "prctl-io-flusher" => SYS_prctl(57, 0, 0, 0, 0),
    "prctl-user-dispatch" => SYS_prctl(59, 0, 0, 0, 0),
    "personality-no-randomize" => SYS_personality(0x0004_0000),
    "personality-read-implies-exec" => SYS_personality(0x0040_0000),
    "prlimit-other" => SYS_prlimit64(getpid().as_raw(), libc::RLIMIT_CORE, leak_words(&[0, 0]), 0),
    "prlimit-core" => SYS_prlimit64(0, libc::RLIMIT_CORE, leak_words(&[0, 0]), 0),
    "setrlimit-core" => SYS_setrlimit(libc::RLIMIT_CORE, leak_words(&[0, 0])),
    "fcntl-lease" => SYS_fcntl(own_fd_to_read(), libc::F_SETLEASE, libc::F_RDLCK),
    "fcntl-notify" => SYS_fcntl(int(NO_FD), 1026, 1),
    "sync" => SYS_sync(),
    "mknod-char" => SYS_mknodat(int(AT_FDCWD), leak(b"hostile-char"), libc::S_IFCHR | 0o600, 0x103, 0),
    "mknod-block" => SYS_mknodat(int(AT_FDCWD), leak(b"hostile-block"), libc::S_IFBLK | 0o600, 0x700, 0),
    "create-setuid" => SYS_openat(int(AT_FDCWD), leak(b"hostile-setuid"), libc::O_CREAT | libc::O_WRONLY, 0o4755),
    "create-setgid" => SYS_openat(int(AT_FDCWD), leak(b"hostile-setgid"), libc::O_CREAT | libc::O_WRONLY, 0o2755),
    "tmpfile-setuid" => SYS_openat(int(AT_FDCWD), leak(b"."), libc::O_TMPFILE | libc::O_RDWR, 0o4755),
    "chmod-setuid" => SYS_fchmodat(int(AT_FDCWD), own_file(), 0o4755),
    "fchmod-setgid" => SYS_fchmod(own_fd(), 0o2755),
    "fchmodat2-setuid" => SYS_fchmodat2(int(AT_FDCWD), own_file(), 0o4755, 0),
    "mknod-setuid" => SYS_mknodat(int(AT_FDCWD), leak(b"hostile-mknod"), libc::S_IFREG | 0o4755, 0, 0),
    "ioctl-tiocsti" => SYS_ioctl(terminal(), 0x5412, leak(b"x")),
    "ioctl-tiocsti-high-bits" => SYS_ioctl(terminal(), 0x1_0000_5412_usize, leak(b"x")),
    "ioctl-tioclinux" => SYS_ioctl(terminal(), 0x541c, leak(b"\x02")),
    "ioctl-tioccons" => SYS_ioctl(int(NO_FD), 0x541d, 0),
    "ioctl-tiocsetd" => SYS_ioctl(terminal(), 0x5423, leak_words(&[0])),
    "seccomp-listener" => SYS_seccomp(1, 8, allow_all()),
    // AT_EMPTY_PATH on its own file; the path of the launcher's exec is not to be known.
    "execveat" => SYS_execveat(int(NO_FD), leak(b""), 0, 0, 0x1000),
    "execve" => SYS_execve(nowhere(), 0, 0),
    "setsockopt-filter" => SYS_setsockopt(pair(), libc::SOL_SOCKET, 26, allow_all(), 16),
    "setsockopt-bpf" => SYS_setsockopt(pair(), libc::SOL_SOCKET, 50, leak_words(&[u64::MAX]), 4),
    // The last ones: what they change would disturb the others.
    "ptrace" => SYS_ptrace(0, 0, 0, 0),
    "unshare-user" => SYS_unshare(libc::CLONE_NEWUSER),
    // Never listed by anybody: silent ENOSYS inside, EINVAL or an answer outside.
    "clone3" => SYS_clone3(0, 0),
    "openat2" => SYS_openat2(int(AT_FDCWD), leak(b"/"), leak_words(&[0o10000000, 0, 0]), 24),
    "io_setup" => SYS_io_setup(1, leak_words(&[0])),
    "memfd_secret" => SYS_memfd_secret(0),
    // Of nothing, into a new pipe; and from a socket, which is no pipe, into itself.
    "vmsplice" => SYS_vmsplice(new_pipe(), 0, 0, 0),
    "tee" => SYS_tee(pair(), pair(), 1, 0),
    "splice" => SYS_splice(pair(), 0, pair(), 0, 1, 0),
    // PR_SET_VMA of an attribute that there is not.
    "prctl-name-mapping" => SYS_prctl(0x5356_4d41, 77, 0, 0, 0),
};

#[cfg(target_arch = "x86_64")]
const NATIVE: &[(&str, Act)] = calls! {
    "kexec_file_load" => SYS_kexec_file_load(int(-1), int(-1), 0, 0, usize::MAX),
    "iopl" => SYS_iopl(0),
    "ioperm" => SYS_ioperm(0, 0, 0),
    "modify_ldt" => SYS_modify_ldt(0, leak_words(&[0; 2]), 8),
    "sysfs" => SYS_sysfs(3),
    "ustat" => SYS_ustat(0, leak_words(&[0; 8])),
    "chmod-old-setuid" => SYS_chmod(own_file(), 0o4755),
    "creat-setuid" => SYS_creat(leak(b"hostile-creat"), 0o4755),
    "open-setuid" => SYS_open(leak(b"hostile-open"), libc::O_CREAT | libc::O_WRONLY, 0o4755),
    "mknod-old-char" => SYS_mknod(leak(b"hostile-old-char"), libc::S_IFCHR | 0o600, 0x103),
};
#[cfg(not(target_arch = "x86_64"))]
const NATIVE: &[(&str, Act)] = &[];

/// Calls whose number the C library's bindings don't have, the same on all newer architectures.
const NEWER: &[(&str, Act)] = &[
    ("statmount", || plain(457, &[0, 0, 0, 0])),
    ("listmount", || plain(458, &[leak_words(&[24, u64::MAX, 0]), leak_words(&[0; 64]), 64, 0])),
    ("open_tree_attr", || plain(467, &[int(AT_FDCWD), leak(b"/"), 0, 0, 0])),
    ("cachestat", || plain(451, &[int(NO_FD), 0, 0, 0])),
    ("number-9999", || plain(9999, &[])),
    ("clone-user", || clone_with(libc::CLONE_NEWUSER)),
    ("clone-mount", || clone_with(libc::CLONE_NEWNS)),
    ("clone-pid", || clone_with(libc::CLONE_NEWPID)),
    ("clone-network", || clone_with(libc::CLONE_NEWNET)),
    ("clone-uts", || clone_with(libc::CLONE_NEWUTS)),
    ("clone-ipc", || clone_with(libc::CLONE_NEWIPC)),
    ("clone-cgroup", || clone_with(libc::CLONE_NEWCGROUP)),
];

/// An iovec of eight bytes of one's own.
fn vector() -> usize {
    leak_words(&[leak_words(&[0]) as u64, 8])
}

/// A sock_fprog with the one instruction that allows everything (and, for a socket, keeps every byte).
fn allow_all() -> usize {
    leak_words(&[1, leak_words(&[0x06 | 0x7fff_0000 << 32]) as u64])
}

fn own_pidfd() -> usize {
    call(libc::SYS_pidfd_open, [getpid().as_raw() as usize, 0, 0, 0, 0, 0]).unwrap_or(int(NO_FD))
}

fn own_file() -> usize {
    own_fd();
    leak(b"hostile-own")
}

fn own_fd() -> usize {
    let file = OpenOptions::new().create(true).append(true).open("hostile-own");
    file.map_or(int(NO_FD), |file| int(file.into_raw_fd()))
}

fn own_fd_to_read() -> usize {
    let _made = std::fs::write("hostile-lease", "x");
    std::fs::File::open("hostile-lease").map_or(int(NO_FD), |file| int(file.into_raw_fd()))
}

/// The end for writing of a new pipe.
fn new_pipe() -> usize {
    nix::unistd::pipe().map_or(int(NO_FD), |(from, to)| {
        let _open = from.into_raw_fd();
        int(to.into_raw_fd())
    })
}

fn pair() -> usize {
    std::os::unix::net::UnixStream::pair().map_or(int(NO_FD), |(one, other)| {
        let _open = other.into_raw_fd();
        int(one.into_raw_fd())
    })
}

/// The slave of a new pseudo-terminal where one is to be had, else standard input.
fn terminal() -> usize {
    let slave = || {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY).ok()?;
        grantpt(&master).ok()?;
        unlockpt(&master).ok()?;
        let slave = ptsname_r(&master).ok()?;
        let slave = OpenOptions::new().read(true).write(true).open(slave).ok()?;
        let _open = master.into_raw_fd();
        Some(int(slave.into_raw_fd()))
    };
    slave().unwrap_or(0)
}

/// A child that ends at once.
fn clone_with(flags: i32) -> Result<usize, Errno> {
    let child = plain(libc::SYS_clone, &[flags as usize | libc::SIGCHLD as usize])?;
    if child == 0 {
        let _never = plain(libc::SYS_exit_group, &[0]);
    }
    nix::sys::wait::waitpid(Pid::from_raw(child as i32), None).map(|_ended| child)
}

/// getpid by the 32-bit entry, whose numbers mean other calls.
#[cfg(target_arch = "x86_64")]
pub(crate) fn foreign_int80() {
    let answer: u64;
    // SAFETY: the call reads no memory; the registers that the entry may change are named.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20_u64 => answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    say("int80", if answer == getpid().as_raw() as u64 { "ok".to_owned() } else { answer.to_string() });
}

/// getpid by its x32 number.
#[cfg(target_arch = "x86_64")]
pub(crate) fn foreign_x32() {
    tell("x32", &plain(0x4000_0000 | libc::SYS_getpid, &[]));
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn foreign_int80() {
    say("int80", "skipped: this processor has no such entry");
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn foreign_x32() {
    say("x32", "skipped: this processor has no such numbers");
}
