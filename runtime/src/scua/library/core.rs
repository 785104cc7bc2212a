//! Core names.

use super::{error, needs, ok};
use crate::builtins::{Args, Builtin, CallArgs, Ctx, Next, Resume};
use crate::vm::shared::Body;
use crate::vm::strict::{self, type_name, type_of};
use crate::vm::tasks;
use crate::vm::trap::{Fault, Stop, raised};
use crate::vm::value::Value;

pub(crate) const TABLE: &[Builtin] = &[
    Builtin::exact("len", (1, 1), len),
    Builtin::exact("str", (1, 1), str_of),
    Builtin::exact("type", (1, 1), |_, args| Ok(Value::text(type_of(args.at(0))))),
    Builtin::exact("tag", (1, 1), tag),
    Builtin::exact("payload", (1, 1), payload),
    Builtin::exact("int", (1, 1), int_of),
    Builtin::exact("float", (1, 1), float_of),
    Builtin::exact_calls("try", (1, 1), |_, args| Ok(Box::new(Try(Some(args.take(0)))))),
    Builtin::exact("fail", (1, 1), fail),
    Builtin::exact("reply", (1, 1), |ctx, args| ctx.core.reply(args.at(0)).map(|()| Value::Nothing)),
    Builtin::exact_calls("join", (1, 1), |_, args| Ok(Box::new(Join(args.take(0))))),
    Builtin::exact_calls("pause", (0, 0), |ctx, _| {
        ctx.core.pause();
        Ok(tasks::parked())
    }),
    Builtin::exact("print", (0, 255), print),
    Builtin::exact("actor", (2, 2), actor),
    Builtin::exact("self", (0, 0), |ctx, _| {
        ctx.core.current_actor().ok_or_else(|| raised("`self` works only while a message is being handled"))
    }),
    Builtin::exact("exit", (0, 1), exit),
    Builtin::exact("partition", (0, 255), |_, _| {
        Err(raised("partitions are not part of this language level"))
    }),
];

fn len(_ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let value = args.at(0);
    Ok(match value.body() {
        Some(Body::Array(array)) => array.len().into(),
        Some(Body::Record(table)) => table.len().into(),
        _ if value.as_text().is_some() => value.chars().into(),
        _ => return Err(raised(format!("`len` needs a string, array or record, got {}", type_name(value)))),
    })
}

fn str_of(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = strict::render(ctx.core, args.at(0), String::new())?;
    ctx.core.string(text)
}

fn tag(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.at(0).as_tagged() {
        Some((tag, _)) => ctx.core.string(tag.to_string()),
        None => Err(needs(args, 0, "a tagged value")),
    }
}

fn payload(_ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.at(0).as_tagged() {
        Some((_, value)) => Ok(value.cloned().unwrap_or_default()),
        None => Err(needs(args, 0, "a tagged value")),
    }
}

fn int_of(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(match args.at(0) {
        Value::Int(n) => Value::Int(*n),
        Value::Float(f) => super::math::whole(f.trunc()).map_or(Value::Nothing, Value::Int),
        other => match other.as_text() {
            Some(text) => {
                ctx.charge(text.len() as u64 / 32)?;
                let digits = text.strip_prefix('-').unwrap_or(text);
                let good = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
                good.then(|| text.parse().ok()).flatten().map_or(Value::Nothing, Value::Int)
            }
            None => Value::Nothing,
        },
    })
}

fn float_of(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(match args.at(0) {
        Value::Int(n) => Value::Float(*n as f64),
        Value::Float(f) => Value::Float(*f),
        other => match other.as_text() {
            Some(text) => {
                ctx.charge(text.len() as u64 / 32)?;
                let good = text.starts_with(|c: char| c.is_ascii_digit() || c == '-')
                    && text.ends_with(|c: char| c.is_ascii_digit())
                    && text
                        .bytes()
                        .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b'e' | b'E'));
                good.then(|| text.parse().ok()).flatten().map_or(Value::Nothing, Value::Float)
            }
            None => Value::Nothing,
        },
    })
}

/// `try(f)`
struct Try(Option<Value>);

impl Resume for Try {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        match (self.0.take(), last) {
            (Some(callee), None) => Ok(Next::Call(callee, CallArgs::default())),
            (_, value) => ok(ctx, value.unwrap_or_default()).map(Next::Done),
        }
    }

    fn caught(&mut self, ctx: &mut Ctx<'_>, fault: Fault) -> Result<Next, Fault> {
        let Stop::Raised(raised) = &*fault else { return Err(fault) };
        let described = strict::describe(ctx.core, raised);
        error(ctx, &described.kind, &described.name, described.line, &described.message).map(Next::Done)
    }
}

fn fail(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = strict::render(ctx.core, args.at(0), String::new())?;
    Err(raised(strict::cut(&text)))
}

/// `join(t)`
struct Join(Value);

impl Resume for Join {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        if let Some(value) = last {
            return Ok(Next::Done(value));
        }
        match ctx.core.join_task(&self.0)? {
            Some(value) => Ok(Next::Done(value)),
            None => Err(Box::new(Stop::Wait)),
        }
    }
}

fn print(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut text = String::new();
    for i in 0..args.len() {
        if i > 0 {
            text.push(' ');
        }
        text = strict::render(ctx.core, args.at(i), text)?;
    }
    ctx.core.print_line(&text, ctx.place)?;
    Ok(Value::Nothing)
}

fn actor(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    match args.at(0) {
        Value::Task(task) if task.proto.params.len() == 2 => {}
        _ => return Err(raised("`actor` needs a function of two parameters (state, msg)")),
    }
    let state = ctx.core.copy(args.at(1), "the initial state")?;
    Ok(ctx.core.new_actor(args.take(0), state))
}

fn exit(_ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let code = match args.at(0) {
        Value::Nothing if args.is_empty() => 0,
        Value::Int(n @ 0..=123) => *n as i32,
        Value::Int(n) => return Err(raised(format!("`exit` takes an int from 0 to 123, got {n}"))),
        other => return Err(raised(format!("`exit` takes an int from 0 to 123, got {}", type_name(other)))),
    };
    Err(Box::new(Stop::Exit(code)))
}
