//! Tree and names → bytecode. Fuel is written as charges of the tree; a statement's instructions all stand at the
//! place where it starts.

mod expr;
mod stmt;

use super::ast::{Function, StmtKind};
use super::parser::{Parsed, Tree, Wrong};
use super::resolve::{Resolved, Use};
use crate::bytecode::builder::{Builder, Hole};
use crate::bytecode::{Capture, Const, EntryPoint, Op, Program, Proto};
use crate::partition::Core;
use crate::source::Source;
use crate::vm::shared::{Shared, sizes};
use crate::vm::value::{Seed, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// Compiles a tree.
pub(super) fn compile(tree: &Tree, resolved: &mut Resolved, source: Source) -> Parsed<Program> {
    let protos = match functions(tree, resolved) {
        // An expression of the top level may want the registers that its names have taken.
        Err(_) if resolved.release() => functions(tree, resolved)?,
        written => written?,
    };
    let mut entries = Vec::new();
    for stmt in &tree.top.body {
        if let StmtKind::Fn(binding, function) = &stmt.kind
            && let (Some(name), Some(global)) = (&binding.name, resolved.slots[binding.id as usize].global)
        {
            let params = function.params.len();
            entries.push(EntryPoint { name: name.clone(), params, global, at: function.at });
        }
    }
    Ok(Program {
        protos,
        globals: resolved.globals.clone(),
        top: 0,
        sources: vec![Rc::new(source)],
        entries,
        ..Program::default()
    })
}

fn functions(tree: &Tree, resolved: &Resolved) -> Parsed<Vec<Rc<Proto>>> {
    let protos = (0..tree.functions).map(|_| None).collect();
    let mut compiler = Compiler { resolved, protos, open: Vec::new(), held: Vec::new() };
    compiler.function(&tree.top)?;
    let all: Option<Vec<Rc<Proto>>> = compiler.protos.into_iter().collect();
    all.ok_or_else(|| Wrong::new(0, "the source is too large"))
}

/// Where a variable is, seen from the function that is being written.
#[derive(Debug, Clone, Copy)]
enum Place {
    Register(u8),
    Cell(u8),
    Up(u8),
    Global(u32),
}

/// A loop that is being written.
#[derive(Default)]
struct Loop {
    breaks: Vec<Hole>,
    continues: Vec<Hole>,
}

/// A function that is being written.
struct Writer {
    b: Builder,
    id: u32,
    captures: Vec<u32>,
    loops: Vec<Loop>,
    texts: HashMap<Rc<str>, u32, Seed>,
    tags: HashMap<Rc<str>, u32, Seed>,
}

struct Compiler<'c> {
    resolved: &'c Resolved,
    protos: Vec<Option<Rc<Proto>>>,
    open: Vec<Writer>,
    /// Registers and globals of names of the top level that have been bound.
    held: Vec<(u8, u32)>,
}

