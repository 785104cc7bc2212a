//! What a program sends first, held until it is known to name nobody but who was granted.
//!
//! By its first bytes a connection is TLS, HTTP/1 or, on other ports than the web's, something else. TLS is looked at
//! until no second hello can follow, HTTP for as long as it lasts, since each request names a host anew. Anything else
//! carries no name that a shared front server would follow, and passes behind its first line.
//!
//! Invariant: a byte is passed on only after everything up to the end of its hello or head was checked.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{
    http::{self, Aim, Body, Chunks, Upgrade},
    limits,
    opening::{self, Line, Opening, Passed, Port},
    tls::{self, Early, Read},
};
use policies::scope::Host;

/// Why a connection ends: a sentence for the audit.
pub(super) type Reason = String;

/// What is being sent.
#[derive(Debug)]
enum State {
    /// Not known yet.
    First(Port),
    /// No text, in its first line.
    Binary(Line),
    /// A hello, in part.
    Hello,
    /// Behind a hello: a second one may follow (RFC 8446 section 4.1.4).
    AfterHello(Hellos),
    /// In a record behind a hello, so many bytes before its end.
    Record {
        left: usize,
        hellos: Hellos,
    },
    /// In the head of a request; how many came before.
    Head {
        before: u64,
    },
    /// In the body of one.
    Body {
        left: u64,
        before: u64,
    },
    Chunks {
        chunks: Chunks,
        before: u64,
    },
    /// A request asked for another protocol; what the server says decides.
    Switch {
        websocket: bool,
    },
    /// Nothing more is taken: a proxy's request is alone on its connection.
    Done,
    /// Nothing is looked at.
    Opaque,
}

/// The hellos that have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hellos {
    count: u8,
    early: Early,
}

/// The watch over one connection's first direction.
#[derive(Debug)]
pub(super) struct Guard {
    state: State,
    held: Vec<u8>,
    /// Whether one request is all.
    single: bool,
    /// Whether there was more behind it.
    more: bool,
}

/// What may be named, and whether having no name is fine.
pub(super) struct Names<'a> {
    pub(super) may_name: &'a dyn Fn(&Host) -> bool,
    /// An address was opened, which TLS doesn't name.
    pub(super) by_address: bool,
}

impl Guard {
    /// For a connection on which every name is granted.
    pub(super) fn opaque() -> Self {
        Self { state: State::Opaque, held: Vec::new(), single: false, more: false }
    }

    /// For a connection to that port.
    pub(super) fn new(port: u16) -> Self {
        Self { state: State::First(Port::of(port)), held: Vec::new(), single: false, more: false }
    }

    /// Behind a proxy request's head.
    pub(super) fn behind_proxy_head(body: Body) -> Self {
        Self { state: State::of_body(body, 1), held: Vec::new(), single: true, more: false }
    }

    /// Whether bytes need not come by here any more.
    pub(super) fn is_opaque(&self) -> bool {
        matches!(self.state, State::Opaque) && self.held.is_empty()
    }

    /// Whether nothing more will be passed on.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether something came behind the one request that is carried.
    pub(super) fn has_more(&self) -> bool {
        self.more
    }

    /// Whether the server's first words are waited for.
    pub(super) fn awaits_switch(&self) -> bool {
        matches!(self.state, State::Switch { .. })
    }

