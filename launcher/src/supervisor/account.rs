//! The report, put together from what the run left behind.

use super::{
    limits::Seen,
    reap::{Cause, Judged},
};
use crate::cgroup::Cgroup;
use policies::{
    layer::Layer,
    plan::{Limits, Means},
    report::{LimitName, LimitState, Report, Usage, Verdict},
    units::{Bytes, Millis},
};
use std::time::Duration;

/// What a run used, from all means together.
pub(super) fn usage(seen: &Seen, group: Option<&Cgroup>, wall: Duration, output: u64) -> Usage {
    let counted = group.map(Cgroup::usage).unwrap_or_default();
    Usage {
        wall: Some(millis(wall)),
        cpu: counted.cpu.or(seen.cpu.map(millis)),
        memory_peak: counted.memory_peak.or(seen.memory.map(Bytes)),
        processes_peak: counted.processes_peak.or(seen.tasks),
        output: Some(Bytes(output)),
        disk: seen.disk.map(Bytes),
        fuel: None,
    }
}

/// The rows of `limits`.
pub(super) fn limits(limits: &Limits, judged: &Judged, seen: &Seen) -> Vec<LimitState> {
    let is = |verdict| judged.verdict == verdict;
    let row = |limit, value, means: String, met| LimitState { limit, value, means, met };
    vec![
        row(
            LimitName::Wall,
            limits.wall.value.map(|limit| limit.0),
            named(limits.wall.means, "clock"),
            is(Verdict::WallTime),
        ),
        row(
            LimitName::Cpu,
            limits.cpu.value.map(|limit| limit.0),
            named(limits.cpu.means, "cpuacct"),
            is(Verdict::CpuTime),
        ),
        row(
            LimitName::Memory,
            limits.memory.value.map(|limit| limit.0),
            named(limits.memory.means, "memory"),
            is(Verdict::Memory),
        ),
        row(LimitName::Pids, limits.pids.value, named(limits.pids.means, "pids"), seen.met.processes),
        row(LimitName::Nofile, Some(limits.nofile), named(Means::Rlimit, "nofile"), false),
        row(
            LimitName::Output,
            limits.output.value.map(|limit| limit.0),
            named(limits.output.means, "count"),
            is(Verdict::Output),
        ),
        row(LimitName::Disk, Some(limits.disk.0), named(Means::Tmpfs, "size"), seen.met.disk),
    ]
}

/// A means in words.
fn named(means: Means, what: &str) -> String {
    match means {
        Means::CgroupV1 => format!("cgroup v1 {what}"),
        Means::CgroupV2 => format!("cgroup v2 {}", if what == "cpuacct" { "cpu" } else { what }),
        Means::Rlimit if what == "nofile" => "rlimit".to_owned(),
        // The kernel refuses, but doesn't count its refusals.
        Means::Rlimit => "rlimit; whether it was met is known from looks at the tree only".to_owned(),
        Means::Polling if what == "cpuacct" => {
            "polling: looks at the tree, no bound for short-lived processes".to_owned()
        }
        Means::Polling => "polling: looks at the tree, may be passed for a moment".to_owned(),
        Means::Supervisor => format!("supervisor's {what}"),
        Means::Tmpfs => "tmpfs size".to_owned(),
    }
}

/// The limit of the language's heap, as entries name it.
const HEAP: &str = "memory-heap";

/// Whether the limit that a run met was that of the language's heap.
#[must_use]
pub fn met_heap(report: &Report) -> bool {
    report.audit.iter().any(|entry| entry.layer == Layer::Limits && entry.target == HEAP)
}

/// The audit's words for a limit that ended the run.
pub(super) fn limit_of(cause: &Cause, limits: &Limits) -> Option<(&'static str, String)> {
    let ms = |limit: Option<Millis>| limit.map_or(0, |limit| limit.0);
    let bytes = |limit: Option<Bytes>| limit.map_or(0, |limit| limit.0);
    Some(match cause {
        Cause::Heap => (HEAP, "more than the language's heap may have (--memory-heap)".to_owned()),
        Cause::Memory => ("memory", format!("more than {} bytes of memory", bytes(limits.memory.value))),
        Cause::Cpu => ("cpu", format!("more than {} ms of processor time", ms(limits.cpu.value))),
        Cause::Wall => ("wall", format!("more than {} ms by the clock", ms(limits.wall.value))),
        Cause::Output => ("output", format!("more than {} bytes of output", bytes(limits.output.value))),
        Cause::Broken(_) => return None,
    })
}

fn millis(time: Duration) -> Millis {
    Millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use policies::plan::Limit;

    /// Limit × means → the words of the report, and the verdict of a run that met it and failed.
    #[test]
    fn the_table() {
        let all = [Means::CgroupV1, Means::CgroupV2, Means::Rlimit, Means::Polling];
        let words = |what| all.map(|means| named(means, what));
        let looks = "polling: looks at the tree, may be passed for a moment";
        let looks_at_time = "polling: looks at the tree, no bound for short-lived processes";
        let refused = "rlimit; whether it was met is known from looks at the tree only";
        assert_eq!(words("memory"), ["cgroup v1 memory", "cgroup v2 memory", refused, looks]);
        assert_eq!(words("pids"), ["cgroup v1 pids", "cgroup v2 pids", refused, looks]);
        assert_eq!(words("cpuacct"), ["cgroup v1 cpuacct", "cgroup v2 cpu", refused, looks_at_time]);
        for (limit, verdict) in [
            (LimitName::Wall, Verdict::WallTime),
            (LimitName::Cpu, Verdict::CpuTime),
            (LimitName::Memory, Verdict::Memory),
            (LimitName::Pids, Verdict::Processes),
            (LimitName::Output, Verdict::Output),
            (LimitName::Disk, Verdict::Disk),
        ] {
            for means in all {
                let mut seen = Seen::default();
                seen.met.processes = limit == LimitName::Pids;
                seen.met.disk = limit == LimitName::Disk;
                let judged = Judged { verdict, exit: Some(1), signal: None };
                let rows = limits(&asked(means), &judged, &seen);
                let met: Vec<_> = rows.iter().filter(|row| row.met).map(|row| row.limit).collect();
                assert_eq!(met, [limit]);
                assert!(rows.iter().all(|row| row.value.is_some()));
            }
        }
    }

    fn asked(means: Means) -> Limits {
        Limits {
            wall: Limit { value: Some(Millis(1)), means: Means::Supervisor },
            cpu: Limit { value: Some(Millis(1)), means },
            memory: Limit { value: Some(Bytes(1)), means },
            pids: Limit { value: Some(1), means },
            nofile: 1,
            output: Limit { value: Some(Bytes(1)), means: Means::Supervisor },
            disk: Bytes(1),
            grace: Millis(1),
        }
    }
}
