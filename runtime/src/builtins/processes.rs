//! `proc_*`: foreign commands that go on beside the program, each in a jail of its own as those of `run` are.
//!
//! The supervisor holds a process's streams; here is its number, and what is told of it. What the program doesn't read stays in
//! a pipe of fixed size, so a process that writes without end waits.
//!
//! Invariant: a use of a process needs what its start needed: a handle gives no right to an agent or inside a `sandbox`.
//! Invariant: a process ends with the run, however that ends.

use super::command::{self, text_option};
use super::waiting::{self, DEFAULT_WAIT, Seen, Source, Wait};
use super::{Args, Builtin, Cost, Ctx, Next, Resume, pipes};
use crate::broker::Reply;
use crate::partition::Core;
use crate::vm::other::Foreign;
use crate::vm::render::{display, type_name};
use crate::vm::trap::{Fault, denied, raised};
use crate::vm::value::{Entries, Map, Value};
use policies::broker::{By, Command, Exited, MOST_PIECE, Request};
use policies::capability::Capability;
use policies::process::{Act, Awaited, Signal, Spawn, Stream, What, Window};
use std::collections::BTreeMap;

const HUB: &str = super::stubs::HUB;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("proc_spawn", &["cmd", "args", "options"], 1, spawn)
        .named(3)
        .native("this run has no child processes"),
    Builtin::calls("proc_send", &["process", "data", "timeout"], 2, send).native(HUB),
    Builtin::calls("proc_recv", &["process", "timeout"], 1, receive).native(HUB),
    Builtin::calls("proc_select", &["processes", "timeout"], 1, select).native(HUB),
    Builtin::calls("proc_wait", &["process", "timeout"], 1, wait).native(HUB),
    Builtin::new("proc_kill", &["process", "signal"], 1, kill).cost(Cost::Flat).native(HUB),
    Builtin::new("proc_close", &["process"], 1, close).cost(Cost::Flat).native(HUB),
    Builtin::new("proc_close_stdin", &["process"], 1, close_stdin).cost(Cost::Flat).native(HUB),
    Builtin::new("proc_status", &["process"], 1, status).cost(Cost::Flat).native(HUB),
    Builtin::new("proc_stats", &["process"], 1, stats).cost(Cost::Flat).native(HUB),
    Builtin::new("proc_resize", &["process", "columns", "rows"], 3, resize).cost(Cost::Flat).native(HUB),
];

const KEYS: [&str; 5] = ["cwd", "env", "timeout", "terminal", "bytes"];
const STREAMS: [Stream; 2] = [Stream::Output, Stream::Errors];
/// A terminal's size, where nothing is said.
const WINDOW: Window = Window { columns: 80, rows: 24 };

/// What is known of a process here.
struct Process {
    command: String,
    /// Whether what it writes is given as bytes.
    bytes: bool,
    /// Of each stream: what isn't a whole character yet, whether there is no more, bytes read.
    partial: [Vec<u8>; 2],
    over: [bool; 2],
    received: [u64; 2],
    sent: u64,
    /// Which stream is read first: the other one than last time.
    first: usize,
    started: f64,
    ended: Option<(f64, Exited)>,
}

type All = BTreeMap<u32, Process>;

/// The program's handle of one.
struct Handle(u32);

impl Foreign for Handle {
    fn type_name(&self) -> &'static str {
        "process"
    }
    fn render(&self) -> String {
        format!("process({})", self.0)
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| o.0 == self.0)
    }
    fn any(&self) -> &dyn std::any::Any {
        self
    }
}

fn with<T>(core: &Core, f: impl FnOnce(&mut All) -> T) -> T {
    let mut board = core.shared.borrow_mut();
    let slot = board.keep.entry("processes").or_insert_with(|| Box::new(All::new()));
    match slot.downcast_mut::<All>() {
        Some(all) => f(all),
        // Nobody else keeps anything under this name.
        None => f(&mut All::new()),
    }
}

/// Which process a value stands for, if it does.
pub(super) fn number(value: &Value) -> Option<u32> {
    value.as_foreign::<Handle>().map(|handle| handle.0)
}

/// One that is open.
fn open<T>(ctx: &Ctx<'_>, number: u32, f: impl FnOnce(&mut Process) -> T) -> Result<T, Fault> {
    with(ctx.core, |all| all.get_mut(&number).map(f))
        .ok_or_else(|| raised(format!("{}: this process is closed", ctx.name)))
}

