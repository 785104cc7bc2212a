//! DNS messages: just as much as a name server for a handful of names and a stub resolver need.
//!
//! Invariant: no allocation grows with what a message claims, only with its length; every name ends within 255 bytes;
//! compression pointers only lead backwards.
//! Source: RFC 1035 sections 3 and 4, RFC 3596 (AAAA), RFC 6891 (what follows the question is ignored).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::net::IpAddr;

/// RFC 1035
pub(super) const A: u16 = 1;
/// RFC 3596
pub(super) const AAAA: u16 = 28;
const CNAME: u16 = 5;
const IN: u16 = 1;
/// RFC 1035: QR.
const RESPONSE: u16 = 0x8000;
const OPCODE: u16 = 0x7800;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const RCODE: u16 = 0x000f;

/// Answer codes that are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    NoError = 0,
    FormErr = 1,
    NotImp = 4,
    Refused = 5,
}

/// One question, as it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    id: u16,
    flags: u16,
    /// The question section's bytes, which go back unchanged: their case may matter to the client.
    raw: Vec<u8>,
    /// Lower case, dots between labels; bytes that no host name has are escaped.
    pub(super) name: String,
    pub(super) kind: u16,
}

/// What a message to the name server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    Question(Question),
    /// An answer with this code and no question is due.
    Wrong {
        id: u16,
        code: Code,
    },
    /// Nothing that could be answered: too short, or an answer itself.
    Noise,
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(length)?;
        let bytes = self.message.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// A name as text. Pointers are followed where the message may have them.
    fn name(&mut self, pointers: bool) -> Option<String> {
        let mut text = String::new();
        let mut total = 1_usize;
        let mut at = self.at;
        let mut after = None;
        loop {
            let length = *self.message.get(at)?;
            let next = at.checked_add(1)?;
            match length {
                0 => {
                    self.at = after.unwrap_or(next);
                    return Some(text);
                }
                1..=63 => {
                    let end = next.checked_add(usize::from(length))?;
                    total = total.checked_add(usize::from(length))?.checked_add(1)?;
                    if total > 255 {
                        return None;
                    }
                    if !text.is_empty() {
                        text.push('.');
                    }
                    push_label(&mut text, self.message.get(next..end)?);
                    at = end;
                }
                0xc0.. if pointers => {
                    let low = *self.message.get(next)?;
                    let target = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                    // Strictly backwards, so that it ends.
                    if target >= at {
                        return None;
                    }
                    after = after.or(next.checked_add(1));
                    at = target;
                }
                _ => return None,
            }
        }
    }
}

fn push_label(text: &mut String, label: &[u8]) {
    use std::fmt::Write;
    for byte in label {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => text.push(char::from(*byte)),
            b'A'..=b'Z' => text.push(char::from(byte.to_ascii_lowercase())),
            // A dot or another character inside a label: no host name, and it must not look like one.
            _ => drop(write!(text, "\\{byte:03}")),
        }
    }
}

/// Reads a message to the name server.
pub(super) fn read_query(message: &[u8]) -> Asked {
    let mut reader = Reader { message, at: 0 };
    let (Some(id), Some(flags), Some(questions)) = (reader.u16(), reader.u16(), reader.u16()) else {
        return Asked::Noise;
    };
    if flags & RESPONSE != 0 || message.len() < 12 {
        return Asked::Noise;
    }
    if flags & OPCODE != 0 {
        return Asked::Wrong { id, code: Code::NotImp };
    }
    let malformed = Asked::Wrong { id, code: Code::FormErr };
    if questions != 1 {
        return malformed;
    }
    reader.at = 12;
    let (Some(name), Some(kind), Some(class)) = (reader.name(false), reader.u16(), reader.u16()) else {
        return malformed;
    };
    if class != IN {
        return Asked::Wrong { id, code: Code::NotImp };
    }
    let raw = message.get(12..reader.at).unwrap_or_default().to_vec();
    Asked::Question(Question { id, flags, raw, name, kind })
}

fn header(id: u16, flags: u16, questions: u16, answers: u16) -> Vec<u8> {
    [id, flags, questions, answers, 0, 0].into_iter().flat_map(u16::to_be_bytes).collect()
}

