//! One request and its answer, over a connection of their own.

use super::{
    Job, model,
    reply::{self, Framing, Head},
    tls::{Spoken, Tls},
    wire::{Failed, Way},
};
use policies::{
    fetch::{Failure, Outcome},
    scope::Host,
};
use rustls::Stream;
use std::{
    fs::File,
    io::{self, Read, Write},
};

/// What is read or written at once.
const PIECE: usize = 64 << 10;
/// Largest answer of a model's provider.
const MOST_SAID: u64 = 4 << 20;

/// A job and the file that gets the answer's body.
pub(super) struct Exchange<'j> {
    pub(super) job: &'j Job,
    pub(super) answer: File,
    /// Bytes of the body so far.
    pub(super) written: u64,
}

impl Exchange<'_> {
    /// Sends the request and reads the answer.
    pub(super) fn over(
        &mut self,
        way: &mut Way,
        tls: &mut Tls,
        host: &Host,
        body: Option<File>,
    ) -> Result<Outcome, Failed> {
        if !self.job.tls {
            return self.speak(way, body);
        }
        let mut connection = tls.shake_hands(Spoken::Http, host, way)?;
        self.speak(&mut Stream::new(&mut connection, way), body)
    }

    fn speak(&mut self, way: &mut (impl Read + Write), body: Option<File>) -> Result<Outcome, Failed> {
        match self.send(way, body) {
            Ok(()) => self.receive(way),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(error.into()),
            // A server may answer before it has read everything, and close: its answer says more than the broken pipe.
            Err(error) => self.receive(way).map_err(|_| error.into()),
        }
    }

    fn send(&self, way: &mut impl Write, body: Option<File>) -> io::Result<()> {
        let job = self.job;
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", job.method, job.path, job.authority);
        let sets = |name: &str| job.fields.iter().any(|(field, _)| field.eq_ignore_ascii_case(name));
        for (name, default) in [("User-Agent", "thirdwall"), ("Accept", "*/*")] {
            if !sets(name) {
                head.push_str(&format!("{name}: {default}\r\n"));
            }
        }
        for (name, value) in &job.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(length) = job.body {
            head.push_str(&format!("Content-Length: {length}\r\n"));
        }
        head.push_str("Connection: close\r\n\r\n");
        way.write_all(head.as_bytes())?;
        if let (Some(length), Some(body)) = (job.body, body) {
            let mut body = body.take(length);
            let mut piece = vec![0; PIECE];
            loop {
                match body.read(&mut piece)? {
                    0 => break,
                    count => way.write_all(piece.get(..count).unwrap_or_default())?,
                }
            }
        }
        way.flush()
    }

    fn receive(&mut self, way: &mut impl Read) -> Result<Outcome, Failed> {
        let (head, rest) = reply::head(way, &self.job.method)?;
        let Head { status, fields, framing } = head;
        match self.job.provider {
            None => {
                self.body(way, rest, framing)?;
                Ok(Outcome::Answered { status, fields })
            }
            Some(provider) => {
                let sent = self.job.body.unwrap_or(0);
                let mut said = Vec::new();
                let got = reply::body(way, rest, framing, MOST_SAID, &mut |bytes| {
                    said.extend_from_slice(bytes);
                    Ok(())
                });
                let read = got.and_then(|()| {
                    model::read((provider, self.job.form), status, sent, &said)
                        .map_err(|why| Failed::new(Failure::Io, why))
                });
                // A model has worked for what can't be read, too.
                let unread = if (200..300).contains(&status) { model::about(sent, said.len()) } else { 0 };
                let model::Said { text, tokens } =
                    read.map_err(|failed| Failed { tokens: unread, ..failed })?;
                self.answer.write_all(text.as_bytes())?;
                self.written = text.len() as u64;
                Ok(Outcome::Said { tokens })
            }
        }
    }

    fn body(&mut self, way: &mut impl Read, rest: Vec<u8>, framing: Framing) -> Result<(), Failed> {
        let (answer, written) = (&mut self.answer, &mut self.written);
        reply::body(way, rest, framing, self.job.most, &mut |bytes| {
            answer.write_all(bytes)?;
            *written += bytes.len() as u64;
            Ok(())
        })
    }
}
