//! The first bytes of a connection: what is spoken on it, as far as a shared front server could find a request in them.
//!
//! Decisions: on the ports of the web nothing passes but TLS and well-formed requests of HTTP/1. On any other port a
//! protocol without host names may be spoken, so text is held to the end of its first line, and refused if a lenient
//! server could read it as a request; what is no text passes, but is looked at to the end of its first line.
//!
//! Invariant: neither the length of a word nor the byte behind it decides that something is no request.
//! Source: RFC 9112 sections 2.2, 3; RFC 1945 section 4.1 (HTTP/0.9); RFC 8446 section 5.1.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::{http, limits, tls};
use policies::plan::network::DEFAULT_PORTS;

const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH"];

/// What may be spoken on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    /// TLS and HTTP/1, nothing else.
    Web,
    Other,
}

impl Port {
    pub(super) fn of(number: u16) -> Self {
        if DEFAULT_PORTS.contains(&number) { Self::Web } else { Self::Other }
    }
}

/// What the first bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    /// Not decided yet.
    More,
    /// A record of a TLS handshake.
    Hello,
    /// A request, behind so many bytes of empty lines.
    Request { blank: usize },
    /// A line of text that no server takes for a request.
    Text,
    /// No text: its first line is to be looked at as it passes.
    Binary,
}

/// Judges the bytes so far.
///
/// # Errors
/// Why they must not pass.
pub(super) fn judge(bytes: &[u8], port: Port) -> Result<Opening, &'static str> {
    let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let rest = bytes.get(blank..).unwrap_or_default();
    if blank == 0 && rest.first() == Some(&tls::HANDSHAKE) {
        return Ok(Opening::Hello);
    }
    let end = rest.iter().position(|byte| *byte == b'\n');
    let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
    if blank.saturating_add(line.len()) > limits::LINE_BYTES {
        return Err("a first line of more than 16 KiB");
    }
    // Behind a printable byte, one of another alphabet is text too.
    if line.first().is_some_and(|byte| !byte.is_ascii()) || line.iter().any(|byte| is_control(*byte)) {
        return match (port, blank) {
            (Port::Web, _) => Err("neither TLS nor HTTP, on a port of the web"),
            // The second PROXY protocol begins so, and would put a request behind itself.
            (Port::Other, 1..) => Err("an empty line before what is no text"),
            (Port::Other, 0) => Ok(Opening::Binary),
        };
    }
    if end.is_none() {
        return Ok(Opening::More);
    }
    if names_http(line) {
        if line.to_ascii_uppercase().starts_with(b"PRI * HTTP/2") {
            return Err("HTTP/2 without TLS, whose host names can't be checked");
        }
        let text = line.strip_suffix(b"\r").and_then(|line| std::str::from_utf8(line).ok());
        return match text.ok_or("an HTTP request line that ends without CR LF").map(http::request_line)? {
            Ok(_) => Ok(Opening::Request { blank }),
            Err(_) => Err("an HTTP request line that isn't METHOD TARGET VERSION"),
        };
    }
    if port == Port::Web {
        return Err("text that is no HTTP request, on a port of the web");
    }
    if line.iter().all(|byte| !byte.is_ascii_graphic()) {
        return Err("a first line of nothing but spaces");
    }
    if is_like_a_request(line) {
        return Err("a first line that a server could take for an HTTP request");
    }
    Ok(Opening::Text)
}

/// A control character that is no white space.
fn is_control(byte: u8) -> bool {
    byte.is_ascii_control() && !matches!(byte, b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn names_http(line: &[u8]) -> bool {
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
}

/// Whether a lenient server could find a request without a version in it, or a request in the next line.
fn is_like_a_request(line: &[u8]) -> bool {
    let mut words = line.split(|byte| !byte.is_ascii_graphic()).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return false };
    if first.eq_ignore_ascii_case(b"PROXY") {
        return true;
    }
    let Some(second) = words.next() else { return false };
    METHODS.iter().any(|method| first.eq_ignore_ascii_case(method))
        && (second.starts_with(b"/")
            || second.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"http:"))
            || second.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https:")))
}

/// The first line of what is no text, as far as it has passed.
#[derive(Debug, Default)]
pub(super) struct Line {
    seen: Vec<u8>,
}

/// Whether a line of no text goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    InLine,
    Whole,
}

