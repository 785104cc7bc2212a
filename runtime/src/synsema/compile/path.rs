//! `set` along a path, and the forms of it that change what is at its end in place.
//!
//! Invariant: what is moved out of a path is what the right side read there, and everything else of the right side
//! has been evaluated by then, so nothing can see the gap but the builtin's own failure, which closes it.

use super::{Compiler, Place};
use crate::bytecode::Op;
use crate::synsema::ast::{Arg, BinOp, Expr, ExprKind, Step, StepKind, Target};

impl Compiler<'_> {
    pub(super) fn set_path(&mut self, target: &Target, value: &Expr) {
        if self.grow(target, value) {
            return;
        }
        if let ([one], [step]) = (self.candidates(&target.root), &target.path[..])
            && one.certain
        {
            let (scope, var) = (one.scope, one.var);
            if let Place::Reg(r) = self.place(scope, var) {
                match &step.kind {
                    StepKind::Index(index) => {
                        let k = self.operand(index);
                        let v = self.operand(value);
                        self.at(step.at);
                        self.emit(Op::SetIndex, r, k, u32::from(v));
                    }
                    StepKind::Field(name) => {
                        let v = self.operand(value);
                        let k = self.text_const(name);
                        self.at(step.at);
                        self.emit(Op::SetField, r, v, k);
                    }
                    _ => {}
                }
                return;
            }
        }
        let keys = self.keys(&target.path);
        let v = self.temp();
        self.expr_to(value, v);
        let at = end(target);
        self.choose(&target.root, |c, place| {
            c.at(at);
            c.emit(Op::SetPath, v, target.path.len() as u8, u32::from(keys));
            c.root(place);
        });
    }

    /// Evaluates the keys of a path into registers in a row.
    fn keys(&mut self, path: &[Step]) -> u8 {
        let keys = self.b().next as u8;
        for step in path {
            let r = self.temp();
            match &step.kind {
                StepKind::Index(index) => self.expr_to(index, r),
                StepKind::Field(name) | StepKind::Of(name) => {
                    let k = self.text_const(name);
                    self.emit(Op::Const, r, 0, k);
                }
                StepKind::Call(_) => {}
            }
        }
        keys
    }

    /// Never executed: it says where the root of the path before it is.
    fn root(&mut self, place: Place) {
        match place {
            Place::Reg(r) => self.emit(Op::Move, r, 0, 0),
            Place::Cell(r) => self.emit(Op::SetCell, 0, r, 0),
            Place::Up(u) => self.emit(Op::SetUp, 0, u, 0),
            Place::Global(g) => self.emit(Op::SetGlobal, 0, 0, g),
        };
    }

    /// `set m.xs to append(m.xs, v)` and `set m.xs to m.xs + v`: without copying what is there.
    fn grow(&mut self, target: &Target, value: &Expr) -> bool {
        match &value.kind {
            ExprKind::Postfix(base, steps) => {
                let (ExprKind::Name(callee), [Step { kind: StepKind::Call(args), .. }]) =
                    (&base.kind, &steps[..])
                else {
                    return false;
                };
                let Some(id) = self.builtin(callee) else { return false };
                let well = args.iter().all(|a| a.name.is_none()) && crate::builtins::get(id).reuses_first;
                let Some(place) = args.first().and_then(|a| self.reads(&a.value, target)).filter(|_| well)
                else {
                    return false;
                };
                self.call_at_path(target, place, (callee.at, id), args);
                true
            }
            ExprKind::Arith(first, rest) => {
                let grows = rest.len() < 50
                    && rest.iter().all(|(op, _, e)| *op == BinOp::Add && !is_number(e))
                    && (rest.len() == 1 || rest.iter().all(|(_, _, e)| self.alone(e, Place::Global(0))));
                let Some(place) = self.reads(first, target).filter(|_| grows) else { return false };
                self.sum_at_path(target, place, first, rest);
                true
            }
            _ => false,
        }
    }

    /// Whether an expression reads a path as long as the target's below the same variable, and where that is. Whether
    /// it is the same path shows when both have been evaluated.
    fn reads(&mut self, e: &Expr, target: &Target) -> Option<Place> {
        let ExprKind::Postfix(base, steps) = &e.kind else { return None };
        let ExprKind::Name(name) = &base.kind else { return None };
        let [one] = *self.candidates(&target.root) else { return None };
        let same = name.text == target.root.text
            && *self.candidates(name) == [one]
            && steps.len() == target.path.len()
            && steps.iter().all(|s| !matches!(s.kind, StepKind::Call(_)));
        same.then(|| self.place(one.scope, one.var))
    }

    fn call_at_path(&mut self, target: &Target, place: Place, (at, id): (u32, u16), args: &[Arg]) {
        let keys = self.keys(&target.path);
        let base = self.b().next as u8;
        self.args(args);
        self.at(at);
        self.take_path(target, place, keys, base, 0);
        self.emit(Op::CallTaken, base, args.len() as u8, u32::from(id) << 8 | u32::from(base));
        self.at(end(target));
        self.emit(Op::SetPath, base, target.path.len() as u8, u32::from(keys));
        self.root(place);
    }

    /// Terms beyond the first are evaluated before the first sum: they must be such that nobody notices.
    fn sum_at_path(&mut self, target: &Target, place: Place, first: &Expr, rest: &[(BinOp, u32, Expr)]) {
        let keys = self.keys(&target.path);
        let sum = self.temp();
        self.expr_to(first, sum);
        let alone = match rest {
            // The root itself would be seen with the gap in it.
            [(_, _, one)] => Some(self.operand(one)).filter(|r| place != Place::Reg(*r)),
            _ => None,
        };
        let terms = match alone {
            Some(r) => r,
            None => {
                let terms = self.b().next as u8;
                for (_, _, e) in rest {
                    let r = self.temp();
                    self.expr_to(e, r);
                }
                terms
            }
        };
        self.at(rest[0].1);
        self.take_path(target, place, keys, sum, (rest.len() as u32) << 16 | u32::from(terms) << 8);
        for (i, (_, at, _)) in rest.iter().enumerate() {
            self.at(*at);
            self.emit(Op::Add, sum, sum, u32::from(terms.wrapping_add(i as u8)));
        }
        // The root is bound: the right side has read it.
        self.at(end(target));
        match (place, &target.path[..]) {
            (Place::Reg(r), [Step { kind: StepKind::Index(_), .. }]) => {
                self.emit(Op::SetIndex, r, keys, u32::from(sum));
            }
            (Place::Reg(r), [Step { kind: StepKind::Field(name), .. }]) => {
                let k = self.text_const(name);
                self.emit(Op::SetField, r, sum, k);
            }
            _ => {
                self.emit(Op::SetPath, sum, target.path.len() as u8, u32::from(keys));
                self.root(place);
            }
        }
    }

    fn take_path(&mut self, target: &Target, place: Place, keys: u8, from: u8, terms: u32) {
        self.emit(Op::TakePath, from, target.path.len() as u8, u32::from(keys) | terms);
        self.root(place);
    }
}

/// Where an error of writing a path stands.
fn end(target: &Target) -> u32 {
    target.path.last().map_or(target.root.at, |s| s.at)
}

/// Whether a term is surely a number, which makes nothing grow.
fn is_number(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Int(_) | ExprKind::BigInt(_) | ExprKind::Float(_) | ExprKind::Decimal(_) => true,
        ExprKind::Negate(_) | ExprKind::Power(..) => true,
        ExprKind::Arith(_, rest) => rest.iter().any(|(op, _, _)| *op != BinOp::Add),
        _ => false,
    }
}