/// The answer to a question.
pub(super) fn answer(question: &Question, code: Code, address: Option<IpAddr>) -> Vec<u8> {
    let flags = RESPONSE | RECURSION_AVAILABLE | (question.flags & RECURSION_DESIRED) | code as u16;
    let mut message = header(question.id, flags, 1, u16::from(address.is_some()));
    message.extend(&question.raw);
    if let Some(address) = address {
        let (kind, data) = match address {
            IpAddr::V4(address) => (A, address.octets().to_vec()),
            IpAddr::V6(address) => (AAAA, address.octets().to_vec()),
        };
        // The owner is the question's name, at offset 12; five seconds to live, since patterns' addresses are reused.
        message.extend([0xc0, 12]);
        message.extend([kind, IN, 0, 5].into_iter().flat_map(u16::to_be_bytes));
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(data);
    }
    message
}

/// The answer to what was no question.
pub(super) fn wrong(id: u16, code: Code) -> Vec<u8> {
    header(id, RESPONSE | RECURSION_AVAILABLE | code as u16, 0, 0)
}

/// A question to a real server. `name` is a host name.
pub(super) fn query(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut message = header(id, RECURSION_DESIRED, 1, 0);
    for label in name.split('.') {
        message.push(label.len() as u8);
        message.extend(label.bytes());
    }
    message.push(0);
    message.extend([kind, IN].into_iter().flat_map(u16::to_be_bytes));
    message
}

/// What a real server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Addresses of the asked kind (none: it has none) and the seconds that they may be used for.
    Addresses(Vec<IpAddr>, u32),
    /// Ask again over TCP.
    Truncated,
    /// The server can't or won't; another one may.
    Failed,
    /// Not an answer to this question: ignored.
    Stray,
}

/// Most links of a chain of aliases.
const CHAIN: usize = 16;

/// Reads the answer to `query(id, name, kind)`.
pub(super) fn read_answer(message: &[u8], id: u16, name: &str, kind: u16) -> Answer {
    read(message, id, name, kind).unwrap_or(Answer::Stray)
}

fn read(message: &[u8], id: u16, name: &str, kind: u16) -> Option<Answer> {
    let mut reader = Reader { message, at: 0 };
    let (got, flags, questions, answers) = (reader.u16()?, reader.u16()?, reader.u16()?, reader.u16()?);
    reader.at = 12;
    if got != id || flags & RESPONSE == 0 || questions != 1 {
        return None;
    }
    if reader.name(false)? != name || reader.u16()? != kind || reader.u16()? != IN {
        return None;
    }
    if flags & TRUNCATED != 0 {
        return Some(Answer::Truncated);
    }
    match flags & RCODE {
        0 => {}
        // NXDOMAIN: there is no such name, and no other server knows better.
        3 => return Some(Answer::Addresses(Vec::new(), 1)),
        _ => return Some(Answer::Failed),
    }
    let mut aliases = Vec::new();
    let mut found = Vec::new();
    for _ in 0..answers {
        let Some(record) = record(&mut reader) else { return Some(Answer::Failed) };
        match record {
            (owner, ttl, Data::Alias(to)) => aliases.push((owner, ttl, to)),
            (owner, ttl, Data::Address(address)) if address.is_ipv4() == (kind == A) => {
                found.push((owner, ttl, address));
            }
            (_, _, Data::Address(_) | Data::Other) => {}
        }
    }
    let mut owner = name.to_owned();
    let mut least = u32::MAX;
    for _ in 0..CHAIN {
        let Some((_, ttl, to)) = aliases.iter().find(|(from, _, _)| *from == owner) else { break };
        least = least.min(*ttl);
        owner.clone_from(to);
    }
    let mut addresses = Vec::new();
    for (of, ttl, address) in found {
        if of == owner {
            least = least.min(ttl);
            addresses.push(address);
        }
    }
    Some(Answer::Addresses(addresses, if least == u32::MAX { 1 } else { least }))
}

enum Data {
    Alias(String),
    Address(IpAddr),
    Other,
}