impl Line {
    /// Looks at the next bytes.
    ///
    /// # Errors
    /// Why they must not pass.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Passed, &'static str> {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.seen.extend_from_slice(part);
            // With its version's digit: a principal of a directory is called HTTP/host.
            let named = self.seen.windows(6).any(|part| {
                part.split_last().is_some_and(|(last, name)| last.is_ascii_digit() && names_http(name))
            });
            if named || is_like_a_request(&self.seen) {
                return Err("an HTTP request behind what is no text");
            }
            let empty = !self.seen.iter().any(u8::is_ascii_graphic);
            match (part.ends_with(b"\n"), empty) {
                (true, false) => return Ok(Passed::Whole),
                // A server may skip it.
                (true, true) => self.seen.clear(),
                (false, _) => {}
            }
            if self.seen.len() > limits::LINE_BYTES {
                // Enough for a version that is cut in two.
                self.seen.drain(..self.seen.len().saturating_sub(5));
            }
        }
        Ok(Passed::InLine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) {
        for port in [Port::Web, Port::Other] {
            let whole = judge(bytes, port);
            let passed = match whole {
                Ok(Opening::Binary) => Line::default().take(bytes).is_ok(),
                Ok(_) => true,
                Err(_) => false,
            };
            assert!(!passed, "{port:?} {whole:?} {:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn no_length_of_a_method_hides_a_request() {
        for length in [1, 63, 64, 65, 66, 1000, 16_000] {
            let method = "X".repeat(length);
            for held in [method.clone(), format!("{method} "), format!("{method} / HTTP/1.1\r")] {
                assert_eq!(judge(held.as_bytes(), Port::Other), Ok(Opening::More));
            }
            let line = format!("{method} / HTTP/1.1\r\n");
            assert_eq!(judge(line.as_bytes(), Port::Web), Ok(Opening::Request { blank: 0 }));
            assert_eq!(judge(line.as_bytes(), Port::Other), Ok(Opening::Request { blank: 0 }));
        }
        refused(&[b'X'; limits::LINE_BYTES + 1]);
        assert_eq!(judge(&[b'X'; limits::LINE_BYTES], Port::Web), Ok(Opening::More));
    }

    #[test]
    fn no_delimiter_but_a_space_makes_a_request() {
        for byte in
            (0..=255_u8).filter(|byte| !byte.is_ascii_alphanumeric() && !b"!#$%&'*+-.^_`|~\n".contains(byte))
        {
            let line = [b"GET", &[byte][..], b"/", &[byte], b"HTTP/1.1\r\n"].concat();
            if byte == b' ' {
                assert_eq!(judge(&line, Port::Other), Ok(Opening::Request { blank: 0 }));
            } else {
                refused(&line);
            }
        }
    }

    #[test]
    fn nothing_but_empty_lines_comes_before_a_request() {
        let line = b"GET / HTTP/1.1\r\n";
        for front in [&b"\r\n"[..], b"\n\r\n", b""] {
            let bytes = [front, line].concat();
            assert_eq!(judge(&bytes, Port::Web), Ok(Opening::Request { blank: front.len() }));
        }
        for byte in
            (0..=255_u8).filter(|byte| !byte.is_ascii_graphic() && !matches!(byte, b'\r' | b'\n' | 22))
        {
            refused(&[&[byte][..], line].concat());
            refused(&[&[byte][..], b"\r\n", line].concat());
        }
        refused(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 80\r\nGET / HTTP/1.1\r\n");
        refused(b"\r\n\r\n\0\r\nQUIT\n");
    }

    #[test]
    fn a_request_without_a_version_is_refused() {
        for line in [
            "GET /x",
            "GET  /x y",
            " get\t/",
            "GET\x0bhttp://b.example/",
            "POST https://b.example/ x",
            "GET\x1c/",
        ] {
            refused(format!("{line}\r\n").as_bytes());
        }
        for line in ["GET key", "RETR /x", "OPTIONS rtsp://a.example RTSP/1.0"] {
            assert_eq!(judge(format!("{line}\r\n").as_bytes(), Port::Other), Ok(Opening::Text), "{line}");
            assert!(judge(format!("{line}\r\n").as_bytes(), Port::Web).is_err());
        }
    }

    #[test]
    fn other_protocols_have_other_ports() {
        for text in ["SSH-2.0-x\r\n", "EHLO me\r\n", "{\"a\": 1}\n", "SET a b\r\n", "*1\r\n", "ü\n"] {
            let open = judge(text.as_bytes(), Port::Other);
            assert!(matches!(open, Ok(Opening::Text | Opening::Binary)), "{text:?}");
            assert!(judge(text.as_bytes(), Port::Web).is_err(), "{text:?}");
        }
        for bytes in [&b"\0\x01\x02"[..], b"AMQP\0\0\x09\x01", b"\x30\x0c\x02\x01\x01", b"\x85\xb6\xff"] {
            assert_eq!(judge(bytes, Port::Other), Ok(Opening::Binary), "{bytes:?}");
            assert!(judge(bytes, Port::Web).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_line_of_no_text_is_watched_to_its_end() {
        let mut line = Line::default();
        assert_eq!(line.take(b"\0\x01HTTP/host"), Ok(Passed::InLine));
        assert_eq!(line.take(&[0; 20_000]), Ok(Passed::InLine));
        assert_eq!(line.take(b"ht"), Ok(Passed::InLine));
        assert!(line.take(b"tp/1").is_err());
        let mut line = Line::default();
        assert_eq!(line.take(b"\0\n\x01\r\n"), Ok(Passed::InLine));
        assert_eq!(line.take(b"\x01x\nGET / HTTP/1.1\r\n"), Ok(Passed::Whole));
    }
}
