//! `ws_*`: the greeting over HTTP, then messages.
//!
//! What has come is read up to one message that waits; the rest stays in the sockets, and the server with it.
//!
//! Source: RFC 6455 sections 4.1 (a client's greeting), 5.5 (pings are answered, the last one suffices), 7.1 (closing).

use super::frame::{Heard, MOST, Opcode, Reader, Wrong, written};
use super::link::{self, Kept, No, with};
use super::{Handle, Kind, closing, target, timeout};
use crate::builtins::waiting::{self, DEFAULT_WAIT, Seen, Source, Wait};
use crate::builtins::{Args, Ctx, Next, Resume, http, pipes};
use crate::partition::heap;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use crate::web::{self, Naming};
use data_encoding::BASE64;
use policies::broker::MOST_PIECE;
use policies::capability::Capability;
use policies::connection::{Connect, Security};
use policies::fetch::{Aim, MOST_FIELD_BYTES, MOST_FIELDS, unfit};
use policies::process::{Awaited, What};
use sha1::{Digest, Sha1};

/// What a server joins to a key before it hashes it (section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// Largest head of the answer to a greeting.
const MOST_HEAD: usize = 16 << 10;
/// Fields of it.
const MOST_ANSWERED: usize = 64;
/// Pieces that are read at once, before clocks and limits are looked at again.
const PIECES: usize = 16;
/// Bytes of answers to pings that wait for a server that doesn't read: more are left out.
const MOST_WAITING: usize = 16 << 10;

/// What is spoken over one connection.
#[derive(Default)]
pub(super) struct Socket {
    reader: Reader,
    /// A message that nobody has taken yet.
    message: Option<Heard>,
    /// What isn't sent yet.
    outgoing: Vec<u8>,
    /// This side has said that it closes.
    closing: bool,
    /// The other side has: its code and reason.
    ended: Option<(Option<u16>, String)>,
    /// Why nothing more can come.
    broken: Option<String>,
    /// Bytes that the partition's meter knows of.
    counted: usize,
}

impl Socket {
    fn count(&mut self) {
        let waits = match &self.message {
            Some(Heard::Text(text)) => text.capacity(),
            Some(Heard::Binary(bytes)) => bytes.capacity(),
            Some(Heard::Ping(_) | Heard::Close(..)) | None => 0,
        };
        let now = self.reader.size() + self.outgoing.capacity() + waits;
        heap::resize(self.counted, now);
        self.counted = now;
    }

    fn is_over(&self) -> bool {
        self.ended.is_some() || self.broken.is_some()
    }

    fn put(&mut self, opcode: Opcode, content: &[u8], mask: [u8; 4]) {
        self.outgoing.extend_from_slice(&written(opcode, content, mask));
    }

    /// What can be made of what has come; whether anything was.
    fn hear(&mut self, mask: [u8; 4]) -> bool {
        if self.message.is_some() || self.is_over() {
            return false;
        }
        match self.reader.next() {
            Ok(None) => return false,
            Ok(Some(Heard::Ping(content))) => {
                if self.outgoing.len() < MOST_WAITING {
                    self.put(Opcode::Pong, &content, mask);
                }
            }
            Ok(Some(Heard::Close(code, reason))) => {
                if !self.closing {
                    let content = code.map_or_else(Vec::new, |code| code.to_be_bytes().to_vec());
                    self.put(Opcode::Close, &content, mask);
                    self.closing = true;
                }
                self.ended = Some((code, reason));
            }
            Ok(Some(message)) => self.message = Some(message),
            Err(Wrong { code, why }) => {
                if !self.closing {
                    self.put(Opcode::Close, &code.to_be_bytes(), mask);
                    self.closing = true;
                }
                self.broken = Some(why.to_owned());
            }
        }
        true
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        heap::shrink(self.counted);
    }
}

/// The socket of a number; one that was closed meanwhile says so.
fn socket<T>(ctx: &Ctx<'_>, number: u32, f: impl FnOnce(&mut Socket) -> T) -> Result<T, Fault> {
    let of = |kept: &mut Kept| kept.socket.as_mut().map(f);
    with(ctx.core, |all| all.get_mut(&number).and_then(of))
        .ok_or_else(|| raised(format!("{}: this websocket is closed", ctx.name)))
}

