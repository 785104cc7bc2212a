//! Source → tokens, indentation included.
//!
//! Invariant: never recurses, and reads each byte a bounded number of times.

use super::numbers;
use super::token::{Piece, Sym, Tok, Token};
use crate::error::LoadError;
use std::rc::Rc;

/// Templates inside templates, in levels.
const TEMPLATE_DEPTH: usize = 16;

struct Lexer<'s> {
    text: &'s str,
    bytes: &'s [u8],
    pos: usize,
    end: usize,
    tokens: Vec<Token>,
    indents: Vec<usize>,
    brackets: Vec<u8>,
    line_start: bool,
}

/// Reads a whole file.
pub(crate) fn lex(text: &str) -> Result<Vec<Token>, LoadError> {
    let mut lexer = Lexer::new(text, 0, text.len());
    lexer.run()?;
    lexer.close();
    Ok(lexer.tokens)
}

/// Reads the expression in a template's hole: no lines, no indentation.
pub(crate) fn lex_hole(text: &str, from: usize, to: usize) -> Result<Vec<Token>, LoadError> {
    let mut lexer = Lexer::new(text, from, to);
    lexer.brackets.push(b'{');
    lexer.line_start = false;
    lexer.run()?;
    lexer.push(Tok::End, to, to);
    Ok(lexer.tokens)
}

