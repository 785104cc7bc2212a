//! Where a provider's key stands while it is used: in the launcher and in the client that asks, and in no other process.

use crate::{
    program::synsema,
    server::{Server, answer},
};
use std::{
    fs::{self, File},
    io::BufRead,
    os::unix::fs::FileExt,
    sync::{Arc, Mutex},
};

/// A process of the launcher's, and whether its memory has the key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    jailed: bool,
    has: bool,
}

/// Each process that descends from this one and runs the launcher's binary.
fn processes(key: &str) -> Vec<Held> {
    let binary = fs::canonicalize(env!("CARGO_BIN_EXE_thirdwall")).unwrap();
    let us = std::process::id();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Those of the jail show no path that is the host's, and one that has just ended shows none at all.
        let ours = fs::metadata(entry.path().join("exe"))
            .is_ok_and(|exe| same(&exe, &fs::metadata(&binary).unwrap()));
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        if ours && descends(pid, us) {
            let spaces = field(&status, "NSpid:").map_or(0, |list| list.split_whitespace().count());
            found.push(Held { jailed: spaces > 1, has: has(pid, key.as_bytes()) });
        }
    }
    found
}

fn same(one: &fs::Metadata, other: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino()) || one.len() == other.len()
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name))
}

fn descends(mut pid: u32, from: u32) -> bool {
    while pid > 1 {
        if pid == from {
            return true;
        }
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        pid = field(&status, "PPid:").and_then(|pid| pid.trim().parse().ok()).unwrap_or(0);
    }
    false
}

fn has(pid: u32, key: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    // Where nothing can be written, nothing but files stands.
    maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let range = line.split_whitespace().next().unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let place = |text| u64::from_str_radix(text, 16).unwrap();
        let mut bytes = vec![0; usize::try_from(place(to) - place(from)).unwrap().min(64 << 20)];
        let read = memory.read_at(&mut bytes, place(from)).unwrap_or(0);
        let mut rest = &bytes[..read];
        while rest.skip_until(key[0]).unwrap() > 0 {
            if rest.starts_with(&key[1..]) {
                return true;
            }
        }
        false
    })
}

fn seen(key: &'static str, give: impl FnOnce(crate::program::Given) -> crate::program::Given) -> Vec<Held> {
    let found = Arc::new(Mutex::new((0, Vec::new())));
    let server = {
        let found = Arc::clone(&found);
        Server::plain(move |request| {
            if request.path.ends_with("/completions") {
                let mut found = found.lock().unwrap();
                found.0 += 1;
                if found.0 == 2 {
                    found.1 = processes(key);
                }
            }
            let body = r#"{"choices":[{"message":{"content":"yes"}}],"usage":{"total_tokens":4}}"#;
            answer("200 OK", "Content-Type: application/json\r\n", body)
        })
    };
    // What is forked after the first request (the client of the program's own, a child's processes) is seen by the second.
    let program = format!(
        "require net(\"127.0.0.1:{port}\")\nrequire sandbox_run\nprint(reason about \"x\")\n\
         print(fetch(\"http://127.0.0.1:{port}/\").status)\nprint(run_program(\"print(1)\").output)\n\
         print(reason about \"y\")",
        port = server.port
    );
    let given = synsema(&program)
        .ceiling(&format!("llm,sandbox_run,net=127.0.0.1:{}", server.port))
        .variable("SYNSEMA_LLM_PROVIDER", "openai")
        .variable("SYNSEMA_LLM_MODEL", "m")
        .variable("SYNSEMA_LLM_BASE_URL", &format!("http://127.0.0.1:{}/v1", server.port));
    let left = give(given).run();
    assert_eq!(left.out(), "yes\n200\n[\"1\"]\nyes");
    assert_eq!(server.asked().last().unwrap().field("authorization"), Some(format!("Bearer {key}").as_str()));
    found.lock().unwrap().1.clone()
}

fn holds(found: &[Held]) {
    let count = |jailed, has| found.iter().filter(|held| **held == Held { jailed, has }).count();
    // The launcher and the client that asks have it; the client of the program's own requests hasn't, nor have init and the
    // runtime inside, nor those of the other tests.
    assert_eq!((count(false, true), count(true, true)), (2, 0), "{found:?}");
    assert!(count(false, false) >= 1 && count(true, false) >= 2, "{found:?}");
}

fn readable() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: the memory of the jail's init, which is not dumpable, is root's to read");
    }
    root
}

#[test]
fn a_key_of_the_environment_is_in_two_processes() {
    if readable() {
        holds(&seen("sk-of-the-environment-7c1f", |given| {
            given.variable("OPENAI_API_KEY", "sk-of-the-environment-7c1f")
        }));
    }
}

#[test]
fn a_key_of_a_file_is_in_two_processes() {
    if readable() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("variables");
        fs::write(&file, "OTHER=1\nOPENAI_API_KEY='sk-of-a-file-7c1f'\n").unwrap();
        holds(&seen("sk-of-a-file-7c1f", |given| given.flag("--env-file").flag(file.to_str().unwrap())));
    }
}

#[test]
fn a_program_that_is_granted_the_key_has_it() {
    let program = "require env(\"OPENAI_API_KEY\")\nprint(env(\"OPENAI_API_KEY\"))";
    let with =
        |ceiling: &str| synsema(program).ceiling(ceiling).variable("OPENAI_API_KEY", "sk-granted").run();
    assert_eq!(with("env=OPENAI_API_KEY").out(), "sk-granted");
    assert_eq!(with("env=OPENAI_*").out(), "sk-granted");
    assert!(with("env=OTHER").error().contains("env(\"OPENAI_API_KEY\")"));
}
