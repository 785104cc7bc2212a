//! How runs end: one cause, always right, and each limit at its edge.

use crate::run::{Outcome, script};
use policies::report::{LimitName, LimitState, Verdict};

fn end(outcome: &Outcome) -> (Verdict, Option<i32>, Option<i32>, Option<i32>) {
    (outcome.report.status, outcome.report.exit, outcome.report.signal, outcome.code)
}

fn row(outcome: &Outcome, name: LimitName) -> &LimitState {
    outcome.report.limits.iter().find(|row| row.limit == name).unwrap()
}

#[test]
fn a_program_s_own_code_passes_through() {
    assert_eq!(end(&script("exit 0").go()), (Verdict::Ok, Some(0), None, Some(0)));
    assert_eq!(end(&script("exit 3").go()), (Verdict::Nonzero, Some(3), None, Some(3)));
}

#[test]
fn a_program_that_exits_137_by_itself_was_not_killed() {
    assert_eq!(end(&script("exit 137").go()), (Verdict::Nonzero, Some(137), None, Some(137)));
}

#[test]
fn abort_is_134_in_the_first_process_and_beneath_it() {
    assert_eq!(end(&script("kill -ABRT $$").go()), (Verdict::Signal, None, Some(6), Some(134)));
    let beneath = script("sh -c 'kill -ABRT $$'; exit $?").go();
    assert_eq!(end(&beneath), (Verdict::Nonzero, Some(134), None, Some(134)));
}

#[test]
fn a_real_time_signal_is_an_end_like_any_other() {
    assert_eq!(end(&script("kill -40 $$").go()), (Verdict::Signal, None, Some(40), Some(168)));
}

#[test]
fn the_wall_clock_ends_everything() {
    let outcome = script("sleep 60 & sleep 60").with("--wall 300ms").go();
    assert_eq!((outcome.report.status, outcome.code), (Verdict::WallTime, Some(124)));
    assert!(outcome.report.timed_out && row(&outcome, LimitName::Wall).met);
    assert!(outcome.report.usage.wall.unwrap().0 >= 300);
    assert!(script("sleep 0.1").with("--wall 20s").go().report.ok);
}

#[test]
fn processor_time_is_that_of_the_tree() {
    let burn = "(while :; do :; done) & (while :; do :; done) & wait";
    let outcome = script(burn).with("--cpu 400ms --wall 60s").go();
    assert_eq!((outcome.report.status, outcome.code), (Verdict::CpuTime, Some(124)));
    let used = outcome.report.usage.cpu.unwrap().0;
    assert!((400..800).contains(&used), "{used} ms");
    // Sleeping is free.
    assert!(script("sleep 0.6").with("--cpu 400ms").go().report.ok);
}

#[test]
fn memory_is_that_of_the_tree_and_not_of_one_process() {
    // Two processes of some 24 MiB: each is within the limit, both together aren't.
    let hold = "(head -c 24m /dev/zero; sleep 1) | tail -c 24m >/dev/null";
    let two = script(&format!("{hold} & {hold} & wait")).with("--memory 40M --wall 60s").go();
    assert_eq!((two.report.status, two.code), (Verdict::Memory, Some(137)));
    assert!(row(&two, LimitName::Memory).met);
    let one = script(hold).with("--memory 40M --wall 60s").go();
    assert_eq!(one.report.status, Verdict::Ok, "{:?}", one.report);
}

#[test]
fn a_tree_that_lost_a_process_to_the_memory_limit_ends_as_a_whole() {
    let hungry = "head -c 200m /dev/zero | tail -c 200m >/dev/null; sleep 60; exit 0";
    let outcome = script(hungry).with("--memory 32M --wall 60s").go();
    assert_eq!((outcome.report.status, outcome.code), (Verdict::Memory, Some(137)));
    assert!(outcome.report.usage.wall.unwrap().0 < 30_000);
}

#[test]
fn files_in_the_scratch_folders_are_memory_too() {
    let fill = "head -c 60m /dev/zero >f; sleep 60";
    let outcome = script(fill).with("--memory 32M --disk 200M --wall 60s").go();
    assert_eq!(outcome.report.status, Verdict::Memory);
}

