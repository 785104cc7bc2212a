//! What people type wrongly: each is told by name, with what to write instead, and nothing of theirs is lost.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A folder of somebody who types.
struct Person(TempDir);

impl Person {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["thirdwall", "scua"] {
            symlink(env!("CARGO_BIN_EXE_thirdwall"), folder.path().join(name)).unwrap();
        }
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self(folder)
    }

    /// Code, output, errors.
    fn types(&self, line: &str) -> (i32, String, String) {
        let mut words = line.split_whitespace();
        let done = Command::new(self.0.path().join(words.next().unwrap()))
            .args(words)
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
    }

    fn reads(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

const SYN: &str = "print(1)\n";
const SCUA: &str = "print(1)\nfn restored()\nend\n";

#[test]
fn no_output_takes_the_place_of_what_is_read() {
    let person =
        Person::new(&[("p.syn", SYN), ("p.scua", SCUA), ("in", "text"), ("doc.toml", "extends = \"sh\"\n")]);
    symlink("p.syn", person.0.path().join("link")).unwrap();
    for line in [
        "thirdwall run --report p.syn p.syn",
        "thirdwall run --audit link p.syn",
        "thirdwall conform --audit ./p.syn p.syn",
        "thirdwall test --audit p.syn p.syn",
        "thirdwall build p.syn -o p.syn",
        "thirdwall run --save p.scua p.scua",
        "thirdwall run --report new --audit new p.syn",
        "thirdwall exec --policy sh --stdin in --report in -- cat",
        "thirdwall exec --policy ./doc.toml --report doc.toml -- true",
        "thirdwall exec --policy sh --copy-in in:x --report in -- true",
        "thirdwall run --restore in --report in p.scua",
    ] {
        let (code, out, err) = person.types(line);
        assert_eq!((code, out.as_str()), (125, ""), "{line}: {err}");
        assert!(err.contains("would be written over") && err.contains("name another file"), "{line}: {err}");
    }
    assert_eq!((person.reads("p.syn").as_str(), person.reads("p.scua").as_str()), (SYN, SCUA));
    assert_eq!(
        (person.reads("in").as_str(), person.reads("doc.toml").as_str()),
        ("text", "extends = \"sh\"\n")
    );
    // Their twins.
    for line in [
        "thirdwall run --report r --audit a p.syn",
        "thirdwall run --report /dev/null --audit /dev/null p.syn",
        "thirdwall run --save state p.scua",
        "thirdwall run --restore state --save state p.scua",
        "thirdwall exec --policy sh --stdin in --report r -- cat",
    ] {
        let (code, _, err) = person.types(line);
        assert_eq!(code, 0, "{line}: {err}");
    }
}

#[test]
fn a_misspelt_flag_is_no_command() {
    let person = Person::new(&[]);
    for (line, meant) in [
        ("thirdwall exec --wal 3s -- echo hi", "did you mean '--wall'?"),
        ("thirdwall exec --cap-sett=none echo hi", "did you mean '--cap-set'?"),
        ("thirdwall exec --sandbox -- echo hi", "unknown flag '--sandbox'"),
        ("thirdwall explain exec --wal 3s -- echo hi", "did you mean '--wall'?"),
    ] {
        let (code, out, err) = person.types(line);
        assert_eq!((code, out.as_str()), (125, ""), "{line}: {err}");
        assert!(err.contains(meant), "{line}: {err}");
    }
    // Behind `--` it is one, and the command's own flags are its own.
    let (code, _, err) = person.types("thirdwall exec -- --wal 3s");
    assert_eq!(code, 127, "{err}");
    assert_eq!(person.types("thirdwall exec echo --wal -- x").1, "--wal -- x\n");
    assert!(person.types("thirdwall explain exec --json -- echo").1.starts_with('{'));
}

#[test]
fn a_file_that_cant_be_copied_out_masks_no_failure() {
    let person = Person::new(&[]);
    for (script, limits, code) in [("exit", "", 125), ("false", "", 1), ("sleep 9", "--wall 300ms", 124)] {
        let line = format!("thirdwall exec --policy sh {limits} --copy-out nope --report r -- {script}");
        let line = line.replace("-- exit", "-- true");
        let (ended, _, err) = person.types(&line);
        assert_eq!(ended, code, "{line}: {err}");
        assert!(err.contains("copy out nope"), "{err}");
        assert!(person.reads("r").contains("failed to copy out nope"));
    }
}

#[test]
fn dropped_output_is_told() {
    let person = Person::new(&[("lim.toml", "extends = \"sh\"\n[ceiling]\nallow = []\n")]);
    for line in [
        "thirdwall exec --policy sh --cap-set none -- echo hi",
        "thirdwall exec --policy ./lim.toml -- echo hi",
    ] {
        let (code, out, err) = person.types(line);
        assert_eq!((code, out.as_str()), (0, ""), "{err}");
        assert!(err.contains("output was dropped: the ceiling has no stdout"), "{err}");
    }
    assert_eq!(person.types("thirdwall exec --policy sh --cap-set none -- true").2, "");
    assert_eq!(person.types("thirdwall exec --policy sh -- echo hi").1, "hi\n");
}

#[test]
fn what_a_command_is_made_of_has_a_policy() {
    let person =
        Person::new(&[("doc.toml", "extends = \"sh\"\n"), ("far.toml", "extends = \"other.toml\"\n")]);
    let (code, _, err) = person.types("thirdwall exec -- sh -c false");
    assert_eq!(code, 1);
    assert!(err.contains("--policy sh has what it is made of"), "{err}");
    assert!(!person.types("thirdwall exec --policy sh -- sh -c false").2.contains("--policy"));
    let (code, _, err) = person.types("thirdwall exec --policy doc -- true");
    assert!(code == 125 && err.contains("--policy ./doc.toml"), "{err}");
    assert_eq!(person.types("thirdwall exec --policy ./doc.toml -- true").0, 0);
    let (code, _, err) = person.types("thirdwall exec --policy far.toml -- true");
    assert!(code == 125 && err.contains("names the file 'other.toml', which can't be read"), "{err}");
    let (_, _, err) = person.types("thirdwall exec --disk none -- true");
    assert!(err.contains("this limit can't be left out"), "{err}");
}

#[test]
fn folders_and_suffixes_that_are_none_are_named() {
    let person = Person::new(&[]);
    fs::create_dir(person.0.path().join("data")).unwrap();
    for (line, what) in [
        ("thirdwall exec --policy sh --workdir data:rwx -- true", "':rwx' is neither ':ro' nor ':rw'"),
        ("thirdwall exec --policy sh --copy-in x:../y -- true", "'../y' is no name for a file"),
        ("thirdwall exec --policy sh --copy-in data -- true", "a folder comes in by --workdir"),
        ("thirdwall exec --policy sh --stdin data -- cat", "directory"),
    ] {
        let (code, _, err) = person.types(line);
        assert!(code == 125 && err.contains(what), "{line}: {err}");
    }
    assert_eq!(person.types("thirdwall exec --policy sh --workdir data:rw -- true").0, 0);
}

#[test]
fn a_served_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let line = format!("thirdwall exec --policy sh --cap-set stdout,serve={port} -- true");
    let person = Person::new(&[]);
    let (code, _, err) = person.types(&line);
    assert!(code == 125 && err.contains(&format!("listen on 127.0.0.1:{port}")), "{err}");
    assert!(err.contains("end what listens there"), "{err}");
    drop(taken);
    let (code, _, err) = person.types(&line);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_flag_behind_a_scua_file_is_the_programs_and_said_to_be() {
    let person = Person::new(&[("p.scua", SCUA)]);
    let (code, out, err) = person.types("scua p.scua --cap-set none");
    assert_eq!((code, out.as_str()), (0, "1\n"));
    assert!(err.contains("'--cap-set' stands behind the file"), "{err}");
    assert_eq!(person.types("scua p.scua -- --cap-set none").2, "");
    assert_eq!(person.types("scua p.scua --other none").2, "");
    assert_ne!(person.types("scua --cap-set none p.scua").1, "1\n");
}

#[test]
fn help_shows_each_flag_under_its_own_head() {
    let person = Person::new(&[]);
    let (code, help, _) = person.types("thirdwall run --help");
    assert_eq!(code, 0);
    let under = |head: &str| -> String {
        let rest = help.split_once(&format!("{head}:\n")).unwrap().1;
        rest.split("\n\n").take_while(|part| !part.trim_start().ends_with(':')).collect::<Vec<_>>().join("\n")
    };
    let grants = under("Grants of SCUA programs");
    let grants = grants.split("\nLimits:").next().unwrap();
    assert!(grants.contains("--allow-fs") && !grants.contains("--report"), "{help}");
    assert!(help.contains("Exit codes:"), "{help}");
}