fn mask(ctx: &mut Ctx<'_>) -> [u8; 4] {
    let mut mask = [0; 4];
    ctx.core.host.random(&mut mask);
    mask
}

/// Sends what waits; whether all of it went.
fn flush(ctx: &mut Ctx<'_>, number: u32) -> Result<bool, Fault> {
    loop {
        let piece = socket(ctx, number, |socket| {
            let piece = socket.outgoing.get(..MOST_PIECE).unwrap_or(&socket.outgoing);
            piece.to_vec()
        })?;
        if piece.is_empty() {
            return Ok(true);
        }
        match link::send(ctx, number, &piece) {
            Ok(0) => return Ok(false),
            Ok(taken) => socket(ctx, number, |socket| {
                socket.outgoing.drain(..taken);
                socket.count();
            })?,
            Err(No::Fault(fault)) => return Err(fault),
            Err(No::Why(why)) => {
                return socket(ctx, number, |socket| {
                    socket.outgoing = Vec::new();
                    // What the other side said before stays.
                    if !socket.is_over() {
                        socket.broken = Some(why);
                    }
                    socket.count();
                    true
                });
            }
        }
    }
}

/// Reads on until a message is there, everything was read, or it was long enough.
fn pump(ctx: &mut Ctx<'_>, number: u32) -> Result<(), Fault> {
    flush(ctx, number)?;
    for _ in 0..PIECES {
        loop {
            let mask = mask(ctx);
            let heard = socket(ctx, number, |socket| {
                let heard = socket.hear(mask);
                socket.count();
                heard
            })?;
            if !heard {
                break;
            }
            ctx.charge(1)?;
        }
        flush(ctx, number)?;
        if socket(ctx, number, |socket| socket.message.is_some() || socket.is_over())? {
            return Ok(());
        }
        let (bytes, ended) = match link::receive(ctx, number, MOST_PIECE as u32) {
            Ok(piece) => piece,
            Err(No::Fault(fault)) => return Err(fault),
            Err(No::Why(why)) => return socket(ctx, number, |socket| socket.broken = Some(why)),
        };
        if ended {
            let why = "the connection ended without a close frame".to_owned();
            return socket(ctx, number, |socket| socket.broken = Some(why));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        ctx.reserve(bytes.len() * 2)?;
        socket(ctx, number, |socket| socket.reader.push(&bytes))?;
    }
    Ok(())
}

/// Whether a receiver wouldn't wait.
pub(in crate::builtins) fn ready(ctx: &mut Ctx<'_>, number: u32) -> Result<bool, Fault> {
    if with(ctx.core, |all| !all.contains_key(&number)) {
        return Ok(true);
    }
    pump(ctx, number)?;
    socket(ctx, number, |socket| socket.message.is_some() || socket.is_over())
}

/// A greeting that isn't answered yet.
struct Greeting {
    number: u32,
    target: String,
    peer: String,
    key: String,
    protocols: Vec<String>,
    outgoing: Vec<u8>,
    answer: Vec<u8>,
    wait: Wait,
}

pub(super) fn connect(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let url = args.text(0)?;
    let unusable = |why: &str| raised(format!("ws_connect: the URL can't be used: {why}"));
    let plain = match (url.strip_prefix("wss://"), url.strip_prefix("ws://")) {
        (Some(rest), _) => format!("https://{rest}"),
        (None, Some(rest)) => format!("http://{rest}"),
        (None, None) => return Err(unusable("it starts with ws:// or wss://")),
    };
    ctx.charge(plain.len() as u64 / 32)?;
    let aim = Aim::parse(&plain).map_err(unusable)?;
    let fields = fields(args)?;
    let (seconds, timeout_ms) = timeout(args, 2)?;
    let check = web::target(ctx, &aim, Naming::Host);
    ctx.ask(Capability::Net, Some(&check))?;
    let mut key = [0; 16];
    ctx.core.host.random(&mut key);
    let key = BASE64.encode(&key);
    let mut head = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n\
         Sec-WebSocket-Version: 13\r\n",
        aim.path,
        aim.authority()
    );
    let mut protocols = Vec::new();
    for (name, value) in &fields {
        if name.eq_ignore_ascii_case("sec-websocket-protocol") {
            protocols.extend(value.split(',').map(|one| one.trim().to_owned()));
        }
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let security = if aim.tls { Security::TlsForHttp } else { Security::Plain };
    let (host, port) = (aim.target.host.to_string(), aim.target.port);
    let target = format!("{host}:{port}");
    let began = ctx.core.host.now();
    let (number, peer) = link::connect(ctx, check, Connect { host, port, security, timeout_ms })
        .map_err(|no| no.raised("ws_connect", &target))?;
    let left = (seconds - (ctx.core.host.now() - began)).clamp(0.001, seconds);
    let wait = Wait::new(vec![Source::Connection(Awaited { number, what: What::Arrival })], left);
    Ok(Box::new(Greeting {
        number,
        target,
        peer,
        key,
        protocols,
        outgoing: head.into_bytes(),
        answer: Vec::new(),
        wait,
    }))
}

/// The fields of a greeting.
fn fields(args: &Args<'_>) -> Result<Vec<(String, String)>, Fault> {
    let fields = web::pairs(&http::fields(args, 1)?);
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    let own = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.starts_with("sec-websocket-") && name != "sec-websocket-protocol"
    };
    let why = match fields.iter().find(|(name, _)| own(name)) {
        Some((name, _)) => Some(format!("the header {name} can't be set: it is part of the greeting")),
        None if fields.len() > MOST_FIELDS || bytes > MOST_FIELD_BYTES => {
            Some(format!("more than {MOST_FIELDS} headers, or {MOST_FIELD_BYTES} bytes of them"))
        }
        None => unfit("GET", &fields),
    };
    match why {
        Some(why) => Err(raised(format!("ws_connect: {why}"))),
        None => Ok(fields),
    }
}

