//! Tokens → tree.
//!
//! Depth-bounded: blocks, expressions and patterns share one counter. After an error the parser goes on at the
//! next statement, so that one run reports several.

mod expr;
mod hints;
mod pattern;
mod stmt;

use super::ast::{Block, Body, Expr, ExprKind, Function, Name, Param, Stmt, StmtKind};
use super::token::{Sym, Tok, Token, is_keyword};
use crate::error::LoadError;
use std::rc::Rc;

/// Blocks, expressions and patterns inside one another.
const MAX_DEPTH: u32 = 150;
/// Calls, indexes and members in one chain, and steps of one pipe.
const MAX_CHAIN: usize = 400;
/// Reported at most.
const MAX_ERRORS: usize = 20;

/// A parsed file.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) body: Block,
}

pub(crate) struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Token>,
    /// For an opening bracket the index of its closing one.
    closing: Vec<u32>,
    pos: usize,
    depth: u32,
    errors: Vec<LoadError>,
    is_module: bool,
    /// Where a type, enum, agent, `use` or `export` may stand.
    top_level: bool,
    /// Agents and the names that they are started with.
    spawned: Vec<(Rc<str>, Rc<str>)>,
}

type Parsed<T> = Result<T, LoadError>;

/// Reads a file; every error found, in order of the source.
pub(crate) fn parse(source: &str, is_module: bool) -> Result<Tree, Vec<LoadError>> {
    let tokens = super::lexer::lex(source).map_err(|e| vec![e])?;
    let mut parser = Parser::new(source, tokens, is_module);
    let mut body = parser.program();
    parser.agent_parameters(&mut body);
    if parser.errors.is_empty() { Ok(Tree { body }) } else { Err(parser.errors) }
}

impl<'s> Parser<'s> {
    fn new(source: &'s str, tokens: Vec<Token>, is_module: bool) -> Self {
        let mut closing = vec![0; tokens.len()];
        let mut open = Vec::new();
        for (i, token) in tokens.iter().enumerate() {
            match token.kind {
                Tok::Sym(Sym::LParen | Sym::LBracket | Sym::LBrace) => open.push(i),
                Tok::Sym(Sym::RParen | Sym::RBracket | Sym::RBrace) => {
                    if let Some(start) = open.pop() {
                        closing[start] = i as u32;
                    }
                }
                _ => {}
            }
        }
        Self {
            source,
            tokens,
            closing,
            pos: 0,
            depth: 0,
            errors: Vec::new(),
            is_module,
            top_level: true,
            spawned: Vec::new(),
        }
    }

    fn program(&mut self) -> Block {
        let mut body = Vec::new();
        while !self.at_end() && self.errors.len() < MAX_ERRORS {
            if matches!(self.kind(), Tok::Newline | Tok::Dedent) {
                self.pos += 1;
                continue;
            }
            if *self.kind() == Tok::Indent {
                let at = self.at();
                self.fail(LoadError::parse(at, "unexpected indentation"));
                continue;
            }
            match self.statement() {
                Ok(stmt) => body.push(stmt),
                Err(error) => self.fail(error),
            }
        }
        body
    }

    /// What `spawn X with k = v` passes are the agent's variables: parameters that may be missing.
    fn agent_parameters(&self, body: &mut Block) {
        for stmt in body {
            let at = stmt.at;
            match &mut stmt.kind {
                StmtKind::Agent(agent, function) => {
                    let Some(function) = Rc::get_mut(function) else { continue };
                    for (_, name) in self.spawned.iter().filter(|(a, _)| *a == agent.text) {
                        if function.params.iter().all(|p| p.name.text != *name) {
                            let default = Some(Expr { kind: ExprKind::Nothing, at });
                            function.params.push(Param { name: Name::new(name.clone(), at), default });
                        }
                    }
                    self.agents_inside(function);
                }
                StmtKind::Task(_, function) => {
                    if let Some(function) = Rc::get_mut(function) {
                        self.agents_inside(function);
                    }
                }
                StmtKind::Export(inner) => {
                    if let StmtKind::Task(_, function) = &mut inner.kind
                        && let Some(function) = Rc::get_mut(function)
                    {
                        self.agents_inside(function);
                    }
                }
                StmtKind::When(branches, otherwise) => {
                    branches.iter_mut().for_each(|(_, body)| self.agent_parameters(body));
                    otherwise.iter_mut().for_each(|body| self.agent_parameters(body));
                }
                StmtKind::Match { arms, otherwise, .. } => {
                    arms.iter_mut().for_each(|arm| self.agent_parameters(&mut arm.body));
                    otherwise.iter_mut().for_each(|(body, _)| self.agent_parameters(body));
                }
                StmtKind::Try { body, recover, .. } => {
                    self.agent_parameters(body);
                    self.agent_parameters(recover);
                }
                StmtKind::Each { body, .. }
                | StmtKind::While(_, body)
                | StmtKind::Sandbox { body, .. }
                | StmtKind::Test(_, body, _)
                | StmtKind::Watch(body) => self.agent_parameters(body),
                _ => {}
            }
        }
    }

    fn agents_inside(&self, function: &mut Function) {
        if let Body::Block(body) = &mut function.body {
            self.agent_parameters(body);
        }
    }

