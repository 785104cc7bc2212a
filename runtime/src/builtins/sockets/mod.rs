//! Connections that a program keeps: `tcp_*` and `ws_*`.
//!
//! ```text
//! tcp_send(c, …) ── gate ──▶ broker: number? ──▶ a process for this connection: guard, TLS, socket ──▶ network
//! ```
//!
//! The socket and its TLS are outside; what is spoken over it, WebSockets too, is read and written here, in the jail.
//!
//! Invariant: the gate is asked for host and port before a connection is made, and again at each use: a handle gives no right to
//! an agent or inside a `sandbox`. The supervisor asks the ceiling as well.
//! Invariant: nothing waits but a [`Wait`]; a connection, its bytes and its messages are bounded.

mod frame;
mod link;
mod websocket;

pub(super) use link::allowed;
pub(super) use websocket::ready;

use super::waiting::{self, DEFAULT_WAIT, Seen, Source, Wait};
use super::{Args, Builtin, Cost, Ctx, Next, Resume, pipes};
use crate::vm::other::Foreign;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use policies::broker::MOST_PIECE;
use policies::capability::Capability;
use policies::connection::{Connect, Security};
use policies::fetch::LONGEST_MS;
use policies::process::{Awaited, What};
use policies::scope::Host;

const WHY: &str = super::stubs::SOCKETS;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("tcp_connect", &["host", "port", "timeout", "tls"], 2, connect)
        .named(4)
        .cost(Cost::Own)
        .native(WHY),
    Builtin::calls("tcp_send", &["connection", "data", "timeout"], 2, send).named(3).native(WHY),
    Builtin::calls("tcp_recv", &["connection", "most", "timeout"], 1, receive).named(3).native(WHY),
    Builtin::new("tcp_close_send", &["connection"], 1, close_send).cost(Cost::Flat).native(WHY),
    Builtin::new("tcp_close", &["connection"], 1, close).cost(Cost::Flat).native(WHY),
    Builtin::calls("ws_connect", &["url", "headers", "timeout"], 1, websocket::connect).named(3).native(WHY),
    Builtin::calls("ws_send", &["websocket", "data", "timeout"], 2, websocket::send).named(3).native(WHY),
    Builtin::calls("ws_recv", &["websocket", "timeout"], 1, websocket::receive).named(2).native(WHY),
    Builtin::new("ws_status", &["websocket"], 1, websocket::status).cost(Cost::Flat).native(WHY),
    Builtin::new("ws_close", &["websocket", "code", "reason"], 1, websocket::close)
        .named(3)
        .cost(Cost::Flat)
        .native(WHY),
];

/// What a handle stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connection,
    Websocket,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Websocket => "websocket",
        }
    }
}

/// The program's handle of one.
struct Handle {
    number: u32,
    kind: Kind,
    /// Host and port, as they were asked for.
    target: String,
    /// The address at the other end.
    peer: String,
    /// What a WebSocket's server has chosen of the protocols that were offered.
    protocol: Option<String>,
}

impl Foreign for Handle {
    fn type_name(&self) -> &'static str {
        self.kind.name()
    }

    fn render(&self) -> String {
        format!("{}({})", self.kind.name(), self.target)
    }

    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|other| other.number == self.number)
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "peer" => Some(Value::text(&self.peer)),
            "protocol" if self.kind == Kind::Websocket => {
                Some(self.protocol.as_deref().map_or(Value::Nothing, Value::text))
            }
            _ => None,
        }
    }

    fn any(&self) -> &dyn std::any::Any {
        self
    }
}

/// What a value can be waited for as, if it is one of these.
pub(super) fn source(value: &Value) -> Option<Source> {
    let handle = value.as_foreign::<Handle>()?;
    Some(match handle.kind {
        Kind::Connection => Source::Connection(Awaited { number: handle.number, what: What::Arrival }),
        Kind::Websocket => Source::Websocket(handle.number),
    })
}

/// The number and name of the one that is meant, if it may be used here.
fn target(ctx: &mut Ctx<'_>, args: &Args<'_>, kind: Kind) -> Result<(u32, String), Fault> {
    let expected = match kind {
        Kind::Connection => "a connection",
        Kind::Websocket => "a websocket",
    };
    let handle = args.at(0).as_foreign::<Handle>().filter(|handle| handle.kind == kind);
    let handle = handle.ok_or_else(|| args.wrong(0, expected))?;
    let (number, name) = (handle.number, handle.target.clone());
    allowed(ctx, number)?;
    Ok((number, name))
}

/// The same, to close it: `None` if it is closed already.
fn closing(ctx: &mut Ctx<'_>, args: &Args<'_>, kind: Kind) -> Result<Option<u32>, Fault> {
    let number = args.at(0).as_foreign::<Handle>().map(|handle| handle.number);
    let known = |number: &u32| link::with(ctx.core, |all| all.contains_key(number));
    match number {
        Some(number) if !known(&number) => Ok(None),
        Some(_) | None => target(ctx, args, kind).map(|(number, _)| Some(number)),
    }
}

