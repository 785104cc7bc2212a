//! Statements, loops and patterns.

use super::super::ast::{
    ArmBody, Binding, Block, Comparison, Expr, ExprKind, Logic, Match, Message, Pattern, Step, Stmt,
    StmtKind, Target,
};
use super::super::parser::{Parsed, Wrong};
use super::super::resolve::{Use, bound};
use super::super::work;
use super::{Compiler, Loop, Place};
use crate::bytecode::builder::Hole;
use crate::bytecode::{NOWHERE, Op};

impl Compiler<'_> {
    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Parsed<()> {
        let outer = std::mem::replace(&mut self.b().at, stmt.at);
        let next = self.b().next;
        self.one(stmt)?;
        self.b().next = next;
        self.b().at = outer;
        if self.b().too_large {
            return Err(Wrong::new(stmt.at, "the expression is too large"));
        }
        Ok(())
    }

    fn one(&mut self, stmt: &Stmt) -> Parsed<()> {
        let resolved = self.resolved;
        match &stmt.kind {
            StmtKind::Import(_) => self.charge(1),
            StmtKind::Let(binding, value) => {
                self.charge(1 + work::nodes(resolved, value));
                self.define(binding, value)?;
            }
            StmtKind::Fn(binding, function) => {
                self.charge(1);
                let slot = resolved.slots[binding.id as usize];
                if slot.global.is_none() {
                    let register = slot.register as u8;
                    if slot.captured {
                        self.b().emit(Op::NewVariable, register, 0, 0);
                        self.function(function)?;
                        let r = self.b().temp();
                        self.b().emit(Op::Function, r, 0, function.id);
                        self.b().emit(Op::SetCell, r, register, 0);
                    } else {
                        self.function(function)?;
                        self.b().emit(Op::Function, register, 0, function.id);
                    }
                }
            }
            StmtKind::Assign(target, value) => {
                self.charge(1 + work::target(resolved, target) + work::nodes(resolved, value));
                self.assign(target, value)?;
            }
            StmtKind::Expr(expr) => {
                self.charge(1 + work::nodes(resolved, expr));
                match &expr.kind {
                    ExprKind::Postfix(_, steps) if matches!(steps.last(), Some(Step::Call(_))) => {
                        self.expr_to(expr, NOWHERE)?;
                    }
                    _ => {
                        let r = self.b().temp();
                        self.expr_to(expr, r)?;
                        self.b().emit(Op::Nothing, r, 0, 0);
                    }
                }
            }
            StmtKind::Return(value) => {
                self.charge(1 + value.as_ref().map_or(0, |value| work::nodes(resolved, value)));
                match value {
                    Some(value) => {
                        let r = self.expr(value)?;
                        self.hand_over();
                        self.b().emit(Op::Return, r, 0, 0);
                    }
                    None => {
                        self.hand_over();
                        self.b().emit(Op::ReturnNothing, 0, 0, 0);
                    }
                }
            }
            StmtKind::Break | StmtKind::Continue => {
                self.charge(1);
                let hole = self.b().jump(Op::Jump, 0, 0);
                let ends = matches!(stmt.kind, StmtKind::Break);
                if let Some(inner) = self.w().loops.last_mut() {
                    if ends { inner.breaks.push(hole) } else { inner.continues.push(hole) }
                }
            }
            StmtKind::Tell(message) => {
                self.charge(2 + work::message(resolved, message));
                let (first, count) = self.sent(message)?;
                let tag = self.tag(&message.tag);
                self.b().emit(Op::Tell, first, count, tag);
            }
            StmtKind::If(branches, otherwise) => {
                let mut ends = Vec::new();
                for (i, (at, condition, body)) in branches.iter().enumerate() {
                    self.b().at = *at;
                    self.charge(1 + work::nodes(resolved, condition));
                    let fails = self.unless(condition)?;
                    self.block(body)?;
                    if i + 1 < branches.len() || otherwise.is_some() {
                        ends.push(self.b().jump(Op::Jump, 0, 0));
                    }
                    self.b().land_all(fails);
                }
                if let Some(body) = otherwise {
                    self.block(body)?;
                }
                self.b().land_all(ends);
            }
            StmtKind::While(condition, body) => {
                // The condition stands behind the body: one jump a turn.
                let first = self.b().jump(Op::Jump, 0, 0);
                let start = self.b().here();
                self.w().loops.push(Loop::default());
                self.block(body)?;
                let done = self.w().loops.pop().unwrap_or_default();
                self.b().land_all(done.continues);
                self.b().land(first);
                self.charge(1 + work::nodes(resolved, condition));
                for again in self.branch(condition, true)? {
                    self.b().target(again, start);
                }
                self.b().land_all(done.breaks);
            }
            StmtKind::Count(binding, from, to, step, body) => {
                let nodes = work::nodes(resolved, from)
                    + work::nodes(resolved, to)
                    + step.as_ref().map_or(0, |step| work::nodes(resolved, step));
                self.charge(1 + nodes);
                self.count(stmt.at, binding, (from, to, step.as_ref()), body)?;
            }
            StmtKind::Each(first, second, over, body) => {
                self.charge(1 + work::nodes(resolved, over));
                self.each(stmt.at, first, second.as_ref(), over, body)?;
            }
            StmtKind::Do(body) => self.block(body)?,
        }
        Ok(())
    }

    /// A block; what its variables held is let go at its end.
    fn block(&mut self, block: &Block) -> Parsed<()> {
        for stmt in block {
            self.stmt(stmt)?;
        }
        let mut range: Option<(u8, u8)> = None;
        for stmt in block {
            if let StmtKind::Let(binding, _) | StmtKind::Fn(binding, _) = &stmt.kind {
                let slot = self.resolved.slots[binding.id as usize];
                if slot.global.is_none() {
                    let r = slot.register as u8;
                    range = Some(range.map_or((r, r), |(low, high)| (low.min(r), high.max(r))));
                }
            }
        }
        if let Some((low, high)) = range
            && !matches!(
                block.last().map(|s| &s.kind),
                Some(StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue)
            )
        {
            self.b().emit(Op::Clear, low, high, 0);
        }
        Ok(())
    }

    fn define(&mut self, binding: &Binding, value: &Expr) -> Parsed<()> {
        let slot = self.resolved.slots[binding.id as usize];
        match slot.global {
            Some(global) if slot.held => {
                self.expr_to(value, slot.register as u8)?;
                self.held.push((slot.register as u8, global));
            }
            Some(global) => {
                let r = self.expr(value)?;
                self.b().emit(Op::SetGlobal, r, 0, global);
            }
            None => {
                let register = slot.register as u8;
                self.expr_to(value, register)?;
                if slot.captured {
                    self.b().emit(Op::Capture, register, 0, 0);
                }
            }
        }
        Ok(())
    }

    fn assign(&mut self, target: &Target, value: &Expr) -> Parsed<()> {
        match target {
            Target::Name(_, at) => {
                let Some(Use::Binding(binding)) = self.found(*at) else { return Ok(()) };
                match self.place(binding) {
                    Place::Register(register) => self.expr_to(value, register)?,
                    place => {
                        let r = self.expr(value)?;
                        self.store(place, r);
                    }
                }
            }
            Target::Field(object, word) => {
                let object = self.before(object, &[value])?;
                let value = self.expr(value)?;
                let key = self.text(word);
                self.b().emit(Op::PutField, object, value, key);
            }
            Target::Index(object, index) => {
                let object = self.before(object, &[index, value])?;
                let index = self.before(index, &[value])?;
                let value = self.expr(value)?;
                self.b().emit(Op::PutIndex, object, index, u32::from(value));
            }
        }
        Ok(())
    }

    /// Receiver and arguments in registers in a row.
    pub(super) fn sent(&mut self, message: &Message) -> Parsed<(u8, u8)> {
        let first = self.b().temp();
        self.expr_to(&message.receiver, first)?;
        for arg in &message.args {
            let r = self.b().temp();
            self.expr_to(arg, r)?;
        }
        Ok((first, message.args.len().min(200) as u8))
    }

    /// Jumps for when a condition doesn't hold.
    pub(super) fn unless(&mut self, condition: &Expr) -> Parsed<Vec<Hole>> {
        self.branch(condition, false)
    }

    /// Jumps that are taken if a condition holds, or if it doesn't.
    fn branch(&mut self, condition: &Expr, when: bool) -> Parsed<Vec<Hole>> {
        let next = self.b().next;
        let holes = match &condition.kind {
            ExprKind::Paren(inner) => self.branch(inner, when)?,
            ExprKind::Not(inner) => self.branch(inner, !when)?,
            ExprKind::Compare(how, left, right) => {
                let a = self.before(left, &[right])?;
                let op = jump(*how, when);
                match (&right.kind, op.with_small()) {
                    (ExprKind::Int(n), Some(op)) if i8::try_from(*n).is_ok() => {
                        vec![self.b().jump(op, a, *n as u8)]
                    }
                    _ => {
                        let b = self.expr(right)?;
                        vec![self.b().jump(op, a, b)]
                    }
                }
            }
            ExprKind::Logic(logic, all) => {
                let mut holes = Vec::new();
                // What decides at once leaves early; the last one decides for the others.
                let decides = *logic == Logic::Or;
                let mut early = Vec::new();
                for (i, one) in all.iter().enumerate() {
                    if i + 1 < all.len() && decides != when {
                        early.extend(self.branch(one, decides)?);
                    } else {
                        holes.extend(self.branch(one, when)?);
                    }
                }
                self.b().land_all(early);
                holes
            }
            _ => {
                let r = self.expr(condition)?;
                vec![self.b().jump(if when { Op::JumpTrue } else { Op::JumpFalse }, r, 0)]
            }
        };
        self.b().next = next;
        Ok(holes)
    }

    fn hidden(&self, at: u32) -> u8 {
        self.resolved.hidden.get(at).copied().unwrap_or(0)
    }

    /// The register of a loop's or pattern's name; captured ones are wrapped afterwards.
    fn register(&self, binding: &Binding) -> u8 {
        self.resolved.slots[binding.id as usize].register as u8
    }

    fn wrap(&mut self, binding: &Binding) {
        let slot = self.resolved.slots[binding.id as usize];
        if slot.captured {
            self.b().emit(Op::Capture, slot.register as u8, 0, 0);
        }
    }

    fn count(
        &mut self,
        at: u32,
        binding: &Binding,
        (from, to, step): (&Expr, &Expr, Option<&Expr>),
        body: &Block,
    ) -> Parsed<()> {
        let h = self.hidden(at);
        let variable = self.register(binding);
        self.expr_to(from, h)?;
        self.expr_to(to, h + 1)?;
        match step {
            Some(step) => self.expr_to(step, h + 2)?,
            None => {
                self.b().emit(Op::Int, h + 2, 0, 1);
            }
        }
        let none = self.b().jump(Op::CountPrep, h, variable);
        let start = self.b().here();
        self.wrap(binding);
        self.w().loops.push(Loop::default());
        self.block(body)?;
        let done = self.w().loops.pop().unwrap_or_default();
        self.b().land_all(done.continues);
        self.b().emit(Op::CountNext, h, variable, start);
        self.b().land(none);
        self.b().land_all(done.breaks);
        Ok(())
    }

    fn each(
        &mut self,
        at: u32,
        first: &Binding,
        second: Option<&Binding>,
        over: &Expr,
        body: &Block,
    ) -> Parsed<()> {
        let h = self.hidden(at);
        self.expr_to(over, h)?;
        let begin = self.b().jump(Op::WalkPrep, h, 0);
        let start = self.b().here();
        self.wrap(first);
        second.into_iter().for_each(|second| self.wrap(second));
        self.w().loops.push(Loop::default());
        self.block(body)?;
        let done = self.w().loops.pop().unwrap_or_default();
        self.b().land_all(done.continues);
        self.b().land(begin);
        self.b().emit(Op::WalkNext, h, u8::from(second.is_some()), start);
        self.b().land_all(done.breaks);
        let last = second.map_or(self.register(first), |second| self.register(second));
        self.b().emit(Op::Clear, h, last, 0);
        Ok(())
    }

    // ---- match ----

    pub(super) fn matching(&mut self, matching: &Match, to: u8) -> Parsed<()> {
        let resolved = self.resolved;
        let outer = std::mem::replace(&mut self.b().at, matching.at);
        self.charge(1 + work::nodes(resolved, &matching.value));
        let h = self.hidden(matching.at);
        self.expr_to(&matching.value, h)?;
        let mut ends = Vec::new();
        for arm in &matching.arms {
            self.b().at = arm.at;
            self.charge(work::pattern(&arm.pattern));
            let mut fails = Vec::new();
            let next = self.b().next;
            self.pattern(&arm.pattern, h, &mut fails)?;
            self.b().next = next;
            let mut names = Vec::new();
            bound(&arm.pattern, &mut names);
            names.iter().for_each(|name| self.wrap(name));
            let last = names.iter().map(|name| self.register(name)).max().unwrap_or(h);
            if let Some(guard) = &arm.guard {
                self.b().at = guard.at;
                self.charge(1 + work::nodes(resolved, guard));
                fails.extend(self.unless(guard)?);
            }
            match &arm.body {
                ArmBody::Expr(expr) => {
                    self.b().at = expr.at;
                    self.charge(1 + work::nodes(resolved, expr));
                    self.expr_to(expr, to)?;
                }
                ArmBody::Stmt(stmt) => {
                    self.stmt(stmt)?;
                    self.b().emit(Op::Nothing, to, 0, 0);
                }
            }
            self.b().next = next;
            self.b().emit(Op::Clear, h, last.max(h), 0);
            ends.push(self.b().jump(Op::Jump, 0, 0));
            self.b().land_all(fails);
        }
        self.b().at = matching.at;
        self.b().emit(Op::NoArm, h, 0, 0);
        self.b().land_all(ends);
        self.b().at = outer;
        Ok(())
    }

    fn pattern(&mut self, pattern: &Pattern, subject: u8, fails: &mut Vec<Hole>) -> Parsed<()> {
        match pattern {
            Pattern::Any => {}
            Pattern::Name(binding) => {
                if binding.name.is_some() {
                    let r = self.register(binding);
                    self.b().emit(Op::Move, r, subject, 0);
                }
            }
            Pattern::Literal(literal) => {
                let r = self.b().temp();
                self.expr_to(literal, r)?;
                fails.push(self.b().jump(Op::JumpNe, subject, r));
            }
            Pattern::Tag(tag, None) => {
                let tag = self.tag(tag);
                self.b().emit(Op::TestTag, subject, 0, tag);
                fails.push(self.b().jump(Op::Jump, 0, 0));
            }
            Pattern::Tag(tag, Some(inner)) => {
                let tag = self.tag(tag);
                let r = self.part(inner);
                self.b().emit(Op::TestTagged, r, subject, tag);
                fails.push(self.b().jump(Op::Jump, 0, 0));
                self.inside(inner, r, fails)?;
            }
            Pattern::Array(items, rest) => {
                self.b().emit(Op::TestArray, subject, u8::from(rest.is_some()), items.len() as u32);
                fails.push(self.b().jump(Op::Jump, 0, 0));
                for (i, item) in items.iter().enumerate() {
                    if matches!(item, Pattern::Any) {
                        continue;
                    }
                    let next = self.b().next;
                    let r = self.part(item);
                    self.b().emit(Op::Element, r, subject, i as u32);
                    self.inside(item, r, fails)?;
                    self.b().next = next;
                }
                if let Some(rest) = rest
                    && rest.name.is_some()
                {
                    let r = self.register(rest);
                    self.b().emit(Op::Rest2, r, subject, items.len() as u32);
                }
            }
            Pattern::Record(fields) => {
                self.b().emit(Op::TestRecord, subject, 0, 0);
                fails.push(self.b().jump(Op::Jump, 0, 0));
                for (word, field) in fields {
                    let next = self.b().next;
                    let key = self.text(word);
                    let r = self.part(field);
                    self.b().emit(Op::TestField, r, subject, key);
                    fails.push(self.b().jump(Op::Jump, 0, 0));
                    self.inside(field, r, fails)?;
                    self.b().next = next;
                }
            }
        }
        Ok(())
    }

    /// Where a part goes: a name's own register, or a temporary one.
    fn part(&mut self, pattern: &Pattern) -> u8 {
        match pattern {
            Pattern::Name(binding) if binding.name.is_some() => self.register(binding),
            _ => self.b().temp(),
        }
    }

    fn inside(&mut self, pattern: &Pattern, r: u8, fails: &mut Vec<Hole>) -> Parsed<()> {
        match pattern {
            Pattern::Name(_) => Ok(()),
            _ => self.pattern(pattern, r, fails),
        }
    }
}

/// The jump that is taken if a comparison is true, or if it is not.
fn jump(how: Comparison, when: bool) -> Op {
    match (how, when) {
        (Comparison::Eq, true) | (Comparison::Ne, false) => Op::JumpEq,
        (Comparison::Ne, true) | (Comparison::Eq, false) => Op::JumpNe,
        (Comparison::Lt, true) => Op::JumpLt,
        (Comparison::Lt, false) => Op::JumpNlt,
        (Comparison::Le, true) => Op::JumpLe,
        (Comparison::Le, false) => Op::JumpNle,
        (Comparison::Gt, true) => Op::JumpGt,
        (Comparison::Gt, false) => Op::JumpNgt,
        (Comparison::Ge, true) => Op::JumpGe,
        (Comparison::Ge, false) => Op::JumpNge,
    }
}
