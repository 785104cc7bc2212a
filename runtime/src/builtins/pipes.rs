//! Pipes: bytes from one part of a program to another, in order and within a bound. All of it is in memory, for the run.
//!
//! Invariant: what waits in a pipe is counted by the partition's meter, and no pipe holds more than its capacity.
//! Invariant: nobody waits for what nobody could bring: a program that is alone goes on at once.

use super::waiting::{self, DEFAULT_WAIT, Seen, Source, Wait};
use super::{Args, Builtin, Cost, Ctx, Next, Resume};
use crate::partition::{Core, heap};
use crate::vm::other::Foreign;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};
use std::collections::{BTreeMap, VecDeque};

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("pipe", &["options"], 0, pipe).cost(Cost::Flat),
    Builtin::calls("pipe_send", &["writer", "data", "timeout"], 2, send),
    Builtin::calls("pipe_recv", &["reader", "most", "timeout"], 1, receive),
    Builtin::new("pipe_close", &["end"], 1, close).cost(Cost::Flat),
];

/// Bytes that wait in one pipe, unless it says otherwise.
const CAPACITY: usize = 64 << 10;
/// Bytes that all pipes of a program may hold together.
const MOST_TOGETHER: usize = 64 << 20;
/// Pipes of one program.
const MOST_PIPES: usize = 1000;

struct Pipe {
    waiting: VecDeque<u8>,
    capacity: usize,
    read: bool,
    written: bool,
}

impl Pipe {
    /// Takes what there is room for; gives how much.
    fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.capacity - self.waiting.len());
        let before = self.waiting.capacity();
        self.waiting.extend(&bytes[..taken]);
        heap::resize(before, self.waiting.capacity());
        taken
    }

    fn pop(&mut self, most: usize) -> Vec<u8> {
        let count = most.min(self.waiting.len());
        self.waiting.drain(..count).collect()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        heap::shrink(self.waiting.capacity());
    }
}

#[derive(Default)]
struct Pipes {
    all: BTreeMap<u64, Pipe>,
    next: u64,
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Reader,
    Writer,
}

/// The program's handle of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    id: u64,
    side: Side,
}

impl Foreign for End {
    fn type_name(&self) -> &'static str {
        "pipe"
    }
    fn render(&self) -> String {
        let side = if self.side == Side::Reader { "reader" } else { "writer" };
        format!("pipe({}).{side}", self.id)
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>() == Some(self)
    }
    fn any(&self) -> &dyn std::any::Any {
        self
    }
}

fn with<T>(core: &Core, f: impl FnOnce(&mut Pipes) -> T) -> T {
    let mut board = core.shared.borrow_mut();
    let slot = board.keep.entry("pipes").or_insert_with(|| Box::new(Pipes::default()));
    match slot.downcast_mut::<Pipes>() {
        Some(pipes) => f(pipes),
        // Nobody else keeps anything under this name.
        None => f(&mut Pipes::default()),
    }
}

/// Whether the end wouldn't wait: for a reader something to read or the end, for a writer room or nobody to read.
pub(super) fn ready(core: &Core, end: End) -> bool {
    with(core, |pipes| match (pipes.all.get(&end.id), end.side) {
        (None, _) => true,
        (Some(pipe), Side::Reader) => !pipe.read || !pipe.written || !pipe.waiting.is_empty(),
        (Some(pipe), Side::Writer) => !pipe.written || !pipe.read || pipe.waiting.len() < pipe.capacity,
    })
}

fn pipe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let mut capacity = CAPACITY;
    let options = if args.optional(0).is_some() { Some(args.map(0)?) } else { None };
    for (key, v) in options.into_iter().flat_map(Map::entries) {
        match (key.as_str(), v) {
            ("capacity", Value::Int(n)) if (1..=16 << 20).contains(n) => capacity = *n as usize,
            ("capacity", _) => {
                return Err(raised(format!("pipe: capacity must be from 1 to {} bytes", 16 << 20)));
            }
            (key, _) => return Err(raised(format!("pipe: unknown option '{key}', one of capacity"))),
        }
    }
    let id = with(ctx.core, |pipes| {
        let together: usize = pipes.all.values().map(|pipe| pipe.capacity).sum();
        if pipes.all.len() >= MOST_PIPES {
            return Err(format!("pipe: too many pipes ({MOST_PIPES}): close those that are done"));
        }
        if together + capacity > MOST_TOGETHER {
            return Err(format!("pipe: all pipes together may hold {MOST_TOGETHER} bytes"));
        }
        let id = pipes.next;
        pipes.next += 1;
        pipes.all.insert(id, Pipe { waiting: VecDeque::new(), capacity, read: true, written: true });
        Ok(id)
    });
    let id = id.map_err(raised)?;
    Ok(Value::record([
        ("reader", Value::foreign(End { id, side: Side::Reader })),
        ("writer", Value::foreign(End { id, side: Side::Writer })),
    ]))
}