/// Asks the gate again, in silence where it agrees: a loop of reads is one decision, and its start has the entry.
pub(super) fn allowed(ctx: &mut Ctx<'_>, number: u32) -> Result<(), Fault> {
    let command = open(ctx, number, |process| process.command.clone())?;
    if ctx.core.gate.covers(Capability::Exec, Some(&command)) {
        return Ok(());
    }
    ctx.ask(Capability::Exec, Some(&command))
}

/// The process that is meant, if it may be used here.
fn target(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<u32, Fault> {
    let number = number(args.at(0)).ok_or_else(|| args.wrong(0, "a process"))?;
    allowed(ctx, number)?;
    Ok(number)
}

fn ask(ctx: &mut Ctx<'_>, request: &Request, raw: &[u8]) -> Result<Reply, Fault> {
    let name = ctx.name;
    ctx.core.host.flush();
    match ctx.core.host.broker(request, raw) {
        Ok(Reply::Refused(refused)) => Err(match refused.by {
            By::Ceiling => denied(format!("Capability not granted: {}", refused.why)),
            By::Kernel(_) | By::Limit | By::Misuse => raised(format!("{name}: {}", refused.why)),
        }),
        Ok(reply) => Ok(reply),
        Err(why) => Err(raised(format!("{name}: failed to {why}"))),
    }
}

fn act(ctx: &mut Ctx<'_>, number: u32, act: Act, raw: &[u8]) -> Result<Reply, Fault> {
    ask(ctx, &Request::Process { number, act }, raw)
}

fn data<T: serde::de::DeserializeOwned>(name: &str, reply: &Reply) -> Result<T, Fault> {
    let read = match reply {
        Reply::Json(json) => serde_json::from_slice(json).ok(),
        _ => None,
    };
    read.ok_or_else(|| raised(format!("{name}: failed to read the supervisor's answer")))
}

/// Which of these are there, by their places, after so long a wait at most.
pub(super) fn ready(ctx: &mut Ctx<'_>, all: &[Awaited], timeout_ms: u64) -> Result<Vec<usize>, Fault> {
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let reply = ask(ctx, &Request::Await { all: all.to_vec(), timeout_ms }, &[])?;
    data(ctx.name, &reply)
}

fn spawn(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let first = args.text(0)?.to_owned();
    let argv = command::words(args)?;
    let none = Map::new(Entries::default());
    let options = if args.optional(2).is_some() { args.map(2)? } else { &none };
    if let Some((key, _)) = options.entries().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        let known = KEYS.join(", ");
        return Err(raised(format!("proc_spawn: unknown option '{}', one of {known}", key.as_str())));
    }
    let cwd = text_option("proc_spawn", options, "cwd")?;
    let env = super::process::environment("proc_spawn", options.get("env"))?;
    let timeout_ms = match options.get("timeout") {
        None | Some(Value::Nothing) => u64::MAX,
        Some(Value::Int(n)) if *n > 0 => n.unsigned_abs().saturating_mul(1000),
        Some(Value::Float(f)) if *f > 0.0 && f.is_finite() => (f * 1000.0).ceil().min(1e12) as u64,
        Some(v) => {
            let got = display(v);
            return Err(raised(format!("proc_spawn: timeout must be a number above 0, got {got}")));
        }
    };
    let terminal = match options.get("terminal") {
        None | Some(Value::Nothing | Value::Bool(false)) => None,
        Some(Value::Bool(true)) => Some(WINDOW),
        Some(Value::Map(size)) => Some(Window {
            columns: side(size.get("columns").unwrap_or(&Value::Int(80)))?,
            rows: side(size.get("rows").unwrap_or(&Value::Int(24)))?,
        }),
        Some(v) => {
            let got = type_name(v);
            return Err(raised(format!("proc_spawn: terminal must be true or a size, got {got}")));
        }
    };
    let bytes = options.get("bytes").is_some_and(crate::vm::ops::truthy);
    let ceiling = ctx.core.gate.lendable();
    let command = Command { argv, ceiling, env, timeout_ms, cwd, most_output: 0 };
    let request = Request::Spawn(Box::new(Spawn { command, terminal }));
    super::process::fits("proc_spawn", &request)?;
    ctx.ask(Capability::Exec, Some(&first))?;
    let reply = ask(ctx, &request, &[])?;
    let number: u32 = data("proc_spawn", &reply)?;
    let process = Process {
        command: first,
        bytes,
        partial: [Vec::new(), Vec::new()],
        over: [false; 2],
        received: [0; 2],
        sent: 0,
        first: 0,
        started: ctx.core.host.now(),
        ended: None,
    };
    with(ctx.core, |all| all.insert(number, process));
    Ok(Value::foreign(Handle(number)))
}

