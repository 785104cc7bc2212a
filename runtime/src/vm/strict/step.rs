//! Between instructions: calls, returns, and builtins that call back or wait, without native stack.

use super::calls::{arity, callable, host_arity};
use super::{host_index, type_name};
use crate::builtins::{Args, CallArgs, Ctx, Next};
use crate::bytecode::{NOWHERE, Op, Proto};
use crate::partition::Core;
use crate::vm::frame::{Frame, Ret};
use crate::vm::machine::Machine;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Closure, Value};
use std::rc::Rc;

/// What is to be done next between instructions.
pub(crate) enum Step {
    Call(Value, usize, usize, Ret),
    Deliver(Ret, Value),
    Resume(Option<Value>),
    Next(Next),
}

impl Machine {
    /// Goes on until there is code to execute. A loop: builtins that call builtins need no native stack.
    pub(crate) fn settle(&mut self, step: Step) -> Result<(), Fault> {
        let mut step = step;
        loop {
            step = match step {
                Step::Call(Value::Task(task), first, count, ret) => {
                    let closure = (!task.captured.is_empty()).then(|| task.clone());
                    return self.enter_function(&task.proto, closure, first, count, ret);
                }
                Step::Call(Value::Builtin(id), first, count, ret) => {
                    self.enter_builtin(id, first, count, ret)?
                }
                Step::Call(other, ..) => {
                    return Err(raised(format!("{} can't be called", type_name(&other))));
                }
                Step::Deliver(Ret::Reg(r), value) => {
                    if r != NOWHERE
                        && let Some(frame) = self.frames.last()
                    {
                        let at = frame.base as usize + usize::from(r);
                        self.stack[at] = value;
                    }
                    return Ok(());
                }
                Step::Deliver(Ret::Again, _) => return Ok(()),
                Step::Deliver(Ret::Top, value) => {
                    self.result = value;
                    return Ok(());
                }
                Step::Deliver(Ret::Native, value) => Step::Resume(Some(value)),
                Step::Resume(last) => {
                    let Some(frame) = self.frames.last_mut() else { return Ok(()) };
                    let Some(state) = frame.native.as_mut() else { return Ok(()) };
                    let place = (frame.proto, frame.pc);
                    let mut ctx = Ctx { core: &mut self.core, place, name: frame.name };
                    let next = state.resume(&mut ctx, last)?;
                    self.wanted(next)
                }
                Step::Next(next) => self.wanted(next),
            };
        }
    }

    /// Gives the builtin below the last frame the result of that frame's function, whose bytes have been given back. Most
    /// often it calls the same again: then the frame stays.
    pub(crate) fn called(&mut self, result: Value) -> Result<(), Fault> {
        let next = self.called_again(result);
        if matches!(next, Ok(None)) {
            return Ok(());
        }
        self.frames.truncate(self.frames.len().saturating_sub(1));
        match next? {
            Some(Next::Call(Value::Task(task), args)) => {
                let base = self.frames.last().map_or(0, |frame| frame.base as usize);
                let count = self.place_args(base, args);
                let closure = (!task.captured.is_empty()).then(|| task.clone());
                self.enter_function(&task.proto, closure, base, count, Ret::Native)
            }
            Some(next) => self.settle(Step::Next(next)),
            None => Ok(()),
        }
    }

    /// What the builtin wants, or `None` if the frame on top has begun again.
    fn called_again(&mut self, result: Value) -> Result<Option<Next>, Fault> {
        let [.., below, top] = &mut self.frames[..] else { return Ok(None) };
        let Some(state) = below.native.as_mut() else { return Ok(None) };
        let mut ctx = Ctx { core: &mut self.core, place: (below.proto, below.pc), name: below.name };
        let args = match state.resume(&mut ctx, Some(result))? {
            Next::Again(args) => args,
            next => return Ok(Some(next)),
        };
        let proto = &self.core.program.protos[top.proto as usize];
        let (entry, bytes) = (u64::from(proto.entry), proto.frame_bytes);
        self.core.charge(entry)?;
        self.core.enter_frame(bytes)?;
        top.pc = 0;
        let [a, b] = args.values;
        let base = top.base as usize;
        self.stack[base] = a;
        if args.count > 1 {
            self.stack[base + 1] = b;
        }
        Ok(None)
    }

    /// What the builtin on top wants.
    #[inline]
    fn wanted(&mut self, next: Next) -> Step {
        match next {
            Next::Done(value) => Step::Deliver(self.pop_native(), value),
            Next::Call(callee, args) => self.call_back(callee, args),
            Next::Again(args) => self.call_back(self.last_callee(), args),
        }
    }

    fn call_back(&mut self, callee: Value, args: CallArgs) -> Step {
        let base = self.frames.last().map_or(0, |f| f.base as usize);
        let count = self.place_args(base, args);
        Step::Call(callee, base, count, Ret::Native)
    }

