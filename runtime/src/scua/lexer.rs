//! Source → tokens. What can't be read becomes the last token, so that errors come in the order of the source.

use super::token::{Keyword, Token};

/// Templates inside one another.
const MAX_TEMPLATES: usize = 16;
const MARKS: [&str; 25] = [
    "//", "==", "!=", "<=", ">=", "..", "->", "+", "-", "*", "/", "%", "<", ">", "=", ".", ",", ";", "(",
    ")", "[", "]", "{", "}", "_",
];

/// A token and the byte where it starts.
pub(super) type Placed = (Token, u32);

/// All tokens; the last one is `End` or `Wrong`.
pub(super) fn tokens(text: &str) -> Vec<Placed> {
    // A token takes some four bytes, and a short source is read in one go.
    let out = Vec::with_capacity((text.len() / 4).min(1 << 12));
    let mut lexer = Lexer { text, at: 0, out, holes: Vec::new() };
    if let Some(at) = text.find('\0') {
        // Everything before it is still read first.
        lexer.text = &text[..at];
        if lexer.all() {
            lexer.out.push((Token::Wrong(format!("the source holds a NUL (byte {at})").into()), at as u32));
        }
        return lexer.out;
    }
    if lexer.all() {
        lexer.out.push((Token::End, text.len() as u32));
    }
    lexer.out
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    out: Vec<Placed>,
    /// For each open hole of a template: braces open inside it.
    holes: Vec<usize>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong(&mut self, at: usize, message: impl Into<String>) -> bool {
        self.out.push((Token::Wrong(message.into().into()), at as u32));
        false
    }

    fn put(&mut self, token: Token, at: usize) -> bool {
        self.out.push((token, at as u32));
        true
    }

    /// `false` once something was wrong.
    fn all(&mut self) -> bool {
        while let Some(byte) = self.peek() {
            if !self.one(byte) {
                return false;
            }
        }
        if self.holes.is_empty() { true } else { self.wrong(self.text.len(), "the template is not closed") }
    }

    fn one(&mut self, byte: u8) -> bool {
        let start = self.at;
        match byte {
            b' ' | b'\t' | b'\r' => {
                self.at += 1;
                true
            }
            b'\n' => {
                self.at += 1;
                self.put(Token::Newline, start)
            }
            b'-' if self.rest().starts_with("--") => {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                true
            }
            b'"' => self.string(),
            b'`' => {
                if self.holes.len() >= MAX_TEMPLATES {
                    return self.wrong(start, "templates nest too deeply (limit 16)");
                }
                self.at += 1;
                self.put(Token::Template, start);
                self.template()
            }
            b'\'' => self.wrong(start, "strings use double quotes"),
            b'0'..=b'9' => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'}' if self.holes.last() == Some(&0) => {
                self.at += 1;
                self.holes.pop();
                self.put(Token::HoleEnd, start);
                self.template()
            }
            _ => self.mark(),
        }
    }

    fn mark(&mut self) -> bool {
        let start = self.at;
        let rest = self.text.as_bytes().get(start..).unwrap_or(&[]);
        let found = MARKS.iter().find(|mark| rest.starts_with(mark.as_bytes())).copied();
        let Some(mark) = found else {
            let c = self.rest().chars().next().unwrap_or(' ');
            return self.wrong(start, format!("unexpected character `{}`", c.escape_debug()));
        };
        self.at += mark.len();
        if let Some(open) = self.holes.last_mut() {
            match mark {
                "{" => *open += 1,
                "}" => *open = open.saturating_sub(1),
                _ => {}
            }
        }
        self.put(Token::Mark(mark), start)
    }

    fn word(&mut self) -> bool {
        let start = self.at;
        let length = self.rest().bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        self.at += length;
        let word = &self.text[start..self.at];
        let token = match Keyword::of(word) {
            Some(keyword) => Token::Keyword(keyword),
            None if word == "_" => Token::Mark("_"),
            None if word.starts_with(|c: char| c.is_ascii_uppercase()) => Token::Tag(word.into()),
            None => Token::Name(word.into()),
        };
        self.put(token, start)
    }

    /// Digits with `_` between two of them; `None` if one stands elsewhere.
    fn digits(&mut self, allowed: fn(u8) -> bool) -> Option<String> {
        let start = self.at;
        while self.peek().is_some_and(|b| allowed(b) || b == b'_') {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        if text.is_empty() || text.starts_with('_') || text.ends_with('_') || text.contains("__") {
            return None;
        }
        Some(text.replace('_', ""))
    }

    fn number(&mut self) -> bool {
        let start = self.at;
        let radix = match self.rest().get(..2) {
            Some("0x" | "0X") => 16,
            Some("0b" | "0B") => 2,
            _ => 10,
        };
        if radix != 10 {
            self.at += 2;
            let allowed: fn(u8) -> bool =
                if radix == 16 { |b| b.is_ascii_hexdigit() } else { |b| matches!(b, b'0' | b'1') };
            let Some(digits) = self.digits(allowed) else {
                return self.wrong(start, "the number is malformed");
            };
            return match i64::from_str_radix(&digits, radix) {
                Ok(n) => self.unit(start).unwrap_or_else(|| self.put(Token::Int(n), start)),
                Err(_) => self.wrong(start, "the number is out of range"),
            };
        }
        let digit: fn(u8) -> bool = |b| b.is_ascii_digit();
        let Some(mut digits) = self.digits(digit) else {
            return self.wrong(start, "the number is malformed");
        };
        let mut float = false;
        let after = self.text.as_bytes().get(self.at + 1);
        if self.peek() == Some(b'.') && after.is_some_and(u8::is_ascii_digit) {
            self.at += 1;
            let Some(fraction) = self.digits(digit) else {
                return self.wrong(start, "the number is malformed");
            };
            digits = format!("{digits}.{fraction}");
            float = true;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            let sign = self.text.as_bytes().get(self.at + 1).is_some_and(|b| matches!(b, b'+' | b'-'));
            let first = self.text.as_bytes().get(self.at + 1 + usize::from(sign));
            if first.is_some_and(u8::is_ascii_digit) {
                let minus = sign && self.text.as_bytes().get(self.at + 1) == Some(&b'-');
                self.at += 1 + usize::from(sign);
                let Some(exponent) = self.digits(digit) else {
                    return self.wrong(start, "the number is malformed");
                };
                digits = format!("{digits}e{}{exponent}", if minus { "-" } else { "" });
                float = true;
            }
        }
        if let Some(done) = self.duration(start, &digits) {
            return done;
        }
        if float {
            return match digits.parse::<f64>() {
                Ok(f) if f.is_finite() => self.put(Token::Float(f), start),
                _ => self.wrong(start, "the number is out of range"),
            };
        }
        match digits.parse::<u64>() {
            Ok(n) if n == 1 << 63 => self.put(Token::MinInt, start),
            Ok(n) => match i64::try_from(n) {
                Ok(n) => self.put(Token::Int(n), start),
                Err(_) => self.wrong(start, "the number is out of range"),
            },
            Err(_) => self.wrong(start, "the number is out of range"),
        }
    }

    /// A letter glued to a number that isn't a unit.
    fn unit(&mut self, start: usize) -> Option<bool> {
        let length = self.rest().bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        if length == 0 {
            return None;
        }
        let unit = self.rest()[..length].to_owned();
        Some(self.wrong(start, format!("unknown unit `{unit}` after a number")))
    }

    fn duration(&mut self, start: usize, digits: &str) -> Option<bool> {
        let length = self.rest().bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let factor: f64 = match &self.rest()[..length] {
            "" => return None,
            "ms" => 1.0,
            "s" => 1e3,
            "m" => 6e4,
            "h" => 3.6e6,
            _ => return self.unit(start),
        };
        self.at += length;
        if let Ok(whole) = digits.parse::<i64>() {
            return Some(match whole.checked_mul(factor as i64) {
                Some(n) => self.put(Token::Int(n), start),
                None => self.wrong(start, "the number is out of range"),
            });
        }
        let ms = digits.parse::<f64>().map_or(f64::NAN, |f| f * factor);
        // Decimal fractions aren't exact: a millionth of a millisecond is rounding, more is not.
        let whole = ms.round();
        Some(if !ms.is_finite() || whole.abs() >= 9e15 {
            self.wrong(start, "the number is out of range")
        } else if (ms - whole).abs() > 1e-6 {
            self.wrong(start, "a duration is a whole number of milliseconds")
        } else {
            self.put(Token::Int(whole as i64), start)
        })
    }

    /// The character after a backslash; `Err` has the message.
    fn escape(&mut self, template: bool) -> Result<char, String> {
        let c = self.rest().chars().next();
        self.at += c.map_or(0, char::len_utf8);
        Ok(match c {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('0') => '\0',
            Some('\\') => '\\',
            Some('"') => '"',
            Some(c @ ('`' | '{' | '}')) if template => c,
            Some('u') => {
                let inside = self
                    .rest()
                    .strip_prefix('{')
                    .and_then(|rest| rest.split_once('}'))
                    .map(|(digits, _)| digits.to_owned());
                let code =
                    inside.filter(|d| (1..=6).contains(&d.len()) && d.bytes().all(|b| b.is_ascii_hexdigit()));
                let c =
                    code.as_deref().and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32);
                match (c, code) {
                    (Some(c), Some(code)) => {
                        self.at += code.len() + 2;
                        c
                    }
                    _ => return Err("a unicode escape is `\\u{1 to 6 hex digits}` of a character".into()),
                }
            }
            Some(c) => return Err(format!("unknown escape `\\{}`", c.escape_debug())),
            None => return Err("unknown escape `\\`".into()),
        })
    }

    fn string(&mut self) -> bool {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let length = self.rest().bytes().take_while(|b| !matches!(b, b'"' | b'\\' | b'\n')).count();
            text.push_str(&self.text[self.at..self.at + length]);
            self.at += length;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return self.put(Token::Text(text.into()), start);
                }
                Some(b'\\') => {
                    let at = self.at;
                    self.at += 1;
                    if matches!(self.peek(), None | Some(b'\n')) {
                        return self.wrong(start, "the string is not closed");
                    }
                    match self.escape(false) {
                        Ok(c) => text.push(c),
                        Err(message) => return self.wrong(at, message),
                    }
                }
                _ => return self.wrong(start, "the string is not closed"),
            }
        }
    }

    /// Text of a template up to its next hole or its end.
    fn template(&mut self) -> bool {
        let start = self.at;
        let mut text = String::new();
        loop {
            let length = self.rest().bytes().take_while(|b| !matches!(b, b'`' | b'\\' | b'{' | b'}')).count();
            text.push_str(&self.text[self.at..self.at + length]);
            self.at += length;
            let at = self.at;
            let end = match self.peek() {
                Some(b'`') => Token::TemplateEnd,
                Some(b'{') => {
                    self.holes.push(0);
                    Token::Hole
                }
                Some(b'\\') => {
                    self.at += 1;
                    match self.escape(true) {
                        Ok(c) => text.push(c),
                        Err(message) => return self.wrong(at, message),
                    }
                    continue;
                }
                Some(_) => return self.wrong(at, "a `}` in a template is written `\\}`"),
                None => return self.wrong(start, "the template is not closed"),
            };
            self.at += 1;
            if !text.is_empty() {
                self.put(Token::Piece(text.into()), start);
            }
            return self.put(end, at);
        }
    }
}
