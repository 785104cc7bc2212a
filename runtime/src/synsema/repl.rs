//! A conversation: statements one after another, over one top level that stays.
//!
//! Each entry is compiled as a program of its own whose top level knows the names of those before it. A name that nobody
//! has bound yet gets its place when it is first read, so that tasks may call what is written later.
//!
//! Invariant: an error ends its entry and nothing else. What an entry bound before it failed stays bound.

use super::ast::{Name, StmtKind};
use super::load::{self, Loader};
use super::resolve::{self, Known};
use super::token::{Piece, Sym, Tok, is_keyword};
use super::{compile, lexer, parser};
use crate::broker::Reply;
use crate::bytecode::Program;
use crate::diagnostic;
use crate::error::LoadError;
use crate::partition::host::Host;
use crate::partition::{Core, Entered, ModuleState, Settings, heap::Meter};
use crate::source::Source;
use crate::vm::Machine;
use crate::vm::render;
use crate::vm::trap::Stop;
use crate::vm::value::Value;
use crate::worker::join;
use policies::broker::{By, Request};
use policies::wire::{EndFrame, ErrorFrame};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// Names of one conversation at most.
const MAX_NAMES: usize = 60_000;
/// Turns of agents between two entries.
const MOST_TURNS: u32 = 500;
/// What the last value that was shown is called.
const LAST: &str = "_";

/// Whether an entry can be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It is whole.
    Whole,
    /// A bracket or a template is open, or a header has no body yet: more must come, indented this far.
    Open(u8),
    /// It ends in an indented block that may go on, this far.
    Block(u8),
}

/// What a text is as an entry.
#[must_use]
pub fn look(text: &str) -> Entry {
    let last = text.lines().last().unwrap_or("");
    let indent = last.chars().take_while(|c| *c == ' ' || *c == '\t').map(|c| if c == '\t' { 4 } else { 1 });
    let indent = indent.sum::<usize>().min(200) as u8;
    let tokens = match lexer::lex(text) {
        Ok(tokens) => tokens,
        Err(error) if error.message == "Unterminated template" => return Entry::Open(0),
        Err(_) => return Entry::Whole,
    };
    let depth = tokens.iter().fold(0_i64, |depth, token| match token.kind {
        Tok::Sym(Sym::LParen | Sym::LBracket | Sym::LBrace) => depth + 1,
        Tok::Sym(Sym::RParen | Sym::RBracket | Sym::RBrace) => depth - 1,
        _ => depth,
    });
    if depth > 0 {
        return Entry::Open(indent);
    }
    let end = text.trim_end().len();
    let header = |error: &LoadError| error.message == "Expected indented block" && error.at as usize >= end;
    if parser::parse(text, false).is_err_and(|errors| errors.iter().any(header)) {
        return Entry::Open(indent + 4);
    }
    if indent > 0 && !last.trim().is_empty() { Entry::Block(indent) } else { Entry::Whole }
}

/// Whether a line goes on with a block that stands above it: it is empty, indented, or a later part of the same statement.
#[must_use]
pub fn goes_on(line: &str) -> bool {
    let first = line.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
    line.trim().is_empty()
        || line.starts_with([' ', '\t'])
        || line.starts_with("--")
        || matches!(first, "otherwise" | "recover")
}

/// What came of an entry.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The value of an expression, rendered; `None` for statements and for `nothing`.
    pub value: Option<String>,
    /// What went wrong, in order.
    pub errors: Vec<ErrorFrame>,
    /// The conversation is over.
    pub over: Option<Over>,
}

/// Why no further entry can be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// The program said `exit`.
    Exit(i32),
    /// The fuel is used up.
    Fuel,
}

/// A conversation.
pub struct Session {
    machine: Machine,
    entered: Entered,
    /// Every name of the top level with its global.
    names: HashMap<Rc<str>, u32>,
    /// Every module with its number.
    modules: HashMap<String, u32>,
    entries: u32,
    /// Agents whose errors were told.
    told: BTreeSet<String>,
    over: Option<Over>,
}

impl Session {
    /// Nothing said yet.
    #[must_use]
    pub fn new(settings: Settings, host: Box<dyn Host>) -> Self {
        let entered = Entered::new(Meter::new(settings.heap));
        let machine = Machine::new(Core::new(Rc::new(Program::default()), settings, host));
        Self {
            machine,
            entered,
            names: HashMap::new(),
            modules: HashMap::new(),
            entries: 0,
            told: BTreeSet::new(),
            over: None,
        }
    }

