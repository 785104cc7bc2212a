//! What the launcher reads and writes for its caller, where an untrusted program has been before: links, devices and endless
//! files in the places of reports, variables and policies.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, symlink},
    process::{Command, Stdio},
};
use tempfile::TempDir;

struct Caller(TempDir);

impl Caller {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    fn at(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn reads(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    fn makes_fifo(&self, name: &str) {
        assert!(Command::new("mkfifo").arg(self.at(name)).status().unwrap().success());
    }

    fn types(&self, words: &[&str]) -> (i32, String, String) {
        self.types_with(words, &[])
    }

    /// Code, output, errors.
    fn types_with(&self, words: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
        // What hangs is ended by this, with 137.
        let done = Command::new("timeout")
            .args(["-s", "KILL", "60", env!("CARGO_BIN_EXE_thirdwall")])
            .args(words)
            .current_dir(self.0.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
    }
}

const SH: [&str; 3] = ["exec", "--policy", "sh"];

#[test]
fn no_report_or_audit_is_written_through_a_link() {
    let caller = Caller::new(&[("victim", "keep"), ("p.syn", "print(1)\n")]);
    symlink("victim", caller.at("link")).unwrap();
    symlink("nowhere", caller.at("dangling")).unwrap();
    for link in ["link", "dangling"] {
        for flag in ["--report", "--audit"] {
            let (code, out, err) = caller.types(&["run", flag, link, "p.syn"]);
            assert_eq!((code, out.as_str()), (125, ""), "{err}");
            assert!(err.contains("a link stands there"), "{err}");
        }
    }
    assert_eq!(caller.reads("victim"), "keep");
    assert!(!fs::exists(caller.at("nowhere")).unwrap());
    // The kernel's own links are the caller's streams.
    for (flag, place) in [("--report", "victim"), ("--report", "/dev/stderr"), ("--audit", "/dev/null")] {
        assert_eq!(caller.types(&["run", flag, place, "p.syn"]).0, 0, "{flag} {place}");
    }
    // Nobody would ever read.
    caller.makes_fifo("fifo");
    let (code, _, err) = caller.types(&["run", "--report", "fifo", "p.syn"]);
    assert!(code == 125 && err.contains("a FIFO that nobody reads"), "{err}");
}

#[test]
fn what_a_program_puts_behind_its_report_is_cut_off() {
    let caller = Caller::new(&[]);
    fs::create_dir(caller.at("job")).unwrap();
    let line =
        ["--workdir", "job:rw", "--report", "job/r", "--", "sh", "-c", "printf 'x%.0s\\n' $(seq 5000) >> r"];
    for _ in 0..2 {
        let (code, _, err) = caller.types(&[&SH[..], &line].concat());
        assert_eq!(code, 0, "{err}");
    }
    let report = caller.reads("job/r");
    assert_eq!(report.lines().count(), 1, "{}", &report[..report.len().min(300)]);
    assert!(report.starts_with('{') && report.ends_with("}\n"));
}

#[test]
fn a_program_that_spoils_what_is_written_later_silences_no_audit() {
    let text = "exit(0)\n";
    let caller = Caller::new(&[("p.scua", "print(1)\nexit(0)\n"), ("p.syn", text)]);
    let (code, _, _) = caller.types(&["run", "--audit", "a", "--report", "r", "--save", "s", "p.scua"]);
    assert_ne!(code, 0);
    assert!(caller.reads("a").contains("\"summary\""), "{}", caller.reads("a"));
    assert!(caller.reads("r").starts_with('{') && caller.reads("r").contains("failed to write the state"));
    let (code, _, _) = caller.types(&["run", "--audit", "b", "--report", "/dev/full", "p.syn"]);
    assert_eq!(code, 125);
    assert!(caller.reads("b").contains("\"summary\""));
    let (code, _, _) = caller.types(&["exec", "--audit", "c", "--report", "/dev/full", "--", "true"]);
    assert_eq!(code, 125);
    assert!(caller.reads("c").contains("\"summary\""));
}

#[test]
fn variables_that_nobody_named_are_a_plain_file() {
    let text = "require env(\"X\")\nprint(env(\"X\", \"none\"))\n";
    let run = ["run", "--cap-set", "stdout,env=X", "p.syn"];
    let plain = Caller::new(&[("p.syn", text), (".env", "X=plain\n")]);
    assert_eq!(plain.types(&run).1, "plain\n");
    let linked = Caller::new(&[("p.syn", text), ("other", "X=other\n")]);
    symlink("other", linked.at(".env")).unwrap();
    let (code, out, err) = linked.types(&run);
    assert!(code == 125 && out.is_empty() && err.contains("a link stands there"), "{err}");
    assert_eq!(linked.types(&[&run[..3], &["--env-file", "other", "p.syn"]].concat()).1, "other\n");
    assert_eq!(linked.types(&[&run[..3], &["--no-env-file", "p.syn"]].concat()).1, "none\n");
    let endless = Caller::new(&[("p.syn", text)]);
    symlink("/dev/zero", endless.at("zero")).unwrap();
    let (code, _, err) = endless.types(&[&run[..3], &["--env-file", "zero", "p.syn"]].concat());
    assert!(code == 125 && err.contains("at most 1 MiB"), "{err}");
    let (code, _, err) = endless.types(&["exec", "--policy", "/dev/zero", "--", "true"]);
    assert!(code == 125 && err.contains("at most 1 MiB"), "{err}");
    let (code, _, err) = endless.types(&["exec", "--policy", "./zero", "--", "true"]);
    assert!(code == 125 && err.contains("at most 1 MiB"), "{err}");
    endless.makes_fifo(".env");
    let (code, _, err) = endless.types(&run);
    assert!(code == 125 && err.contains("no regular file"), "{err}");
}

#[test]
fn where_a_model_is_no_file_of_the_folder_says() {
    let text = "print(reason(\"x\"))\n";
    let file =
        "SYNSEMA_LLM_PROVIDER=openai\nSYNSEMA_LLM_MODEL=m\nSYNSEMA_LLM_BASE_URL=http://127.0.0.1:9/v1\n";
    let caller = Caller::new(&[("p.syn", text), (".env", file)]);
    let key = [("OPENAI_API_KEY", "sk-only-key")];
    let run = ["run", "--cap-set", "stdout,llm"];
    let (code, out, err) = caller.types_with(&[&run[..], &["p.syn"]].concat(), &key);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("no model is asked: SYNSEMA_LLM_BASE_URL stands in .env"), "{err}");
    assert!(!out.contains("unavailable"), "nothing was dialled: {out}");
    // The caller's own word.
    let (_, out, err) = caller.types_with(&[&run[..], &["--env-file", ".env", "p.syn"]].concat(), &key);
    assert!(out.contains("llm unavailable") && !err.contains("no model is asked"), "{out}{err}");
}

#[test]
fn no_device_or_fifo_is_replaced() {
    let caller = Caller::new(&[("p.syn", "print(1)\n"), ("p.scua", "print(1)\n")]);
    caller.makes_fifo("fifo");
    fs::create_dir(caller.at("folder")).unwrap();
    for place in ["fifo", "folder"] {
        let copy = format!("c:{place}");
        let copied = [&SH[..], &["--copy-out", &copy, "--", "sh", "-c", "echo x > c"]].concat();
        for words in [copied, vec!["build", "p.syn", "-o", place], vec!["run", "--save", place, "p.scua"]] {
            let (code, _, err) = caller.types(&words);
            assert_eq!(code, 125, "{words:?}: {err}");
        }
    }
    assert!(fs::symlink_metadata(caller.at("fifo")).unwrap().file_type().is_fifo());
    let mut names: Vec<_> = fs::read_dir(caller.0.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["fifo", "folder", "p.scua", "p.syn"], "nothing half made is left");
    // A link is replaced itself, and a file as well.
    fs::write(caller.at("kept"), "kept").unwrap();
    symlink("kept", caller.at("link")).unwrap();
    let copied = [&SH[..], &["--copy-out", "c:link", "--", "sh", "-c", "echo x > c"]].concat();
    assert_eq!(caller.types(&copied).0, 0);
    assert_eq!((caller.reads("link").as_str(), caller.reads("kept").as_str()), ("x\n", "kept"));
}

#[test]
fn a_descriptor_of_the_launchers_own_is_none_of_the_callers() {
    let caller = Caller::new(&[("p.syn", "print(1)\n")]);
    let (code, _, err) = caller.types(&["run", "--audit", "a", "--report", "fd:3", "p.syn"]);
    assert_eq!(code, 125, "{err}");
    let (code, _, err) = caller.types(&["run", "--audit", "fd:2", "--report", "fd:2", "p.syn"]);
    assert_eq!(code, 125, "{err}");
}

#[test]
fn no_text_of_somebody_else_has_power_over_the_terminal() {
    let caller =
        Caller::new(&[("p.sh", "#!/\u{1b}]0;owned\u{7}x\n"), ("p.toml", "extends = \"\u{1b}[2J\"\n")]);
    let done = Command::new("chmod").args(["755", &caller.at("p.sh")]).status().unwrap();
    assert!(done.success());
    for words in [vec!["exec", "--", "./p.sh"], vec!["exec", "--policy", "./p.toml", "--", "true"]] {
        let (code, _, err) = caller.types(&words);
        assert!(code >= 125, "{err:?}");
        assert!(!err.contains('\u{1b}') && !err.contains('\u{7}'), "{err:?}");
    }
}

/// A limit on the size of files is one more way in which a disk is full: it ends nobody unheard, and the program in the jail
/// meets the kernel's default.
#[test]
fn a_limit_on_the_size_of_files_is_an_error_like_any_other() {
    let caller = Caller::new(&[]);
    let limited = |script: &str| {
        let done = Command::new("sh")
            .args(["-c", &format!("ulimit -f 4; {script}"), "sh", env!("CARGO_BIN_EXE_thirdwall")])
            .current_dir(caller.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (done.status.code().unwrap_or(-1), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (code, why) = limited("\"$1\" exec --output none -- cat /dev/zero > out");
    assert_eq!((code, why.contains("File too large")), (125, true), "{why}");
    let (code, why) = limited("\"$1\" exec --policy sh -- sh -c 'cat /dev/zero > /tmp/f; echo $? >&2'");
    assert_eq!((code, why.lines().last()), (0, Some("153")), "{why}");
}

/// Root's jails have another id outside, and not every mount below a folder can be shown under it: `/run` has one of ours.
#[test]
fn a_folder_with_mounts_that_keep_their_ids_can_be_granted() {
    let caller = Caller::new(&[]);
    let folder = tempfile::tempdir_in("/run").or_else(|_| tempfile::tempdir()).unwrap();
    let top = if folder.path().starts_with("/run") { "/run" } else { "/tmp" };
    let file = folder.path().join("f");
    let text = format!("echo written > {}; read line < {}; echo $line", file.display(), file.display());
    let (code, output, why) = caller.types(&[
        "exec",
        "--policy",
        "sh",
        "--cap-set",
        &format!("stdout,file={top}/*"),
        "--",
        "sh",
        "-c",
        &text,
    ]);
    assert_eq!((code, output.as_str()), (0, "written\n"), "{why}");
}
