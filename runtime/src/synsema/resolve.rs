//! Names → variables: which scope a name means, which variables are captured, and where a name may still be
//! unbound.
//!
//! A `let` binds in the current frame when it runs; before that the name means the outer binding. So a name
//! has one candidate that is surely bound, or several that are tried at run time, innermost first.

use super::ast::{
    Arm, Block, Body, Expr, ExprKind, Function, Name, Pattern, ScopeId, StepKind, Stmt, StmtKind,
    TemplatePiece,
};
use std::collections::HashMap;
use std::rc::Rc;

/// A variable of a scope.
#[derive(Debug)]
pub(crate) struct Var {
    pub(crate) name: Rc<str>,
    /// Read or written by an inner function.
    pub(crate) captured: bool,
    /// Read somewhere where it may be unbound.
    pub(crate) needs_unbind: bool,
}

/// A frame of the program.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) vars: Vec<Var>,
    names: HashMap<Rc<str>, usize>,
    /// Number of the function it belongs to.
    pub(crate) function: u32,
    bound: Vec<bool>,
}

/// One variable that a name may mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) scope: u32,
    pub(crate) var: u32,
    /// Surely bound: no further candidate is needed.
    pub(crate) certain: bool,
}

/// What the names of a file mean.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    pub(crate) scopes: Vec<Scope>,
    /// For each resolved name its candidates, innermost first.
    pub(crate) uses: Vec<Vec<Candidate>>,
    /// For each function the most variables that are in scope at once.
    pub(crate) locals: Vec<usize>,
}

struct Resolver {
    out: Resolved,
    /// Open scopes, outermost first.
    open: Vec<u32>,
    functions: u32,
    function: u32,
    /// For each function the variables in scope now.
    in_scope: Vec<usize>,
}

/// Variables of a file's top level that may live in registers; the rest are globals.
pub(crate) const TOP_LOCALS: usize = 100;

/// A name of the top level that was there before the text.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) name: Rc<str>,
    /// Its global.
    pub(crate) slot: u32,
    /// Whether it has a value now.
    pub(crate) bound: bool,
}

/// Resolves a file's top level; scope 0 is the top level.
pub(crate) fn resolve(body: &Block, known: &[Known]) -> Resolved {
    let mut r =
        Resolver { out: Resolved::default(), open: Vec::new(), functions: 1, function: 0, in_scope: vec![0] };
    r.out.locals.push(0);
    let names = declared(body);
    r.enter_numbered(known.iter().map(|known| known.name.clone()).chain(names));
    for (i, known) in known.iter().enumerate() {
        r.out.scopes[0].bound[i] = known.bound;
        r.out.scopes[0].vars[i].captured = true;
    }
    r.block(body);
    r.out
}

/// The names that a block binds in its own frame, in order.
fn declared(body: &Block) -> Vec<Rc<str>> {
    let mut names = Vec::new();
    collect(body, &mut names);
    names
}

fn collect(body: &Block, names: &mut Vec<Rc<str>>) {
    for stmt in body {
        collect_stmt(&stmt.kind, names);
    }
}

fn collect_stmt(kind: &StmtKind, names: &mut Vec<Rc<str>>) {
    match kind {
        StmtKind::Let(name, _)
        | StmtKind::Task(name, _)
        | StmtKind::Type(name, _)
        | StmtKind::Enum(name, _)
        | StmtKind::Use(_, name)
        | StmtKind::Observe(_, name) => names.push(name.text.clone()),
        StmtKind::WaitFor { name: Some(name), .. } => names.push(name.text.clone()),
        StmtKind::When(branches, otherwise) => {
            for (_, body) in branches {
                collect(body, names);
            }
            if let Some(body) = otherwise {
                collect(body, names);
            }
        }
        StmtKind::While(_, body) | StmtKind::Try { body, .. } | StmtKind::Watch(body) => collect(body, names),
        StmtKind::Export(inner) => collect_stmt(&inner.kind, names),
        _ => {}
    }
}