    /// Evaluates one entry.
    pub fn evaluate(&mut self, text: &str) -> Answer {
        let mut answer = Answer::default();
        self.entries += 1;
        let source = Rc::new(Source::new(&format!("<repl:{}>", self.entries), text));
        let mut program = (*self.machine.core.program).clone();
        let file = program.sources.len() as u32;
        program.sources.push(source);
        let shows = match self.compile(&mut program, text, file) {
            Ok(shows) => shows,
            Err(errors) => {
                for error in &errors {
                    answer.errors.push(diagnostic::of_load(error, &program.sources));
                }
                return answer;
            }
        };
        let core = &mut self.machine.core;
        core.globals.resize(program.globals.len(), Value::Unbound);
        core.modules.resize_with(program.modules.len(), || ModuleState::Waiting);
        core.program = Rc::new(program);
        core.deadline = None;
        let top = core.program.top;
        if let Err(fault) = self.machine.run_function(top) {
            self.stopped(&fault, &mut answer);
        } else if let Some(slot) = shows {
            let value = &self.machine.core.globals[slot as usize];
            answer.value = (!value.is_nothing()).then(|| render::inside(value));
        }
        self.agents(&mut answer);
        answer
    }

    /// Adds the entry's code to the program; the global of what it shows, if it is an expression.
    fn compile(
        &mut self,
        program: &mut Program,
        text: &str,
        file: u32,
    ) -> Result<Option<u32>, Vec<LoadError>> {
        let own = |mut errors: Vec<LoadError>| {
            errors.iter_mut().for_each(|error| error.file = file);
            errors
        };
        let mut body = parser::parse(text, false).map_err(own)?.body;
        // What is wrong with one of them leaves nothing behind.
        let mut done = self.modules.clone();
        let mut loader = Files { core: &mut self.machine.core };
        let modules = load::modules_of(program, &mut done, (&body, file), &mut loader)?;
        let shows = body.len() == 1 && matches!(body[0].kind, StmtKind::Expr(_));
        if shows {
            let at = body[0].at;
            if let StmtKind::Expr(e) = std::mem::replace(&mut body[0].kind, StmtKind::Stop) {
                body[0].kind = StmtKind::Let(Name::new(LAST.into(), at), e);
            }
        }
        let mut fresh: Vec<(Rc<str>, u32)> = Vec::new();
        for name in named(text, shows) {
            // A builtin stays one until an entry binds its name.
            let builtin = crate::builtins::find(&name).is_some();
            if !builtin && !self.names.contains_key(&name) && fresh.iter().all(|(n, _)| *n != name) {
                fresh.push((name.clone(), program.globals.len() as u32));
                program.globals.push(name);
            }
        }
        if self.names.len() + fresh.len() > MAX_NAMES {
            let message = format!("a conversation has at most {MAX_NAMES} names");
            return Err(own(vec![LoadError::parse(0, message)]));
        }
        let globals = &self.machine.core.globals;
        let is_bound = |slot: u32| globals.get(slot as usize).is_some_and(|v| !matches!(v, Value::Unbound));
        let mut known: Vec<Known> = self
            .names
            .iter()
            .map(|(name, slot)| (name.clone(), *slot))
            .chain(fresh.iter().cloned())
            .map(|(name, slot)| Known { name, slot, bound: is_bound(slot) })
            .collect();
        known.sort_by_key(|known| known.slot);
        let placed = program.globals.len();
        let resolved = resolve::resolve(&body, &known);
        let info = compile::compile(program, &body, &resolved, file, &modules, &known, true).map_err(own)?;
        // What is left are names of builtins that this entry binds.
        fresh.extend(program.globals.iter().cloned().zip(0..).skip(placed));
        self.names.extend(fresh);
        self.modules = done;
        program.top = info.top;
        Ok(if shows { self.names.get(LAST).copied() } else { None })
    }

    fn stopped(&mut self, fault: &Stop, answer: &mut Answer) {
        let sources = &self.machine.core.program.sources;
        match fault {
            Stop::Exit(code) => self.over = Some(Over::Exit(*code)),
            Stop::Raised(error) => answer.errors.push(diagnostic::of_raised(error, sources)),
            Stop::Trap(trap) => {
                let message = format!("{} limit reached", trap.name());
                answer.errors.push(diagnostic::plain("Runtime error", &message));
                if *trap == crate::vm::trap::Trap::Fuel {
                    self.over = Some(Over::Fuel);
                }
            }
            Stop::Wait => {}
            Stop::Cancelled(reason) => {
                answer.errors.push(diagnostic::plain("Runtime error", &format!("cancelled: {reason}")));
            }
        }
        answer.over.clone_from(&self.over);
    }

