//! Tokens: what the lexer makes and the parser reads.

use std::rc::Rc;

/// A word of the language that can't name a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    And,
    Ask,
    Break,
    Continue,
    Do,
    Else,
    Elseif,
    End,
    False,
    Fn,
    For,
    If,
    Import,
    In,
    Let,
    Match,
    Nil,
    Not,
    Or,
    Return,
    Spawn,
    Tell,
    Then,
    True,
    While,
}

const KEYWORDS: [(Keyword, &str); 25] = [
    (Keyword::And, "and"),
    (Keyword::Ask, "ask"),
    (Keyword::Break, "break"),
    (Keyword::Continue, "continue"),
    (Keyword::Do, "do"),
    (Keyword::Else, "else"),
    (Keyword::Elseif, "elseif"),
    (Keyword::End, "end"),
    (Keyword::False, "false"),
    (Keyword::Fn, "fn"),
    (Keyword::For, "for"),
    (Keyword::If, "if"),
    (Keyword::Import, "import"),
    (Keyword::In, "in"),
    (Keyword::Let, "let"),
    (Keyword::Match, "match"),
    (Keyword::Nil, "nil"),
    (Keyword::Not, "not"),
    (Keyword::Or, "or"),
    (Keyword::Return, "return"),
    (Keyword::Spawn, "spawn"),
    (Keyword::Tell, "tell"),
    (Keyword::Then, "then"),
    (Keyword::True, "true"),
    (Keyword::While, "while"),
];

impl Keyword {
    pub(super) fn of(word: &str) -> Option<Self> {
        KEYWORDS.iter().find(|(_, text)| *text == word).map(|(keyword, _)| *keyword)
    }

    pub(super) fn text(self) -> &'static str {
        KEYWORDS.iter().find(|(keyword, _)| *keyword == self).map_or("", |(_, text)| text)
    }
}

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Name(Rc<str>),
    Tag(Rc<str>),
    Keyword(Keyword),
    Int(i64),
    /// 9223372036854775808, which only a minus makes an int.
    MinInt,
    Float(f64),
    Text(Rc<str>),
    Mark(&'static str),
    /// The backtick that opens a template.
    Template,
    /// Text between holes.
    Piece(Rc<str>),
    Hole,
    HoleEnd,
    TemplateEnd,
    Newline,
    End,
    /// What the lexer couldn't read; nothing follows it.
    Wrong(Rc<str>),
}

impl Token {
    /// As messages name it.
    pub(super) fn shown(&self) -> String {
        match self {
            Token::Name(text) | Token::Tag(text) => format!("`{text}`"),
            Token::Keyword(keyword) => format!("`{}`", keyword.text()),
            Token::Int(_) | Token::MinInt | Token::Float(_) => "a number".into(),
            Token::Text(_) => "a string".into(),
            Token::Mark(text) => format!("`{text}`"),
            Token::Template | Token::Piece(_) | Token::TemplateEnd => "a template".into(),
            Token::Hole => "`{`".into(),
            Token::HoleEnd => "`}`".into(),
            Token::Newline => "the end of the line".into(),
            Token::End => "the end of the source".into(),
            Token::Wrong(text) => text.to_string(),
        }
    }
}
