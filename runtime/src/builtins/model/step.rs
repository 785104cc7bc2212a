//! `llm_step(messages, tools?, max_tokens?)`: one turn of a model that may ask for tools.
//!
//! What comes back is a message like those that go in, so a program appends it, runs what it calls, appends the results,
//! and asks again. The model calls nothing by itself.

use super::{Said, TOKENS, prompt};
use crate::builtins::json::{from_host, to_host};
use crate::builtins::{Args, Ctx};
use crate::vm::render::display;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};
use policies::capability::Capability;
use policies::fetch::{Form, Purpose};
use policies::turns::{Call, Spoken, Tool, Turn, Turns};

pub(super) fn step(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    ctx.ask(Capability::Llm, None)?;
    let turns = turns(args)?;
    if let Some(why) = turns.unfit() {
        return Err(raised(format!("llm_step: {why}")));
    }
    let most = match args.optional(2) {
        None => TOKENS,
        Some(_) => u32::try_from(args.int(2, "max_tokens")?)
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| raised("llm_step: max_tokens is a whole number from 1"))?,
    };
    let text = serde_json::to_string(&turns).map_err(|e| raised(format!("llm_step: {e}")))?;
    ctx.charge(text.len() as u64 / 16)?;
    Ok(match prompt(ctx, "", &text, most, (Purpose::Operation, Form::Turns))? {
        Said::Text(answer) => match serde_json::from_str::<Spoken>(&answer) {
            Ok(spoken) => told(&spoken.content, &spoken.calls),
            Err(_) => told("[llm unavailable: the answer can't be read]", &[]),
        },
        Said::Offline => told("[generation pending]", &[]),
        Said::Not(why) => told(&why, &[]),
    })
}

/// The model's turn, as a message.
fn told(content: &str, calls: &[Call]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .map(|call| {
            Value::record([
                ("id", Value::text(&call.id)),
                ("name", Value::text(&call.name)),
                ("arguments", from_host(&call.arguments)),
            ])
        })
        .collect();
    Value::record([
        ("role", Value::text("assistant")),
        ("content", Value::text(content)),
        ("done", calls.is_empty().into()),
        ("calls", Value::list(calls)),
    ])
}

fn turns(args: &Args<'_>) -> Result<Turns, Fault> {
    let turns = match (args.at(0).as_text(), args.at(0).as_list()) {
        (Some(text), _) => vec![Turn::User(text.to_owned())],
        (None, Some(list)) => list.iter().map(turn).collect::<Result<_, _>>()?,
        (None, None) => return Err(args.wrong(0, "a text, or a list of messages")),
    };
    let tools = match args.optional(1) {
        None => Vec::new(),
        Some(_) => args.list(1)?.iter().map(tool).collect::<Result<_, _>>()?,
    };
    Ok(Turns { turns, tools })
}

fn a_map<'v>(value: &'v Value, what: &str) -> Result<&'v Map, Fault> {
    match value {
        Value::Map(map) => Ok(map),
        other => Err(raised(format!("llm_step: {what} is a map, got {}", crate::vm::render::inside(other)))),
    }
}

/// A part of a map as text; `nothing` and none are empty.
fn part(map: &Map, name: &str) -> String {
    match map.get(name) {
        None => String::new(),
        Some(value) if value.is_nothing() => String::new(),
        Some(value) => display(value),
    }
}

fn turn(value: &Value) -> Result<Turn, Fault> {
    let map = a_map(value, "a message")?;
    let content = part(map, "content");
    Ok(match part(map, "role").as_str() {
        "system" => Turn::System(content),
        "user" => Turn::User(content),
        "tool" => Turn::Tool { id: part(map, "id"), content },
        "assistant" => {
            let calls = map.get("calls").and_then(Value::as_list).unwrap_or_default();
            let call = |value: &Value| {
                let map = a_map(value, "a call")?;
                let arguments = map.get("arguments").map_or(serde_json::Value::Null, to_host);
                Ok(Call { id: part(map, "id"), name: part(map, "name"), arguments })
            };
            Turn::Assistant(Spoken { content, calls: calls.iter().map(call).collect::<Result<_, Fault>>()? })
        }
        other => {
            return Err(raised(format!(
                "llm_step: a message's role is system, user, assistant or tool, got {other:?}"
            )));
        }
    })
}

fn tool(value: &Value) -> Result<Tool, Fault> {
    let map = a_map(value, "a tool")?;
    let parameters = match map.get("parameters").filter(|value| !value.is_nothing()) {
        Some(schema) => to_host(schema),
        None => serde_json::json!({ "type": "object", "properties": {} }),
    };
    Ok(Tool { name: part(map, "name"), description: part(map, "description"), parameters })
}
