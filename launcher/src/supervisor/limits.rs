//! Which limit is met, and when to look next.
//!
//! The wall clock is a deadline. What no descriptor announces is looked at: the next look comes when the limit could be
//! met at the earliest, and an idle jail is looked at ever more seldom.
//!
//! Invariant: no look before the run is [`SETTLE`] old. Shorter runs are judged by the counts at their end.
//! Invariant: an idle jail costs two looks a second, and none at all where no limit needs one. A jail full of
//! processes, whose looks are long, costs a tenth of one processor at most.

use super::{
    reap::{Cause, Met},
    tree::{Memory, Tree, TreeUse},
};
use crate::{
    broker::{Kept, Used},
    cgroup::{Cgroup, MemoryAlarm},
};
use nix::{sys::statfs::fstatfs, unistd::Pid};
use policies::{
    plan::{Limits, Means},
    units::Millis,
};
use std::{
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// Runs shorter than this never pay for looks and alarms.
const SETTLE: Duration = Duration::from_millis(2);
/// Shortest and longest time between two looks.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(2);
/// Longest time between two looks at an idle jail that is near a limit.
const IDLE: Duration = Duration::from_millis(500);
/// Work in one interval that still counts as idle.
const NOTHING: Duration = Duration::from_micros(200);
/// A look is at most this part of the time.
const SHARE: u32 = 10;
/// How fast one processor can take memory, in bytes a second: page faults with huge pages.
const MEMORY_RATE: f64 = 4e9;

/// Whether the tree has to be walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Walk {
    cpu: bool,
    memory: bool,
    processes: bool,
}

/// The limits of one run.
#[derive(Debug)]
pub(super) struct Watcher {
    init: Pid,
    started: Instant,
    limits: Limits,
    cgroup: Option<Cgroup>,
    alarm: Option<MemoryAlarm>,
    settled: bool,
    tree: Option<(Tree, Walk)>,
    scratch: Option<OwnedFd>,
    next: Instant,
    interval: Duration,
    processors: f64,
    /// What is kept free for a child that runs and that nothing counts here.
    kept: Kept,
    /// Processor time of children that have ended and that nothing counted here.
    children: Duration,
    /// What the looks saw.
    seen: Seen,
}

/// What was seen of use until now.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) cpu: Option<Duration>,
    pub(super) memory: Option<u64>,
    pub(super) tasks: Option<u64>,
    pub(super) disk: Option<u64>,
    pub(super) met: Met,
}

impl Watcher {
    /// Starts the clock.
    pub(super) fn new(
        limits: &Limits,
        cgroup: Option<Cgroup>,
        init: Pid,
        scratch: Option<OwnedFd>,
        started: Instant,
    ) -> Self {
        let looked = |asked: bool, means: Means| asked && matches!(means, Means::Polling | Means::Rlimit);
        let walk = Walk {
            cpu: looked(limits.cpu.value.is_some(), limits.cpu.means),
            memory: looked(limits.memory.value.is_some(), limits.memory.means),
            processes: looked(limits.pids.value.is_some(), limits.pids.means),
        };
        let needs_tree = walk.cpu || walk.memory || walk.processes;
        Self {
            init,
            started,
            limits: limits.clone(),
            cgroup,
            alarm: None,
            settled: false,
            tree: needs_tree.then(|| (Tree::new(init), walk)),
            scratch,
            next: started + SETTLE,
            interval: SHORTEST,
            processors: 1.0,
            kept: Kept::default(),
            children: Duration::ZERO,
            seen: Seen::default(),
        }
    }