impl Resolver {
    fn enter_numbered(&mut self, names: impl IntoIterator<Item = Rc<str>>) -> u32 {
        let mut scope =
            Scope { vars: Vec::new(), names: HashMap::new(), function: self.function, bound: Vec::new() };
        for name in names {
            if !scope.names.contains_key(&name) {
                scope.names.insert(name.clone(), scope.vars.len());
                scope.vars.push(Var { name, captured: false, needs_unbind: false });
                scope.bound.push(false);
            }
        }
        let id = self.out.scopes.len() as u32;
        let count = if id == 0 { scope.vars.len().min(TOP_LOCALS) } else { scope.vars.len() };
        self.out.scopes.push(scope);
        self.open.push(id);
        let f = self.function as usize;
        self.in_scope[f] += count;
        self.out.locals[f] = self.out.locals[f].max(self.in_scope[f]);
        id
    }

    fn enter(&mut self, scope: &ScopeId, names: impl IntoIterator<Item = Rc<str>>) {
        scope.0.set(self.enter_numbered(names));
    }

    fn leave(&mut self) {
        if let Some(id) = self.open.pop() {
            self.in_scope[self.function as usize] -= self.out.scopes[id as usize].vars.len();
        }
    }

    /// Finds what a name means where it is read or set.
    fn name(&mut self, name: &Name) {
        let mut candidates = Vec::new();
        for &id in self.open.iter().rev() {
            let scope = &mut self.out.scopes[id as usize];
            let Some(&var) = scope.names.get(&name.text) else { continue };
            let other_function = scope.function != self.function;
            if other_function {
                scope.vars[var].captured = true;
            }
            let certain = scope.bound[var] && !other_function;
            if !certain {
                scope.vars[var].needs_unbind = true;
            }
            candidates.push(Candidate { scope: id, var: var as u32, certain });
            if certain {
                break;
            }
        }
        self.record(name, candidates);
    }

    fn record(&mut self, name: &Name, candidates: Vec<Candidate>) {
        name.id.set(self.out.uses.len() as u32);
        self.out.uses.push(candidates);
    }

    /// A binding in the innermost scope.
    fn bind(&mut self, name: &Name) {
        let Some(&id) = self.open.last() else { return };
        let scope = &mut self.out.scopes[id as usize];
        let var = scope.names.get(&name.text).copied().unwrap_or(0);
        scope.bound[var] = true;
        self.record(name, vec![Candidate { scope: id, var: var as u32, certain: true }]);
    }

    /// What is bound now, in all open scopes.
    fn snapshot(&self) -> Vec<Vec<bool>> {
        self.open.iter().map(|id| self.out.scopes[*id as usize].bound.clone()).collect()
    }

    fn restore(&mut self, state: &[Vec<bool>]) {
        for (id, bound) in self.open.iter().zip(state) {
            self.out.scopes[*id as usize].bound.clone_from(bound);
        }
    }

    fn intersect(a: Vec<Vec<bool>>, b: &[Vec<bool>]) -> Vec<Vec<bool>> {
        a.into_iter().zip(b).map(|(x, y)| x.into_iter().zip(y).map(|(p, q)| p && *q).collect()).collect()
    }

