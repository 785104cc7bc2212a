//! What `check` warns of: things that load but can't be meant.
//!
//! A name that hides a module's alias; a member that the module doesn't export; a write to a parameter or a loop's
//! copy that nobody reads; an old name of a builtin; a `require` line that is wider than anybody means.

use super::ast::{Block, Body, Expr, ExprKind, Function, StepKind, Stmt, StmtKind, TemplatePiece};
use crate::partition::gate::too_wide;
use policies::capability::Capability;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// One warning with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Byte offset in the file.
    pub at: u32,
    /// One line.
    pub message: String,
}

struct Walker<'m> {
    /// Alias → exported names.
    modules: &'m HashMap<Rc<str>, HashSet<Rc<str>>>,
    /// Names bound around the place that hide an alias.
    hidden: Vec<HashSet<Rc<str>>>,
    found: Vec<Warning>,
}

/// Warnings of one file, in order of the source.
pub(crate) fn warnings(body: &Block, modules: &HashMap<Rc<str>, HashSet<Rc<str>>>) -> Vec<Warning> {
    let mut walker = Walker { modules, hidden: vec![HashSet::new()], found: Vec::new() };
    walker.block(body);
    walker.found.sort_by_key(|w| w.at);
    walker.found
}

impl Walker<'_> {
    fn warn(&mut self, at: u32, message: String) {
        self.found.push(Warning { at, message });
    }

    fn binds(&mut self, name: &Rc<str>, at: u32) {
        if self.modules.contains_key(name) {
            self.warn(at, format!("'{name}' hides the module of that name"));
            if let Some(scope) = self.hidden.last_mut() {
                scope.insert(name.clone());
            }
        }
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn inner(&mut self, names: &[(Rc<str>, u32)], body: &[Stmt]) {
        self.hidden.push(HashSet::new());
        for (name, at) in names {
            self.binds(name, *at);
        }
        self.block(body);
        self.hidden.pop();
    }

    /// A copy that is written but neither read nor given afterwards.
    fn lost(&mut self, name: &Rc<str>, body: &[Stmt], what: &str) {
        let mut written = None;
        let mut read = false;
        for stmt in body {
            uses(stmt, name, &mut written, &mut read);
        }
        if let (Some(at), false) = (written, read) {
            self.warn(at, format!("'{name}' is {what}: what is written to it here is lost — give it back"));
        }
    }

    fn function(&mut self, function: &Function) {
        let names: Vec<_> = function.params.iter().map(|p| (p.name.text.clone(), p.name.at)).collect();
        match &function.body {
            Body::Block(body) => {
                for (name, _) in &names {
                    self.lost(name, body, "a copy of the caller's value");
                }
                self.inner(&names, body);
            }
            Body::Expr(e) => self.expr(e),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Let(name, value) => {
                self.expr(value);
                self.binds(&name.text, name.at);
            }
            StmtKind::Task(name, function) => {
                self.binds(&name.text, name.at);
                self.function(function);
            }
            StmtKind::Type(name, _) | StmtKind::Enum(name, _) => self.binds(&name.text, name.at),
            StmtKind::Each { var, iter, body, .. } => {
                self.expr(iter);
                self.lost(&var.text, body, "the loop's own copy");
                self.inner(&[(var.text.clone(), var.at)], body);
            }
            StmtKind::Agent(_, function) => self.function(function),
            StmtKind::Require(require) if require.scopes.is_empty() => {
                let capability = Capability::from_name(&require.capability);
                if let Some(warning) = capability.and_then(too_wide) {
                    self.warn(stmt.at, warning);
                }
            }
            StmtKind::Export(inner) => self.stmt(inner),
            StmtKind::Test(_, body, _) | StmtKind::Sandbox { body, .. } => self.inner(&[], body),
            _ => {
                each_expr(stmt, &mut |e| self.expr(e));
                each_block(stmt, &mut |b| self.block(b));
            }
        }
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Postfix(base, steps) => {
                if let ExprKind::Name(name) = &base.kind {
                    self.member(&name.text, steps);
                    if let Some(StepKind::Call(_)) = steps.first().map(|s| &s.kind) {
                        self.old_name(&name.text, name.at);
                    }
                }
                self.expr(base);
                for step in steps {
                    match &step.kind {
                        StepKind::Call(args) => args.iter().for_each(|a| self.expr(&a.value)),
                        StepKind::Index(index) => self.expr(index),
                        StepKind::Field(_) | StepKind::Of(_) => {}
                    }
                }
            }
            ExprKind::Lambda(function) => self.function(function),
            _ => inside(e, &mut |e| self.expr(e)),
        }
    }

    fn member(&mut self, alias: &Rc<str>, steps: &[super::ast::Step]) {
        let Some(exports) = self.modules.get(alias) else { return };
        if self.hidden.iter().any(|h| h.contains(alias)) {
            return;
        }
        if let Some(super::ast::Step { at, kind: StepKind::Field(name) }) = steps.first()
            && !exports.contains(name)
        {
            let message = format!("the module '{alias}' exports no '{name}'");
            self.warn(*at, message);
        }
    }

    fn old_name(&mut self, name: &str, at: u32) {
        if let Some(new) = crate::builtins::find(name).and_then(|id| crate::builtins::get(id).deprecated) {
            self.warn(at, format!("'{name}' is an old name, write {new}"));
        }
    }
}

