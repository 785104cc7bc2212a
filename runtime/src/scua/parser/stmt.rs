//! Statements and patterns.

use super::super::ast::{Block, Expr, ExprKind, Message, Pattern, Step, Stmt, StmtKind, Target};
use super::super::token::{Keyword, Token};
use super::{Parsed, Parser, Wrong};
use std::rc::Rc;

const BLOCK_ENDS: [Keyword; 3] = [Keyword::End, Keyword::Else, Keyword::Elseif];

impl Parser<'_> {
    /// Statements up to one of the keywords, which stays, or to the end of the source.
    pub(super) fn statements(&mut self, ends: &[Keyword]) -> Parsed<Block> {
        let mut block = Vec::new();
        loop {
            while matches!(self.peek(), Token::Newline) || self.is(";") {
                self.next();
            }
            match self.peek() {
                Token::End => return Ok(block),
                Token::Keyword(keyword) if ends.contains(keyword) => return Ok(block),
                _ => {}
            }
            block.push(self.statement()?);
            let over = match self.peek() {
                Token::Newline | Token::End | Token::Mark(";") => true,
                Token::Keyword(keyword) => ends.contains(keyword),
                _ => false,
            };
            if !over {
                return Err(self.expected("the end of the statement"));
            }
        }
    }

    /// A block up to its `end`, which is read too.
    pub(super) fn block(&mut self, what: &str, opened: u32) -> Parsed<Block> {
        let block = self.open_block(&[Keyword::End])?;
        self.close(what, opened)?;
        Ok(block)
    }

    fn open_block(&mut self, ends: &[Keyword]) -> Parsed<Block> {
        self.deeper()?;
        self.blocks += 1;
        let outer = std::mem::replace(&mut self.inside, false);
        let block = self.statements(ends)?;
        self.inside = outer;
        self.blocks -= 1;
        self.depth -= 1;
        Ok(block)
    }

    fn close(&mut self, what: &str, opened: u32) -> Parsed<()> {
        if self.is_keyword(Keyword::End) {
            self.at += 1;
            return Ok(());
        }
        let line = self.line(opened);
        Err(self.expected(&format!("`end` to close `{what}` from line {line}")))
    }

    fn statement(&mut self) -> Parsed<Stmt> {
        let at = self.place();
        let named = matches!(self.tokens.get(self.at + 1), Some((Token::Name(_) | Token::Tag(_), _)));
        let kind = match self.peek() {
            Token::Keyword(Keyword::Import) => {
                if self.blocks > 0 {
                    return Err(Wrong::new(at, "`import` only at the top level"));
                }
                self.next();
                let Token::Name(name) = self.peek().clone() else {
                    return Err(self.expected("the name of a module"));
                };
                self.next();
                StmtKind::Import(name)
            }
            Token::Keyword(Keyword::Let) => {
                self.next();
                let binding = self.binding()?;
                self.need("=")?;
                self.skip_lines();
                StmtKind::Let(binding, self.expr()?)
            }
            Token::Keyword(Keyword::Fn) if named => {
                self.next();
                let binding = self.binding()?;
                let name = binding.name.clone();
                StmtKind::Fn(binding, self.function(name, at, false)?)
            }
            Token::Keyword(_) => match self.flow()? {
                Some(stmt) => return Ok(stmt),
                None => return self.loose(at, false),
            },
            _ => return self.loose(at, false),
        };
        Ok(Stmt { at, kind })
    }

    /// An assignment, or an expression; in an arm any expression will do.
    pub(super) fn loose(&mut self, at: u32, arm: bool) -> Parsed<Stmt> {
        let expr = self.expr()?;
        if self.is("=") {
            let place = self.place();
            let target = match expr.kind {
                ExprKind::Name(name) => Target::Name(name, expr.at),
                ExprKind::Postfix(first, mut steps) => match steps.pop() {
                    Some(Step::Field(word, _)) => Target::Field(rejoin(*first, steps), word),
                    Some(Step::Index(index)) => Target::Index(rejoin(*first, steps), index),
                    _ => return Err(Wrong::new(place, "a call can't be assigned")),
                },
                ExprKind::Tag(tag, None) => {
                    return Err(Wrong::new(at, format!("a variable starts with a small letter: `{tag}`")));
                }
                _ => return Err(self.expected("the end of the statement")),
            };
            self.next();
            self.skip_lines();
            let value = self.expr()?;
            return Ok(Stmt { at, kind: StmtKind::Assign(target, value) });
        }
        let does = match &expr.kind {
            ExprKind::Ask(..) | ExprKind::Spawn(_) | ExprKind::Match(_) => true,
            ExprKind::Postfix(_, steps) => matches!(steps.last(), Some(Step::Call(_))),
            _ => false,
        };
        if !does && !arm {
            let over = matches!(
                self.peek(),
                Token::Newline
                    | Token::End
                    | Token::Mark(";")
                    | Token::Keyword(Keyword::End | Keyword::Else | Keyword::Elseif)
            );
            if !over {
                return Err(self.expected("the end of the statement"));
            }
            return Err(Wrong::new(
                at,
                "an expression by itself does nothing here; use its value or call something",
            ));
        }
        Ok(Stmt { at, kind: StmtKind::Expr(expr) })
    }

    /// What may also be an arm's body; `None` if the keyword starts none of these.
    pub(super) fn flow(&mut self) -> Parsed<Option<Stmt>> {
        let at = self.place();
        let Token::Keyword(keyword) = *self.peek() else { return Ok(None) };
        let kind = match keyword {
            Keyword::Return => {
                if self.function_depth == 0 {
                    return Err(Wrong::new(at, "`return` outside a function"));
                }
                self.next();
                let none = match self.peek() {
                    Token::Newline | Token::End | Token::Mark(";") => true,
                    Token::Keyword(keyword) => BLOCK_ENDS.contains(keyword),
                    _ => false,
                };
                StmtKind::Return(if none { None } else { Some(self.expr()?) })
            }
            Keyword::Break | Keyword::Continue => {
                if self.loops == 0 {
                    return Err(Wrong::new(at, format!("`{}` outside a loop", keyword.text())));
                }
                self.next();
                if keyword == Keyword::Break { StmtKind::Break } else { StmtKind::Continue }
            }
            Keyword::Tell => {
                self.next();
                StmtKind::Tell(self.message("tell")?)
            }
            Keyword::If => self.if_statement(at)?,
            Keyword::While => {
                self.next();
                let condition = self.expr()?;
                self.need_keyword(Keyword::Do)?;
                StmtKind::While(condition, self.loop_body("while", at)?)
            }
            Keyword::For => self.for_statement(at)?,
            Keyword::Do => {
                self.next();
                StmtKind::Do(self.block("do", at)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(Stmt { at, kind }))
    }

    fn loop_body(&mut self, what: &str, at: u32) -> Parsed<Block> {
        self.loops += 1;
        let body = self.block(what, at)?;
        self.loops -= 1;
        Ok(body)
    }

    fn if_statement(&mut self, at: u32) -> Parsed<StmtKind> {
        let mut branches = Vec::new();
        let mut otherwise = None;
        loop {
            let here = self.place();
            self.next();
            let condition = self.expr()?;
            self.need_keyword(Keyword::Then)?;
            branches.push((here, condition, self.open_block(&BLOCK_ENDS)?));
            match self.peek() {
                Token::Keyword(Keyword::Elseif) => {}
                Token::Keyword(Keyword::Else) => {
                    self.next();
                    otherwise = Some(self.open_block(&[Keyword::End])?);
                    break;
                }
                _ => break,
            }
        }
        self.close("if", at)?;
        Ok(StmtKind::If(branches, otherwise))
    }

    fn for_statement(&mut self, at: u32) -> Parsed<StmtKind> {
        self.next();
        let first = self.binding()?;
        if self.eat("=") {
            self.skip_lines();
            let from = self.expr()?;
            self.need(",")?;
            self.skip_lines();
            let to = self.expr()?;
            let step = if self.eat(",") {
                self.skip_lines();
                Some(self.expr()?)
            } else {
                None
            };
            self.need_keyword(Keyword::Do)?;
            return Ok(StmtKind::Count(first, from, to, step, self.loop_body("for", at)?));
        }
        let second = if self.eat(",") { Some(self.binding()?) } else { None };
        if !self.is_keyword(Keyword::In) {
            return Err(self.expected(if second.is_some() { "`in`" } else { "`=` or `in`" }));
        }
        self.next();
        let over = self.expr()?;
        self.need_keyword(Keyword::Do)?;
        Ok(StmtKind::Each(first, second, over, self.loop_body("for", at)?))
    }

    /// `receiver.Tag(args)`
    pub(super) fn message(&mut self, what: &str) -> Parsed<Message> {
        let at = self.place();
        let expr = self.postfix()?;
        let needs = || Wrong::new(at, format!("`{what}` needs a message: {what} ref.Name(…)"));
        let ExprKind::Postfix(first, mut steps) = expr.kind else { return Err(needs()) };
        let (Some(Step::Call(args)), Some(Step::Field(tag, place))) = (steps.pop(), steps.pop()) else {
            return Err(needs());
        };
        if !tag.starts_with(|c: char| c.is_ascii_uppercase()) {
            return Err(Wrong::new(place, format!("a message name starts with a capital letter: `{tag}`")));
        }
        Ok(Message { receiver: rejoin(*first, steps), tag, args })
    }

    // ---- patterns ----

    pub(super) fn pattern(&mut self) -> Parsed<Pattern> {
        let at = self.place();
        match self.peek().clone() {
            Token::Mark("_") => {
                self.next();
                Ok(Pattern::Any)
            }
            Token::Name(_) => Ok(Pattern::Name(self.binding()?)),
            Token::Tag(tag) => {
                self.next();
                if !self.is("(") {
                    return Ok(Pattern::Tag(tag, None));
                }
                self.next();
                let mut inner = self.list(")", Self::pattern)?;
                match (inner.pop(), inner.is_empty()) {
                    (Some(one), true) => Ok(Pattern::Tag(tag, Some(Box::new(one)))),
                    _ => Err(Wrong::new(at, format!("a tag carries one value: {tag}([…])"))),
                }
            }
            Token::Mark("[") => {
                self.next();
                let mut rest = None;
                let items = self.list("]", |parser| {
                    if rest.is_some() {
                        return Err(parser.expected("`]`"));
                    }
                    if parser.eat("..") {
                        rest = Some(parser.binding()?);
                        return Ok(None);
                    }
                    parser.pattern().map(Some)
                })?;
                Ok(Pattern::Array(items.into_iter().flatten().collect(), rest))
            }
            Token::Mark("{") => {
                self.next();
                let fields = self.list("}", |parser| {
                    let word = parser.word()?;
                    parser.need("=")?;
                    Ok((word, parser.pattern()?))
                })?;
                Ok(Pattern::Record(fields))
            }
            Token::Mark("-") => {
                self.next();
                self.literal()?;
                let kind = match self.peek() {
                    Token::Int(n) => ExprKind::Int(-n),
                    Token::MinInt => ExprKind::Int(i64::MIN),
                    Token::Float(f) => ExprKind::Float(-f),
                    _ => return Err(self.expected("a number")),
                };
                self.next();
                Ok(Pattern::Literal(Expr { at, kind }))
            }
            Token::Int(_)
            | Token::MinInt
            | Token::Float(_)
            | Token::Text(_)
            | Token::Keyword(Keyword::True | Keyword::False | Keyword::Nil) => {
                Ok(Pattern::Literal(self.primary()?))
            }
            _ => Err(self.expected("a pattern")),
        }
    }

    /// Any word, keywords included.
    pub(super) fn word(&mut self) -> Parsed<Rc<str>> {
        let word = match self.peek() {
            Token::Name(name) | Token::Tag(name) => name.clone(),
            Token::Keyword(keyword) => keyword.text().into(),
            _ => return Err(self.expected("a name")),
        };
        self.next();
        Ok(word)
    }
}

fn rejoin(first: Expr, steps: Vec<Step>) -> Expr {
    if steps.is_empty() {
        return first;
    }
    Expr { at: first.at, kind: ExprKind::Postfix(Box::new(first), steps) }
}
