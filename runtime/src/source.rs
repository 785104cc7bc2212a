//! Source files and places in them.
//!
//! A place is a byte offset; line and column are worked out only when somebody wants them. A program that catches its own
//! errors wants the line of each, so where lines start is looked for once.

use std::sync::OnceLock;

/// A source text with the name that diagnostics give it.
#[derive(Debug, Clone)]
pub struct Source {
    /// As given on the command line, `<stdin>` for `-`.
    pub name: String,
    /// The text, without a byte order mark and with LF line ends.
    pub text: String,
    /// Where lines start, once somebody has asked.
    starts: OnceLock<Vec<u32>>,
}

/// Line and column, both from 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Source {
    /// Takes a text in: the byte order mark goes, CRLF becomes LF.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = if text.contains("\r\n") { text.replace("\r\n", "\n") } else { text.to_owned() };
        Self { name: name.to_owned(), text, starts: OnceLock::new() }
    }

    /// The line and column of a byte offset.
    #[must_use]
    pub fn place(&self, offset: u32) -> Place {
        let end = self.floor(offset as usize);
        let line = self.line_of(end as u32);
        let start = self.starts().get(line as usize - 1).map_or(0, |start| *start as usize);
        let column = self.text[start..end].chars().count() as u32 + 1;
        Place { line, column }
    }

    /// The line of a byte offset, from 1.
    #[must_use]
    pub fn line_of(&self, offset: u32) -> u32 {
        (self.starts().partition_point(|start| *start <= offset) as u32).max(1)
    }

    fn starts(&self) -> &[u32] {
        self.starts.get_or_init(|| {
            let ends = self.text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
            std::iter::once(0).chain(ends.map(|(i, _)| i as u32 + 1)).collect()
        })
    }

    /// The text of a line, from 1.
    #[must_use]
    pub fn line(&self, line: u32) -> &str {
        self.text.split('\n').nth(line.saturating_sub(1) as usize).unwrap_or("")
    }

    fn floor(&self, offset: usize) -> usize {
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_has_the_line_and_column_that_counting_gives() {
        for text in ["", "a", "\n", "\n\n", "ä\nb\n", "one\ntwo ü\n\nfour"] {
            let source = Source::new("t", text);
            for offset in 0..=text.len() as u32 + 2 {
                let mut end = (offset as usize).min(text.len());
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                let line = text[..end].split('\n').count() as u32;
                let column =
                    text[..end].split('\n').next_back().map_or(0, |part| part.chars().count()) as u32 + 1;
                assert_eq!(source.place(offset), Place { line, column }, "{text:?} at {offset}");
            }
        }
    }
}
