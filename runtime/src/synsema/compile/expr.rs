//! Expressions.

use super::{Compiler, Hole, Place};
use crate::bytecode::{Const, Op};
use crate::synsema::ast::{BinOp, CmpOp, Expr, ExprKind, Name, Operation, Step, StepKind, TemplatePiece};
use crate::vm::decimal::Decimal;
use crate::vm::value::Value;
use num_bigint::BigInt;

/// Elements of a list literal that are gathered in registers at once.
const CHUNK: usize = 16;

impl Compiler<'_> {
    /// Leaves an expression's value in `dst`, written by the last instruction only.
    pub(super) fn expr_to(&mut self, e: &Expr, dst: u8) {
        self.scratch(|c| c.expr_inner(e, dst));
    }

    fn expr_inner(&mut self, e: &Expr, dst: u8) {
        self.at(e.at);
        match &e.kind {
            ExprKind::Nothing => {
                self.emit(Op::Nothing, dst, 0, 0);
            }
            ExprKind::Bool(b) => {
                self.emit(Op::Bool, dst, u8::from(*b), 0);
            }
            ExprKind::Int(n) => match i32::try_from(*n) {
                Ok(small) => {
                    self.emit(Op::Int, dst, 0, small as u32);
                }
                Err(_) => self.load(Value::Int(*n), dst),
            },
            ExprKind::BigInt(digits) => {
                let n = BigInt::parse_bytes(digits.as_bytes(), 10).unwrap_or_default();
                self.load(Value::big(n), dst);
            }
            ExprKind::Float(f) => self.load(Value::Float(*f), dst),
            ExprKind::Decimal(digits) => match Decimal::parse(digits) {
                Some(d) => self.load(Value::decimal(d), dst),
                None => self.error(e.at, format!("Invalid number literal: {digits}d")),
            },
            ExprKind::Text(text) => {
                let k = self.text_const(text);
                self.emit(Op::Const, dst, 0, k);
            }
            ExprKind::Template(pieces) => self.template(pieces, e.at, dst),
            ExprKind::Name(name) => self.name_to(name, dst),
            ExprKind::List(items) => self.list(items, e.at, dst),
            ExprKind::Map(entries) => {
                let map = self.temp();
                self.emit(Op::Map, map, 0, entries.len().min(1 << 16) as u32);
                for (key, value) in entries {
                    self.scratch(|c| {
                        let k = c.operand(key);
                        let v = c.operand(value);
                        c.at(key.at);
                        c.emit(Op::Put, map, k, u32::from(v));
                    });
                }
                self.emit(Op::Take, dst, map, 0);
            }
            ExprKind::Negate(inner) => {
                if let ExprKind::Int(n) = inner.kind
                    && let Ok(small) = i32::try_from(-n)
                {
                    self.emit(Op::Int, dst, 0, small as u32);
                    return;
                }
                if let ExprKind::Float(f) = inner.kind {
                    self.load(Value::Float(-f), dst);
                    return;
                }
                let r = self.operand(inner);
                self.at(e.at);
                self.emit(Op::Negate, dst, r, 0);
            }
            ExprKind::Not(inner) => {
                let r = self.operand(inner);
                self.at(e.at);
                self.emit(Op::Not, dst, r, 0);
            }
            ExprKind::Arith(first, rest) => self.arith(first, rest, dst),
            ExprKind::Power(base, at, exponent) => {
                let a = self.operand(base);
                let b = self.operand(exponent);
                self.at(*at);
                self.emit(Op::Pow, dst, a, u32::from(b));
            }
            ExprKind::Compare(first, rest) if rest.len() == 1 => {
                let (op, at, right) = &rest[0];
                let a = self.operand(first);
                let b = self.operand(right);
                self.at(*at);
                self.emit(compare(*op), dst, a, u32::from(b));
            }
            ExprKind::Compare(..) | ExprKind::And(_) | ExprKind::Or(_) => {
                let no = self.jump_unless(e);
                self.emit(Op::Bool, dst, 1, 0);
                let end = self.jump(Op::Jump, 0, 0);
                self.b().land_all(no);
                self.emit(Op::Bool, dst, 0, 0);
                self.land(end);
            }
            ExprKind::Postfix(base, steps) => self.postfix(base, steps, dst),
            ExprKind::Lambda(function) => {
                let index = self.function(function);
                self.at(e.at);
                self.emit(Op::Closure, dst, 0, index);
            }
            ExprKind::Then(cond, yes, no) => {
                let skip = self.jump_unless(cond);
                self.expr_to(yes, dst);
                let end = self.jump(Op::Jump, 0, 0);
                self.b().land_all(skip);
                match no {
                    Some(no) => self.expr_to(no, dst),
                    None => {
                        self.emit(Op::Nothing, dst, 0, 0);
                    }
                }
                self.land(end);
            }
            ExprKind::Sandbox(inner, scope) => {
                let value = self.temp();
                self.emit(Op::Sandbox, 0, 0, 0);
                self.frame().sandboxes += 1;
                let scope = scope.0.get();
                self.enter(scope);
                self.expr_to(inner, value);
                self.leave(scope);
                self.frame().sandboxes -= 1;
                self.emit(Op::EndSandbox, 0, 0, 0);
                self.emit(Op::Take, dst, value, 0);
            }
            ExprKind::Operation(operation) => self.operation(operation, e.at, dst),
        }
    }

    fn load(&mut self, value: Value, dst: u8) {
        let k = self.value_const(value);
        self.emit(Op::Const, dst, 0, k);
    }

    /// Reads a variable: its candidates in turn, then the builtin of that name.
    pub(super) fn name_to(&mut self, name: &Name, dst: u8) {
        self.at(name.at);
        let candidates = self.candidates(name).to_vec();
        let builtin = crate::builtins::find(&name.text);
        let constant = crate::builtins::constant(&name.text);
        let falls = builtin.is_some() || constant.is_some();
        let mut ends = Vec::new();
        for (i, candidate) in candidates.iter().enumerate() {
            let last = i + 1 == candidates.len();
            let place = self.place(candidate.scope, candidate.var);
            if candidate.certain || (last && !falls && !matches!(place, Place::Reg(_))) {
                match place {
                    Place::Reg(r) => self.emit(Op::Move, dst, r, 0),
                    Place::Cell(r) => self.emit(Op::GetCell, dst, r, 0),
                    Place::Up(u) => self.emit(Op::GetUp, dst, u, 0),
                    Place::Global(g) => self.emit(Op::GetGlobal, dst, 0, g),
                };
                self.b().land_all(ends);
                return;
            }
            self.raw_to(place, dst);
            ends.push(self.jump(Op::JumpBound, dst, 0));
        }
        if let Some(id) = builtin {
            self.load(Value::Builtin(id), dst);
        } else if let Some(value) = constant {
            self.load(value, dst);
        } else {
            self.emit(Op::Undefined, 0, 0, 0);
        }
        self.b().land_all(ends);
    }

    /// Reads a variable that may be unbound.
    pub(super) fn raw_to(&mut self, place: Place, dst: u8) {
        match place {
            Place::Reg(r) => self.emit(Op::Move, dst, r, 0),
            Place::Cell(r) => self.emit(Op::GetCellRaw, dst, r, 0),
            Place::Up(u) => self.emit(Op::GetUpRaw, dst, u, 0),
            Place::Global(g) => self.emit(Op::GetGlobalRaw, dst, 0, g),
        };
    }

    fn list(&mut self, items: &[Expr], at: u32, dst: u8) {
        let first = items.len().min(CHUNK);
        let base = self.b().next;
        let start = self.b().temps(first.max(1));
        self.b().next = base;
        for item in &items[..first] {
            let r = self.temp();
            self.expr_to(item, r);
        }
        self.at(at);
        if items.len() <= CHUNK {
            self.emit(Op::List, dst, start, first as u32);
            return;
        }
        self.b().next = base;
        let list = self.temp();
        self.emit(Op::List, list, start, first as u32);
        for item in &items[first..] {
            self.scratch(|c| {
                let r = c.operand(item);
                c.emit(Op::Push, list, r, 0);
            });
        }
        self.emit(Op::Take, dst, list, 0);
    }

    fn template(&mut self, pieces: &[TemplatePiece], at: u32, dst: u8) {
        if pieces.len() > 60 {
            // Longer templates are joined piece by piece.
            let acc = self.temp();
            for (i, chunk) in pieces.chunks(50).enumerate() {
                let part = self.temp();
                self.expr_pieces(chunk, at, part);
                if i == 0 {
                    self.emit(Op::Take, acc, part, 0);
                } else {
                    self.emit(Op::Add, acc, acc, u32::from(part));
                }
                self.b().next = usize::from(acc) + 1;
            }
            self.emit(Op::Take, dst, acc, 0);
            return;
        }
        self.expr_pieces(pieces, at, dst);
    }

    fn expr_pieces(&mut self, pieces: &[TemplatePiece], at: u32, dst: u8) {
        self.scratch(|c| {
            let start = c.b().next;
            for piece in pieces {
                let r = c.temp();
                match piece {
                    TemplatePiece::Text(text) => {
                        let k = c.text_const(text);
                        c.emit(Op::Const, r, 0, k);
                    }
                    TemplatePiece::Hole(e) => c.expr_to(e, r),
                }
            }
            c.at(at);
            c.emit(Op::Concat, dst, start as u8, pieces.len() as u32);
        });
    }

    fn arith(&mut self, first: &Expr, rest: &[(BinOp, u32, Expr)], dst: u8) {
        let mut left = self.operand(first);
        let acc = if rest.len() > 1 { self.temp() } else { dst };
        for (i, (op, at, right)) in rest.iter().enumerate() {
            let to = if i + 1 == rest.len() { dst } else { acc };
            self.scratch(|c| {
                if let ExprKind::Int(n) = right.kind
                    && let Ok(small) = i32::try_from(n)
                    && let Some(op) = binary(*op).with_number(small)
                {
                    c.at(*at);
                    c.emit(op, to, left, small as u32);
                    return;
                }
                let r = c.operand(right);
                c.at(*at);
                c.emit(binary(*op), to, left, u32::from(r));
            });
            left = to;
        }
    }

    fn postfix(&mut self, base: &Expr, steps: &[Step], dst: u8) {
        // The callee of the first call may be a builtin or a global, called without loading it.
        let mut i = 0;
        let mut current;
        // `a of b.c` is `a of (b.c)`: who meant the other may fail at each part of it.
        let chained = steps.iter().rposition(|s| matches!(s.kind, StepKind::Of(_))).filter(|at| *at > 0);
        if let (ExprKind::Name(name), Some(Step { kind: StepKind::Call(args), .. })) =
            (&base.kind, steps.first())
        {
            let to = if steps.len() == 1 { dst } else { self.temp() };
            self.call_name(name, args, to);
            current = to;
            i = 1;
        } else {
            current = self.operand(base);
        }
        while i < steps.len() {
            let step = &steps[i];
            let last = i + 1 == steps.len();
            let to = if last { dst } else { self.temp() };
            match &step.kind {
                StepKind::Index(index) => self.scratch(|c| {
                    if let ExprKind::Text(key) = &index.kind {
                        let k = c.text_const(key);
                        c.at(step.at);
                        c.emit(Op::FieldAt, to, current, k);
                        return;
                    }
                    let r = c.operand(index);
                    c.at(step.at);
                    c.emit(Op::Index, to, current, u32::from(r));
                }),
                StepKind::Field(name) => {
                    let k = self.text_const(name);
                    let called = matches!(steps.get(i + 1), Some(Step { kind: StepKind::Call(_), .. }));
                    self.at(step.at);
                    let op = match called {
                        true => Op::Method,
                        false if chained.is_some_and(|of| i < of) => Op::FieldOfChain,
                        false => Op::Field,
                    };
                    self.emit(op, to, current, k);
                }
                StepKind::Of(name) => {
                    let k = self.text_const(name);
                    self.at(step.at);
                    self.emit(if i > 0 { Op::FieldOfChain } else { Op::FieldOf }, to, current, k);
                }
                StepKind::Call(args) => {
                    let callee = current;
                    self.call_value(callee, args, step.at, to);
                }
            }
            current = to;
            i += 1;
        }
    }

    fn operation(&mut self, operation: &Operation, at: u32, dst: u8) {
        let base = self.b().next as u8;
        let r = self.temp();
        self.expr_to(&operation.subject, r);
        for (_, value) in &operation.parts {
            let r = self.temp();
            self.expr_to(value, r);
        }
        let names = operation.parts.iter().map(|(n, _)| n.clone()).collect();
        let k = self.b().constant(Const::Operation(operation.name, names));
        self.at(at);
        self.emit(Op::Operation, base, 0, k);
        self.emit(Op::Take, dst, base, 0);
    }

    // ---- conditions ----

    /// Jumps that are taken when the condition is false.
    pub(super) fn jump_unless(&mut self, e: &Expr) -> Vec<Hole> {
        self.scratch(|c| c.branch(e, false))
    }

    /// Jumps that are taken when the condition is true.
    pub(super) fn jump_when(&mut self, e: &Expr) -> Vec<Hole> {
        self.scratch(|c| c.branch(e, true))
    }

    fn branch(&mut self, e: &Expr, when: bool) -> Vec<Hole> {
        match &e.kind {
            ExprKind::Not(inner) => self.branch(inner, !when),
            ExprKind::And(items) => self.all(items, when, true),
            ExprKind::Or(items) => self.all(items, when, false),
            ExprKind::Compare(first, rest) if rest.len() == 1 => {
                let (op, at, right) = &rest[0];
                let a = self.operand(first);
                if let ExprKind::Int(n) = right.kind
                    && let Ok(small) = i8::try_from(n)
                    && let Some(op) = jump(*op, when).and_then(Op::with_small)
                {
                    self.at(*at);
                    return vec![self.jump(op, a, small as u8)];
                }
                let b = self.operand(right);
                self.at(*at);
                self.compare_jump(*op, a, b, when)
            }
            ExprKind::Compare(first, rest) => {
                let mut left = self.operand(first);
                let mut fails = Vec::new();
                for (i, (op, at, right)) in rest.iter().enumerate() {
                    let b = self.operand(right);
                    self.at(*at);
                    let last = i + 1 == rest.len();
                    // A middle operand is read twice: the first reader gets a copy.
                    let again = if last || usize::from(b) < self.b().locals {
                        b
                    } else {
                        let copy = self.temp();
                        self.emit(Op::Move, copy, b, 0);
                        copy
                    };
                    fails.extend(self.compare_jump(*op, left, again, false));
                    left = b;
                }
                if !when {
                    return fails;
                }
                let yes = self.jump(Op::Jump, 0, 0);
                self.b().land_all(fails);
                vec![yes]
            }
            _ => {
                let r = self.operand(e);
                self.at(e.at);
                vec![self.jump(if when { Op::JumpIf } else { Op::JumpIfNot }, r, 0)]
            }
        }
    }

    /// `and` (`all`) or `or` of several conditions.
    fn all(&mut self, items: &[Expr], when: bool, all: bool) -> Vec<Hole> {
        let mut holes = Vec::new();
        if when == all {
            // `a and b` is true when the end is reached; the others leave early.
            let mut early = Vec::new();
            let (last, first) = items.split_last().expect("a condition has operands");
            for item in first {
                early.extend(self.scratch(|c| c.branch(item, !all)));
            }
            holes.extend(self.scratch(|c| c.branch(last, when)));
            self.b().land_all(early);
        } else {
            for item in items {
                holes.extend(self.scratch(|c| c.branch(item, when)));
            }
        }
        holes
    }

    fn compare_jump(&mut self, op: CmpOp, a: u8, b: u8, when: bool) -> Vec<Hole> {
        if let Some(op) = jump(op, when) {
            return vec![self.jump(op, a, b)];
        }
        let r = self.temp();
        self.emit(compare(op), r, a, u32::from(b));
        vec![self.jump(if when { Op::JumpIf } else { Op::JumpIfNot }, r, 0)]
    }
}

