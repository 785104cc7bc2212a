//! What the jail's processes use, where no group counts it: read from /proc, from init downwards.
//!
//! Bounds of this means, said in the report by its name (`polling`): what starts and ends between two looks is seen
//! only through the processor time that its parent collects, and what lies in the buffers of pipes and sockets isn't seen
//! (the kernel bounds it for each user).
//! Source: proc_pid_stat(5), proc_pid_statm(5), proc_pid_smaps(5), proc_tid_children(5), clock_getcpuclockid(3).

use super::hidden::{self, Hidden};
use nix::{
    time::{ClockId, clock_getcpuclockid},
    unistd::{Pid, SysconfVar, sysconf},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

/// Most processes that one look visits.
const VISITS: usize = 65_536;

/// One look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TreeUse {
    /// Processor time of all that are and were.
    pub(super) cpu: Duration,
    /// Memory, in bytes; of pages in several processes each one's share.
    pub(super) memory: u64,
    /// Processes and threads, init not counted.
    pub(super) tasks: u64,
}

/// How exactly memory is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Not at all.
    Unread,
    /// Exactly once the cheap upper bound is beyond this.
    Beyond(u64),
}

/// Looks at one jail again and again.
#[derive(Debug)]
pub(super) struct Tree {
    init: Pid,
    /// Processor time of each process at the last look.
    seen: BTreeMap<i32, Duration>,
    /// Last seen processor time of processes that are gone.
    gone: Duration,
    /// Most processor time of collected children that was seen.
    collected: Duration,
    tick: Duration,
    page: u64,
    /// Asked for when it is first needed: short runs never are.
    hidden: Option<Hidden>,
    /// Whether the host has swap, where memory is that the resident set doesn't show. Asked for as well.
    swaps: Option<bool>,
}

impl Tree {
    pub(super) fn new(init: Pid) -> Self {
        let hertz =
            sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|hz| u32::try_from(hz).ok()).unwrap_or(100);
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| u64::try_from(size).ok());
        Self {
            init,
            seen: BTreeMap::new(),
            gone: Duration::ZERO,
            collected: Duration::ZERO,
            tick: Duration::from_secs(1) / hertz.max(1),
            page: page.unwrap_or(4096),
            hidden: None,
            swaps: None,
        }
    }

    /// One look.
    pub(super) fn look(&mut self, memory: Memory) -> TreeUse {
        let found = self.walk();
        let pids: Vec<_> = found.iter().map(|&(pid, _)| pid).collect();
        let mut now = BTreeMap::new();
        let mut collected = Duration::ZERO;
        let mut tasks = 0;
        let mut resident = 0;
        let mut mapped = 0;
        for (pid, stat) in found {
            let Some(cpu) = processor_time(pid) else { continue };
            now.insert(pid.as_raw(), cpu);
            if let Some(stat) = stat {
                collected += self.tick * stat.collected_ticks;
                tasks += if pid == self.init { 0 } else { u64::from(stat.threads) };
            }
            if memory != Memory::Unread {
                let (size, pages) = first_words(&read_small(&folder(pid).join("statm")));
                let swapped = if *self.swaps.get_or_insert_with(has_swap) { hidden::in_swap(pid) } else { 0 };
                resident += pages * self.page + swapped;
                mapped += size * self.page;
            }
        }
        // A parent that ignores its children's ends collects no time for them: then what was seen of them counts.
        let left = self.seen.iter().filter(|(pid, _)| !now.contains_key(pid));
        self.gone += left.map(|(_, &cpu)| cpu).sum::<Duration>();
        self.collected = self.collected.max(collected);
        let living: Duration = now.values().sum();
        self.seen = now;
        let memory = match memory {
            Memory::Unread => resident,
            Memory::Beyond(bound) => {
                let seen = if resident > bound { shares(&pids).unwrap_or(resident) } else { resident };
                let room = bound.saturating_sub(seen);
                // Init's own are the supervisor's.
                let program = pids.get(1..).unwrap_or_default();
                let shared = if mapped > room { hidden::in_mappings(program) } else { 0 };
                let room = room.saturating_sub(shared);
                let tables = hidden::in_page_tables(program, mapped, room);
                let room = room.saturating_sub(tables);
                seen.saturating_add(shared)
                    .saturating_add(tables)
                    .saturating_add(self.hidden.get_or_insert_with(Hidden::new).in_buffers(program, room))
            }
        };
        TreeUse { cpu: living + self.collected.max(self.gone), memory, tasks }
    }

    /// Init and all its descendants.
    fn walk(&self) -> Vec<(Pid, Option<Stat>)> {
        let mut found = vec![(self.init, None)];
        let mut at = 0;
        while let Some((pid, stat)) = found.get_mut(at) {
            let pid = *pid;
            *stat = Stat::parse(&read_small(&folder(pid).join("stat")));
            let threads = stat.as_ref().map_or(0, |stat| stat.threads);
            at += 1;
            let mut children = |task: &Path| {
                let text = read(&task.join("children"));
                let children =
                    text.split_whitespace().filter_map(|word| word.parse().ok()).map(Pid::from_raw);
                let room = VISITS.saturating_sub(found.len());
                found.extend(children.map(|pid| (pid, None)).take(room));
            };
            let tasks = folder(pid).join("task");
            if threads == 1 {
                children(&tasks.join(pid.to_string()));
            } else {
                let tasks = std::fs::read_dir(tasks);
                tasks.into_iter().flatten().filter_map(Result::ok).for_each(|task| children(&task.path()));
            }
        }
        found
    }
}

