//! A use is allowed where a flag and the ceiling allow it, and each decision is one entry.

use policies::ceiling::Ceiling;
use runtime::partition::host::Memory;
use runtime::scua;
use runtime::scua::program::{self, Grants};
use std::cell::RefCell;
use std::rc::Rc;

/// What a program says with these flags under this ceiling, and the entries: capability, granted, reason.
fn run(source: &str, granted: &str, ceiling: Option<&str>) -> (String, Vec<(String, bool, String)>) {
    let host = Rc::new(RefCell::new(Memory::default()));
    host.borrow_mut().env.insert("HOME".into(), "/h".into());
    host.borrow_mut().env.insert("PATH".into(), "/p".into());
    let of = |text: &str| Ceiling::parse(text).expect("a ceiling");
    let grants = Grants { granted: of(granted), ceiling: ceiling.map(of), ..Grants::nothing() };
    let program = Rc::new(scua::load("t.scua", source.as_bytes(), &[]).expect("it compiles"));
    let outcome = program::run(program, grants, Vec::new(), Box::new(host.clone()));
    let host = host.borrow();
    let mut said = host.output.clone();
    said.extend(outcome.errors.iter().map(|e| e.text.lines().next().unwrap_or("").to_owned()));
    let entries = host.audit.iter().map(|e| (e.capability.clone(), e.granted, e.reason.clone())).collect();
    (said.join("\n"), entries)
}

const ABOVE: &str = "above the host ceiling; only the host can widen it (--cap-set)";

#[test]
fn a_flag_wider_than_the_ceiling_reaches_what_the_ceiling_reaches() {
    let get = |name: &str| format!("import env\nprint(env.get(\"{name}\"))");
    for (granted, ceiling) in
        [("env", "env=HOME"), ("env=HOME", "env"), ("env=HO*", "env=H*"), ("env", "env")]
    {
        let (granted, ceiling) = (format!("stdout,{granted}"), format!("stdout,{ceiling}"));
        assert_eq!(run(&get("HOME"), &granted, Some(&ceiling)).0, "/h", "{granted} under {ceiling}");
        assert!(run("import env\nprint(env.names())", &granted, Some(&ceiling)).0.contains("HOME"));
    }
    let (said, entries) = run(&get("PATH"), "stdout,env", Some("stdout,env=HOME"));
    assert_eq!(said, format!("t.scua:2: fault: capability not granted: env(\"PATH\") — {ABOVE}"));
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert!(!entries[0].1 && entries[0].2.contains("above host ceiling"), "{entries:?}");
    let (said, _) = run(&get("PATH"), "stdout,env=HOME", Some("stdout,env"));
    assert_eq!(said, "t.scua:2: fault: capability not granted: env(\"PATH\") — run with --allow-env=PATH");
    let (said, _) = run(&get("HOME"), "stdout,env", Some("stdout"));
    assert_eq!(said, format!("t.scua:2: fault: capability not granted: env(\"HOME\") — {ABOVE}"));
}

#[test]
fn hosts_and_paths_are_decided_by_both_too() {
    let net = |url: &str| format!("import net\nprint(tag(net.get(\"{url}\")))");
    // Nobody answers in a test's host: what is refused there is no denial.
    let denied = |source: &str, granted: &str, ceiling: &str| {
        let (said, entries) = run(source, granted, Some(ceiling));
        assert_eq!(said.contains(ABOVE), entries.iter().any(|e| !e.1), "{said} {entries:?}");
        said.contains("not granted")
    };
    for (granted, ceiling) in
        [("net", "net=good.test"), ("net=good.test", "net=good.test:80"), ("net", "net=good.test:80")]
    {
        let (granted, ceiling) = (format!("stdout,{granted}"), format!("stdout,{ceiling}"));
        assert!(!denied(&net("http://good.test/"), &granted, &ceiling), "{granted} under {ceiling}");
        assert!(denied(&net("http://good.test:81/"), &granted, "stdout,net=good.test:80"), "{granted}");
    }
    assert!(denied(&net("http://bad.test/"), "stdout,net", "stdout,net=good.test"));
    let read = |path: &str| format!("import fs\nprint(fs.exists(\"{path}\"))");
    for granted in ["stdout,file", "stdout,file.read", "stdout,file.read=*"] {
        assert!(!denied(&read("txt.txt"), granted, "stdout,file.read=txt.txt"), "{granted}");
        assert!(denied(&read("other.txt"), granted, "stdout,file.read=txt.txt"), "{granted}");
    }
    assert!(denied("import fs\nfs.write(\"txt.txt\", \"\")", "stdout,file", "stdout,file.read=txt.txt"));
}

#[test]
fn the_clock_is_a_flag_like_the_others() {
    let now = "import clock\nprint(clock.ticks() >= 0)";
    let missing = "t.scua:2: fault: capability not granted: time — run with --allow-clock";
    for ceiling in [None, Some("stdout,time")] {
        let (said, entries) = run(now, "stdout", ceiling);
        assert_eq!(said, missing, "{ceiling:?}");
        let reasons: Vec<&str> = entries.iter().map(|e| e.2.as_str()).collect();
        assert_eq!(reasons, ["No matching grant found"], "{ceiling:?}");
        assert_eq!(run(now, "stdout,time", ceiling).0, "true", "{ceiling:?}");
    }
    let (said, _) = run(now, "stdout,time", Some("stdout"));
    assert_eq!(said, format!("t.scua:2: fault: capability not granted: time — {ABOVE}"));
    let (said, _) = run("print(1)", "none", None);
    assert_eq!(said, "t.scua:1: fault: capability not granted: stdout — run without --no-stdout");
}

#[test]
fn names_of_variables_are_one_decision() {
    let names = "import env\nprint(env.names())";
    let (said, entries) = run(names, "stdout,env=HOME", None);
    assert_eq!(said, "[\"HOME\"]");
    let env: Vec<_> = entries.iter().filter(|e| e.0 == "env").collect();
    assert_eq!(env.len(), 1, "{entries:?}");
    assert!(env[0].1);
    assert_eq!(run(names, "stdout,env", None).0, "[\"HOME\", \"PATH\"]");
    let (said, entries) = run(names, "stdout", None);
    assert_eq!(said, "t.scua:2: fault: capability not granted: env — run with --allow-env");
    assert_eq!(entries, [("env".to_owned(), false, "No matching grant found".to_owned())]);
}

/// A path is shown and told as it is compared.
#[test]
fn a_paths_detours_are_taken_out() {
    let read = "import fs\nfs.read(\"./a/../q.txt\")";
    let (said, entries) = run(read, "stdout", None);
    assert!(said.contains("not granted: file_read(\"q.txt\")"), "{said}");
    assert_eq!(entries.len(), 1);
    let (said, entries) = run(read, "stdout,file.read=q.txt", None);
    assert!(!said.contains("not granted") && entries.iter().all(|e| e.1), "{said} {entries:?}");
}
