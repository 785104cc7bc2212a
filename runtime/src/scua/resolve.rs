//! Names → what they stand for, and a register or global for each variable. Everything that a source can be told
//! before it runs, beyond its syntax, is found here.

use super::ast::{
    Arm, ArmBody, Binding, Block, Expr, ExprKind, Function, Key, Match, Message, Pattern, Piece, Spawned,
    Step, Stmt, StmtKind, Target,
};
use super::library::{self, Member, Realm};
use super::parser::{Parsed, Tree, Wrong};
use crate::vm::value::Seed;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Registers that variables of one function may take.
pub(super) const MAX_REGISTERS: u16 = 240;

/// Registers from which on no name of the top level gets one.
const MAX_HELD: u16 = 100;

/// What a name stands for where it is used.
#[derive(Debug, Clone)]
pub(super) enum Use {
    Binding(u32),
    Member(Member),
    /// Only as `module.…`; never a value.
    Module(&'static str),
    /// A function that the host registered, by its number.
    Host(u16),
}

/// A binding's place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    /// The function that declares it.
    pub(super) function: u32,
    pub(super) register: u16,
    /// A global's number, for names of the top level.
    pub(super) global: Option<u32>,
    /// An inner function uses it.
    pub(super) captured: bool,
    /// A name of the top level that is in a register while that runs: nobody else uses it before.
    pub(super) held: bool,
}

/// What was found out about places of the source.
#[derive(Debug)]
pub(super) struct AtPlaces<T>(Vec<(u32, T)>);

impl<T> Default for AtPlaces<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> AtPlaces<T> {
    fn insert(&mut self, at: u32, what: T) {
        self.0.push((at, what));
    }

    /// In the order of the source, which is nearly that in which it was read.
    fn sort(&mut self) {
        self.0.sort_by_key(|(at, _)| *at);
    }

    pub(super) fn get(&self, at: u32) -> Option<&T> {
        let i = self.0.binary_search_by_key(&at, |(at, _)| *at).ok()?;
        Some(&self.0[i].1)
    }
}

/// All that is known about a source's names.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// By the byte where the name stands.
    pub(super) uses: AtPlaces<Use>,
    /// By the binding's number.
    pub(super) slots: Vec<Slot>,
    /// First hidden register of loops and matches, by where they stand.
    pub(super) hidden: AtPlaces<u8>,
    /// For each function: registers for variables.
    pub(super) registers: Vec<u16>,
    /// For each function: declarations of names in it.
    pub(super) declared: Vec<u16>,
    pub(super) globals: Vec<Rc<str>>,
    /// Functions of the top level, and the globals that hold them with the functions' numbers.
    pub(super) top_functions: HashSet<u32, Seed>,
    pub(super) fixed_globals: HashMap<u32, u32, Seed>,
}

#[derive(Clone, Copy)]
struct Known {
    binding: u32,
    fixed: bool,
    at: u32,
}

struct Scope {
    /// Names of this block, in order.
    names: Vec<(Rc<str>, Known)>,
    /// First register of this block.
    first: u16,
}

struct Open {
    id: u32,
    next: u16,
    highest: u16,
    declared: u16,
    scopes: Vec<Scope>,
}

impl Resolved {
    /// Takes the registers of names of the top level back. `false`: there are none.
    pub(super) fn release(&mut self) -> bool {
        let mut held = 0;
        for slot in &mut self.slots {
            held += u16::from(std::mem::take(&mut slot.held));
        }
        self.registers[0] -= held;
        held > 0
    }
}

struct Resolver<'r> {
    realm: Realm,
    hosts: &'r [Rc<str>],
    text: &'r str,
    out: Resolved,
    modules: HashMap<Rc<str>, &'static str, Seed>,
    /// Names of the top level, and whether their statement has been passed.
    tops: HashMap<Rc<str>, (Known, bool), Seed>,
    top_order: Vec<Rc<str>>,
    open: Vec<Open>,
    /// Open scopes that know a name, innermost last: function and what it is.
    visible: HashMap<Rc<str>, Vec<(u32, Known)>, Seed>,
}

