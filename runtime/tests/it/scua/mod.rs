//! The pages of SCUA are tests: every fence of `tests/spec/scua/*.md` is run, and every program of `examples/scua`.
//!
//! `expressions`: `expression  -- => what print gives` or `expression  -- ! the fault's message`, all pure modules
//! imported. `errors`: `source, newlines as ¶  -- ! LINE:COL message`. `fuel`: `source  -- input  -- fuel`: that budget
//! passes and one less doesn't. `programs` as the examples: `--> ` is a line of output, `--! ` one of errors.

mod hostile;
mod innermost;
mod random;
mod rights;
mod saving;

use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::host::Memory;
use runtime::partition::sandbox::Limits;
use runtime::scua::program::{self, Grants};
use runtime::scua::{self, Mod};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub(crate) struct Ran {
    pub(crate) output: Vec<String>,
    pub(crate) errors: Vec<String>,
    pub(crate) exit: i32,
    pub(crate) fuel: u64,
}

pub(crate) fn run_with(name: &str, source: &[u8], grants: Grants) -> Ran {
    let host = Rc::new(RefCell::new(Memory::default()));
    match scua::load(name, source, &[]) {
        Ok(program) => {
            let outcome = program::run(Rc::new(program), grants, Vec::new(), Box::new(host.clone()));
            let host = host.borrow();
            let mut errors = host.errors.clone();
            errors.extend(outcome.errors.iter().map(|e| e.text.clone()));
            Ran { output: host.output.clone(), errors, exit: outcome.end.exit, fuel: outcome.end.fuel }
        }
        Err(error) => {
            let text = String::from_utf8_lossy(source).into_owned();
            let errors = vec![program::refused(&error, name, &text).text];
            Ran { output: Vec::new(), errors, exit: 1, fuel: 0 }
        }
    }
}

pub(crate) fn run(name: &str, source: &str) -> Ran {
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    run_with(name, source.as_bytes(), Grants { granted, ..Grants::nothing() })
}

fn marked(source: &str, mark: &str) -> Vec<String> {
    source.lines().filter_map(|line| line.split_once(mark)).map(|(_, text)| text.to_owned()).collect()
}

/// A program with its expectations in comments.
fn annotated(name: &str, source: &str) -> Result<(), String> {
    let (output, errors) = (marked(source, "--> "), marked(source, "--! "));
    let ran = run(name, source);
    let first: Vec<String> = ran.errors.iter().map(|e| e.lines().next().unwrap_or("").to_owned()).collect();
    let exit = i32::from(!errors.is_empty());
    if ran.output == output && first == errors && ran.exit == exit {
        return Ok(());
    }
    Err(format!(
        "output {:#?} wanted {output:#?}, errors {first:#?} wanted {errors:#?}, exit {}",
        ran.output, ran.exit
    ))
}

const PURE: &str = "import string; import array; import record; import math; import json; ";

fn expression(line: &str) -> Result<(), String> {
    let (code, wanted, fails) = match line.split_once("  -- => ") {
        Some((code, wanted)) => (code, wanted, false),
        None => match line.split_once("  -- ! ") {
            Some((code, wanted)) => (code, wanted, true),
            None => return Err("no expectation".into()),
        },
    };
    let ran = run("t.scua", &format!("{PURE}print({})", code.trim()));
    let output = ran.output.join("\n");
    let error = ran.errors.first().and_then(|e| e.lines().next()).unwrap_or("").to_owned();
    let message = error.strip_prefix("t.scua:1: fault: ").unwrap_or(&error);
    let well = if fails { message == wanted } else { output == wanted && error.is_empty() };
    if well { Ok(()) } else { Err(format!("{code}: output {output:?}, error {error:?}, wanted {wanted:?}")) }
}

fn refused(line: &str) -> Result<(), String> {
    let (code, wanted) = line.split_once("  -- ! ").ok_or("no expectation")?;
    let ran = run("t.scua", &code.replace('¶', "\n"));
    let error = ran.errors.first().and_then(|e| e.lines().next()).unwrap_or("").to_owned();
    let (place, message) = wanted.split_once(' ').ok_or("no place")?;
    let wanted = format!("t.scua:{place}: error: {message}");
    if error == wanted { Ok(()) } else { Err(format!("{code}: {error:?}, wanted {wanted:?}")) }
}

fn fuel(line: &str) -> Result<(), String> {
    let parts: Vec<&str> = line.split("  -- ").collect();
    let [code, input, fuel] = parts[..] else { return Err("three parts are needed".into()) };
    let source = code.replace('¶', "\n");
    let input = match input.trim() {
        "nil" => Data::Nil,
        "Pair" => {
            let pair = vec![Data::Int(3), Data::Int(4)];
            Data::Tagged("Pair".into(), Some(Box::new(Data::Array(pair))))
        }
        n => Data::Int(n.parse().map_err(|_| "an input is a number")?),
    };
    let fuel: u64 = fuel.trim().parse().map_err(|_| "fuel is a number")?;
    let with = |fuel| Mod::new(Limits { fuel, ..Limits::frame("t") }).run(&source, &input);
    with(fuel).map_err(|e| format!("{code}: {fuel} is not enough: {e}"))?;
    match with(fuel - 1) {
        Err(e) if e.kind == "out_of_fuel" => Ok(()),
        other => Err(format!("{code}: {} is enough: {other:?}", fuel - 1)),
    }
}

