//! Expressions.

use super::super::ast::{
    Arm, ArmBody, Comparison, Expr, ExprKind, Key, Logic, Match, Operator, Piece, Spawned, Step, StmtKind,
};
use super::super::token::{Keyword, Token};
use super::{Parsed, Parser, Wrong};

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.logic(Keyword::Or, Logic::Or, |p| p.logic(Keyword::And, Logic::And, Self::negation))
    }

    fn logic(
        &mut self,
        keyword: Keyword,
        logic: Logic,
        mut operand: impl FnMut(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let first = operand(self)?;
        if !self.is_keyword(keyword) {
            return Ok(first);
        }
        let at = first.at;
        let mut all = vec![first];
        while self.eat_keyword(keyword) {
            self.skip_lines();
            all.push(operand(self)?);
        }
        Ok(Expr { at, kind: ExprKind::Logic(logic, all) })
    }

    fn negation(&mut self) -> Parsed<Expr> {
        let at = self.place();
        if !self.eat_keyword(Keyword::Not) {
            return self.comparison();
        }
        self.skip_lines();
        self.deeper()?;
        let inner = self.negation()?;
        self.depth -= 1;
        Ok(Expr { at, kind: ExprKind::Not(Box::new(inner)) })
    }

    fn compared(&mut self) -> Option<Comparison> {
        Some(match self.peek() {
            Token::Mark("==") => Comparison::Eq,
            Token::Mark("!=") => Comparison::Ne,
            Token::Mark("<") => Comparison::Lt,
            Token::Mark("<=") => Comparison::Le,
            Token::Mark(">") => Comparison::Gt,
            Token::Mark(">=") => Comparison::Ge,
            _ => return None,
        })
    }

    fn comparison(&mut self) -> Parsed<Expr> {
        let left = self.concat()?;
        let Some(how) = self.compared() else { return Ok(left) };
        self.next();
        self.skip_lines();
        let right = self.concat()?;
        if self.compared().is_some() {
            let at = self.place();
            return Err(Wrong::new(at, "comparisons do not chain; use `and`"));
        }
        Ok(Expr { at: left.at, kind: ExprKind::Compare(how, Box::new(left), Box::new(right)) })
    }

    fn concat(&mut self) -> Parsed<Expr> {
        let first = self.chain(0)?;
        if !self.is("..") {
            return Ok(first);
        }
        let at = first.at;
        let mut all = vec![first];
        while self.eat("..") {
            self.skip_lines();
            self.deeper()?;
            all.push(self.chain(0)?);
        }
        self.depth -= all.len() as u32 - 1;
        Ok(Expr { at, kind: ExprKind::Concat(all) })
    }

    /// Sums (0) or products (1).
    pub(super) fn chain(&mut self, level: u8) -> Parsed<Expr> {
        let operand = |p: &mut Self| if level == 0 { p.chain(1) } else { p.unary() };
        let first = operand(self)?;
        let mut more = Vec::new();
        loop {
            let operator = match (level, self.peek()) {
                (0, Token::Mark("+")) => Operator::Add,
                (0, Token::Mark("-")) => Operator::Sub,
                (1, Token::Mark("*")) => Operator::Mul,
                (1, Token::Mark("/")) => Operator::Div,
                (1, Token::Mark("//")) => Operator::FloorDiv,
                (1, Token::Mark("%")) => Operator::Rem,
                _ => break,
            };
            self.next();
            self.skip_lines();
            more.push((operator, operand(self)?));
        }
        if more.is_empty() {
            return Ok(first);
        }
        Ok(Expr { at: first.at, kind: ExprKind::Chain(Box::new(first), more) })
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let at = self.place();
        if !self.is("-") {
            return self.postfix();
        }
        self.next();
        self.skip_lines();
        if *self.peek() == Token::MinInt {
            self.literal()?;
            self.next();
            return Ok(Expr {
                at,
                kind: ExprKind::Minus(Box::new(Expr { at, kind: ExprKind::Int(i64::MIN) })),
            });
        }
        self.deeper()?;
        let inner = self.unary()?;
        self.depth -= 1;
        Ok(Expr { at, kind: ExprKind::Minus(Box::new(inner)) })
    }

    pub(super) fn postfix(&mut self) -> Parsed<Expr> {
        let first = self.primary()?;
        let mut steps = Vec::new();
        loop {
            match self.peek() {
                Token::Mark(".") => {
                    self.next();
                    self.skip_lines();
                    let at = self.place();
                    steps.push(Step::Field(self.word()?, at));
                }
                Token::Mark("(") => {
                    self.at += 1;
                    steps.push(Step::Call(self.list(")", Self::expr)?));
                }
                Token::Mark("[") => {
                    self.at += 1;
                    let index = self.bracket(Self::expr)?;
                    self.need_close("]")?;
                    steps.push(Step::Index(index));
                }
                _ => break,
            }
        }
        if steps.is_empty() {
            return Ok(first);
        }
        Ok(Expr { at: first.at, kind: ExprKind::Postfix(Box::new(first), steps) })
    }

    /// The closing mark may stand on a later line.
    fn need_close(&mut self, mark: &str) -> Parsed<()> {
        let outer = std::mem::replace(&mut self.inside, true);
        if !self.is(mark) {
            return Err(self.expected(&format!("`{mark}`")));
        }
        self.inside = outer;
        self.at += 1;
        Ok(())
    }

    pub(super) fn primary(&mut self) -> Parsed<Expr> {
        let at = self.place();
        let kind = match self.peek().clone() {
            Token::Int(n) => {
                self.literal()?;
                self.next();
                ExprKind::Int(n)
            }
            Token::MinInt => return Err(Wrong::new(at, "the number is out of range")),
            Token::Float(f) => {
                self.literal()?;
                self.next();
                ExprKind::Float(f)
            }
            Token::Text(text) => {
                self.literal()?;
                self.next();
                ExprKind::Text(text)
            }
            Token::Template => self.template()?,
            Token::Name(name) => {
                self.next();
                ExprKind::Name(name)
            }
            Token::Tag(tag) => {
                self.next();
                if self.is("(") {
                    self.at += 1;
                    let mut values = self.list(")", Self::expr)?;
                    match (values.pop(), values.is_empty()) {
                        (Some(one), true) => ExprKind::Tag(tag, Some(Box::new(one))),
                        _ => {
                            return Err(Wrong::new(
                                at,
                                "a tag carries one value: Add([…])".replace("Add", &tag),
                            ));
                        }
                    }
                } else {
                    ExprKind::Tag(tag, None)
                }
            }
            Token::Mark("[") => {
                self.at += 1;
                ExprKind::Array(self.list("]", Self::expr)?)
            }
            Token::Mark("{") => {
                self.at += 1;
                ExprKind::Record(self.list("}", Self::field)?)
            }
            Token::Mark("(") => {
                self.at += 1;
                let inner = self.bracket(Self::expr)?;
                self.need_close(")")?;
                ExprKind::Paren(Box::new(inner))
            }
            Token::Keyword(keyword) => self.keyword(keyword, at)?,
            _ => return Err(self.expected("an expression")),
        };
        Ok(Expr { at, kind })
    }

    fn keyword(&mut self, keyword: Keyword, at: u32) -> Parsed<ExprKind> {
        let kind = match keyword {
            Keyword::True => ExprKind::Bool(true),
            Keyword::False => ExprKind::Bool(false),
            Keyword::Nil => ExprKind::Nil,
            Keyword::Fn => {
                self.next();
                return Ok(ExprKind::Fn(self.function(None, at, false)?));
            }
            Keyword::Match => return Ok(ExprKind::Match(Box::new(self.matching(at)?))),
            Keyword::Ask => {
                self.next();
                let message = self.message("ask")?;
                let timeout = if matches!(self.peek(), Token::Name(name) if &**name == "timeout") {
                    self.next();
                    Some(Box::new(self.chain(0)?))
                } else {
                    None
                };
                return Ok(ExprKind::Ask(Box::new(message), timeout));
            }
            Keyword::Spawn => {
                self.next();
                if self.is_keyword(Keyword::Do) {
                    self.next();
                    return Ok(ExprKind::Spawn(Box::new(Spawned::Block(self.function(None, at, true)?))));
                }
                let expr = self.postfix()?;
                let wrong = || Wrong::new(at, "`spawn` needs a call or a `do` block");
                let ExprKind::Postfix(first, mut steps) = expr.kind else { return Err(wrong()) };
                let Some(Step::Call(args)) = steps.pop() else { return Err(wrong()) };
                let callee = if steps.is_empty() {
                    *first
                } else {
                    Expr { at: first.at, kind: ExprKind::Postfix(first, steps) }
                };
                return Ok(ExprKind::Spawn(Box::new(Spawned::Call(callee, args))));
            }
            _ => return Err(self.expected("an expression")),
        };
        self.next();
        Ok(kind)
    }

    fn field(&mut self) -> Parsed<(Key, Expr)> {
        let key = if self.is("[") {
            self.next();
            let key = self.bracket(Self::expr)?;
            self.need_close("]")?;
            Key::Computed(key)
        } else {
            Key::Word(self.word()?)
        };
        self.need("=")?;
        Ok((key, self.expr()?))
    }

    fn template(&mut self) -> Parsed<ExprKind> {
        self.literal()?;
        self.next();
        let mut pieces = Vec::new();
        loop {
            // Pieces are text: line ends in them are part of it.
            match self.tokens[self.at].0.clone() {
                Token::Piece(text) => {
                    self.at += 1;
                    pieces.push(Piece::Text(text));
                }
                Token::Hole => {
                    self.at += 1;
                    let hole = self.bracket(|p| {
                        let expr = p.expr()?;
                        if *p.peek() != Token::HoleEnd {
                            return Err(p.expected("`}`"));
                        }
                        p.at += 1;
                        Ok(expr)
                    })?;
                    pieces.push(Piece::Hole(hole));
                }
                Token::TemplateEnd => {
                    self.at += 1;
                    return Ok(ExprKind::Template(pieces));
                }
                _ => return Err(self.expected("the end of the template")),
            }
        }
    }

    fn matching(&mut self, at: u32) -> Parsed<Match> {
        self.next();
        self.deeper()?;
        // Lines count again from here to its `end`, whatever bracket it stands in.
        let outer = std::mem::replace(&mut self.inside, false);
        let value = self.expr()?;
        if !matches!(self.peek(), Token::Newline | Token::Mark(";") | Token::Keyword(Keyword::End)) {
            return Err(self.expected("the end of the line"));
        }
        self.blocks += 1;
        let mut arms = Vec::new();
        loop {
            while matches!(self.peek(), Token::Newline) || self.is(";") {
                self.next();
            }
            if self.is_keyword(Keyword::End) {
                self.at += 1;
                break;
            }
            if matches!(self.peek(), Token::End | Token::Keyword(_)) && !self.starts_pattern() {
                let line = self.line(at);
                return Err(self.expected(&format!("`end` to close `match` from line {line}")));
            }
            arms.push(self.arm()?);
            if !matches!(self.peek(), Token::Newline | Token::Mark(";") | Token::Keyword(Keyword::End)) {
                return Err(self.expected("the end of the line"));
            }
        }
        self.blocks -= 1;
        self.inside = outer;
        self.depth -= 1;
        Ok(Match { at, value, arms })
    }

    fn starts_pattern(&mut self) -> bool {
        matches!(self.peek(), Token::Keyword(Keyword::True | Keyword::False | Keyword::Nil))
    }

    fn arm(&mut self) -> Parsed<Arm> {
        self.deeper()?;
        let at = self.place();
        let pattern = self.pattern()?;
        let guard = if self.eat_keyword(Keyword::If) { Some(self.expr()?) } else { None };
        self.need("->")?;
        self.skip_lines();
        let here = self.place();
        let body = match self.flow()? {
            Some(stmt) => ArmBody::Stmt(stmt),
            None => {
                let stmt = self.loose(here, true)?;
                match stmt.kind {
                    StmtKind::Expr(expr) => ArmBody::Expr(expr),
                    kind => ArmBody::Stmt(super::super::ast::Stmt { at: stmt.at, kind }),
                }
            }
        };
        self.depth -= 1;
        Ok(Arm { at, pattern, guard, body })
    }
}