    /// What the builtin on top has called last.
    pub(crate) fn last_callee(&self) -> Value {
        let native = self.frames.last().and_then(|frame| frame.native.as_ref());
        native.map_or(Value::Nothing, |state| state.callee())
    }

    /// Enters a function of the program.
    pub(crate) fn enter_function(
        &mut self,
        proto: &Proto,
        closure: Option<Rc<Closure>>,
        first: usize,
        count: usize,
        ret: Ret,
    ) -> Result<(), Fault> {
        if proto.params.len() != count {
            return Err(arity(proto, count));
        }
        self.check_depth()?;
        self.core.charge(u64::from(proto.entry))?;
        self.core.enter_frame(proto.frame_bytes)?;
        self.room(first);
        self.frames.push(Frame {
            proto: proto.index,
            pc: 0,
            base: first as u32,
            layers: 0,
            ret,
            closure,
            native: None,
            name: "",
        });
        Ok(())
    }

    pub(crate) fn check_depth(&self) -> Result<(), Fault> {
        let most = self.core.exact.terms.calls;
        if self.frames.len() >= most {
            return Err(raised(format!("call depth limit reached ({most})")));
        }
        Ok(())
    }

    fn enter_builtin(&mut self, id: u16, first: usize, count: usize, ret: Ret) -> Result<Step, Fault> {
        self.room(first);
        if let Some(index) = host_index(id) {
            let args: Vec<Value> = self.stack[first..first + count].iter_mut().map(std::mem::take).collect();
            let value = call_host(&mut self.core, index, &args)?;
            return Ok(Step::Deliver(ret, value));
        }
        let builtin = crate::builtins::get(id);
        let place = self.place();
        let mut args = Args { values: &mut self.stack[first..first + count], name: builtin.name };
        let mut ctx = Ctx { core: &mut self.core, place, name: builtin.name };
        let result = crate::vm::steps::enter_builtin(builtin, &mut ctx, &mut args);
        self.clear(first, count);
        match result? {
            crate::vm::steps::Entered::Value(value) => Ok(Step::Deliver(ret, value)),
            crate::vm::steps::Entered::State(state) => {
                self.push_native(state, builtin.name, first, ret)?;
                Ok(Step::Resume(None))
            }
        }
    }
}

/// Calls a function of the host: data in, data out, its declared cost.
fn call_host(core: &mut Core, index: usize, args: &[Value]) -> Result<Value, Fault> {
    host_arity(core, index, args.len())?;
    let hosts = core.exact.hosts.clone();
    let Some(host) = hosts.get(index) else { return Ok(Value::Nothing) };
    core.charge(2 + host.cost.0)?;
    let depth = core.exact.terms.depth;
    let mut all = Vec::with_capacity(args.len());
    let mut bytes = 0;
    for (i, arg) in args.iter().enumerate() {
        let data = core.export(arg, &format!("argument {} of `{}`", i + 1, host.name), depth)?;
        bytes += data.bytes() as u64;
        all.push(data);
    }
    core.charge(host.cost.1.saturating_mul(bytes))?;
    core.check_limits()?;
    let result = (host.run)(&all).map_err(raised)?;
    core.charge(result.work())?;
    core.import(&result)
}

impl Machine {
    /// Enters a builtin that calls back or waits.
    pub(crate) fn enter_state(
        &mut self,
        state: Box<dyn crate::builtins::Resume>,
        name: &'static str,
        base: usize,
        ret: Ret,
    ) -> Result<(), Fault> {
        self.push_native(state, name, base, ret)?;
        self.settle(Step::Resume(None))
    }

    /// `spawn`, `tell` and `ask`.
    pub(crate) fn concurrent(
        &mut self,
        ins: crate::bytecode::Ins,
        base: usize,
        proto: &Proto,
    ) -> Result<(), Fault> {
        let first = base + usize::from(ins.a);
        let count = usize::from(ins.b);
        let receiver = std::mem::take(&mut self.stack[first]);
        let args: Vec<Value> =
            self.stack[first + 1..first + 1 + count].iter_mut().map(std::mem::take).collect();
        if ins.op == Op::SpawnTask {
            callable(&self.core, &receiver, count)?;
            let place = self.place();
            let task = self.core.spawn_task(receiver, args, place)?;
            self.stack[first] = task;
            return Ok(());
        }
        let timeout = (ins.op == Op::Ask).then(|| std::mem::take(&mut self.stack[first + 1 + count]));
        let tag = match proto.consts.get(ins.d as usize) {
            Some(crate::bytecode::Const::Value(value)) => value.as_tagged().map(|(tag, _)| tag.clone()),
            _ => None,
        };
        let tag = tag.unwrap_or_else(|| "".into());
        let place = self.place();
        if self.core.send(&receiver, &tag, args, timeout.as_ref(), place)? {
            // It counts as a call of a builtin, which needs no frame of its own to wait.
            self.check_depth()?;
            self.wanted = Some(ins.a);
            return Err(self.core.exact.tasks.wait());
        }
        Ok(())
    }
}