fn page(path: &Path, failures: &mut Vec<String>) -> usize {
    let text = std::fs::read_to_string(path).expect("a page");
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut cases = 0;
    let mut kind: Option<String> = None;
    let mut program = String::new();
    for (i, line) in text.lines().enumerate() {
        match (&kind, line.strip_prefix("```")) {
            (None, Some(info)) => kind = Some(info.to_owned()),
            (Some(of), Some(_)) => {
                if of == "scua" {
                    cases += 1;
                    if let Err(why) = annotated("t.scua", &program) {
                        failures.push(format!("{name}:{i}: {why}"));
                    }
                }
                program.clear();
                kind = None;
            }
            (Some(of), None) if of == "scua" => {
                program.push_str(line);
                program.push('\n');
            }
            (Some(_), None) if line.trim().is_empty() => {}
            (Some(of), None) => {
                let result = match of.as_str() {
                    "expressions" => expression(line),
                    "errors" => refused(line),
                    "fuel" => fuel(line),
                    _ => continue,
                };
                cases += 1;
                if let Err(why) = result {
                    failures.push(format!("{name}:{}: {why}", i + 1));
                }
            }
            (None, None) => {}
        }
    }
    cases
}

fn folder(path: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").filter_map(Result::ok).map(|e| e.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}

#[test]
fn the_pages_of_scua_are_true() {
    let mut failures = Vec::new();
    let cases: usize = folder("tests/spec/scua", "md").iter().map(|p| page(p, &mut failures)).sum();
    assert!(failures.is_empty(), "{} of {cases} cases failed:\n{}", failures.len(), failures.join("\n"));
    assert!(cases >= 250, "only {cases} cases");
}

#[test]
fn the_guide_is_true() {
    let mut failures = Vec::new();
    let cases = page(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/scua.md")), &mut failures);
    assert!(failures.is_empty(), "{} of {cases} examples failed:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(cases, 4);
}

#[test]
fn the_examples_do_what_they_say() {
    for path in folder("../examples/scua", "scua") {
        let source = std::fs::read_to_string(&path).expect("an example");
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if let Err(why) = annotated(&name, &source) {
            panic!("{name}: {why}");
        }
    }
}

#[test]
fn hostile_sources_end_in_an_error() {
    let deep =
        |open: &str, close: &str| format!("let x = {}1{}", open.repeat(100_000), close.repeat(100_000));
    for source in [
        deep("(", ")"),
        deep("[", "]"),
        deep("-", ""),
        deep("not ", ""),
        deep("A(", ")"),
        "do ".repeat(100_000),
        "fn f() ".repeat(100_000),
        "match 1\n".repeat(100_000),
        "`{".repeat(100_000),
        format!("let x = 1{}", " + 1".repeat(100_000)),
        format!("let x = f{}", ".a".repeat(100_000)),
        format!("let x = [{}]", "1,".repeat(100_000)),
        "a".repeat(1_000_000),
        "\"".repeat(1000),
    ] {
        // Whatever it is told, it is told.
        let _ran = run("t.scua", &source);
    }
    let ran = run_with("t.scua", b"let x = \xff", Grants::nothing());
    assert_eq!(
        ran.errors[0].lines().next(),
        Some("t.scua:1:9: error: the source is not valid UTF-8 (byte 8)")
    );
}

#[test]
fn loops_and_bombs_end_in_their_kind() {
    let limits = Limits { fuel: 1_000_000, ..Limits::frame("bomb") };
    for (source, kind) in [
        ("fn main() while true do end end", "out_of_fuel"),
        ("fn main() return main() end", "faulted"),
        ("fn main() match 1\n x if main() -> 1\n end end", "faulted"),
        ("import string\nfn main() return string.repeat(\"x\", 1000000000) end", "out_of_fuel"),
        ("fn main() let a = [1]; while true do a = [a, a, a, a, a, a, a, a] end end", "out_of_memory"),
        ("fn main() let r = {}; r.r = r; return r == r end", "faulted"),
        ("fn main() let a = []; for i = 1, 60 do a = [a] end; return a == a end", "ok"),
        ("fn main() while true do let r = {}; r.r = r end end", "out_of_fuel"),
        (
            "import array\nfn main() return array.sort(array.range(0, 10000), fn(a, b) while true do end end) end",
            "out_of_fuel",
        ),
        (
            "import json\nfn main() let a = 1; for i = 1, 40 do a = [a, a] end; return json.encode(a) end",
            "out_of_memory",
        ),
        ("fn main() let a = 1; for i = 1, 40 do a = [a, a] end; return a end", "out_of_fuel"),
    ] {
        let result = Mod::new(limits.clone()).run(source, &Data::Nil);
        let got = result.as_ref().map_or_else(|e| e.kind, |_| "ok");
        assert_eq!(got, kind, "{source}: {result:?}");
    }
}

#[test]
fn the_memory_limit_is_exact() {
    let source =
        "import array\nfn main(n)\nlet a = []\nfor i = 1, n do\narray.push(a, i)\nend\nreturn len(a)\nend";
    let with = |memory| Mod::new(Limits { memory, ..Limits::frame("t") }).run(source, &Data::Int(1000));
    assert_eq!(with(16_528), Ok(Data::Int(1000)));
    let failure = with(16_527).expect_err("one byte too few");
    assert_eq!((failure.kind, failure.line), ("out_of_memory", 5));
}

#[test]
fn a_run_is_the_same_twice() {
    for path in folder("../examples/scua", "scua") {
        let source = std::fs::read_to_string(&path).expect("an example");
        let (a, b) = (run("x.scua", &source), run("x.scua", &source));
        assert_eq!((a.output, a.errors, a.fuel), (b.output, b.errors, b.fuel), "{}", path.display());
    }
}

#[test]
fn without_a_grant_there_is_no_sandbox() {
    let source = b"import sandbox\nprint(sandbox.run(\"fn main() return 1 end\"))";
    let ran = run_with("t.scua", source, Grants::nothing());
    assert_eq!(
        ran.errors[0].lines().next(),
        Some("t.scua:2: fault: capability not granted: sandbox_run — run with --allow-sandbox")
    );
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    let ceiling = Some(Ceiling::parse("stdout").expect("a ceiling"));
    let ran = run_with("t.scua", source, Grants { granted: granted.clone(), ceiling, ..Grants::nothing() });
    assert_eq!(
        ran.errors[0].lines().next(),
        Some(
            "t.scua:2: fault: capability not granted: sandbox_run — above the host ceiling; only the host can widen it (--cap-set)"
        )
    );
    let ran = run_with("t.scua", source, Grants { granted, ..Grants::nothing() });
    assert_eq!(ran.output, ["Ok(1)"]);
}

#[test]
fn what_crosses_is_equal_and_shares_nothing() {
    let echo = "fn handler(state, msg)\n match msg\n  Set([v]) -> do reply(v); v[0] = 9; return v end\n  Get([]) -> do reply(state); return state end\n end\nend";
    let mut of = Mod::new(Limits::frame("echo"));
    of.load(echo, &Data::Nil).expect("it loads");
    let sent = Data::Array(vec![
        Data::Int(1),
        Data::from("text"),
        Data::Record(vec![("k".into(), Data::Float(0.5))]),
    ]);
    assert_eq!(of.ask("Set", std::slice::from_ref(&sent)).expect("a reply"), Some(sent.clone()));
    let kept = of.ask("Get", &[]).expect("a reply").expect("a value");
    assert_ne!(kept, sent, "inside it was changed, and the reply wasn't");
}

#[test]
fn a_host_function_takes_and_gives_data_only() {
    let of = Mod::new(Limits::frame("synth")).function("noise", 2, (20, 0), |args| match args {
        [Data::Int(a), Data::Int(b)] => Ok(Data::Int(a * b)),
        _ => Err("noise takes two ints".into()),
    });
    assert_eq!(of.run("fn main(n) return noise(n, 2) end", &Data::Int(21)), Ok(Data::Int(42)));
    let refused = of.run("fn main(n)\n return noise(n, main)\nend", &Data::Int(21)).expect_err("a function");
    assert_eq!(
        (refused.line, refused.message.as_str()),
        (2, "only data crosses into or out of a sandbox, and argument 2 of `noise` is a function")
    );
}

/// A small generator of its own: the same programs on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides.max(1)
    }
}

#[test]
fn a_thousand_damaged_programs_end_the_same_way_twice() {
    let mut words: Vec<String> = Vec::new();
    let mut sources: Vec<String> = Vec::new();
    for path in folder("../examples/scua", "scua") {
        let source = std::fs::read_to_string(&path).expect("an example");
        words.extend(source.split_inclusive([' ', '\n', '(', ')', '.']).map(str::to_owned));
        sources.push(source);
    }
    let mut dice = Dice(7);
    for _ in 0..1000 {
        let source = &sources[dice.roll(sources.len())];
        let mut parts: Vec<String> =
            source.split_inclusive([' ', '\n', '(', ')', '.']).map(str::to_owned).collect();
        for _ in 0..=dice.roll(3) {
            let at = dice.roll(parts.len());
            match dice.roll(3) {
                0 => drop(parts.remove(at)),
                1 => parts[at] = words[dice.roll(words.len())].clone(),
                _ => parts.insert(at, words[dice.roll(words.len())].clone()),
            }
        }
        let program = parts.concat();
        let once = || {
            let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
            let grants = Grants { granted, fuel: Some(300_000), memory: Some(8 << 20), ..Grants::nothing() };
            let ran = run_with("t.scua", program.as_bytes(), grants);
            (ran.output, ran.errors, ran.exit, ran.fuel)
        };
        assert_eq!(once(), once(), "{program}");
    }
}
