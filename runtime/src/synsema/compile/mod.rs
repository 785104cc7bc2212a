//! Tree → bytecode, through the shared builder.
//!
//! Fuel is defined on the tree: a statement costs 1 and one more for each operator, access, call, container and
//! template in it; the cost rides on the first instruction of the statement.

mod call;
mod expr;
mod path;
mod pattern;
mod set;
mod stmt;
mod work;

use super::ast::{Block, Body, Expr, Function, Name, Stmt, StmtKind};
use super::resolve::{Candidate, Known, Resolved, TOP_LOCALS};
use crate::bytecode::builder::{Builder, Hole};
use crate::bytecode::{Capture, Const, MAX_LOCALS, Op, Program, Proto, VarPlace};
use crate::error::LoadError;
use std::collections::HashMap;
use std::rc::Rc;

/// Where a variable lives, seen from the function being compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Reg(u8),
    /// A register that holds a captured variable.
    Cell(u8),
    /// A variable captured from an outer function.
    Up(u8),
    Global(u32),
}

struct LoopState {
    breaks: Vec<Hole>,
    tries: u16,
    sandboxes: u16,
}

/// One function being written.
struct Frame {
    b: Builder,
    /// For each scope of this function its first register.
    bases: HashMap<u32, u8>,
    /// Registers taken by open scopes.
    used: usize,
    /// Number in the resolver's table.
    number: u32,
    captured: Vec<(u32, u32)>,
    loops: Vec<LoopState>,
    tries: u16,
    sandboxes: u16,
    at: u32,
    /// Constants that loops read, kept in registers: loaded once, at the start.
    kept: Vec<(u8, crate::vm::value::Value)>,
    /// The jump to where they are loaded.
    prologue: Option<Hole>,
    vars: Vec<VarPlace>,
}

/// Constants that a function with loops keeps in registers.
const KEPT: usize = 6;

/// What a file gives to others.
pub(crate) struct FileInfo {
    pub(crate) top: u32,
    /// Exported names with their globals.
    pub(crate) exports: Vec<(Rc<str>, u32, bool)>,
    pub(crate) name: String,
}

/// Compiles one file into a program that may hold others already.
pub(crate) struct Compiler<'p> {
    program: &'p mut Program,
    resolved: &'p Resolved,
    file: u32,
    frames: Vec<Frame>,
    /// Global of each top-level variable that isn't in a register.
    globals: HashMap<u32, u32>,
    /// Register of each top-level variable that is.
    top_registers: HashMap<u32, u8>,
    /// Module paths of this file → number of the module.
    modules: &'p HashMap<Rc<str>, u32>,
    agents: HashMap<Rc<str>, u32>,
    pub(crate) exports: Vec<(Rc<str>, u32, bool)>,
    errors: Vec<LoadError>,
    /// Whether a statement that isn't a declaration came before.
    started: bool,
}

/// Compiles a file's top level; gives the number of its function and what it exports.
pub(crate) fn compile(
    program: &mut Program,
    body: &Block,
    resolved: &Resolved,
    file: u32,
    modules: &HashMap<Rc<str>, u32>,
    known: &[Known],
    all_global: bool,
) -> Result<FileInfo, Vec<LoadError>> {
    let mut c = Compiler {
        program,
        resolved,
        file,
        frames: Vec::new(),
        globals: HashMap::new(),
        top_registers: HashMap::new(),
        modules,
        agents: HashMap::new(),
        exports: Vec::new(),
        errors: Vec::new(),
        started: false,
    };
    c.place_top(body, known, all_global);
    c.declare_agents(body);
    let top = c.top(body);
    if c.errors.is_empty() {
        let name = c.program.sources[file as usize].name.clone();
        Ok(FileInfo { top, exports: c.exports, name })
    } else {
        Err(c.errors)
    }
}

