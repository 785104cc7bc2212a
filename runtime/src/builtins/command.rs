//! `run`: a foreign command in a jail of its own, within what this program could use here.
//!
//! There is no shell: the words go to the command as they are. What it does is data; only that it couldn't be started, or
//! took too long, is an error.

use super::process::{environment, fits};
use super::{Args, Builtin, Ctx};
use crate::broker::Reply;
use crate::vm::other::Other;
use crate::vm::render::{display, type_name};
use crate::vm::trap::{Fault, denied, raised};
use crate::vm::value::{Entries, Map, Value};
use policies::broker::{By, Command, Exited, MOST_PIECE, Request};
use policies::capability::Capability;

pub(super) const TABLE: &[Builtin] = &[Builtin::new("run", &["cmd", "args", "timeout", "options"], 1, run)
    .named(4)
    .native("this run has no child processes")];

const KEYS: [&str; 4] = ["cwd", "env", "stdin", "max_output"];
/// Seconds, where nothing is said.
const TIMEOUT: f64 = 120.0;
/// Bytes of each stream, where nothing is said.
const OUTPUT: i64 = 1 << 20;

fn run(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let first = args.text(0)?.to_owned();
    let argv = words(args)?;
    let seconds = if args.optional(2).is_some() { args.float(2)? } else { TIMEOUT };
    if !(seconds > 0.0 && seconds.is_finite()) {
        return Err(raised("run: timeout must be a number of seconds above 0"));
    }
    let none = Map::new(Entries::default());
    let options = if args.optional(3).is_some() { args.map(3)? } else { &none };
    if let Some((key, _)) = options.entries().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        let known = KEYS.join(", ");
        return Err(raised(format!("run: unknown option '{}', one of {known}", key.as_str())));
    }
    let given = |key: &str| options.get(key).filter(|v| !v.is_nothing());
    let cwd = text_option("run", options, "cwd")?;
    let input = match given("stdin") {
        None => Vec::new(),
        Some(v) => match (v.as_text(), v.as_bytes()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(bytes)) => bytes.to_vec(),
            (None, None) => {
                return Err(raised(format!("run: stdin must be text or bytes, got {}", type_name(v))));
            }
        },
    };
    let most_output = match given("max_output") {
        None => OUTPUT as u64,
        Some(Value::Int(n)) if *n >= 0 => n.unsigned_abs(),
        Some(v) => {
            return Err(raised(format!("run: max_output must be a number of bytes, got {}", display(v))));
        }
    };
    let env = environment("run", given("env"))?;
    let request = Request::RunCommand(Box::new(Command {
        argv,
        ceiling: ctx.core.gate.lendable(),
        env,
        timeout_ms: (seconds * 1000.0).ceil().min(1e12) as u64,
        cwd,
        most_output,
    }));
    fits("run", &request)?;
    ctx.ask(Capability::Exec, Some(&first))?;
    let exited = start(ctx, &input, &request)?;
    if exited.timed_out {
        return Err(raised(format!("run: \"{first}\" timed out after {}s", shown(seconds))));
    }
    if let Some(why) = exited.ended {
        return Err(raised(format!("run: \"{first}\": {why}")));
    }
    ctx.charge((exited.stdout.len() + exited.stderr.len()) as u64 / 32)?;
    Ok(Value::record([
        ("exit_code", exited.exit_code.map_or(Value::Nothing, |code| Value::Int(i64::from(code)))),
        ("stdout", Value::string(exited.stdout)),
        ("stderr", Value::string(exited.stderr)),
        ("stdout_truncated", exited.stdout_truncated.into()),
        ("stderr_truncated", exited.stderr_truncated.into()),
    ]))
}

/// The words of a command: the first argument, and those of the list that is the second.
pub(super) fn words(args: &Args<'_>) -> Result<Vec<String>, Fault> {
    let name = args.name;
    let mut argv = vec![args.text(0)?.to_owned()];
    if args.optional(1).is_some() {
        for word in args.list(1)? {
            argv.push(match word {
                Value::Short(_) | Value::Text(_) | Value::Int(_) | Value::Float(_) => display(word),
                word if matches!(word.as_other(), Some(Other::Secret(_))) => {
                    return Err(raised(format!("{name}: an argument is a secret — reveal() it on purpose")));
                }
                word => {
                    return Err(raised(format!(
                        "{name}: arguments must be texts or numbers, got {}",
                        type_name(word)
                    )));
                }
            });
        }
    }
    Ok(argv)
}

/// An option that is text.
pub(super) fn text_option(name: &str, options: &Map, key: &str) -> Result<Option<String>, Fault> {
    match options.get(key) {
        None | Some(Value::Nothing) => Ok(None),
        Some(v) => match v.as_text() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(raised(format!("{name}: {key} must be text, got {}", type_name(v)))),
        },
    }
}

/// Sends the input in pieces, then the command; waits for its end.
fn start(ctx: &mut Ctx<'_>, input: &[u8], request: &Request) -> Result<Exited, Fault> {
    ctx.core.host.flush();
    let host = &mut ctx.core.host;
    let lost = |why: String| raised(format!("run: failed to {why}"));
    let refused = |refused: policies::broker::Refused| match refused.by {
        By::Ceiling => denied(format!("Capability not granted: {}", refused.why)),
        By::Kernel(_) | By::Limit | By::Misuse => raised(format!("run: {}", refused.why)),
    };
    for piece in input.chunks(MOST_PIECE) {
        if let Reply::Refused(why) = host.broker(&Request::Source {}, piece).map_err(lost)? {
            return Err(refused(why));
        }
    }
    match host.broker(request, &[]).map_err(lost)? {
        Reply::Json(json) => {
            serde_json::from_slice(&json).map_err(|e| raised(format!("run: failed to read the result: {e}")))
        }
        Reply::Refused(why) => Err(refused(why)),
        _ => Err(raised("run: the supervisor gave no result")),
    }
}

/// Seconds in a message: whole ones without a point.
fn shown(seconds: f64) -> String {
    let whole = seconds.fract() == 0.0 && seconds < 1e15;
    display(&if whole { Value::Int(seconds as i64) } else { Value::Float(seconds) })
}

#[cfg(test)]
mod tests {
    #[test]
    fn whole_seconds_are_shown_without_a_point() {
        assert_eq!([1.0, 0.5, 120.0, 1e300].map(super::shown), ["1", "0.5", "120", "1e+300"]);
    }
}
