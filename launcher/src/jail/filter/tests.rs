//! The compiled programs against the table, by a small evaluator; then real ones in the kernel, in forked children.

use super::*;

/// A verdict of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Deny,
    Unknown,
    Unsupported,
    Watch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    Runtime,
    Command,
    CommandExec,
    CommandNet,
    CommandNetExec,
    Egress,
    Init,
}

#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) arg: usize,
    pub(super) wide: bool,
    pub(super) mask: u64,
    pub(super) op: &'static str,
    pub(super) value: u64,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) filter: Filter,
    pub(super) name: &'static str,
    pub(super) number: u32,
    pub(super) deny: &'static [&'static [Comparison]],
    pub(super) allow: &'static [&'static [Comparison]],
    pub(super) otherwise: Verdict,
}

mod x86_64 {
    use super::{Comparison, Filter, Row, Verdict};
    use libc::sock_filter;
    include!(concat!(env!("OUT_DIR"), "/filters_x86_64.rs"));
    include!(concat!(env!("OUT_DIR"), "/rows_x86_64.rs"));
}
mod aarch64 {
    use super::{Comparison, Filter, Row, Verdict};
    use libc::sock_filter;
    include!(concat!(env!("OUT_DIR"), "/filters_aarch64.rs"));
    include!(concat!(env!("OUT_DIR"), "/rows_aarch64.rs"));
}

const AUDIT_X86_64: u32 = 0xc000_003e;
const AUDIT_AARCH64: u32 = 0xc000_00b7;
const AUDIT_I386: u32 = 0x4000_0003;

const KILL_PROCESS: u32 = 0x8000_0000;
const USER_NOTIF: u32 = 0x7fc0_0000;
const ENOSYS: u32 = 0x0005_0026;
const EOPNOTSUPP: u32 = 0x0005_005f;
const ALLOW: u32 = 0x7fff_0000;

