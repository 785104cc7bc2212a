//! The client hello: the one message of TLS that says in the clear which name is wanted.
//!
//! Decisions: a hello for a granted *name* must carry that name or another one of the same grant. One without a name is
//! refused there, since the server would choose a site by itself, and let pass where an address was granted (RFC 6066
//! forbids addresses as names). An encrypted hello (also a pretended one, GREASE) is refused: its real name can't be
//! seen. Under a grant of all hosts nothing is looked at.
//!
//! Invariant: memory is bounded by `limits::HELLO_BYTES`; nothing is passed on before the hello is whole and checked.
//! Source: RFC 8446 sections 4.1.2, 5.1; RFC 6066 section 3; RFC 9849 (encrypted client hello).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::limits;
use policies::scope::Host;

pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const APPLICATION_DATA: u8 = 23;
pub(super) const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const EARLY_DATA: u16 = 42;
const ENCRYPTED_HELLO: u16 = 0xfe0d;
/// Largest record (RFC 8446 section 5.1).
const RECORD: usize = 1 << 14;
/// Largest encrypted record, that of TLS 1.2 (RFC 5246 section 6.2.3).
pub(super) const LARGEST_RECORD: usize = RECORD + 2048;

/// What a hello says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) name: Option<Host>,
    pub(super) encrypted: bool,
    pub(super) early: Early,
}

/// Whether data may follow a hello at once, before the server's answer (RFC 8446 section 4.2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Early {
    No,
    Offered,
}

/// How far the bytes lead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    /// More bytes are needed.
    More,
    /// The whole hello, which ends with a record after so many bytes.
    Hello(Hello, usize),
    /// Not a client hello, or one that can't be judged.
    Wrong(&'static str),
}

