//! `let` and `set`: plain, along a path, and the forms that change a value in place.

use super::{Compiler, Place};
use crate::bytecode::Op;
use crate::synsema::ast::{Arg, BinOp, Expr, ExprKind, Name, Step, StepKind, Target};
use crate::synsema::resolve::Candidate;

impl Compiler<'_> {
    /// Writes a register's value to a variable.
    pub(super) fn store(&mut self, place: Place, from: u8) {
        match place {
            Place::Reg(r) if r == from => return,
            Place::Reg(r) => {
                let op = if usize::from(from) < self.b().locals { Op::Move } else { Op::Take };
                self.emit(op, r, from, 0)
            }
            Place::Cell(r) => self.emit(Op::SetCell, from, r, 0),
            Place::Up(u) => self.emit(Op::SetUp, from, u, 0),
            Place::Global(g) => self.emit(Op::SetGlobal, from, 0, g),
        };
    }

    pub(super) fn binding_place(&mut self, name: &Name) -> Place {
        match self.candidates(name).first().copied() {
            Some(Candidate { scope, var, .. }) => self.place(scope, var),
            None => Place::Reg(0),
        }
    }

    pub(super) fn let_(&mut self, name: &Name, value: &Expr) {
        let place = self.binding_place(name);
        if let Place::Reg(r) = place {
            self.expr_to(value, r);
            return;
        }
        let r = self.temp();
        self.expr_to(value, r);
        self.at(name.at);
        self.store(place, r);
    }

    /// Binds a name to what a register holds.
    pub(super) fn bind(&mut self, name: &Name, from: u8) {
        let place = self.binding_place(name);
        self.store(place, from);
    }

    pub(super) fn set(&mut self, target: &Target, value: &Expr) {
        if target.path.is_empty() {
            self.set_name(&target.root, value);
        } else {
            self.set_path(target, value);
        }
    }

    /// The place to write, chosen at run time if an inner one may be unbound; `then` writes it.
    pub(super) fn choose(&mut self, name: &Name, mut then: impl FnMut(&mut Self, Place)) {
        let candidates = self.candidates(name).to_vec();
        self.at(name.at);
        let mut ends = Vec::new();
        for candidate in &candidates {
            let place = self.place(candidate.scope, candidate.var);
            if candidate.certain {
                then(self, place);
                self.b().land_all(ends);
                return;
            }
            let probe = self.temp();
            self.raw_to(place, probe);
            let bound = self.jump(Op::JumpBound, probe, 0);
            let next = self.jump(Op::Jump, 0, 0);
            self.land(bound);
            self.emit(Op::Nothing, probe, 0, 0);
            then(self, place);
            ends.push(self.jump(Op::Jump, 0, 0));
            self.land(next);
        }
        self.emit(Op::CannotSet, 0, 0, 0);
        self.b().land_all(ends);
    }

    fn set_name(&mut self, name: &Name, value: &Expr) {
        if let [one] = *self.candidates(name) {
            let place = self.place(one.scope, one.var);
            if (one.certain || !matches!(place, Place::Reg(_))) && self.in_place(name, place, value) {
                return;
            }
            if let (true, Place::Reg(r)) = (one.certain, place) {
                self.expr_to(value, r);
                return;
            }
        }
        let r = self.temp();
        self.expr_to(value, r);
        self.choose(name, |c, place| {
            c.at(name.at);
            c.store(place, r);
        });
    }

    /// `set x to append(x, v)`, `set x to x + v`, `set x to f(x, …)` with a builtin that reuses its first
    /// argument: without copying what `x` holds.
    fn in_place(&mut self, name: &Name, place: Place, value: &Expr) -> bool {
        let same = |e: &Expr| matches!(&e.kind, ExprKind::Name(n) if n.text == name.text);
        match &value.kind {
            ExprKind::Postfix(base, steps) => {
                let (ExprKind::Name(callee), [Step { kind: StepKind::Call(args), .. }]) =
                    (&base.kind, &steps[..])
                else {
                    return false;
                };
                let Some(id) = self.builtin(callee) else { return false };
                let well =
                    args.first().is_some_and(|a| same(&a.value)) && args.iter().all(|a| a.name.is_none());
                let alone = args.iter().skip(1).all(|a| self.alone(&a.value, place));
                if !well || !alone || !crate::builtins::get(id).reuses_first {
                    return false;
                }
                self.call_in_place(callee.at, place, args, id);
                true
            }
            ExprKind::Arith(first, rest) => {
                let well = same(first)
                    && rest.len() < 100
                    && rest.iter().all(|(op, _, e)| *op == BinOp::Add && self.alone(e, place));
                if !well {
                    return false;
                }
                if rest.len() == 1 && matches!(rest[0].2.kind, ExprKind::Int(_) | ExprKind::Float(_)) {
                    return false;
                }
                if rest.len() == 1
                    && let Place::Reg(r) = place
                {
                    let right = self.operand(&rest[0].2);
                    self.at(rest[0].1);
                    self.emit(Op::Add, r, r, u32::from(right));
                    return true;
                }
                self.sum_in_place(place, rest);
                true
            }
            _ => false,
        }
    }

    /// Whether evaluating the expression can't see or change the variable that is held elsewhere meanwhile.
    pub(super) fn alone(&self, e: &Expr, place: Place) -> bool {
        match &e.kind {
            ExprKind::Nothing
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::BigInt(_)
            | ExprKind::Float(_)
            | ExprKind::Decimal(_)
            | ExprKind::Text(_)
            | ExprKind::Name(_) => true,
            _ if matches!(place, Place::Reg(_)) => true,
            ExprKind::Template(pieces) => pieces.iter().all(|p| match p {
                crate::synsema::ast::TemplatePiece::Hole(e) => self.alone(e, place),
                crate::synsema::ast::TemplatePiece::Text(_) => true,
            }),
            ExprKind::List(items) => items.iter().all(|e| self.alone(e, place)),
            ExprKind::Map(entries) => {
                entries.iter().all(|(k, v)| self.alone(k, place) && self.alone(v, place))
            }
            ExprKind::Negate(e) => self.alone(e, place),
            ExprKind::Arith(first, rest) => {
                self.alone(first, place) && rest.iter().all(|(_, _, e)| self.alone(e, place))
            }
            ExprKind::Postfix(base, steps) => {
                steps.iter().enumerate().all(|(i, s)| match &s.kind {
                    StepKind::Index(e) => self.alone(e, place),
                    StepKind::Field(_) | StepKind::Of(_) => true,
                    StepKind::Call(args) => {
                        i == 0
                            && matches!(&base.kind, ExprKind::Name(n)
                                if self.builtin(n).is_some_and(|id| crate::builtins::get(id).is_plain()))
                            && args.iter().all(|a| self.alone(&a.value, place))
                    }
                }) && matches!(base.kind, ExprKind::Name(_))
            }
            _ => false,
        }
    }

    /// Moves a variable's value out into a register; the next writing instruction puts it back.
    fn take(&mut self, place: Place, to: u8) {
        match place {
            Place::Reg(r) => self.emit(Op::Take, to, r, 0),
            Place::Cell(r) => self.emit(Op::TakeCell, to, r, 0),
            Place::Up(u) => self.emit(Op::TakeUp, to, u, 0),
            Place::Global(g) => self.emit(Op::TakeGlobal, to, 0, g),
        };
    }

    fn call_in_place(&mut self, at: u32, place: Place, args: &[Arg], id: u16) {
        let append = crate::builtins::get(id).name == "append" && args.len() == 2;
        if append && let Place::Reg(r) = place {
            let value = self.operand(&args[1].value);
            self.at(at);
            self.emit(Op::Append, r, value, 0);
            return;
        }
        let base = self.temp();
        self.args(&args[1..]);
        self.at(at);
        self.take(place, base);
        self.emit(Op::CallTaken, base, args.len() as u8, u32::from(id) << 8 | u32::from(base));
        self.put_back(place, base);
    }

    fn sum_in_place(&mut self, place: Place, rest: &[(BinOp, u32, Expr)]) {
        let base = self.temp();
        for (_, _, e) in rest {
            let r = self.temp();
            self.expr_to(e, r);
        }
        self.at(rest[0].1);
        self.take(place, base);
        self.emit(Op::SumInto, base, base.wrapping_add(1), rest.len() as u32);
        self.put_back(place, base);
    }

    /// The instruction that an in-place one reads to know where its first operand came from.
    fn put_back(&mut self, place: Place, from: u8) {
        match place {
            Place::Reg(r) => self.emit(Op::Take, r, from, 0),
            Place::Cell(r) => self.emit(Op::SetCell, from, r, 0),
            Place::Up(u) => self.emit(Op::SetUp, from, u, 0),
            Place::Global(g) => self.emit(Op::SetGlobal, from, 0, g),
        };
    }
}
