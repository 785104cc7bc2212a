//! What a server answers: its head by httparse, its body by the one length that it may have.
//!
//! Decisions: an answer whose end could be read in two ways is refused (two lengths, a length beside a coding, a coding
//! that isn't `chunked`), as a request is by the guard. What ends with the connection ends with TLS's own end.
//!
//! Invariant: head, fields, chunks' lines and the body are bounded before they are kept.
//! Source: RFC 9112 sections 4, 6, 7; RFC 9110 section 15.2 (interim answers).
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use super::wire::Failed;
use policies::fetch::Failure;
use std::io::{self, Read};

/// Largest head: what is told of it fits into one message of the broker, however it is escaped there.
const HEAD_BYTES: usize = 28 << 10;
/// Most fields.
const FIELDS: usize = 128;
/// Interim answers that are read over.
const INTERIM: usize = 8;
/// Longest line between chunks.
const LINE_BYTES: usize = 4 << 10;
/// Bytes of all lines behind the last chunk.
const TRAILER_BYTES: usize = 16 << 10;
/// What is read at once.
const PIECE: usize = 64 << 10;

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) fields: Vec<(String, String)>,
    pub(super) framing: Framing,
}

fn wrong(why: impl Into<String>) -> Failed {
    Failed::new(Failure::Io, why)
}

/// Reads the head; the bytes behind it are given as well.
pub(super) fn head(way: &mut impl Read, method: &str) -> Result<(Head, Vec<u8>), Failed> {
    let mut held = Vec::new();
    let mut interim = 0_usize;
    loop {
        if let Some((head, length)) = parse(&held, method)? {
            let rest = held.split_off(length.min(held.len()));
            match head.status {
                // A change of protocol was never asked for.
                101 => return Err(wrong("the server changes the protocol")),
                100..=199 => {
                    interim = interim.saturating_add(1);
                    if interim > INTERIM {
                        return Err(wrong("more than 8 interim answers"));
                    }
                    held = rest;
                    continue;
                }
                _ => return Ok((head, rest)),
            }
        }
        if held.len() > HEAD_BYTES {
            return Err(Failed::new(Failure::TooLarge, "an answer's head of more than 28 KiB"));
        }
        if fill(way, &mut held)? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

fn fill(way: &mut impl Read, held: &mut Vec<u8>) -> io::Result<usize> {
    let before = held.len();
    held.resize(before.saturating_add(4096), 0);
    let read = way.read(held.get_mut(before..).unwrap_or_default());
    held.truncate(before.saturating_add(*read.as_ref().unwrap_or(&0)));
    read
}

/// The head and its length, if it is whole.
fn parse(held: &[u8], method: &str) -> Result<Option<(Head, usize)>, Failed> {
    let mut space = [httparse::EMPTY_HEADER; FIELDS];
    let mut response = httparse::Response::new(&mut space);
    let length = match response.parse(held) {
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(length)) => length,
        Err(httparse::Error::TooManyHeaders) => {
            return Err(wrong("an answer with more than 128 header fields"));
        }
        Err(error) => return Err(wrong(format!("the answer is no HTTP: {error}"))),
    };
    if length > HEAD_BYTES {
        return Err(Failed::new(Failure::TooLarge, "an answer's head of more than 28 KiB"));
    }
    let status = response.code.unwrap_or(0);
    let fields: Vec<(String, String)> = response
        .headers
        .iter()
        // One byte, one character: what is no ASCII has no agreed meaning, and keeps its length.
        .map(|field| (field.name.to_ascii_lowercase(), field.value.iter().map(|b| char::from(*b)).collect()))
        .collect();
    let framing = framing(status, &fields, method)?;
    Ok(Some((Head { status, fields, framing }, length)))
}

fn framing(status: u16, fields: &[(String, String)], method: &str) -> Result<Framing, Failed> {
    let all = |wanted: &'static str| {
        fields.iter().filter(move |(name, _)| name == wanted).map(|(_, value)| value.trim())
    };
    if method == "HEAD" || matches!(status, 100..=199 | 204 | 304) {
        return Ok(Framing::Length(0));
    }
    let codings: Vec<&str> = all("transfer-encoding").collect();
    let lengths: Vec<&str> = all("content-length").collect();
    match (codings.as_slice(), lengths.as_slice()) {
        ([], []) => Ok(Framing::UntilClose),
        ([one], []) if one.eq_ignore_ascii_case("chunked") => Ok(Framing::Chunked),
        ([], [first, others @ ..]) if others.iter().all(|other| other == first) => {
            let digits = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
            let length = first.parse().ok().filter(|_| digits);
            length.map(Framing::Length).ok_or_else(|| wrong("an answer with a length that is none"))
        }
        _ => Err(wrong("an answer whose end can be read in two ways")),
    }
}

/// Reads the body, of at most `most` bytes, piece by piece.
pub(super) fn body(
    way: &mut impl Read,
    rest: Vec<u8>,
    framing: Framing,
    most: u64,
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), Failed> {
    let mut source = Source { way, held: rest, at: 0, left: most, most, take };
    match framing {
        Framing::Length(length) if length > most => Err(source.too_large()),
        Framing::Length(length) => source.pass(length),
        Framing::UntilClose => source.until_close(),
        Framing::Chunked => source.chunks(),
    }
}

