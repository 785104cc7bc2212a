//! The language's pages are tests: every fenced program of `tests/spec/synsema/*.md` and of `docs/synsema.md` is run.
//!
//! A `synsema` fence is followed by an `output` fence, an `error` fence, or both; its info string may have
//! `ceiling=LIST`, `pure`, `test` and `module=NAME` (a module for the next program). An `expressions` fence has one
//! case a line: `expression  -- => what print gives` or `expression  -- ! the error's message`.

use crate::harness::Given;
use std::path::Path;

struct Fence {
    info: String,
    body: String,
    line: usize,
}

fn fences(text: &str) -> Vec<Fence> {
    let mut all = Vec::new();
    let mut open: Option<Fence> = None;
    for (i, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some("")) => all.extend(open.take()),
            (Some(fence), _) => {
                fence.body.push_str(line);
                fence.body.push('\n');
            }
            (None, Some(info)) => {
                open = Some(Fence { info: info.to_owned(), body: String::new(), line: i + 1 });
            }
            (None, None) => {}
        }
    }
    all
}

fn page(path: &Path, failures: &mut Vec<String>) -> usize {
    let text = std::fs::read_to_string(path).expect("a page");
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut cases = 0;
    let all = fences(&text);
    let mut modules: Vec<(String, String)> = Vec::new();
    let mut i = 0;
    while i < all.len() {
        let fence = &all[i];
        i += 1;
        let mut words = fence.info.split_whitespace();
        match words.next() {
            Some("expressions") => {
                for (n, line) in fence.body.lines().enumerate() {
                    if line.trim().is_empty() {
                        continue;
                    }
                    cases += 1;
                    if let Err(why) = expression(line) {
                        failures.push(format!("{name}:{}: {why}", fence.line + n + 1));
                    }
                }
            }
            Some("synsema") => {
                let mut given = Given::program(&fence.body);
                let mut test = false;
                let mut module = None;
                for word in words {
                    match word.split_once('=') {
                        Some(("ceiling", list)) => given = given.ceiling(list),
                        Some(("module", file)) => module = Some(file.to_owned()),
                        None if word == "pure" => given = given.pure(),
                        None if word == "test" => test = true,
                        _ => failures.push(format!("{name}:{}: unknown word {word}", fence.line)),
                    }
                }
                if let Some(file) = module {
                    modules.push((file, fence.body.clone()));
                    continue;
                }
                for (file, text) in modules.drain(..) {
                    given = given.module(&file, &text);
                }
                let (mut output, mut error) = (None, None);
                while let Some(next) = all.get(i) {
                    match next.info.as_str() {
                        "output" => output = Some(next.body.clone()),
                        "error" => error = Some(next.body.clone()),
                        _ => break,
                    }
                    i += 1;
                }
                cases += 1;
                let lines = |all: &[String]| all.iter().map(|l| format!("{l}\n")).collect::<String>();
                let (out, err) = if test {
                    (lines(&given.test()), String::new())
                } else {
                    let ran = given.run();
                    (lines(&ran.output), lines(&ran.errors))
                };
                if out != output.clone().unwrap_or_default() || err != error.clone().unwrap_or_default() {
                    failures.push(format!(
                        "{name}:{}: output\n{out}wanted\n{}errors\n{err}wanted\n{}",
                        fence.line,
                        output.unwrap_or_default(),
                        error.unwrap_or_default()
                    ));
                }
            }
            _ => {}
        }
    }
    cases
}

fn expression(line: &str) -> Result<(), String> {
    let (code, wanted, fails) = match line.split_once("  -- => ") {
        Some((code, wanted)) => (code, wanted, false),
        None => match line.split_once("  -- ! ") {
            Some((code, wanted)) => (code, wanted, true),
            None => return Err("no expectation".to_owned()),
        },
    };
    let ran = Given::program(&format!("print({})", code.trim())).run();
    let output = ran.output.join("\n");
    let error = ran.errors.first().map_or("", String::as_str);
    // The message stands after file, line and column.
    let message = error.splitn(5, ':').nth(4).map_or(error, str::trim);
    let well = if fails { message == wanted } else { output == wanted && error.is_empty() };
    if well { Ok(()) } else { Err(format!("{code}: output {output:?}, error {error:?}, wanted {wanted:?}")) }
}

#[test]
fn the_pages_of_synsema_are_true() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/spec/synsema");
    let mut pages: Vec<_> = std::fs::read_dir(folder).expect("the pages").filter_map(Result::ok).collect();
    pages.sort_by_key(std::fs::DirEntry::path);
    let mut failures = Vec::new();
    let tour = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/synsema.md");
    assert!(page(&tour, &mut failures) >= 10, "the tour has no programs");
    let cases: usize = pages.iter().map(|p| page(&p.path(), &mut failures)).sum();
    assert!(failures.is_empty(), "{} of {cases} cases failed:\n{}", failures.len(), failures.join("\n"));
    assert!(cases >= 500, "only {cases} cases");
}