/// Reads records until the hello is whole.
pub(super) fn read(bytes: &[u8]) -> Read {
    if bytes.len() > limits::HELLO_BYTES {
        return Read::Wrong("a client hello of more than 32 KiB");
    }
    let mut message = Vec::new();
    let mut at = 0_usize;
    loop {
        let Some([kind, major, _minor, high, low]) = bytes.get(at..).and_then(|rest| rest.first_chunk())
        else {
            return Read::More;
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind != HANDSHAKE || *major != 3 || length == 0 || length > RECORD {
            return Read::Wrong("a TLS record that belongs to no client hello");
        }
        let start = at.saturating_add(5);
        let end = start.saturating_add(length);
        let Some(fragment) = bytes.get(start..end) else {
            return if message.first().is_none_or(|kind| *kind == CLIENT_HELLO) {
                Read::More
            } else {
                Read::Wrong("a handshake that begins with no client hello")
            };
        };
        message.extend_from_slice(fragment);
        at = end;
        match message.first_chunk() {
            Some([CLIENT_HELLO, a, b, c]) => {
                let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
                let whole = length.saturating_add(4);
                if whole > limits::HELLO_BYTES {
                    return Read::Wrong("a client hello of more than 32 KiB");
                }
                if message.len() > whole {
                    return Read::Wrong("a client hello with something behind it in its record");
                }
                if message.len() == whole {
                    return match hello(message.get(4..).unwrap_or_default()) {
                        Some(hello) => Read::Hello(hello, at),
                        None => Read::Wrong("a malformed client hello"),
                    };
                }
            }
            Some(_) => return Read::Wrong("a handshake that begins with no client hello"),
            None => {}
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(*self.take(2)?.first_chunk()?))
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }
}

fn hello(body: &[u8]) -> Option<Hello> {
    let mut reader = Reader(body);
    reader.take(2 + 32)?;
    reader.short()?;
    reader.long()?;
    reader.short()?;
    let mut found = Hello { name: None, encrypted: false, early: Early::No };
    if reader.0.is_empty() {
        return Some(found);
    }
    let mut extensions = Reader(reader.long()?);
    if !reader.0.is_empty() {
        return None;
    }
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let data = extensions.long()?;
        match kind {
            // One extension and one name in it: with two, the server might take the other one.
            SERVER_NAME if found.name.is_some() => return None,
            SERVER_NAME => {
                let mut list = Reader(data);
                let mut names = Reader(list.long()?);
                let kind = names.u8()?;
                let name = names.long()?;
                if kind != 0 || !names.0.is_empty() || !list.0.is_empty() {
                    return None;
                }
                found.name = Some(Host::parse(std::str::from_utf8(name).ok()?).ok()?);
            }
            EARLY_DATA => found.early = Early::Offered,
            ENCRYPTED_HELLO => found.encrypted = true,
            _other => {}
        }
    }
    Some(found)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn client_hello(name: Option<&str>, extra: &[(u16, &[u8])]) -> Vec<u8> {
        let mut extensions = Vec::new();
        if let Some(name) = name {
            let length = name.len() as u16;
            extensions.extend([0, 0]);
            extensions.extend((length + 5).to_be_bytes());
            extensions.extend((length + 3).to_be_bytes());
            extensions.push(0);
            extensions.extend(length.to_be_bytes());
            extensions.extend(name.bytes());
        }
        for (kind, data) in extra {
            extensions.extend(kind.to_be_bytes());
            extensions.extend((data.len() as u16).to_be_bytes());
            extensions.extend(*data);
        }
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut message = vec![1];
        message.extend(&(body.len() as u32).to_be_bytes()[1..]);
        message.extend(body);
        message
    }

    pub(in super::super) fn records(message: &[u8], size: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for part in message.chunks(size) {
            bytes.extend([22, 3, 1]);
            bytes.extend((part.len() as u16).to_be_bytes());
            bytes.extend(part);
        }
        bytes
    }

    #[test]
    fn the_name_is_found_in_any_number_of_pieces() {
        let message = client_hello(Some("API.example"), &[(16, b"\0\x03\x02h2")]);
        for size in [1, 2, 3, 5, 64, 16000] {
            let bytes = records(&message, size);
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), Read::More, "{size} {cut}");
            }
            let name = Some(Host::parse("api.example").unwrap());
            assert_eq!(
                read(&bytes),
                Read::Hello(Hello { name, encrypted: false, early: Early::No }, bytes.len())
            );
        }
    }

    #[test]
    fn hellos_that_cannot_be_judged_are_wrong() {
        let plain = records(&client_hello(None, &[]), 999);
        assert!(matches!(read(&plain), Read::Hello(Hello { name: None, encrypted: false, .. }, _)));
        let hidden = records(&client_hello(Some("a.example"), &[(ENCRYPTED_HELLO, b"x")]), 999);
        assert!(matches!(read(&hidden), Read::Hello(Hello { encrypted: true, .. }, _)));
        let name: &[u8] = b"\0\x0c\0\0\x09b.example";
        let twice = records(&client_hello(Some("a.example"), &[(0, name)]), 999);
        let long = records(&client_hello(None, &[(21, &[0; 40_000])]), 999);
        let mut other = plain.clone();
        other[5] = 2;
        for bytes in [twice, long, other, vec![22, 3, 1, 0, 0], vec![23, 3, 1, 0, 1], vec![22, 2, 1, 0, 1]] {
            assert!(matches!(read(&bytes), Read::Wrong(_)));
        }
        for wrong in ["a\0.example", "a b", "ü.example\u{7f}", ""] {
            assert!(
                matches!(read(&records(&client_hello(Some(wrong), &[]), 999)), Read::Wrong(_)),
                "{wrong}"
            );
        }
    }

    #[test]
    fn no_change_of_a_byte_trips_the_reader() {
        let good = records(&client_hello(Some("a.example"), &[(16, b"\0\x03\x02h2")]), 40);
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bytes = good.clone();
                bytes[at] = value;
                read(&bytes);
            }
        }
    }
}
