//! The model behind `reason`, `decide`, `analyze` and `generate`, `llm_step` and `judge_*`: one prompt through the broker.
//!
//! The program's side never learns where the model is or with which key it is asked. Where none is set up, or its budget
//! is used up, or it doesn't answer, a text in brackets says so: a program goes on without.

mod judge;
mod step;

use super::{Args, Builtin, CallArgs, Cost, Ctx, Next, Resume};
use crate::broker::Reply;
use crate::partition::Core;
use crate::vm::render::display;
use crate::vm::trap::{Fault, denied};
use crate::vm::value::Value;
use policies::broker::{By, Request};
use policies::capability::Capability;
use policies::fetch::{Form, ModelState, Outcome, Prompt, Purpose};
use std::io::Read;
use std::rc::Rc;

/// Tokens of an answer, unless `max_tokens` says otherwise.
const TOKENS: u32 = 1024;
/// What the operations of the grammar are.
const OPERATION: (Purpose, Form) = (Purpose::Operation, Form::Text);
/// Bytes of an answer that are taken.
const MOST: u64 = 4 << 20;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("llm_available", &[], 0, available).cost(Cost::Flat),
    Builtin::new("llm_usage", &[], 0, usage).cost(Cost::Flat),
    Builtin::calls("llm_stream", &["prompt", "context", "fn"], 3, stream),
    Builtin::new("llm_step", &["messages", "tools", "max_tokens"], 1, step::step).named(3).cost(Cost::Own),
    Builtin::new("judge_whether", &["state", "question"], 2, judge::whether).cost(Cost::Own),
    Builtin::new("judge_choose", &["state", "question", "options"], 3, judge::choose).cost(Cost::Own),
    Builtin::new("judge_rate", &["state", "question", "low", "high"], 2, judge::rate)
        .named(4)
        .cost(Cost::Own),
];

/// What came of a prompt.
enum Said {
    Text(String),
    Offline,
    /// Why not, in brackets.
    Not(String),
}

fn state(ctx: &mut Ctx<'_>) -> ModelState {
    if !ctx.core.gate.covers(Capability::Llm, None) {
        return ModelState::default();
    }
    match ctx.core.host.broker(&Request::Model {}, &[]) {
        Ok(Reply::Json(json)) => serde_json::from_slice(&json).unwrap_or_default(),
        Ok(_) | Err(_) => ModelState::default(),
    }
}

fn available(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    Ok(state(ctx).available.into())
}

fn usage(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    let ModelState { calls, used, budget, .. } = state(ctx);
    let number = |n: u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
    Ok(Value::record([
        ("calls", number(calls)),
        ("tokens", number(used)),
        ("budget", budget.map_or(Value::Nothing, number)),
    ]))
}

/// One prompt. The gate has been asked.
fn prompt(
    ctx: &mut Ctx<'_>,
    system: &str,
    text: &str,
    most_tokens: u32,
    (purpose, form): (Purpose, Form),
) -> Result<Said, Fault> {
    ctx.core.host.flush();
    let not = |why: &str| Ok(Said::Not(format!("[llm unavailable: {why}]")));
    // A run without a supervisor is one without a model.
    if ctx.core.host.broker(&Request::Model {}, &[]).is_err() {
        return Ok(Said::Offline);
    }
    if let Some(why) = crate::web::send_ahead(ctx, text.as_bytes())? {
        return not(&why);
    }
    let request = Request::Prompt(Box::new(Prompt { system: system.to_owned(), most_tokens, purpose, form }));
    let (outcome, body, bytes) = match ctx.core.host.broker(&request, &[]) {
        Ok(Reply::Beside { outcome, body, bytes }) => (outcome, body, bytes),
        Ok(Reply::Refused(refused)) if refused.by == By::Ceiling => {
            return Err(denied(format!("Capability not granted: {}", refused.why)));
        }
        Ok(Reply::Refused(refused)) => return not(&refused.why),
        Ok(_) => return not("the supervisor's answer makes no sense"),
        Err(_) => return Ok(Said::Offline),
    };
    match serde_json::from_slice(&outcome) {
        Ok(Outcome::Said { .. }) => {
            let size = bytes.min(MOST);
            ctx.reserve(size as usize)?;
            ctx.charge(size / 32)?;
            let mut said = Vec::new();
            match body.take(size).read_to_end(&mut said) {
                Ok(_) => Ok(Said::Text(String::from_utf8_lossy(&said).into_owned())),
                Err(error) => not(&error.to_string()),
            }
        }
        Ok(Outcome::Offline) => Ok(Said::Offline),
        Ok(Outcome::Spent { used, of }) => {
            Ok(Said::Not(format!("[llm budget exceeded: used {used} of {of} tokens]")))
        }
        Ok(Outcome::Failed { why, .. }) => not(&why),
        Ok(Outcome::Answered { .. }) | Err(_) => not("the supervisor's answer makes no sense"),
    }
}

