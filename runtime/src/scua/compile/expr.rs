//! Expressions.

use super::super::ast::{Comparison, Expr, ExprKind, Key, Logic, Operator, Piece, Spawned, Step};
use super::super::library::{self, Member};
use super::super::parser::Parsed;
use super::super::resolve::Use;
use super::super::work::has_statements;
use super::{Compiler, Place};
use crate::bytecode::{Const, Op};
use crate::vm::strict;
use crate::vm::value::Value;

/// Elements of a literal that are gathered in registers before the array is made.
const AT_ONCE: usize = 16;

impl Compiler<'_> {
    /// A register that holds the value: a variable's own, or a temporary one.
    pub(super) fn expr(&mut self, expr: &Expr) -> Parsed<u8> {
        match &expr.kind {
            ExprKind::Paren(inner) => return self.expr(inner),
            ExprKind::Name(_) => {
                if let Some(Use::Binding(binding)) = self.found(expr.at)
                    && let Place::Register(r) = self.place(binding)
                {
                    return Ok(r);
                }
            }
            _ => {}
        }
        let r = self.b().temp();
        self.expr_to(expr, r)?;
        Ok(r)
    }

    /// As `expr`, with the value kept even if a later operand assigns to the variable.
    pub(super) fn before(&mut self, expr: &Expr, later: &[&Expr]) -> Parsed<u8> {
        let r = self.expr(expr)?;
        if usize::from(r) < self.b().locals && later.iter().any(|later| has_statements(later)) {
            let copy = self.b().temp();
            self.b().emit(Op::Move, copy, r, 0);
            return Ok(copy);
        }
        Ok(r)
    }

    fn load(&mut self, value: Value, to: u8) {
        match value {
            Value::Nothing => self.b().emit(Op::Nothing, to, 0, 0),
            Value::Bool(b) => self.b().emit(Op::Bool, to, u8::from(b), 0),
            Value::Int(n) if i32::try_from(n).is_ok() => self.b().emit(Op::Int, to, 0, n as i32 as u32),
            other => {
                let index = self.b().constant(Const::Value(other));
                self.b().emit(Op::Const, to, 0, index)
            }
        };
    }

    fn member(&mut self, member: &Member, to: u8) {
        let value = match member {
            Member::Builtin(id) => Value::Builtin(*id),
            Member::Int(n) => Value::Int(*n),
            Member::Float(f) => Value::Float(*f),
        };
        self.load(value, to);
    }

    /// Evaluates into a register. Nothing is written there before all that the expression reads has been read.
    pub(super) fn expr_to(&mut self, expr: &Expr, to: u8) -> Parsed<()> {
        let next = self.b().next;
        let builds = matches!(
            expr.kind,
            ExprKind::Logic(..)
                | ExprKind::Record(_)
                | ExprKind::Array(_)
                | ExprKind::Match(_)
                | ExprKind::Chain(..)
        );
        if builds && usize::from(to) < self.b().locals {
            // Parts are written before the whole has been read.
            if !matches!(expr.kind, ExprKind::Chain(..)) {
                let r = self.b().temp();
                self.written(expr, r)?;
                self.b().emit(Op::Take, to, r, 0);
                self.b().next = next;
                return Ok(());
            }
        }
        self.written(expr, to)?;
        self.b().next = next;
        Ok(())
    }

    fn written(&mut self, expr: &Expr, to: u8) -> Parsed<()> {
        match &expr.kind {
            ExprKind::Nil => self.load(Value::Nothing, to),
            ExprKind::Bool(b) => self.load(Value::Bool(*b), to),
            ExprKind::Int(n) => self.load(Value::Int(*n), to),
            ExprKind::Float(f) => self.load(Value::Float(*f), to),
            ExprKind::Text(text) => {
                let index = self.text(text);
                self.b().emit(Op::Const, to, 0, index);
            }
            ExprKind::Template(pieces) => {
                let first = self.b().temps(pieces.len());
                for (i, piece) in pieces.iter().enumerate() {
                    let r = first.wrapping_add(i as u8);
                    match piece {
                        Piece::Text(text) => {
                            let index = self.text(text);
                            self.b().emit(Op::Const, r, 0, index);
                        }
                        Piece::Hole(hole) => self.expr_to(hole, r)?,
                    }
                }
                self.b().emit(Op::Template, to, first, pieces.len() as u32);
            }
            ExprKind::Name(_) => self.name(expr.at, to),
            ExprKind::Tag(tag, None) => {
                let index = self.tag(tag);
                self.b().emit(Op::Const, to, 0, index);
            }
            ExprKind::Tag(tag, Some(value)) => {
                let value = self.expr(value)?;
                let index = self.tag(tag);
                self.b().emit(Op::Tagged, to, value, index);
            }
            ExprKind::Array(items) => self.array(items, to)?,
            ExprKind::Record(fields) => {
                self.b().emit(Op::Record, to, 0, fields.len() as u32);
                for (key, value) in fields {
                    let next = self.b().next;
                    match key {
                        Key::Word(word) => {
                            let value = self.expr(value)?;
                            let key = self.text(word);
                            self.b().emit(Op::RecordPut, to, value, key);
                        }
                        Key::Computed(key) => {
                            let key = self.before(key, &[value])?;
                            let value = self.expr(value)?;
                            self.b().emit(Op::RecordPutAt, to, key, u32::from(value));
                        }
                    }
                    self.b().next = next;
                }
            }
            ExprKind::Fn(function) => {
                self.function(function)?;
                self.b().emit(Op::Function, to, 0, function.id);
            }
            ExprKind::Match(matching) => self.matching(matching, to)?,
            ExprKind::Ask(message, timeout) => {
                let (first, count) = self.sent(message)?;
                let r = self.b().temp();
                match timeout {
                    Some(timeout) => self.expr_to(timeout, r)?,
                    None => {
                        self.b().emit(Op::Unbind, r, 0, 0);
                    }
                }
                let tag = self.tag(&message.tag);
                self.b().emit(Op::Ask, first, count, tag);
                self.b().emit(Op::Take, to, first, 0);
            }
            ExprKind::Spawn(spawned) => {
                let first = self.b().temp();
                let count = match &**spawned {
                    Spawned::Call(callee, args) => {
                        self.expr_to(callee, first)?;
                        self.args(args)?
                    }
                    Spawned::Block(function) => {
                        self.function(function)?;
                        self.b().emit(Op::Function, first, 0, function.id);
                        0
                    }
                };
                self.b().emit(Op::SpawnTask, first, count, 0);
                self.b().emit(Op::Take, to, first, 0);
            }
            ExprKind::Chain(first, more) => {
                let later: Vec<&Expr> = more.iter().map(|(_, operand)| operand).collect();
                let mut left = self.before(first, &later)?;
                for (i, (operator, operand)) in more.iter().enumerate() {
                    let next = self.b().next;
                    let op = match operator {
                        Operator::Add => Op::Add,
                        Operator::Sub => Op::Sub,
                        Operator::Mul => Op::Mul,
                        Operator::Div => Op::Div,
                        Operator::FloorDiv => Op::FloorDiv,
                        Operator::Rem => Op::Rem,
                    };
                    let last = i + 1 == more.len();
                    let number = match operand.kind {
                        ExprKind::Int(n) => i32::try_from(n).ok(),
                        _ => None,
                    };
                    let (op, right) = match number.and_then(|n| Some((op.with_number(n)?, n as u32))) {
                        Some(both) => both,
                        None => (op, u32::from(self.expr(operand)?)),
                    };
                    self.b().next = next;
                    let into = if last {
                        to
                    } else if usize::from(left) >= self.b().locals {
                        left
                    } else {
                        self.b().temp()
                    };
                    self.b().emit(op, into, left, right);
                    left = into;
                }
            }
            ExprKind::Concat(items) => {
                let first = self.b().temps(items.len());
                for (i, item) in items.iter().enumerate() {
                    self.expr_to(item, first.wrapping_add(i as u8))?;
                }
                self.b().emit(Op::Join, to, first, items.len() as u32);
            }
            ExprKind::Logic(logic, items) => {
                let op = if *logic == Logic::And { Op::JumpFalse } else { Op::JumpTrue };
                let mut ends = Vec::new();
                for (i, item) in items.iter().enumerate() {
                    self.expr_to(item, to)?;
                    if i + 1 < items.len() {
                        // The jump may empty the register that it looks at.
                        let next = self.b().next;
                        let r = self.b().temp();
                        self.b().emit(Op::Move, r, to, 0);
                        ends.push(self.b().jump(op, r, 0));
                        self.b().next = next;
                    }
                }
                self.b().land_all(ends);
            }
            ExprKind::Compare(how, left, right) => {
                let a = self.before(left, &[right])?;
                let b = self.expr(right)?;
                let op = match how {
                    Comparison::Eq => Op::Eq,
                    Comparison::Ne => Op::Ne,
                    Comparison::Lt => Op::Lt,
                    Comparison::Le => Op::Le,
                    Comparison::Gt => Op::Gt,
                    Comparison::Ge => Op::Ge,
                };
                self.b().emit(op, to, a, u32::from(b));
            }
            ExprKind::Minus(inner) => match inner.kind {
                ExprKind::Int(i64::MIN) => self.load(Value::Int(i64::MIN), to),
                _ => {
                    let r = self.expr(inner)?;
                    self.b().emit(Op::Minus, to, r, 0);
                }
            },
            ExprKind::Not(inner) => {
                let r = self.expr(inner)?;
                self.b().emit(Op::Denied, to, r, 0);
            }
            ExprKind::Paren(inner) => self.expr_to(inner, to)?,
            ExprKind::Postfix(first, steps) => self.postfix(first, steps, to)?,
        }
        Ok(())
    }

    fn name(&mut self, at: u32, to: u8) {
        match self.found(at) {
            Some(Use::Binding(binding)) => {
                match self.place(binding) {
                    Place::Register(r) => self.b().emit(Op::Move, to, r, 0),
                    Place::Cell(r) => self.b().emit(Op::GetCellRaw, to, r, 0),
                    Place::Up(i) => self.b().emit(Op::GetUpRaw, to, i, 0),
                    Place::Global(g) => self.b().emit(Op::GetGlobal, to, 0, g),
                };
            }
            Some(Use::Member(member)) => self.member(&member, to),
            Some(Use::Host(index)) => self.load(strict::host_function(index), to),
            Some(Use::Module(_)) | None => self.load(Value::Nothing, to),
        }
    }

    fn array(&mut self, items: &[Expr], to: u8) -> Parsed<()> {
        if items.len() <= AT_ONCE {
            let first = self.b().temps(items.len());
            for (i, item) in items.iter().enumerate() {
                self.expr_to(item, first.wrapping_add(i as u8))?;
            }
            self.b().emit(Op::Array, to, first, items.len() as u32);
            return Ok(());
        }
        self.b().emit(Op::ArrayOf, to, 0, items.len() as u32);
        for item in items {
            let next = self.b().next;
            let r = self.expr(item)?;
            self.b().emit(Op::ArrayPut, to, r, 0);
            self.b().next = next;
        }
        Ok(())
    }

    /// Arguments in the next registers.
    fn args(&mut self, args: &[Expr]) -> Parsed<u8> {
        for arg in args {
            let r = self.b().temp();
            self.expr_to(arg, r)?;
        }
        Ok(args.len().min(250) as u8)
    }

    fn call_builtin(&mut self, id: u16, args: &[Expr], to: u8) -> Parsed<()> {
        let first = self.b().next as u8;
        let count = self.args(args)?;
        self.b().emit(Op::CallBuiltin, first, count, u32::from(id) << 8 | u32::from(to));
        Ok(())
    }

    fn postfix(&mut self, first: &Expr, steps: &[Step], to: u8) -> Parsed<()> {
        let mut steps = steps;
        // What the first steps are done on; `None`: the expression itself.
        let mut at: Option<u8> = None;
        if let ExprKind::Name(_) = first.kind {
            match self.found(first.at) {
                Some(Use::Module(module)) => {
                    let Some((Step::Field(word, _), rest)) = steps.split_first() else { return Ok(()) };
                    let Some(member) = library::member(module, word) else { return Ok(()) };
                    steps = rest;
                    if let (Member::Builtin(id), Some((Step::Call(args), rest))) =
                        (&member, steps.split_first())
                    {
                        if rest.is_empty() {
                            return self.call_builtin(*id, args, to);
                        }
                        let r = self.b().temp();
                        let next = self.b().next;
                        self.call_builtin(*id, args, r)?;
                        self.b().next = next;
                        steps = rest;
                        at = Some(r);
                    } else if steps.is_empty() {
                        self.member(&member, to);
                        return Ok(());
                    } else {
                        let r = self.b().temp();
                        self.member(&member, r);
                        at = Some(r);
                    }
                }
                Some(Use::Member(Member::Builtin(id))) => {
                    if let Some((Step::Call(args), rest)) = steps.split_first() {
                        if rest.is_empty() {
                            return self.call_builtin(id, args, to);
                        }
                        let r = self.b().temp();
                        let next = self.b().next;
                        self.call_builtin(id, args, r)?;
                        self.b().next = next;
                        steps = rest;
                        at = Some(r);
                    }
                }
                Some(Use::Binding(binding)) => {
                    if let (Place::Global(global), Some((Step::Call(args), rest))) =
                        (self.place(binding), steps.split_first())
                        && let Some(function) = self.resolved.fixed_globals.get(&global).copied()
                    {
                        let into = if rest.is_empty() { to } else { self.b().temp() };
                        let next = self.b().next;
                        let callee = self.b().temp();
                        let count = self.args(args)?;
                        self.b().emit(Op::InvokeFixed, callee, count, function << 8 | u32::from(into));
                        self.b().next = next;
                        if rest.is_empty() {
                            return Ok(());
                        }
                        steps = rest;
                        at = Some(into);
                    }
                }
                _ => {}
            }
        }
        for (i, step) in steps.iter().enumerate() {
            let last = i + 1 == steps.len();
            let next = self.b().next;
            match step {
                Step::Call(args) => {
                    let callee = self.b().temp();
                    match at {
                        Some(r) => {
                            self.b().emit(Op::Take, callee, r, 0);
                        }
                        None => self.expr_to(first, callee)?,
                    }
                    let count = self.args(args)?;
                    let into = if last {
                        to
                    } else {
                        at.filter(|r| usize::from(*r) >= self.b().locals).unwrap_or(callee)
                    };
                    self.b().emit(Op::Invoke, callee, count, u32::from(into));
                    self.b().next = if into == callee { usize::from(callee) + 1 } else { next };
                    at = Some(into);
                }
                Step::Field(word, _) => {
                    let object = match at {
                        Some(r) => r,
                        None => self.expr(first)?,
                    };
                    let key = self.text(word);
                    let into = self.into(last, to, object);
                    self.b().emit(Op::GetField, into, object, key);
                    self.b().next = self.b().next.max(next);
                    at = Some(into);
                }
                Step::Index(index) => {
                    let object = match at {
                        Some(r) => r,
                        None => self.before(first, &[index])?,
                    };
                    let keep = self.b().next;
                    let index = self.expr(index)?;
                    self.b().next = keep;
                    let into = self.into(last, to, object);
                    self.b().emit(Op::GetIndex, into, object, u32::from(index));
                    at = Some(into);
                }
            }
        }
        if steps.is_empty()
            && let Some(r) = at
            && r != to
        {
            self.b().emit(Op::Take, to, r, 0);
        }
        Ok(())
    }

    /// Where a step's result goes: the end, the temporary register that it was taken from, or a fresh one.
    fn into(&mut self, last: bool, to: u8, from: u8) -> u8 {
        if last {
            to
        } else if usize::from(from) >= self.b().locals {
            from
        } else {
            self.b().temp()
        }
    }
}
