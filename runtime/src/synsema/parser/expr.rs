//! Expressions, by precedence.

use super::{MAX_CHAIN, Parsed, Parser};
use crate::error::LoadError;
use crate::synsema::ast::{
    Arg, BinOp, Body, CmpOp, Expr, ExprKind, Function, Name, Operation, Param, ScopeId, Step, StepKind,
    TemplatePiece,
};
use crate::synsema::token::{Piece, Sym, Tok, is_keyword};
use std::rc::Rc;

/// Words that may not start an expression but may be members.
const CLAUSES: [&str; 5] = ["as", "with", "of", "is", "then"];

impl Parser<'_> {
    /// A whole expression, pipes included.
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.deeper(|p| {
            let mut left = p.or_level()?;
            let mut steps = 0;
            while p.is(Sym::Pipe) {
                let at = p.at();
                p.pos += 1;
                steps += 1;
                if steps > 60 {
                    return Err(LoadError::parse(at, "a pipe has at most 60 steps"));
                }
                let step = p.or_level()?;
                left = pipe(left, step, at);
            }
            Ok(left)
        })
    }

    pub(super) fn or_level(&mut self) -> Parsed<Expr> {
        let at = self.at();
        let first = self.and_level()?;
        if !self.is_word("or") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.eat_word("or") {
            all.push(self.and_level()?);
        }
        Ok(Expr { kind: ExprKind::Or(all), at })
    }

    fn and_level(&mut self) -> Parsed<Expr> {
        let at = self.at();
        let first = self.not_level()?;
        if !self.is_word("and") {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.eat_word("and") {
            all.push(self.not_level()?);
        }
        Ok(Expr { kind: ExprKind::And(all), at })
    }

    fn not_level(&mut self) -> Parsed<Expr> {
        if self.is_word("not") {
            let at = self.at();
            self.pos += 1;
            let inner = self.deeper(Self::not_level)?;
            return Ok(Expr { kind: ExprKind::Not(Box::new(inner)), at });
        }
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let at = self.at();
            let (op, words) = match self.kind() {
                Tok::Sym(Sym::EqEq) => (CmpOp::Eq, 1),
                Tok::Sym(Sym::NotEq) => (CmpOp::Ne, 1),
                Tok::Sym(Sym::Less) => (CmpOp::Lt, 1),
                Tok::Sym(Sym::Greater) => (CmpOp::Gt, 1),
                Tok::Sym(Sym::LessEq) => (CmpOp::Le, 1),
                Tok::Sym(Sym::GreaterEq) => (CmpOp::Ge, 1),
                Tok::Word(w) if &**w == "in" => (CmpOp::In, 1),
                Tok::Word(w) if &**w == "not" && self.word_at(1).is_some_and(|w| &**w == "in") => {
                    (CmpOp::NotIn, 2)
                }
                _ => break,
            };
            self.pos += words;
            rest.push((op, at, self.sum()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        let at = first.at;
        Ok(Expr { kind: ExprKind::Compare(Box::new(first), rest), at })
    }

    pub(super) fn sum(&mut self) -> Parsed<Expr> {
        let first = self.product()?;
        let mut rest = Vec::new();
        loop {
            let op = match self.kind() {
                Tok::Sym(Sym::Plus) => BinOp::Add,
                Tok::Sym(Sym::Minus) => BinOp::Sub,
                _ => break,
            };
            let at = self.at();
            self.pos += 1;
            if self.is(Sym::Assign) {
                return Err(self.unexpected("expected an operand"));
            }
            rest.push((op, at, self.product()?));
        }
        Ok(chain(first, rest))
    }

    fn product(&mut self) -> Parsed<Expr> {
        let first = self.unary()?;
        let mut rest = Vec::new();
        loop {
            let op = match self.kind() {
                Tok::Sym(Sym::Star) => BinOp::Mul,
                Tok::Sym(Sym::Slash) => BinOp::Div,
                Tok::Sym(Sym::SlashSlash) => BinOp::FloorDiv,
                Tok::Sym(Sym::Percent) => BinOp::Rem,
                _ => break,
            };
            let at = self.at();
            self.pos += 1;
            if self.is(Sym::Assign) {
                return Err(self.unexpected("expected an operand"));
            }
            rest.push((op, at, self.unary()?));
        }
        Ok(chain(first, rest))
    }

    fn unary(&mut self) -> Parsed<Expr> {
        if self.is(Sym::Minus) {
            let at = self.at();
            self.pos += 1;
            let inner = self.deeper(Self::unary)?;
            return Ok(Expr { kind: ExprKind::Negate(Box::new(inner)), at });
        }
        let base = self.postfix()?;
        if self.is(Sym::StarStar) {
            let at = self.at();
            self.pos += 1;
            let exponent = self.deeper(Self::unary)?;
            return Ok(Expr { kind: ExprKind::Power(Box::new(base), at, Box::new(exponent)), at });
        }
        Ok(base)
    }

    pub(super) fn postfix(&mut self) -> Parsed<Expr> {
        let base = self.primary()?;
        let mut steps = Vec::new();
        self.steps(&mut steps)?;
        if steps.is_empty() {
            return Ok(base);
        }
        let at = base.at;
        Ok(Expr { kind: ExprKind::Postfix(Box::new(base), steps), at })
    }

    fn steps(&mut self, steps: &mut Vec<Step>) -> Parsed<()> {
        loop {
            let at = self.at();
            if steps.len() > MAX_CHAIN {
                return Err(LoadError::parse(at, format!("a chain has at most {MAX_CHAIN} steps")));
            }
            let kind = match self.kind() {
                Tok::Sym(Sym::LParen) => StepKind::Call(self.args()?),
                Tok::Sym(Sym::LBracket) => StepKind::Index(self.index()?),
                Tok::Sym(Sym::Dot) => {
                    self.pos += 1;
                    match self.kind().clone() {
                        Tok::Word(w) => {
                            self.pos += 1;
                            StepKind::Field(w)
                        }
                        _ => return Err(self.unexpected("expected a member name after `.`")),
                    }
                }
                _ => return Ok(()),
            };
            steps.push(Step { at, kind });
        }
    }

    fn index(&mut self) -> Parsed<Expr> {
        self.pos += 1;
        if self.is(Sym::Colon) {
            return Err(LoadError::parse(self.at(), "there are no slices xs[1:]: write slice(xs, 1)"));
        }
        let index = self.expr()?;
        if self.is(Sym::Colon) {
            return Err(LoadError::parse(self.at(), "there are no slices xs[a:b]: write slice(xs, a, b)"));
        }
        self.expect(Sym::RBracket, "to close the index")?;
        Ok(index)
    }

    fn args(&mut self) -> Parsed<Vec<Arg>> {
        self.pos += 1;
        let mut args = Vec::new();
        let mut named = false;
        while !self.is(Sym::RParen) {
            let at = self.at();
            let name = match (self.kind(), self.kind_at(1)) {
                (Tok::Word(w), Tok::Sym(Sym::Assign)) => Some(w.clone()),
                _ => None,
            };
            if name.is_some() {
                self.pos += 2;
                named = true;
            } else if named {
                return Err(LoadError::parse(at, "positional argument after named argument"));
            }
            let value = self.expr()?;
            args.push(Arg { name, value });
            if args.len() > 200 {
                return Err(LoadError::parse(at, "a call has at most 200 arguments"));
            }
            if !self.eat(Sym::Comma) {
                break;
            }
        }
        self.expect(Sym::RParen, "to close the arguments")?;
        Ok(args)
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let at = self.at();
        let kind = match self.kind().clone() {
            Tok::Int(n) => self.took(ExprKind::Int(n)),
            Tok::BigInt(n) => self.took(ExprKind::BigInt(n)),
            Tok::Float(n) => self.took(ExprKind::Float(n)),
            Tok::Decimal(n) => self.took(ExprKind::Decimal(n)),
            Tok::Text(t) => self.took(ExprKind::Text(t)),
            Tok::Template(pieces) => {
                self.pos += 1;
                self.template(&pieces)?
            }
            Tok::Word(word) => return self.word_primary(&word, at),
            Tok::Sym(Sym::LParen) if self.is_lambda() => self.lambda(at)?,
            Tok::Sym(Sym::LParen) => {
                self.pos += 1;
                let inner = self.expr()?;
                self.expect(Sym::RParen, "to close the parenthesis")?;
                return Ok(inner);
            }
            Tok::Sym(Sym::LBracket) => self.list()?,
            Tok::Sym(Sym::LBrace) => self.map()?,
            Tok::Newline | Tok::Indent | Tok::Dedent | Tok::End => {
                return Err(LoadError::parse(at, format!("Unexpected token: {}", self.kind().name())));
            }
            other => {
                if let Some(error) = self.foreign_here() {
                    return Err(error);
                }
                return Err(LoadError::parse(at, format!("Unexpected token: {}", other.describe())));
            }
        };
        Ok(Expr { kind, at })
    }

    fn took(&mut self, kind: ExprKind) -> ExprKind {
        self.pos += 1;
        kind
    }

    fn word_primary(&mut self, word: &Rc<str>, at: u32) -> Parsed<Expr> {
        let of_follows = self.word_at(1).is_some_and(|w| &**w == "of");
        if of_follows && !matches!(&**word, "not" | "when" | "sandbox") {
            self.pos += 2;
            let inner = self.deeper(Self::postfix)?;
            let step = Step { at, kind: StepKind::Of(word.clone()) };
            let kind = match inner.kind {
                ExprKind::Postfix(base, mut steps) => {
                    steps.push(step);
                    ExprKind::Postfix(base, steps)
                }
                kind => ExprKind::Postfix(Box::new(Expr { kind, at: inner.at }), vec![step]),
            };
            return Ok(Expr { kind, at });
        }
        let kind = match &**word {
            "true" => self.took(ExprKind::Bool(true)),
            "false" => self.took(ExprKind::Bool(false)),
            "nothing" => self.took(ExprKind::Nothing),
            "when" => self.then()?,
            "sandbox" => {
                self.pos += 1;
                let inner = self.deeper(Self::or_level)?;
                ExprKind::Sandbox(Box::new(inner), ScopeId::default())
            }
            "reason" | "decide" | "analyze" | "generate" | "approve" | "confirm" | "ask" => {
                self.operation(word)?
            }
            // A keyword only at a statement's start before a text; anywhere else the builtin for arrays.
            "trace" => self.took(ExprKind::Name(Name::new(word.clone(), at))),
            _ if is_keyword(word) => {
                let hint = if CLAUSES.contains(&&**word) && &**word == "of" {
                    " — `of` needs a plain name on its left"
                } else {
                    ""
                };
                return Err(LoadError::parse(
                    at,
                    format!("Unexpected token: {}{hint}", self.kind().describe()),
                ));
            }
            _ => self.took(ExprKind::Name(Name::new(word.clone(), at))),
        };
        Ok(Expr { kind, at })
    }

    fn then(&mut self) -> Parsed<ExprKind> {
        self.pos += 1;
        let cond = self.deeper(Self::or_level)?;
        self.expect_word("then", "after the condition")?;
        let yes = self.deeper(Self::or_level)?;
        let no = if self.eat_word("otherwise") { Some(Box::new(self.deeper(Self::or_level)?)) } else { None };
        Ok(ExprKind::Then(Box::new(cond), Box::new(yes), no))
    }

    fn operation(&mut self, word: &str) -> Parsed<ExprKind> {
        self.pos += 1;
        let name = match word {
            "reason" => "reason",
            "decide" => "decide",
            "analyze" => "analyze",
            "generate" => "generate",
            "approve" => "approve",
            "confirm" => "confirm",
            _ => "ask",
        };
        if name == "reason" && self.is_word("about") {
            self.pos += 1;
        }
        if name == "decide" {
            self.expect_word("between", "after `decide`")?;
        }
        let subject = Box::new(self.deeper(Self::or_level)?);
        let mut parts: Vec<(Rc<str>, Expr)> = Vec::new();
        let given = matches!(name, "decide" | "generate");
        if given && self.eat_word("given") {
            parts.push(("given".into(), self.deeper(Self::or_level)?));
        }
        if name == "analyze" && self.eat_word("for") {
            parts.push(("for".into(), self.deeper(Self::or_level)?));
        }
        if self.eat_word("with") {
            if name == "ask" {
                parts.push(("with".into(), self.deeper(Self::or_level)?));
            } else {
                parts.extend(self.named_values()?);
            }
        }
        if matches!(name, "approve" | "confirm" | "ask") && self.eat_word("within") {
            parts.push(("within".into(), self.duration()?));
        }
        Ok(ExprKind::Operation(Operation { name, subject, parts }))
    }

    /// `k = v, …`.
    pub(super) fn named_values(&mut self) -> Parsed<Vec<(Rc<str>, Expr)>> {
        let mut all = Vec::new();
        loop {
            let Tok::Word(name) = self.kind().clone() else {
                return Err(self.unexpected("expected a name"));
            };
            self.pos += 1;
            self.expect(Sym::Assign, "after the name")?;
            all.push((name, self.deeper(Self::or_level)?));
            if !self.eat(Sym::Comma) {
                return Ok(all);
            }
        }
    }

    /// `30s`, `5m`, `2h`, `1d`: seconds.
    fn duration(&mut self) -> Parsed<Expr> {
        let at = self.at();
        let (count, unit) = match (self.kind().clone(), self.kind_at(1).clone()) {
            (Tok::Decimal(d), _) => (d.parse::<f64>().ok(), 86_400.0),
            (Tok::Int(n), Tok::Word(w)) if matches!(&*w, "s" | "m" | "h") => {
                self.pos += 1;
                (
                    Some(n as f64),
                    match &*w {
                        "s" => 1.0,
                        "m" => 60.0,
                        _ => 3600.0,
                    },
                )
            }
            _ => (None, 1.0),
        };
        let Some(count) = count else {
            return Err(self.unexpected("expected a span such as 30s, 5m, 2h or 1d"));
        };
        self.pos += 1;
        Ok(Expr { kind: ExprKind::Float(count * unit), at })
    }

    fn list(&mut self) -> Parsed<ExprKind> {
        self.pos += 1;
        let mut items = Vec::new();
        while !self.is(Sym::RBracket) {
            items.push(self.expr()?);
            if self.is_word("for") {
                return Err(LoadError::parse(
                    self.at(),
                    "there are no comprehensions: use apply(list, fn) and where(list, pred)",
                ));
            }
            if !self.eat(Sym::Comma) {
                break;
            }
        }
        self.expect(Sym::RBracket, "to close the list")?;
        Ok(ExprKind::List(items))
    }

    fn map(&mut self) -> Parsed<ExprKind> {
        self.pos += 1;
        let mut entries = Vec::new();
        while !self.is(Sym::RBrace) {
            let key = self.expr()?;
            self.expect(Sym::Colon, "after a map key")?;
            entries.push((key, self.expr()?));
            if !self.eat(Sym::Comma) {
                break;
            }
        }
        self.expect(Sym::RBrace, "to close the map")?;
        Ok(ExprKind::Map(entries))
    }

    /// `(a, b = 1) =>` ahead?
    fn is_lambda(&self) -> bool {
        let close = self.closing[self.pos] as usize;
        close > self.pos
            && self.tokens.get(close + 1).is_some_and(|t| t.kind == Tok::Sym(Sym::Arrow))
            && (close == self.pos + 1 || matches!(self.kind_at(1), Tok::Word(_)))
    }

    fn lambda(&mut self, at: u32) -> Parsed<ExprKind> {
        let params = self.params()?;
        self.expect(Sym::Arrow, "after the parameters")?;
        let body = self.deeper(Self::or_level)?;
        Ok(ExprKind::Lambda(Rc::new(Function {
            name: None,
            at,
            params,
            body: Body::Expr(body),
            scope: ScopeId::default(),
        })))
    }

    pub(super) fn params(&mut self) -> Parsed<Vec<Param>> {
        self.expect(Sym::LParen, "before the parameters")?;
        let mut params: Vec<Param> = Vec::new();
        while !self.is(Sym::RParen) {
            let name = self.binding("the parameter")?;
            if params.iter().any(|p| p.name.text == name.text) {
                return Err(LoadError::parse(name.at, format!("parameter '{}' is named twice", name.text)));
            }
            let default = if self.eat(Sym::Assign) { Some(self.expr()?) } else { None };
            params.push(Param { name, default });
            if params.len() > 100 {
                return Err(LoadError::parse(self.at(), "a task has at most 100 parameters"));
            }
            if !self.eat(Sym::Comma) {
                break;
            }
        }
        self.expect(Sym::RParen, "to close the parameters")?;
        Ok(params)
    }

    fn template(&mut self, pieces: &[Piece]) -> Parsed<ExprKind> {
        let mut out = Vec::with_capacity(pieces.len());
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.push(TemplatePiece::Text(text.clone())),
                Piece::Hole(from, to) => {
                    let tokens = super::super::lexer::lex_hole(self.source, *from as usize, *to as usize)?;
                    let mut inner = Parser::new(self.source, tokens, self.is_module);
                    inner.depth = self.depth + 1;
                    let expr = inner.expr()?;
                    if matches!(inner.kind(), Tok::Sym(Sym::Colon | Sym::Comma)) {
                        return Err(LoadError::parse(
                            inner.at(),
                            "in a template `{` begins an expression, which ends here: write `\\{` where a brace is text",
                        ));
                    }
                    if !inner.at_end() {
                        return Err(inner.leftover());
                    }
                    out.push(TemplatePiece::Hole(expr));
                }
            }
        }
        Ok(ExprKind::Template(out))
    }
}

fn chain(first: Expr, rest: Vec<(BinOp, u32, Expr)>) -> Expr {
    if rest.is_empty() {
        return first;
    }
    let at = first.at;
    Expr { kind: ExprKind::Arith(Box::new(first), rest), at }
}

/// `a |> f(x)` is `f(a, x)`.
fn pipe(left: Expr, step: Expr, at: u32) -> Expr {
    let arg = Arg { name: None, value: left };
    let step_at = step.at;
    let kind = match step.kind {
        ExprKind::Postfix(base, mut steps)
            if matches!(steps.last(), Some(Step { kind: StepKind::Call(_), .. })) =>
        {
            if let Some(Step { kind: StepKind::Call(args), .. }) = steps.last_mut() {
                args.insert(0, arg);
            }
            ExprKind::Postfix(base, steps)
        }
        ExprKind::Postfix(base, mut steps) => {
            steps.push(Step { at, kind: StepKind::Call(vec![arg]) });
            ExprKind::Postfix(base, steps)
        }
        kind => ExprKind::Postfix(
            Box::new(Expr { kind, at: step_at }),
            vec![Step { at, kind: StepKind::Call(vec![arg]) }],
        ),
    };
    Expr { kind, at: step_at }
}
