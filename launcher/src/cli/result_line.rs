//! A run's result as one line of JSON: `run` and `check` with `--format json`, and `conform`.

use super::verdict;
use crate::error::Error;
use policies::report::{Report, Verdict};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// What `run` says.
pub(super) fn of_run(report: &Report, code: u8) -> Value {
    json!({
        "ok": report.ok,
        "output": report.output,
        "errors": errors(report),
        "audit": report.audit,
        "exit": code,
        "llm_tokens": report.llm_tokens,
        "steps": report.usage.fuel,
    })
}

/// What `check` says.
pub(super) fn of_check(report: &Report, code: u8) -> Value {
    json!({ "ok": report.ok, "errors": errors(report), "exit": code })
}

/// What `conform` says; `swarm` adds what the runtime told of its blackboard and agents, in its last line.
pub(super) fn of_conform(mut report: Report, swarm: bool) -> Value {
    let board = if swarm { board(&mut report) } else { Map::new() };
    let mut line = Map::new();
    line.insert("ok".to_owned(), json!(report.ok));
    line.insert("err".to_owned(), json!(errors(&report)));
    line.insert("out".to_owned(), Value::Array(report.output.into_iter().map(Value::String).collect()));
    line.extend(board);
    Value::Object(line)
}

/// Writes it. Who has closed the output doesn't want it: the run's code says how it went.
pub(super) fn write(line: &Value) -> Result<(), Error> {
    match writeln!(io::stdout(), "{line}") {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::File { act: "write to", path: "standard output".into(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The program's errors; where a limit ended it, it could tell none.
fn errors(report: &Report) -> Vec<String> {
    let mut errors = report.errors.clone();
    if errors.is_empty()
        && let Some(what) = verdict(report)
    {
        errors.push(what.into_owned());
    }
    errors
}

fn board(report: &mut Report) -> Map<String, Value> {
    if !matches!(report.status, Verdict::Ok | Verdict::Nonzero) {
        // It ended before its time, and the last line is the program's own.
        return Map::new();
    }
    match report.output.pop().map(|line| serde_json::from_str(&line)) {
        Some(Ok(Value::Object(board))) => board,
        _ => Map::new(),
    }
}
