//! The loop, and nothing else: more than 700 lines because every instruction has its arm here.

use super::frame::{Frame, Handler, MAX_FRAMES, Ret, captured};
use super::machine::Machine;
use super::match_ops;
use super::ops;
use super::places;
use super::statement_ops;
use super::steps::{self, Entered, Flow, Member};
use super::strict::{self, Step};
use super::strict_ops;
use super::trap::{Fault, Stop, raised};
use super::value::{Closure, Map, Value, copy, put};
use crate::builtins::{Args, Ctx, Run};
use crate::bytecode::{Const, NOWHERE, Op, Proto, WINDOW};
use crate::partition::ModuleState;
use std::cmp::Ordering;
use std::rc::Rc;

impl Machine {
    /// Executes instructions until the first frame's end. On an error the frame's position is saved, so that
    /// `unwind` and a later call can go on from there.
    pub(super) fn dispatch(&mut self) -> Result<(), Fault> {
        let program = self.core.program.clone();
        let protos = &program.protos[..];
        let mut fuel = self.core.fuel;
        'frame: loop {
            if fuel < self.core.look_at {
                self.core.fuel = fuel;
                self.core.slice_or_yield()?;
                fuel = self.core.fuel;
            }
            let Some(frame) = self.frames.last() else { return Ok(()) };
            let proto = &*protos[frame.proto as usize];
            let code = &proto.code[..];
            let locals = proto.locals;
            let base = frame.base as usize;
            let mut pc = frame.pc as usize;
            let Some(window) = self.stack.get_mut(base..base + WINDOW) else { return Ok(()) };
            let Ok(regs): Result<&mut [Value; WINDOW], _> = window.try_into() else { return Ok(()) };

            // Saves the position and fails.
            macro_rules! fail {
                ($fault:expr) => {{
                    let fault: Fault = $fault;
                    self.core.fuel = fuel;
                    if let Some(frame) = self.frames.last_mut() {
                        frame.pc = pc as u32;
                    }
                    return Err(fault);
                }};
            }
            macro_rules! tri {
                ($result:expr) => {
                    match $result {
                        Ok(value) => value,
                        Err(fault) => fail!(fault.into()),
                    }
                };
            }
            macro_rules! r {
                ($r:expr) => {
                    regs[usize::from($r)]
                };
            }
            // Something that charges by itself: what it has charged stays charged when it fails.
            macro_rules! paid {
                ($result:expr) => {{
                    self.core.fuel = fuel;
                    let result = $result;
                    fuel = self.core.fuel;
                    tri!(result)
                }};
            }
            // A jump back is where limits are looked at.
            macro_rules! jump {
                ($to:expr) => {{
                    let to = $to as usize;
                    if to < pc && fuel < self.core.look_at {
                        self.core.fuel = fuel;
                        if let Err(fault) = self.core.slice_or_yield() {
                            if *fault == Stop::Wait {
                                pc = to;
                            }
                            fail!(fault);
                        }
                        fuel = self.core.fuel;
                    }
                    pc = to;
                }};
            }
            macro_rules! place {
                () => {
                    (proto.file, proto.places[pc - 1])
                };
            }
            // Something that needs the whole machine, with position and fuel in their places; goes on with
            // whatever frame is on top afterwards.
            macro_rules! outside {
                ($body:expr) => {{
                    self.core.fuel = fuel;
                    if let Some(frame) = self.frames.last_mut() {
                        frame.pc = pc as u32;
                    }
                    $body?;
                    fuel = self.core.fuel;
                    continue 'frame;
                }};
            }
            // Writes a register; the old value's drop is looked at only if it holds something counted.
            macro_rules! set {
                ($r:expr, $value:expr) => {{
                    let value = $value;
                    put(&mut regs[usize::from($r)], value);
                }};
            }
            macro_rules! arith_slow {
                ($ins:expr) => {{
                    paid!(steps::arith_slow(regs, $ins, locals, &mut self.core));
                }};
            }
            // Chains of `if let`, not `match`: two predictable compares beat a jump through a table.
            macro_rules! arith {
                ($ins:expr, $int:ident, $float:tt) => {{
                    if let (Value::Int(x), Value::Int(y)) = (&r!($ins.b), &r!($ins.c())) {
                        if let Some(n) = x.$int(*y) {
                            set!($ins.a, Value::Int(n));
                            continue;
                        }
                    } else if let (Value::Float(x), Value::Float(y)) = (&r!($ins.b), &r!($ins.c())) {
                        let f = x $float y;
                        set!($ins.a, Value::Float(f));
                        continue;
                    }
                    arith_slow!($ins);
                }};
            }
            macro_rules! arith_i {
                ($ins:expr, $int:ident, $float:tt) => {{
                    let y = $ins.d as i32;
                    if let Value::Int(x) = &r!($ins.b) {
                        if let Some(n) = x.$int(i64::from(y)) {
                            set!($ins.a, Value::Int(n));
                            continue;
                        }
                    } else if let Value::Float(x) = &r!($ins.b) {
                        let f = x $float f64::from(y);
                        set!($ins.a, Value::Float(f));
                        continue;
                    }
                    arith_slow!($ins);
                }};
            }
            macro_rules! less {
                ($a:expr, $b:expr, $or_equal:expr, $int:tt) => {
                    if let (Value::Int(x), Value::Int(y)) = (&r!($a), &r!($b)) {
                        x $int y
                    } else if let (Value::Float(x), Value::Float(y)) = (&r!($a), &r!($b)) {
                        x $int y
                    } else if self.core.exact.on {
                        let op = code[pc - 1].op;
                        paid!(steps::less_exact(regs, ($a, $b), $or_equal, op, locals, &mut self.core))
                    } else {
                        self.core.fuel = fuel;
                        tri!(steps::less_slow(regs, ($a, $b), $or_equal, locals, &self.core))
                    }
                };
            }
            macro_rules! equal {
                ($a:expr, $b:expr) => {
                    if let (Value::Int(x), Value::Int(y)) = (&r!($a), &r!($b)) {
                        x == y
                    } else if let (Value::Short(x), Value::Short(y)) = (&r!($a), &r!($b)) {
                        x == y
                    } else {
                        paid!(steps::equal_slow(regs, $a, $b, locals, &mut self.core))
                    }
                };
            }
            macro_rules! branch {
                ($ins:expr, $yes:expr) => {
                    if $yes {
                        jump!($ins.d);
                    }
                };
            }
            // An instruction of exact partitions off the fast path.
            macro_rules! strict {
                ($ins:expr) => {{
                    let flow = paid!(strict_ops::step(regs, $ins, proto, &mut self.core));
                    match flow {
                        Flow::Next => {}
                        Flow::Skip => pc += 1,
                        Flow::Jump => jump!($ins.d),
                    }
                }};
            }
            // Enters a function of an exact partition if nothing is in the way.
            macro_rules! enter {
                ($proto:expr, $closure:expr, $ins:expr) => {{
                    let target: &Proto = $proto;
                    let first = base + usize::from($ins.a) + 1;
                    let left = fuel - i64::from(target.entry);
                    if target.params.len() == usize::from($ins.b)
                        && left >= self.core.look_at
                        && self.core.exact.enter(self.frames.len(), target.frame_bytes)
                    {
                        fuel = left;
                        if let Some(frame) = self.frames.last_mut() {
                            frame.pc = pc as u32;
                        }
                        self.frames.push(Frame {
                            proto: target.index,
                            pc: 0,
                            base: first as u32,
                            layers: 0,
                            ret: Ret::Reg($ins.c()),
                            closure: $closure,
                            native: None,
                            name: "",
                        });
                        if self.stack.len() < first + 2 * WINDOW {
                            self.room(first);
                        }
                        continue 'frame;
                    }
                }};
            }
            macro_rules! small {
                ($ins:expr, $int:tt, $test:ident) => {
                    match &r!($ins.a) {
                        Value::Int(x) => *x $int i64::from($ins.b as i8),
                        Value::Float(x) => *x $int f64::from($ins.b as i8),
                        _ => {
                            let order = paid!(steps::small(regs, $ins, locals, &mut self.core));
                            order.is_some_and(Ordering::$test)
                        }
                    }
                };
            }

            // Where an exact partition's fuel ends or is looked at next: before any instruction, not at jumps alone.
            let mut floor = self.core.floor();
            loop {
                let ins = code[pc];
                pc += 1;
                fuel -= i64::from(ins.cost);
                if fuel < floor {
                    self.core.fuel = fuel;
                    tri!(self.core.at_floor());
                    floor = self.core.floor();
                }
                match ins.op {
                    Op::Nop => {}
                    Op::Move => {
                        let value = copy(&r!(ins.b));
                        set!(ins.a, value);
                    }
                    Op::Take => {
                        let value = std::mem::take(&mut r!(ins.b));
                        set!(ins.a, value);
                    }
                    Op::Const => {
                        if let Const::Value(value) = &proto.consts[ins.d as usize] {
                            set!(ins.a, copy(value));
                        }
                    }
                    Op::Int => set!(ins.a, Value::Int(i64::from(ins.d as i32))),
                    Op::Nothing => set!(ins.a, Value::Nothing),
                    Op::Bool => set!(ins.a, Value::Bool(ins.b != 0)),
                    Op::Unbind => r!(ins.a) = Value::Unbound,
                    Op::NewCell => r!(ins.a) = self.core.cell(Value::Unbound),
                    Op::Wrap => {
                        let value = std::mem::take(&mut r!(ins.a));
                        r!(ins.a) = self.core.cell(value);
                    }
                    Op::GetCell | Op::GetCellRaw => {
                        let value = match &r!(ins.b) {
                            Value::Cell(cell) => cell.0.borrow().clone(),
                            _ => Value::Unbound,
                        };
                        if matches!(value, Value::Unbound) && ins.op == Op::GetCell {
                            fail!(steps::undefined(&self.core.name_at(place!())));
                        }
                        r!(ins.a) = value;
                    }
                    Op::SetCell => {
                        let value = steps::fetch(regs, ins.a, locals);
                        if let Value::Cell(cell) = &r!(ins.b) {
                            drop(cell.0.replace(value));
                        }
                    }
                    Op::GetUp | Op::GetUpRaw => {
                        let value = match self.frames.last().map(captured) {
                            Some(up) => match up.get(usize::from(ins.b)) {
                                Some(Value::Cell(cell)) => cell.0.borrow().clone(),
                                _ => Value::Unbound,
                            },
                            None => Value::Unbound,
                        };
                        if matches!(value, Value::Unbound) && ins.op == Op::GetUp {
                            fail!(steps::undefined(&self.core.name_at(place!())));
                        }
                        r!(ins.a) = value;
                    }
                    Op::SetUp => {
                        let value = steps::fetch(regs, ins.a, locals);
                        if let Some(up) = self.frames.last().map(captured)
                            && let Some(Value::Cell(cell)) = up.get(usize::from(ins.b))
                        {
                            drop(cell.0.replace(value));
                        }
                    }
                    Op::GetGlobal => {
                        let value = self.core.globals[ins.d as usize].clone();
                        if matches!(value, Value::Unbound) {
                            let name = &program.globals[ins.d as usize];
                            if self.core.exact.on {
                                fail!(strict::early(name));
                            }
                            fail!(steps::undefined(name));
                        }
                        r!(ins.a) = value;
                    }
                    Op::GetGlobalRaw => {
                        let value = self.core.globals[ins.d as usize].clone();
                        r!(ins.a) = value;
                    }
                    Op::SetGlobal => {
                        let value = steps::fetch(regs, ins.a, locals);
                        self.core.globals[ins.d as usize] = value;
                    }
                    Op::JumpBound => {
                        if !matches!(r!(ins.a), Value::Unbound) {
                            pc = ins.d as usize;
                        }
                    }
                    Op::Undefined => fail!(steps::undefined(&self.core.name_at(place!()))),
                    Op::CannotSet => {
                        let name = self.core.name_at(place!());
                        fail!(raised(format!(
                            "Cannot set undefined variable '{name}' — declare it first with `let {name} be …`"
                        )));
                    }

                    // ---- arithmetic ----
                    Op::Add => arith!(ins, checked_add, +),
                    Op::Sub => arith!(ins, checked_sub, -),
                    Op::Mul => arith!(ins, checked_mul, *),
                    Op::AddI => arith_i!(ins, checked_add, +),
                    Op::SubI => arith_i!(ins, checked_sub, -),
                    Op::MulI => arith_i!(ins, checked_mul, *),
                    Op::Div => {
                        match (&r!(ins.b), &r!(ins.c())) {
                            (Value::Float(x), Value::Float(y)) if *y != 0.0 => {
                                let f = x / y;
                                set!(ins.a, Value::Float(f));
                                continue;
                            }
                            (Value::Float(x), Value::Int(y)) if *y != 0 => {
                                let f = x / *y as f64;
                                set!(ins.a, Value::Float(f));
                                continue;
                            }
                            _ => {}
                        }
                        arith_slow!(ins);
                    }
                    Op::FloorDivI => {
                        if let Value::Int(x) = r!(ins.b) {
                            set!(ins.a, Value::Int(x.div_euclid(i64::from(ins.d as i32))));
                        } else {
                            arith_slow!(ins);
                        }
                    }
                    Op::RemI => {
                        if let Value::Int(x) = r!(ins.b) {
                            let y = ins.d as i32;
                            // Most numbers fit 32 bits, where a remainder costs a third.
                            let n = match i32::try_from(x) {
                                Ok(small) => i64::from(small.rem_euclid(y)),
                                Err(_) => x.rem_euclid(i64::from(y)),
                            };
                            set!(ins.a, Value::Int(n));
                        } else {
                            arith_slow!(ins);
                        }
                    }
                    Op::Rem => {
                        if let (Value::Int(x), Value::Int(y)) = (&r!(ins.b), &r!(ins.c()))
                            && *y > 0
                        {
                            let n = x.rem_euclid(*y);
                            set!(ins.a, Value::Int(n));
                        } else {
                            arith_slow!(ins);
                        }
                    }
                    Op::FloorDiv => {
                        if let (Value::Int(x), Value::Int(y)) = (&r!(ins.b), &r!(ins.c()))
                            && *y > 0
                        {
                            let n = x.div_euclid(*y);
                            set!(ins.a, Value::Int(n));
                        } else {
                            arith_slow!(ins);
                        }
                    }
                    Op::Pow => {
                        paid!(steps::arith_slow(regs, ins, locals, &mut self.core));
                    }
                    Op::Negate => {
                        let result = match &r!(ins.b) {
                            Value::Float(f) => Value::Float(-f),
                            other => tri!(ops::negate(other)),
                        };
                        r!(ins.a) = result;
                    }
                    Op::Not => {
                        let yes = steps::truth(regs, ins.b, locals);
                        set!(ins.a, Value::Bool(!yes));
                    }
                    Op::Truth => {
                        let yes = steps::truth(regs, ins.b, locals);
                        set!(ins.a, Value::Bool(yes));
                    }

                    // ---- comparisons ----
                    Op::Eq => set!(ins.a, Value::Bool(equal!(ins.b, ins.c()))),
                    Op::Ne => set!(ins.a, Value::Bool(!equal!(ins.b, ins.c()))),
                    Op::Lt => set!(ins.a, Value::Bool(less!(ins.b, ins.c(), false, <))),
                    Op::Le => set!(ins.a, Value::Bool(less!(ins.b, ins.c(), true, <=))),
                    Op::Gt => set!(ins.a, Value::Bool(less!(ins.c(), ins.b, false, <))),
                    Op::Ge => set!(ins.a, Value::Bool(less!(ins.c(), ins.b, true, <=))),
                    Op::In | Op::NotIn => {
                        let yes = paid!(steps::contains(regs, ins.b, ins.c(), locals, &mut self.core));
                        set!(ins.a, Value::Bool(yes == (ins.op == Op::In)));
                    }
                    Op::Jump | Op::Loop => jump!(ins.d),
                    Op::JumpIf => {
                        let yes = match &r!(ins.a) {
                            Value::Bool(b) => *b,
                            _ => steps::truth(regs, ins.a, locals),
                        };
                        if yes {
                            jump!(ins.d);
                        }
                    }
                    Op::JumpIfNot => {
                        let yes = match &r!(ins.a) {
                            Value::Bool(b) => *b,
                            _ => steps::truth(regs, ins.a, locals),
                        };
                        if !yes {
                            jump!(ins.d);
                        }
                    }
                    Op::JumpEq => branch!(ins, equal!(ins.a, ins.b)),
                    Op::JumpNe => branch!(ins, !equal!(ins.a, ins.b)),
                    Op::JumpGt => branch!(ins, less!(ins.b, ins.a, false, <)),
                    Op::JumpNgt => branch!(ins, !less!(ins.b, ins.a, false, <)),
                    Op::JumpGe => branch!(ins, less!(ins.b, ins.a, true, <=)),
                    Op::JumpNge => branch!(ins, !less!(ins.b, ins.a, true, <=)),
                    Op::JumpLt => branch!(ins, less!(ins.a, ins.b, false, <)),
                    Op::JumpNlt => branch!(ins, !less!(ins.a, ins.b, false, <)),
                    Op::JumpLe => branch!(ins, less!(ins.a, ins.b, true, <=)),
                    Op::JumpNle => branch!(ins, !less!(ins.a, ins.b, true, <=)),
                    Op::JumpEqI => branch!(ins, small!(ins, ==, is_eq)),
                    Op::JumpNeI => branch!(ins, !small!(ins, ==, is_eq)),
                    Op::JumpLtI => branch!(ins, small!(ins, <, is_lt)),
                    Op::JumpNltI => branch!(ins, !small!(ins, <, is_lt)),
                    Op::JumpLeI => branch!(ins, small!(ins, <=, is_le)),
                    Op::JumpNleI => branch!(ins, !small!(ins, <=, is_le)),
                    Op::JumpGtI => branch!(ins, small!(ins, >, is_gt)),
                    Op::JumpNgtI => branch!(ins, !small!(ins, >, is_gt)),
                    Op::JumpGeI => branch!(ins, small!(ins, >=, is_ge)),
                    Op::JumpNgeI => branch!(ins, !small!(ins, >=, is_ge)),

                    // ---- containers ----
                    Op::List => {
                        let (first, count) = (usize::from(ins.b), ins.d as usize);
                        let items = regs[first..first + count].iter_mut().map(std::mem::take).collect();
                        r!(ins.a) = Value::list(items);
                    }
                    Op::Push | Op::Append => {
                        let value = steps::fetch(regs, ins.b, locals);
                        match &mut r!(ins.a) {
                            Value::List(list) => {
                                let list = Rc::make_mut(list);
                                list.edit(|items| items.push(value));
                            }
                            other => {
                                let got = super::render::type_name(other).to_owned();
                                fail!(raised(format!("append expects a list, got {got}")));
                            }
                        }
                        if ins.op == Op::Append {
                            fuel -= 2;
                        }
                    }
                    Op::Map => {
                        let entries = super::value::Entries::with_capacity_and_hasher(
                            ins.d as usize,
                            super::value::Seed::default(),
                        );
                        r!(ins.a) = Value::Map(Rc::new(Map::new(entries)));
                    }
                    Op::Put => {
                        let value = steps::fetch(regs, ins.c(), locals);
                        let key = steps::fetch(regs, ins.b, locals);
                        tri!(steps::put(&mut r!(ins.a), &key, value));
                    }
                    Op::Index => {
                        let fast = match (&r!(ins.b), &r!(ins.c())) {
                            (Value::List(list), Value::Int(i)) => {
                                usize::try_from(*i).ok().and_then(|i| list.items().get(i)).cloned()
                            }
                            _ => None,
                        };
                        let value = match fast {
                            Some(value) => value,
                            None => tri!(steps::index(&r!(ins.b), &r!(ins.c()), &self.core)),
                        };
                        if ins.b >= locals {
                            set!(ins.b, Value::Nothing);
                        }
                        if ins.c() >= locals {
                            r!(ins.c()) = Value::Nothing;
                        }
                        r!(ins.a) = value;
                    }
                    Op::Field | Op::FieldOf | Op::FieldOfChain | Op::FieldAt | Op::Method => {
                        let Const::Value(key) = &proto.consts[ins.d as usize] else { continue };
                        let name = key.as_text().unwrap_or("");
                        let fast = match &r!(ins.b) {
                            Value::Map(map) => map.get(name).cloned(),
                            _ => None,
                        };
                        let value = match fast {
                            Some(value) => value,
                            None => {
                                let how = match ins.op {
                                    Op::FieldOf => Member::Of,
                                    Op::FieldOfChain => Member::Chain,
                                    Op::FieldAt => Member::At,
                                    Op::Method => Member::Called,
                                    _ => Member::Plain,
                                };
                                tri!(steps::field(&r!(ins.b), name, &self.core, how))
                            }
                        };
                        if ins.b >= locals {
                            set!(ins.b, Value::Nothing);
                        }
                        r!(ins.a) = value;
                    }
                    Op::SetIndex => {
                        let value = steps::fetch(regs, ins.c(), locals);
                        let index = match r!(ins.b) {
                            Value::Int(i) => i,
                            _ => -1,
                        };
                        if let Value::List(list) = &mut r!(ins.a)
                            && index >= 0
                            && (index as usize) < list.items().len()
                        {
                            if let Some(slot) = Rc::make_mut(list).slot(index as usize) {
                                put(slot, value);
                            }
                        } else {
                            let key = steps::fetch(regs, ins.b, locals);
                            let mut root = std::mem::take(&mut r!(ins.a));
                            let result = super::paths::set(&mut root, &[key], value, &mut self.core);
                            r!(ins.a) = root;
                            tri!(result);
                        }
                    }
                    Op::SetField => {
                        let Const::Value(key) = &proto.consts[ins.d as usize] else { continue };
                        let value = steps::fetch(regs, ins.b, locals);
                        let mut root = std::mem::take(&mut r!(ins.a));
                        let result =
                            super::paths::set(&mut root, std::slice::from_ref(key), value, &mut self.core);
                        r!(ins.a) = root;
                        tri!(result);
                    }
                    Op::SetPath => {
                        let place = code[pc];
                        let up = self.frames.last().map(captured);
                        // An error stands at the path.
                        tri!(places::set_path(regs, ins, place, &mut self.core, up));
                        pc += 1;
                    }
                    Op::TakePath => {
                        let place = code[pc];
                        pc += 1;
                        let up = self.frames.last().map(captured);
                        places::take_path(regs, ins, place, &mut self.core, up);
                    }
                    Op::SumInto => {
                        self.core.fuel = fuel;
                        let result = steps::sum_into(regs, ins, &mut self.core);
                        fuel = self.core.fuel;
                        if let Err(fault) = result {
                            let up = self.frames.last().map(captured);
                            places::put_back(regs, ins.a, (code[pc], None), &mut self.core, up);
                            fail!(fault);
                        }
                    }
                    Op::TakeGlobal => {
                        let slot = &mut self.core.globals[ins.d as usize];
                        if matches!(slot, Value::Unbound) {
                            let name = &program.globals[ins.d as usize];
                            fail!(steps::undefined(name));
                        }
                        r!(ins.a) = std::mem::take(slot);
                    }
                    Op::TakeCell => {
                        let value = match &r!(ins.b) {
                            Value::Cell(cell) => cell.0.take(),
                            _ => Value::Nothing,
                        };
                        if matches!(value, Value::Unbound) {
                            places::put_back_unbound(regs, ins.b);
                            fail!(steps::undefined(&self.core.name_at(place!())));
                        }
                        r!(ins.a) = value;
                    }
                    Op::TakeUp => {
                        let value =
                            match self.frames.last().map(captured).and_then(|u| u.get(usize::from(ins.b))) {
                                Some(Value::Cell(cell)) => {
                                    let value = cell.0.take();
                                    if matches!(value, Value::Unbound) {
                                        drop(cell.0.replace(Value::Unbound));
                                    }
                                    value
                                }
                                _ => Value::Nothing,
                            };
                        if matches!(value, Value::Unbound) {
                            fail!(steps::undefined(&self.core.name_at(place!())));
                        }
                        r!(ins.a) = value;
                    }

                    // ---- calls ----
                    Op::Call => {
                        let callee = std::mem::take(&mut r!(ins.a));
                        let first = base + usize::from(ins.a) + 1;
                        let count = usize::from(ins.b);
                        let ret = Ret::Reg(ins.c());
                        if let Value::Task(task) = &callee
                            && task.proto.params.len() == count
                        {
                            outside!(self.push_task(task, first, ret));
                        }
                        outside!(self.call(callee, first, count, ret, true));
                    }
                    Op::CallGlobal => {
                        let first = base + usize::from(ins.a) + 1;
                        let count = usize::from(ins.b);
                        match &self.core.globals[(ins.d >> 8) as usize] {
                            Value::Task(task)
                                if task.proto.params.len() == count && self.frames.len() < MAX_FRAMES =>
                            {
                                let next = Frame {
                                    proto: task.index,
                                    pc: 0,
                                    base: first as u32,
                                    layers: self.core.gate.depth() as u16,
                                    ret: Ret::Reg(ins.c()),
                                    closure: if task.captured.is_empty() { None } else { Some(task.clone()) },
                                    native: None,
                                    name: "",
                                };
                                if let Some(frame) = self.frames.last_mut() {
                                    frame.pc = pc as u32;
                                }
                                fuel -= 4;
                                self.frames.push(next);
                                if self.stack.len() < first + 2 * WINDOW {
                                    self.room(first);
                                }
                                continue 'frame;
                            }
                            Value::Unbound => {
                                let name = &program.globals[(ins.d >> 8) as usize];
                                fail!(steps::undefined(name));
                            }
                            other => {
                                let callee = other.clone();
                                outside!(self.call(callee, first, count, Ret::Reg(ins.c()), true));
                            }
                        }
                    }
                    Op::CallBuiltin | Op::CallTaken => {
                        let builtin = crate::builtins::get((ins.d >> 8) as u16);
                        let first = usize::from(ins.a);
                        let count = usize::from(ins.b);
                        if builtin.positional != 255 && count > usize::from(builtin.positional) {
                            if ins.op == Op::CallTaken {
                                let up = self.frames.last().map(captured);
                                places::put_back(
                                    regs,
                                    ins.a,
                                    (code[pc], code.get(pc + 1)),
                                    &mut self.core,
                                    up,
                                );
                            }
                            fail!(raised(steps::too_many(builtin, count)));
                        }
                        if let Run::Exact(run) = builtin.run {
                            tri!(builtin.check_count(count));
                            fuel -= 2;
                            self.core.fuel = fuel;
                            if fuel < floor {
                                tri!(self.core.at_floor());
                                floor = self.core.floor();
                            }
                            let result = {
                                let mut args =
                                    Args { values: &mut regs[first..first + count], name: builtin.name };
                                let place = place!();
                                let mut ctx = Ctx { core: &mut self.core, place, name: builtin.name };
                                run(&mut ctx, &mut args)
                            };
                            fuel = self.core.fuel;
                            for value in &mut regs[first..first + count] {
                                put(value, Value::Nothing);
                            }
                            let value = tri!(result);
                            if ins.c() != NOWHERE {
                                set!(ins.c(), value);
                            }
                            continue;
                        }
                        self.core.fuel = fuel;
                        if let Run::Calls(_) = builtin.run {
                            let state = {
                                let mut args =
                                    Args { values: &mut regs[first..first + count], name: builtin.name };
                                let mut ctx =
                                    Ctx { core: &mut self.core, place: place!(), name: builtin.name };
                                steps::enter_builtin(builtin, &mut ctx, &mut args)
                            };
                            fuel = self.core.fuel;
                            for value in &mut regs[first..first + count] {
                                *value = Value::Nothing;
                            }
                            if let Entered::State(state) = tri!(state) {
                                outside!({
                                    self.push_native(state, builtin.name, base + first, Ret::Reg(ins.c()))
                                        .and_then(|()| self.drive(None))
                                });
                            }
                            continue;
                        }
                        let result = {
                            let mut args =
                                Args { values: &mut regs[first..first + count], name: builtin.name };
                            let mut ctx = Ctx { core: &mut self.core, place: place!(), name: builtin.name };
                            steps::enter_builtin(builtin, &mut ctx, &mut args)
                        };
                        fuel = self.core.fuel;
                        match result {
                            Ok(Entered::Value(value)) => {
                                for value in &mut regs[first..first + count] {
                                    *value = Value::Nothing;
                                }
                                r!(ins.c()) = value;
                            }
                            Ok(Entered::State(state)) => {
                                let ret = Ret::Reg(ins.c());
                                outside!(self.enter_state(state, builtin.name, base + first, ret));
                            }
                            Err(fault) => {
                                if ins.op == Op::CallTaken {
                                    let up = self.frames.last().map(captured);
                                    places::put_back(
                                        regs,
                                        ins.a,
                                        (code[pc], code.get(pc + 1)),
                                        &mut self.core,
                                        up,
                                    );
                                }
                                for value in &mut regs[first..first + count] {
                                    *value = Value::Nothing;
                                }
                                fail!(fault);
                            }
                        }
                    }
                    Op::CallNamed => {
                        let Const::Names(names) = &proto.consts[ins.d as usize] else { continue };
                        let callee = std::mem::take(&mut r!(ins.a));
                        let first = base + usize::from(ins.a) + 1;
                        let count = usize::from(ins.b);
                        outside!({
                            match self.place_named(&callee, first, count, names) {
                                Ok(count) => self.call(callee, first, count, Ret::Reg(ins.a), true),
                                Err(fault) => Err(fault),
                            }
                        });
                    }
                    Op::Return | Op::ReturnNothing => {
                        let value = if ins.op == Op::Return {
                            std::mem::take(&mut r!(ins.a))
                        } else {
                            Value::Nothing
                        };
                        for value in &mut regs[..usize::from(proto.registers)] {
                            if value.is_heap() {
                                *value = Value::Nothing;
                            }
                        }
                        self.core.exact.leave_frame(proto.frame_bytes);
                        let Some(ret) = self.frames.last().map(|frame| frame.ret) else { return Ok(()) };
                        if ret == Ret::Native && self.core.exact.on {
                            self.core.fuel = fuel;
                            self.called(value)?;
                            fuel = self.core.fuel;
                            continue 'frame;
                        }
                        // Dropped where it stands: it is large to be moved.
                        self.frames.truncate(self.frames.len() - 1);
                        if let Ret::Reg(r) = ret {
                            if r != NOWHERE
                                && let Some(caller) = self.frames.last()
                            {
                                self.stack[caller.base as usize + usize::from(r)] = value;
                            }
                            continue 'frame;
                        }
                        self.core.exact.returned = place!();
                        self.core.fuel = fuel;
                        self.deliver(ret, value)?;
                        fuel = self.core.fuel;
                        continue 'frame;
                    }
                    Op::Stop => outside!(self.stop()),
                    Op::Closure => {
                        let target = &protos[ins.d as usize];
                        let up = self.frames.last().map_or(&[][..], captured);
                        let all = steps::captures(target, regs, up);
                        r!(ins.a) = Value::Task(Rc::new(Closure::new(target.clone(), all)));
                    }

                    // ---- loops ----
                    Op::RangePrep => {
                        let a = usize::from(ins.a);
                        let first = tri!(steps::range_bounds(&mut regs[a..a + 3]));
                        match first {
                            Some(n) => set!(ins.b, Value::Int(n)),
                            None => pc = ins.d as usize,
                        }
                    }
                    Op::RangeNext => {
                        let a = usize::from(ins.a);
                        if let Some([Value::Int(at), Value::Int(end), Value::Int(step)]) =
                            regs.get_mut(a..a + 3)
                            && let Some(n) = at.checked_add(*step)
                            && ((*step > 0 && n < *end) || (*step < 0 && n > *end))
                        {
                            *at = n;
                            set!(ins.b, Value::Int(n));
                            jump!(ins.d);
                        }
                    }
                    Op::EachPrep => {
                        let a = usize::from(ins.a);
                        if !steps::iterable(&regs[a]) {
                            let kind = super::render::type_name(&regs[a]).to_owned();
                            fail!(raised(format!("Cannot iterate over {kind}")));
                        }
                        regs[a + 1] = Value::Int(0);
                    }
                    Op::EachNext => {
                        let a = usize::from(ins.a);
                        let mut at = match regs[a + 1] {
                            Value::Int(at) => at,
                            _ => 0,
                        };
                        if let Some(item) = steps::each_next(&regs[a], &mut at) {
                            put(&mut regs[a + 1], Value::Int(at));
                            set!(ins.b, item);
                            jump!(ins.d);
                        }
                    }

                    // ---- errors, sandboxes, and statements of their own ----
                    Op::Try => {
                        let handler = Handler {
                            frame: self.frames.len() as u32 - 1,
                            pc: ins.d,
                            layers: self.core.gate.depth() as u16,
                            register: ins.a,
                        };
                        self.handlers.push(handler);
                    }
                    Op::EndTry => {
                        self.handlers.pop();
                    }
                    Op::Sandbox => {
                        if self.core.gate.depth() > 10_000 {
                            fail!(raised("sandboxes are nested too deeply"));
                        }
                        self.core.gate.enter_sandbox();
                    }
                    Op::Under => {
                        let caps = steps::fetch(regs, ins.a, locals);
                        outside!(self.under(&caps));
                    }
                    Op::EndSandbox => self.core.gate.leave(),
                    Op::Raise
                    | Op::Invariant
                    | Op::Require
                    | Op::Intent
                    | Op::Concat
                    | Op::Log
                    | Op::Show
                    | Op::Operation
                    | Op::Share
                    | Op::Observe
                    | Op::Signal => {
                        paid!(statement_ops::step(regs, ins, proto, place!(), &mut self.core));
                    }

                    // ---- patterns ----
                    Op::MatchList
                    | Op::ItemAt
                    | Op::Rest
                    | Op::MatchMap
                    | Op::MatchKey
                    | Op::MatchVariant
                    | Op::PartAt
                    | Op::Shape => {
                        let flow = paid!(match_ops::step(regs, ins, proto, &mut self.core));
                        if flow == Flow::Skip {
                            pc += 1;
                        }
                    }
                    Op::Use => {
                        let index = ins.d as usize;
                        match &self.core.modules[index] {
                            ModuleState::Ready(value) => r!(ins.a) = value.clone(),
                            ModuleState::Waiting => {
                                let module = self.core.module(ins.d);
                                let value = match module {
                                    Some(module) => Value::other(super::other::Other::Module(module)),
                                    None => Value::Nothing,
                                };
                                self.core.modules[index] = ModuleState::Ready(value);
                                let top = program.modules[index].top;
                                // The instruction is executed again once the module's top level has run.
                                pc -= 1;
                                let next = base + usize::from(proto.registers) + 1;
                                outside!(self.enter_module(top, next));
                            }
                        }
                    }
                    Op::Spawn => {
                        let arguments = std::mem::take(&mut r!(ins.a));
                        let name: Rc<str> = proto.text(ins.d).into();
                        outside!(self.spawn(&name, arguments));
                    }
                    Op::Wait => {
                        let channel = super::render::display(&r!(ins.b));
                        let timeout = r!(ins.b.wrapping_add(1)).clone();
                        match tri!(self.core.wait(&channel, &timeout)) {
                            Some(value) => r!(ins.a) = value,
                            None => {
                                // Executed again when another agent has run, or when the time is over.
                                pc -= 1;
                                fuel += i64::from(ins.cost);
                                self.core.fuel = fuel;
                                if let Some(frame) = self.frames.last_mut() {
                                    frame.pc = pc as u32;
                                }
                                self.waiting = true;
                                return Ok(());
                            }
                        }
                    }
                    Op::Serve => {
                        let port = super::render::display(&r!(ins.a));
                        self.core.fuel = fuel;
                        fail!(steps::serve(&mut self.core, &port, place!()));
                    }
                    Op::End => {
                        for value in &mut regs[..usize::from(proto.registers)] {
                            *value = Value::Nothing;
                        }
                        let Some(frame) = self.frames.pop() else { return Ok(()) };
                        self.core.fuel = fuel;
                        self.deliver(frame.ret, Value::Nothing)?;
                        fuel = self.core.fuel;
                        continue 'frame;
                    }

                    // ---- exact partitions ----
                    Op::Charge => {
                        fuel -= i64::from(ins.d);
                        if fuel < floor {
                            self.core.fuel = fuel;
                            tri!(self.core.at_floor());
                            floor = self.core.floor();
                        }
                    }
                    Op::JumpTrue => {
                        let yes = strict::truthy(&r!(ins.a));
                        if ins.a >= locals {
                            set!(ins.a, Value::Nothing);
                        }
                        if yes {
                            jump!(ins.d);
                        }
                    }
                    Op::JumpFalse => {
                        let yes = strict::truthy(&r!(ins.a));
                        if ins.a >= locals {
                            set!(ins.a, Value::Nothing);
                        }
                        if !yes {
                            jump!(ins.d);
                        }
                    }
                    Op::Invoke => {
                        let callee = std::mem::take(&mut r!(ins.a));
                        if let Value::Task(task) = &callee {
                            enter!(&task.proto, (!task.captured.is_empty()).then(|| task.clone()), ins);
                        }
                        let first = base + usize::from(ins.a) + 1;
                        let step = Step::Call(callee, first, usize::from(ins.b), Ret::Reg(ins.c()));
                        outside!(self.settle(step));
                    }
                    Op::InvokeFixed => {
                        let target = &protos[(ins.d >> 8) as usize];
                        enter!(target, None, ins);
                        let first = base + usize::from(ins.a) + 1;
                        let ret = Ret::Reg(ins.c());
                        outside!(self.enter_function(target, None, first, usize::from(ins.b), ret));
                    }
                    Op::Function => {
                        let target = &protos[ins.d as usize];
                        let up = self.frames.last().map_or(&[][..], captured);
                        let all = steps::captures(target, regs, up);
                        r!(ins.a) = paid!(self.core.counted_closure(target, all));
                    }
                    Op::GetIndex => {
                        let fast = match (&r!(ins.b), &r!(ins.c())) {
                            (Value::Shared(shared), Value::Int(i)) => shared.element(*i),
                            _ => None,
                        };
                        match fast {
                            Some(value) => {
                                if ins.b >= locals {
                                    r!(ins.b) = Value::Nothing;
                                }
                                set!(ins.a, value);
                            }
                            None => strict!(ins),
                        }
                    }
                    Op::GetField => {
                        let name = proto.text(ins.d);
                        let fast = match &r!(ins.b) {
                            // A longer one has its price.
                            Value::Shared(shared) if name.len() < 32 => shared.field(name),
                            _ => None,
                        };
                        match fast {
                            Some(value) => {
                                if ins.b >= locals {
                                    r!(ins.b) = Value::Nothing;
                                }
                                set!(ins.a, value);
                            }
                            None => strict!(ins),
                        }
                    }
                    Op::PutIndex => {
                        let old = match (&r!(ins.a), &r!(ins.b), &r!(ins.c())) {
                            (Value::Shared(shared), Value::Int(i), value) if !value.is_container() => {
                                shared.put_element(*i, copy(value))
                            }
                            _ => None,
                        };
                        match old {
                            Some(old) => {
                                // What was there may be the last of its kind: it goes when nothing is borrowed.
                                drop(old);
                                for r in [ins.a, ins.c()] {
                                    if r >= locals {
                                        set!(r, Value::Nothing);
                                    }
                                }
                            }
                            None => strict!(ins),
                        }
                    }
                    Op::WalkNext => {
                        let a = usize::from(ins.a);
                        let item = match (&regs[a], &regs[a + 1]) {
                            (Value::Shared(shared), Value::Int(at)) => shared.element(*at).map(|v| (*at, v)),
                            _ => None,
                        };
                        match item {
                            Some((at, item)) => {
                                put(&mut regs[a + 1], Value::Int(at + 1));
                                if ins.b == 1 {
                                    put(&mut regs[a + 3], Value::Int(at));
                                    put(&mut regs[a + 4], item);
                                } else {
                                    put(&mut regs[a + 3], item);
                                }
                                fuel -= 1;
                                jump!(ins.d);
                            }
                            None => strict!(ins),
                        }
                    }
                    Op::Clear => {
                        for value in &mut regs[usize::from(ins.a)..=usize::from(ins.b)] {
                            put(value, Value::Nothing);
                        }
                    }
                    Op::CountNext => {
                        let a = usize::from(ins.a);
                        if let Some([Value::Int(at), _, Value::Int(step), Value::Int(more)]) =
                            regs.get_mut(a..a + 4)
                            && *more > 0
                        {
                            let next = at.wrapping_add(*step);
                            *at = next;
                            *more -= 1;
                            set!(ins.b, Value::Int(next));
                            fuel -= 1;
                            jump!(ins.d);
                        }
                    }
                    Op::SpawnTask | Op::Tell | Op::Ask => {
                        outside!(self.concurrent(ins, base, proto));
                    }
                    Op::Denied
                    | Op::Minus
                    | Op::Join
                    | Op::Template
                    | Op::Array
                    | Op::ArrayOf
                    | Op::ArrayPut
                    | Op::Record
                    | Op::RecordPut
                    | Op::RecordPutAt
                    | Op::Tagged
                    | Op::PutField
                    | Op::NewVariable
                    | Op::Capture
                    | Op::CountPrep
                    | Op::WalkPrep
                    | Op::TestTag
                    | Op::TestTagged
                    | Op::TestArray
                    | Op::Element
                    | Op::Rest2
                    | Op::TestRecord
                    | Op::TestField
                    | Op::NoArm => strict!(ins),
                }
            }
        }
    }
}
