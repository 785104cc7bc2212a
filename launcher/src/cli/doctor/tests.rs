//! What is found and advised for hosts as data, and once for the host that the tests run on.

use super::*;
use policies::{
    facts::{Caller, CgroupFacts, HostFacts},
    layer::{Layer, Standing},
    plan::Means,
};

fn host() -> HostFacts {
    HostFacts {
        arch: "x86_64".into(),
        kernel: "6.18.44".into(),
        landlock_abi: 7,
        seccomp: true,
        user_namespaces: Ok(()),
        shared_network_namespace: true,
        caller: Caller::Root,
        cgroup: CgroupFacts::V2 { memory: true, pids: true, cpu: true },
        nofile_hard: 4096,
        idmapped_mounts: true,
    }
}

fn user() -> HostFacts {
    HostFacts {
        caller: Caller::User { uid: 1000, gid: 1000 },
        shared_network_namespace: false,
        idmapped_mounts: false,
        ..host()
    }
}

fn of(facts: &HostFacts, layer: Layer) -> Finding {
    let diagnosis = examine(facts, &Surroundings::default());
    diagnosis.layers.into_iter().find(|finding| finding.layer == layer).unwrap()
}

#[test]
fn a_host_with_everything_needs_no_remedy() {
    for facts in [host(), user()] {
        let diagnosis = examine(&facts, &Surroundings::default());
        assert_eq!(diagnosis.jail, Jail::Full);
        for finding in &diagnosis.layers {
            assert_eq!(finding.standing, Standing::InForce, "{finding:?}");
            assert!(finding.remedies.is_empty(), "{finding:?}");
        }
        assert!(diagnosis.landlock_lacks.is_empty());
    }
}

#[test]
fn each_missing_layer_makes_the_jail_incomplete_and_has_a_remedy() {
    let lacking = [
        (Layer::Namespaces, HostFacts { user_namespaces: Err("no".into()), ..user() }),
        (Layer::Landlock, HostFacts { landlock_abi: 0, ..user() }),
        (Layer::Filter, HostFacts { seccomp: false, ..user() }),
    ];
    for (layer, facts) in lacking {
        let found = of(&facts, layer);
        assert_eq!(found.standing, Standing::Missing);
        assert!(!found.remedies.is_empty(), "{layer:?}");
        assert_eq!(examine(&facts, &Surroundings::default()).jail, Jail::Incomplete, "{layer:?}");
    }
}

#[test]
fn what_each_landlock_lacks_is_said() {
    for abi in 0..=8 {
        let facts = HostFacts { landlock_abi: abi, ..host() };
        let lacks = examine(&facts, &Surroundings::default()).landlock_lacks;
        assert_eq!(lacks.iter().map(|step| step.abi).collect::<Vec<_>>(), (abi + 1..=7).collect::<Vec<_>>());
        let standing = match abi {
            0 => Standing::Missing,
            1..=5 => Standing::OtherMeans,
            _ => Standing::InForce,
        };
        assert_eq!(of(&facts, Layer::Landlock).standing, standing, "{abi}");
    }
    // An old kernel needs a new one; a new kernel without Landlock needs its administrator.
    let old = HostFacts { landlock_abi: 0, kernel: "5.4.0".into(), ..host() };
    assert_eq!(of(&old, Layer::Landlock).remedies[0].who, Who::Kernel);
    let new = HostFacts { landlock_abi: 0, ..host() };
    assert_eq!(of(&new, Layer::Landlock).remedies[0].who, Who::Host);
}

#[test]
fn limits_name_their_means() {
    let means = |facts: &HostFacts, limit: &str| {
        let rows = examine(facts, &Surroundings::default()).limits;
        rows.into_iter().find(|row| row.limit == limit).unwrap().means
    };
    let none = HostFacts { cgroup: CgroupFacts::None, ..user() };
    assert_eq!(means(&none, "memory"), Means::Polling);
    assert_eq!(means(&none, "cpu"), Means::Polling);
    assert_eq!(means(&none, "pids"), Means::Rlimit);
    assert_eq!(of(&none, Layer::Limits).standing, Standing::OtherMeans);
    assert_eq!(of(&none, Layer::Limits).remedies[0].who, Who::Caller);
    assert_eq!(examine(&none, &Surroundings::default()).jail, Jail::Full);
    let part = HostFacts { cgroup: CgroupFacts::V1 { memory: true, pids: false, cpu: true }, ..host() };
    assert_eq!(means(&part, "memory"), Means::CgroupV1);
    assert_eq!(means(&part, "pids"), Means::Rlimit);
    assert_eq!(of(&part, Layer::Limits).how, "without a cgroup of their own: pids");
}

#[test]
fn a_masked_proc_is_said_to_a_user_only() {
    let around = Surroundings { masked_proc: vec!["/proc/kcore".into()], ..Surroundings::default() };
    let standing = |facts: &HostFacts| examine(facts, &around).layers.swap_remove(1).standing;
    assert_eq!(standing(&user()), Standing::OtherMeans);
    assert_eq!(standing(&host()), Standing::InForce);
    let mountinfo = "22 27 0:21 / /proc rw - proc proc rw\n\
                     31 22 0:5 /null /proc/kcore rw - tmpfs tmpfs rw\n\
                     32 22 0:9 / /proc/sys/fs/binfmt_misc rw - autofs autofs rw\n";
    assert_eq!(masked(mountinfo), ["/proc/kcore"]);
}

#[test]
fn the_page_and_the_json_say_the_same_of_this_host() {
    let diagnosis = examine(&probe::full(), &Surroundings::default());
    let (mut page, mut json) = (Vec::new(), Vec::new());
    let exits = [
        print(&diagnosis, Format::Page, &mut page).unwrap(),
        print(&diagnosis, Format::Json, &mut json).unwrap(),
    ];
    assert_eq!(exits[0], exits[1]);
    let page = String::from_utf8(page).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(page.starts_with("a full jail can be built"), json["jail"] == "full");
    assert_eq!(exits[0] == 0, json["jail"] == "full");
    for finding in json["layers"].as_array().unwrap() {
        assert!(page.contains(finding["how"].as_str().unwrap()), "{finding}");
    }
}
