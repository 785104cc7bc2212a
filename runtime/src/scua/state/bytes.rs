//! Numbers, texts and lengths of a state; the reader believes nothing.

use crate::error::StateError;

/// Where a state is written.
#[derive(Default)]
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    /// Small for small numbers of either sign.
    pub(super) fn signed(&mut self, n: i64) {
        self.number(((n << 1) ^ (n >> 63)) as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// What is left of a state.
pub(super) struct In<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> In<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, whole: bytes.len() }
    }

    pub(super) fn damaged(&self, what: &'static str) -> StateError {
        StateError::Damaged { what, at: self.whole - self.rest.len() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn byte(&mut self) -> Result<u8, StateError> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| self.damaged("an early end"))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, StateError> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(self.damaged("a number"))
    }

    pub(super) fn signed(&mut self) -> Result<i64, StateError> {
        let n = self.number()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    /// A number of things that take a byte each at least.
    pub(super) fn count(&mut self) -> Result<usize, StateError> {
        let n = self.number()?;
        match usize::try_from(n) {
            Ok(n) if n <= self.rest.len() => Ok(n),
            _ => Err(self.damaged("a count")),
        }
    }

    /// One of so many.
    pub(super) fn index(&mut self, of: usize) -> Result<usize, StateError> {
        let n = self.number()?;
        match usize::try_from(n) {
            Ok(n) if n < of => Ok(n),
            _ => Err(self.damaged("a reference")),
        }
    }

    pub(super) fn small(&mut self) -> Result<u32, StateError> {
        let n = self.number()?;
        u32::try_from(n).map_err(|_| self.damaged("a number"))
    }

    pub(super) fn bool(&mut self) -> Result<bool, StateError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.damaged("a truth value")),
        }
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], StateError> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.damaged("an early end"))?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, StateError> {
        let count = self.count()?;
        let bytes = self.take(count)?;
        std::str::from_utf8(bytes).map_err(|_| self.damaged("a text"))
    }
}
