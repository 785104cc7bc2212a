//! Other languages' habits, answered with the Synsema form.

use super::Parser;
use crate::error::LoadError;
use crate::synsema::token::{Sym, Tok, is_keyword};

/// Words that start a statement elsewhere, and what to write here.
pub(super) const FOREIGN: [(&str, &str); 24] = [
    ("if", "conditions are `when <condition>` with an indented body"),
    ("else", "the other branch is `otherwise`"),
    ("elif", "a further branch is `otherwise when <condition>`"),
    ("elseif", "a further branch is `otherwise when <condition>`"),
    ("for", "loops over a collection are `each <name> in <collection>`"),
    ("foreach", "loops over a collection are `each <name> in <collection>`"),
    ("def", "functions are `task name(args)`"),
    ("function", "functions are `task name(args)`"),
    ("func", "functions are `task name(args)`"),
    ("fn", "functions are `task name(args)`"),
    ("return", "`give <value>` returns from a task"),
    ("import", "modules are `use \"./file.syn\" as name`"),
    ("class", "records are `type Name` with one `field: kind` a line"),
    ("break", "`stop` leaves the loop"),
    ("continue", "there is no continue: nest the rest in `when`, or filter with `where`"),
    ("repeat", "there is no repeat: `each i in range(n)`"),
    ("skip", "there is no skip: nest the rest in `when`, or filter with `where`"),
    ("pass", "a block needs a statement; `nothing` does nothing"),
    ("except", "errors are caught by `recover e` after a `try` block"),
    ("catch", "errors are caught by `recover e` after a `try` block"),
    ("finally", "there is no finally: write the clean-up after the `try … recover`"),
    ("throw", "`raise <message>` raises an error"),
    ("lambda", "lambdas are `(x) => expression`"),
    ("const", "names are bound with `let name be value`"),
];

impl Parser<'_> {
    /// What a foreign statement word means here, if the current token is one that starts a statement.
    pub(super) fn foreign_statement(&self) -> Option<LoadError> {
        let Tok::Word(word) = self.kind() else { return None };
        let (_, hint) = FOREIGN.iter().find(|(w, _)| *w == &**word)?;
        let starts = match self.kind_at(1) {
            Tok::Sym(s) => matches!(s, Sym::Colon | Sym::LParen) && &**word != "pass",
            _ => true,
        };
        // A task or variable of that name is legal: `skip(3)` stays a call, `if (x)` can't be one with a body.
        let call = *self.kind_at(1) == Tok::Sym(Sym::LParen)
            && !matches!(&**word, "if" | "elif" | "for" | "return" | "throw" | "catch");
        (starts && !call)
            .then(|| LoadError::parse(self.at(), format!("`{word}` is not a Synsema statement: {hint}")))
    }

    /// `=` and friends in the middle of an expression.
    pub(super) fn foreign_here(&self) -> Option<LoadError> {
        let at = self.at();
        let previous = self.pos.checked_sub(1).map(|i| &self.tokens[i]);
        let message = match self.kind() {
            Tok::Text(_)
                if previous
                    .is_some_and(|t| t.end == at && matches!(&t.kind, Tok::Word(w) if &**w == "f")) =>
            {
                "there are no f-strings: write a template, `text {expr}` in backquotes"
            }
            Tok::Sym(Sym::Assign) => {
                if self.pos > 0
                    && matches!(
                        self.tokens[self.pos - 1].kind,
                        Tok::Sym(Sym::Plus | Sym::Minus | Sym::Star | Sym::Slash | Sym::Percent)
                    )
                {
                    "Unexpected token: ASSIGN ('=') — there is no `+=`: change a variable with `set x to x + …`"
                } else if self.in_a_condition() {
                    "Unexpected token: ASSIGN ('=') — two values are compared with `==`"
                } else {
                    "Unexpected token: ASSIGN ('=') — declare with `let x be …`, change it with `set x to …`"
                }
            }
            Tok::Sym(Sym::Plus) if previous.is_some_and(|t| t.end == at && t.kind == Tok::Sym(Sym::Plus)) => {
                "Unexpected token: PLUS ('+') — there is no `++`: write `set x to x + 1`"
            }
            kind if is_if(kind) || previous.is_some_and(|t| is_if(&t.kind)) => {
                "there is no `if` in an expression: write `when c then a otherwise b`"
            }
            Tok::Sym(Sym::Question) => {
                "Unexpected token: QUESTION ('?') — there is no `c ? a : b`: write `when c then a otherwise b`"
            }
            _ => return None,
        };
        Some(LoadError::parse(at, message))
    }

    /// A token after a complete statement.
    pub(super) fn leftover(&self) -> LoadError {
        if let Some(error) = self.foreign_here() {
            return error;
        }
        let at = self.at();
        let kind = self.kind();
        if *kind == Tok::Sym(Sym::Colon) {
            return LoadError::parse(at, "Synsema blocks have no colon: end the line and indent the body");
        }
        if self.is_word("for") {
            return LoadError::parse(
                at,
                "there are no comprehensions: use apply(list, fn) and where(list, pred)",
            );
        }
        if let Some(name) = self.called_without_parentheses() {
            return LoadError::parse(at, format!("a call has parentheses: write `{name}(…)`"));
        }
        let mut message = format!("unexpected {} after the end of this statement", kind.name());
        if self.line_has_floor_division() {
            message.push_str(" — comments start with `--`; `//` is floor division");
        } else if matches!(kind, Tok::Word(w) if !is_keyword(w)) && *self.kind_at(1) == Tok::Sym(Sym::Assign)
        {
            message.push_str(" — declare with `let x be …`, change it with `set x to …`");
        }
        LoadError::parse(at, message)
    }

    /// The kinds of the tokens before this one on its line, the nearest first.
    fn line_before(&self) -> impl Iterator<Item = &Tok> {
        let starts = |kind: &Tok| matches!(kind, Tok::Newline | Tok::Indent | Tok::Dedent);
        self.tokens[..self.pos].iter().rev().map(|t| &t.kind).take_while(move |kind| !starts(kind))
    }

    fn line_has_floor_division(&self) -> bool {
        self.line_before().any(|kind| *kind == Tok::Sym(Sym::SlashSlash))
    }

    /// Whether a value is wanted here that is no variable's new one: after `when` and its like, or inside brackets.
    fn in_a_condition(&self) -> bool {
        let mut open = 0i32;
        for kind in self.line_before() {
            match kind {
                Tok::Sym(Sym::LParen) => open += 1,
                Tok::Sym(Sym::RParen) => open -= 1,
                Tok::Word(w)
                    if matches!(&**w, "when" | "while" | "where" | "give" | "and" | "or" | "not") =>
                {
                    return true;
                }
                _ => {}
            }
            if open > 0 {
                return true;
            }
        }
        false
    }

    /// `print "hello"`: a builtin's name alone at a line's start, and a value after it.
    fn called_without_parentheses(&self) -> Option<&str> {
        let mut before = self.line_before();
        let (Some(Tok::Word(name)), None) = (before.next(), before.next()) else { return None };
        let value = match self.kind() {
            Tok::Sym(sym) => *sym == Sym::LBrace,
            Tok::Word(word) => !is_keyword(word) || matches!(&**word, "true" | "false" | "nothing"),
            Tok::Newline | Tok::Indent | Tok::Dedent | Tok::End => false,
            _ => true,
        };
        (value && crate::builtins::find(name).is_some()).then_some(name)
    }
}

fn is_if(kind: &Tok) -> bool {
    matches!(kind, Tok::Word(w) if &**w == "if")
}
