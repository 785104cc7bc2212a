//! Registers, constants and jumps: what both compilers write with.

use super::{Capture, Const, Ins, LoopRange, Op, Proto, WINDOW};
use crate::vm::value::{Seed, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// A jump whose target comes later.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(crate) struct Hole(usize);

/// Writes one function.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(crate) code: Vec<Ins>,
    pub(crate) places: Vec<u32>,
    pub(crate) consts: Vec<Const>,
    texts: HashMap<Rc<str>, u32, Seed>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) loops: Vec<LoopRange>,
    /// Registers below this one hold variables.
    pub(crate) locals: usize,
    /// First free register.
    pub(crate) next: usize,
    highest: usize,
    /// Source position of what is being compiled.
    pub(crate) at: u32,
    /// Fuel to charge with the next instruction.
    pub(crate) cost: u32,
    /// Where running out of that fuel is told, if it must be there and nowhere else.
    cost_at: Option<u32>,
    /// Set when a function needs more registers than a window has.
    pub(crate) too_large: bool,
}

impl Builder {
    pub(crate) fn with_locals(locals: usize) -> Self {
        Self { locals, next: locals, highest: locals, ..Self::default() }
    }

    /// Writes an instruction and gives its position.
    pub(crate) fn emit(&mut self, op: Op, a: u8, b: u8, d: u32) -> usize {
        if self.cost_at.is_some_and(|place| place != self.at) {
            self.flush();
        }
        self.cost_at = None;
        while self.cost > 255 {
            self.cost -= 255;
            self.raw(Ins { op: Op::Nop, cost: 255, a: 0, b: 0, d: 0 });
        }
        let cost = std::mem::take(&mut self.cost) as u8;
        self.raw(Ins { op, cost, a, b, d })
    }

    fn raw(&mut self, ins: Ins) -> usize {
        self.code.push(ins);
        self.places.push(self.at);
        self.code.len() - 1
    }

    /// Fuel that is charged in one piece, at this place, before what follows.
    pub(crate) fn charge(&mut self, fuel: u32) {
        self.flush();
        if fuel > 255 {
            self.emit(Op::Charge, 0, 0, fuel);
        } else if fuel > 0 {
            self.cost = fuel;
            self.cost_at = Some(self.at);
        }
    }

    /// The position that the next instruction will have.
    pub(crate) fn here(&mut self) -> u32 {
        self.flush();
        self.code.len() as u32
    }

    /// A cost that waits belongs before a jump's target, not after it.
    pub(crate) fn flush(&mut self) {
        if self.cost > 0 {
            let place = self.cost_at.take().unwrap_or(self.at);
            let here = std::mem::replace(&mut self.at, place);
            self.emit(Op::Nop, 0, 0, 0);
            self.at = here;
        }
    }

    pub(crate) fn jump(&mut self, op: Op, a: u8, b: u8) -> Hole {
        Hole(self.emit(op, a, b, 0))
    }

    pub(crate) fn land(&mut self, hole: Hole) {
        let target = self.here();
        self.code[hole.0].d = target;
    }

    /// Makes a jump go to a place that is known already.
    pub(crate) fn target(&mut self, hole: Hole, target: u32) {
        self.code[hole.0].d = target;
    }

    pub(crate) fn land_all(&mut self, holes: Vec<Hole>) {
        for hole in holes {
            self.land(hole);
        }
    }

    /// A fresh register.
    pub(crate) fn temp(&mut self) -> u8 {
        self.temps(1)
    }

    /// Fresh registers in a row.
    pub(crate) fn temps(&mut self, count: usize) -> u8 {
        let first = self.next;
        self.next += count;
        if self.next > WINDOW - 4 {
            self.too_large = true;
            self.next = self.locals;
            return self.locals as u8;
        }
        self.highest = self.highest.max(self.next);
        first as u8
    }

    pub(crate) fn constant(&mut self, value: Const) -> u32 {
        self.consts.push(value);
        self.consts.len() as u32 - 1
    }

    pub(crate) fn text(&mut self, text: &Rc<str>) -> u32 {
        if let Some(index) = self.texts.get(text) {
            return *index;
        }
        let index = self.constant(Const::Value(Value::text(text)));
        self.texts.insert(text.clone(), index);
        index
    }

    pub(crate) fn finish(self, index: u32, file: u32, name: Option<Rc<str>>) -> Proto {
        Proto {
            index,
            name,
            file,
            params: Vec::new(),
            defaults: Vec::new(),
            required: 0,
            locals: self.locals as u8,
            registers: self.highest as u16 + 1,
            code: self.code,
            places: self.places,
            consts: self.consts,
            captures: self.captures,
            loops: self.loops,
            vars: Vec::new(),
            requires: Vec::new(),
            at: 0,
            entry: 0,
            frame_bytes: 0,
            fixed: false,
        }
    }
}
