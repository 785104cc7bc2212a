//! `--explain`: an error with everything around it, for people or as an object.

use crate::partition::host::Scene;
use crate::source::Source;
use policies::nearest::nearest;
use policies::wire::ErrorFrame;
use serde_json::json;

/// Lines shown before and after the one that failed.
const AROUND: u32 = 2;

/// The lines around an error's place: number and text.
fn around(error: &ErrorFrame, source: Option<&Source>) -> Vec<(u32, String)> {
    let (Some(line), Some(source)) = (error.line, source) else { return Vec::new() };
    let last = source.text.trim_end_matches('\n').split('\n').count() as u32;
    (line.saturating_sub(AROUND).max(1)..=(line + AROUND).min(last))
        .map(|number| (number, source.line(number).to_owned()))
        .collect()
}

/// For people, to stand below the error's own line.
#[must_use]
pub fn text(error: &ErrorFrame, source: Option<&Source>, scene: &Scene) -> String {
    let mut out = Vec::new();
    let lines = around(error, source);
    let width = lines.last().map_or(1, |(number, _)| number.to_string().len());
    for (number, text) in lines {
        let failing = Some(number) == error.line;
        out.push(format!(" {} {number:>width$} | {text}", if failing { "→" } else { " " }));
        if failing && let Some(column) = error.column {
            let before: String = text
                .chars()
                .take((column as usize).saturating_sub(1))
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            out.push(format!("   {:>width$} | {before}^", ""));
        }
    }
    if !error.stack.is_empty() {
        out.push("calls, innermost first:".to_owned());
        out.extend(error.stack.iter().map(|call| format!("    {call}")));
    }
    if !scene.variables.is_empty() {
        out.push("variables:".to_owned());
        out.extend(scene.variables.iter().map(|(name, value)| format!("    {name} = {value}")));
    }
    if let Some(intent) = &scene.intent {
        out.push(format!("intent: {intent}"));
    }
    out.push(format!("kind: {}", kind(error)));
    out.push(format!("recoverable: {}", if recoverable(error) { "yes, with try and recover" } else { "no" }));
    for suggestion in suggestions(error, scene) {
        out.push(format!("try: {suggestion}"));
    }
    out.join("\n")
}

/// As one line of JSON.
#[must_use]
pub fn object(error: &ErrorFrame, source: Option<&Source>, scene: &Scene) -> String {
    let lines: Vec<_> = around(error, source)
        .into_iter()
        .map(|(number, text)| json!({"line": number, "text": text, "failing": Some(number) == error.line}))
        .collect();
    let variables: serde_json::Map<String, serde_json::Value> =
        scene.variables.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "message": error.message,
        "file": error.file,
        "line": error.line,
        "column": error.column,
        "category": kind(error),
        "source": lines,
        "stack": error.stack,
        "variables": variables,
        "intent": scene.intent,
        "recoverable": recoverable(error),
        "suggestions": suggestions(error, scene),
    })
    .to_string()
}

/// One of `data io logic capability type`.
fn kind(error: &ErrorFrame) -> &'static str {
    let message = error.message.as_str();
    let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    if error.denied || has(&["Capability not granted", "not permitted: missing capability"]) {
        "capability"
    } else if has(&[
        "expects",
        "expected a",
        "Cannot add",
        "Unsupported operation",
        "Cannot iterate over",
        "must be an integer",
        "must be a",
        "cannot order",
        "cannot mix",
        "Cannot convert",
        "is not a task",
        "got two",
    ]) {
        "type"
    } else if has(&[
        "File not found",
        "timed out",
        "not available in the pure profile",
        "read_file",
        "write_file",
    ]) {
        "io"
    } else if has(&[
        "has no key",
        "out of bounds",
        "out of range",
        "at line",
        "csv_parse",
        "json_decode",
        "toml_parse",
    ]) {
        "data"
    } else {
        "logic"
    }
}

/// Whether `try` could have caught it.
fn recoverable(error: &ErrorFrame) -> bool {
    error.category == "Runtime error"
        && !error.message.starts_with("cancelled: ")
        && !matches!(error.message.as_str(), "fuel limit reached" | "memory limit reached")
}

/// What may help.
fn suggestions(error: &ErrorFrame, scene: &Scene) -> Vec<String> {
    let message = error.message.as_str();
    let quoted = |after: &str| {
        let rest = message.split_once(after)?.1;
        Some(rest.split_once('\'')?.0.to_owned())
    };
    let mut found = Vec::new();
    if let Some(name) = quoted("Undefined variable: '") {
        let names = scene.variables.iter().map(|(name, _)| name.as_str());
        let words = crate::synsema::words();
        if let Some(near) = nearest(&name, names.chain(words)) {
            found.push(format!("did you mean `{near}`?"));
        }
        found.push(format!("bind it before it is read: let {name} be …"));
    } else if let Some(key) = quoted("Map has no key '") {
        found.push(format!("give a default where it may be absent: get(m, \"{key}\", …)"));
        found.push("look at what is there: keys(m)".to_owned());
    } else if message.contains("Division by zero") || message.contains("Modulo by zero") {
        found.push("look at the divisor first: when d != 0".to_owned());
    } else if message.contains("out of bounds") {
        found.push(
            "positions go from 0 to length(xs) - 1; get(xs, i, default) gives a default beyond".to_owned(),
        );
    } else if message.contains("Cannot add") {
        found.push("convert on purpose: text(x), or interpolate it in a template".to_owned());
    } else if message.contains("maximum recursion depth") {
        found.push("let the task end for small inputs, or use a loop".to_owned());
    } else if let Some((_, line)) = message.split_once("add `") {
        let line = line.split('`').next().unwrap_or("");
        found.push(format!("write it at the top of the program: {line}"));
    } else if message.contains("above the host ceiling") {
        found.push(
            "ask whoever runs the program for a wider --cap-set; the program can't change it".to_owned(),
        );
    } else if let Some((_, form)) = message.split_once("in Synsema: ") {
        found.push(format!("write {form}"));
    }
    found
}