/// One architecture's programs and table.
struct Arch {
    audit: u32,
    rows: &'static [Row],
    programs: [(Filter, &'static [sock_filter]); 7],
}

fn arches() -> [Arch; 2] {
    [
        Arch {
            audit: AUDIT_X86_64,
            rows: x86_64::ROWS,
            programs: [
                (Filter::Runtime, x86_64::RUNTIME),
                (Filter::Command, x86_64::COMMAND),
                (Filter::CommandExec, x86_64::COMMAND_EXEC),
                (Filter::CommandNet, x86_64::COMMAND_NET),
                (Filter::CommandNetExec, x86_64::COMMAND_NET_EXEC),
                (Filter::Egress, x86_64::EGRESS),
                (Filter::Init, x86_64::INIT),
            ],
        },
        Arch {
            audit: AUDIT_AARCH64,
            rows: aarch64::ROWS,
            programs: [
                (Filter::Runtime, aarch64::RUNTIME),
                (Filter::Command, aarch64::COMMAND),
                (Filter::CommandExec, aarch64::COMMAND_EXEC),
                (Filter::CommandNet, aarch64::COMMAND_NET),
                (Filter::CommandNetExec, aarch64::COMMAND_NET_EXEC),
                (Filter::Egress, aarch64::EGRESS),
                (Filter::Init, aarch64::INIT),
            ],
        },
    ]
}

/// Runs a classic BPF program as the kernel does, for the instructions that seccomp(2) has and these programs use.
fn evaluate(program: &[sock_filter], audit: u32, number: u32, args: [u64; 6]) -> u32 {
    let word = |offset: u32| match offset {
        0 => number,
        4 => audit,
        16..64 => {
            let arg = args[(offset as usize - 16) / 8];
            if offset.is_multiple_of(8) { arg as u32 } else { (arg >> 32) as u32 }
        }
        other => panic!("load from {other}"),
    };
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        at += 1;
        let jump = |condition: bool| usize::from(if condition { jt } else { jf });
        match code {
            0x20 => accumulator = word(k),
            0x54 => accumulator &= k,
            0x05 => at += k as usize,
            0x15 => at += jump(accumulator == k),
            0x25 => at += jump(accumulator > k),
            0x35 => at += jump(accumulator >= k),
            0x45 => at += jump(accumulator & k != 0),
            0x06 => return k,
            other => panic!("instruction {other:#x}"),
        }
    }
}

fn holds(comparison: &Comparison, args: [u64; 6]) -> bool {
    let narrow = |value: u64| if comparison.wide { value } else { u64::from(value as u32) };
    let (left, right) = (narrow(args[comparison.arg] & comparison.mask), narrow(comparison.value));
    match comparison.op {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        other => panic!("operator {other}"),
    }
}

fn expected(row: &Row, args: [u64; 6]) -> u32 {
    let any = |list: &[&[Comparison]]| list.iter().any(|all| all.iter().all(|one| holds(one, args)));
    let verdict = if any(row.deny) {
        Verdict::Deny
    } else if any(row.allow) {
        Verdict::Allow
    } else {
        row.otherwise
    };
    match (verdict, row.filter) {
        (Verdict::Allow, _) => ALLOW,
        (_, Filter::Init | Filter::Egress) => KILL_PROCESS,
        (Verdict::Deny | Verdict::Watch, _) => USER_NOTIF,
        (Verdict::Unknown, _) => ENOSYS,
        (Verdict::Unsupported, _) => EOPNOTSUPP,
    }
}

/// Arguments that stand on, next to and far from each value that the row compares with, alone and all at once.
fn interesting(row: &Row) -> Vec<[u64; 6]> {
    let mut values: Vec<u64> = vec![0, 1, u64::MAX, 1 << 32];
    for one in row.deny.iter().chain(row.allow).flat_map(|all| all.iter()) {
        for value in [one.value, one.value + 1, one.value.wrapping_sub(1), !one.value, one.value | !one.mask]
        {
            values.extend([value, value | 0xdead_0000_0000_0000]);
        }
    }
    let mut all: Vec<[u64; 6]> = values.iter().map(|value| [*value; 6]).collect();
    for list in row.deny.iter().chain(row.allow) {
        for noise in [0, u64::MAX] {
            let mut args = [noise; 6];
            for one in list.iter() {
                args[one.arg] = (noise & !one.mask) | one.value;
            }
            all.push(args);
            for one in list.iter() {
                let mut off = args;
                off[one.arg] ^= one.mask & one.mask.wrapping_neg();
                all.push(off);
            }
        }
    }
    all
}

#[test]
fn every_call_of_the_table_has_its_verdict_on_both_architectures() {
    for arch in arches() {
        for (filter, program) in arch.programs {
            let rows: Vec<_> = arch.rows.iter().filter(|row| row.filter == filter).collect();
            assert!(rows.len() > 10);
            for row in &rows {
                for args in interesting(row) {
                    let got = evaluate(program, arch.audit, row.number, args);
                    assert_eq!(got, expected(row, args), "{filter:?} {} {args:x?}", row.name);
                }
            }
            let unknown = if matches!(filter, Filter::Init | Filter::Egress) { KILL_PROCESS } else { ENOSYS };
            let top = if arch.audit == AUDIT_X86_64 { 0x4000_0000 } else { u32::MAX };
            for number in (0..2000).chain([0x3fff_ffff, top - 1]) {
                if rows.iter().all(|row| row.number != number) {
                    assert_eq!(evaluate(program, arch.audit, number, [0; 6]), unknown, "{filter:?} {number}");
                }
            }
        }
    }
}

#[test]
fn foreign_architectures_and_x32_are_killed() {
    for arch in arches() {
        for (_, program) in arch.programs {
            for audit in [AUDIT_X86_64, AUDIT_AARCH64, AUDIT_I386, 0] {
                if audit != arch.audit {
                    assert_eq!(evaluate(program, audit, 0, [0; 6]), KILL_PROCESS);
                }
            }
            if arch.audit == AUDIT_X86_64 {
                for number in [0x4000_0000, 0x4000_0001, 0x4000_0208, u32::MAX] {
                    assert_eq!(evaluate(program, arch.audit, number, [0; 6]), KILL_PROCESS);
                }
            }
        }
    }
}

/// What the DESIGN refuses to everyone, by name, so that an entry can't get lost in the table.
#[test]
fn what_everyone_is_refused_is_refused_by_every_filter() {
    let named = [
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "keyctl",
        "add_key",
        "request_key",
        "mount",
        "umount2",
        "pivot_root",
        "chroot",
        "move_mount",
        "open_tree",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
        "setns",
        "unshare",
        "kexec_load",
        "kexec_file_load",
        "init_module",
        "finit_module",
        "delete_module",
        "socket",
        "connect",
        "bind",
        "open_by_handle_at",
        "pidfd_getfd",
        "syslog",
        "reboot",
    ];
    for arch in arches() {
        for (filter, program) in arch.programs {
            for name in named {
                let sockets = matches!(filter, Filter::CommandNet | Filter::CommandNetExec | Filter::Egress);
                if sockets && matches!(name, "connect" | "bind") {
                    continue;
                }
                let row = arch.rows.iter().find(|row| row.name == name && row.filter == Filter::Command);
                let number = row.map(|row| row.number);
                let Some(number) = number else {
                    assert_eq!((name, arch.audit), ("kexec_file_load", AUDIT_AARCH64));
                    continue;
                };
                let refused =
                    if matches!(filter, Filter::Init | Filter::Egress) { KILL_PROCESS } else { USER_NOTIF };
                assert_eq!(evaluate(program, arch.audit, number, [0; 6]), refused, "{filter:?} {name}");
            }
        }
    }
}

#[test]
fn only_the_first_exec_passes() {
    let path = 0x1234_5678_9abc;
    for arch in arches() {
        let execveat = arch.rows.iter().find(|row| row.name == "execveat").unwrap().number;
        let execve = arch.rows.iter().find(|row| row.name == "execve").unwrap().number;
        for (filter, program) in arch.programs {
            let program = complete(program, 700, path, Memfd::Refused);
            let at = |fd: u64, path: u64, flags: u64| {
                evaluate(&program, arch.audit, execveat, [fd, path, 1, 1, flags, 0])
            };
            let other = match filter {
                Filter::Runtime | Filter::Command | Filter::CommandNet => USER_NOTIF,
                Filter::CommandExec | Filter::CommandNetExec => ALLOW,
                Filter::Init | Filter::Egress => KILL_PROCESS,
            };
            let first = if matches!(filter, Filter::Init | Filter::Egress) { KILL_PROCESS } else { ALLOW };
            assert_eq!(at(700, path, 0x1000), first, "{filter:?}");
            for (fd, path, flags) in [
                (701, path, 0x1000),
                (u64::from(FIRST_EXEC_FD), path, 0x1000),
                (700, path + 1, 0x1000),
                (700, path | 1 << 63, 0x1000),
                (700, path & 0xffff_ffff, 0x1000),
                (700, path, 0),
                (700, path, 0x1100),
            ] {
                assert_eq!(at(fd, path, flags), other, "{filter:?} {fd} {path:x} {flags:x}");
            }
            assert_eq!(evaluate(&program, arch.audit, execve, [path, 0, 0, 0, 0, 0]), other, "{filter:?}");
        }
    }
}

#[test]
fn files_without_a_name_are_made_only_where_they_are_counted() {
    for arch in arches() {
        let memfd_create = arch.rows.iter().find(|row| row.name == "memfd_create").unwrap().number;
        for (filter, program) in arch.programs {
            if !matches!(filter, Filter::Command | Filter::CommandExec) {
                continue;
            }
            for (memfd, flags, answer) in [
                (Memfd::Allowed, 0x8, ALLOW),
                (Memfd::Allowed, 0xb, ALLOW),
                (Memfd::Allowed, 0xc, USER_NOTIF),
                (Memfd::Allowed, 0x1, USER_NOTIF),
                (Memfd::Refused, 0x8, USER_NOTIF),
                (Memfd::Refused, 0xb, USER_NOTIF),
                (Memfd::Refused, 0x0, USER_NOTIF),
            ] {
                let program = complete(program, 700, 1, memfd);
                let given = evaluate(&program, arch.audit, memfd_create, [0, flags, 0, 0, 0, 0]);
                assert_eq!(given, answer, "{filter:?} {memfd:?} {flags:x}");
            }
        }
    }
}

/// What holds memory that no look finds; the same calls without it are let through.
#[test]
fn memory_that_nothing_counts_is_not_to_be_had() {
    for arch in arches() {
        for (filter, program) in arch.programs {
            if matches!(filter, Filter::Runtime | Filter::Init | Filter::Egress) {
                continue;
            }
            let number = |name| arch.rows.iter().find(|row| row.name == name).unwrap().number;
            let says = |name, args| evaluate(program, arch.audit, number(name), args);
            for name in ["vmsplice", "tee", "splice"] {
                assert_eq!(says(name, [0; 6]), ENOSYS, "{filter:?} {name}");
            }
            for name in ["read", "write", "sendfile", "copy_file_range"] {
                assert_eq!(says(name, [0; 6]), ALLOW, "{filter:?} {name}");
            }
            for name in ["setxattr", "lsetxattr", "fsetxattr", "setxattrat"] {
                assert_eq!(says(name, [0; 6]), EOPNOTSUPP, "{filter:?} {name}");
            }
            for name in ["getxattr", "listxattr", "removexattr"] {
                assert_eq!(says(name, [0; 6]), ALLOW, "{filter:?} {name}");
            }
            // MAP_PRIVATE | MAP_ANONYMOUS, the same with MAP_HUGETLB, and with MAP_HUGE_2MB besides.
            let mmap = |flags| says("mmap", [0, 0x20_0000, 3, flags, u64::MAX, 0]);
            assert_eq!(mmap(0x22), ALLOW, "{filter:?}");
            for flags in [0x4_0022, 0x5404_0022, 0x1_0004_0022] {
                assert_eq!(mmap(flags), USER_NOTIF, "{filter:?} {flags:x}");
            }
            // PR_SET_VMA and PR_SET_NAME.
            assert_eq!(says("prctl", [0x5356_4d41, 0, 0, 0, 0, 0]), ENOSYS, "{filter:?}");
            assert_eq!(says("prctl", [15, 0, 0, 0, 0, 0]), ALLOW, "{filter:?}");
        }
    }
}

/// The kernel runs a filter once for each number when it takes it, so its depth is paid for at each start.
#[test]
fn the_search_is_short() {
    for arch in arches() {
        for (filter, program) in arch.programs {
            assert!(program.len() < 340, "{filter:?} has {} instructions", program.len());
        }
    }
}

#[test]
fn calls_have_names_and_a_capability() {
    for calls in [x86_64::CALLS, aarch64::CALLS] {
        assert!(calls.is_sorted_by_key(|(number, _, _)| *number));
        let word = |name: &str| calls.iter().find(|(_, known, _)| *known == name).unwrap().2;
        assert_eq!(word("socket"), "net");
        assert_eq!(word("execve"), "exec");
        assert_eq!(word("openat"), "file");
        assert_eq!(word("mount"), "syscall");
    }
    assert_eq!(syscall_name(libc::SYS_connect as i32), "connect");
    assert_eq!(capability_of(libc::SYS_connect as i32), "net");
    assert_eq!((syscall_name(-1), capability_of(99_999)), ("unknown", "syscall"));
}

#[test]
fn connects_and_sends_with_an_address_are_looked_at_where_there_is_a_network_and_nowhere_else() {
    for (watched, rows) in [(x86_64::WATCHED, x86_64::ROWS), (aarch64::WATCHED, aarch64::ROWS)] {
        let name = |number: &u32| rows.iter().find(|row| row.number == *number).unwrap().name;
        let mut names: Vec<_> = watched.iter().map(name).collect();
        names.sort_unstable();
        assert_eq!(names, ["connect", "sendto"]);
    }
    let connect = libc::SYS_connect as i32;
    assert!(is_watched(FilterName::CommandNet, connect) && is_watched(FilterName::CommandNetExec, connect));
    for name in [FilterName::Command, FilterName::CommandExec, FilterName::Runtime] {
        assert!(!is_watched(name, connect));
    }
    assert!(
        !is_watched(FilterName::CommandNet, libc::SYS_unshare as i32)
            && !is_watched(FilterName::CommandNet, -1)
    );
}
