//! The proxy's side of a conversation: SOCKS5, HTTP CONNECT and absolute-form requests, on one port.
//!
//! Source: RFC 1928 (SOCKS5), RFC 9110 section 9.3.6 (CONNECT), RFC 9112 section 3.2.2 (absolute form).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{
    http::{self, Aim, Body},
    limits,
};
use policies::scope::{Host, HostTarget};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How answers are said to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// No words: the program thinks that it talks to the host itself.
    Direct,
    /// SOCKS5 replies.
    Socks,
    /// The reply to CONNECT.
    Connect,
    /// An HTTP response in the place of the host's.
    Absolute,
}

/// How a connection turned out, for the program's ears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Open,
    Refused,
    Unreachable,
}

impl Manner {
    /// What is said.
    pub(super) fn words(self, outcome: Outcome) -> &'static [u8] {
        const FORBIDDEN: &[u8] =
            b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 41\r\n\
            Connection: close\r\n\r\nthe ceiling doesn't grant this connection";
        const BAD_GATEWAY: &[u8] =
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/plain\r\nContent-Length: 25\r\n\
            Connection: close\r\n\r\nthe host can't be reached";
        match (self, outcome) {
            (Self::Direct, _) | (Self::Absolute, Outcome::Open) => b"",
            (Self::Socks, Outcome::Open) => b"\x05\0\0\x01\0\0\0\0\0\0",
            (Self::Socks, Outcome::Refused) => b"\x05\x02\0\x01\0\0\0\0\0\0",
            (Self::Socks, Outcome::Unreachable) => b"\x05\x04\0\x01\0\0\0\0\0\0",
            (Self::Connect, Outcome::Open) => b"HTTP/1.1 200 Connection established\r\n\r\n",
            (Self::Connect | Self::Absolute, Outcome::Refused) => FORBIDDEN,
            (Self::Connect | Self::Absolute, Outcome::Unreachable) => BAD_GATEWAY,
        }
    }
}

/// What a program asked the proxy for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) target: HostTarget,
    pub(super) manner: Manner,
    /// For an absolute-form request: what the host gets in its place, and how long its body is.
    pub(super) first: Option<(Vec<u8>, Body)>,
    /// What came behind the request.
    pub(super) rest: Vec<u8>,
}

/// How far a conversation is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    More,
    /// Say this, and go on.
    Say(&'static [u8]),
    Wants(Wanted),
    /// End it, with these last words.
    Wrong(&'static [u8], &'static str),
}

/// One conversation, up to what is wanted.
#[derive(Debug, Default)]
pub(super) struct Talk {
    held: Vec<u8>,
    greeted: bool,
}

const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

impl Talk {
    /// Takes bytes. After [`Step::Say`] it is called again, with none.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Step {
        self.held.extend_from_slice(bytes);
        match self.held.first() {
            None => Step::More,
            Some(5) if !self.greeted => self.greeting(),
            Some(5) => self.request(),
            Some(4) => Step::Wrong(b"\0\x5b\0\0\0\0\0\0", "SOCKS4, which carries no names"),
            Some(_) => self.http(),
        }
    }

    /// Whether nobody has said anything.
    pub(super) fn has_heard_nothing(&self) -> bool {
        self.held.is_empty() && !self.greeted
    }

    fn greeting(&mut self) -> Step {
        let Some(count) = self.held.get(1).map(|count| usize::from(*count)) else { return Step::More };
        let Some(methods) = self.held.get(2..count.saturating_add(2)) else { return Step::More };
        if !methods.contains(&0) {
            return Step::Wrong(b"\x05\xff", "SOCKS5 with a login");
        }
        self.held.drain(..count.saturating_add(2));
        self.greeted = true;
        Step::Say(b"\x05\0")
    }

    fn request(&mut self) -> Step {
        let Some([_, command, _, kind]) = self.held.first_chunk() else { return Step::More };
        if *command != 1 {
            return Step::Wrong(b"\x05\x07\0\x01\0\0\0\0\0\0", "SOCKS5 for something else than a connection");
        }
        let rest = self.held.get(4..).unwrap_or_default();
        let found = match kind {
            1 => rest.first_chunk::<4>().map(|bytes| (Some(Host::Ip(IpAddr::V4(Ipv4Addr::from(*bytes)))), 4)),
            4 => rest.first_chunk::<16>().map(|bytes| {
                let address = Ipv6Addr::from(*bytes);
                let address = address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4);
                (Some(Host::Ip(address)), 16)
            }),
            3 => rest.split_first().and_then(|(length, rest)| {
                let name = rest.get(..usize::from(*length))?;
                let host = std::str::from_utf8(name).ok().and_then(host_of_name);
                Some((host, usize::from(*length).saturating_add(1)))
            }),
            _ => return Step::Wrong(b"\x05\x08\0\x01\0\0\0\0\0\0", "an unknown kind of address in SOCKS5"),
        };
        let Some((host, length)) = found else { return Step::More };
        let Some(port) = rest.get(length..).and_then(|rest| rest.first_chunk()) else { return Step::More };
        let port = u16::from_be_bytes(*port);
        let Some(host) = host.filter(|_| port != 0) else {
            return Step::Wrong(b"\x05\x01\0\x01\0\0\0\0\0\0", "a malformed name or port in SOCKS5");
        };
        let rest = self.held.split_off(length.saturating_add(6).min(self.held.len()));
        Step::Wants(Wanted { target: HostTarget { host, port }, manner: Manner::Socks, first: None, rest })
    }

    fn http(&mut self) -> Step {
        let Some(length) = http::end_of_head(&self.held) else {
            if self.held.len() > limits::HEAD_BYTES {
                return Step::Wrong(BAD_REQUEST, "a proxy request of more than 64 KiB");
            }
            return Step::More;
        };
        let rest = self.held.split_off(length);
        let head = match http::read(&self.held) {
            Ok(head) => head,
            Err(_) => return Step::Wrong(BAD_REQUEST, "a malformed proxy request"),
        };
        match &head.aim {
            Aim::Origin(_) => Step::Wrong(BAD_REQUEST, "a request to the proxy itself"),
            Aim::Tunnel(target) => {
                Step::Wants(Wanted { target: target.clone(), manner: Manner::Connect, first: None, rest })
            }
            Aim::Absolute(target, path) => {
                let first = Some((head.for_origin(target, path), head.body));
                Step::Wants(Wanted { target: target.clone(), manner: Manner::Absolute, first, rest })
            }
        }
    }
}