/// The seconds of argument `i` and the same in milliseconds, for what is not there yet.
fn timeout(args: &Args<'_>, i: usize) -> Result<(f64, u64), Fault> {
    let seconds = if args.optional(i).is_some() { args.float(i)? } else { DEFAULT_WAIT };
    if seconds > 0.0 && seconds * 1000.0 <= LONGEST_MS as f64 {
        return Ok((seconds, (seconds * 1000.0).ceil() as u64));
    }
    let most = LONGEST_MS / 1000;
    Err(raised(format!("{}: a timeout is more than 0 seconds and at most {most}", args.name)))
}

fn connect(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let host = Host::parse(args.text(0)?).map_err(|_| {
        let got = crate::vm::render::inside(args.at(0));
        raised(format!("tcp_connect expects a host (a name or an address, without a port), got {got}"))
    })?;
    let port = match u16::try_from(args.int(1, "the port")?) {
        Ok(port @ 1..) => port,
        Ok(0) | Err(_) => return Err(raised("tcp_connect: a port is from 1 to 65535")),
    };
    let (_, timeout_ms) = timeout(args, 2)?;
    let security = if args.flag(3) { Security::Tls } else { Security::Plain };
    let target = format!("{host}:{port}");
    ctx.ask(Capability::Net, Some(&target))?;
    let wanted = Connect { host: host.to_string(), port, security, timeout_ms };
    let (number, peer) =
        link::connect(ctx, target.clone(), wanted).map_err(|no| no.raised("tcp_connect", &target))?;
    Ok(Value::foreign(Handle { number, kind: Kind::Connection, target, peer, protocol: None }))
}

/// Bytes on their way.
struct Send {
    number: u32,
    name: String,
    bytes: Vec<u8>,
    sent: usize,
    wait: Wait,
}

fn send(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let (number, name) = target(ctx, args, Kind::Connection)?;
    let bytes = pipes::data(args, 1)?;
    let seconds = waiting::seconds(args, 2, DEFAULT_WAIT)?;
    ctx.charge(bytes.len() as u64 / 32)?;
    let wait = Wait::new(vec![Source::Connection(Awaited { number, what: What::Outlet })], seconds);
    Ok(Box::new(Send { number, name, bytes, sent: 0, wait }))
}

impl Resume for Send {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            let rest = self.bytes.get(self.sent..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(Next::Done(Value::from(self.sent)));
            }
            let piece = rest.get(..MOST_PIECE).unwrap_or(rest);
            let taken =
                link::send(ctx, self.number, piece).map_err(|no| no.raised("tcp_send", &self.name))?;
            self.sent += taken;
            if taken == 0
                && let Seen::Over = self.wait.look(ctx)?
            {
                return Ok(Next::Done(Value::from(self.sent)));
            }
        }
    }
}

/// Waits for bytes.
struct Receive {
    number: u32,
    name: String,
    most: u32,
    wait: Wait,
}

fn receive(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let (number, name) = target(ctx, args, Kind::Connection)?;
    let largest = MOST_PIECE as u32;
    let most = match args.optional(1) {
        None => largest,
        Some(_) => match u32::try_from(args.int(1, "the number of bytes")?) {
            // More than a message carries: what is there comes in pieces all the same.
            Ok(most @ 1..) => most.min(largest),
            Ok(0) | Err(_) => return Err(raised("tcp_recv: the number of bytes must be above 0")),
        },
    };
    let seconds = waiting::seconds(args, 2, DEFAULT_WAIT)?;
    let wait = Wait::new(vec![Source::Connection(Awaited { number, what: What::Arrival })], seconds);
    Ok(Box::new(Receive { number, name, most, wait }))
}

impl Resume for Receive {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            let (bytes, ended) =
                link::receive(ctx, self.number, self.most).map_err(|no| no.raised("tcp_recv", &self.name))?;
            if !bytes.is_empty() {
                return Ok(Next::Done(Value::bytes(bytes)));
            }
            if ended {
                return Ok(Next::Done(Value::Nothing));
            }
            if let Seen::Over = self.wait.look(ctx)? {
                return Ok(Next::Done(Value::bytes(Vec::new())));
            }
        }
    }
}

fn close_send(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (number, name) = target(ctx, args, Kind::Connection)?;
    link::end_sending(ctx, number).map_err(|no| no.raised("tcp_close_send", &name))?;
    Ok(Value::Nothing)
}

fn close(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let Some(number) = closing(ctx, args, Kind::Connection)? else { return Ok(false.into()) };
    link::close(ctx, number);
    Ok(true.into())
}
