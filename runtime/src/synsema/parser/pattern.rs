//! Patterns of `match`.

use super::{Parsed, Parser};
use crate::error::LoadError;
use crate::synsema::ast::{Expr, ExprKind, Name, Pattern, Step, StepKind};
use crate::synsema::token::{Sym, Tok, is_keyword};
use std::rc::Rc;

impl Parser<'_> {
    /// A pattern at the top of an arm: a bare name compares.
    pub(super) fn pattern(&mut self, top: bool) -> Parsed<Pattern> {
        self.deeper(|p| match p.kind().clone() {
            Tok::Word(w) if &*w == "_" => {
                p.pos += 1;
                Ok(Pattern::Any)
            }
            Tok::Sym(Sym::LBracket) => p.list_pattern(),
            Tok::Sym(Sym::LBrace) => p.map_pattern(),
            Tok::Word(w) if !is_keyword(&w) && p.is_path() => p.variant(),
            Tok::Word(w) if !top && !is_keyword(&w) && !matches!(p.kind_at(1), Tok::Sym(Sym::LParen)) => {
                let name = p.binding("the pattern's name")?;
                Ok(Pattern::Bind(name))
            }
            _ => Ok(Pattern::Value(p.sum_or_or(top)?)),
        })
    }

    fn sum_or_or(&mut self, top: bool) -> Parsed<Expr> {
        if top { self.or_level() } else { self.sum() }
    }

    /// `E.v` or `alias.E.v`, alone or with binders.
    fn is_path(&self) -> bool {
        let mut i = 1;
        while *self.kind_at(i) == Tok::Sym(Sym::Dot) && matches!(self.kind_at(i + 1), Tok::Word(_)) {
            i += 2;
        }
        i > 1
            && match self.kind_at(i) {
                Tok::Sym(s) => {
                    matches!(s, Sym::LParen | Sym::Comma | Sym::RBracket | Sym::RBrace | Sym::RParen)
                }
                Tok::Word(w) => &**w == "when",
                _ => true,
            }
    }

    fn variant(&mut self) -> Parsed<Pattern> {
        let at = self.at();
        let Tok::Word(root) = self.kind().clone() else {
            return Err(self.unexpected("expected a pattern"));
        };
        self.pos += 1;
        let mut steps = Vec::new();
        while self.is(Sym::Dot) {
            let step_at = self.at();
            self.pos += 1;
            if let Tok::Word(w) = self.kind().clone() {
                steps.push(Step { at: step_at, kind: StepKind::Field(w) });
                self.pos += 1;
            }
        }
        let base = Expr { kind: ExprKind::Name(Name::new(root, at)), at };
        let path = Expr { kind: ExprKind::Postfix(Box::new(base), steps), at };
        let mut parts = Vec::new();
        if self.eat(Sym::LParen) {
            while !self.is(Sym::RParen) {
                parts.push(self.pattern(false)?);
                if !self.eat(Sym::Comma) {
                    break;
                }
            }
            self.expect(Sym::RParen, "to close the variant's pattern")?;
        }
        Ok(Pattern::Variant(path, parts, at))
    }

    fn list_pattern(&mut self) -> Parsed<Pattern> {
        self.pos += 1;
        let mut before = Vec::new();
        let mut after = Vec::new();
        let mut rest: Option<Option<Name>> = None;
        while !self.is(Sym::RBracket) {
            if self.is(Sym::Dots) {
                if rest.is_some() {
                    return Err(LoadError::parse(self.at(), "a list pattern has at most one `...`"));
                }
                self.pos += 1;
                let named = matches!(self.kind(), Tok::Word(w) if &**w != "_");
                rest = Some(if named { Some(self.binding("the rest")?) } else { None });
                if !named {
                    self.eat_word("_");
                }
            } else {
                let part = self.pattern(false)?;
                if rest.is_some() { after.push(part) } else { before.push(part) }
            }
            if !self.eat(Sym::Comma) {
                break;
            }
        }
        self.expect(Sym::RBracket, "to close the list pattern")?;
        Ok(Pattern::List { before, rest, after })
    }

    fn map_pattern(&mut self) -> Parsed<Pattern> {
        self.pos += 1;
        let mut parts: Vec<(Rc<str>, Pattern)> = Vec::new();
        while !self.is(Sym::RBrace) {
            let at = self.at();
            let key: Rc<str> = match self.kind().clone() {
                Tok::Word(w) => w,
                Tok::Text(t) => t,
                _ => return Err(self.unexpected("expected a key")),
            };
            let text_key = matches!(self.kind(), Tok::Text(_));
            self.pos += 1;
            let part = if self.eat(Sym::Colon) {
                self.pattern(false)?
            } else if text_key || is_keyword(&key) {
                return Err(LoadError::parse(
                    at,
                    format!("the key '{key}' can't be a name: write {{{key}: name}} in the pattern"),
                ));
            } else {
                Pattern::Bind(Name::new(key.clone(), at))
            };
            parts.push((key, part));
            if !self.eat(Sym::Comma) {
                break;
            }
        }
        self.expect(Sym::RBrace, "to close the map pattern")?;
        Ok(Pattern::Map(parts))
    }
}
