//! Requests of HTTP/1: the head, strictly, and where the body ends.
//!
//! A server may read a sloppy head in another way than we do, and find another host in it. So what RFC 9112 lets a
//! recipient repair is refused here: bare line feeds, folded lines, spaces before a colon, two lengths, a length beside
//! a transfer coding, two hosts.
//!
//! Source: RFC 9112 sections 2.2, 3, 5.1, 6; RFC 9110 sections 5.5, 7.2, 7.8.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use policies::scope::{Host, HostTarget};

/// Where a request's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// After so many bytes.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// What the request asks the connection to become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upgrade {
    None,
    WebSocket,
    /// Something whose later requests could not be read.
    Other,
}

/// What the request line aims at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Aim<'a> {
    /// `/path` or `*`.
    Origin(&'a str),
    /// `http://host/path`: the host and its port, the path from the slash on.
    Absolute(HostTarget, &'a str),
    /// `CONNECT host:port`.
    Tunnel(HostTarget),
}

/// One request's head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) method: &'a str,
    pub(super) aim: Aim<'a>,
    /// `None`: a request of HTTP/1.0 that names no host.
    pub(super) host: Option<Host>,
    pub(super) body: Body,
    pub(super) upgrade: Upgrade,
    version: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

/// The length of a head with its empty line, if it is whole. Bare line feeds count as ends here, so that they are
/// found and refused.
pub(super) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let mut empty = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if empty => return at.checked_add(1),
            b'\n' => empty = true,
            b'\r' => {}
            _ => empty = false,
        }
    }
    None
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// A host with a port, or without.
pub(super) fn authority(text: &str, default: u16) -> Option<HostTarget> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            (host, port.parse().ok().filter(|port| digits && *port != 0)?)
        }
        Some(_) | None => (text, default),
    };
    if host.contains(['%', '@', '/', '\\']) || (host.contains(':') && !host.starts_with('[')) {
        return None;
    }
    Some(HostTarget { host: Host::parse(host).ok()?, port })
}

/// Method, target and version of a request line.
///
/// # Errors
/// What is wrong with it.
pub(super) fn request_line(line: &str) -> Result<(&str, &str, &str), &'static str> {
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("a request line that isn't METHOD TARGET VERSION");
    };
    if !is_token(method) || !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return Err("a method or version that HTTP/1 doesn't have");
    }
    Ok((method, target, version))
}

/// Reads a whole head.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(head: &[u8]) -> Result<Head<'_>, &'static str> {
    let text = std::str::from_utf8(head).map_err(|_| "a head that is not UTF-8")?;
    let text = text.strip_suffix("\r\n\r\n").ok_or("a line that doesn't end with CR LF")?;
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    if text.bytes().any(|byte| byte == 0) || text.split("\r\n").any(|line| line.contains(['\r', '\n'])) {
        return Err("a NUL, or a CR or LF alone");
    }
    let (method, target, version) = request_line(line)?;
    let aim = aim(method, target).ok_or("a malformed target")?;
    let mut fields = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').ok_or("a field without a colon")?;
        if !is_token(name) {
            return Err("a malformed field name, or a folded line");
        }
        fields.push((name, value.trim_matches([' ', '\t'])));
    }
    let all = |name: &str| -> Vec<&str> {
        fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value).collect()
    };
    let host = match all("host").as_slice() {
        [] if version == "HTTP/1.0" => None,
        [host] => Some(authority(host, 80).ok_or("a malformed Host field")?.host),
        [] => return Err("no Host field"),
        _ => return Err("more than one Host field"),
    };
    let body = match (all("transfer-encoding").as_slice(), all("content-length").as_slice()) {
        ([], []) => Body::Length(0),
        ([], [length]) if !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit()) => {
            Body::Length(length.parse().map_err(|_| "a body length that is no number")?)
        }
        ([coding], []) if coding.eq_ignore_ascii_case("chunked") && version == "HTTP/1.1" => Body::Chunked,
        _ => return Err("a body whose end can be read in two ways"),
    };
    let upgrade = match all("upgrade").as_slice() {
        [] => Upgrade::None,
        [one] if one.eq_ignore_ascii_case("websocket") => Upgrade::WebSocket,
        _ => Upgrade::Other,
    };
    Ok(Head { method, aim, host, body, upgrade, version, fields })
}