    /// Lets agents go on until all of them wait or had their turns, and tells of those that failed.
    fn agents(&mut self, answer: &mut Answer) {
        let mut turns = MOST_TURNS;
        while self.over.is_none() && turns > 0 && self.machine.run_agents() {
            turns -= 1;
            if let Err(fault) = self.machine.core.check_limits() {
                self.stopped(&fault, answer);
            }
        }
        for (id, message) in self.machine.failures() {
            if self.told.insert(id.clone()) {
                answer.errors.push(diagnostic::plain(&format!("Agent error [{id}]"), &message));
            }
        }
    }

    /// Ends the conversation: agents that are left run to their ends.
    #[must_use]
    pub fn finish(mut self) -> (EndFrame, Vec<ErrorFrame>) {
        let mut answer = Answer::default();
        self.machine.unschedule_all();
        if self.over.is_none() {
            self.machine.join();
            self.agents(&mut answer);
        }
        let (exit, trap) = match &self.over {
            None => (0, None),
            Some(Over::Exit(code)) => (*code, None),
            Some(Over::Fuel) => (1, Some("fuel".to_owned())),
        };
        let fuel = self.machine.core.used();
        self.machine.core.host.flush();
        drop(self.machine);
        let meter = self.entered.leave();
        (EndFrame { exit, fuel, heap_peak: meter.peak(), trap, llm_tokens: 0 }, answer.errors)
    }
}

/// Modules of the folder that the conversation was begun in, by way of whoever may open them.
struct Files<'c> {
    core: &'c mut Core,
}

impl Loader for Files<'_> {
    fn load(&mut self, importer: &str, path: &str) -> Result<(String, String), String> {
        let name = join(importer, path, importer.is_empty())?;
        match self.core.host.broker(&Request::Module { path: name.clone() }, &[]) {
            Ok(Reply::Json(bytes)) => match String::from_utf8(bytes) {
                Ok(text) => Ok((name, text)),
                Err(_) => Err(format!("Module '{path}' is not UTF-8")),
            },
            Ok(Reply::Refused(refused)) if matches!(refused.by, By::Kernel(_)) => {
                Err(format!("Module not found: '{path}'"))
            }
            Ok(Reply::Refused(refused)) => Err(format!("Module '{path}' can't be used: {}", refused.why)),
            Ok(_) => Err(format!("Module '{path}' can't be used: the supervisor's answer makes no sense")),
            Err(why) => Err(format!("Module '{path}' can't be used: failed to {why}")),
        }
    }
}