    /// When something has to be looked at; `None`: never.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let looks = !self.settled || self.looks();
        [self.wall_at(), looks.then_some(self.next)].into_iter().flatten().min()
    }

    /// Rings when the memory limit is met.
    pub(super) fn alarm(&self) -> Option<&MemoryAlarm> {
        self.alarm.as_ref()
    }

    /// The alarm rang.
    pub(super) fn answer_alarm(&mut self) -> Option<Cause> {
        let told = self.alarm.as_ref().is_some_and(MemoryAlarm::take);
        (told || self.memory_kills()).then_some(Cause::Memory)
    }

    /// Looks, if it is time. The program hasn't ended yet.
    pub(super) fn look(&mut self, now: Instant) -> Option<Cause> {
        if self.wall_at().is_some_and(|at| now >= at) {
            return Some(Cause::Wall);
        }
        if now < self.next {
            return None;
        }
        if !self.settled {
            self.settle();
            if self.memory_kills() {
                return Some(Cause::Memory);
            }
        }
        if !self.looks() {
            return None;
        }
        let before = self.seen.cpu;
        let cause = self.measure();
        self.plan_next(now, before, now.elapsed());
        cause
    }

    /// The last look: the program has ended, the jail may still stand. Counts are exact here.
    pub(super) fn last_look(&mut self, told_cpu: Option<Duration>) -> Option<Cause> {
        if self.memory_kills() {
            return Some(Cause::Memory);
        }
        let cause = self.measure();
        if let Some(told) = told_cpu.map(|told| told + self.children) {
            self.seen.cpu = Some(self.seen.cpu.map_or(told, |seen| seen.max(told)));
        }
        cause.or_else(|| self.cpu_over())
    }

    /// Looks for the report at what the kill will leave no trace of.
    pub(super) fn look_before_kill(&mut self) {
        let counted = self.cgroup.as_ref().is_some_and(|group| group.cpu_us().is_some());
        if !counted {
            let (tree, _) = self.tree.get_or_insert_with(|| (Tree::new(self.init), Walk::default()));
            let cpu = tree.look(Memory::Unread).cpu + self.children;
            self.seen.cpu = Some(self.seen.cpu.map_or(cpu, |seen| seen.max(cpu)));
        }
    }

    /// What was seen, and the group for its counts. After the jail is gone.
    pub(super) fn finish(mut self) -> (Seen, Option<Cgroup>) {
        if let Some(group) = &self.cgroup {
            self.seen.met.processes |= group.processes_refused() > 0;
        }
        (self.seen, self.cgroup)
    }

    /// What the run uses now.
    pub(super) fn used(&mut self) -> Used {
        // A limit that is met shows at the next look.
        let _met = self.measure();
        let group = self.cgroup.as_ref();
        let cpu = self.seen.cpu.unwrap_or_default();
        Used {
            memory: group.and_then(Cgroup::memory_now).or(self.seen.memory).unwrap_or(0),
            processes: group.and_then(Cgroup::processes_now).or(self.seen.tasks).unwrap_or(2),
            cpu: Millis(u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX)),
        }
    }

    /// A child runs, for which so much is kept free; nothing of it where this jail's groups count it.
    pub(super) fn keep(&mut self, kept: Kept, groups_nest: bool) {
        let memory = self.tree.as_ref().is_some_and(|(_, walk)| walk.memory);
        self.kept = Kept {
            memory: if memory { kept.memory } else { 0 },
            cpu: if self.counts_children(groups_nest) { Duration::ZERO } else { kept.cpu },
            processes: 0,
        };
    }

    /// A child has ended that used so much processor time.
    pub(super) fn child_spent(&mut self, cpu: Duration, groups_nest: bool) -> Option<Cause> {
        self.kept = Kept::default();
        if self.counts_children(groups_nest) {
            return None;
        }
        self.children += cpu;
        self.seen.cpu = Some(self.seen.cpu.unwrap_or_default() + cpu);
        self.cpu_over()
    }

    fn counts_children(&self, groups_nest: bool) -> bool {
        groups_nest && self.cgroup.as_ref().is_some_and(|group| group.cpu_us().is_some())
    }

    fn wall_at(&self) -> Option<Instant> {
        self.limits.wall.value.and_then(|limit| self.started.checked_add(Duration::from_millis(limit.0)))
    }

    fn looks(&self) -> bool {
        self.tree.is_some() || self.limits.cpu.value.is_some() || self.scratch.is_some()
    }

    fn settle(&mut self) {
        self.settled = true;
        // Without an alarm the counts are still looked at in the end, and the kernel kills in any case.
        self.alarm = self.cgroup.as_ref().and_then(|group| group.memory_alarm().ok().flatten());
        self.processors = std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64);
    }

    fn memory_kills(&self) -> bool {
        let counted = self.limits.memory.value.is_some();
        counted && self.cgroup.as_ref().is_some_and(|group| group.memory_kills() > 0)
    }

    /// One measurement of all that has no alarm.
    fn measure(&mut self) -> Option<Cause> {
        self.fill_of_scratch();
        if let Some(us) = self.cgroup.as_ref().and_then(Cgroup::cpu_us) {
            self.seen.cpu = Some(Duration::from_micros(us) + self.children);
        }
        let mut cause = None;
        if let Some((tree, walk)) = &mut self.tree {
            let limit =
                self.limits.memory.value.map_or(u64::MAX, |limit| limit.0).saturating_sub(self.kept.memory);
            // What lies in the scratch folders is memory too; what is mapped of it is counted twice, on the safe side.
            let disk = self.seen.disk.unwrap_or(0);
            let ask = if walk.memory { Memory::Beyond(limit.saturating_sub(disk)) } else { Memory::Unread };
            let used: TreeUse = tree.look(ask);
            if self.cgroup.as_ref().and_then(Cgroup::cpu_us).is_none() {
                let cpu = used.cpu + self.children;
                self.seen.cpu = Some(self.seen.cpu.map_or(cpu, |seen| seen.max(cpu)));
            }
            // Of a program that has ended nothing can be told but its processor time.
            let alive = used.tasks > 0;
            if walk.memory && alive {
                let memory = used.memory.saturating_add(disk);
                self.seen.memory = self.seen.memory.max(Some(memory));
                cause = (memory > limit).then_some(Cause::Memory);
            }
            if alive {
                self.seen.tasks = self.seen.tasks.max(Some(used.tasks));
            }
            if walk.processes && self.limits.pids.value.is_some_and(|limit| used.tasks >= limit) {
                self.seen.met.processes = true;
            }
        }
        cause.or_else(|| self.cpu_over())
    }

    fn cpu_over(&self) -> Option<Cause> {
        let limit = Duration::from_millis(self.limits.cpu.value?.0).saturating_sub(self.kept.cpu);
        (self.seen.cpu? > limit).then_some(Cause::Cpu)
    }

    fn fill_of_scratch(&mut self) {
        let Some(scratch) = &self.scratch else { return };
        let Ok(fill) = fstatfs(scratch.as_fd()) else { return };
        let block = u64::try_from(fill.block_size()).unwrap_or(0);
        self.seen.disk = self.seen.disk.max(Some(fill.blocks().saturating_sub(fill.blocks_free()) * block));
        // A count of zero in all is no bound.
        let full = |all: u64, free: u64| all > 0 && free == 0;
        if full(fill.blocks(), fill.blocks_free()) || full(fill.files(), fill.files_free()) {
            self.seen.met.disk = true;
        }
    }

    /// The earliest moment at which a limit could be met.
    fn plan_next(&mut self, now: Instant, before: Option<Duration>, cost: Duration) {
        let mut interval = (self.interval * 2).min(LONGEST);
        if let (Some(limit), Some(used)) = (self.limits.cpu.value, self.seen.cpu) {
            let left = Duration::from_millis(limit.0).saturating_sub(used).saturating_sub(self.kept.cpu);
            interval = interval.min(left.div_f64(self.processors));
        }
        if let Some((_, Walk { memory: true, .. })) = self.tree {
            let limit = self.limits.memory.value.map_or(u64::MAX, |limit| limit.0);
            let used = self.seen.memory.unwrap_or(0).saturating_add(self.kept.memory);
            let left = limit.saturating_sub(used) as f64;
            interval =
                interval.min(Duration::from_secs_f64((left / (MEMORY_RATE * self.processors)).min(1.0)));
        }
        let worked = match (before, self.seen.cpu) {
            (Some(before), Some(now)) => now.saturating_sub(before) > NOTHING,
            _ => true,
        };
        if !worked {
            interval = interval.max((self.interval * 2).min(IDLE));
        }
        self.interval = interval.max(SHORTEST).max(cost * SHARE);
        self.next = now + self.interval;
    }
}
