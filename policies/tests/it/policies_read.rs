//! Policy files: what extends what, and which section wins.

use policies::{
    limits::Setting,
    plan::HostPath,
    policy::{Policy, Presence, Proc, ready},
    units::{Bytes, Millis},
};

#[test]
fn a_policy_stands_on_a_ready_one() {
    let policy = Policy::parse(
        "mine.toml",
        "extends = \"python\"\n[ceiling]\nallow = [\"stdout\", \"file.read=/data/*\"]\n[provides]\nread = [\"/opt/x?\"]\n\
         [limits]\nwall = \"1m\"\npids = 7\ncpu = \"none\"\n[env]\nA = \"1\"\n",
    )
    .unwrap();
    let python = ready::get("python").unwrap();
    assert_eq!(policy.ceiling().to_string(), "stdout,file.read=/data/*");
    assert_eq!(policy.provides().len(), python.provides().len() + 1);
    let last = policy.provides().last().unwrap();
    assert_eq!((&last.path, last.presence), (&HostPath("/opt/x".to_owned()), Presence::Optional));
    let limits = policy.limits();
    assert_eq!((limits.wall, limits.pids), (Some(Setting::At(Millis::seconds(60))), Some(Setting::At(7))));
    assert_eq!((limits.cpu, limits.memory), (Some(Setting::Unlimited), Some(Setting::At(Bytes::mib(512)))));
    assert_eq!(policy.environment()["A"], "1");
    assert_eq!(policy.environment()["PYTHONUTF8"], "1");
    assert_eq!(policy.jail().proc, Proc::Own);
}

#[test]
fn a_file_may_extend_a_file_that_the_caller_finds() {
    let files =
        |name: &str| (name == "base.toml").then(|| "extends = \"sh\"\n[limits]\npids = 3\n".to_owned());
    let policy = Policy::parse_with("top.toml", "extends = \"base.toml\"", &files).unwrap();
    assert_eq!(policy.limits().pids, Some(Setting::At(3)));
    assert_eq!(policy.name(), "top.toml");
}

#[test]
fn an_empty_policy_grants_and_provides_nothing() {
    let policy = Policy::parse("empty.toml", "").unwrap();
    assert!(policy.ceiling().is_none() && policy.provides().is_empty() && policy.environment().is_empty());
    assert_eq!(policy.limits().wall, Some(Setting::At(Millis::seconds(10))));
}

/// The first fenced TOML of the page on policies is read as it is printed there.
#[test]
fn the_example_of_the_page_on_policies_is_a_policy() {
    let page = include_str!("../../../docs/policies.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let policy = Policy::parse("docs/policies.md", example).unwrap();
    assert_eq!(policy.ceiling().to_string(), "stdout,time,file.read=/srv/data/*");
    assert!(ready::names().iter().all(|name| page.contains(&format!("`{name}`"))));
}