/// Every word of a text that may be a variable.
fn named(text: &str, shows: bool) -> Vec<Rc<str>> {
    let mut words: Vec<Rc<str>> = if shows { vec![LAST.into()] } else { Vec::new() };
    // Holes of templates stand inside tokens; those inside holes likewise.
    let mut waiting = vec![lexer::lex(text).unwrap_or_default()];
    while let Some(tokens) = waiting.pop() {
        for token in tokens {
            match token.kind {
                Tok::Word(word) if !is_keyword(&word) => words.push(word),
                Tok::Template(pieces) => {
                    for piece in pieces.iter() {
                        if let Piece::Hole(from, to) = piece {
                            let hole = lexer::lex_hole(text, *from as usize, *to as usize);
                            waiting.push(hole.unwrap_or_default());
                        }
                    }
                }
                _ => {}
            }
        }
    }
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::host::Memory;
    use std::cell::RefCell;

    struct Talk {
        session: Session,
        host: Rc<RefCell<Memory>>,
    }

    fn talk() -> Talk {
        with(Settings::trusted())
    }

    fn with(settings: Settings) -> Talk {
        let host = Rc::new(RefCell::new(Memory::default()));
        Talk { session: Session::new(settings, Box::new(host.clone())), host }
    }

    impl Talk {
        /// The value, or the first error.
        fn says(&mut self, text: &str) -> String {
            let answer = self.session.evaluate(text);
            match answer.errors.first() {
                Some(error) => error.text.clone(),
                None => answer.value.unwrap_or_default(),
            }
        }
    }

    #[test]
    fn what_was_bound_stays_and_expressions_are_shown() {
        let mut t = talk();
        assert_eq!(t.says("let x be 20"), "");
        assert_eq!(t.says("x + 1"), "21");
        assert_eq!(t.says("_ * 2"), "42");
        assert_eq!(t.says("\"a\" + \"b\""), "\"ab\"");
        assert_eq!(t.says("nothing"), "");
        assert_eq!(t.says("set x to [x]"), "");
        assert_eq!(t.says("x"), "[20]");
        assert_eq!(t.says("print(`{x} and {length(x)}`)"), "");
        assert_eq!(t.host.borrow().output, ["[20] and 1"]);
    }

    #[test]
    fn an_error_ends_its_entry_and_nothing_else() {
        let mut t = talk();
        assert_eq!(t.says("let x be 1 / 0"), "Runtime error: <repl:1>:1:12: Division by zero");
        assert_eq!(t.says("x"), "Runtime error: <repl:2>:1:1: Undefined variable: 'x'");
        assert_eq!(
            t.says("set x to 1"),
            "Runtime error: <repl:3>:1:5: Cannot set undefined variable 'x' — declare it first with `let x be …`"
        );
        assert!(t.says("let x be").starts_with("Parse error: <repl:4>:1:"));
        assert_eq!(t.says("let x be 5"), "");
        assert_eq!(t.says("each i in [1, 2]\n    set x to x + i\n    let y be 1 / (2 - i)"), {
            "Runtime error: <repl:6>:3:16: Division by zero"
        });
        assert_eq!(t.says("x"), "8");
        assert_eq!(t.says("task f()\n    f()\nf()").split(": ").last(), {
            Some("maximum recursion depth exceeded")
        });
        assert_eq!(t.says("x"), "8");
    }

    #[test]
    fn tasks_may_call_what_is_written_later_and_names_can_be_bound_anew() {
        let mut t = talk();
        t.says("task even(n)\n    give when n == 0 then true otherwise odd(n - 1)");
        assert_eq!(t.says("even(3)"), "Runtime error: <repl:1>:2:42: Undefined variable: 'odd'");
        t.says("task odd(n)\n    give when n == 0 then false otherwise even(n - 1)");
        assert_eq!(t.says("even(10)"), "true");
        t.says("task odd(n)\n    give \"other\"");
        assert_eq!(t.says("even(3)"), "\"other\"");
        // The name of a builtin, too.
        assert_eq!(t.says("length([1])"), "1");
        assert_eq!(t.says("let length be 7"), "");
        assert_eq!(t.says("length"), "7");
        assert_eq!(t.says("let length be length + 1"), "");
        assert_eq!(t.says("`{length}`"), "\"8\"");
    }

    #[test]
    fn limits_hold_over_the_whole_conversation() {
        let mut t = with(Settings { fuel: Some(1000), ..Settings::trusted() });
        assert_eq!(t.says("let n be 0"), "");
        let answer = t.session.evaluate("while true\n    set n to n + 1");
        assert_eq!(answer.over, Some(Over::Fuel));
        let (end, _) = t.session.finish();
        assert_eq!((end.exit, end.trap.as_deref()), (1, Some("fuel")));
        // A heap that is free again may be used again.
        let mut t = with(Settings { heap: Some(1 << 20), ..Settings::trusted() });
        assert_eq!(t.says("let big be range(1000000)"), "Runtime error: memory limit reached");
        assert_eq!(t.says("length(range(1000))"), "1000");
    }

    #[test]
    fn agents_share_the_conversation() {
        let mut t = talk();
        t.says("task double(n)\n    give n * 2");
        t.says("agent Worker\n    wait_for \"go\" as n\n    share double(n) as \"answer\"");
        assert_eq!(t.says("spawn Worker"), "");
        t.says("signal \"go\" with 21");
        t.says("observe \"answer\" as a");
        assert_eq!(t.says("a"), "42");
        t.says("agent Worker\n    raise \"second\"");
        assert_eq!(t.says("spawn Worker"), "Agent error [Worker_1]: second");
        assert_eq!(t.says("exit(3)"), "");
        assert_eq!(t.session.finish().0.exit, 3);
    }

    #[test]
    fn an_entry_is_whole_when_nothing_is_open() {
        for (text, wanted) in [
            ("let x be 1", Entry::Whole),
            ("let x be [1,", Entry::Open(0)),
            ("print(`a", Entry::Open(0)),
            ("task f(x)", Entry::Open(4)),
            ("task f(x)\n    when x", Entry::Open(8)),
            ("task f(x)\n    give x", Entry::Block(4)),
            ("task f(x)\n    give x\n", Entry::Block(4)),
            ("match 1", Entry::Open(4)),
            ("type P", Entry::Open(4)),
            ("try\n    f()\nrecover e", Entry::Open(4)),
            ("let x be", Entry::Whole),
            ("print(\"a", Entry::Whole),
            (")", Entry::Whole),
        ] {
            assert_eq!(look(text), wanted, "{text:?}");
        }
    }
}
