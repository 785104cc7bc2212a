//! Memory that a limit for each process doesn't see, and memory that is code.

use super::{
    processes::fork,
    raw::{call, int, leak, leak_words, say, tell, word},
};
use nix::errno::Errno;
use std::{fs::File, io::Write, time::Duration};

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;
/// Long enough for any look, and within the wall limit of the tests.
const HOLD: Duration = Duration::from_millis(1500);
/// What children get for their work, and stay for longer than their parent.
const SPARE: Duration = Duration::from_millis(300);

/// `WAY MIB MS`: takes that much, tells, and keeps it for that long.
pub(crate) fn attack(arguments: &[&str]) {
    let Some((way, rest)) = arguments.split_first() else { return };
    let mib = rest.first().and_then(|word| word.parse::<usize>().ok()).unwrap_or(1);
    let hold = rest.get(1).and_then(|word| word.parse().ok()).map_or(HOLD, Duration::from_millis);
    let held = match *way {
        "anonymous" => anonymous(mib),
        "processes" => processes(mib, hold),
        "sockets" => sockets(mib, hold),
        // A process that can't be traced hides its list of descriptors from an ordinary user.
        "undumpable-sockets" => {
            let _hidden = call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 0, 0, 0, 0, 0]);
            sockets(mib, hold)
        }
        "pipes" => pipes(mib, hold),
        "scratch" => file("/work/hostile-fill", mib).or_else(|_| file("/tmp/hostile-fill", mib)),
        "shm" => file("/dev/shm/hostile-fill", mib),
        "memfd" => memfd(mib),
        "shared-forgotten" => shared_forgotten(mib),
        "page-tables" => page_tables(mib),
        "code" => return code(),
        _unknown => return say("unknown-way", way),
    };
    match held {
        Ok(held) => say("held", held / MIB),
        Err(errno) => {
            say("refused", word(errno));
            std::process::exit(1);
        }
    }
    std::thread::sleep(hold);
    say("kept", "yes");
}

fn map(bytes: usize, sharing: i32) -> Result<usize, Errno> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (sharing | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    call(libc::SYS_mmap, [0, bytes, protection, flags, int(-1), 0])
}

fn touch(at: usize, bytes: usize) {
    for page in (at..at + bytes).step_by(PAGE) {
        // SAFETY: inside a mapping of ours that nothing else refers to.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(page).write_volatile(1) };
    }
}

fn anonymous(mib: usize) -> Result<usize, Errno> {
    let at = map(mib * MIB, libc::MAP_PRIVATE)?;
    touch(at, mib * MIB);
    Ok(mib * MIB)
}

/// Each of many takes a little.
fn processes(mib: usize, hold: Duration) -> Result<usize, Errno> {
    let each = 8;
    for _child in 0..mib / each {
        if fork()? == 0 {
            let _held = anonymous(each);
            std::thread::sleep(hold + SPARE);
            std::process::exit(0);
        }
    }
    std::thread::sleep(SPARE);
    Ok(mib * MIB)
}

/// In the buffers of pairs of sockets, made by as many processes as it takes.
fn sockets(mib: usize, hold: Duration) -> Result<usize, Errno> {
    fill_in_children(mib, hold, || {
        let pair = leak_words(&[0]);
        let flags = (libc::SOCK_STREAM | libc::SOCK_NONBLOCK) as usize;
        call(libc::SYS_socketpair, [libc::AF_UNIX as usize, flags, 0, pair, 0, 0])?;
        // SAFETY: the leaked word, which the call has filled with two numbers.
        let pair = unsafe { *std::ptr::with_exposed_provenance::<[u32; 2]>(pair) };
        let most = leak_words(&[16 << 20]);
        for end in pair {
            let _wider = call(
                libc::SYS_setsockopt,
                [end as usize, libc::SOL_SOCKET as usize, libc::SO_SNDBUF as usize, most, 4, 0],
            );
        }
        Ok(pair.map(|end| end as usize))
    })
}

/// In the buffers of pipes.
fn pipes(mib: usize, hold: Duration) -> Result<usize, Errno> {
    fill_in_children(mib, hold, || {
        let pair = leak_words(&[0]);
        call(libc::SYS_pipe2, [pair, libc::O_NONBLOCK as usize, 0, 0, 0, 0])?;
        // SAFETY: as above.
        let pair = unsafe { *std::ptr::with_exposed_provenance::<[u32; 2]>(pair) };
        let _wider = call(libc::SYS_fcntl, [pair[1] as usize, libc::F_SETPIPE_SZ as usize, MIB, 0, 0, 0]);
        Ok([pair[1] as usize; 2])
    })
}

