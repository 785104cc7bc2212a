//! Processes: they reach nobody, are bounded together, and end with the run.

use super::sudden_death::all_gone;
use crate::{
    ended::Ended,
    given::{Given, outside_as_root},
    host::Who,
};
use policies::report::{LimitName, Verdict};

/// What held a limit.
pub(super) fn means(ended: &Ended, limit: LimitName) -> &str {
    &ended.report().limits.iter().find(|row| row.limit == limit).unwrap().means
}

#[test]
fn stopping_the_own_group_doesnt_stop_the_clock() {
    for who in Who::all() {
        for way in ["stop-group", "stop-everybody"] {
            let ended =
                Given::bare(*who).flag("--wall", "300ms").run(&["processes", way]).expect(Verdict::WallTime);
            assert_eq!(ended.code, 124, "{ended:?}");
        }
    }
}

#[test]
fn killing_everybody_kills_nobody_outside() {
    for who in Who::all() {
        // kill(-1) spares the caller and init; the launcher lives to write its report.
        Given::bare(*who).run(&["processes", "kill-everybody"]);
        let ended = Given::bare(*who).run(&["processes", "kill-init"]).expect(Verdict::Ok);
        ended.says("alive", "yes");
    }
}

#[test]
fn no_process_of_the_host_can_be_signalled() {
    let own = std::process::id().to_string();
    for who in Who::all() {
        // The launcher's own number too: numbers are those of another namespace.
        let ended = Given::bare(*who).run(&["processes", "signal", &own]).expect(Verdict::Ok);
        ended.says(&format!("signal-{own}"), "ESRCH");
        ended.says(&format!("kill-{own}"), "ESRCH");
    }
    // Twin: within one namespace a signal does arrive.
    outside_as_root(&["processes", "signal", "1"]).says("signal-1", "ok");
}

#[test]
fn what_is_left_behind_ends_with_the_first_process() {
    for who in Who::all() {
        let mark = format!("left-behind-{}-{who:?}", std::process::id());
        let ended = Given::bare(*who).run(&["processes", "leave-behind", "5", &mark]).expect(Verdict::Ok);
        ended.says("left", "behind");
        assert!(ended.report().usage.wall.is_some_and(|wall| wall.0 < 5_000), "{ended:?}");
        all_gone(&mark);
    }
}

#[test]
fn a_fork_bomb_meets_the_limit() {
    for who in Who::all() {
        let given = Given::bare(*who).flag("--pids", "20");
        let ended = given.run(&["processes", "bomb"]);
        ended.says("then", "EAGAIN");
        if means(&ended, LimitName::Pids).starts_with("rlimit") {
            // The kernel refuses, and tells nobody: of a run this short no look saw the crowd.
            assert!([Verdict::Processes, Verdict::Nonzero].contains(&ended.report().status), "{ended:?}");
            continue;
        }
        let ended = ended.expect(Verdict::Processes);
        // Exactly: the first process and its children are 20.
        ended.says("forked", "19");
        assert_eq!(ended.code, 137);
    }
}

#[test]
fn causes_of_death_are_not_mixed_up() {
    for who in Who::all() {
        let ended = Given::bare(*who).run(&["processes", "exit", "137"]).expect(Verdict::Nonzero);
        assert_eq!((ended.code, ended.report().exit), (137, Some(137)));
        let ended = Given::bare(*who).run(&["processes", "exit", "124"]).expect(Verdict::Nonzero);
        assert_eq!((ended.code, ended.report().exit), (124, Some(124)));
        let ended = Given::bare(*who).run(&["processes", "abort"]).expect(Verdict::Signal);
        assert_eq!((ended.code, ended.report().signal), (134, Some(6)));
    }
}

#[test]
fn output_without_end_is_cut_at_the_limit() {
    for who in Who::all() {
        let given = Given::bare(*who).flag("--output", "100K").plainly();
        let ended = given.run(&["processes", "chatter"]);
        assert_eq!((ended.code, ended.stdout.len()), (137, 100 << 10), "{}", ended.stderr);
    }
}