/// Processor time of all threads of a process, ended ones included.
fn processor_time(pid: Pid) -> Option<Duration> {
    clock_getcpuclockid(pid).and_then(ClockId::now).ok().map(Duration::from)
}

fn folder(pid: Pid) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

/// The whole file, or nothing: a process may end at any moment.
fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    let Ok(mut file) = File::open(path) else { return String::new() };
    while let Ok(length @ 1..) = file.read(&mut piece) {
        bytes.extend_from_slice(piece.get(..length).unwrap_or_default());
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// A file that one read gives whole.
fn read_small(path: &Path) -> String {
    let mut bytes = [0; 1024];
    let length = File::open(path).and_then(|mut file| file.read(&mut bytes)).unwrap_or(0);
    String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned()
}

/// Size and resident set, in pages, from statm.
fn first_words(text: &str) -> (u64, u64) {
    let mut words = text.split_whitespace().map(|word| word.parse().unwrap_or(0));
    (words.next().unwrap_or(0), words.next().unwrap_or(0))
}

/// Whether there is a line below the heading.
fn has_swap() -> bool {
    read(Path::new("/proc/swaps")).lines().nth(1).is_some()
}

/// Memory with each shared page counted once, in swap or not; `None` if a process may not be read.
fn shares(pids: &[Pid]) -> Option<u64> {
    pids.iter()
        .map(|&pid| {
            let text = read(&folder(pid).join("smaps_rollup"));
            match share(&text) {
                Some(bytes) => Some(bytes),
                // It has ended, or has no memory.
                None if !folder(pid).exists() || first_words(&read(&folder(pid).join("statm"))).1 == 0 => {
                    Some(0)
                }
                None => None,
            }
        })
        .sum()
}

/// The share that lies in memory and the one in swap, from smaps_rollup.
fn share(text: &str) -> Option<u64> {
    let of = |name| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    // A kernel without swap has no line for it.
    Some(of("Pss:")?.saturating_add(of("SwapPss:").unwrap_or(0)).saturating_mul(1024))
}

/// What is used of /proc/PID/stat.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    collected_ticks: u32,
    threads: u32,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The name in parentheses may hold anything, parentheses included.
        let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
        // Counted from field 3: cutime is field 16, cstime 17, num_threads 20.
        let user: u32 = fields.nth(13)?.parse().ok()?;
        let system: u32 = fields.next()?.parse().ok()?;
        let threads = fields.nth(2)?.parse().ok()?;
        Some(Self { collected_ticks: user.saturating_add(system), threads })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn pid(child: &Child) -> Pid {
        Pid::from_raw(i32::try_from(child.id()).unwrap())
    }

    /// Runs `script`, which prints a line when it is ready and then waits for its input's end, and looks at it.
    fn look_at(script: &str) -> TreeUse {
        let mut child = shell(&format!("{script}; echo ready; read line"));
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        let used = Tree::new(pid(&child)).look(Memory::Beyond(0));
        drop(child.stdin.take());
        child.wait().unwrap();
        used
    }

    #[test]
    fn a_stat_line_is_read_past_a_strange_name() {
        let line = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 50 60 70 80 20 0 3 0 100 0 0";
        assert_eq!(Stat::parse(line), Some(Stat { collected_ticks: 150, threads: 3 }));
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn a_share_in_swap_counts() {
        let text = "1000-2000 ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss:    4 kB\nPss_Dirty: 3 kB\nSwap: 8 kB\nSwapPss: 2 kB\n";
        assert_eq!(share(text), Some(6 * 1024));
        assert_eq!(share("Pss: 4 kB\n"), Some(4 * 1024));
        assert_eq!(share("Pss_Dirty: 4 kB\n"), None);
    }

    #[test]
    fn descendants_are_counted_without_the_first() {
        assert_eq!(look_at("sleep 1 & sleep 1 & (sleep 1 & wait) & sleep 0.1").tasks, 4);
    }

    #[test]
    fn time_of_a_collected_child_counts() {
        let used = look_at("head -c 200m /dev/zero | cksum >/dev/null");
        assert!(used.cpu > Duration::from_millis(50), "{used:?}");
    }

    #[test]
    fn memory_of_a_grandchild_counts() {
        let used = look_at("(head -c 30m /dev/zero; sleep 0.5) | tail -c 30m >/dev/null & sleep 0.3");
        assert!(used.memory > 25 << 20, "{used:?}");
    }
}