    /// Whether something is held back whose end should not be long in coming.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty() && !self.awaits_switch()
    }

    /// Whether so much is held that reading on would only fill memory.
    pub(super) fn is_full(&self) -> bool {
        self.held.len() > limits::HEAD_BYTES
    }

    /// Takes what the program sent and puts into `out` what may go on.
    ///
    /// # Errors
    /// Why the connection must end.
    pub(super) fn take(&mut self, bytes: &[u8], names: &Names<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
        self.held.extend_from_slice(bytes);
        while self.step(names, out)? {}
        Ok(())
    }

    /// The server's first words, at least twelve bytes of them or all that there are.
    pub(super) fn answered(
        &mut self,
        first: &[u8],
        names: &Names<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Reason> {
        let State::Switch { websocket } = self.state else { return Ok(()) };
        let switched = first.get(8..12).is_some_and(|status| status == b" 101");
        self.state = match (switched, websocket) {
            (true, true) => State::Opaque,
            (true, false) => return Err("the server switched to a protocol that can't be checked".into()),
            (false, _) => State::Head { before: 1 },
        };
        self.take(&[], names, out)
    }

    /// The program has ended its side: a first line that ends with it may go, if it may go at all.
    ///
    /// # Errors
    /// Why the connection must end.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        let State::First(port) = self.state else { return Ok(()) };
        let line = [&self.held[..], b"\n"].concat();
        match opening::judge(&line, port)? {
            Opening::Text => out.append(&mut self.held),
            // Empty lines, or what belongs to a hello or head that isn't whole: nobody needs it.
            Opening::More | Opening::Hello | Opening::Request { .. } | Opening::Binary => {}
        }
        Ok(())
    }

    fn pass(&mut self, length: usize, out: &mut Vec<u8>) {
        out.extend(self.held.drain(..length.min(self.held.len())));
    }

    /// Whether something was decided, so that there may be more to decide.
    fn step(&mut self, names: &Names<'_>, out: &mut Vec<u8>) -> Result<bool, Reason> {
        match &mut self.state {
            State::Opaque => {
                out.append(&mut self.held);
                Ok(false)
            }
            State::Done => {
                // Some clients end a body with a line break that is no part of it (RFC 9112 section 2.2).
                self.more |= self.held.iter().any(|byte| !matches!(byte, b'\r' | b'\n'));
                self.held.clear();
                Ok(false)
            }
            State::Switch { .. } => Ok(false),
            State::First(port) => {
                let port = *port;
                self.first(port)
            }
            State::Binary(line) => {
                let passed = line.take(&self.held)?;
                self.pass(self.held.len(), out);
                if passed == Passed::Whole {
                    self.state = State::Opaque;
                }
                Ok(false)
            }
            State::Hello => self.hello(names, out, 1),
            State::AfterHello(hellos) => {
                let hellos = *hellos;
                self.after_hello(names, out, hellos)
            }
            State::Record { left, hellos } => {
                let here = (*left).min(self.held.len());
                *left = left.saturating_sub(here);
                let (ended, hellos) = (*left == 0, *hellos);
                self.pass(here, out);
                if ended {
                    self.state = State::AfterHello(hellos);
                }
                Ok(ended)
            }
            State::Head { before } => {
                let before = *before;
                self.head(names, out, before)
            }
            State::Body { left, before } => {
                let here = usize::try_from(*left).unwrap_or(usize::MAX).min(self.held.len());
                *left = left.saturating_sub(here as u64);
                let (ended, before) = (*left == 0, *before);
                self.pass(here, out);
                if ended {
                    self.state = self.next(before);
                }
                Ok(ended)
            }
            State::Chunks { chunks, before } => {
                let here = chunks.take(&self.held)?;
                let (ended, before) = (*chunks == Chunks::End, *before);
                self.pass(here, out);
                if ended {
                    self.state = self.next(before);
                }
                Ok(ended)
            }
        }
    }

    fn next(&self, before: u64) -> State {
        if self.single { State::Done } else { State::Head { before } }
    }

    fn first(&mut self, port: Port) -> Result<bool, Reason> {
        self.state = match opening::judge(&self.held, port)? {
            Opening::More => return Ok(false),
            Opening::Hello => State::Hello,
            Opening::Request { blank } => {
                self.held.drain(..blank);
                State::Head { before: 0 }
            }
            Opening::Text => State::Opaque,
            Opening::Binary => State::Binary(Line::default()),
        };
        Ok(true)
    }

    fn hello(&mut self, names: &Names<'_>, out: &mut Vec<u8>, count: u8) -> Result<bool, Reason> {
        match tls::read(&self.held) {
            Read::More => Ok(false),
            Read::Wrong(why) => Err(why.into()),
            Read::Hello(hello, length) => {
                match hello.name {
                    Some(name) if !(names.may_name)(&name) => {
                        return Err(format!("TLS for {name}, which the grant doesn't cover"));
                    }
                    None if !names.by_address => return Err("TLS without a server name".into()),
                    Some(_) | None => {}
                }
                if hello.encrypted {
                    return Err("an encrypted client hello, whose name can't be checked".into());
                }
                self.pass(length, out);
                let hellos = Hellos { count, early: hello.early };
                self.state = if count < 2 { State::AfterHello(hellos) } else { State::Opaque };
                Ok(true)
            }
        }
    }

    /// A server may ask for a second hello. Records that are no part of the handshake may come before it: the
    /// compatibility record, alerts, and early data, which such a server skips (RFC 8446 sections 4.2.10, 5, 6).
    fn after_hello(&mut self, names: &Names<'_>, out: &mut Vec<u8>, hellos: Hellos) -> Result<bool, Reason> {
        let Some([kind, major, _minor, high, low]) = self.held.first_chunk() else { return Ok(false) };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *major != 3 || length == 0 || length > tls::LARGEST_RECORD {
            return Err("a malformed TLS record behind a client hello".into());
        }
        match (*kind, hellos.early) {
            (tls::CHANGE_CIPHER_SPEC | tls::ALERT, _) | (tls::APPLICATION_DATA, Early::Offered) => {
                self.pass(5, out);
                self.state = State::Record { left: length, hellos };
                Ok(true)
            }
            (tls::HANDSHAKE, _) => match self.held.get(5) {
                None => Ok(false),
                Some(&tls::CLIENT_HELLO) => self.hello(names, out, hellos.count.saturating_add(1)),
                Some(_) => {
                    self.state = State::Opaque;
                    Ok(true)
                }
            },
            (tls::APPLICATION_DATA, Early::No) => {
                self.state = State::Opaque;
                Ok(true)
            }
            _ => Err("a TLS record that can't follow a client hello".into()),
        }
    }

    fn head(&mut self, names: &Names<'_>, out: &mut Vec<u8>, before: u64) -> Result<bool, Reason> {
        let Some(length) = http::end_of_head(&self.held) else {
            if self.held.len() > limits::HEAD_BYTES {
                return Err("an HTTP head of more than 64 KiB".into());
            }
            return Ok(false);
        };
        let head = http::read(self.held.get(..length).unwrap_or_default())
            .map_err(|why| format!("an HTTP request with {why}"))?;
        let aimed = match &head.aim {
            Aim::Tunnel(_) => return Err("CONNECT to a host that was not granted as a proxy".into()),
            Aim::Absolute(target, _) => Some(&target.host),
            Aim::Origin(_) => None,
        };
        for name in head.host.iter().chain(aimed) {
            if !(names.may_name)(name) {
                return Err(format!("an HTTP request for {name}, which the grant doesn't cover"));
            }
        }
        if head.host.is_none() && aimed.is_none() && !names.by_address {
            // A server that several hosts share answers such a request for whichever it likes.
            return Err("an HTTP request that names no host".into());
        }
        let count = before.saturating_add(1);
        self.state = match head.upgrade {
            Upgrade::None => State::of_body(head.body, count),
            Upgrade::WebSocket | Upgrade::Other if before > 0 => {
                return Err("a change of protocol on a connection that was used before".into());
            }
            Upgrade::WebSocket | Upgrade::Other if head.body != Body::Length(0) => {
                return Err("a change of protocol in a request with a body".into());
            }
            upgrade => State::Switch { websocket: upgrade == Upgrade::WebSocket },
        };
        self.pass(length, out);
        Ok(true)
    }
}

