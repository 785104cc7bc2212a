//! Limits hold for the whole jail, whatever the memory hides in and however many processes share the work.

use super::processes::means;
use crate::{given::Given, host::Who};
use policies::report::{LimitName, Verdict};

/// Far more than the limit below.
const MUCH: &str = "256";

fn tight(who: Who) -> Given {
    Given::usual(who).flag("--memory", "64M").flag("--disk", "48M").flag("--pids", "64").flag("--cpu", "20s")
}

#[test]
fn memory_is_counted_over_all_that_holds_it() {
    for who in Who::all() {
        for way in [
            "anonymous",
            "processes",
            "sockets",
            "pipes",
            "memfd",
            "shared-forgotten",
            "undumpable-sockets",
            "page-tables",
        ] {
            let ended = tight(*who).run(&["memory", way, MUCH]);
            // Files without a name, on their way through a socket, are seen by a cgroup only.
            if way == "memfd" && means(&ended, LimitName::Memory).starts_with("polling") {
                ended.says("refused", "EPERM");
                assert_eq!(ended.refused_calls(), ["memfd_create"]);
                continue;
            }
            // Either the limit ended it, or the kernel refuses to hold so much for one user.
            let refused = way == "pipes" && !ended.all("refused").is_empty() && ended.all("kept").is_empty();
            assert!(
                ended.report().status == Verdict::Memory || refused,
                "{who:?} hides memory in {way}: {ended:?}"
            );
        }
    }
}

#[test]
fn scratch_counts_as_disk_and_as_memory() {
    for who in Who::all() {
        for way in ["scratch", "shm"] {
            let ended = tight(*who).run(&["memory", way, MUCH]).expect(Verdict::Disk);
            ended.says("refused", "ENOSPC");
            assert_eq!(ended.code, 137);
            // Within the disk's limit and above memory's.
            let ended = tight(*who).flag("--disk", "512M").run(&["memory", way, MUCH]);
            ended.expect(Verdict::Memory);
        }
    }
}

#[test]
fn within_the_limits_all_of_this_works() {
    for who in Who::all() {
        for way in [
            "anonymous",
            "processes",
            "sockets",
            "pipes",
            "scratch",
            "shm",
            "shared-forgotten",
            "page-tables",
        ] {
            let ended = tight(*who).run(&["memory", way, "8", "100"]).expect(Verdict::Ok);
            ended.says("kept", "yes");
        }
    }
}

#[test]
fn processor_time_is_counted_over_all_processes() {
    for who in Who::all() {
        let given = Given::bare(*who).flag("--cpu", "300ms");
        // None of them alone comes near the limit.
        let ended = given.run(&["processes", "burn", "12", "100"]).expect(Verdict::CpuTime);
        assert_eq!(ended.code, 124, "{ended:?}");
        // Without a cgroup what lives between two looks is not seen (SECURITY.md), and on a busy host they are further apart:
        // ten times the limit, in pieces that are long beside the looks.
        let ended = given.run(&["processes", "burn-in-turn", "30", "100"]).expect(Verdict::CpuTime);
        assert_eq!(ended.code, 124, "{ended:?}");
        given.run(&["processes", "burn", "2", "20"]).expect(Verdict::Ok);
    }
}