impl Compiler<'_> {
    /// Decides which top-level variables are globals.
    fn place_top(&mut self, body: &Block, known: &[Known], all_global: bool) {
        let mut exported = std::collections::HashSet::new();
        for stmt in body {
            if let StmtKind::Export(inner) = &stmt.kind
                && let StmtKind::Let(n, _)
                | StmtKind::Task(n, _)
                | StmtKind::Type(n, _)
                | StmtKind::Enum(n, _) = &inner.kind
            {
                exported.insert(n.text.clone());
            }
        }
        let mut registers = 0;
        for (i, var) in self.resolved.scopes[0].vars.iter().enumerate() {
            if let Some(known) = known.get(i) {
                // The resolver numbers them first, in the same order.
                self.globals.insert(i as u32, known.slot);
            } else if var.captured || all_global || registers >= TOP_LOCALS || exported.contains(&var.name) {
                let slot = self.program.globals.len() as u32;
                self.program.globals.push(var.name.clone());
                self.globals.insert(i as u32, slot);
            } else {
                self.top_registers.insert(i as u32, registers as u8);
                registers += 1;
            }
        }
    }

    fn declare_agents(&mut self, body: &Block) {
        for stmt in body {
            if let StmtKind::Agent(name, _) = &stmt.kind {
                let index = self.program.agents.len() as u32;
                self.program.agents.push((name.text.clone(), 0));
                self.agents.insert(name.text.clone(), index);
            }
        }
    }

    fn top(&mut self, body: &Block) -> u32 {
        let index = self.reserve();
        self.open(0, 0, has_loop(body));
        let count = self.top_registers.len();
        self.frame().bases.insert(0, 0);
        self.frame().used = count;
        for (i, var) in self.resolved.scopes[0].vars.iter().enumerate() {
            let Some(register) = self.top_registers.get(&(i as u32)).copied() else { continue };
            let (name, from, to) = (var.name.clone(), 0, u32::MAX);
            self.frame().vars.push(VarPlace { name, register, from, to });
            if var.needs_unbind {
                self.emit(Op::Unbind, register, 0, 0);
            }
        }
        self.block(body);
        self.emit(Op::End, 0, 0, 0);
        self.close(index, None, None);
        index
    }

    /// A place in the program for a function that is written later.
    fn reserve(&mut self) -> u32 {
        let index = self.program.protos.len() as u32;
        self.program.protos.push(Rc::new(Builder::default().finish(index, self.file, None)));
        index
    }

    fn open(&mut self, number: u32, at: u32, loops: bool) {
        let locals = self.resolved.locals[number as usize];
        let kept = if loops { KEPT } else { 0 };
        if locals > MAX_LOCALS {
            self.error(
                at,
                format!("a task has at most {MAX_LOCALS} variables in scope at once, this one has {locals}"),
            );
        }
        self.frames.push(Frame {
            b: Builder::with_locals(locals.min(MAX_LOCALS) + kept),
            bases: HashMap::new(),
            used: 0,
            number,
            captured: Vec::new(),
            loops: Vec::new(),
            tries: 0,
            sandboxes: 0,
            at,
            kept: Vec::new(),
            prologue: None,
            vars: Vec::new(),
        });
        if loops {
            let hole = self.jump(Op::Jump, 0, 0);
            self.frame().prologue = Some(hole);
        }
    }

    /// The register of a constant that a loop reads; `None` outside loops, or when all are taken.
    fn kept(&mut self, value: &crate::vm::value::Value) -> Option<u8> {
        use crate::vm::value::Value;
        let frame = self.frame();
        if frame.prologue.is_none() || frame.loops.is_empty() {
            return None;
        }
        let same = |v: &Value| match (v, value) {
            (Value::Float(x), Value::Float(y)) => x.to_bits() == y.to_bits(),
            (Value::Int(x), Value::Int(y)) => x == y,
            (x, y) => x.as_text().is_some() && x.as_text() == y.as_text(),
        };
        if let Some((r, _)) = frame.kept.iter().find(|(_, v)| same(v)) {
            return Some(*r);
        }
        if frame.kept.len() == KEPT {
            return None;
        }
        let r = (frame.b.locals - KEPT + frame.kept.len()) as u8;
        frame.kept.push((r, value.clone()));
        Some(r)
    }

    /// Writes the part that loads the kept constants, behind the function's end.
    fn prologue(&mut self) {
        let Some(hole) = self.frame().prologue.take() else { return };
        self.land(hole);
        for (r, value) in std::mem::take(&mut self.frame().kept) {
            let k = self.value_const(value);
            self.emit(Op::Const, r, 0, k);
        }
        self.emit(Op::Jump, 0, 0, 1);
    }

    /// Ends the function being written.
    fn close(&mut self, index: u32, name: Option<Rc<str>>, function: Option<&Function>) -> Vec<(u32, u32)> {
        self.prologue();
        let Some(frame) = self.frames.pop() else { return Vec::new() };
        if frame.b.too_large {
            self.error(
                frame.at,
                "this is too large for one task: split long expressions, or move parts into tasks",
            );
        }
        let mut proto: Proto = frame.b.finish(index, self.file, name);
        proto.vars = frame.vars;
        if let Some(function) = function {
            proto.params = function.params.iter().map(|p| p.name.text.clone()).collect();
            proto.defaults = function.params.iter().map(|p| p.default.is_some()).collect();
            proto.required = function.params.iter().filter(|p| p.default.is_none()).count();
            if let Body::Block(body) = &function.body {
                proto.requires = body
                    .iter()
                    .take_while(|s| matches!(s.kind, StmtKind::Require(_)))
                    .filter_map(|s| match &s.kind {
                        StmtKind::Require(r) => Some((r.capability.clone(), r.scopes.clone())),
                        _ => None,
                    })
                    .collect();
            }
        }
        self.program.protos[index as usize] = Rc::new(proto);
        frame.captured
    }

    /// Compiles a function's own code and gives its number.
    fn function(&mut self, function: &Function) -> u32 {
        self.capturing(function).0
    }

    /// As [`function`](Self::function), with the outer variables that it uses.
    fn capturing(&mut self, function: &Function) -> (u32, Vec<(u32, u32)>) {
        let index = self.reserve();
        let scope = function.scope.0.get();
        let number = self.resolved.scopes[scope as usize].function;
        let loops = match &function.body {
            Body::Block(body) => has_loop(body),
            Body::Expr(_) => false,
        };
        self.open(number, function.at, loops);
        self.enter_params(scope, function);
        match &function.body {
            Body::Block(body) => {
                self.block(body);
                self.emit(Op::ReturnNothing, 0, 0, 0);
            }
            Body::Expr(e) => {
                self.cost(1 + work::of(e));
                let r = self.operand(e);
                self.emit(Op::Return, r, 0, 0);
            }
        }
        let captured = self.finish_function(index, function.name.clone(), Some(function));
        (index, captured)
    }

    fn finish_function(
        &mut self,
        index: u32,
        name: Option<Rc<str>>,
        function: Option<&Function>,
    ) -> Vec<(u32, u32)> {
        let captured = self.close(index, name, function);
        let captures = captured.iter().map(|var| self.capture_source(*var)).collect();
        if let Some(proto) = Rc::get_mut(&mut self.program.protos[index as usize]) {
            proto.captures = captures;
        }
        captured
    }

    /// Parameters are the first registers; defaults are filled in, captured ones wrapped.
    fn enter_params(&mut self, scope: u32, function: &Function) {
        let vars = &self.resolved.scopes[scope as usize].vars;
        self.frame().bases.insert(scope, 0);
        self.frame().used = vars.len();
        self.note(scope, 0);
        for (i, param) in function.params.iter().enumerate() {
            if let Some(default) = &param.default {
                let given = self.jump(Op::JumpBound, i as u8, 0);
                self.cost(1 + work::of(default));
                self.expr_to(default, i as u8);
                self.land(given);
            }
        }
        for (i, var) in vars.iter().enumerate() {
            let is_param = i < function.params.len();
            if var.captured {
                self.emit(if is_param { Op::Wrap } else { Op::NewCell }, i as u8, 0, 0);
            } else if var.needs_unbind && !is_param {
                self.emit(Op::Unbind, i as u8, 0, 0);
            }
        }
    }

    /// Opens a scope inside the current function; its variables get registers.
    fn enter(&mut self, scope: u32) {
        let base = self.frame().used;
        let vars = &self.resolved.scopes[scope as usize].vars;
        self.frame().bases.insert(scope, base as u8);
        self.frame().used += vars.len();
        self.note(scope, base);
    }

    /// Notes where a scope's variables are, from here on.
    fn note(&mut self, scope: u32, base: usize) {
        let frame = self.frames.last_mut().expect("a function is being written while a scope is opened");
        let from = frame.b.code.len() as u32;
        let vars = self.resolved.scopes[scope as usize].vars.iter().enumerate();
        frame.vars.extend(vars.map(|(i, var)| VarPlace {
            name: var.name.clone(),
            register: base.wrapping_add(i) as u8,
            from,
            to: u32::MAX,
        }));
    }

    /// Makes the scope's variables fresh; `bound` of them, the first ones, hold values already.
    fn fresh(&mut self, scope: u32, bound: usize) {
        let base = self.frame().bases[&scope];
        for (i, var) in self.resolved.scopes[scope as usize].vars.iter().enumerate() {
            let r = base.wrapping_add(i as u8);
            if var.captured {
                self.emit(if i < bound { Op::Wrap } else { Op::NewCell }, r, 0, 0);
            } else if i >= bound && var.needs_unbind {
                self.emit(Op::Unbind, r, 0, 0);
            }
        }
    }

    fn leave(&mut self, scope: u32) {
        let count = self.resolved.scopes[scope as usize].vars.len();
        let frame = self.frame();
        frame.used -= count;
        let (used, end) = (frame.used, frame.b.code.len() as u32);
        for var in frame.vars.iter_mut().rev().take_while(|var| usize::from(var.register) >= used) {
            var.to = var.to.min(end);
        }
    }

    // ---- places ----

    fn candidates(&self, name: &Name) -> &[Candidate] {
        self.resolved.uses.get(name.id.get() as usize).map_or(&[], Vec::as_slice)
    }

    fn place(&mut self, scope: u32, var: u32) -> Place {
        let level = self.frames.len() - 1;
        self.place_at(level, scope, var)
    }

    fn place_at(&mut self, level: usize, scope: u32, var: u32) -> Place {
        if scope == 0
            && let Some(slot) = self.globals.get(&var)
        {
            return Place::Global(*slot);
        }
        let frame = &self.frames[level];
        if self.resolved.scopes[scope as usize].function == frame.number {
            if scope == 0 {
                return Place::Reg(self.top_registers.get(&var).copied().unwrap_or(0));
            }
            let base = frame.bases.get(&scope).copied().unwrap_or(0);
            let reg = base.wrapping_add(var as u8);
            let captured = self.resolved.scopes[scope as usize].vars[var as usize].captured;
            return if captured { Place::Cell(reg) } else { Place::Reg(reg) };
        }
        let frame = &mut self.frames[level];
        let index = frame.captured.iter().position(|v| *v == (scope, var)).unwrap_or_else(|| {
            frame.captured.push((scope, var));
            frame.captured.len() - 1
        });
        if index > 250 {
            let at = self.frames[level].at;
            self.error(at, "a task captures at most 250 variables");
        }
        Place::Up(index as u8)
    }

    /// Where the function that is current now finds a variable that an inner one captures.
    fn capture_source(&mut self, (scope, var): (u32, u32)) -> Capture {
        match self.place(scope, var) {
            Place::Reg(r) | Place::Cell(r) => Capture::Local(r),
            Place::Up(i) => Capture::Captured(i),
            Place::Global(_) => Capture::Captured(0),
        }
    }

    /// The register of a name that is surely bound and not captured.
    fn direct(&mut self, name: &Name) -> Option<u8> {
        match *self.candidates(name) {
            [Candidate { scope, var, certain: true }] => match self.place(scope, var) {
                Place::Reg(r) => Some(r),
                _ => None,
            },
            _ => None,
        }
    }

    fn builtin(&self, name: &Name) -> Option<u16> {
        if self.candidates(name).is_empty() { crate::builtins::find(&name.text) } else { None }
    }

    // ---- writing ----

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a function is being written while code is emitted")
    }

    fn b(&mut self) -> &mut Builder {
        &mut self.frame().b
    }

    fn emit(&mut self, op: Op, a: u8, b: u8, d: u32) -> usize {
        self.b().emit(op, a, b, d)
    }

    fn jump(&mut self, op: Op, a: u8, b: u8) -> Hole {
        self.b().jump(op, a, b)
    }

    fn land(&mut self, hole: Hole) {
        self.b().land(hole);
    }

    fn at(&mut self, at: u32) {
        self.b().at = at;
    }

    fn cost(&mut self, fuel: u32) {
        self.b().cost += fuel;
    }

    fn temp(&mut self) -> u8 {
        self.b().temp()
    }

    fn error(&mut self, at: u32, message: impl Into<String>) {
        let mut error = LoadError::parse(at, message);
        error.file = self.file;
        self.errors.push(error);
    }

    fn text_const(&mut self, text: &Rc<str>) -> u32 {
        self.b().text(text)
    }

    fn value_const(&mut self, value: crate::vm::value::Value) -> u32 {
        self.b().constant(Const::Value(value))
    }

    /// Compiles with fresh temporaries that are free again afterwards.
    fn scratch<T>(&mut self, inner: impl FnOnce(&mut Self) -> T) -> T {
        let next = self.b().next;
        let result = inner(self);
        self.b().next = next;
        result
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.scratch(|c| c.stmt(stmt));
        }
    }

    /// The register that holds an expression's value: its own one if it is a variable.
    fn operand(&mut self, e: &Expr) -> u8 {
        if let super::ast::ExprKind::Name(name) = &e.kind
            && let Some(r) = self.direct(name)
        {
            return r;
        }
        if let Some(r) = self.kept_constant(e) {
            return r;
        }
        let r = self.temp();
        self.expr_to(e, r);
        r
    }

    fn kept_constant(&mut self, e: &Expr) -> Option<u8> {
        use super::ast::ExprKind;
        use crate::vm::value::Value;
        match &e.kind {
            ExprKind::Float(f) => self.kept(&Value::Float(*f)),
            ExprKind::Int(n) => self.kept(&Value::Int(*n)),
            ExprKind::Text(t) => self.kept(&Value::text(t)),
            _ => None,
        }
    }
}

/// Whether a body has a loop of its own.
fn has_loop(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Each { .. } | StmtKind::While(..) => true,
        StmtKind::When(branches, otherwise) => {
            branches.iter().any(|(_, body)| has_loop(body)) || otherwise.as_ref().is_some_and(|b| has_loop(b))
        }
        StmtKind::Match { arms, otherwise, .. } => {
            arms.iter().any(|a| has_loop(&a.body)) || otherwise.as_ref().is_some_and(|(b, _)| has_loop(b))
        }
        StmtKind::Try { body, recover, .. } => has_loop(body) || has_loop(recover),
        StmtKind::Sandbox { body, .. } | StmtKind::Watch(body) => has_loop(body),
        _ => false,
    })
}