/// Resolves a tree.
pub(super) fn resolve(tree: &Tree, text: &str, realm: Realm, hosts: &[Rc<str>]) -> Parsed<Resolved> {
    let mut resolver = Resolver {
        realm,
        hosts,
        text,
        out: Resolved {
            slots: vec![Slot::default(); tree.bindings as usize],
            registers: vec![0; tree.functions as usize],
            declared: vec![0; tree.functions as usize],
            ..Resolved::default()
        },
        modules: HashMap::default(),
        tops: HashMap::default(),
        top_order: Vec::new(),
        open: Vec::new(),
        visible: HashMap::default(),
    };
    resolver.top(&tree.top)?;
    resolver.out.uses.sort();
    resolver.out.hidden.sort();
    Ok(resolver.out)
}

impl Resolver<'_> {
    fn top(&mut self, top: &Function) -> Parsed<()> {
        for stmt in &top.body {
            match &stmt.kind {
                StmtKind::Import(name) => self.import(name, stmt.at)?,
                StmtKind::Let(binding, _) => self.top_name(binding, false)?,
                StmtKind::Fn(binding, function) => {
                    self.top_name(binding, true)?;
                    self.out.top_functions.insert(function.id);
                    let global = self.out.slots[binding.id as usize].global;
                    self.out.fixed_globals.extend(global.map(|global| (global, function.id)));
                }
                _ => {}
            }
        }
        self.open.push(Open { id: 0, next: 0, highest: 0, declared: 0, scopes: Vec::new() });
        for stmt in &top.body {
            match &stmt.kind {
                StmtKind::Let(binding, value) => {
                    self.expr(value)?;
                    if let Some(name) = &binding.name
                        && let Some(entry) = self.tops.get_mut(name)
                    {
                        entry.1 = true;
                    }
                }
                StmtKind::Fn(_, function) => self.function(function)?,
                _ => self.stmt(stmt)?,
            }
        }
        self.close_function();
        self.hold(top);
        Ok(())
    }

    /// Gives registers to the names of the top level that no other function uses.
    fn hold(&mut self, top: &Function) {
        for stmt in &top.body {
            let StmtKind::Let(binding, _) = &stmt.kind else { continue };
            let slot = &mut self.out.slots[binding.id as usize];
            let next = &mut self.out.registers[0];
            if binding.name.is_some() && !slot.captured && *next < MAX_HELD {
                slot.held = true;
                slot.register = *next;
                *next += 1;
            }
        }
    }

    fn import(&mut self, name: &Rc<str>, at: u32) -> Parsed<()> {
        let known = match library::module(name) {
            Some(known) => known,
            None => return Err(Wrong::new(at, format!("unknown module `{name}`"))),
        };
        if self.realm == Realm::Sandbox && !known.pure {
            return Err(Wrong::new(at, format!("module `{name}` is not available in a sandbox")));
        }
        if self.modules.insert(name.clone(), known.name).is_some() {
            return Err(Wrong::new(at, format!("`{name}` is already imported")));
        }
        Ok(())
    }

    fn top_name(&mut self, binding: &Binding, fixed: bool) -> Parsed<()> {
        let global = self.out.globals.len() as u32;
        let slot = &mut self.out.slots[binding.id as usize];
        slot.global = Some(global);
        let Some(name) = &binding.name else {
            self.out.globals.push("_".into());
            return Ok(());
        };
        self.out.globals.push(name.clone());
        let known = Known { binding: binding.id, fixed, at: binding.at };
        if let Some((first, _)) = self.tops.insert(name.clone(), (known, fixed)) {
            return Err(self.twice(name, binding.at, first.at));
        }
        self.top_order.push(name.clone());
        Ok(())
    }

    fn twice(&self, name: &str, at: u32, first: u32) -> Wrong {
        let line = self.text.as_bytes()[..first as usize].iter().filter(|b| **b == b'\n').count() + 1;
        Wrong::new(at, format!("`{name}` is already declared in this block (line {line})"))
    }

    // ---- scopes ----

    fn open_scope(&mut self) {
        if let Some(open) = self.open.last_mut() {
            let first = open.next;
            open.scopes.push(Scope { names: Vec::new(), first });
        }
    }

    fn close_scope(&mut self) {
        let Some(open) = self.open.last_mut() else { return };
        let Some(scope) = open.scopes.pop() else { return };
        open.next = scope.first;
        for (name, _) in scope.names {
            if let Some(known) = self.visible.get_mut(&name) {
                known.pop();
            }
        }
    }

    fn close_function(&mut self) {
        if let Some(open) = self.open.pop() {
            self.out.registers[open.id as usize] = open.highest;
            self.out.declared[open.id as usize] = open.declared;
        }
    }

    fn registers(&mut self, count: u16, at: u32) -> Parsed<u16> {
        let Some(open) = self.open.last_mut() else { return Ok(0) };
        let first = open.next;
        open.next += count;
        open.highest = open.highest.max(open.next);
        if open.next > MAX_REGISTERS {
            return Err(Wrong::new(at, "too many names at once in a function"));
        }
        Ok(first)
    }

    fn hide(&mut self, count: u16, at: u32) -> Parsed<()> {
        let first = self.registers(count, at)?;
        self.out.hidden.insert(at, first as u8);
        Ok(())
    }

    fn declare(&mut self, binding: &Binding, fixed: bool) -> Parsed<()> {
        let register = self.registers(1, binding.at)?;
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        let slot = &mut self.out.slots[binding.id as usize];
        slot.function = open.id;
        slot.register = register;
        let Some(name) = &binding.name else { return Ok(()) };
        open.declared = open.declared.saturating_add(1);
        let known = Known { binding: binding.id, fixed, at: binding.at };
        let id = open.id;
        if let Some(scope) = open.scopes.last_mut() {
            let before = self.visible.get(name).and_then(|all| all.last());
            if let Some((_, before)) = before
                && scope.names.iter().any(|(_, k)| k.binding == before.binding)
            {
                let first = before.at;
                return Err(self.twice(name, binding.at, first));
            }
            scope.names.push((name.clone(), known));
            self.visible.entry(name.clone()).or_default().push((id, known));
        }
        Ok(())
    }

    /// Names of a parameter list or a pattern: each once.
    fn declare_all(&mut self, bindings: &[&Binding]) -> Parsed<()> {
        for (i, binding) in bindings.iter().enumerate() {
            if let Some(name) = &binding.name
                && bindings[..i].iter().any(|b| b.name.as_ref() == Some(name))
            {
                return Err(Wrong::new(binding.at, format!("`{name}` is bound twice")));
            }
            self.declare(binding, false)?;
        }
        Ok(())
    }

    // ---- names ----

    fn find(&self, name: &Rc<str>) -> Option<Known> {
        if let Some((_, known)) = self.visible.get(name).and_then(|all| all.last()) {
            return Some(*known);
        }
        let (known, passed) = self.tops.get(name)?;
        (*passed || self.open.len() > 1).then_some(*known)
    }

    fn capture(&mut self, binding: u32) {
        let here = self.open.last().map_or(0, |open| open.id);
        let slot = &mut self.out.slots[binding as usize];
        // Names of the top level belong to function 0.
        slot.captured |= slot.function != here;
    }

    fn name(&mut self, name: &Rc<str>, at: u32, member: Option<&str>) -> Parsed<()> {
        if let Some(known) = self.find(name) {
            self.capture(known.binding);
            self.out.uses.insert(at, Use::Binding(known.binding));
            return Ok(());
        }
        if let Some(module) = self.modules.get(name).copied() {
            let Some(member) = member else {
                return Err(Wrong::new(at, format!("module `{name}` is not a value; use `{name}.…`")));
            };
            if library::member(module, member).is_none() {
                return Err(Wrong::new(at, format!("module `{name}` has no `{member}`")));
            }
            self.out.uses.insert(at, Use::Module(module));
            return Ok(());
        }
        if let Some(host) = self.hosts.iter().position(|h| h == name) {
            self.out.uses.insert(at, Use::Host(host as u16));
            return Ok(());
        }
        if let Some(core) = library::core(name) {
            if self.realm == Realm::Sandbox && !core.pure {
                return Err(Wrong::new(at, format!("`{name}` is not available in a sandbox")));
            }
            self.out.uses.insert(at, Use::Member(core.member));
            return Ok(());
        }
        Err(Wrong::new(at, format!("unknown name `{name}`{}", self.hint(name))))
    }

    fn hint(&self, name: &str) -> String {
        if library::module(name).is_some_and(|m| m.pure || self.realm == Realm::Program) {
            return format!("; did you mean `import {name}`?");
        }
        if name.len() < 3 {
            return String::new();
        }
        let near = |other: &str| other.len() >= 3 && one_step(name, other);
        let inner = self.open.iter().rev().flat_map(|open| open.scopes.iter().rev());
        let mut names = inner.flat_map(|scope| scope.names.iter().map(|(n, _)| n));
        if let Some(found) = names.find(|n| near(n)) {
            return format!("; did you mean `{found}`?");
        }
        let tops = self.top_order.iter().filter(|n| self.find(n).is_some()).map(|n| n.to_string());
        let imported = library::MODULES.iter().map(|m| m.name).filter(|m| self.modules.contains_key(*m));
        let core = library::core_names(self.realm);
        let found = tops.chain(imported.chain(core).map(str::to_owned)).find(|n| near(n));
        match found {
            Some(found) => format!("; did you mean `{found}`?"),
            None => String::new(),
        }
    }

    // ---- tree ----

    fn function(&mut self, function: &Rc<Function>) -> Parsed<()> {
        self.open.push(Open { id: function.id, next: 0, highest: 0, declared: 0, scopes: Vec::new() });
        self.open_scope();
        self.declare_all(&function.params.iter().collect::<Vec<_>>())?;
        self.stmts(&function.body)?;
        self.close_scope();
        self.close_function();
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Parsed<()> {
        self.open_scope();
        self.stmts(block)?;
        self.close_scope();
        Ok(())
    }

    fn stmts(&mut self, block: &Block) -> Parsed<()> {
        block.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    fn stmt(&mut self, stmt: &Stmt) -> Parsed<()> {
        match &stmt.kind {
            StmtKind::Import(_) | StmtKind::Break | StmtKind::Continue => Ok(()),
            StmtKind::Let(binding, value) => {
                self.expr(value)?;
                self.declare(binding, false)
            }
            StmtKind::Fn(binding, function) => {
                self.declare(binding, true)?;
                self.function(function)
            }
            StmtKind::Assign(target, value) => {
                match target {
                    Target::Name(name, at) => {
                        self.name(name, *at, None)?;
                        let fixed = self.find(name).is_none_or(|known| known.fixed);
                        if fixed {
                            return Err(Wrong::new(
                                *at,
                                format!("`{name}` is a function and can't be assigned"),
                            ));
                        }
                    }
                    Target::Field(object, _) => self.expr(object)?,
                    Target::Index(object, index) => {
                        self.expr(object)?;
                        self.expr(index)?;
                    }
                }
                self.expr(value)
            }
            StmtKind::Expr(expr) => self.expr(expr),
            StmtKind::Return(value) => value.iter().try_for_each(|value| self.expr(value)),
            StmtKind::Tell(message) => self.message(message),
            StmtKind::If(branches, otherwise) => {
                for (_, condition, body) in branches {
                    self.expr(condition)?;
                    self.block(body)?;
                }
                otherwise.iter().try_for_each(|body| self.block(body))
            }
            StmtKind::While(condition, body) => {
                self.expr(condition)?;
                self.block(body)
            }
            StmtKind::Count(binding, from, to, step, body) => {
                self.expr(from)?;
                self.expr(to)?;
                step.iter().try_for_each(|step| self.expr(step))?;
                self.open_scope();
                self.hide(4, stmt.at)?;
                self.declare(binding, false)?;
                self.stmts(body)?;
                self.close_scope();
                Ok(())
            }
            StmtKind::Each(first, second, over, body) => {
                self.expr(over)?;
                self.open_scope();
                // The names stand right behind: the machine writes them.
                self.hide(3, stmt.at)?;
                let mut bindings = vec![first];
                bindings.extend(second);
                self.declare_all(&bindings)?;
                self.stmts(body)?;
                self.close_scope();
                Ok(())
            }
            StmtKind::Do(body) => self.block(body),
        }
    }

    fn exprs(&mut self, all: &[Expr]) -> Parsed<()> {
        all.iter().try_for_each(|expr| self.expr(expr))
    }

    fn message(&mut self, message: &Message) -> Parsed<()> {
        self.expr(&message.receiver)?;
        self.exprs(&message.args)
    }

    fn expr(&mut self, expr: &Expr) -> Parsed<()> {
        match &expr.kind {
            ExprKind::Nil | ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Text(_) => {
                Ok(())
            }
            ExprKind::Template(pieces) => pieces.iter().try_for_each(|piece| match piece {
                Piece::Text(_) => Ok(()),
                Piece::Hole(hole) => self.expr(hole),
            }),
            ExprKind::Name(name) => self.name(name, expr.at, None),
            ExprKind::Tag(_, value) => value.iter().try_for_each(|value| self.expr(value)),
            ExprKind::Array(all) | ExprKind::Concat(all) | ExprKind::Logic(_, all) => self.exprs(all),
            ExprKind::Record(fields) => fields.iter().try_for_each(|(key, value)| {
                if let Key::Computed(key) = key {
                    self.expr(key)?;
                }
                self.expr(value)
            }),
            ExprKind::Fn(function) => self.function(function),
            ExprKind::Match(matching) => self.matching(matching),
            ExprKind::Ask(message, timeout) => {
                self.message(message)?;
                timeout.iter().try_for_each(|timeout| self.expr(timeout))
            }
            ExprKind::Spawn(spawned) => match &**spawned {
                Spawned::Call(callee, args) => {
                    self.expr(callee)?;
                    self.exprs(args)
                }
                Spawned::Block(function) => self.function(function),
            },
            ExprKind::Chain(first, more) => {
                self.expr(first)?;
                more.iter().try_for_each(|(_, operand)| self.expr(operand))
            }
            ExprKind::Compare(_, left, right) => {
                self.expr(left)?;
                self.expr(right)
            }
            ExprKind::Minus(inner) | ExprKind::Not(inner) | ExprKind::Paren(inner) => self.expr(inner),
            ExprKind::Postfix(first, steps) => {
                match (&first.kind, steps.first()) {
                    (ExprKind::Name(name), Some(Step::Field(word, _))) => {
                        self.name(name, first.at, Some(word))?
                    }
                    _ => self.expr(first)?,
                }
                steps.iter().try_for_each(|step| match step {
                    Step::Field(..) => Ok(()),
                    Step::Index(index) => self.expr(index),
                    Step::Call(args) => self.exprs(args),
                })
            }
        }
    }

    fn matching(&mut self, matching: &Match) -> Parsed<()> {
        self.expr(&matching.value)?;
        self.open_scope();
        self.hide(1, matching.at)?;
        matching.arms.iter().try_for_each(|arm| self.arm(arm))?;
        self.close_scope();
        Ok(())
    }

    fn arm(&mut self, arm: &Arm) -> Parsed<()> {
        self.open_scope();
        let mut bindings = Vec::new();
        bound(&arm.pattern, &mut bindings);
        self.declare_all(&bindings)?;
        arm.guard.iter().try_for_each(|guard| self.expr(guard))?;
        match &arm.body {
            ArmBody::Expr(expr) => self.expr(expr)?,
            ArmBody::Stmt(stmt) => self.stmt(stmt)?,
        }
        self.close_scope();
        Ok(())
    }
}

/// Names that a pattern binds, from left to right.
pub(super) fn bound<'p>(pattern: &'p Pattern, out: &mut Vec<&'p Binding>) {
    match pattern {
        Pattern::Any | Pattern::Literal(_) | Pattern::Tag(_, None) => {}
        Pattern::Name(binding) => out.push(binding),
        Pattern::Tag(_, Some(inner)) => bound(inner, out),
        Pattern::Array(items, rest) => {
            items.iter().for_each(|item| bound(item, out));
            out.extend(rest);
        }
        Pattern::Record(fields) => fields.iter().for_each(|(_, field)| bound(field, out)),
    }
}

/// One insertion, deletion, change or swap of neighbours apart.
fn one_step(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if long.len() - short.len() > 1 || a == b {
        return false;
    }
    let same = short.iter().zip(long).take_while(|(x, y)| x == y).count();
    if short.len() < long.len() {
        return short[same..] == long[same + 1..];
    }
    short[same + 1..] == long[same + 1..]
        || (same + 1 < a.len()
            && a[same] == b[same + 1]
            && a[same + 1] == b[same]
            && a[same + 2..] == b[same + 2..])
}
