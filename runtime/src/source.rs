//! Source files and places in them.
//!
//! A place is a byte offset; line and column are worked out only when somebody reads a diagnostic.

/// A source text with the name that diagnostics give it.
#[derive(Debug, Clone)]
pub struct Source {
    /// As given on the command line, `<stdin>` for `-`.
    pub name: String,
    /// The text, without a byte order mark and with LF line ends.
    pub text: String,
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
        Self { name: name.to_owned(), text }
    }

    /// The line and column of a byte offset.
    #[must_use]
    pub fn place(&self, offset: u32) -> Place {
        let end = self.floor(offset as usize);
        let before = &self.text[..end];
        let line = before.bytes().filter(|b| *b == b'\n').count() as u32 + 1;
        let start = before.rfind('\n').map_or(0, |i| i + 1);
        let column = before[start..].chars().count() as u32 + 1;
        Place { line, column }
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