/// A side of a terminal, in characters.
fn side(value: &Value) -> Result<u16, Fault> {
    match value {
        Value::Int(n @ 1..=1000) => Ok(*n as u16),
        other => Err(raised(format!("a terminal's size is from 1 to 1000, got {}", display(other)))),
    }
}

/// Input on its way.
struct Send {
    number: u32,
    bytes: Vec<u8>,
    sent: usize,
    wait: Wait,
}

fn send(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let number = target(ctx, args)?;
    let bytes = pipes::data(args, 1)?;
    let seconds = waiting::seconds(args, 2, DEFAULT_WAIT)?;
    ctx.charge(bytes.len() as u64 / 32)?;
    let wait = Wait::new(vec![Source::Process(Awaited { number, what: What::Room })], seconds);
    Ok(Box::new(Send { number, bytes, sent: 0, wait }))
}

impl Resume for Send {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            let rest = &self.bytes[self.sent..];
            if rest.is_empty() {
                return Ok(Next::Done(Value::from(self.sent)));
            }
            let piece = &rest[..rest.len().min(MOST_PIECE)];
            let reply = act(ctx, self.number, Act::Feed, piece)?;
            let taken: usize = data("proc_send", &reply)?;
            let taken = taken.min(piece.len());
            self.sent += taken;
            open(ctx, self.number, |process| process.sent += taken as u64)?;
            ctx.charge(u64::from(taken > 0))?;
            if taken == 0 {
                match self.wait.look(ctx)? {
                    Seen::Ready(_) => {}
                    Seen::Over => return Ok(Next::Done(Value::from(self.sent))),
                }
            }
        }
    }
}

/// Waits for what a process writes.
struct Receive {
    number: u32,
    wait: Wait,
}

fn receive(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let number = target(ctx, args)?;
    let seconds = waiting::seconds(args, 1, DEFAULT_WAIT)?;
    let wait = Wait::new(vec![Source::Process(Awaited { number, what: What::Output })], seconds);
    Ok(Box::new(Receive { number, wait }))
}

impl Resume for Receive {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            if let Some((at, piece)) = next(ctx, self.number)? {
                let stream = if at == 0 { "stdout" } else { "stderr" };
                return Ok(Next::Done(Value::record([("stream", Value::text(stream)), ("data", piece)])));
            }
            let (over, bytes) = open(ctx, self.number, |process| (process.over, process.bytes))?;
            if over == [true; 2] {
                return Ok(Next::Done(Value::Nothing));
            }
            match self.wait.look(ctx)? {
                Seen::Ready(_) => {}
                Seen::Over => {
                    let none = if bytes { Value::bytes(Vec::new()) } else { Value::text("") };
                    return Ok(Next::Done(Value::record([("stream", Value::Nothing), ("data", none)])));
                }
            }
        }
    }
}

/// The next piece that a process has written, and on which stream.
fn next(ctx: &mut Ctx<'_>, number: u32) -> Result<Option<(usize, Value)>, Fault> {
    let first = open(ctx, number, |process| process.first)?;
    for at in [first, 1 - first] {
        if open(ctx, number, |process| process.over[at])? {
            continue;
        }
        let Reply::Piece { bytes, ended } = act(ctx, number, Act::Read(STREAMS[at]), &[])? else {
            return Err(raised("proc_recv: the supervisor gave no piece"));
        };
        ctx.charge(bytes.len() as u64 / 32 + u64::from(!bytes.is_empty()))?;
        let piece = open(ctx, number, |process| {
            process.received[at] += bytes.len() as u64;
            process.over[at] = ended;
            process.first = 1 - at;
            if process.bytes {
                return (!bytes.is_empty()).then(|| Value::bytes(bytes));
            }
            process.partial[at].extend_from_slice(&bytes);
            let text = characters(&mut process.partial[at], ended);
            (!text.is_empty()).then(|| Value::string(text))
        })?;
        if let Some(piece) = piece {
            return Ok(Some((at, piece)));
        }
    }
    Ok(None)
}

/// The whole characters of these bytes, which are taken; a last one that isn't whole stays unless there is no more.
fn characters(bytes: &mut Vec<u8>, ended: bool) -> String {
    let whole = match bytes.utf8_chunks().last() {
        Some(last) if !ended && is_begun(last.invalid()) => bytes.len() - last.invalid().len(),
        _ => bytes.len(),
    };
    let rest = bytes.split_off(whole);
    let text = String::from_utf8_lossy(bytes).into_owned();
    *bytes = rest;
    text
}