/// A name in SOCKS5 may also be an address as text, with brackets or without.
fn host_of_name(name: &str) -> Option<Host> {
    match name.parse::<Ipv6Addr>() {
        Ok(_) => Host::parse(&format!("[{name}]")).ok(),
        Err(_) => Host::parse(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str, port: u16) -> HostTarget {
        HostTarget { host: Host::parse(host).unwrap(), port }
    }

    #[test]
    fn socks_asks_by_name_or_address() {
        for (request, wanted) in [
            (&b"\x05\x01\0\x03\x09A.example\x01\xbb"[..], target("a.example", 443)),
            (b"\x05\x01\0\x03\x03::1\0\x50", target("[::1]", 80)),
            (b"\x05\x01\0\x03\x08127.0.1.\0\x50", target("127.0.0.1", 80)),
            (b"\x05\x01\0\x01\x01\x02\x03\x04\0\x50", target("1.2.3.4", 80)),
            (b"\x05\x01\0\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\x01\0\x50", target("127.0.0.1", 80)),
        ] {
            let mut talk = Talk::default();
            assert_eq!(talk.take(b"\x05\x02\x02"), Step::More);
            assert_eq!(talk.take(b"\0"), Step::Say(b"\x05\0"));
            for byte in &request[..request.len() - 1] {
                assert_eq!(talk.take(&[*byte]), Step::More);
            }
            let last = [&request[request.len() - 1..], b"tail"].concat();
            let Step::Wants(found) = talk.take(&last) else { panic!() };
            assert_eq!((found.target, found.rest), (wanted, b"tail".to_vec()));
        }
        for wrong in [
            &b"\x05\x02\0\x01"[..],
            b"\x05\x01\0\x09",
            b"\x05\x01\0\x03\x03a b\0\x50",
            b"\x05\x01\0\x01\x01\x02\x03\x04\0\0",
        ] {
            let mut talk = Talk { held: Vec::new(), greeted: true };
            assert!(matches!(talk.take(wrong), Step::Wrong(..)));
        }
        assert!(matches!(Talk::default().take(b"\x05\x01\x02"), Step::Wrong(..)));
    }

    #[test]
    fn http_asks_for_a_tunnel_or_by_the_whole_url() {
        let Step::Wants(found) =
            Talk::default().take(b"CONNECT a.example:8443 HTTP/1.1\r\nHost: b\r\n\r\n\x16")
        else {
            panic!()
        };
        assert_eq!((found.target, found.rest), (target("a.example", 8443), vec![22]));
        let Step::Wants(found) = Talk::default()
            .take(b"POST http://a.example/x HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nhi")
        else {
            panic!()
        };
        let (head, body) = found.first.unwrap();
        assert!(head.starts_with(b"POST /x HTTP/1.1\r\nHost: a.example\r\n") && body == Body::Length(2));
        assert!(matches!(Talk::default().take(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), Step::Wrong(..)));
    }

    #[test]
    fn the_words_have_the_length_that_they_claim() {
        for (outcome, length) in [(Outcome::Refused, 41), (Outcome::Unreachable, 25)] {
            let words = std::str::from_utf8(Manner::Absolute.words(outcome)).unwrap();
            let (head, body) = words.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {length}\r\n")));
            assert_eq!(body.len(), length);
        }
    }
}
