//! A secret's plain text, end to end: on no surface of a run that doesn't reveal it.

use crate::program::program;
use std::fs;

const VALUE: &str = "corr3ct-h0rse";

/// All ways out that a program has, with a secret on each.
const SPILL: &str = "require secret(\"KEY\")\nrequire sandbox_run\nrequire file.write(\"*\")\nrequire memory(\"p\")\n\
    let s be secret(\"KEY\")\n\
    print(s, [s], {\"k\": s}, text(s), `{s}`, fmt(\"{k}\", {\"k\": s}))\n\
    eprint(s)\nlog s\nshow s\nprint(json_encode({\"k\": s}), \"x\" + s, s + \"y\")\n\
    task spilled(f)\n    try\n        print(f())\n    recover e\n        print(e)\n        eprint(e)\n\
    spilled(() => raise(s))\nspilled(() => assert_eq(s, \"other\"))\nspilled(() => write_file(\"out.txt\", s))\n\
    spilled(() => write_file(\"out2.txt\", {\"k\": s}))\nspilled(() => write_file(s, \"x\"))\nspilled(() => read_file(s))\n\
    spilled(() => remember(\"context\", s))\nspilled(() => recall())\nspilled(() => bus_publish(\"t\", s))\n\
    spilled(() => run_program(\"print(1)\", {\"env\": {\"A\": s}}))\nspilled(() => run_program(s))\n\
    spilled(() => run_program(\"print(1)\", {\"filename\": s}))\nspilled(() => env(s))\nspilled(() => secret(s))\n\
    spilled(() => reveal(s))\nspilled(() => sha256(s))\nspilled(() => s.field)\nspilled(() => exit(s))\nraise(s)\n";

#[test]
fn a_secret_is_on_no_surface() {
    let given = program(SPILL)
        .env("KEY", VALUE)
        .with("--cap-set", "stdout,secret=KEY,sandbox_run,file.write=*,memory=p")
        .with("--audit", "audit.jsonl");
    let output = given.command().output().unwrap();
    let report = fs::read_to_string(given.at("report.json")).unwrap();
    let audit = fs::read_to_string(given.at("audit.jsonl")).unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("secret(KEY)"), "it ran: {out} {err}");
    let mut surfaces = vec![
        ("output", out.into_owned()),
        ("errors", err.into_owned()),
        ("report", report),
        ("audit", audit),
    ];
    for name in ["out.txt", "out2.txt"] {
        surfaces.extend(fs::read_to_string(given.at(name)).ok().map(|text| ("a file", text)));
    }
    for (name, text) in surfaces {
        assert!(!text.contains(VALUE) && !text.contains("h0rse"), "{name}: {text}");
    }
    for entry in fs::read_dir(given.at(".")).unwrap().flatten() {
        assert!(!entry.file_name().to_string_lossy().contains("h0rse"), "{entry:?}");
    }
}

#[test]
fn its_twin_reveals_it_and_the_entry_comes_before_the_text() {
    let given = program("require secret(\"KEY\")\nrequire reveal(\"KEY\")\nprint(reveal(secret(\"KEY\")))\n")
        .env("KEY", VALUE);
    let report = given.go();
    assert_eq!(report.output, [VALUE], "{:?}", report.errors);
    let entry = report.audit.iter().find(|entry| entry.capability == "reveal(\"KEY\")").unwrap();
    assert!(entry.granted && entry.source == "reveal()" && entry.line == Some(3));
    // Killed right behind it: the entry is there already.
    let report = program("require secret(\"KEY\")\nrequire reveal(\"KEY\")\nlet p be reveal(secret(\"KEY\"))\nwhile true\n    let x be p\n")
        .env("KEY", VALUE)
        .with("--wall", "4s")
        .go();
    assert_eq!(report.status, policies::report::Verdict::WallTime);
    assert!(
        report.audit.iter().any(|entry| entry.capability == "reveal(\"KEY\")" && entry.granted),
        "{:?}",
        report.audit
    );
}

#[test]
fn without_the_grant_it_never_comes_into_the_jail() {
    // Neither by the environment, nor by the file beside the program.
    let text = "require env(\"OTHER\")\nrequire secret(\"KEY\")\ntry\n    print(secret(\"KEY\"))\nrecover e\n    print(e)\nprint(env(\"OTHER\"))\n";
    let report = program(text)
        .file(".env", &format!("KEY={VALUE}\nOTHER=o\n"))
        .with("--cap-set", "stdout,env=OTHER")
        .go();
    assert_eq!(report.output.len(), 2, "{:?} {:?}", report.output, report.errors);
    assert!(report.output[0].contains("secret(\"KEY\") not permitted"), "{:?}", report.output);
    assert!(!serde_json::to_string(&report).unwrap().contains(VALUE));
}
