//! Plans for each Landlock ABI and each missing wall, on any machine: host facts are data.

use crate::given::{command, host, ready_plan, root, run_plan};
use policies::{
    facts::{CgroupFacts, HostFacts},
    layer::Layer,
    plan::{Plan, explain},
    report::LimitName,
};
use std::fmt::Write;

fn layers(plan: &Plan) -> String {
    let mut text = String::new();
    for state in &plan.layers {
        writeln!(text, "{:<11} {:?}: {}", state.layer, state.standing, state.how).unwrap();
    }
    text
}

#[test]
fn each_landlock_abi() {
    let mut text = String::new();
    for abi in 0..=9 {
        let mut options = command(&["true"]);
        options.allow_missing.insert(Layer::Landlock);
        let plan = ready_plan("sh", options, &HostFacts { landlock_abi: abi, ..host() }).unwrap();
        let state = plan.layers.iter().find(|state| state.layer == Layer::Landlock).unwrap();
        let rules = plan.landlock.rules.len();
        writeln!(
            text,
            "host ABI {abi}: plan ABI {}, {rules} rules, {:?}: {}",
            plan.landlock.abi, state.standing, state.how
        )
        .unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn each_missing_layer_is_a_refusal_and_some_can_be_given_up() {
    let no_namespaces =
        HostFacts { user_namespaces: Err("the administrator forbids them".to_owned()), ..host() };
    let no_landlock = HostFacts { landlock_abi: 0, ..host() };
    let no_filter = HostFacts { seccomp: false, ..host() };
    let neither = HostFacts { landlock_abi: 0, seccomp: false, ..host() };
    let mut text = String::new();
    for (name, facts) in
        [("namespaces", no_namespaces), ("landlock", no_landlock), ("filter", no_filter), ("both", neither)]
    {
        for given_up in [&[] as &[Layer], &Layer::ALL] {
            let mut options = command(&["true"]);
            options.allow_missing.extend(given_up);
            let all = if given_up.is_empty() { "nothing given up" } else { "everything given up" };
            writeln!(text, "-- {name}, {all}").unwrap();
            match ready_plan("sh", options, &facts) {
                Ok(plan) => text += &layers(&plan),
                Err(refusal) => writeln!(text, "{refusal}\nhelp: {}", refusal.help()).unwrap(),
            }
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn each_way_to_hold_the_limits() {
    let all =
        |memory, pids, cpu| [CgroupFacts::V2 { memory, pids, cpu }, CgroupFacts::V1 { memory, pids, cpu }];
    let mut text = String::new();
    for cgroup in all(true, true, true).into_iter().chain(all(false, true, false)).chain([CgroupFacts::None])
    {
        let plan = ready_plan("sh", command(&["true"]), &HostFacts { cgroup, ..host() }).unwrap();
        writeln!(text, "{cgroup:?}").unwrap();
        let limits = &plan.limits;
        for (name, means) in [
            (LimitName::Wall, limits.wall.means),
            (LimitName::Cpu, limits.cpu.means),
            (LimitName::Memory, limits.memory.means),
            (LimitName::Pids, limits.pids.means),
            (LimitName::Output, limits.output.means),
        ] {
            writeln!(text, "  {name:?} {means:?}").unwrap();
        }
        writeln!(text, "  {:?}", plan.layers.last().unwrap().standing).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn explain_of_each_ready_policy() {
    for name in ["auto", "static", "sh", "gcc", "service"] {
        let plan = ready_plan(name, command(&["true", "it's", "fine"]), &host()).unwrap();
        insta::assert_snapshot!(format!("explain_{name}"), explain(&plan));
    }
    let python = ready_plan("python", command(&["python3", "-c", "print(1)"]), &root()).unwrap();
    insta::assert_snapshot!("explain_python_as_root", explain(&python));
}

#[test]
fn explain_of_the_runtime() {
    insta::assert_snapshot!("explain_run_sandbox", explain(&run_plan("stdout,time")));
    insta::assert_snapshot!(
        "explain_run_files",
        explain(&run_plan(
            "stdout,file.read=./data/*,file.write=./out.txt,file=scratch_*,net=a.com:443,env=LANG"
        ))
    );
}

#[test]
fn a_plan_is_json_and_back() {
    let plan = ready_plan("gcc", command(&["true"]), &root()).unwrap();
    let json = serde_json::to_string_pretty(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
    insta::assert_snapshot!(json);
}
