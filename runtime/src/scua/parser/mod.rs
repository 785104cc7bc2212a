//! Tokens → tree; depth-bounded. The first error ends it.

mod expr;
mod stmt;

use super::ast::{Binding, Function};
use super::lexer::{self, Placed};
use super::token::{Keyword, Token};
use std::rc::Rc;

/// Blocks, brackets and operators inside one another.
const MAX_DEPTH: u32 = 128;
const MAX_PARAMETERS: usize = 16;
const MAX_NAMES: u32 = 200;
const MAX_TOP_NAMES: u32 = 65_535;
const MAX_LITERALS: u32 = 65_535;

/// What is wrong in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) at: u32,
    pub(super) message: String,
    /// Whether the limit on functions was passed.
    pub(super) functions: bool,
}

impl Wrong {
    pub(super) fn new(at: u32, message: impl Into<String>) -> Self {
        Self { at, message: message.into(), functions: false }
    }
}

pub(super) type Parsed<T> = Result<T, Wrong>;

/// A source's tree with what was counted in it.
pub(super) struct Tree {
    pub(super) top: Rc<Function>,
    pub(super) functions: u32,
    pub(super) bindings: u32,
}

/// Reads a source with at most so many functions, its top level included.
pub(super) fn parse(text: &str, functions: u32) -> Parsed<Tree> {
    let mut parser = Parser {
        text,
        tokens: lexer::tokens(text),
        at: 0,
        inside: false,
        depth: 0,
        functions: 1,
        max_functions: functions,
        bindings: 0,
        literals: 0,
        names: 0,
        function_depth: 0,
        loops: 0,
        blocks: 0,
    };
    let body = parser.statements(&[])?;
    match parser.peek() {
        Token::End => {}
        _ => return Err(parser.expected("the end of the statement")),
    }
    let top = Function { name: None, at: 0, params: Vec::new(), body, id: 0 };
    Ok(Tree { top: Rc::new(top), functions: parser.functions, bindings: parser.bindings })
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Placed>,
    at: usize,
    /// Inside brackets: line ends mean nothing.
    inside: bool,
    depth: u32,
    functions: u32,
    max_functions: u32,
    bindings: u32,
    literals: u32,
    /// Names declared in the function that is being read.
    names: u32,
    function_depth: u32,
    loops: u32,
    blocks: u32,
}

impl Parser<'_> {
    fn line(&self, at: u32) -> usize {
        self.text.as_bytes()[..(at as usize).min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }

    fn peek(&mut self) -> &Token {
        if self.inside {
            self.skip_lines();
        }
        &self.tokens[self.at.min(self.tokens.len() - 1)].0
    }

    /// Where the next token starts.
    fn place(&mut self) -> u32 {
        if self.inside {
            self.skip_lines();
        }
        self.tokens[self.at.min(self.tokens.len() - 1)].1
    }

    fn skip_lines(&mut self) {
        while matches!(self.tokens.get(self.at), Some((Token::Newline, _))) {
            self.at += 1;
        }
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    fn is(&mut self, mark: &str) -> bool {
        matches!(self.peek(), Token::Mark(m) if *m == mark)
    }

    fn is_keyword(&mut self, keyword: Keyword) -> bool {
        *self.peek() == Token::Keyword(keyword)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = self.is(mark);
        if found {
            self.next();
        }
        found
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        let found = self.is_keyword(keyword);
        if found {
            self.next();
        }
        found
    }

    fn need(&mut self, mark: &str) -> Parsed<()> {
        if self.eat(mark) { Ok(()) } else { Err(self.expected(&format!("`{mark}`"))) }
    }

    fn need_keyword(&mut self, keyword: Keyword) -> Parsed<()> {
        if self.eat_keyword(keyword) { Ok(()) } else { Err(self.expected(&format!("`{}`", keyword.text()))) }
    }

    /// The next token isn't what had to come.
    fn expected(&mut self, what: &str) -> Wrong {
        let at = self.place();
        match self.peek() {
            Token::Wrong(message) => Wrong::new(at, message.to_string()),
            found => {
                let found = found.shown();
                Wrong::new(at, format!("expected {what}, found {found}"))
            }
        }
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let at = self.place();
            return Err(Wrong::new(at, format!("nested too deeply (limit {MAX_DEPTH})")));
        }
        Ok(())
    }

    fn literal(&mut self) -> Parsed<()> {
        self.literals += 1;
        if self.literals > MAX_LITERALS {
            let at = self.place();
            return Err(Wrong::new(at, format!("more than {MAX_LITERALS} literals")));
        }
        Ok(())
    }

    /// One level deeper, where line ends mean nothing.
    fn bracket<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.deeper()?;
        let outer = std::mem::replace(&mut self.inside, true);
        let result = read(self)?;
        self.inside = outer;
        self.depth -= 1;
        Ok(result)
    }

    /// `e, e, …` up to a closing mark, which is read too.
    fn list<T>(&mut self, close: &str, mut one: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut all = Vec::new();
        let outer = self.inside;
        self.deeper()?;
        self.inside = true;
        loop {
            if self.is(close) {
                break;
            }
            all.push(one(self)?);
            if !self.eat(",") {
                break;
            }
        }
        if !self.is(close) {
            return Err(self.expected(&format!("`{close}`")));
        }
        // What follows the bracket belongs to the line again.
        self.inside = outer;
        self.at += 1;
        self.depth -= 1;
        Ok(all)
    }

    fn binding(&mut self) -> Parsed<Binding> {
        let at = self.place();
        let name = match self.peek().clone() {
            Token::Name(name) => Some(name),
            Token::Mark("_") => None,
            Token::Tag(tag) => {
                return Err(Wrong::new(at, format!("a variable starts with a small letter: `{tag}`")));
            }
            _ => return Err(self.expected("a name")),
        };
        self.next();
        self.bound(name, at)
    }

    fn bound(&mut self, name: Option<Rc<str>>, at: u32) -> Parsed<Binding> {
        if name.is_some() {
            self.names += 1;
            let most = if self.function_depth == 0 { MAX_TOP_NAMES } else { MAX_NAMES };
            if self.names > most {
                return Err(Wrong::new(at, format!("more than {most} names in a function")));
            }
        }
        self.bindings += 1;
        Ok(Binding { name, at, id: self.bindings - 1 })
    }

    /// A function from its parameters on.
    fn function(&mut self, name: Option<Rc<str>>, at: u32, spawned: bool) -> Parsed<Rc<Function>> {
        let id = self.functions;
        self.functions += 1;
        if self.functions > self.max_functions {
            let message = format!("more than {} functions", self.max_functions);
            return Err(Wrong { at, message, functions: true });
        }
        self.deeper()?;
        let names = std::mem::take(&mut self.names);
        let loops = std::mem::take(&mut self.loops);
        self.function_depth += 1;
        let outer = std::mem::replace(&mut self.inside, false);
        let params = if spawned {
            Vec::new()
        } else {
            self.need("(")?;
            self.list(")", Self::binding)?
        };
        if params.len() > MAX_PARAMETERS {
            return Err(Wrong::new(
                params[MAX_PARAMETERS].at,
                format!("more than {MAX_PARAMETERS} parameters"),
            ));
        }
        let body = self.block(if spawned { "do" } else { "fn" }, at)?;
        self.inside = outer;
        self.function_depth -= 1;
        self.loops = loops;
        self.names = names;
        self.depth -= 1;
        Ok(Rc::new(Function { name, at, params, body, id }))
    }
}