fn aim<'a>(method: &str, target: &'a str) -> Option<Aim<'a>> {
    if method == "CONNECT" {
        // Without a port nobody knows what is meant (RFC 9110 section 9.3.6).
        return authority(target, 0).filter(|target| target.port != 0).map(Aim::Tunnel);
    }
    if target.starts_with('/') || target == "*" {
        return Some(Aim::Origin(target));
    }
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"))?;
    let rest = target.get(scheme.len()..)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end)?;
    Some(Aim::Absolute(authority(host, 80)?, path))
}

impl Head<'_> {
    /// The head as the origin gets it from a proxy: the path alone, the target's host, one request on the connection.
    pub(super) fn for_origin(&self, target: &HostTarget, path: &str) -> Vec<u8> {
        const OF_THE_HOP: [&str; 10] = [
            "host",
            "connection",
            "proxy-connection",
            "proxy-authorization",
            "proxy-authenticate",
            "keep-alive",
            "te",
            "trailer",
            "upgrade",
            "http2-settings",
        ];
        let slash = if path.starts_with('/') { "" } else { "/" };
        let port = if target.port == 80 { String::new() } else { format!(":{}", target.port) };
        let mut head = format!("{} {slash}{path} {}\r\n", self.method, self.version);
        head += &format!("Host: {}{port}\r\n", target.host);
        for (name, value) in &self.fields {
            if !OF_THE_HOP.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                head += &format!("{name}: {value}\r\n");
            }
        }
        head += "Connection: close\r\n\r\n";
        head.into_bytes()
    }
}

/// A field behind a chunked body. What says where a request goes or ends has no place there (RFC 9110 section 6.5.1): a server
/// that takes trailers for headers would follow it.
fn trailer(line: &[u8]) -> Result<(), &'static str> {
    const NEVER: [&str; 8] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "x-forwarded-host",
    ];
    let text = std::str::from_utf8(line).map_err(|_| "a trailer that is not UTF-8")?;
    let (name, value) = text.split_once(':').ok_or("a trailer without a colon")?;
    if !is_token(name) || value.contains(['\r', '\0']) {
        return Err("a malformed trailer");
    }
    if NEVER.iter().any(|never| never.eq_ignore_ascii_case(name)) {
        return Err("a trailer that says where a request goes or ends");
    }
    Ok(())
}

/// Follows a chunked body to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chunks {
    /// In a size line, so many bytes of it seen; its digits so far.
    Size { line: Vec<u8> },
    /// In data, so many bytes left, the CR LF behind them included.
    Data { left: u64 },
    /// In the trailer, in a line.
    Trailer { line: Vec<u8> },
    /// Behind the last line.
    End,
}

/// Longest line of a chunk's size or of a trailer.
const CHUNK_LINE: usize = 4096;

impl Chunks {
    pub(super) fn new() -> Self {
        Self::Size { line: Vec::new() }
    }

