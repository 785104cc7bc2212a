//! Tokens.

use std::rc::Rc;

/// One token with its place.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: Tok,
    /// Byte offset of the first character.
    pub(crate) at: u32,
    /// Byte offset after the last character.
    pub(crate) end: u32,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tok {
    /// A name or a keyword.
    Word(Rc<str>),
    Int(i64),
    /// Decimal digits of an integer beyond 64 bits.
    BigInt(Rc<str>),
    Float(f64),
    /// A decimal's digits, without the `d`.
    Decimal(Rc<str>),
    Text(Rc<str>),
    Template(Rc<[Piece]>),
    Sym(Sym),
    Newline,
    Indent,
    Dedent,
    End,
}

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(Rc<str>),
    /// Byte range of the expression in the source.
    Hole(u32, u32),
}

macro_rules! symbols {
    ($($name:ident $text:literal $upper:literal,)*) => {
        /// Operators and punctuation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Sym { $($name,)* }
        impl Sym {
            /// As written.
            pub(crate) fn text(self) -> &'static str { match self { $(Sym::$name => $text,)* } }
            /// As messages call it.
            pub(crate) fn upper(self) -> &'static str { match self { $(Sym::$name => $upper,)* } }
        }
    };
}

symbols! {
    Plus "+" "PLUS", Minus "-" "MINUS", Star "*" "STAR", StarStar "**" "POWER", Slash "/" "SLASH",
    SlashSlash "//" "FLOORDIV", Percent "%" "PERCENT", EqEq "==" "EQ", NotEq "!=" "NEQ", Less "<" "LT",
    Greater ">" "GT", LessEq "<=" "LTE", GreaterEq ">=" "GTE", Assign "=" "ASSIGN", Arrow "=>" "ARROW",
    Pipe "|>" "PIPE", Dot "." "DOT", Dots "..." "ELLIPSIS", Comma "," "COMMA", Colon ":" "COLON",
    LParen "(" "LPAREN", RParen ")" "RPAREN", LBracket "[" "LBRACKET", RBracket "]" "RBRACKET",
    LBrace "{" "LBRACE", RBrace "}" "RBRACE", Question "?" "QUESTION",
}

/// Words that no name may be.
pub(crate) const KEYWORDS: [&str; 49] = [
    "when",
    "otherwise",
    "each",
    "in",
    "while",
    "match",
    "is",
    "then",
    "stop",
    "task",
    "give",
    "let",
    "be",
    "set",
    "to",
    "type",
    "as",
    "of",
    "with",
    "agent",
    "spawn",
    "share",
    "observe",
    "signal",
    "wait_for",
    "require",
    "sandbox",
    "invariant",
    "intent",
    "approve",
    "confirm",
    "ask",
    "show",
    "reason",
    "decide",
    "analyze",
    "generate",
    "try",
    "recover",
    "trace",
    "log",
    "measure",
    "checkpoint",
    "and",
    "or",
    "not",
    "true",
    "false",
    "nothing",
];

/// Whether a word is reserved.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

impl Tok {
    /// The kind as messages name it.
    pub(crate) fn name(&self) -> String {
        match self {
            Tok::Word(w) if is_keyword(w) => w.to_uppercase(),
            Tok::Word(_) => "IDENTIFIER".into(),
            Tok::Int(_) | Tok::BigInt(_) | Tok::Float(_) | Tok::Decimal(_) => "NUMBER".into(),
            Tok::Text(_) => "TEXT".into(),
            Tok::Template(_) => "TEMPLATE".into(),
            Tok::Sym(s) => s.upper().into(),
            Tok::Newline => "NEWLINE".into(),
            Tok::Indent => "INDENT".into(),
            Tok::Dedent => "DEDENT".into(),
            Tok::End => "EOF".into(),
        }
    }

    /// The kind and the text, as in `ASSIGN ('=')`.
    pub(crate) fn describe(&self) -> String {
        match self {
            Tok::Word(w) => format!("{} ('{w}')", self.name()),
            Tok::Int(i) => format!("NUMBER ('{i}')"),
            Tok::Sym(s) => format!("{} ('{}')", s.upper(), s.text()),
            other => other.name(),
        }
    }
}
