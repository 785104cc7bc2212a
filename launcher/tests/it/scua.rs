//! SCUA's own name and flags, and a program's state in a file.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::{Command, Stdio},
};
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        symlink(env!("CARGO_BIN_EXE_thirdwall"), folder.path().join("scua")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    /// Exit code, output and errors of `scua` with these words.
    fn scua(&self, words: &[&str]) -> (i32, String, String) {
        let done = Command::new(self.0.path().join("scua"))
            .args(words)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

const DOUBLE: &str = r#"import sandbox

match sandbox.run("fn main(input)\n  return input * 2\nend\n", 21)
  Ok(answer) -> print(answer)
  Error(e)   -> print(`the code failed: {e.kind}`)
end
"#;

#[test]
fn the_pages_first_program_runs_with_its_flag_and_not_without() {
    let folder = Folder::new(&[("double.scua", DOUBLE)]);
    assert_eq!(folder.scua(&["--allow-sandbox", "double.scua"]), (0, "42\n".into(), String::new()));
    let (code, out, err) = folder.scua(&["double.scua"]);
    assert_eq!((code, out.as_str()), (1, ""));
    let first = "double.scua:3: fault: capability not granted: sandbox_run — run with --allow-sandbox";
    assert_eq!(err.lines().next(), Some(first));
    assert_eq!(folder.scua(&["check", "double.scua"]), (0, String::new(), String::new()));
    assert_eq!(folder.scua(&["--no-such-flag", "double.scua"]).0, 2);
    assert_eq!(folder.scua(&["missing.scua"]).0, 2);
}

const COUNTER: &str = r#"import sandbox
let count = 1
let keeper = actor(fn(state, msg) reply(state + 1); return state + 1 end, 10)
let mod = payload(sandbox.actor("fn handler(s, m) reply(s); return s end", 5, { name = "five" }))
print("made", count, ask keeper.More())
fn restored()
  count = count + 1
  print("restored", count, ask keeper.More())
  print(payload(try(fn() return ask mod.Get() end)).message)
end
"#;

#[test]
fn a_state_goes_into_a_file_and_on_from_there() {
    let folder = Folder::new(&[("c.scua", COUNTER)]);
    let made = folder.scua(&["--allow-sandbox", "--save", "c.state", "c.scua"]);
    assert_eq!(made, (0, "made 1 11\n".into(), String::new()));
    let state = folder.0.path().join("c.state");
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o600);
    let lost = "sandbox `five` was not saved; load its source again";
    for count in 2..4 {
        let restored = folder.scua(&["--restore", "c.state", "--save", "c.state", "c.scua"]);
        assert_eq!(restored, (0, format!("restored {count} {}\n{lost}\n", count + 10), String::new()));
    }
    assert_eq!(folder.names(), ["c.scua", "c.state", "scua"], "nothing is left behind");
}

#[test]
fn what_can_not_be_saved_or_restored_is_said() {
    let folder = Folder::new(&[
        ("c.scua", COUNTER),
        ("d.scua", "print(1)"),
        ("e.scua", "print(1)\nexit(0)"),
        ("f.scua", "print(1)\nfail(\"broken\")"),
        ("no.state", "SCUAstate, or so"),
    ]);
    assert_eq!(folder.scua(&["--allow-sandbox", "--save", "c.state", "c.scua"]).0, 0);
    let old = fs::read(folder.0.path().join("c.state")).unwrap();
    for (words, code, says) in [
        (["--restore", "c.state", "d.scua"], 1, "saved by another source text"),
        (["--restore", "no.state", "d.scua"], 1, "the state has layout 44"),
        (["--restore", "missing", "d.scua"], 2, "read the state missing"),
        (["--restore", "/dev/zero", "d.scua"], 2, "read the state /dev/zero"),
        (["--save", "no/such/folder", "d.scua"], 2, "write the state to no/such/folder"),
        (["--save", "c.state", "e.scua"], 2, "write the state to c.state"),
        (["--save", "c.state", "f.scua"], 1, "f.scua:2: fault: broken"),
    ] {
        let (found, _out, err) = folder.scua(&words);
        assert!(found == code && err.contains(says), "{words:?}: {found}, {err}");
    }
    // A program whose top level failed has come to rest all the same; one that left has not.
    assert_ne!(fs::read(folder.0.path().join("c.state")).unwrap(), old);
    assert!(folder.names().iter().all(|name| !name.ends_with(".new")), "{:?}", folder.names());
}

#[test]
fn virtual_time_jumps_over_waits() {
    let source = "import clock\nprint(clock.now())\nclock.sleep(3600000)\nprint(clock.now(), clock.ticks())";
    let folder = Folder::new(&[("t.scua", source)]);
    let ended = folder.scua(&["--allow-clock", "--virtual-time", "t.scua"]);
    assert_eq!(ended, (0, "0\n3600000 3600000\n".into(), String::new()));
}

/// Section 6: what the command line says wrong is told under the name that was called.
#[test]
fn what_is_wrong_with_the_call_is_told_as_scua() {
    let folder = Folder::new(&[("a.scua", "print(1)")]);
    for (words, told) in [
        (&["--no-such-flag", "a.scua"][..], "scua: unknown flag '--no-such-flag'"),
        (&["missing.scua"], "scua: failed to read the program missing.scua"),
        (&["--memory", "x", "a.scua"], "scua: failed to read --memory:"),
        (&["--memory"], "scua: --memory requires a value"),
        (&["--fuel", "x", "a.scua"], "scua: failed to read --fuel:"),
        (&["--allow-net=", "a.scua"], "scua: "),
        (&["--cap-set", "nonsense", "a.scua"], "scua: "),
        (&[], "scua: "),
        (&["check"], "scua: "),
    ] {
        let (code, out, err) = folder.scua(words);
        assert_eq!((code, out.as_str()), (2, ""), "{words:?}: {err}");
        assert!(err.starts_with(told), "{words:?}: {err}");
        assert!(!err.contains("--memory-heap"), "{words:?}: {err}");
    }
    assert_eq!(folder.scua(&["--memory", "1048576", "a.scua"]), (0, "1\n".into(), String::new()));
    fs::write(folder.0.path().join("b.scua"), "import string\nprint(string.repeat(\"x\", 2000000))").unwrap();
    let (code, _, err) = folder.scua(&["--memory", "1048576", "b.scua"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.starts_with("b.scua:2: fault: ran out of memory (limit 1048576 bytes)"), "{err}");
    assert!(!err.contains("thirdwall") && !err.contains("--memory-heap"), "{err}");
}

#[test]
fn standard_input_is_of_the_language_that_was_called() {
    let folder = Folder::new(&[]);
    let run = |name: &str, words: &[&str], program: &str| {
        let path = folder.0.path().join(name);
        if !path.exists() {
            symlink(env!("CARGO_BIN_EXE_thirdwall"), &path).unwrap();
        }
        let mut child = Command::new(path)
            .args(words)
            .current_dir(folder.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), program.as_bytes()).unwrap();
        let done = child.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    };
    assert_eq!(run("scua", &["-"], "print(7 // 2, nil)"), (Some(0), "3 nil\n".into(), String::new()));
    let (code, _, err) = run("scua", &["-"], "print(1 // 0)");
    assert_eq!(code, Some(1));
    assert!(err.starts_with("<stdin>:1: fault: division by zero"), "{err}");
    assert_eq!(run("scua", &["check", "-"], "print(1)"), (Some(0), String::new(), String::new()));
    let (code, out, _) = run("thirdwall", &["run", "-"], "print(\"a\" + text(1))");
    assert_eq!((code, out.as_str()), (Some(0), "a1\n"));
}

/// Section 8: a use is allowed where a flag and the ceiling allow it, in the jail too.
#[test]
fn a_flag_wider_than_the_ceiling_reaches_what_the_ceiling_does() {
    let read = |name: &str| format!("import fs\nprint(fs.read(\"{name}\"))");
    let folder = Folder::new(&[
        ("in.scua", &read("txt.txt")),
        ("out.scua", &read("other.txt")),
        ("txt.txt", "seen"),
        ("other.txt", "unseen"),
    ]);
    for flag in ["--allow-fs-read", "--allow-fs", "--allow-fs-read=*.txt", "--allow-fs-read=txt.txt"] {
        let under = |file| folder.scua(&[flag, "--cap-set", "stdout,file.read=txt.txt", file]);
        assert_eq!(under("in.scua"), (0, "Ok(\"seen\")\n".into(), String::new()), "{flag}");
        let (code, out, err) = under("out.scua");
        assert_eq!((code, out.as_str()), (1, ""), "{flag}: {err}");
        assert!(err.contains("capability not granted: file_read(\"other.txt\")"), "{flag}: {err}");
    }
}