    fn block(&mut self, body: &Block) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    /// A body that may not run, or not to its end: what it binds isn't certain afterwards.
    fn uncertain(&mut self, body: &Block) {
        let before = self.snapshot();
        self.block(body);
        self.restore(&before);
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Let(name, value) => {
                self.expr(value);
                self.bind(name);
            }
            StmtKind::Set(target, value) => {
                for step in &target.path {
                    if let StepKind::Index(index) = &step.kind {
                        self.expr(index);
                    }
                }
                self.expr(value);
                self.name(&target.root);
            }
            StmtKind::Give(value) => {
                if let Some(value) = value {
                    self.expr(value);
                }
            }
            StmtKind::Stop | StmtKind::Intent(_) | StmtKind::Require(_) => {}
            StmtKind::When(branches, otherwise) => {
                let mut after: Option<Vec<Vec<bool>>> = None;
                for (cond, body) in branches {
                    self.expr(cond);
                    let before = self.snapshot();
                    self.block(body);
                    let here = self.snapshot();
                    after = Some(match after {
                        Some(all) => Self::intersect(all, &here),
                        None => here,
                    });
                    self.restore(&before);
                }
                if let Some(body) = otherwise {
                    self.block(body);
                }
                if let Some(all) = after {
                    let here = self.snapshot();
                    self.restore(&Self::intersect(all, &here));
                }
            }
            StmtKind::Each { var, iter, body, scope } => {
                self.expr(iter);
                let before = self.snapshot();
                let names = std::iter::once(var.text.clone()).chain(declared(body));
                self.enter(scope, names.collect::<Vec<_>>());
                self.bind(var);
                self.block(body);
                self.leave();
                self.restore(&before);
            }
            StmtKind::While(cond, body) => {
                self.expr(cond);
                self.uncertain(body);
            }
            StmtKind::Match { subject, arms, otherwise } => {
                self.expr(subject);
                let before = self.snapshot();
                for arm in arms {
                    self.arm(arm);
                    self.restore(&before);
                }
                if let Some((body, scope)) = otherwise {
                    self.enter(scope, declared(body));
                    self.block(body);
                    self.leave();
                    self.restore(&before);
                }
            }
            StmtKind::Task(name, function) => {
                self.function(function);
                self.bind(name);
            }
            StmtKind::Type(name, _) | StmtKind::Enum(name, _) | StmtKind::Use(_, name) => self.bind(name),
            StmtKind::Try { body, name, recover, scope } => {
                let before = self.snapshot();
                self.block(body);
                let after_try = self.snapshot();
                self.restore(&before);
                let names = name.iter().map(|n| n.text.clone()).chain(declared(recover));
                self.enter(scope, names.collect::<Vec<_>>());
                if let Some(name) = name {
                    self.bind(name);
                }
                self.block(recover);
                self.leave();
                // Names that the try block binds are certain only if it ended well.
                let _ = after_try;
                self.restore(&before);
            }
            StmtKind::Raise(e) | StmtKind::Expr(e) | StmtKind::Log(e) | StmtKind::Serve(e) => self.expr(e),
            StmtKind::Invariant(_, e) => self.expr(e),
            StmtKind::Sandbox { under, body, scope } => {
                if let Some(under) = under {
                    self.expr(under);
                }
                let before = self.snapshot();
                self.enter(scope, declared(body));
                self.block(body);
                self.leave();
                self.restore(&before);
            }
            StmtKind::Export(inner) => self.stmt(inner),
            StmtKind::Test(_, body, scope) => {
                self.in_function(|r| {
                    r.enter(scope, declared(body));
                    r.block(body);
                    r.leave();
                });
            }
            StmtKind::Agent(name, function) => {
                self.function(function);
                self.record(name, Vec::new());
            }
            StmtKind::Spawn(_, values) => values.iter().for_each(|(_, v)| self.expr(v)),
            StmtKind::Share(value, key) => {
                self.expr(value);
                self.expr(key);
            }
            StmtKind::Observe(key, name) => {
                self.expr(key);
                self.bind(name);
            }
            StmtKind::Signal(channel, value) => {
                self.expr(channel);
                if let Some(value) = value {
                    self.expr(value);
                }
            }
            StmtKind::WaitFor { channel, timeout, name } => {
                self.expr(channel);
                if let Some(timeout) = timeout {
                    self.expr(timeout);
                }
                if let Some(name) = name {
                    self.bind(name);
                }
            }
            StmtKind::Watch(body) => self.block(body),
            StmtKind::Show(value, label) => {
                self.expr(value);
                if let Some(label) = label {
                    self.expr(label);
                }
            }
        }
    }

    fn arm(&mut self, arm: &Arm) {
        let mut names = Vec::new();
        binders(&arm.pattern, &mut names);
        names.extend(declared(&arm.body));
        self.enter(&arm.scope, names);
        self.pattern(&arm.pattern);
        if let Some(guard) = &arm.guard {
            self.expr(guard);
        }
        self.block(&arm.body);
        self.leave();
    }

    fn pattern(&mut self, pattern: &Pattern) {
        match pattern {
            Pattern::Any => {}
            Pattern::Bind(name) => self.bind(name),
            Pattern::Value(e) => self.expr(e),
            Pattern::List { before, rest, after } => {
                before.iter().for_each(|p| self.pattern(p));
                if let Some(Some(name)) = rest {
                    self.bind(name);
                }
                after.iter().for_each(|p| self.pattern(p));
            }
            Pattern::Map(parts) => parts.iter().for_each(|(_, p)| self.pattern(p)),
            Pattern::Variant(path, parts, _) => {
                self.expr(path);
                parts.iter().for_each(|p| self.pattern(p));
            }
        }
    }

    fn in_function(&mut self, inner: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.function, self.functions);
        self.functions += 1;
        self.in_scope.push(0);
        self.out.locals.push(0);
        inner(self);
        self.function = outer;
    }

    fn function(&mut self, function: &Rc<Function>) {
        self.in_function(|r| {
            // Defaults are evaluated in the defining scope: before the parameters exist.
            for param in &function.params {
                if let Some(default) = &param.default {
                    r.expr(default);
                }
            }
            let params = function.params.iter().map(|p| p.name.text.clone());
            let names: Vec<Rc<str>> = match &function.body {
                Body::Block(body) => params.chain(declared(body)).collect(),
                Body::Expr(_) => params.collect(),
            };
            r.enter(&function.scope, names);
            function.params.iter().for_each(|p| r.bind(&p.name));
            match &function.body {
                Body::Block(body) => r.block(body),
                Body::Expr(e) => r.expr(e),
            }
            r.leave();
        });
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Nothing
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::BigInt(_)
            | ExprKind::Float(_)
            | ExprKind::Decimal(_)
            | ExprKind::Text(_) => {}
            ExprKind::Template(pieces) => {
                for piece in pieces {
                    if let TemplatePiece::Hole(e) = piece {
                        self.expr(e);
                    }
                }
            }
            ExprKind::Name(name) => self.name(name),
            ExprKind::List(items) | ExprKind::And(items) | ExprKind::Or(items) => {
                items.iter().for_each(|e| self.expr(e));
            }
            ExprKind::Map(entries) => {
                for (key, value) in entries {
                    self.expr(key);
                    self.expr(value);
                }
            }
            ExprKind::Negate(e) | ExprKind::Not(e) => self.expr(e),
            ExprKind::Arith(first, rest) => {
                self.expr(first);
                rest.iter().for_each(|(_, _, e)| self.expr(e));
            }
            ExprKind::Power(a, _, b) => {
                self.expr(a);
                self.expr(b);
            }
            ExprKind::Compare(first, rest) => {
                self.expr(first);
                rest.iter().for_each(|(_, _, e)| self.expr(e));
            }
            ExprKind::Postfix(base, steps) => {
                self.expr(base);
                for step in steps {
                    match &step.kind {
                        StepKind::Call(args) => args.iter().for_each(|a| self.expr(&a.value)),
                        StepKind::Index(e) => self.expr(e),
                        StepKind::Field(_) | StepKind::Of(_) => {}
                    }
                }
            }
            ExprKind::Lambda(function) => self.function(function),
            ExprKind::Then(cond, yes, no) => {
                self.expr(cond);
                self.expr(yes);
                if let Some(no) = no {
                    self.expr(no);
                }
            }
            ExprKind::Sandbox(inner, scope) => {
                self.enter(scope, Vec::new());
                self.expr(inner);
                self.leave();
            }
            ExprKind::Operation(operation) => {
                self.expr(&operation.subject);
                operation.parts.iter().for_each(|(_, e)| self.expr(e));
            }
        }
    }
}

fn binders(pattern: &Pattern, names: &mut Vec<Rc<str>>) {
    match pattern {
        Pattern::Any | Pattern::Value(_) => {}
        Pattern::Bind(name) => names.push(name.text.clone()),
        Pattern::List { before, rest, after } => {
            before.iter().for_each(|p| binders(p, names));
            if let Some(Some(name)) = rest {
                names.push(name.text.clone());
            }
            after.iter().for_each(|p| binders(p, names));
        }
        Pattern::Map(parts) => parts.iter().for_each(|(_, p)| binders(p, names)),
        Pattern::Variant(_, parts, _) => parts.iter().for_each(|p| binders(p, names)),
    }
}
