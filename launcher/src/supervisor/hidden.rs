//! Memory that no process's pages show: what waits in sockets and pipes, what is mapped shared, and page tables.
//!
//! Pages of a shared mapping stay in memory when a process takes them from its tables, so such a mapping counts whole.
//! Buffers count by the most that they can hold; once that is beyond the limit each one is asked. Page tables of a wide
//! mapping that is only read take memory though none of its pages does.
//!
//! Bounds of this means: what else the kernel keeps for a process (its list of mappings, timers, watches) isn't counted; it
//! is bounded for each process by the kernel's own settings. Descriptors on their way through a socket belong to no process. The kernel lets one user have as
//! many of those as one process may have open. (Files without a name could hide any amount there: where memory is held by
//! looks, the filter refuses memfd_create.)
//! Source: proc_pid_fd(5), proc_pid_maps(5), proc_pid_status(5), pidfd_getfd(2), unix(7) "SIOCOUTQ", pipe(7).

use crate::sys::{pidfd, socket};
use nix::{
    fcntl::{FcntlArg, fcntl},
    sys::stat::fstat,
    unistd::Pid,
};
use std::{
    collections::BTreeMap,
    fs,
    os::fd::{AsFd, OwnedFd},
    path::Path,
};

/// Most descriptors that are asked in one look; of the rest the most counts that they can hold.
const MOST_ASKED: usize = 4096;
/// Largest pipe that an ordinary user may make where /proc doesn't tell (`fs.pipe-max-size`).
const LARGEST_PIPE: u64 = 1 << 20;
/// Largest buffer of a socket where /proc doesn't tell (`net.core.wmem_max`).
const LARGEST_BUFFER: u64 = 212_992;

/// How much one socket and one pipe can hold at most, on this host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hidden {
    socket: u64,
    pipe: u64,
}

/// Which kind of buffer a descriptor leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Socket,
    Pipe,
}

/// One of the descriptors that lead to a buffer.
#[derive(Debug, Clone, Copy)]
struct Place {
    pid: Pid,
    number: i32,
}

impl Hidden {
    pub(super) fn new() -> Self {
        // The kernel doubles what is asked for (socket(7), SO_SNDBUF).
        Self {
            socket: 2 * setting("net/core/wmem_max").unwrap_or(LARGEST_BUFFER),
            pipe: setting("fs/pipe-max-size").unwrap_or(LARGEST_PIPE),
        }
    }

    /// Bytes in buffers; 0 if even the most that they can hold is within `room`.
    pub(super) fn in_buffers(self, pids: &[Pid], room: u64) -> u64 {
        let mut buffers = BTreeMap::new();
        for &pid in pids {
            collect(pid, &mut buffers);
        }
        let most = |kind: Kind| match kind {
            Kind::Socket => self.socket,
            Kind::Pipe => self.pipe,
        };
        if buffers.keys().map(|&(kind, _)| most(kind)).sum::<u64>() <= room {
            return 0;
        }
        let mut handles = BTreeMap::new();
        let mut asked = 0;
        let mut bytes = 0;
        for ((kind, _), place) in buffers {
            asked += 1;
            let told = (asked <= MOST_ASKED).then(|| ask(kind, place, &mut handles)).flatten();
            bytes += told.unwrap_or_else(|| most(kind));
        }
        bytes
    }
}

/// Tables of pages. A table of 4 KiB serves 2 MiB, so they can't be beyond `room` unless that much is mapped.
pub(super) fn in_page_tables(pids: &[Pid], mapped: u64, room: u64) -> u64 {
    // Twice: the upper levels, and what mappings that lie apart waste.
    if mapped / 256 <= room {
        return 0;
    }
    pids.iter().filter_map(|&pid| status(pid, "VmPTE:")).sum()
}

/// What of a process's own memory lies in swap; pages in several processes count for each.
pub(super) fn in_swap(pid: Pid) -> u64 {
    status(pid, "VmSwap:").unwrap_or(0)
}

