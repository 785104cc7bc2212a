//! `term_*`: the caller's terminal, key by key.
//!
//! The launcher owns it: it changes the settings when the program asks, and gives them back however the run ends. An interrupt
//! and a stop stay the launcher's, so that whoever sits there can always end the program. Keys come by standard input.
//!
//! Invariant: nothing is opened that isn't there, and nothing is read without `stdin`, here or at any later use.

mod keys;

use super::waiting::{self, DEFAULT_WAIT, Seen, Source, Wait};
use super::{Args, Builtin, Cost, Ctx, Next, Resume};
use crate::broker::Reply;
use crate::partition::{Core, Profile};
use crate::vm::other::Foreign;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use keys::{Key, Read, Rest};
use policies::broker::Request;
use policies::capability::Capability;
use policies::process::Window;
use policies::terminal::Act;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("term_open", &[], 0, open).cost(Cost::Flat),
    Builtin::calls("term_read", &["terminal", "timeout"], 1, read),
    Builtin::new("term_size", &["terminal"], 1, size).cost(Cost::Flat),
    Builtin::new("term_write", &["terminal", "text"], 2, write),
    Builtin::new("term_close", &["terminal"], 1, close).cost(Cost::Flat),
];

/// How long the rest of a sequence may take: a lone escape is a key as well.
const PAUSE: f64 = 0.05;
/// Bytes that wait to be read as keys.
const MOST_WAITING: usize = 64 << 10;

/// What has come.
#[derive(Default)]
struct Keys {
    bytes: Vec<u8>,
    open: bool,
    ended: bool,
}

/// The program's handle: there is one terminal.
struct Handle;

impl Foreign for Handle {
    fn type_name(&self) -> &'static str {
        "terminal"
    }

    fn render(&self) -> String {
        "terminal".to_owned()
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().is::<Self>()
    }

    fn any(&self) -> &dyn std::any::Any {
        self
    }
}

fn with<T>(core: &Core, f: impl FnOnce(&mut Keys) -> T) -> T {
    let mut board = core.shared.borrow_mut();
    let slot = board.keep.entry("terminal").or_insert_with(|| Box::new(Keys::default()));
    match slot.downcast_mut::<Keys>() {
        Some(keys) => f(keys),
        // Nobody else keeps anything under this name.
        None => f(&mut Keys::default()),
    }
}

/// Whether a value is the terminal.
pub(super) fn is_one(value: &Value) -> bool {
    value.as_foreign::<Handle>().is_some()
}

/// Whether keys are read one by one now.
pub(super) fn is_open(core: &Core) -> bool {
    with(core, |keys| keys.open)
}

/// Asks the gate again, in silence where it agrees: opening it has the entry.
pub(super) fn allowed(ctx: &mut Ctx<'_>) -> Result<(), Fault> {
    if ctx.core.gate.covers(Capability::Stdin, None) {
        return Ok(());
    }
    ctx.ask(Capability::Stdin, None)
}

