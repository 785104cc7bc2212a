//! Before a program runs, its text and its modules are looked at: on one clock, with bounds, and until somebody stops it.

use nix::{
    sys::{
        signal::{Signal, kill},
        stat::Mode,
    },
    unistd::{Pid, mkfifo},
};
use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

/// A program whose modules are a chain: each is found only when the one before was looked at.
fn chain(links: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: String, text: String| fs::write(folder.path().join(name), text).unwrap();
    write("p.syn".into(), "use \"m0.syn\" as m\nprint(\"ran\")\n".into());
    for link in 0..links {
        write(format!("m{link}.syn"), format!("use \"m{}.syn\" as m\nexport let x be 1\n", link + 1));
    }
    write(format!("m{links}.syn"), "export let x be 1\n".into());
    folder
}

/// Ended from outside if it doesn't end.
fn launcher(folder: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_thirdwall"), "run", "--sandbox"]);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = launcher(folder).args(words).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn one_clock_is_for_all_rounds() {
    let folder = chain(25);
    let (code, out, err) = run(folder.path(), &["--wall", "100ms", "p.syn"]);
    assert_eq!((code, out.as_str()), (Some(124), ""), "{err}");
    assert!(err.contains("look at the program before it starts: the wall clock limit is met"), "{err}");
    let (code, out, err) = run(folder.path(), &["--cpu", "1ms", "p.syn"]);
    assert_eq!((code, out.as_str()), (Some(124), ""), "{err}");
    assert!(err.contains("the limit on CPU time is met"), "{err}");
    let (code, out, err) = run(folder.path(), &["--wall", "50s", "--cpu", "50s", "p.syn"]);
    assert_eq!((code, out.as_str()), (Some(0), "ran\n"), "{err}");
}

#[test]
fn a_signal_ends_it_and_the_program_never_runs() {
    let folder = chain(40);
    let mut child = Command::new("env")
        .arg("--default-signal=TERM,INT")
        .arg(env!("CARGO_BIN_EXE_thirdwall"))
        .args(["run", "--sandbox", "--wall", "50s", "--cpu", "50s", "p.syn"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its first child is the first look's jail.
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let until = Instant::now() + PATIENCE;
    while fs::read_to_string(&children).is_ok_and(|found| found.is_empty()) {
        assert!(Instant::now() < until && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(1));
    }
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.stdout.is_empty(), "{ended:?}");
    // Between two looks it is any process's end.
    let told = String::from_utf8_lossy(&ended.stderr).contains("stopped by SIGTERM");
    assert!(ended.status.code() == Some(143) && told || ended.status.signal() == Some(15), "{ended:?}");
}

#[test]
fn what_is_no_regular_file_is_no_program_and_no_module() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("p.syn"), "use \"x.syn\" as x\nprint(x.x)\n").unwrap();
    mkfifo(&at("x.syn"), Mode::from_bits_truncate(0o600)).unwrap();
    let (code, _, err) = run(folder.path(), &["p.syn"]);
    assert!(code == Some(1) && err.contains("Module not found: 'x.syn'"), "{code:?} {err}");
    let (code, _, err) = run(folder.path(), &["x.syn"]);
    assert!(code == Some(125) && err.contains("it is no regular file"), "{code:?} {err}");
    fs::remove_file(at("x.syn")).unwrap();
    fs::write(at("x.syn"), "export let x be 7\n").unwrap();
    assert_eq!(run(folder.path(), &["p.syn"]).1, "7\n");
}

#[test]
fn all_texts_together_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("p.syn"), "use \"a.syn\" as a\nuse \"b.syn\" as b\nprint(a.x + b.x)\n").unwrap();
    for name in ["a.syn", "b.syn"] {
        fs::write(at(name), "export let x be 7\n").unwrap();
    }
    assert_eq!(run(folder.path(), &["p.syn"]).1, "14\n");
    for name in ["a.syn", "b.syn"] {
        fs::OpenOptions::new().write(true).open(at(name)).unwrap().set_len(40 << 20).unwrap();
    }
    let (code, _, err) = run(folder.path(), &["p.syn"]);
    assert!(code == Some(125) && err.contains("at most 64 MiB, its modules with it"), "{code:?} {err}");
}