/// Whether bytes are the beginning of a character, and no more is wrong with them.
fn is_begun(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

fn select(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    waiting::over(ctx, args, "processes", |source| matches!(source, Source::Process(_)))
}

/// Waits for a process's end.
struct End {
    number: u32,
    wait: Wait,
}

fn wait(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let number = target(ctx, args)?;
    let seconds = waiting::seconds(args, 1, DEFAULT_WAIT)?;
    let wait = Wait::new(vec![Source::Process(Awaited { number, what: What::End })], seconds);
    Ok(Box::new(End { number, wait }))
}

impl Resume for End {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            if let Some(exited) = exited(ctx, self.number)? {
                return Ok(Next::Done(ending(&exited)));
            }
            match self.wait.look(ctx)? {
                Seen::Ready(_) => {}
                Seen::Over => return Ok(Next::Done(Value::Nothing)),
            }
        }
    }
}

/// How a process ended, if it has.
fn exited(ctx: &mut Ctx<'_>, number: u32) -> Result<Option<Exited>, Fault> {
    let known = open(ctx, number, |process| process.ended.as_ref().map(|(_, exited)| exited.clone()))?;
    if known.is_some() {
        return Ok(known);
    }
    let reply = act(ctx, number, Act::Look, &[])?;
    let exited: Option<Exited> = data(ctx.name, &reply)?;
    if let Some(exited) = &exited {
        let now = ctx.core.host.now();
        open(ctx, number, |process| process.ended = Some((now, exited.clone())))?;
    }
    Ok(exited)
}

fn ending(exited: &Exited) -> Value {
    Value::record([
        ("exit_code", exited.exit_code.map_or(Value::Nothing, |code| Value::Int(i64::from(code)))),
        ("timed_out", exited.timed_out.into()),
        ("ended", exited.ended.as_deref().map_or(Value::Nothing, Value::text)),
    ])
}

fn kill(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let number = target(ctx, args)?;
    let signal = match args.optional(1).map(|v| (v, v.as_text())) {
        None | Some((_, Some("kill"))) => Signal::Kill,
        Some((_, Some("term"))) => Signal::Term,
        Some((_, Some("int"))) => Signal::Int,
        Some((_, Some("hup"))) => Signal::Hup,
        Some((_, Some("usr1"))) => Signal::Usr1,
        Some((_, Some("usr2"))) => Signal::Usr2,
        Some((v, _)) => {
            let got = crate::vm::render::inside(v);
            return Err(raised(format!(
                "proc_kill: no signal {got}, one of kill, term, int, hup, usr1, usr2"
            )));
        }
    };
    let runs = exited(ctx, number)?.is_none();
    if runs {
        act(ctx, number, Act::Signal(signal), &[])?;
    }
    Ok(runs.into())
}

fn close(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let number = number(args.at(0)).ok_or_else(|| args.wrong(0, "a process"))?;
    if with(ctx.core, |all| !all.contains_key(&number)) {
        return Ok(false.into());
    }
    allowed(ctx, number)?;
    act(ctx, number, Act::Forget, &[])?;
    with(ctx.core, |all| all.remove(&number));
    Ok(true.into())
}

fn close_stdin(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let number = target(ctx, args)?;
    act(ctx, number, Act::EndInput, &[])?;
    Ok(Value::Nothing)
}

fn status(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let number = number(args.at(0)).ok_or_else(|| args.wrong(0, "a process"))?;
    let of = |state: &str, code: Option<i32>| {
        let code = code.map_or(Value::Nothing, |code| Value::Int(i64::from(code)));
        Value::record([("state", Value::text(state)), ("exit_code", code)])
    };
    if with(ctx.core, |all| !all.contains_key(&number)) {
        return Ok(of("closed", None));
    }
    allowed(ctx, number)?;
    Ok(match exited(ctx, number)? {
        None => of("running", None),
        Some(Exited { ended: Some(_), exit_code, .. }) => of("killed", exit_code),
        Some(exited) => of("exited", exited.exit_code),
    })
}

fn stats(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let number = target(ctx, args)?;
    exited(ctx, number)?;
    let now = ctx.core.host.now();
    open(ctx, number, |process| {
        let until = process.ended.as_ref().map_or(now, |(at, _)| *at);
        let bytes = |count: u64| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
        Value::record([
            ("command", Value::text(&process.command)),
            ("seconds", Value::Float((until - process.started).max(0.0))),
            ("sent", bytes(process.sent)),
            ("stdout", bytes(process.received[0])),
            ("stderr", bytes(process.received[1])),
        ])
    })
}

fn resize(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let number = target(ctx, args)?;
    let window = Window { columns: side(args.at(1))?, rows: side(args.at(2))? };
    act(ctx, number, Act::Resize(window), &[])?;
    Ok(Value::Nothing)
}