/// A line of status that tells an amount of memory, in bytes.
fn status(pid: Pid, name: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// What is mapped shared and without a file's name, each mapping whole and once.
pub(super) fn in_mappings(pids: &[Pid]) -> u64 {
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for pid in pids {
        let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else {
            // A process that may not be read: all that it has mapped may be shared.
            let size = fs::read_to_string(format!("/proc/{pid}/statm")).ok();
            let pages = size.and_then(|text| text.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0);
            sizes.insert(format!("process {pid}"), pages.saturating_mul(4096));
            continue;
        };
        let mut own: BTreeMap<&str, u64> = BTreeMap::new();
        for (inode, size) in maps.lines().filter_map(shared_mapping) {
            *own.entry(inode).or_default() += size;
        }
        for (inode, size) in own {
            let seen = sizes.entry(inode.to_owned()).or_default();
            *seen = (*seen).max(size);
        }
    }
    sizes.values().sum()
}

/// Inode and size of a shared mapping without a name, from its line in maps.
fn shared_mapping(line: &str) -> Option<(&str, u64)> {
    if !line.ends_with("/dev/zero (deleted)") {
        return None;
    }
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let shared = fields.next()?.ends_with('s');
    let inode = fields.nth(2)?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    shared.then_some((inode, address(to)?.saturating_sub(address(from)?)))
}

fn collect(pid: Pid, buffers: &mut BTreeMap<(Kind, u64), Place>) {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return collect_unlisted(pid, buffers);
    };
    for entry in entries.flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let target = fs::read_link(entry.path()).ok();
        if let (Some(number), Some(buffer)) = (number, target.as_deref().and_then(buffer_of)) {
            buffers.entry(buffer).or_insert(Place { pid, number });
        }
    }
}

/// `socket:[17]` or `pipe:[17]`.
fn buffer_of(target: &Path) -> Option<(Kind, u64)> {
    let (kind, inode) = target.to_str()?.split_once(":[")?;
    let kind = match kind {
        "socket" => Kind::Socket,
        "pipe" => Kind::Pipe,
        _other => return None,
    };
    Some((kind, inode.strip_suffix(']')?.parse().ok()?))
}

/// A process that isn't dumpable has a list that only root may read; the descriptors themselves can still be had.
fn collect_unlisted(pid: Pid, buffers: &mut BTreeMap<(Kind, u64), Place>) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")?.trim().parse().ok()).unwrap_or(0);
    let Ok(process) = pidfd::open(pid) else { return };
    for number in 0..i32::min(size, MOST_ASKED as i32) {
        let Ok(file) = pidfd::descriptor_of(process.as_fd(), number) else { continue };
        let Ok(stat) = fstat(&file) else { continue };
        let kind = match stat.st_mode & libc::S_IFMT {
            libc::S_IFSOCK => Kind::Socket,
            libc::S_IFIFO => Kind::Pipe,
            _other => continue,
        };
        buffers.entry((kind, stat.st_ino)).or_insert(Place { pid, number });
    }
}

/// What a buffer holds; `None` if it can't be asked.
fn ask(kind: Kind, place: Place, handles: &mut BTreeMap<i32, Option<OwnedFd>>) -> Option<u64> {
    let Place { pid, number } = place;
    let process = handles.entry(pid.as_raw()).or_insert_with(|| pidfd::open(pid).ok()).as_ref()?;
    let file = pidfd::descriptor_of(process.as_fd(), number).ok()?;
    match kind {
        Kind::Socket => socket::queued(file.as_fd()).ok(),
        // Its capacity: a page of a pipe may hold one byte.
        Kind::Pipe => fcntl(&file, FcntlArg::F_GETPIPE_SZ).ok().and_then(|size| u64::try_from(size).ok()),
    }
}

fn setting(name: &str) -> Option<u64> {
    fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, socketpair};
    use std::os::fd::AsRawFd;

    #[test]
    fn lines_of_maps_are_read() {
        let shared = "7f00a0000000-7f00b0000000 rw-s 00000000 00:01 1234   /dev/zero (deleted)";
        assert_eq!(shared_mapping(shared), Some(("1234", 0x1000_0000)));
        assert_eq!(
            shared_mapping("7f00a0000000-7f00b0000000 rw-p 00000000 00:01 1234 /dev/zero (deleted)"),
            None
        );
        assert_eq!(shared_mapping("7f00a0000000-7f00b0000000 rw-s 00000000 fe:00 99   /usr/lib/x"), None);
        assert_eq!(shared_mapping(""), None);
    }

    #[test]
    fn buffers_are_known_by_their_names() {
        assert_eq!(buffer_of(Path::new("socket:[17]")), Some((Kind::Socket, 17)));
        assert_eq!(buffer_of(Path::new("pipe:[18]")), Some((Kind::Pipe, 18)));
        assert_eq!(buffer_of(Path::new("/etc/passwd")), None);
    }

    #[test]
    fn what_waits_in_a_socket_counts() {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (one, _other) = socketpair(AddressFamily::Unix, SockType::Stream, None, flags).unwrap();
        let own = [Pid::this()];
        let before = Hidden::new().in_buffers(&own, 0);
        send(one.as_raw_fd(), &[0; 50_000], MsgFlags::MSG_DONTWAIT).unwrap();
        let after = Hidden::new().in_buffers(&own, 0);
        // Other tests of this process may close theirs meanwhile, hence no exact count.
        assert!(after + (1 << 20) > before + 50_000, "{before} {after}");
        assert_eq!(Hidden::new().in_buffers(&own, u64::MAX), 0);
    }
}