impl Greeting {
    /// Sends what can be sent and reads what is there; the length of the answer's head, once it is whole and right.
    fn go_on(&mut self, ctx: &mut Ctx<'_>) -> Result<Option<(usize, Option<String>)>, No> {
        while !self.outgoing.is_empty() {
            let piece = self.outgoing.get(..MOST_PIECE).unwrap_or(&self.outgoing);
            match link::send(ctx, self.number, piece)? {
                0 => break,
                taken => drop(self.outgoing.drain(..taken)),
            }
        }
        loop {
            let (bytes, ended) = link::receive(ctx, self.number, MOST_HEAD as u32)?;
            if bytes.is_empty() && !ended {
                return Ok(None);
            }
            self.answer.extend_from_slice(&bytes);
            match judge(&self.answer, &self.key, &self.protocols) {
                Ok(None) if ended => {
                    return Err(No::Why(
                        "the server has closed the connection in place of a greeting".to_owned(),
                    ));
                }
                Ok(None) if self.answer.len() > MOST_HEAD => {
                    return Err(No::Why("an answer whose head has more than 16 KiB".to_owned()));
                }
                Ok(None) => {}
                Ok(right) => return Ok(right),
                Err(why) => return Err(No::Why(why)),
            }
        }
    }
}

/// Whether an answer is the one to our greeting: the length of its head, and the protocol that was chosen; `None`: it isn't whole.
fn judge(answer: &[u8], key: &str, protocols: &[String]) -> Result<Option<(usize, Option<String>)>, String> {
    let mut space = [httparse::EMPTY_HEADER; MOST_ANSWERED];
    let mut read = httparse::Response::new(&mut space);
    let length = match read.parse(answer) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(length)) => length,
        Err(error) => return Err(format!("the answer is no HTTP: {error}")),
    };
    let status = read.code.unwrap_or(0);
    if status != 101 {
        let hint = if (300..400).contains(&status) { "; redirects are not followed" } else { "" };
        return Err(format!("the server speaks no WebSocket here: status {status}{hint}"));
    }
    let all = |name: &'static str| {
        let of_name = read.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        of_name.map(|field| std::str::from_utf8(field.value).unwrap_or("?").trim())
    };
    let has = |name: &'static str, word: &str| {
        all(name).flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    let hash = BASE64.encode(&Sha1::digest(format!("{key}{GUID}").as_bytes()));
    let accepts: Vec<&str> = all("sec-websocket-accept").collect();
    if !has("upgrade", "websocket") || !has("connection", "upgrade") || accepts != [hash.as_str()] {
        return Err("the server's greeting doesn't fit to ours".to_owned());
    }
    if all("sec-websocket-extensions").any(|value| !value.is_empty()) {
        return Err("the server wants an extension that nobody asked for".to_owned());
    }
    let chosen: Vec<&str> = all("sec-websocket-protocol").collect();
    match chosen.as_slice() {
        [] => Ok(Some((length, None))),
        [one] if protocols.iter().any(|known| known == one) => Ok(Some((length, Some((*one).to_owned())))),
        _ => Err("the server speaks a protocol that nobody asked for".to_owned()),
    }
}