/// The terminal that is meant, if it is open and may be used here.
fn target(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<(), Fault> {
    if !is_one(args.at(0)) {
        return Err(args.wrong(0, "a terminal"));
    }
    allowed(ctx)?;
    if with(ctx.core, |keys| keys.open) {
        return Ok(());
    }
    Err(raised(format!("{}: the terminal is closed", args.name)))
}

/// What the launcher says: the size, if there is a terminal.
fn ask(ctx: &mut Ctx<'_>, act: Act) -> Result<Option<Window>, Fault> {
    let name = ctx.name;
    ctx.core.host.flush();
    match ctx.core.host.broker(&Request::Terminal { act }, &[]) {
        Ok(Reply::Json(json)) => serde_json::from_slice(&json)
            .map_err(|_| raised(format!("{name}: failed to read the supervisor's answer"))),
        Ok(Reply::Refused(refused)) => Err(raised(format!("{name}: {}", refused.why))),
        Ok(_) => Err(raised(format!("{name}: the supervisor's answer makes no sense"))),
        Err(why) => Err(raised(format!("{name}: failed to {why}"))),
    }
}

fn open(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    if ctx.core.settings.profile == Profile::Pure {
        return Ok(Value::Nothing);
    }
    ctx.ask(Capability::Stdin, None)?;
    if !ctx.core.host.takes_keys() || ask(ctx, Act::Open)?.is_none() {
        return Ok(Value::Nothing);
    }
    with(ctx.core, |keys| keys.open = true);
    Ok(Value::foreign(Handle))
}

/// Takes what has come, after so long a wait at most; whether anything waits.
fn fill(core: &mut Core, seconds: f64) -> bool {
    if with(core, |keys| keys.ended || keys.bytes.len() >= MOST_WAITING) {
        return true;
    }
    let got = core.host.keys(seconds);
    with(core, |keys| {
        match got {
            Some(bytes) => keys.bytes.extend_from_slice(&bytes),
            None => keys.ended = true,
        }
        keys.ended || !keys.bytes.is_empty()
    })
}

/// Whether a reader wouldn't wait.
pub(super) fn ready(core: &mut Core) -> bool {
    with(core, |keys| !keys.open || !keys.bytes.is_empty()) || fill(core, 0.0)
}

/// Waits for keys alone.
pub(super) fn sleep(core: &mut Core, seconds: f64) {
    core.host.flush();
    fill(core, seconds);
}

/// Waits for a key.
struct Reader {
    wait: Wait,
}

fn read(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    target(ctx, args)?;
    let seconds = waiting::seconds(args, 1, DEFAULT_WAIT)?;
    ctx.core.host.flush();
    Ok(Box::new(Reader { wait: Wait::new(vec![Source::Terminal], seconds) }))
}

/// The next key of what waits; `None`: there is none.
fn next(ctx: &mut Ctx<'_>) -> Result<Option<Key>, Fault> {
    let mut rest = Rest::MayCome;
    loop {
        let found = with(ctx.core, |keys| {
            let found = keys::read(&keys.bytes, if keys.ended { Rest::NeverComes } else { rest });
            if let Read::Key(_, length) | Read::Nothing(length) = found {
                keys.bytes.drain(..length.min(keys.bytes.len()));
            }
            (found, keys.bytes.len())
        });
        match found {
            (Read::Key(key, _), _) => return Ok(Some(key)),
            (Read::Nothing(_), _) => ctx.charge(1)?,
            (Read::More, 0) => return Ok(None),
            (Read::More, before) => {
                fill(ctx.core, PAUSE);
                if with(ctx.core, |keys| keys.bytes.len()) == before {
                    rest = Rest::NeverComes;
                }
            }
        }
    }
}

impl Resume for Reader {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        let event = |kind: Value, key: Key| {
            Value::record([
                ("kind", kind),
                ("key", Value::string(key.name)),
                ("ctrl", key.ctrl.into()),
                ("alt", key.alt.into()),
                ("shift", key.shift.into()),
            ])
        };
        loop {
            if let Some(key) = next(ctx)? {
                return Ok(Next::Done(event(Value::text("key"), key)));
            }
            if with(ctx.core, |keys| keys.ended) {
                return Ok(Next::Done(Value::Nothing));
            }
            if !with(ctx.core, |keys| keys.open) {
                return Err(raised("term_read: the terminal is closed"));
            }
            if let Seen::Over = self.wait.look(ctx)? {
                return Ok(Next::Done(event(Value::Nothing, Key::default())));
            }
        }
    }
}

fn size(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    target(ctx, args)?;
    let window = ask(ctx, Act::Size)?.ok_or_else(|| raised("term_size: the terminal is gone"))?;
    Ok(Value::record([
        ("columns", Value::Int(i64::from(window.columns))),
        ("rows", Value::Int(i64::from(window.rows))),
    ]))
}

fn write(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    target(ctx, args)?;
    let text = args.text(1)?;
    ctx.core.print_part(text, "term_write", ctx.place)?;
    ctx.core.host.flush();
    Ok(Value::Nothing)
}

fn close(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if !is_one(args.at(0)) {
        return Err(args.wrong(0, "a terminal"));
    }
    if !with(ctx.core, |keys| std::mem::take(&mut keys.open)) {
        return Ok(false.into());
    }
    ask(ctx, Act::Close)?;
    Ok(true.into())
}