fn record(reader: &mut Reader<'_>) -> Option<(String, u32, Data)> {
    let owner = reader.name(true)?;
    let (kind, class, ttl, length) = (reader.u16()?, reader.u16()?, reader.u32()?, reader.u16()?);
    let start = reader.at;
    let data = reader.bytes(usize::from(length))?;
    let data = match kind {
        _ if class != IN => Data::Other,
        CNAME => Data::Alias(Reader { message: reader.message, at: start }.name(true)?),
        A => Data::Address(IpAddr::from(<[u8; 4]>::try_from(data).ok()?)),
        AAAA => Data::Address(IpAddr::from(<[u8; 16]>::try_from(data).ok()?)),
        _ => Data::Other,
    };
    Some((owner, ttl, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(records: &[(&str, u16, &[u8])]) -> Vec<u8> {
        let mut message = query(7, "a.example", A);
        message[2] |= 0x80;
        message[7] = records.len() as u8;
        for (owner, kind, data) in records {
            let name = query(0, owner, 1);
            message.extend(&name[12..name.len() - 4]);
            message.extend([*kind, IN, 0, 60].into_iter().flat_map(u16::to_be_bytes));
            message.extend((data.len() as u16).to_be_bytes());
            message.extend(*data);
        }
        message
    }

    fn wire(name: &str) -> Vec<u8> {
        let message = query(0, name, 1);
        message[12..message.len() - 4].to_vec()
    }

    #[test]
    fn a_question_comes_back_as_it_was_asked() {
        let message = query(9, "MiXed.Example", AAAA);
        let Asked::Question(question) = read_query(&message) else { panic!() };
        assert_eq!((question.name.as_str(), question.kind), ("mixed.example", AAAA));
        let answer = answer(&question, Code::NoError, Some("fd74::1".parse().unwrap()));
        assert_eq!(&answer[12..message.len()], &message[12..]);
        assert_eq!(
            read_answer(&answer, 9, "mixed.example", AAAA),
            Answer::Addresses(vec!["fd74::1".parse().unwrap()], 5)
        );
        assert_eq!(read_answer(&answer, 8, "mixed.example", AAAA), Answer::Stray);
        assert_eq!(read_answer(&answer, 9, "other.example", AAAA), Answer::Stray);
    }

    #[test]
    fn chains_of_aliases_are_followed_and_strangers_are_not() {
        let message = answered(&[
            ("x.example", A, &[9, 9, 9, 9]),
            ("a.example", CNAME, &wire("b.example")),
            ("c.example", A, &[1, 2, 3, 4]),
            ("b.example", CNAME, &wire("c.example")),
        ]);
        assert_eq!(
            read_answer(&message, 7, "a.example", A),
            Answer::Addresses(vec!["1.2.3.4".parse().unwrap()], 60)
        );
        let circle =
            answered(&[("a.example", CNAME, &wire("b.example")), ("b.example", CNAME, &wire("a.example"))]);
        assert_eq!(read_answer(&circle, 7, "a.example", A), Answer::Addresses(vec![], 60));
    }

    #[test]
    fn what_is_no_question_is_told_so() {
        let good = query(1, "a.example", A);
        let mut two = good.clone();
        two[5] = 2;
        let mut update = good.clone();
        update[2] = 0x28;
        let mut pointer = good.clone();
        pointer[12] = 0xc0;
        let mut chaos = good.clone();
        *chaos.last_mut().unwrap() = 3;
        for (message, code) in [
            (&two, Code::FormErr),
            (&update, Code::NotImp),
            (&pointer, Code::FormErr),
            (&chaos, Code::NotImp),
            (&good[..20].to_vec(), Code::FormErr),
        ] {
            assert_eq!(read_query(message), Asked::Wrong { id: 1, code });
        }
        assert_eq!(read_query(&good[..11]), Asked::Noise);
        let mut response = good;
        response[2] |= 0x80;
        assert_eq!(read_query(&response), Asked::Noise);
    }

    #[test]
    fn a_dot_inside_a_label_is_no_dot() {
        let mut message = query(1, "a-b.example", A);
        message[14] = b'.';
        let Asked::Question(question) = read_query(&message) else { panic!() };
        assert_eq!(question.name, "a\\046b.example");
    }

    /// Every message that differs from a good one in one or two bytes, or is cut: none of them panics or hangs.
    #[test]
    fn no_message_can_trip_the_reader() {
        let good = answered(&[("a.example", CNAME, &wire("b.example")), ("b.example", A, &[1, 2, 3, 4])]);
        for cut in 0..good.len() {
            read_query(&good[..cut]);
            read_answer(&good[..cut], 7, "a.example", A);
        }
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut message = good.clone();
                message[at] = value;
                message[2] &= 0x7f;
                read_query(&message);
                message[2] |= 0x80;
                read_answer(&message, 7, "a.example", A);
                let other = (at * 31 + usize::from(value)) % message.len();
                message[other] = 0xc0;
                read_answer(&message, 7, "a.example", A);
            }
        }
    }
}