impl Compiler<'_> {
    /// The innermost function. One is always open while something is written.
    fn w(&mut self) -> &mut Writer {
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn b(&mut self) -> &mut Builder {
        &mut self.w().b
    }

    fn function(&mut self, function: &Function) -> Parsed<()> {
        let id = function.id;
        let locals = usize::from(self.resolved.registers[id as usize]);
        let mut b = Builder::with_locals(locals);
        b.at = function.at;
        self.open.push(Writer {
            b,
            id,
            captures: Vec::new(),
            loops: Vec::new(),
            texts: HashMap::default(),
            tags: HashMap::default(),
        });
        let top = self.open.len() == 1;
        if top {
            for stmt in &function.body {
                if let StmtKind::Fn(binding, function) = &stmt.kind {
                    self.function(function)?;
                    let global = self.resolved.slots[binding.id as usize].global.unwrap_or(0);
                    let r = self.b().temp();
                    self.b().emit(Op::Function, r, 0, function.id);
                    self.b().emit(Op::SetGlobal, r, 0, global);
                    self.b().next -= 1;
                }
            }
        }
        for binding in &function.params {
            let slot = self.resolved.slots[binding.id as usize];
            if slot.captured {
                self.b().emit(Op::Capture, slot.register as u8, 0, 0);
            }
        }
        for stmt in &function.body {
            self.stmt(stmt)?;
        }
        self.b().at = function.at;
        self.hand_over();
        self.b().emit(Op::ReturnNothing, 0, 0, 0);
        let Some(writer) = self.open.pop() else { return Ok(()) };
        if writer.b.too_large || writer.captures.len() > 250 {
            return Err(Wrong::new(function.at, "the function is too large"));
        }
        let mut captures = Vec::with_capacity(writer.captures.len());
        for binding in &writer.captures {
            let slot = self.resolved.slots[*binding as usize];
            captures.push(match self.open.last() {
                Some(outer) if slot.function == outer.id => Capture::Local(slot.register as u8),
                _ => Capture::Captured(self.up(*binding)),
            });
        }
        let mut proto = writer.b.finish(id, 0, function.name.clone());
        let declared = usize::from(self.resolved.declared[id as usize]);
        proto.params = function.params.iter().map(|p| p.name.clone().unwrap_or_else(|| "_".into())).collect();
        proto.required = proto.params.len();
        proto.captures = captures;
        proto.at = function.at;
        proto.entry = if top { 0 } else { 4 };
        proto.frame_bytes = (sizes::FRAME + sizes::SLOT * declared) as u32;
        proto.fixed = top || self.resolved.top_functions.contains(&id);
        self.protos[id as usize] = Some(Rc::new(proto));
        Ok(())
    }

    /// The number of a captured variable in the innermost open function.
    fn up(&mut self, binding: u32) -> u8 {
        let captures = &mut self.w().captures;
        let at = captures.iter().position(|c| *c == binding).unwrap_or_else(|| {
            captures.push(binding);
            captures.len() - 1
        });
        at.min(255) as u8
    }

    fn place(&mut self, binding: u32) -> Place {
        let slot = self.resolved.slots[binding as usize];
        match slot.global {
            Some(_) if slot.held => Place::Register(slot.register as u8),
            Some(global) => Place::Global(global),
            None if slot.function == self.w().id => {
                if slot.captured {
                    Place::Cell(slot.register as u8)
                } else {
                    Place::Register(slot.register as u8)
                }
            }
            None => Place::Up(self.up(binding)),
        }
    }

    /// At the top level's end its names go to where they are kept.
    fn hand_over(&mut self) {
        if self.open.len() == 1 {
            for (register, global) in self.held.clone() {
                self.b().emit(Op::SetGlobal, register, 0, global);
            }
        }
    }

    fn found(&self, at: u32) -> Option<Use> {
        self.resolved.uses.get(at).cloned()
    }

    /// Fuel before what follows.
    fn charge(&mut self, fuel: u32) {
        self.b().charge(fuel);
    }

    fn text(&mut self, text: &Rc<str>) -> u32 {
        let w = self.w();
        if let Some(index) = w.texts.get(text) {
            return *index;
        }
        let index = w.b.constant(Const::Value(Core::counted_text(text.to_string(), 0)));
        w.texts.insert(text.clone(), index);
        index
    }

    fn tag(&mut self, tag: &Rc<str>) -> u32 {
        let w = self.w();
        if let Some(index) = w.tags.get(tag) {
            return *index;
        }
        let index = w.b.constant(Const::Value(Value::Shared(Shared::tag(tag.clone()))));
        w.tags.insert(tag.clone(), index);
        index
    }

    /// Puts a register's value where a variable is.
    fn store(&mut self, place: Place, from: u8) {
        match place {
            Place::Register(r) if r == from => {}
            Place::Register(r) => {
                self.b().emit(Op::Take, r, from, 0);
            }
            Place::Cell(r) => {
                self.b().emit(Op::SetCell, from, r, 0);
            }
            Place::Up(i) => {
                self.b().emit(Op::SetUp, from, i, 0);
            }
            Place::Global(g) => {
                self.b().emit(Op::SetGlobal, from, 0, g);
            }
        }
    }
}