/// Buffers are made until the process has no more descriptors, then its child goes on.
fn fill_in_children(
    mib: usize,
    hold: Duration,
    make: impl Fn() -> Result<[usize; 2], Errno>,
) -> Result<usize, Errno> {
    let wanted = mib * MIB;
    let tally = map(PAGE, libc::MAP_SHARED)?;
    // SAFETY: one shared page of ours, aligned, and only used as this.
    let tally = unsafe { &*std::ptr::with_exposed_provenance::<std::sync::atomic::AtomicUsize>(tally) };
    let chunk = leak(&[0; 65536]);
    let order = std::sync::atomic::Ordering::SeqCst;
    let mut failure = Errno::EMFILE;
    for _process in 0..48 {
        let child = match fork() {
            Ok(child) => child,
            Err(errno) => {
                failure = errno;
                break;
            }
        };
        if child == 0 {
            while let Ok(ends) = make() {
                for end in ends {
                    while let Ok(written) = call(libc::SYS_write, [end, chunk, 65536, 0, 0, 0]) {
                        if tally.fetch_add(written, order) >= wanted {
                            break;
                        }
                    }
                }
                if tally.load(order) >= wanted {
                    break;
                }
            }
            std::thread::sleep(hold + SPARE);
            std::process::exit(0);
        }
        // Until this child is done, or full.
        let mut before = usize::MAX;
        while before != tally.load(order) {
            before = tally.load(order);
            std::thread::sleep(Duration::from_millis(20));
        }
        if tally.load(order) >= wanted {
            return Ok(tally.load(order));
        }
    }
    say("filled", tally.load(order) / MIB);
    Err(failure)
}

fn file(path: &str, mib: usize) -> Result<usize, Errno> {
    let raw = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(0));
    let mut file = File::create(path).map_err(raw)?;
    let chunk = vec![1; MIB];
    for written in 0..mib {
        if let Err(error) = file.write_all(&chunk) {
            say("filled", written);
            return Err(raw(error));
        }
    }
    Ok(mib * MIB)
}

/// In files without a name, written and never mapped.
fn memfd(mib: usize) -> Result<usize, Errno> {
    let chunk = leak(&vec![1; MIB]);
    let mut held = 0;
    while held < mib * MIB {
        let number = call(libc::SYS_memfd_create, [leak(b"hostile"), 0x8, 0, 0, 0, 0])?;
        for _ in 0..8 {
            held += call(libc::SYS_write, [number, chunk, MIB, 0, 0, 0])?;
        }
    }
    Ok(held)
}

/// In the tables of a mapping of which one byte in every 2 MiB is read: all of them are the one page of zeros.
fn page_tables(mib: usize) -> Result<usize, Errno> {
    let reach = mib * MIB * 512;
    let at = map(reach, libc::MAP_PRIVATE)?;
    // MADV_NOHUGEPAGE: the one large page of zeros would need no table.
    call(libc::SYS_madvise, [at, reach, 15, 0, 0, 0])?;
    for place in (at..at + reach).step_by(2 * MIB) {
        // SAFETY: inside a mapping of ours that nothing else refers to.
        unsafe { std::ptr::with_exposed_provenance::<u8>(place).read_volatile() };
    }
    Ok(mib * MIB)
}

/// In a shared mapping whose pages are taken from the process's tables again: they stay in memory all the same.
fn shared_forgotten(mib: usize) -> Result<usize, Errno> {
    let at = map(mib * MIB, libc::MAP_SHARED)?;
    for part in (at..at + mib * MIB).step_by(MIB) {
        touch(part, MIB);
        call(libc::SYS_madvise, [part, MIB, libc::MADV_DONTNEED as usize, 0, 0, 0])?;
    }
    Ok(mib * MIB)
}

/// Memory that is written and then executed.
pub(crate) fn code() {
    let all = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as usize;
    let read_write = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let read_exec = (libc::PROT_READ | libc::PROT_EXEC) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    tell("map-write-exec", &call(libc::SYS_mmap, [0, PAGE, all, flags, int(-1), 0]));
    tell("map-exec", &call(libc::SYS_mmap, [0, PAGE, read_exec, flags, int(-1), 0]));
    match call(libc::SYS_mmap, [0, PAGE, read_write, flags, int(-1), 0]) {
        Ok(at) => {
            touch(at, PAGE);
            tell("protect-exec", &call(libc::SYS_mprotect, [at, PAGE, read_exec, 0, 0, 0]));
            tell("protect-write-exec", &call(libc::SYS_mprotect, [at, PAGE, all, 0, 0, 0]));
            tell("protect-high-bits", &call(libc::SYS_mprotect, [at, PAGE, all | 1 << 33, 0, 0, 0]));
            tell("pkey-protect", &call(libc::SYS_pkey_mprotect, [at, PAGE, read_exec, int(-1), 0, 0]));
        }
        Err(errno) => say("map-write", word(errno)),
    }
    // READ_IMPLIES_EXEC makes every readable mapping executable.
    tell("read-implies-exec", &call(libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0, 0]));
}
