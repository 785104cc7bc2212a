//! Statements.

use super::{Compiler, LoopState, Place, work};
use crate::bytecode::{Const, LoopRange, Op};
use crate::synsema::ast::{Block, Expr, ExprKind, Name, Require, StepKind, Stmt, StmtKind};
use crate::vm::value::Shape;
use std::rc::Rc;

impl Compiler<'_> {
    pub(super) fn stmt(&mut self, stmt: &Stmt) {
        self.at(stmt.at);
        self.started |= self.frames.len() == 1
            && !matches!(
                stmt.kind,
                StmtKind::Intent(_)
                    | StmtKind::Require(_)
                    | StmtKind::Task(..)
                    | StmtKind::Type(..)
                    | StmtKind::Enum(..)
                    | StmtKind::Use(..)
                    | StmtKind::Export(_)
                    | StmtKind::Agent(..)
                    | StmtKind::Test(..)
            );
        match &stmt.kind {
            StmtKind::Let(name, value) => {
                self.cost(1 + work::of(value));
                self.let_(name, value);
            }
            StmtKind::Set(target, value) => {
                let path: u32 = target
                    .path
                    .iter()
                    .map(|s| match &s.kind {
                        StepKind::Index(e) => 1 + work::of(e),
                        _ => 1,
                    })
                    .sum();
                self.cost(1 + path + work::of(value));
                self.set(target, value);
            }
            StmtKind::Give(value) => self.give(value.as_ref()),
            StmtKind::Stop => self.stop(),
            StmtKind::When(branches, otherwise) => self.when(branches, otherwise.as_ref()),
            StmtKind::Each { var, iter, body, scope } => self.each(var, iter, body, scope.0.get()),
            StmtKind::While(cond, body) => self.while_(cond, body),
            StmtKind::Match { subject, arms, otherwise } => self.match_(subject, arms, otherwise.as_ref()),
            StmtKind::Task(name, function) => {
                self.cost(1);
                let index = self.function(function);
                let r = self.temp();
                self.at(stmt.at);
                self.emit(Op::Closure, r, 0, index);
                self.bind(name, r);
            }
            StmtKind::Type(name, fields) => {
                let shape = Shape { name: name.text.clone(), fields: fields.clone(), variants: Vec::new() };
                self.shape(name, shape);
            }
            StmtKind::Enum(name, variants) => {
                let shape = Shape { name: name.text.clone(), fields: Vec::new(), variants: variants.clone() };
                self.shape(name, shape);
            }
            StmtKind::Try { body, name, recover, scope } => {
                self.try_(body, name.as_ref(), recover, scope.0.get())
            }
            StmtKind::Raise(value) => {
                let r = self.value(value);
                self.at(stmt.at);
                self.emit(Op::Raise, r, 0, 0);
            }
            StmtKind::Intent(text) => {
                self.cost(1);
                let k = self.text_const(text);
                let late = self.started || self.frames.len() > 1;
                self.emit(Op::Intent, 0, u8::from(late), k);
            }
            StmtKind::Invariant(name, cond) => {
                let r = self.value(cond);
                let k = self.text_const(&name.clone().unwrap_or_else(|| "unnamed invariant".into()));
                self.at(stmt.at);
                self.emit(Op::Invariant, r, 0, k);
            }
            StmtKind::Require(require) => self.require(require),
            StmtKind::Sandbox { under, body, scope } => self.sandbox(under.as_ref(), body, scope.0.get()),
            StmtKind::Use(path, name) => {
                self.cost(1);
                match self.modules.get(path).copied() {
                    Some(module) => {
                        let r = self.temp();
                        self.emit(Op::Use, r, 0, module);
                        self.bind(name, r);
                    }
                    None => self.error(stmt.at, format!("Module not found: '{path}'")),
                }
            }
            StmtKind::Export(inner) => {
                self.stmt(inner);
                let (name, fixed) = match &inner.kind {
                    StmtKind::Let(name, _) => (name, false),
                    StmtKind::Task(name, _) | StmtKind::Type(name, _) | StmtKind::Enum(name, _) => {
                        (name, true)
                    }
                    _ => return,
                };
                if let Place::Global(slot) = self.binding_place(name) {
                    self.exports.push((name.text.clone(), slot, fixed));
                }
            }
            StmtKind::Test(name, body, scope) => self.test(name, body, scope.0.get(), stmt.at),
            StmtKind::Agent(name, function) => {
                let (index, captured) = self.capturing(function);
                if let Some(&(scope, var)) = captured.first() {
                    let outer = &self.resolved.scopes[scope as usize].vars[var as usize].name;
                    let message = format!(
                        "agent '{0}' can't use '{outer}' from around it: an agent has the file's own names and what it is \
                         given (`spawn {0} with {outer} = {outer}`)",
                        name.text
                    );
                    self.error(stmt.at, message);
                }
                // One that stands inside a block is known from then on as those of the file are.
                match self.agents.remove(&name.text) {
                    Some(agent) => self.program.agents[agent as usize].1 = index,
                    None => self.program.agents.push((name.text.clone(), index)),
                }
            }
            StmtKind::Spawn(name, values) => {
                let map = self.temp();
                self.cost(1 + values.iter().map(|(_, v)| 1 + work::of(v)).sum::<u32>());
                self.emit(Op::Map, map, 0, values.len() as u32);
                for (key, value) in values {
                    self.scratch(|c| {
                        let k = c.temp();
                        let text = c.text_const(key);
                        c.emit(Op::Const, k, 0, text);
                        let v = c.operand(value);
                        c.emit(Op::Put, map, k, u32::from(v));
                    });
                }
                let text = self.text_const(&name.text);
                self.at(stmt.at);
                self.emit(Op::Spawn, map, 0, text);
            }
            StmtKind::Share(value, key) => {
                self.cost(1 + work::of(value) + work::of(key));
                let v = self.operand(value);
                let k = self.operand(key);
                self.at(stmt.at);
                self.emit(Op::Share, v, k, 0);
            }
            StmtKind::Observe(key, name) => {
                self.cost(1 + work::of(key));
                let k = self.operand(key);
                let r = self.temp();
                self.at(stmt.at);
                self.emit(Op::Observe, r, k, 0);
                self.bind(name, r);
            }
            StmtKind::Signal(channel, value) => {
                self.cost(1 + work::of(channel) + value.as_ref().map_or(0, work::of));
                let v = self.temp();
                match value {
                    Some(value) => self.expr_to(value, v),
                    None => {
                        self.emit(Op::Nothing, v, 0, 0);
                    }
                }
                let k = self.operand(channel);
                self.at(stmt.at);
                self.emit(Op::Signal, v, k, 0);
            }
            StmtKind::WaitFor { channel, timeout, name } => {
                self.cost(1 + work::of(channel) + timeout.as_ref().map_or(0, work::of));
                let k = self.b().temps(2);
                self.expr_to(channel, k);
                match timeout {
                    Some(timeout) => self.expr_to(timeout, k.wrapping_add(1)),
                    None => {
                        self.emit(Op::Nothing, k.wrapping_add(1), 0, 0);
                    }
                }
                let r = self.temp();
                self.at(stmt.at);
                self.emit(Op::Wait, r, k, 0);
                if let Some(name) = name {
                    self.bind(name, r);
                }
            }
            StmtKind::Watch(body) => {
                self.cost(1);
                self.b().flush();
                self.block(body);
            }
            StmtKind::Expr(value) => self.expression(value),
            StmtKind::Log(value) => {
                let r = self.value(value);
                self.at(stmt.at);
                self.emit(Op::Log, r, 0, 0);
            }
            StmtKind::Show(value, label) => {
                self.cost(1 + work::of(value) + label.as_ref().map_or(0, work::of));
                let r = self.operand(value);
                let l = match label {
                    Some(label) => self.operand(label),
                    None => 0,
                };
                self.at(stmt.at);
                self.emit(Op::Show, r, l, u32::from(label.is_some()));
            }
            StmtKind::Serve(port) => {
                let r = self.value(port);
                self.at(stmt.at);
                self.emit(Op::Serve, r, 0, 0);
            }
        }
        self.b().flush();
    }

    /// A charged expression's register.
    fn value(&mut self, e: &Expr) -> u8 {
        self.cost(1 + work::of(e));
        self.operand(e)
    }

    /// An expression by itself: its value is dropped.
    fn expression(&mut self, e: &Expr) {
        self.cost(1 + work::of(e));
        if let ExprKind::Name(_) = e.kind {
            let r = self.temp();
            self.expr_to(e, r);
            self.emit(Op::Nothing, r, 0, 0);
            return;
        }
        let r = self.temp();
        self.expr_to(e, r);
        if !matches!(e.kind, ExprKind::Compare(..) | ExprKind::Not(_)) {
            self.emit(Op::Nothing, r, 0, 0);
        }
    }

    fn shape(&mut self, name: &Name, shape: Shape) {
        self.cost(1);
        let k = self.b().constant(Const::Shape(Rc::new(shape)));
        let r = self.temp();
        self.emit(Op::Shape, r, 0, k);
        self.bind(name, r);
    }

    /// Leaves sandboxes and tries of this function down to the given counts.
    fn unwind_to(&mut self, tries: u16, sandboxes: u16) {
        let (t, s) = (self.frame().tries, self.frame().sandboxes);
        for _ in tries..t {
            self.emit(Op::EndTry, 0, 0, 0);
        }
        for _ in sandboxes..s {
            self.emit(Op::EndSandbox, 0, 0, 0);
        }
    }

    fn give(&mut self, value: Option<&Expr>) {
        match value {
            Some(e) => {
                let mut r = self.value(e);
                if usize::from(r) < self.b().locals && self.frame().tries + self.frame().sandboxes > 0 {
                    let copy = self.temp();
                    self.emit(Op::Move, copy, r, 0);
                    r = copy;
                }
                self.unwind_to(0, 0);
                self.emit(Op::Return, r, 0, 0);
            }
            None => {
                self.cost(1);
                self.unwind_to(0, 0);
                self.emit(Op::ReturnNothing, 0, 0, 0);
            }
        }
    }

    fn stop(&mut self) {
        self.cost(1);
        match self.frame().loops.last().map(|l| (l.tries, l.sandboxes)) {
            Some((tries, sandboxes)) => {
                self.unwind_to(tries, sandboxes);
                let hole = self.jump(Op::Jump, 0, 0);
                if let Some(state) = self.frame().loops.last_mut() {
                    state.breaks.push(hole);
                }
            }
            None => {
                self.emit(Op::Stop, 0, 0, 0);
            }
        }
    }

    fn when(&mut self, branches: &[(Expr, Block)], otherwise: Option<&Block>) {
        let mut ends = Vec::new();
        for (i, (cond, body)) in branches.iter().enumerate() {
            self.at(cond.at);
            self.cost(1 + work::of(cond));
            let skip = self.jump_unless(cond);
            self.block(body);
            if i + 1 < branches.len() || otherwise.is_some() {
                ends.push(self.jump(Op::Jump, 0, 0));
            }
            self.b().land_all(skip);
        }
        if let Some(body) = otherwise {
            self.block(body);
        }
        self.b().land_all(ends);
    }

    fn open_loop(&mut self) -> u32 {
        let frame = self.frame();
        let state = LoopState { breaks: Vec::new(), tries: frame.tries, sandboxes: frame.sandboxes };
        frame.loops.push(state);
        self.b().here()
    }

    /// Ends a loop whose body started at `from`; `after` is where its own code ends.
    fn close_loop(&mut self, from: u32, to: u32) {
        if let Some(state) = self.frame().loops.pop() {
            self.b().land_all(state.breaks);
            let exit = self.b().here();
            self.b().loops.push(LoopRange { from, to, exit, tries: state.tries, sandboxes: state.sandboxes });
        }
    }

    fn while_(&mut self, cond: &Expr, body: &Block) {
        self.b().flush();
        let enter = self.jump(Op::Jump, 0, 0);
        let from = self.open_loop();
        self.block(body);
        let to = self.b().here();
        self.land(enter);
        self.at(cond.at);
        self.cost(1 + work::of(cond));
        let again = self.jump_when(cond);
        for hole in again {
            self.b().target(hole, from);
        }
        self.close_loop(from, to);
    }

    fn each(&mut self, var: &Name, iter: &Expr, body: &Block, scope: u32) {
        self.cost(1 + work::of(iter));
        let range = self.range_args(iter);
        let state = self.b().temps(3);
        self.enter(scope);
        let var_reg = self.frame().bases[&scope];
        match range {
            Some(args) => {
                let (start, end, step) = match args[..] {
                    [end] => (None, end, None),
                    [start, end] => (Some(start), end, None),
                    _ => (Some(args[0]), args[1], Some(args[2])),
                };
                match start {
                    Some(start) => self.expr_to(start, state),
                    None => {
                        self.emit(Op::Int, state, 0, 0);
                    }
                }
                self.expr_to(end, state.wrapping_add(1));
                match step {
                    Some(step) => self.expr_to(step, state.wrapping_add(2)),
                    None => {
                        self.emit(Op::Int, state.wrapping_add(2), 0, 1);
                    }
                }
                self.at(iter.at);
                let none = self.jump(Op::RangePrep, state, var_reg);
                let from = self.open_loop();
                self.body(scope, body);
                let to = self.b().here();
                self.at(iter.at);
                self.emit(Op::RangeNext, state, var_reg, from);
                self.close_loop(from, to);
                self.land(none);
            }
            None => {
                self.expr_to(iter, state);
                self.at(iter.at);
                self.emit(Op::EachPrep, state, 0, 0);
                let enter = self.jump(Op::Jump, 0, 0);
                let from = self.open_loop();
                self.body(scope, body);
                let to = self.b().here();
                self.land(enter);
                self.at(iter.at);
                self.emit(Op::EachNext, state, var_reg, from);
                self.close_loop(from, to);
                self.emit(Op::Nothing, state, 0, 0);
            }
        }
        self.leave(scope);
        let _ = var;
    }

    fn body(&mut self, scope: u32, body: &Block) {
        self.cost(1);
        self.fresh(scope, 1);
        self.block(body);
    }

    /// The arguments, if the expression is a call of the builtin `range`.
    fn range_args<'e>(&self, iter: &'e Expr) -> Option<Vec<&'e Expr>> {
        let ExprKind::Postfix(base, steps) = &iter.kind else { return None };
        let (ExprKind::Name(name), [step]) = (&base.kind, &steps[..]) else { return None };
        let StepKind::Call(args) = &step.kind else { return None };
        let well = &*name.text == "range"
            && self.builtin(name).is_some()
            && (1..=3).contains(&args.len())
            && args.iter().all(|a| a.name.is_none());
        well.then(|| args.iter().map(|a| &a.value).collect())
    }

    fn try_(&mut self, body: &Block, name: Option<&Name>, recover: &Block, scope: u32) {
        self.cost(1);
        let message = self.temp();
        let handler = self.jump(Op::Try, message, 0);
        self.frame().tries += 1;
        self.block(body);
        self.frame().tries -= 1;
        self.emit(Op::EndTry, 0, 0, 0);
        let end = self.jump(Op::Jump, 0, 0);
        self.land(handler);
        self.enter(scope);
        if let Some(name) = name {
            let base = self.frame().bases[&scope];
            self.emit(Op::Take, base, message, 0);
            let _ = name;
            self.fresh(scope, 1);
        } else {
            self.fresh(scope, 0);
        }
        self.block(recover);
        self.leave(scope);
        self.land(end);
    }

    fn require(&mut self, require: &Require) {
        self.cost(1);
        let scopes: Rc<[Rc<str>]> = require.scopes.clone().into();
        let k = self.b().constant(Const::Require(require.capability.clone(), scopes));
        self.emit(Op::Require, 0, 0, k);
    }

    fn sandbox(&mut self, under: Option<&Expr>, body: &Block, scope: u32) {
        match under {
            Some(caps) => {
                let r = self.value(caps);
                self.emit(Op::Under, r, 0, 0);
            }
            None => {
                self.cost(1);
                self.emit(Op::Sandbox, 0, 0, 0);
            }
        }
        self.frame().sandboxes += 1;
        self.enter(scope);
        self.fresh(scope, 0);
        self.block(body);
        self.leave(scope);
        self.frame().sandboxes -= 1;
        self.emit(Op::EndSandbox, 0, 0, 0);
    }

    fn test(&mut self, name: &Rc<str>, body: &Block, scope: u32, at: u32) {
        let index = self.reserve();
        let number = self.resolved.scopes[scope as usize].function;
        self.open(number, at, super::has_loop(body));
        self.enter(scope);
        self.fresh(scope, 0);
        self.block(body);
        self.leave(scope);
        self.emit(Op::ReturnNothing, 0, 0, 0);
        self.finish_function(index, Some(name.clone()), None);
        self.program.tests.push((name.clone(), index));
    }
}
