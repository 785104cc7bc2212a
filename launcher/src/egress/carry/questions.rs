//! The jail's questions to its name server, by UDP and TCP.
//!
//! Source: RFC 1035 section 4.2, RFC 7766.

use super::{
    super::{
        connection::{Connection, NAME_SERVER, Stage},
        entry::Granted,
        limits,
        names::NotAnswered,
        relay,
    },
    Carrier,
};
use nix::{
    errno::Errno,
    sys::socket::{MsgFlags, SockaddrStorage, recvfrom, sendto},
};
use policies::capability::Capability;
use std::{os::fd::AsRawFd, time::Instant};

/// Questions that are answered in one turn.
const QUESTIONS: usize = 64;
/// Answers over TCP that may wait for the program to read them.
const ANSWERS: usize = 64 << 10;

impl Carrier<'_> {
    pub(super) fn questions(&mut self, place: usize, now: Instant) {
        for _ in 0..QUESTIONS {
            let raw = self.listeners[place].1.as_raw_fd();
            // One byte more than is read: a longer message is cut off by the kernel, and must not be taken for a whole one.
            let mut message = [0; limits::DATAGRAM + 1];
            let (length, from) = match recvfrom::<SockaddrStorage>(raw, &mut message) {
                Ok((length, Some(from))) => (length, from),
                Err(Errno::EINTR) => continue,
                Ok((_, None)) | Err(_) => return,
            };
            if let Some(answer) = self.answer_question(&message[..length], now) {
                // A program that doesn't read its answers loses them.
                let _sent = sendto(raw, &answer, &from, MsgFlags::MSG_DONTWAIT);
            }
        }
    }

    pub(super) fn answer_question(&mut self, message: &[u8], now: Instant) -> Option<Vec<u8>> {
        let (answer, refused) = match message.len() {
            ..=limits::DATAGRAM => self.book.answer(message),
            _longer => (None, Some(NotAnswered::NoQuestion)),
        };
        if let Some(refused) = refused
            && self.refusals.take(now)
        {
            let (target, why) = match &refused {
                NotAnswered::Name(name) => {
                    (name.as_str(), "the name server was asked for a name that isn't granted")
                }
                NotAnswered::NoQuestion => (NAME_SERVER, "the name server was sent what is no question"),
            };
            self.log.add(Capability::Net, Granted::No, target, why);
        }
        answer
    }

    pub(super) fn questions_by_tcp(&mut self, slot: usize, now: Instant) {
        let mut buffer = [0; 4096];
        loop {
            let Some(connection) = self.connections[slot].as_mut() else { return };
            let _written = connection.down.flush(&connection.first, &mut self.pipes);
            let Stage::Names { got } = &mut connection.stage else { return };
            match relay::read(&connection.first, &mut buffer, MsgFlags::empty()) {
                Ok(None) => return,
                Ok(Some(0)) | Err(_) => {
                    self.leaves(slot, now);
                    return;
                }
                Ok(Some(length)) => got.extend_from_slice(&buffer[..length]),
            }
            connection.active = now;
            let mut got = std::mem::take(got);
            while let Some((length, rest)) = got.split_first_chunk::<2>() {
                let length = usize::from(u16::from_be_bytes(*length));
                if length > limits::DATAGRAM {
                    self.close(slot, Granted::No, "a question of more than 1232 bytes", now);
                    return;
                }
                let Some(message) = rest.get(..length) else { break };
                let answer = self.answer_question(message, now);
                got.drain(..2 + length);
                let Some(connection) = self.connections[slot].as_mut() else { return };
                if let Some(answer) = answer {
                    connection.down.push(&(answer.len() as u16).to_be_bytes());
                    connection.down.push(&answer);
                }
                if connection.down.pending().len() > ANSWERS {
                    self.close(slot, Granted::No, "answers that nobody reads", now);
                    return;
                }
            }
            if let Some(Connection { stage: Stage::Names { got: kept }, .. }) =
                self.connections[slot].as_mut()
            {
                *kept = got;
            }
        }
    }
}
