//! Statements.

use super::{Parsed, Parser};
use crate::error::LoadError;
use crate::synsema::ast::{
    Arm, Block, Body, Expr, ExprKind, Function, Name, Require, ScopeId, Step, StepKind, Stmt, StmtKind,
    Target,
};
use crate::synsema::token::{Sym, Tok, is_keyword};
use std::rc::Rc;

/// May be bound to data, never to something that can be called.
const PROTECTED: [&str; 6] = ["print", "eprint", "private", "declassify", "label_of", "is_private"];

impl Parser<'_> {
    pub(super) fn statement(&mut self) -> Parsed<Stmt> {
        let at = self.at();
        let kind = self.deeper(Self::statement_kind)?;
        Ok(Stmt { kind, at })
    }

    fn statement_kind(&mut self) -> Parsed<StmtKind> {
        let Tok::Word(word) = self.kind().clone() else {
            if self.is(Sym::SlashSlash) {
                return Err(LoadError::parse(
                    self.at(),
                    "Unexpected token: FLOORDIV ('//') — comments start with `--`",
                ));
            }
            return self.expression_statement();
        };
        match &*word {
            "let" => self.let_(),
            "set" => self.set(),
            "give" => {
                self.pos += 1;
                let bare = matches!(self.kind(), Tok::Newline | Tok::End | Tok::Dedent);
                let value = if bare { None } else { Some(self.expr()?) };
                self.ended(StmtKind::Give(value))
            }
            "stop" => {
                self.pos += 1;
                self.ended(StmtKind::Stop)
            }
            "when" => self.when(),
            "each" => self.each(),
            "while" => {
                self.pos += 1;
                let cond = self.expr()?;
                Ok(StmtKind::While(cond, self.block()?))
            }
            "match" => self.match_(),
            "task" => self.task(),
            "type" => self.type_(),
            "try" => self.try_(),
            "intent" if *self.kind_at(1) == Tok::Sym(Sym::Colon) => self.intent(),
            "invariant" => self.invariant(),
            "require" => self.require(),
            "sandbox" => self.sandbox(),
            "agent" => self.agent(),
            "spawn" => self.spawn(),
            "share" => {
                self.pos += 1;
                let value = self.expr()?;
                self.expect_word("as", "after the shared value")?;
                let key = self.expr()?;
                self.ended(StmtKind::Share(value, key))
            }
            "observe" => {
                self.pos += 1;
                let key = self.expr()?;
                self.expect_word("as", "after the observed key")?;
                let name = self.binding("the variable after 'as'")?;
                self.ended(StmtKind::Observe(key, name))
            }
            "signal" => {
                self.pos += 1;
                let channel = self.expr()?;
                let value = if self.eat_word("with") { Some(self.expr()?) } else { None };
                self.ended(StmtKind::Signal(channel, value))
            }
            "wait_for" => self.wait_for(),
            "trace" | "measure" if matches!(self.kind_at(1), Tok::Text(_)) => {
                self.pos += 2;
                Ok(StmtKind::Watch(self.block()?))
            }
            "checkpoint" => {
                self.pos += 1;
                let value = self.expr()?;
                self.ended(StmtKind::Expr(value))
            }
            "log" => {
                self.pos += 1;
                let value = self.expr()?;
                self.ended(StmtKind::Log(value))
            }
            "show" => {
                self.pos += 1;
                let value = self.expr()?;
                let label = if self.eat_word("as") { Some(self.expr()?) } else { None };
                self.ended(StmtKind::Show(value, label))
            }
            "enum" if self.name_follows() => self.enum_(),
            "use" if matches!(self.kind_at(1), Tok::Text(_)) => self.use_(),
            "export" if matches!(self.kind_at(1), Tok::Word(_)) => self.export(),
            "test" if matches!(self.kind_at(1), Tok::Text(_)) => self.test(),
            "serve" if self.word_at(1).is_some_and(|w| &**w == "on") => self.serve(),
            "raise" => self.raise(),
            _ => match self.foreign_statement() {
                Some(error) => Err(error),
                None => self.expression_statement(),
            },
        }
    }

    fn name_follows(&self) -> bool {
        matches!(self.kind_at(1), Tok::Word(_))
    }

    fn ended(&mut self, kind: StmtKind) -> Parsed<StmtKind> {
        self.line_end()?;
        Ok(kind)
    }

    fn expression_statement(&mut self) -> Parsed<StmtKind> {
        let value = self.expr()?;
        self.ended(StmtKind::Expr(value))
    }

    fn guard_protected(&self, name: &Name, value: &Expr) -> Parsed<()> {
        if PROTECTED.contains(&&*name.text) && matches!(value.kind, ExprKind::Lambda(_)) {
            return Err(protected(name));
        }
        Ok(())
    }

    fn let_(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let name = self.binding("the variable after 'let'")?;
        if self.is(Sym::Assign) {
            return Err(self.unexpected("expected `be`"));
        }
        self.expect_word("be", "after the name")?;
        let value = self.expr()?;
        self.guard_protected(&name, &value)?;
        self.ended(StmtKind::Let(name, value))
    }

    fn set(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let at = self.at();
        let target = match self.kind().clone() {
            Tok::Word(w) if self.word_at(1).is_some_and(|w| &**w == "of") => {
                return Err(LoadError::parse(
                    at,
                    format!(
                        "Invalid set target: `{w} of …` can't be set — write the path with a dot, e.g. set m.{w} to v"
                    ),
                ));
            }
            Tok::Word(w) if !is_keyword(&w) => self.postfix()?,
            Tok::Word(w) if is_keyword(&w) && *self.kind_at(1) != Tok::Sym(Sym::LParen) => {
                return Err(LoadError::parse(
                    at,
                    format!(
                        "'{w}' is a reserved word in Synsema; choose another name for the variable after 'set'"
                    ),
                ));
            }
            _ => return Err(bad_target(at)),
        };
        let (root, path) = match target.kind {
            ExprKind::Name(name) => (name, Vec::new()),
            ExprKind::Postfix(base, steps) => match base.kind {
                ExprKind::Name(name) if steps.iter().all(is_place) => (name, steps),
                _ => return Err(bad_target(at)),
            },
            _ => return Err(bad_target(at)),
        };
        self.expect_word("to", "after the target")?;
        let value = self.expr()?;
        self.guard_protected(&root, &value)?;
        self.ended(StmtKind::Set(Target { root, path }, value))
    }

    fn when(&mut self) -> Parsed<StmtKind> {
        let at = self.at();
        self.pos += 1;
        let cond = self.expr()?;
        if self.is_word("then") {
            return Err(LoadError::parse(
                at,
                "`when … then …` is an expression: as a statement put the body on indented lines",
            ));
        }
        let mut branches = vec![(cond, self.block()?)];
        let mut otherwise = None;
        while self.is_word("otherwise") {
            self.pos += 1;
            if self.eat_word("when") {
                let cond = self.expr()?;
                branches.push((cond, self.block()?));
            } else {
                otherwise = Some(self.block()?);
                break;
            }
        }
        Ok(StmtKind::When(branches, otherwise))
    }

    fn each(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let var = self.binding("the loop's variable")?;
        self.expect_word("in", "after the loop's variable")?;
        let iter = self.expr()?;
        let body = self.block()?;
        Ok(StmtKind::Each { var, iter, body, scope: ScopeId::default() })
    }

    fn match_(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let subject = self.expr()?;
        if *self.kind() != Tok::Newline || *self.kind_at(1) != Tok::Indent {
            if *self.kind() == Tok::Newline {
                return Err(LoadError::parse(self.tokens[self.pos + 1].at, "Expected indented block"));
            }
            return Err(self.leftover());
        }
        self.pos += 2;
        let mut arms = Vec::new();
        let mut otherwise = None;
        loop {
            let at = self.at();
            if self.eat_word("is") {
                let pattern = self.pattern(true)?;
                let guard = if self.eat_word("when") { Some(self.expr()?) } else { None };
                let body = self.inner_block()?;
                arms.push(Arm { pattern, guard, body, scope: ScopeId::default(), at });
            } else if self.eat_word("otherwise") {
                otherwise = Some((self.inner_block()?, ScopeId::default()));
                if *self.kind() != Tok::Dedent && !self.at_end() {
                    return Err(self.unexpected("`otherwise` is the last arm of a `match`: expected its end"));
                }
            } else if *self.kind() == Tok::Dedent {
                self.pos += 1;
                break;
            } else if self.at_end() {
                break;
            } else {
                return Err(self.unexpected("expected `is <pattern>` or `otherwise`"));
            }
        }
        Ok(StmtKind::Match { subject, arms, otherwise })
    }

    fn inner_block(&mut self) -> Parsed<Block> {
        let outer = std::mem::replace(&mut self.top_level, false);
        let body = self.block();
        self.top_level = outer;
        body
    }

    fn task(&mut self) -> Parsed<StmtKind> {
        let at = self.at();
        self.pos += 1;
        let name = self.binding("the task")?;
        if PROTECTED.contains(&&*name.text) {
            return Err(protected(&name));
        }
        let params = self.params()?;
        let body = self.block()?;
        let function = Function {
            name: Some(name.text.clone()),
            at,
            params,
            body: Body::Block(body),
            scope: ScopeId::default(),
        };
        Ok(StmtKind::Task(name, Rc::new(function)))
    }

    /// The lines of `type` and `enum`.
    fn lines<T>(&mut self, mut line: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        if *self.kind() != Tok::Newline {
            return if self.is(Sym::Colon) {
                Err(LoadError::parse(
                    self.at(),
                    "Synsema blocks have no colon: end the line and indent the body",
                ))
            } else {
                Err(self.leftover())
            };
        }
        if *self.kind_at(1) != Tok::Indent {
            return Err(LoadError::parse(self.tokens[self.pos + 1].at, "Expected indented block"));
        }
        self.pos += 2;
        let mut all = Vec::new();
        loop {
            match self.kind() {
                Tok::Dedent => {
                    self.pos += 1;
                    return Ok(all);
                }
                Tok::End => return Ok(all),
                _ => {
                    all.push(line(self)?);
                    self.line_end()?;
                }
            }
        }
    }

    fn word_of(&mut self, what: &str) -> Parsed<Rc<str>> {
        match self.kind().clone() {
            Tok::Word(w) => {
                self.pos += 1;
                Ok(w)
            }
            _ => Err(self.unexpected(&format!("expected {what}"))),
        }
    }

    fn type_(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let name = self.binding("the type")?;
        let mut known = std::collections::HashSet::new();
        let fields = self.lines(|p| {
            let at = p.at();
            let field = p.word_of("a field's name")?;
            if !known.insert(field.clone()) {
                return Err(LoadError::parse(
                    at,
                    format!("the type '{}' has two fields '{field}'", name.text),
                ));
            }
            p.expect(Sym::Colon, "after the field's name")?;
            p.word_of("the field's kind")?;
            Ok(field)
        })?;
        Ok(StmtKind::Type(name, fields))
    }

    fn enum_(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let name = self.binding("the enum")?;
        let mut known = std::collections::HashSet::new();
        let variants = self.lines(|p| {
            let at = p.at();
            let variant = p.word_of("a variant's name")?;
            if !known.insert(variant.clone()) {
                let why = format!("the enum '{}' has two variants '{variant}'", name.text);
                return Err(LoadError::parse(at, why));
            }
            let mut count = 0;
            if p.eat(Sym::LParen) {
                while !p.is(Sym::RParen) {
                    p.word_of("a field's name")?;
                    count += 1;
                    if !p.eat(Sym::Comma) {
                        break;
                    }
                }
                p.expect(Sym::RParen, "to close the variant")?;
            }
            Ok((variant, count))
        })?;
        Ok(StmtKind::Enum(name, variants))
    }

    fn try_(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let body = self.block()?;
        if !self.eat_word("recover") {
            return Err(self.unexpected("expected `recover` after the `try` block"));
        }
        let name = match self.kind() {
            Tok::Word(_) => Some(self.binding("the error after 'recover'")?),
            _ => None,
        };
        let recover = self.block()?;
        Ok(StmtKind::Try { body, name, recover, scope: ScopeId::default() })
    }

    fn raise(&mut self) -> Parsed<StmtKind> {
        match self.kind_at(1) {
            Tok::Newline | Tok::End | Tok::Dedent => {
                Err(LoadError::parse(self.at(), "raise expects a message: raise \"what went wrong\""))
            }
            // `raise(…)` alone is the builtin's call; anything longer starts with a parenthesis by chance.
            Tok::Sym(Sym::Dot | Sym::LBracket | Sym::Assign) => self.expression_statement(),
            Tok::Sym(Sym::LParen) if *self.kind_at(2) == Tok::Sym(Sym::RParen) => self.expression_statement(),
            _ => {
                self.pos += 1;
                let value = self.expr()?;
                self.ended(StmtKind::Raise(value))
            }
        }
    }

    fn intent(&mut self) -> Parsed<StmtKind> {
        let at = self.at();
        if self.is_module {
            return Err(LoadError::parse(at, "a module may not contain `intent:`"));
        }
        self.pos += 2;
        let text = self.text("after `intent:`")?;
        self.ended(StmtKind::Intent(text))
    }

    fn invariant(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let name = match self.kind().clone() {
            Tok::Text(text) => {
                self.pos += 1;
                Some(text)
            }
            Tok::Template(_) => {
                let token = &self.tokens[self.pos];
                let raw = &self.source[token.at as usize + 1..token.end as usize - 1];
                self.pos += 1;
                Some(raw.into())
            }
            _ => None,
        };
        self.expect(Sym::Colon, "after `invariant`")?;
        let cond = self.expr()?;
        self.ended(StmtKind::Invariant(name, cond))
    }

    fn require(&mut self) -> Parsed<StmtKind> {
        let at = self.at();
        self.pos += 1;
        if self.is_module && self.top_level {
            return Err(LoadError::parse(at, "a module may not contain a top-level `require`"));
        }
        let mut capability = self.word_of("a capability")?.to_string();
        if self.eat(Sym::Dot) {
            capability.push('.');
            capability.push_str(&self.word_of("the rest of the capability")?);
        }
        let mut scopes = Vec::new();
        if self.eat(Sym::LParen) {
            while !self.is(Sym::RParen) {
                scopes.push(self.scope()?);
                if !self.eat(Sym::Comma) {
                    break;
                }
            }
            self.expect(Sym::RParen, "to close the scopes")?;
        } else if !matches!(self.kind(), Tok::Newline | Tok::End | Tok::Dedent) {
            scopes.push(self.scope()?);
        }
        if capability == "memory" && scopes.is_empty() {
            return Err(LoadError::parse(at, "require memory needs a name: require memory(\"notes\")"));
        }
        self.ended(StmtKind::Require(Require { capability: capability.into(), scopes }))
    }

    fn scope(&mut self) -> Parsed<Rc<str>> {
        let scope: Rc<str> = match self.kind().clone() {
            Tok::Text(text) => text,
            Tok::Int(n) => n.to_string().into(),
            _ => {
                return Err(self.unexpected(
                    "a `require` takes literals only, so that it can be read without running: expected a text or a number",
                ));
            }
        };
        self.pos += 1;
        Ok(scope)
    }

    fn sandbox(&mut self) -> Parsed<StmtKind> {
        if *self.kind_at(1) == Tok::Newline {
            self.pos += 1;
            let body = self.block()?;
            return Ok(StmtKind::Sandbox { under: None, body, scope: ScopeId::default() });
        }
        if self.word_at(1).is_some_and(|w| &**w == "under") {
            self.pos += 2;
            let under = Some(self.expr()?);
            let body = self.block()?;
            return Ok(StmtKind::Sandbox { under, body, scope: ScopeId::default() });
        }
        self.expression_statement()
    }

    fn agent(&mut self) -> Parsed<StmtKind> {
        let at = self.at();
        self.pos += 1;
        let name = self.binding("the agent")?;
        let body = self.block()?;
        let function = Function {
            name: Some(name.text.clone()),
            at,
            params: Vec::new(),
            body: Body::Block(body),
            scope: ScopeId::default(),
        };
        Ok(StmtKind::Agent(name, Rc::new(function)))
    }

    fn spawn(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let name = self.binding("the agent after 'spawn'")?;
        let values = if self.eat_word("with") { self.named_values()? } else { Vec::new() };
        self.spawned.extend(values.iter().map(|(k, _)| (name.text.clone(), k.clone())));
        self.ended(StmtKind::Spawn(name, values))
    }

    fn wait_for(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let channel = self.expr()?;
        let timeout = if self.eat_word("timeout") { Some(self.expr()?) } else { None };
        let name = if self.eat_word("as") { Some(self.binding("the variable after 'as'")?) } else { None };
        self.ended(StmtKind::WaitFor { channel, timeout, name })
    }

    fn use_(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let at = self.at();
        let path = self.text("with the module's path")?;
        if !path.ends_with(".syn") {
            return Err(LoadError::parse(at, "module path must end in '.syn'"));
        }
        if path.starts_with('/') || path.contains("://") {
            return Err(LoadError::parse(at, "module path must be relative"));
        }
        self.expect_word("as", "after the module's path")?;
        let name = self.binding("the module after 'as'")?;
        self.ended(StmtKind::Use(path, name))
    }

    fn export(&mut self) -> Parsed<StmtKind> {
        let at = self.at();
        self.pos += 1;
        if !self.top_level {
            return Err(LoadError::parse(at, "`export` belongs to the top level of a file"));
        }
        let inner = self.statement()?;
        match inner.kind {
            StmtKind::Let(..) | StmtKind::Task(..) | StmtKind::Type(..) | StmtKind::Enum(..) => {
                Ok(StmtKind::Export(Box::new(inner)))
            }
            _ => Err(LoadError::parse(at, "only a task, type, enum or let can be exported")),
        }
    }

    fn test(&mut self) -> Parsed<StmtKind> {
        self.pos += 1;
        let name = self.text("naming the test")?;
        let body = self.block()?;
        Ok(StmtKind::Test(name, body, ScopeId::default()))
    }

    /// The block is read as far as its extent goes; the service runs it.
    fn serve(&mut self) -> Parsed<StmtKind> {
        let at = self.at();
        if self.is_module {
            return Err(LoadError::parse(at, "a module may not contain `serve`"));
        }
        self.pos += 2;
        let port = self.expr()?;
        if *self.kind() != Tok::Newline || *self.kind_at(1) != Tok::Indent {
            return Err(LoadError::parse(self.at(), "Expected indented block"));
        }
        self.pos += 2;
        let mut level = 1;
        while level > 0 && !self.at_end() {
            match self.kind() {
                Tok::Indent => level += 1,
                Tok::Dedent => level -= 1,
                _ => {}
            }
            self.pos += 1;
        }
        Ok(StmtKind::Serve(port))
    }
}

fn is_place(step: &Step) -> bool {
    matches!(step.kind, StepKind::Index(_) | StepKind::Field(_))
}

fn bad_target(at: u32) -> LoadError {
    LoadError::parse(
        at,
        "Invalid set target: it must start from a variable — write the path from the variable, e.g. set m[\"a\"][\"b\"] to v",
    )
}

fn protected(name: &Name) -> LoadError {
    LoadError::parse(
        name.at,
        format!(
            "'{}' is a protected builtin; it can't be replaced by something that can be called",
            name.text
        ),
    )
}