/// Where a name is written, and whether it is read.
fn uses(stmt: &Stmt, name: &Rc<str>, written: &mut Option<u32>, read: &mut bool) {
    match &stmt.kind {
        StmtKind::Set(target, value) => {
            if target.root.text == *name {
                written.get_or_insert(target.root.at);
            }
            *read |= mentions(value, name);
            for step in &target.path {
                if let StepKind::Index(e) = &step.kind {
                    *read |= mentions(e, name);
                }
            }
        }
        StmtKind::Task(_, function) | StmtKind::Agent(_, function) => {
            if let Body::Block(body) = &function.body {
                body.iter().for_each(|s| uses(s, name, written, read));
            }
        }
        StmtKind::Export(inner) => uses(inner, name, written, read),
        _ => {
            each_expr(stmt, &mut |e| *read |= mentions(e, name));
            each_block(stmt, &mut |b| b.iter().for_each(|s| uses(s, name, written, read)));
        }
    }
}

fn mentions(e: &Expr, name: &Rc<str>) -> bool {
    let mut found = matches!(&e.kind, ExprKind::Name(n) if n.text == *name);
    match &e.kind {
        ExprKind::Lambda(function) => {
            if let Body::Expr(body) = &function.body {
                found |= mentions(body, name);
            }
        }
        _ => inside(e, &mut |e| found |= mentions(e, name)),
    }
    found
}

/// The expressions directly inside one.
fn inside(e: &Expr, each: &mut dyn FnMut(&Expr)) {
    match &e.kind {
        ExprKind::Template(pieces) => {
            for piece in pieces {
                if let TemplatePiece::Hole(e) = piece {
                    each(e);
                }
            }
        }
        ExprKind::List(items) | ExprKind::And(items) | ExprKind::Or(items) => items.iter().for_each(each),
        ExprKind::Map(entries) => {
            for (key, value) in entries {
                each(key);
                each(value);
            }
        }
        ExprKind::Negate(e) | ExprKind::Not(e) | ExprKind::Sandbox(e, _) => each(e),
        ExprKind::Arith(first, rest) => {
            each(first);
            rest.iter().for_each(|(_, _, e)| each(e));
        }
        ExprKind::Compare(first, rest) => {
            each(first);
            rest.iter().for_each(|(_, _, e)| each(e));
        }
        ExprKind::Power(a, _, b) => {
            each(a);
            each(b);
        }
        ExprKind::Postfix(base, steps) => {
            each(base);
            for step in steps {
                match &step.kind {
                    StepKind::Call(args) => args.iter().for_each(|a| each(&a.value)),
                    StepKind::Index(e) => each(e),
                    StepKind::Field(_) | StepKind::Of(_) => {}
                }
            }
        }
        ExprKind::Then(c, y, n) => {
            each(c);
            each(y);
            if let Some(n) = n {
                each(n);
            }
        }
        ExprKind::Operation(o) => {
            each(&o.subject);
            o.parts.iter().for_each(|(_, e)| each(e));
        }
        ExprKind::Nothing
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::BigInt(_)
        | ExprKind::Float(_)
        | ExprKind::Decimal(_)
        | ExprKind::Text(_)
        | ExprKind::Name(_)
        | ExprKind::Lambda(_) => {}
    }
}

/// The expressions of a statement, those of inner blocks left out.
fn each_expr(stmt: &Stmt, each: &mut dyn FnMut(&Expr)) {
    match &stmt.kind {
        StmtKind::Let(_, e)
        | StmtKind::Raise(e)
        | StmtKind::Expr(e)
        | StmtKind::Log(e)
        | StmtKind::Serve(e)
        | StmtKind::Invariant(_, e)
        | StmtKind::While(e, _)
        | StmtKind::Observe(e, _) => each(e),
        StmtKind::Set(target, e) => {
            for step in &target.path {
                if let StepKind::Index(e) = &step.kind {
                    each(e);
                }
            }
            each(e);
        }
        StmtKind::Give(e) => e.iter().for_each(each),
        StmtKind::When(branches, _) => branches.iter().for_each(|(e, _)| each(e)),
        StmtKind::Each { iter, .. } => each(iter),
        StmtKind::Match { subject, arms, .. } => {
            each(subject);
            arms.iter().filter_map(|a| a.guard.as_ref()).for_each(each);
        }
        StmtKind::Sandbox { under, .. } => under.iter().for_each(each),
        StmtKind::Spawn(_, values) => values.iter().for_each(|(_, e)| each(e)),
        StmtKind::Share(a, b) => {
            each(a);
            each(b);
        }
        StmtKind::Signal(a, b) | StmtKind::Show(a, b) => {
            each(a);
            b.iter().for_each(each);
        }
        StmtKind::WaitFor { channel, timeout, .. } => {
            each(channel);
            timeout.iter().for_each(each);
        }
        StmtKind::Stop
        | StmtKind::Task(..)
        | StmtKind::Type(..)
        | StmtKind::Enum(..)
        | StmtKind::Try { .. }
        | StmtKind::Intent(_)
        | StmtKind::Require(_)
        | StmtKind::Use(..)
        | StmtKind::Export(_)
        | StmtKind::Test(..)
        | StmtKind::Agent(..)
        | StmtKind::Watch(_) => {}
    }
}

/// The blocks of a statement.
fn each_block(stmt: &Stmt, each: &mut dyn FnMut(&[Stmt])) {
    match &stmt.kind {
        StmtKind::When(branches, otherwise) => {
            branches.iter().for_each(|(_, b)| each(b));
            otherwise.iter().for_each(|b| each(b));
        }
        StmtKind::Each { body, .. }
        | StmtKind::While(_, body)
        | StmtKind::Sandbox { body, .. }
        | StmtKind::Test(_, body, _)
        | StmtKind::Watch(body) => each(body),
        StmtKind::Match { arms, otherwise, .. } => {
            arms.iter().for_each(|a| each(&a.body));
            otherwise.iter().for_each(|(b, _)| each(b));
        }
        StmtKind::Try { body, recover, .. } => {
            each(body);
            each(recover);
        }
        _ => {}
    }
}