    /// Takes bytes and tells how many of them belong to the body.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let mut at = 0_usize;
        while let Some(byte) = bytes.get(at) {
            match self {
                Self::End => break,
                Self::Data { left } => {
                    let here = (bytes.len().saturating_sub(at) as u64).min(*left);
                    *left = left.saturating_sub(here);
                    at = at.saturating_add(usize::try_from(here).unwrap_or(usize::MAX));
                    if *left == 0 {
                        *self = Self::new();
                    }
                    continue;
                }
                Self::Size { line } | Self::Trailer { line } => {
                    line.push(*byte);
                    if line.len() > CHUNK_LINE {
                        return Err("a chunk's line of more than 4 KiB");
                    }
                    if *byte == b'\n' {
                        let whole = std::mem::take(line);
                        let text =
                            whole.strip_suffix(b"\r\n").ok_or("a chunk's line that ends without CR LF")?;
                        *self = match self {
                            Self::Size { .. } => Self::after_size(text)?,
                            Self::Trailer { .. } if text.is_empty() => Self::End,
                            Self::Trailer { .. } | Self::Data { .. } | Self::End => {
                                trailer(text)?;
                                Self::Trailer { line: Vec::new() }
                            }
                        };
                    }
                }
            }
            at = at.saturating_add(1);
        }
        Ok(at)
    }

    fn after_size(line: &[u8]) -> Result<Self, &'static str> {
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let text = std::str::from_utf8(digits).map_err(|_| "a chunk's size that is none")?;
        if text.is_empty() || text.len() > 15 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err("a chunk's size that is none");
        }
        match u64::from_str_radix(text, 16).map_err(|_| "a chunk's size that is none")? {
            0 => Ok(Self::Trailer { line: Vec::new() }),
            size => Ok(Self::Data { left: size.saturating_add(2) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Option<Host> {
        Some(Host::parse(text).unwrap())
    }

    #[test]
    fn plain_requests_are_read() {
        let text = b"GET /x?y HTTP/1.1\r\nhost: A.example:8080\r\nX: \r\n\r\n";
        let head = read(text).unwrap();
        assert_eq!((head.host.clone(), head.body), (host("a.example"), Body::Length(0)));
        assert_eq!(head.aim, Aim::Origin("/x?y"));
        assert_eq!(end_of_head(text), Some(text.len()));
        let text = b"POST / HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: Chunked\r\n\r\n";
        let head = read(text).unwrap();
        assert_eq!((head.host, head.body), (host("[::1]"), Body::Chunked));
        assert_eq!(read(b"GET / HTTP/1.0\r\n\r\n").unwrap().host, None);
        let connect = read(b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n").unwrap();
        assert_eq!(connect.aim, Aim::Tunnel(HostTarget { host: host("a.example").unwrap(), port: 443 }));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\rHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a%00b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost:\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "GET / http/1.1\r\nHost: a\r\n\r\n",
            "GET b/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://x@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            let length = end_of_head(text.as_bytes()).unwrap_or(text.len());
            assert!(read(&text.as_bytes()[..length]).is_err(), "{text:?}");
        }
    }

    #[test]
    fn an_origin_gets_its_own_request() {
        let head = read(
            b"GET http://A.example:8080?q HTTP/1.1\r\nHost: other\r\nProxy-Authorization: x\r\nKeep: 1\r\nConnection: keep-alive\r\n\r\n",
        )
        .unwrap();
        let Aim::Absolute(target, path) = head.aim.clone() else { panic!() };
        assert_eq!(
            String::from_utf8(head.for_origin(&target, path)).unwrap(),
            "GET /?q HTTP/1.1\r\nHost: a.example:8080\r\nKeep: 1\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn chunks_end_where_they_say() {
        let body = b"5;x=y\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\nT: v\r\n\r\nGET";
        for step in 1..body.len() {
            let (mut chunks, mut taken) = (Chunks::new(), 0);
            for part in body.chunks(step) {
                let here = chunks.take(part).unwrap();
                taken += here;
                if here < part.len() {
                    break;
                }
            }
            assert_eq!((taken, &chunks), (body.len() - 3, &Chunks::End), "{step}");
        }
        for wrong in ["5\nhello", "\r\n", "-1\r\n", "fffffffffffffffff\r\n", "0x5\r\n"] {
            assert!(Chunks::new().take(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_trailer_names_no_host_and_no_end() {
        let body = |trailer: &str| Chunks::new().take(format!("1\r\na\r\n0\r\n{trailer}\r\n\r\n").as_bytes());
        for fine in ["X-Checksum: 1", "Expires: never\r\nDigest: x"] {
            assert!(body(fine).is_ok(), "{fine}");
        }
        for wrong in [
            "Host: evil.test",
            "hOST:evil.test",
            "Content-Length: 3",
            "Transfer-Encoding: chunked",
            "X",
            "X : 1",
            " Host: a",
        ] {
            assert!(body(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn no_change_of_a_byte_trips_the_reader() {
        let good = b"POST http://a.example/x HTTP/1.1\r\nHost: a.example:80\r\nContent-Length: 5\r\n\r\n";
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bytes = good.to_vec();
                bytes[at] = value;
                let _read = read(&bytes);
                let _taken = Chunks::new().take(&bytes);
            }
        }
    }
}
