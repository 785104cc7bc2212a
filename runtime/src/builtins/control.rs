//! Output, input, control.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::render;
use crate::vm::trap::{Fault, Stop, raised};
use crate::vm::value::Value;
use policies::capability::Capability;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("print", &["value"], 0, print).variadic(),
    Builtin::new("eprint", &["value"], 0, eprint).variadic(),
    Builtin::new("flush", &[], 0, flush).cost(Cost::Flat),
    Builtin::new("read_line", &["prompt"], 0, read_line),
    Builtin::new("raise", &["message"], 0, raise),
    Builtin::new("exit", &["code"], 0, exit).cost(Cost::Flat),
    Builtin::new("args", &[], 0, args).cost(Cost::Flat),
    Builtin::new("platform", &[], 0, platform).cost(Cost::Flat),
    Builtin::new("self_path", &[], 0, self_path).cost(Cost::Flat).native("this run has no process"),
    Builtin::new("agents", &[], 0, |c, _| Ok(c.core.shared.borrow().list())).cost(Cost::Flat),
    Builtin::new("agent_stop", &["id", "reason"], 1, agent_stop).cost(Cost::Flat),
    Builtin::new("steps", &[], 0, steps).cost(Cost::Flat),
    Builtin::new("shutdown", &["reason"], 0, |_, _| Err(raised("shutdown works only under serve"))),
];

/// Values as one line.
fn line(args: &Args<'_>) -> String {
    let mut out = String::new();
    for (i, value) in args.values.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        render::write(value, &mut out);
    }
    out
}

fn print(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if let [one] = &*args.values
        && let Some(text) = one.as_text()
    {
        ctx.print(text)?;
    } else {
        let text = line(args);
        ctx.print(&text)?;
    }
    Ok(Value::Nothing)
}

fn eprint(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if ctx.core.gate.checks_output() {
        ctx.ask(Capability::Stdout, None)?;
    }
    let text = line(args);
    ctx.core.host.eprint(&text);
    Ok(Value::Nothing)
}

fn flush(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    ctx.core.host.flush();
    Ok(Value::Nothing)
}

fn read_line(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if ctx.core.gate.checks_input() {
        ctx.ask(Capability::Stdin, None)?;
    }
    // There is no end of a line among keys: Enter is a key as any other.
    if super::terminal::is_open(ctx.core) {
        return Err(raised("read_line: the terminal is open: use term_read, or term_close it before"));
    }
    if let Some(prompt) = args.optional(0) {
        let text = render::display(prompt);
        ctx.print(&text)?;
    }
    ctx.core.host.flush();
    let line = ctx.core.host.read_line();
    ctx.core.interruption()?;
    Ok(line.map_or(Value::Nothing, Value::string))
}

fn raise(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.given(0) {
        Some(message) => Err(raised(render::display(message))),
        None => Err(raised("raise expects a message")),
    }
}

fn exit(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let code = match args.optional(0) {
        None => 0,
        Some(_) => args.int(0, "the code")?,
    };
    if !(0..=255).contains(&code) {
        return Err(raised(format!("exit expects a code from 0 to 255, got {code}")));
    }
    if ctx.core.testing {
        return Err(raised(format!("exit({code}) was called")));
    }
    Err(Box::new(Stop::Exit(code as i32)))
}

fn args(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(Value::list(ctx.core.host.args().into_iter().map(Value::string).collect()))
}

fn platform(_: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    let arch = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" };
    Ok(Value::record([("os", Value::text("linux")), ("arch", Value::text(arch))]))
}

fn self_path(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    let answer = ctx.core.host.request("self_path", serde_json::Value::Null).map_err(raised)?;
    Ok(answer.as_str().map_or(Value::Nothing, Value::text))
}

fn steps(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(Value::Int(ctx.core.used() as i64))
}

fn agent_stop(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let id = args.text(0)?;
    Ok(ctx.core.shared.borrow_mut().stop(id).into())
}