impl Resume for Greeting {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            match self.go_on(ctx) {
                Ok(Some((length, protocol))) => {
                    let mut socket = Socket::default();
                    socket.reader.push(self.answer.get(length..).unwrap_or_default());
                    socket.count();
                    with(ctx.core, |all| {
                        if let Some(kept) = all.get_mut(&self.number) {
                            kept.socket = Some(socket);
                        }
                    });
                    return Ok(Next::Done(Value::foreign(Handle {
                        number: self.number,
                        kind: Kind::Websocket,
                        target: self.target.clone(),
                        peer: self.peer.clone(),
                        protocol,
                    })));
                }
                Ok(None) => {}
                Err(no) => {
                    link::close(ctx, self.number);
                    return Err(no.raised("ws_connect", &self.target));
                }
            }
            if let Seen::Over = self.wait.look(ctx)? {
                link::close(ctx, self.number);
                return Err(raised(format!("ws_connect: {}: timeout: no greeting came", self.target)));
            }
        }
    }
}

/// A message on its way.
struct Send {
    number: u32,
    name: String,
    length: usize,
    wait: Wait,
}

pub(super) fn send(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let (number, name) = target(ctx, args, Kind::Websocket)?;
    let bytes = pipes::data(args, 1)?;
    let seconds = waiting::seconds(args, 2, DEFAULT_WAIT)?;
    if bytes.len() > MOST {
        return Err(raised("ws_send: a message of more than 16 MiB"));
    }
    ctx.charge(bytes.len() as u64 / 16)?;
    ctx.reserve(bytes.len() * 2)?;
    let opcode = if args.at(1).as_bytes().is_some() { Opcode::Binary } else { Opcode::Text };
    let mask = mask(ctx);
    let why = socket(ctx, number, |socket| {
        let why = match &socket.broken {
            Some(why) => Some(why.clone()),
            None if socket.closing || socket.ended.is_some() => {
                Some("the other side has closed it".to_owned())
            }
            None if !socket.outgoing.is_empty() && socket.outgoing.len() > MOST_WAITING => {
                Some("another message is on its way".to_owned())
            }
            None => None,
        };
        if why.is_none() {
            socket.put(opcode, &bytes, mask);
            socket.count();
        }
        why
    })?;
    if let Some(why) = why {
        return Err(raised(format!("ws_send: {name}: {why}")));
    }
    let wait = Wait::new(vec![Source::Connection(Awaited { number, what: What::Outlet })], seconds);
    Ok(Box::new(Send { number, name, length: bytes.len(), wait }))
}

impl Resume for Send {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            if flush(ctx, self.number)? {
                let broken = socket(ctx, self.number, |socket| socket.broken.clone())?;
                return match broken {
                    Some(why) => Err(raised(format!("ws_send: {}: {why}", self.name))),
                    None => Ok(Next::Done(Value::from(self.length))),
                };
            }
            if let Seen::Over = self.wait.look(ctx)? {
                // A part of a message is worth nothing, and nothing could follow it.
                link::close(ctx, self.number);
                let why = "timeout: the other side doesn't read; the websocket is closed";
                return Err(raised(format!("ws_send: {}: {why}", self.name)));
            }
        }
    }
}

/// Waits for a message.
struct Receive {
    number: u32,
    name: String,
    wait: Wait,
}

pub(super) fn receive(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let (number, name) = target(ctx, args, Kind::Websocket)?;
    let seconds = waiting::seconds(args, 1, DEFAULT_WAIT)?;
    Ok(Box::new(Receive { number, name, wait: Wait::new(vec![Source::Websocket(number)], seconds) }))
}