impl State {
    fn of_body(body: Body, before: u64) -> Self {
        match body {
            // An empty body ends in the next step, which may be the end of all.
            Body::Length(left) => Self::Body { left, before },
            Body::Chunked => Self::Chunks { chunks: Chunks::new(), before },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::tls::tests::{client_hello, records};

    fn run(parts: &[&[u8]], by_address: bool) -> (Result<(), Reason>, Vec<u8>, Guard) {
        run_on(80, parts, by_address)
    }

    fn run_on(port: u16, parts: &[&[u8]], by_address: bool) -> (Result<(), Reason>, Vec<u8>, Guard) {
        let granted = Host::parse("a.example").unwrap();
        let may_name = |name: &Host| *name == granted;
        let names = Names { may_name: &may_name, by_address };
        let (mut guard, mut out) = (Guard::new(port), Vec::new());
        for part in parts {
            if let Err(why) = guard.take(part, &names, &mut out) {
                return (Err(why), out, guard);
            }
        }
        (Ok(()), out, guard)
    }

    fn passes(bytes: &[u8], by_address: bool) -> bool {
        passes_on(80, bytes, by_address)
    }

    fn passes_on(port: u16, bytes: &[u8], by_address: bool) -> bool {
        let whole = run_on(port, &[bytes], by_address);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        let pieces = run_on(port, &single, by_address);
        assert_eq!(whole.0.is_ok(), pieces.0.is_ok(), "{:?} {:?}", whole.0, pieces.0);
        if whole.0.is_ok() {
            assert_eq!((&whole.1, &pieces.1), (&bytes.to_vec(), &bytes.to_vec()));
        }
        whole.0.is_ok()
    }

    #[test]
    fn hellos_must_name_what_was_granted() {
        let hello = |name, extra: &[(u16, &[u8])]| records(&client_hello(name, extra), 50);
        assert!(passes(&hello(Some("A.Example"), &[]), false));
        assert!(!passes(&hello(Some("b.example"), &[]), false));
        assert!(!passes(&hello(None, &[]), false));
        assert!(passes(&hello(None, &[]), true));
        assert!(!passes(&hello(Some("a.example"), &[(0xfe0d, b"x")]), false));
    }

    #[test]
    fn a_second_hello_must_name_it_too() {
        let hello = |name| records(&client_hello(Some(name), &[]), 999);
        let ccs = [20, 3, 3, 0, 1, 1];
        assert!(passes(&[&hello("a.example")[..], &ccs, &hello("a.example"), &[23, 1, 2]].concat(), false));
        assert!(!passes(&[&hello("a.example")[..], &ccs, &hello("b.example")].concat(), false));
        assert!(passes(&[&hello("a.example")[..], &[23, 3, 3, 0, 1, 9]].concat(), false));
    }

    #[test]
    fn every_request_must_name_what_was_granted() {
        let get = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let other = "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\n\r\nabc";
        let chunked =
            "POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
        assert!(passes(format!("{get}{post}{chunked}{get}").as_bytes(), false));
        for first in [get, post, chunked] {
            assert!(!passes(format!("{first}{other}").as_bytes(), false));
        }
        assert!(!passes(b"\r\nGET / HTTP/1.1\r\nHost: b.example\r\n\r\n", false));
        assert!(!passes(b"GET http://b.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", false));
        assert!(!passes(b"get / http/1.1\nhost: b.example\n\n", false));
        assert!(!passes(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false));
        assert!(!passes(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", false));
        assert!(!passes(b"GET / HTTP/1.0\r\n\r\n", false));
        assert!(passes(b"GET / HTTP/1.0\r\n\r\n", true));
    }

    #[test]
    fn other_protocols_pass_on_other_ports() {
        for bytes in [&b"SSH-2.0-x\r\n"[..], b"EHLO me\r\n", b"\0\x01\x02", b"{\"a\": 1}\n", b"SET a b\r\n"] {
            assert!(passes_on(22, bytes, false), "{bytes:?}");
            assert!(!passes_on(80, bytes, false) && !passes_on(443, bytes, true), "{bytes:?}");
        }
        let long = [&b"GET "[..], &[b'x'; 20_000]].concat();
        assert!(!passes_on(22, &long, false));
    }

    #[test]
    fn a_request_that_another_could_hide_behind_is_checked_or_refused() {
        let second = "GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";
        let long = "X".repeat(65);
        for port in [80, 8080] {
            for line in [
                format!("{long} / HTTP/1.1"),
                "GET\x0b/\x0bHTTP/1.1".to_owned(),
                "GET\x0c/ HTTP/1.1".to_owned(),
                " GET / HTTP/1.1".to_owned(),
                "\tGET / HTTP/1.1".to_owned(),
                "GET /x".to_owned(),
            ] {
                let first = format!("{line}\r\nHost: a.example\r\n\r\n");
                let is_request = line.starts_with(&long);
                assert!(!passes_on(port, format!("{first}{second}").as_bytes(), false), "{port} {line:?}");
                assert_eq!(passes_on(port, first.as_bytes(), false), is_request, "{port} {line:?}");
                let other = first.replace("a.example", "b.example");
                assert!(!passes_on(port, other.as_bytes(), false), "{port} {line:?}");
            }
        }
    }

    #[test]
    fn what_ends_in_its_first_line_is_judged_too() {
        for (port, bytes, fine, passed) in [
            (22, &b"QUIT"[..], true, true),
            (22, b"GET /x", false, false),
            (22, b"GET / HTTP/1.1", false, false),
            (22, b"GET / HTTP/1.1\r", true, false),
            (80, b"QUIT", false, false),
            (80, b"\r\n", true, false),
        ] {
            let (done, mut out, mut guard) = run_on(port, &[bytes], false);
            assert!(done.is_ok() && out.is_empty());
            assert_eq!(guard.end(&mut out).is_ok(), fine, "{bytes:?}");
            assert_eq!(!out.is_empty(), passed, "{bytes:?}");
        }
    }

    #[test]
    fn no_record_hides_a_second_hello() {
        let hello = |name, extra: &[(u16, &[u8])]| records(&client_hello(Some(name), extra), 999);
        let (alert, data) = ([21, 3, 3, 0, 2, 1, 0], [23, 3, 3, 0, 3, 22, 3, 1]);
        let early: &[(u16, &[u8])] = &[(42, b"")];
        for (extra, between) in [
            (&[][..], &alert[..]),
            (&[], &[alert, alert].concat()),
            (early, &data),
            (early, &[&data[..], &alert].concat()),
        ] {
            let first = [&hello("a.example", extra)[..], between].concat();
            assert!(passes(&first, false));
            assert!(passes(&[&first[..], &hello("a.example", &[]), &data].concat(), false));
            assert!(!passes(&[&first[..], &hello("b.example", &[])].concat(), false), "{between:?}");
        }
        let first = hello("a.example", &[]);
        for record in [&[22, 3, 3, 0, 0][..], &[24, 3, 3, 0, 1, 1], &[20, 3, 3, 0, 0], &[21, 2, 3, 0, 2]] {
            assert!(!passes(&[&first[..], record].concat(), false), "{record:?}");
        }
        // A key exchange, and data after which a server would take no hello.
        assert!(passes(&[&first[..], &[22, 3, 3, 0, 1, 16]].concat(), false));
        assert!(passes(&[&first[..], &data].concat(), false));
    }

    #[test]
    fn only_a_websocket_changes_the_protocol() {
        let upgrade = |to: &str| {
            format!("GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: {to}\r\n\r\n")
        };
        for (to, status, passes) in [
            ("websocket", "101", true),
            ("websocket", "200", false),
            ("h2c", "101", false),
            ("h2c", "200", false),
        ] {
            let (done, mut out, mut guard) =
                run(&[upgrade(to).as_bytes(), b"frames\r\nof it\r\n\r\n"], false);
            assert!(done.is_ok() && guard.awaits_switch() && out == upgrade(to).as_bytes());
            let may_name = |_: &Host| true;
            let names = Names { may_name: &may_name, by_address: false };
            let first = format!("HTTP/1.1 {status} x");
            assert_eq!(guard.answered(first.as_bytes(), &names, &mut out).is_ok(), passes, "{to} {status}");
        }
        let get = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        assert!(run(&[get.as_bytes(), upgrade("websocket").as_bytes()], false).0.is_err());
    }

    #[test]
    fn a_proxys_request_is_alone() {
        let may_name = |_: &Host| true;
        let names = Names { may_name: &may_name, by_address: false };
        let (mut guard, mut out) = (Guard::behind_proxy_head(Body::Length(3)), Vec::new());
        guard.take(b"abcGET / HTTP/1.1\r\nHost: x\r\n\r\n", &names, &mut out).unwrap();
        assert!(out == b"abc" && guard.is_done() && guard.has_more());
        let (mut guard, mut out) = (Guard::behind_proxy_head(Body::Length(3)), Vec::new());
        guard.take(b"abc\r\n", &names, &mut out).unwrap();
        assert!(guard.is_done() && !guard.has_more(), "a line break is no request");
    }
}
