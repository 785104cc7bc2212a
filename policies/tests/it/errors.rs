//! Every wrong input says where, what, and what would be right.

use crate::given::{base, command, host, planned};
use policies::{
    ceiling::Ceiling,
    layer::Layer,
    limits::{LimitSettings, Setting},
    plan::{Access, HostPath},
    policy::{Policy, ready},
    request::{Options, Workdir},
    scope::Base,
    units::{Bytes, Millis},
};
use std::fmt::Write;

#[test]
fn of_ceilings() {
    let mut text = String::new();
    let long = Ceiling::parse(&"stdout,".repeat(10_000)).unwrap_err();
    writeln!(text, "a long one\n  {long}\n  help: {}", long.help()).unwrap();
    for ceiling in [
        "",
        " ",
        ",",
        "stdout,,time",
        "stdout,",
        "none,stdout",
        "stdout,none",
        "=x",
        "file.raed=x",
        "sockets",
        "stdout=x",
        "file.read=",
        "file.read= ",
        "net=a b",
        "net=::1",
        "net=1.2.3.999",
        "net=a.com:0",
        "net=a.com:x",
        "net=*.1.2.3.4",
        "net=a*b",
        "serve=http",
        "serve=70000",
        "secret=A*B",
        "db=postgres://",
        "file=\u{1}",
        "time, netw=a.com",
    ] {
        let error = Ceiling::parse(ceiling).unwrap_err();
        writeln!(text, "{ceiling:?}\n  {error}\n  help: {}", error.help()).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn of_policies() {
    let mut text = String::new();
    for policy in [
        "extends = \"pyhton\"",
        "ceilling = 1",
        "[ceiling]\nalow = []",
        "[ceiling]\nallow = [\"stdout\",\n  \"fil.read=x\"]",
        "[ceiling]\nallow = [\"net=a.com:x\"]",
        "[ceiling]\nallow = \"stdout\"",
        "[provides]\nread = [\"usr\"]",
        "[provides]\nread = [\"/usr/*\"]",
        "[limits]\nwall = \"10\"",
        "[limits]\nmemory = \"64MB\"",
        "[limits]\npids = -1",
        "[limits]\npids = \"many\"",
        "[limits]\ndisk = \"none\"",
        "[limits]\nmemry = \"1G\"",
        "[env]\n\"A=B\" = \"x\"",
        "[env]\nA = 1",
        "[jail]\nproc = \"ours\"",
        "[jail]\nroot = \"emtpy\"",
        "[jail\n",
        "é = 1",
    ] {
        let error = Policy::parse("p.toml", policy).unwrap_err();
        writeln!(text, "{policy:?}\n  {error}\n  help: {}", error.help()).unwrap();
    }
    let circle = |_: &str| Some("extends = \"other.toml\"".to_owned());
    let error = Policy::parse_with("p.toml", "extends = \"other.toml\"", &circle).unwrap_err();
    writeln!(text, "a circle\n  {error}\n  help: {}", error.help()).unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn of_plans() {
    let with =
        |ceiling: &str| Options { ceiling: Some(Ceiling::parse(ceiling).unwrap()), ..command(&["true"]) };
    let limited = |change: fn(&mut LimitSettings)| {
        let mut options = command(&["true"]);
        change(&mut options.limits);
        options
    };
    let workdir = |path: &str| Options {
        workdir: Workdir::Host { path: HostPath(path.to_owned()), access: Access::ReadWrite },
        ..command(&["true"])
    };
    let homeless = Options { base: Base { home: None, ..base() }, ..with("file=~/x") };
    let provides = Policy::parse("p.toml", "[provides]\nread = [\"/opt/none\"]").unwrap();
    let sh = ready::get("sh").unwrap();
    let mut text = String::new();
    for (name, policy, options) in [
        ("db", &sh, with("db")),
        ("memory", &sh, with("memory=notes")),
        ("/proc", &sh, with("file.read=/proc/*")),
        ("a socket", &sh, with("file=/run/docker.sock")),
        ("no home", &sh, homeless),
        ("no working folder", &sh, workdir("/gone")),
        ("a file as working folder", &sh, workdir("/etc/shadow")),
        ("the root as working folder", &sh, workdir("/")),
        ("a missing tree", &provides, command(&["true"])),
        ("no such program", &sh, command(&["gone"])),
        ("memory", &sh, limited(|limits| limits.memory = Some(Setting::At(Bytes::kib(1))))),
        ("disk", &sh, limited(|limits| limits.disk = Some(Bytes(0)))),
        ("pids", &sh, limited(|limits| limits.pids = Some(Setting::At(0)))),
        ("nofile", &sh, limited(|limits| limits.nofile = Some(3))),
        ("serve", &sh, with("serve")),
        ("both ways", &sh, with("serve=80,net=a.com")),
        ("wall", &sh, limited(|limits| limits.wall = Some(Setting::At(Millis(0))))),
    ] {
        let refusal = planned(policy, options, &host()).unwrap_err();
        writeln!(text, "{name}\n  {refusal}\n  help: {}", refusal.help()).unwrap();
    }
    insta::assert_snapshot!(text);
}

#[test]
fn of_words() {
    let layer = "landlok".parse::<Layer>().unwrap_err();
    assert_eq!(
        (layer.to_string(), layer.help()),
        ("unknown layer 'landlok'".to_owned(), "did you mean 'landlock'?".to_owned())
    );
    let policy = ready::get("nod").unwrap_err();
    assert_eq!(
        (policy.to_string(), policy.help()),
        ("unknown policy 'nod'".to_owned(), "did you mean 'node'?".to_owned())
    );
}
