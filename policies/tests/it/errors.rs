//! Every wrong input says where, what, and what would be right.

use policies::{ceiling::Ceiling, layer::Layer, policy::Policy, policy::ready};
use std::fmt::Write;

#[test]
fn of_ceilings() {
    let mut text = String::new();
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