/// A connection with bytes that were read ahead.
struct Source<'w, R> {
    way: &'w mut R,
    held: Vec<u8>,
    at: usize,
    left: u64,
    most: u64,
    take: &'w mut dyn FnMut(&[u8]) -> io::Result<()>,
}

impl<R: Read> Source<'_, R> {
    fn too_large(&self) -> Failed {
        Failed::new(Failure::TooLarge, format!("an answer of more than {} bytes", self.most))
    }

    /// The bytes that are there, after reading if none are; empty: the end.
    fn more(&mut self) -> io::Result<&[u8]> {
        if self.at >= self.held.len() {
            self.at = 0;
            self.held.resize(PIECE, 0);
            let read = self.way.read(&mut self.held);
            self.held.truncate(*read.as_ref().unwrap_or(&0));
            read?;
        }
        Ok(self.held.get(self.at..).unwrap_or_default())
    }

    /// Passes exactly so many bytes on.
    fn pass(&mut self, mut length: u64) -> Result<(), Failed> {
        if length > self.left {
            return Err(self.too_large());
        }
        self.left = self.left.saturating_sub(length);
        while length > 0 {
            let here = self.more()?;
            if here.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let count = usize::try_from(length).unwrap_or(usize::MAX).min(here.len());
            let from = self.at;
            self.at = from.saturating_add(count);
            (self.take)(self.held.get(from..self.at).unwrap_or_default())?;
            length = length.saturating_sub(count as u64);
        }
        Ok(())
    }

    fn until_close(&mut self) -> Result<(), Failed> {
        loop {
            let count = self.more()?.len() as u64;
            if count == 0 {
                return Ok(());
            }
            self.pass(count)?;
        }
    }

    fn chunks(&mut self) -> Result<(), Failed> {
        loop {
            let line = self.line()?;
            let size = match httparse::parse_chunk_size(&[&line[..], b"\r\n"].concat()) {
                Ok(httparse::Status::Complete((_, size))) => size,
                Ok(httparse::Status::Partial) | Err(_) => return Err(wrong("a chunk's size that is none")),
            };
            if size == 0 {
                break;
            }
            self.pass(size)?;
            if !self.line()?.is_empty() {
                return Err(wrong("a chunk that doesn't end where it says"));
            }
        }
        let mut bytes = 0_usize;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(());
            }
            bytes = bytes.saturating_add(line.len());
            if bytes > TRAILER_BYTES {
                return Err(wrong("more than 16 KiB behind the last chunk"));
            }
        }
    }

    /// A line without its CR LF.
    fn line(&mut self) -> Result<Vec<u8>, Failed> {
        let mut line = Vec::new();
        loop {
            let here = self.more()?;
            if here.is_empty() {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let end = here.iter().position(|byte| *byte == b'\n');
            let count = end.map_or(here.len(), |end| end.saturating_add(1));
            line.extend_from_slice(here.get(..count).unwrap_or_default());
            self.at = self.at.saturating_add(count);
            if line.len() > LINE_BYTES {
                return Err(wrong("a line of more than 4 KiB between chunks"));
            }
            if end.is_some() {
                return match line.strip_suffix(b"\r\n") {
                    Some(line) if !line.contains(&b'\r') => Ok(line.to_vec()),
                    Some(_) | None => Err(wrong("a line between chunks that doesn't end with CR LF")),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Slow<'b>(&'b [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

    fn read(bytes: &[u8], step: usize, most: u64) -> Result<(u16, Vec<u8>), Failed> {
        let mut way = Slow(bytes, step);
        let (head, rest) = head(&mut way, "GET")?;
        let mut got = Vec::new();
        body(&mut way, rest, head.framing, most, &mut |piece| {
            got.extend_from_slice(piece);
            Ok(())
        })?;
        Ok((head.status, got))
    }

    #[test]
    fn bodies_end_where_they_say_in_whatever_pieces_they_come() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloand more",
            "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2;x=y\r\nhe\r\n3\r\nllo\r\n0\r\nT: v\r\n\r\n",
            "HTTP/1.0 200 OK\r\n\r\nhello",
        ] {
            for step in [1, 2, 3, 7, 1000] {
                let (status, got) = read(text.as_bytes(), step, 5).unwrap();
                assert_eq!((status, got.as_slice()), (200, &b"hello"[..]), "{step} {text:?}");
            }
            assert_eq!(read(text.as_bytes(), 9, 4).unwrap_err().kind, Failure::TooLarge, "{text:?}");
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_or_is_cut_short_is_a_failure() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
            "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
            "HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent",
            "SSH-2.0-x\r\n",
            "",
        ] {
            assert!(read(text.as_bytes(), 3, 100).is_err(), "{text:?}");
        }
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(129));
        assert!(read(many.as_bytes(), 100, 9).unwrap_err().why.contains("128"));
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\n\r\n", "b".repeat(29 << 10));
        assert_eq!(read(long.as_bytes(), 4096, 9).unwrap_err().kind, Failure::TooLarge);
    }

    #[test]
    fn no_change_of_a_byte_trips_the_reader() {
        let good = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
        for at in 0..good.len() {
            for value in 0..=255 {
                let mut bytes = good.to_vec();
                bytes[at] = value;
                let _read = read(&bytes, 7, 64);
            }
        }
    }
}
