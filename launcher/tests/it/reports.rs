//! The file of the report: this run's and nothing else, or no report at all.

use std::{
    fs,
    os::fd::AsRawFd,
    path::Path,
    process::{Child, Command, Stdio},
};

fn launcher(report: &str, script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thirdwall"));
    command.args(["exec", "--policy", "sh", "--report", report, "--", "sh", "-c", script]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn parsed(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}

fn earlier(path: &Path) {
    let longer = format!("{{\"ok\":true,\"padding\":\"{}\"}}\n", "x".repeat(100_000));
    fs::write(path, longer).unwrap();
}

#[test]
fn a_longer_earlier_report_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    earlier(&path);
    assert!(launcher(path.to_str().unwrap(), "exit 3").status().is_ok_and(|status| status.code() == Some(3)));
    let report = parsed(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((&report["ok"], &report["exit"]), (&false.into(), &3.into()));
}

#[test]
fn an_earlier_report_is_none_while_the_run_lasts_nor_after_a_killed_launcher() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.json");
    earlier(&path);
    let mut running: Child = launcher(path.to_str().unwrap(), "echo here; exec sleep 60").spawn().unwrap();
    let mut word = [0; 5];
    std::io::Read::read_exact(&mut running.stdout.take().unwrap(), &mut word).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("unfinished: ") && parsed(&text).is_none());
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(parsed(&fs::read_to_string(&path).unwrap()).is_none());
}

#[test]
fn a_descriptor_keeps_what_the_caller_wrote_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reports.jsonl");
    let file = fs::File::create(&path).unwrap();
    nix::fcntl::fcntl(&file, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty())).unwrap();
    for script in ["exit 0", "exit 4"] {
        // The shell hands the descriptor down under a number that the launcher is told.
        let number = file.as_raw_fd();
        let line = format!("exec \"$0\" exec --policy sh --report fd:7 -- sh -c '{script}' 7>&{number}");
        let mut command = Command::new("sh");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_thirdwall")]).current_dir("/").stdin(Stdio::null());
        command.status().unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    let codes: Vec<_> = text.lines().map(|line| parsed(line).unwrap()["exit"].clone()).collect();
    assert_eq!(codes, [0, 4]);
}