fn binary(op: BinOp) -> Op {
    match op {
        BinOp::Add => Op::Add,
        BinOp::Sub => Op::Sub,
        BinOp::Mul => Op::Mul,
        BinOp::Div => Op::Div,
        BinOp::FloorDiv => Op::FloorDiv,
        BinOp::Rem => Op::Rem,
    }
}

fn compare(op: CmpOp) -> Op {
    match op {
        CmpOp::Eq => Op::Eq,
        CmpOp::Ne => Op::Ne,
        CmpOp::Lt => Op::Lt,
        CmpOp::Gt => Op::Gt,
        CmpOp::Le => Op::Le,
        CmpOp::Ge => Op::Ge,
        CmpOp::In => Op::In,
        CmpOp::NotIn => Op::NotIn,
    }
}

/// The jump that is taken if a comparison is true, or if it is not.
fn jump(op: CmpOp, when: bool) -> Option<Op> {
    Some(match (op, when) {
        (CmpOp::Eq, true) | (CmpOp::Ne, false) => Op::JumpEq,
        (CmpOp::Ne, true) | (CmpOp::Eq, false) => Op::JumpNe,
        (CmpOp::Lt, true) => Op::JumpLt,
        (CmpOp::Lt, false) => Op::JumpNlt,
        (CmpOp::Le, true) => Op::JumpLe,
        (CmpOp::Le, false) => Op::JumpNle,
        (CmpOp::Gt, true) => Op::JumpGt,
        (CmpOp::Gt, false) => Op::JumpNgt,
        (CmpOp::Ge, true) => Op::JumpGe,
        (CmpOp::Ge, false) => Op::JumpNge,
        (CmpOp::In | CmpOp::NotIn, _) => return None,
    })
}