fn end(args: &Args<'_>, side: Side) -> Result<End, Fault> {
    let expected = if side == Side::Reader { "a pipe's reader" } else { "a pipe's writer" };
    let given = args.at(0).as_foreign::<End>().copied();
    given.filter(|end| end.side == side).ok_or_else(|| args.wrong(0, expected))
}

/// Text as UTF-8, or bytes.
pub(super) fn data(args: &Args<'_>, i: usize) -> Result<Vec<u8>, Fault> {
    match (args.at(i).as_text(), args.at(i).as_bytes()) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(bytes)) => Ok(bytes.to_vec()),
        (None, None) => Err(args.wrong(i, "text or bytes")),
    }
}

/// Bytes on their way into a pipe.
struct Send {
    end: End,
    bytes: Vec<u8>,
    sent: usize,
    wait: Wait,
}

fn send(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let end = end(args, Side::Writer)?;
    let bytes = data(args, 1)?;
    let seconds = waiting::seconds(args, 2, DEFAULT_WAIT)?;
    ctx.charge(bytes.len() as u64 / 32)?;
    Ok(Box::new(Send { end, bytes, sent: 0, wait: Wait::new(vec![Source::Pipe(end)], seconds) }))
}

impl Resume for Send {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            let rest = &self.bytes[self.sent..];
            ctx.reserve(rest.len())?;
            let taken = with(ctx.core, |pipes| match pipes.all.get_mut(&self.end.id) {
                Some(pipe) if pipe.written && pipe.read => Ok(pipe.push(rest)),
                Some(pipe) if pipe.written => Err("nobody reads this pipe any longer"),
                Some(_) | None => Err("this end is closed"),
            });
            let taken = taken.map_err(|why| raised(format!("pipe_send: {why}")))?;
            self.sent += taken;
            // Fuel goes with what is done, never with how often it was tried.
            ctx.charge(u64::from(taken > 0))?;
            if self.sent == self.bytes.len() {
                return Ok(Next::Done(Value::from(self.sent)));
            }
            match self.wait.look(ctx)? {
                Seen::Ready(_) => {}
                Seen::Over => return Ok(Next::Done(Value::from(self.sent))),
            }
        }
    }
}

/// Waits for bytes.
struct Receive {
    end: End,
    most: usize,
    wait: Wait,
}

fn receive(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let end = end(args, Side::Reader)?;
    let most = match args.optional(1) {
        None => CAPACITY,
        Some(_) => match args.int(1, "the number of bytes")? {
            most @ 1..=0x100_0000 => most as usize,
            _ => return Err(raised("pipe_recv: the number of bytes must be from 1 to 16777216")),
        },
    };
    let seconds = waiting::seconds(args, 2, DEFAULT_WAIT)?;
    Ok(Box::new(Receive { end, most, wait: Wait::new(vec![Source::Pipe(end)], seconds) }))
}

impl Resume for Receive {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            let got = with(ctx.core, |pipes| match pipes.all.get_mut(&self.end.id) {
                Some(pipe) if pipe.read => {
                    let got = pipe.pop(self.most);
                    Ok(if got.is_empty() && !pipe.written { None } else { Some(got) })
                }
                Some(_) | None => Err(raised("pipe_recv: this end is closed")),
            })?;
            let Some(got) = got else { return Ok(Next::Done(Value::Nothing)) };
            if !got.is_empty() {
                ctx.charge(got.len() as u64 / 32 + 1)?;
                return Ok(Next::Done(Value::bytes(got)));
            }
            match self.wait.look(ctx)? {
                Seen::Ready(_) => {}
                Seen::Over => return Ok(Next::Done(Value::bytes(Vec::new()))),
            }
        }
    }
}

fn close(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let Some(end) = args.at(0).as_foreign::<End>().copied() else {
        return Err(args.wrong(0, "an end of a pipe"));
    };
    let was_open = with(ctx.core, |pipes| {
        let Some(pipe) = pipes.all.get_mut(&end.id) else { return false };
        let open = if end.side == Side::Reader { &mut pipe.read } else { &mut pipe.written };
        let was_open = std::mem::replace(open, false);
        // Nobody will read what waits.
        if !pipe.read {
            heap::shrink(pipe.waiting.capacity());
            pipe.waiting = VecDeque::new();
        }
        if !pipe.read && !pipe.written {
            pipes.all.remove(&end.id);
        }
        was_open
    });
    Ok(was_open.into())
}