impl Resume for Receive {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        let given =
            |kind: Value, data: Value| Ok(Next::Done(Value::record([("kind", kind), ("data", data)])));
        if let Seen::Over = self.wait.look(ctx)? {
            return given(Value::Nothing, Value::text(""));
        }
        let (message, broken) = socket(ctx, self.number, |socket| {
            let message = socket.message.take();
            socket.count();
            (message, socket.broken.clone())
        })?;
        match (message, broken) {
            (Some(Heard::Text(text)), _) => given(Value::text("text"), Value::string(text)),
            (Some(Heard::Binary(bytes)), _) => given(Value::text("binary"), Value::bytes(bytes)),
            (Some(Heard::Ping(_) | Heard::Close(..)) | None, None) => Ok(Next::Done(Value::Nothing)),
            (_, Some(why)) => Err(raised(format!("ws_recv: {}: {why}", self.name))),
        }
    }
}

pub(super) fn status(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let of = |state: &str, code: Option<u16>, reason: &str| {
        Value::record([
            ("state", Value::text(state)),
            ("code", code.map_or(Value::Nothing, |code| Value::Int(i64::from(code)))),
            ("reason", Value::text(reason)),
        ])
    };
    let Some(number) = closing(ctx, args, Kind::Websocket)? else { return Ok(of("closed", None, "")) };
    socket(ctx, number, |socket| match (&socket.ended, &socket.broken) {
        (Some((code, reason)), _) => of("ended", *code, reason),
        (None, Some(why)) => of("broken", None, why),
        (None, None) => of("open", None, ""),
    })
}

pub(super) fn close(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let code = match args.optional(1) {
        None => 1000,
        Some(_) => match args.int(1, "the code")? {
            code @ (1000 | 3000..=4999) => code as u16,
            _ => return Err(raised("ws_close: a code is 1000, or from 3000 to 4999")),
        },
    };
    let reason = if args.optional(2).is_some() { args.text(2)?.to_owned() } else { String::new() };
    if reason.len() > 123 {
        return Err(raised("ws_close: a reason has 123 bytes at most"));
    }
    let Some(number) = closing(ctx, args, Kind::Websocket)? else { return Ok(false.into()) };
    let mask = mask(ctx);
    socket(ctx, number, |socket| {
        if !socket.closing {
            socket.put(Opcode::Close, &[&code.to_be_bytes()[..], reason.as_bytes()].concat(), mask);
            socket.closing = true;
        }
    })?;
    // What doesn't go at once never will: the other side may be gone, or not read any more.
    flush(ctx, number)?;
    link::close(ctx, number);
    Ok(true.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

    fn answer(fields: &str) -> String {
        format!(
            "HTTP/1.1 101 Switching\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n{fields}\r\n"
        )
    }

    #[test]
    fn the_answer_to_a_greeting_is_the_one_of_the_standard() {
        let protocols = ["a".to_owned(), "b".to_owned()];
        let right = answer("");
        for length in 0..right.len() {
            assert_eq!(judge(&right.as_bytes()[..length], KEY, &[]), Ok(None), "{length}");
        }
        assert_eq!(judge(format!("{right}and more").as_bytes(), KEY, &[]), Ok(Some((right.len(), None))));
        let chosen = answer("Sec-WebSocket-Protocol: b\r\n");
        let wanted = Ok(Some((chosen.len(), Some("b".to_owned()))));
        assert_eq!(judge(chosen.as_bytes(), KEY, &protocols), wanted);
        for (text, why) in [
            (chosen.clone(), "protocol"),
            (answer("Sec-WebSocket-Extensions: permessage-deflate\r\n"), "extension"),
            (answer("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "fit"),
            (right.replace("s3p", "S3p"), "fit"),
            (right.replace("Upgrade: WebSocket\r\n", ""), "fit"),
            (right.replace("101", "200"), "status 200"),
            (right.replace("101", "302"), "redirects are not followed"),
            ("SSH-2.0-x\r\n\r\n".to_owned(), "no HTTP"),
        ] {
            assert!(judge(text.as_bytes(), KEY, &[]).unwrap_err().contains(why), "{text}");
        }
    }
}