impl<'s> Lexer<'s> {
    fn new(text: &'s str, pos: usize, end: usize) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            pos,
            end,
            tokens: Vec::with_capacity((end - pos) / 4 + 8),
            indents: vec![0],
            brackets: Vec::new(),
            line_start: true,
        }
    }

    fn push(&mut self, kind: Tok, at: usize, end: usize) {
        self.tokens.push(Token { kind, at: at as u32, end: end as u32 });
    }

    fn peek(&self, ahead: usize) -> u8 {
        let i = self.pos + ahead;
        if i < self.end { self.bytes[i] } else { 0 }
    }

    fn close(&mut self) {
        let end = self.end;
        if !matches!(self.tokens.last().map(|t| &t.kind), None | Some(Tok::Newline | Tok::Dedent)) {
            self.push(Tok::Newline, end, end);
        }
        while self.indents.len() > 1 {
            self.indents.pop();
            self.push(Tok::Dedent, end, end);
        }
        self.push(Tok::End, end, end);
    }

    fn run(&mut self) -> Result<(), LoadError> {
        while self.pos < self.end {
            if self.line_start && self.brackets.is_empty() {
                self.line_start = false;
                if !self.indentation()? {
                    continue;
                }
            }
            self.token()?;
        }
        Ok(())
    }

    /// Measures the indentation; `false` if the line holds nothing.
    fn indentation(&mut self) -> Result<bool, LoadError> {
        let mut width = 0;
        loop {
            match self.peek(0) {
                b' ' => width += 1,
                b'\t' => width += 4,
                _ => break,
            }
            self.pos += 1;
        }
        if self.pos >= self.end {
            return Ok(false);
        }
        if self.peek(0) == b'\n' {
            self.pos += 1;
            self.line_start = true;
            return Ok(false);
        }
        if self.peek(0) == b'-' && self.peek(1) == b'-' {
            self.skip_comment();
            return Ok(false);
        }
        let pos = self.pos;
        let current = self.indents.last().copied().unwrap_or(0);
        if width > current {
            self.indents.push(width);
            self.push(Tok::Indent, pos, pos);
        } else if width < current {
            while self.indents.last().is_some_and(|top| *top > width) {
                self.indents.pop();
                self.push(Tok::Dedent, pos, pos);
            }
            if self.indents.last() != Some(&width) {
                return Err(LoadError::parse(
                    pos as u32,
                    "this line's indentation matches no enclosing block (one step is 4 spaces or 1 tab)",
                ));
            }
        }
        Ok(true)
    }

    /// Leaves the position at the line's end.
    fn skip_comment(&mut self) {
        while self.pos < self.end && self.bytes[self.pos] != b'\n' {
            self.pos += 1;
        }
    }

    fn token(&mut self) -> Result<(), LoadError> {
        let at = self.pos;
        let c = self.bytes[at];
        match c {
            b' ' | b'\t' | b'\r' => self.pos += 1,
            b'\n' => {
                self.pos += 1;
                if self.brackets.is_empty() {
                    let blank = matches!(
                        self.tokens.last().map(|t| &t.kind),
                        None | Some(Tok::Newline | Tok::Indent | Tok::Dedent)
                    );
                    if !blank {
                        self.push(Tok::Newline, at, at);
                    }
                    self.line_start = true;
                }
            }
            b'"' | b'\'' => self.string(c)?,
            b'`' => self.template()?,
            b'0'..=b'9' => {
                let (kind, end) = numbers::scan(self.text, at, self.end)?;
                self.pos = end;
                self.push(kind, at, end);
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'-' if self.peek(1) == b'-' => {
                self.comment_trap()?;
                self.skip_comment();
            }
            _ if c >= 0x80 => {
                let ch = self.text[at..].chars().next().unwrap_or(' ');
                if ch.is_alphabetic() {
                    self.word();
                } else {
                    return Err(LoadError::lexer(at as u32, format!("Unexpected character: '{ch}'")));
                }
            }
            _ => self.symbol()?,
        }
        Ok(())
    }

    fn word(&mut self) {
        let at = self.pos;
        let rest = &self.text[at..self.end];
        let len = rest
            .char_indices()
            .find(|(_, c)| {
                !(c.is_ascii_alphanumeric() || *c == '_' || (!c.is_ascii() && c.is_alphanumeric()))
            })
            .map_or(rest.len(), |(i, _)| i);
        self.pos = at + len;
        let word: Rc<str> = rest[..len].into();
        self.push(Tok::Word(word), at, at + len);
    }

    fn symbol(&mut self) -> Result<(), LoadError> {
        let at = self.pos;
        let (sym, len) = match (self.peek(0), self.peek(1), self.peek(2)) {
            (b'.', b'.', b'.') => (Sym::Dots, 3),
            (b'*', b'*', _) => (Sym::StarStar, 2),
            (b'/', b'/', _) => (Sym::SlashSlash, 2),
            (b'=', b'=', _) => (Sym::EqEq, 2),
            (b'!', b'=', _) => (Sym::NotEq, 2),
            (b'<', b'=', _) => (Sym::LessEq, 2),
            (b'>', b'=', _) => (Sym::GreaterEq, 2),
            (b'=', b'>', _) => (Sym::Arrow, 2),
            (b'|', b'>', _) => (Sym::Pipe, 2),
            (b'+', ..) => (Sym::Plus, 1),
            (b'-', ..) => (Sym::Minus, 1),
            (b'*', ..) => (Sym::Star, 1),
            (b'/', ..) => (Sym::Slash, 1),
            (b'%', ..) => (Sym::Percent, 1),
            (b'<', ..) => (Sym::Less, 1),
            (b'>', ..) => (Sym::Greater, 1),
            (b'=', ..) => (Sym::Assign, 1),
            (b'.', ..) => (Sym::Dot, 1),
            (b',', ..) => (Sym::Comma, 1),
            (b':', ..) => (Sym::Colon, 1),
            (b'(', ..) => (Sym::LParen, 1),
            (b')', ..) => (Sym::RParen, 1),
            (b'[', ..) => (Sym::LBracket, 1),
            (b']', ..) => (Sym::RBracket, 1),
            (b'{', ..) => (Sym::LBrace, 1),
            (b'}', ..) => (Sym::RBrace, 1),
            (b'?', ..) => (Sym::Question, 1),
            (b';', ..) => {
                return Err(LoadError::lexer(
                    at as u32,
                    "Unexpected character: ';' — a statement ends with its line, there is no `;`",
                ));
            }
            (c, ..) => {
                let hint = match (c, self.peek(1)) {
                    (b'#', _) => " — comments start with `--`",
                    (b'&', b'&') => " — both conditions: `a and b`",
                    (b'|', b'|') => " — one of two conditions: `a or b`",
                    (b'!', _) => " — the opposite of a condition: `not a`",
                    _ => "",
                };
                return Err(LoadError::lexer(
                    at as u32,
                    format!("Unexpected character: '{}'{hint}", char::from(c)),
                ));
            }
        };
        match sym {
            Sym::LParen => self.brackets.push(b'('),
            Sym::LBracket => self.brackets.push(b'['),
            Sym::LBrace => self.brackets.push(b'{'),
            Sym::RParen | Sym::RBracket | Sym::RBrace => {
                self.brackets.pop();
            }
            _ => {}
        }
        self.pos += len;
        self.push(Tok::Sym(sym), at, at + len);
        Ok(())
    }

    /// `x--1` and `f(x --1)` read as a comment to the machine and as arithmetic to a person: refuse.
    fn comment_trap(&self) -> Result<(), LoadError> {
        let at = self.pos;
        if !matches!(self.peek(2), b'0'..=b'9' | b'(') {
            return Ok(());
        }
        let Some(last) = self.tokens.last() else { return Ok(()) };
        let value = match &last.kind {
            Tok::Word(w) => !super::token::is_keyword(w) || matches!(&**w, "true" | "false" | "nothing"),
            Tok::Sym(s) => matches!(s, Sym::RParen | Sym::RBracket | Sym::RBrace),
            Tok::Newline | Tok::Indent | Tok::Dedent | Tok::End => false,
            _ => true,
        };
        if !value || self.text[last.end as usize..at].contains('\n') {
            return Ok(());
        }
        let glued = last.end as usize == at;
        if glued || (self.brackets.last() == Some(&b'(') && self.closes_on_line(at)) {
            return Err(LoadError::lexer(
                at as u32,
                "`--` here could be a comment or a subtraction — write `x - -1` to subtract a negative, or put a \
                 space after the dashes (`x -- 1`) for a comment",
            ));
        }
        Ok(())
    }

    fn closes_on_line(&self, from: usize) -> bool {
        let mut depth = 0i32;
        for &b in self.bytes[from..self.end].iter().take_while(|b| **b != b'\n') {
            match b {
                b'(' => depth += 1,
                b')' if depth == 0 => return true,
                b')' => depth -= 1,
                _ => {}
            }
        }
        false
    }

    fn string(&mut self, quote: u8) -> Result<(), LoadError> {
        let at = self.pos;
        let mut i = at + 1;
        let mut out = String::new();
        let mut plain = i;
        loop {
            if i >= self.end || self.bytes[i] == b'\n' {
                return Err(LoadError::lexer(at as u32, "Unterminated string"));
            }
            let c = self.bytes[i];
            if c == quote {
                break;
            }
            if c == b'\\' {
                out.push_str(&self.text[plain..i]);
                if i + 1 >= self.end || self.bytes[i + 1] == b'\n' {
                    return Err(LoadError::lexer(at as u32, "Unterminated string"));
                }
                i = self.escape(i, &mut out, true);
                plain = i;
                continue;
            }
            i += 1;
        }
        out.push_str(&self.text[plain..i]);
        self.pos = i + 1;
        self.push(Tok::Text(out.into()), at, i + 1);
        Ok(())
    }

    /// Reads the escape at `i` and gives the position after it; an unknown one keeps its backslash.
    fn escape(&self, i: usize, out: &mut String, braces: bool) -> usize {
        let next = self.text[i + 1..].chars().next().unwrap_or('\\');
        let simple = match next {
            'n' => Some('\n'),
            't' => Some('\t'),
            'r' => Some('\r'),
            '\\' | '"' | '\'' => Some(next),
            _ => None,
        };
        if let Some(c) = simple {
            out.push(c);
            return i + 2;
        }
        if next == 'u' {
            if braces && let Some((c, len)) = self.braced(i + 2) {
                out.push(c);
                return i + 2 + len;
            }
            if let Some(high) = self.hex4(i + 2) {
                if let Some(c) = char::from_u32(high) {
                    out.push(c);
                    return i + 6;
                }
                let pair = self.bytes.get(i + 6) == Some(&b'\\') && self.bytes.get(i + 7) == Some(&b'u');
                if pair
                    && (0xd800..0xdc00).contains(&high)
                    && let Some(low) = self.hex4(i + 8)
                    && (0xdc00..0xe000).contains(&low)
                    && let Some(c) = char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
                {
                    out.push(c);
                    return i + 12;
                }
            }
        }
        out.push('\\');
        i + 1
    }

    fn hex4(&self, from: usize) -> Option<u32> {
        let digits = self.text.get(from..from + 4).filter(|_| from + 4 <= self.end)?;
        digits.bytes().all(|b| b.is_ascii_hexdigit()).then(|| u32::from_str_radix(digits, 16).ok())?
    }

    fn braced(&self, from: usize) -> Option<(char, usize)> {
        let rest = self.text.get(from..self.end)?.strip_prefix('{')?;
        let close = rest.find('}').filter(|n| (1..=6).contains(n))?;
        let digits = &rest[..close];
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
        Some((c, close + 2))
    }

    fn template(&mut self) -> Result<(), LoadError> {
        let at = self.pos;
        let mut pieces = Vec::new();
        let mut out = String::new();
        let mut i = at + 1;
        loop {
            if i >= self.end {
                return Err(LoadError::lexer(at as u32, "Unterminated template"));
            }
            match self.bytes[i] {
                b'`' => break,
                b'\\' if i + 1 < self.end => match self.bytes[i + 1] {
                    c @ (b'{' | b'}' | b'`') => {
                        out.push(char::from(c));
                        i += 2;
                    }
                    _ => i = self.escape(i, &mut out, false),
                },
                b'{' => {
                    let close = self.hole_end(i + 1, at)?;
                    if !out.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut out).into()));
                    }
                    pieces.push(Piece::Hole(i as u32 + 1, close as u32));
                    i = close + 1;
                }
                _ => {
                    let c = self.text[i..].chars().next().unwrap_or(' ');
                    out.push(c);
                    i += c.len_utf8();
                }
            }
        }
        if !out.is_empty() {
            pieces.push(Piece::Text(out.into()));
        }
        self.pos = i + 1;
        self.push(Tok::Template(pieces.into()), at, i + 1);
        Ok(())
    }

    /// Finds the `}` that closes a hole: strings and inner templates are stepped over.
    fn hole_end(&self, from: usize, at: usize) -> Result<usize, LoadError> {
        // Each entry is what is open: `{` in a hole, '`' in a template.
        let mut open: Vec<u8> = vec![b'{'];
        let mut i = from;
        while i < self.end {
            let c = self.bytes[i];
            let in_template = open.last() == Some(&b'`');
            match c {
                b'\\' => i += 1,
                b'{' => open.push(b'{'),
                b'}' if !in_template => {
                    open.pop();
                    if open.is_empty() {
                        return Ok(i);
                    }
                }
                b'`' if in_template => {
                    open.pop();
                }
                b'`' => {
                    open.push(b'`');
                    if open.iter().filter(|c| **c == b'`').count() > TEMPLATE_DEPTH {
                        return Err(LoadError::lexer(i as u32, "templates are nested too deeply"));
                    }
                }
                b'"' | b'\'' if !in_template => {
                    i += 1;
                    while i < self.end && self.bytes[i] != c && self.bytes[i] != b'\n' {
                        if self.bytes[i] == b'\\' {
                            i += 1;
                        }
                        i += 1;
                    }
                }
                _ => {}
            }
            i += 1;
        }
        Err(LoadError::lexer(at as u32, "Unterminated template"))
    }
}