    /// Notes an error and goes to the next statement of the same level.
    fn fail(&mut self, error: LoadError) {
        self.errors.push(error);
        self.depth = 0;
        let mut level = 0;
        loop {
            match self.kind() {
                Tok::End => return,
                Tok::Indent => level += 1,
                Tok::Dedent if level == 0 => return,
                Tok::Dedent => {
                    level -= 1;
                    if level == 0 {
                        self.pos += 1;
                        return;
                    }
                }
                Tok::Newline if level == 0 => {
                    self.pos += 1;
                    if *self.kind() != Tok::Indent {
                        return;
                    }
                    continue;
                }
                _ => {}
            }
            self.pos += 1;
        }
    }

    // ---- tokens ----

    fn kind(&self) -> &Tok {
        &self.tokens[self.pos.min(self.tokens.len() - 1)].kind
    }

    fn kind_at(&self, ahead: usize) -> &Tok {
        &self.tokens[(self.pos + ahead).min(self.tokens.len() - 1)].kind
    }

    fn at(&self) -> u32 {
        self.tokens[self.pos.min(self.tokens.len() - 1)].at
    }

    fn at_end(&self) -> bool {
        *self.kind() == Tok::End
    }

    fn is(&self, sym: Sym) -> bool {
        *self.kind() == Tok::Sym(sym)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.kind(), Tok::Word(w) if **w == *word)
    }

    fn word_at(&self, ahead: usize) -> Option<&Rc<str>> {
        match self.kind_at(ahead) {
            Tok::Word(w) => Some(w),
            _ => None,
        }
    }

    fn eat(&mut self, sym: Sym) -> bool {
        let yes = self.is(sym);
        if yes {
            self.pos += 1;
        }
        yes
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let yes = self.is_word(word);
        if yes {
            self.pos += 1;
        }
        yes
    }

    fn expect(&mut self, sym: Sym, what: &str) -> Parsed<()> {
        if self.eat(sym) {
            return Ok(());
        }
        Err(self.unexpected(&format!("expected `{}` {what}", sym.text())))
    }

    fn expect_word(&mut self, word: &str, what: &str) -> Parsed<()> {
        if self.eat_word(word) {
            return Ok(());
        }
        Err(self.unexpected(&format!("expected `{word}` {what}")))
    }

    fn unexpected(&self, wanted: &str) -> LoadError {
        if let Some(error) = self.foreign_here() {
            return error;
        }
        LoadError::parse(self.at(), format!("{wanted}, found {}", self.kind().describe()))
    }

    /// A name that is being bound; reserved words are refused.
    fn binding(&mut self, after: &str) -> Parsed<Name> {
        let at = self.at();
        match self.kind() {
            Tok::Word(w) if is_keyword(w) => Err(LoadError::parse(
                at,
                format!("'{w}' is a reserved word in Synsema; choose another name for {after}"),
            )),
            Tok::Word(w) => {
                let name = Name::new(w.clone(), at);
                self.pos += 1;
                Ok(name)
            }
            _ => Err(self.unexpected(&format!("expected a name for {after}"))),
        }
    }

    fn text(&mut self, what: &str) -> Parsed<Rc<str>> {
        match self.kind().clone() {
            Tok::Text(text) => {
                self.pos += 1;
                Ok(text)
            }
            _ => Err(self.unexpected(&format!("expected a text {what}"))),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(LoadError::parse(self.at(), format!("nested too deeply (limit {MAX_DEPTH})")));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth = self.depth.saturating_sub(1);
        result
    }

    /// The end of a statement on its own line.
    fn line_end(&mut self) -> Parsed<()> {
        match self.kind() {
            Tok::Newline => {
                self.pos += 1;
                Ok(())
            }
            Tok::End | Tok::Dedent => Ok(()),
            _ => Err(self.leftover()),
        }
    }

    fn block(&mut self) -> Parsed<Block> {
        if self.is(Sym::Colon) {
            return Err(LoadError::parse(
                self.at(),
                "Synsema blocks have no colon: end the line and indent the body",
            ));
        }
        if *self.kind() != Tok::Newline {
            if self.at_end() || *self.kind() == Tok::Dedent {
                return Err(LoadError::parse(self.at(), "Expected indented block"));
            }
            return Err(self.leftover());
        }
        if *self.kind_at(1) != Tok::Indent {
            let at = self.tokens[self.pos + 1].at;
            return Err(LoadError::parse(at, "Expected indented block"));
        }
        self.pos += 2;
        let outer = std::mem::replace(&mut self.top_level, false);
        let depth = self.depth;
        let result = self.deeper(|p| {
            let mut body: Vec<Stmt> = Vec::new();
            loop {
                match p.kind() {
                    Tok::Dedent => {
                        p.pos += 1;
                        return Ok(body);
                    }
                    Tok::End => return Ok(body),
                    Tok::Newline => p.pos += 1,
                    Tok::Indent => return Err(LoadError::parse(p.at(), "unexpected indentation")),
                    _ => match p.statement() {
                        Ok(stmt) => body.push(stmt),
                        Err(error) => {
                            if p.errors.len() + 1 >= MAX_ERRORS {
                                return Err(error);
                            }
                            let kept = p.depth;
                            p.fail(error);
                            p.depth = kept;
                        }
                    },
                }
            }
        });
        self.depth = depth;
        self.top_level = outer;
        result
    }
}