/// One of the four operations of the grammar.
pub(super) fn operation(
    core: &mut Core,
    name: &'static str,
    subject: &Value,
    parts: &[(Rc<str>, Value)],
    place: (u32, u32),
) -> Result<Value, Fault> {
    core.ask(Capability::Llm, None, &format!("{name}()"), place)?;
    let system = match name {
        "decide" => "Choose exactly one of the options. Answer with that option alone, word for word.",
        "reason" => "Think about what you are given, and answer with your conclusion alone, in plain text.",
        "analyze" => "Analyze what you are given, and answer with the analysis alone, in plain text.",
        _ => "Write what you are asked for, and nothing else.",
    };
    let mut text = match (name, subject.as_list()) {
        ("decide", Some(options)) => {
            let lines: Vec<String> = options.iter().map(|option| format!("- {}", display(option))).collect();
            format!("Options:\n{}", lines.join("\n"))
        }
        _ => display(subject),
    };
    let mut most = TOKENS;
    for (part, value) in parts {
        match (&**part, value) {
            ("max_tokens", Value::Int(n)) => most = u32::try_from(*n).unwrap_or(TOKENS),
            _ => text.push_str(&format!("\n\n{part}:\n{}", display(value))),
        }
    }
    let mut ctx = Ctx { core, place, name };
    ctx.charge(text.len() as u64 / 32)?;
    Ok(match prompt(&mut ctx, system, &text, most, OPERATION)? {
        Said::Text(answer) => match (name, subject.as_list()) {
            ("decide", Some(options)) => chosen(options, &answer).unwrap_or(Value::string(answer)),
            _ => Value::string(answer),
        },
        Said::Offline => Value::text(match name {
            "decide" => "[decision pending]",
            "reason" => "[reasoning pending]",
            "analyze" => "[analysis pending]",
            _ => "[generation pending]",
        }),
        Said::Not(why) => Value::string(why),
    })
}

/// The option that an answer names.
fn chosen(options: &[Value], answer: &str) -> Option<Value> {
    let bare = |text: &str| text.trim().trim_matches(['"', '\'', '.', '-', ' ']).to_lowercase();
    options.iter().find(|option| bare(&display(option)) == bare(answer)).map(|o| Value::string(display(o)))
}

/// A prompt whose answer goes to a function as well; it comes in one piece.
fn stream(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    if !super::higher::callable(args.at(2)) {
        return Err(args.wrong(2, "a function"));
    }
    ctx.ask(Capability::Llm, None)?;
    let mut text = args.text(0)?.to_owned();
    if args.optional(1).is_some() {
        text.push_str(&format!("\n\ncontext:\n{}", display(args.at(1))));
    }
    ctx.charge(text.len() as u64 / 32)?;
    let said = match prompt(ctx, "Answer in plain text.", &text, TOKENS, OPERATION)? {
        Said::Text(text) | Said::Not(text) => text,
        Said::Offline => "[generation pending]".to_owned(),
    };
    Ok(Box::new(Streamed { callee: args.take(2), said: Value::string(said), called: false }))
}

struct Streamed {
    callee: Value,
    said: Value,
    called: bool,
}

impl Resume for Streamed {
    fn resume(&mut self, _: &mut Ctx<'_>, _last: Option<Value>) -> Result<Next, Fault> {
        if std::mem::replace(&mut self.called, true) {
            return Ok(Next::Done(self.said.clone()));
        }
        Ok(Next::Call(self.callee.clone(), CallArgs::from([self.said.clone()])))
    }
}