#[test]
fn exactly_the_limit_of_processes_can_run() {
    let three = "sleep 0.3 & sleep 0.3 & wait";
    let passes = script(three).with("--pids 3").go();
    assert_eq!(passes.report.status, Verdict::Ok, "{:?}", passes.report);
    let fails = script(three).with("--pids 2").go();
    // The kernel refuses the third in any case; whether that can be told depends on the means.
    let pids = row(&fails, LimitName::Pids);
    if pids.means.starts_with("cgroup") {
        assert_eq!((fails.report.status, fails.code, pids.met), (Verdict::Processes, Some(137), true));
    } else {
        assert!(matches!(fails.report.status, Verdict::Processes | Verdict::Nonzero));
    }
    assert!(String::from_utf8_lossy(&fails.stderr).contains("fork"));
}

#[test]
fn a_refused_process_is_no_verdict_for_a_run_that_copes() {
    let outcome = script("(sleep 0.1 & sleep 0.1 & wait) || true; exit 0").with("--pids 2").go();
    assert_eq!(end(&outcome), (Verdict::Ok, Some(0), None, Some(0)));
}

#[test]
fn the_last_byte_of_the_disk_can_be_used() {
    let empty = script("true").with("--disk 1M").go();
    let free = (1 << 20) - empty.report.usage.disk.unwrap().0;
    let write = |bytes: u64| script(&format!("head -c {bytes} /dev/zero >f")).with("--disk 1M").go();
    let full = write(free);
    assert_eq!((full.report.status, full.report.usage.disk.unwrap().0), (Verdict::Ok, 1 << 20));
    let over = write(free + 1);
    assert_eq!((over.report.status, over.code), (Verdict::Disk, Some(137)));
    assert!(row(&over, LimitName::Disk).met);
    assert!(String::from_utf8_lossy(&over.stderr).contains("No space left"));
}

#[test]
fn the_limit_of_open_files_is_an_errno_only() {
    let open = |count: u32| {
        let each = (3..3 + count).map(|number| format!("exec {number}</dev/null;")).collect::<String>();
        format!("{each} exit 0")
    };
    // Numbers up to 9 are all that a portable shell has.
    let passes = script(&open(7)).with("--nofile 10").go();
    assert_eq!(passes.report.status, Verdict::Ok, "{:?}", passes.report);
    let fails = script(&open(7)).with("--nofile 9").go();
    assert_eq!(fails.report.status, Verdict::Nonzero);
}

#[test]
fn exactly_the_limit_of_output_passes_over_both_streams() {
    let both = "printf 1234567; printf 890 >&2";
    let passes = script(both).with("--output 10").go();
    assert_eq!(
        (passes.report.status, passes.text(), passes.stderr.as_slice()),
        (Verdict::Ok, "1234567", &b"890"[..])
    );
    let cut = script(both).with("--output 9").go();
    assert_eq!((cut.report.status, cut.code), (Verdict::Output, Some(137)));
    // The launcher's own message follows on standard error.
    assert_eq!(cut.stdout.len() + cut.report.errors.concat().len(), 9);
    assert_eq!(cut.report.usage.output.unwrap().0, 9);
}

#[test]
fn endless_output_is_cut_at_exactly_the_limit() {
    let outcome = script("yes").with("--output 1M --wall 60s").go();
    assert_eq!((outcome.report.status, outcome.stdout.len()), (Verdict::Output, 1 << 20));
}

#[test]
fn a_fork_bomb_is_held_and_ends_by_the_clock() {
    let bomb = "f() { f | f & f | f; }; f";
    let outcome = script(bomb).with("--wall 2s --pids 40 --cpu none").go();
    let counted = row(&outcome, LimitName::Pids).means.starts_with("cgroup");
    match outcome.report.status {
        Verdict::WallTime | Verdict::Processes => {}
        // Without a group nobody counts what the kernel refuses.
        Verdict::Nonzero if !counted => {}
        other => panic!("{other:?}"),
    }
    if outcome.report.status == Verdict::WallTime {
        let late = outcome.report.usage.wall.unwrap().0 - 2000;
        assert!(late < 1000, "{late} ms late");
    }
}

#[test]
fn nothing_of_the_jail_outlives_the_run() {
    let outcome = script("setsid sh -c 'trap \"\" TERM HUP; sleep 4343' & exit 0").go();
    assert!(outcome.report.ok);
    let living = std::process::Command::new("pgrep").args(["-fx", "sleep 4343"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&living.stdout), "");
}

#[test]
fn a_refused_system_call_is_in_the_audit() {
    let outcome = script("unshare -n true; exit 0").go();
    let entry = outcome.report.audit.iter().find(|entry| entry.target == "unshare").unwrap();
    assert_eq!((entry.granted, entry.layer, entry.seq), (false, policies::layer::Layer::Filter, 1));
    assert!(script("true").go().report.audit.is_empty());
}
