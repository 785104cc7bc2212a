//! The machine: one thread of a program, its frames and registers.

use super::frame::{Frame, Handler, MAX_FRAMES, Ret};
use super::strict::Step;
use super::trap::{Fault, Stop, raised};
use super::value::{Closure, Value};
use crate::builtins::{Args, CallArgs, Ctx, Next, Resume};
use crate::bytecode::{Proto, WINDOW};
use crate::partition::Core;
use std::rc::Rc;

/// One thread of a program.
pub struct Machine {
    /// The partition's shared part.
    pub core: Core,
    pub(crate) stack: Vec<Value>,
    pub(crate) frames: Vec<Frame>,
    /// How many of them are builtins.
    natives: usize,
    pub(crate) handlers: Vec<Handler>,
    pub(crate) result: Value,
    /// The last instruction waits for another agent.
    pub(crate) waiting: bool,
    /// The register that gets what the running task waits for now, where no builtin waits for it.
    pub(crate) wanted: Option<u8>,
    pub(crate) agents: Vec<super::agents::Agent>,
    /// A scheduled task ended the program, with this code.
    pub(crate) exiting: Option<i32>,
    /// Scheduled tasks that run.
    pub(crate) firings: Vec<super::schedule::Firing>,
}

impl Machine {
    /// A machine for a partition, with nothing to run yet.
    #[must_use]
    pub fn new(core: Core) -> Self {
        Self {
            core,
            stack: Vec::new(),
            frames: Vec::new(),
            natives: 0,
            handlers: Vec::new(),
            result: Value::Nothing,
            waiting: false,
            wanted: None,
            agents: Vec::new(),
            exiting: None,
            firings: Vec::new(),
        }
    }

    /// Runs a function without arguments to its end.
    ///
    /// # Errors
    /// How it stopped.
    pub fn run_function(&mut self, proto: u32) -> Result<Value, Fault> {
        self.start(proto);
        self.run()
    }

    pub(crate) fn start(&mut self, proto: u32) {
        self.room(0);
        self.frames.push(Frame {
            proto,
            pc: 0,
            base: 0,
            layers: self.core.gate.depth() as u16,
            ret: Ret::Top,
            closure: None,
            native: None,
            name: "",
        });
    }

    /// Enters a module's top level; the instruction that wanted the module is executed again behind it.
    pub(super) fn enter_module(&mut self, top: u32, base: usize) -> Result<(), Fault> {
        self.room(base);
        self.frames.push(Frame {
            proto: top,
            pc: 0,
            base: base as u32,
            layers: self.core.gate.depth() as u16,
            ret: Ret::Again,
            closure: None,
            native: None,
            name: "",
        });
        Ok(())
    }

    /// Runs until the first frame's end.
    ///
    /// # Errors
    /// How it stopped.
    pub fn run(&mut self) -> Result<Value, Fault> {
        while self.run_until_wait()? {
            if let Err(fault) = self.pass_time() {
                // No handler catches what ends a wait from outside; the frames must go all the same.
                self.unwind(fault)?;
            }
        }
        Ok(std::mem::take(&mut self.result))
    }

    /// Runs until the first frame's end, or until an agent must be waited for: then `true`.
    pub(crate) fn run_until_wait(&mut self) -> Result<bool, Fault> {
        self.core.bound_work();
        loop {
            self.waiting = false;
            // A builtin that waited is asked again; once it is done its caller goes on.
            let native = !self.core.exact.on && self.frames.last().is_some_and(|f| f.native.is_some());
            let ran = if native { self.drive(None) } else { self.dispatch() };
            if native && ran.is_ok() {
                continue;
            }
            let fault = match ran {
                Err(fault) if *fault == Stop::Wait => {
                    self.core.exact.tasks.waited(fault);
                    return Ok(true);
                }
                Ok(()) if self.waiting => return Ok(true),
                Ok(()) => match self.core.check_limits() {
                    Ok(()) => return Ok(false),
                    Err(fault) => fault,
                },
                // What ended early for want of fuel may have failed in its own way first.
                Err(fault) if !self.core.exact.on && matches!(*fault, Stop::Raised(_)) => {
                    self.core.check_limits().err().unwrap_or(fault)
                }
                Err(fault) => fault,
            };
            match self.unwind(fault) {
                Ok(()) => {}
                Err(fault) if *fault == Stop::Wait => return Ok(true),
                Err(fault) => return Err(fault),
            }
        }
    }

    /// Goes on where a fault or a wait left off; `true`: waiting.
    pub(crate) fn go_on_from(&mut self, fault: Fault) -> Result<bool, Fault> {
        if *fault == Stop::Wait {
            return Ok(true);
        }
        match self.unwind(fault) {
            Ok(()) => self.run_until_wait(),
            Err(fault) if *fault == Stop::Wait => Ok(true),
            Err(fault) => Err(fault),
        }
    }

    /// Makes sure that a window fits from `base` on.
    pub(crate) fn room(&mut self, base: usize) {
        if self.stack.len() < base + 2 * WINDOW {
            self.stack.resize_with((base + 2 * WINDOW).max(self.stack.len() * 2), Value::default);
        }
    }

    // ---- calls that are not plain ----

    /// Calls any value with arguments that stand in the stack from `first` on; `strict` for calls in the source.
    pub(crate) fn call(
        &mut self,
        callee: Value,
        first: usize,
        count: usize,
        ret: Ret,
        strict: bool,
    ) -> Result<(), Fault> {
        if self.core.exact.on {
            return self.settle(Step::Call(callee, first, count, ret));
        }
        match callee {
            Value::Task(task) => self.call_task(&task, first, count, ret, strict),
            Value::Builtin(id) => self.call_builtin(id, first, count, ret, strict),
            other => {
                let result = self.call_other(&other, first, count)?;
                self.clear(first, count);
                self.deliver(ret, result)
            }
        }
    }

    fn call_task(
        &mut self,
        task: &Rc<Closure>,
        first: usize,
        mut count: usize,
        ret: Ret,
        strict: bool,
    ) -> Result<(), Fault> {
        let proto = &task.proto;
        let params = proto.params.len();
        if count == params {
            return self.push_task(task, first, ret);
        }
        self.room(first);
        if count > params {
            if strict {
                return Err(raised(too_many(proto, count)));
            }
            self.clear(first + params, count - params);
            count = params;
        }
        for i in count..params {
            let value = if proto.defaults[i] {
                Value::Unbound
            } else if strict {
                return Err(raised(missing(proto, i)));
            } else {
                Value::Nothing
            };
            self.stack[first + i] = value;
        }
        self.push_task(task, first, ret)
    }

    /// Enters a task whose parameters are all in place.
    pub(crate) fn push_task(&mut self, task: &Rc<Closure>, base: usize, ret: Ret) -> Result<(), Fault> {
        if self.frames.len().saturating_sub(self.natives) >= MAX_FRAMES {
            self.clear(base, task.proto.params.len());
            return Err(raised("maximum recursion depth exceeded"));
        }
        self.core.fuel_used(4);
        self.room(base);
        self.frames.push(Frame {
            proto: task.index,
            pc: 0,
            base: base as u32,
            layers: self.core.gate.depth() as u16,
            ret,
            closure: (!task.captured.is_empty()).then(|| task.clone()),
            native: None,
            name: "",
        });
        Ok(())
    }

    pub(crate) fn clear(&mut self, first: usize, count: usize) {
        let end = (first + count).min(self.stack.len());
        for value in &mut self.stack[first.min(end)..end] {
            *value = Value::Nothing;
        }
    }

    /// The place of the instruction that is being executed.
    pub(crate) fn place(&self) -> (u32, u32) {
        let code = self.frames.iter().rev().find(|f| f.native.is_none() && f.name.is_empty());
        match code {
            Some(frame) => {
                let proto = &self.core.program.protos[frame.proto as usize];
                let at = proto.places.get((frame.pc as usize).saturating_sub(1)).copied().unwrap_or(0);
                (proto.file, at)
            }
            None => (0, 0),
        }
    }

    pub(crate) fn call_builtin(
        &mut self,
        id: u16,
        first: usize,
        count: usize,
        ret: Ret,
        strict: bool,
    ) -> Result<(), Fault> {
        let builtin = crate::builtins::get(id);
        let place = self.place();
        self.room(first);
        let mut count = count;
        if !strict && builtin.positional != 255 && count > usize::from(builtin.positional) {
            self.clear(first + usize::from(builtin.positional), count - usize::from(builtin.positional));
            count = usize::from(builtin.positional);
        }
        let mut args = Args { values: &mut self.stack[first..first + count], name: builtin.name };
        let mut ctx = Ctx { core: &mut self.core, place, name: builtin.name };
        let result = super::steps::enter_builtin(builtin, &mut ctx, &mut args);
        self.clear(first, count);
        match result? {
            super::steps::Entered::Value(value) => self.deliver(ret, value),
            super::steps::Entered::State(state) => {
                self.push_native(state, builtin.name, first, ret)?;
                self.drive(None)
            }
        }
    }

    pub(crate) fn push_native(
        &mut self,
        state: Box<dyn Resume>,
        name: &'static str,
        base: usize,
        ret: Ret,
    ) -> Result<(), Fault> {
        if self.core.exact.on {
            self.check_depth()?;
        } else if self.natives >= MAX_FRAMES {
            return Err(raised("maximum recursion depth exceeded"));
        }
        // In place of code: where the call stands.
        let (file, at) = self.place();
        self.natives += 1;
        self.frames.push(Frame {
            proto: file,
            pc: at,
            base: base as u32,
            layers: self.core.gate.depth() as u16,
            ret,
            closure: None,
            native: Some(state),
            name,
        });
        Ok(())
    }

    /// Goes on with the builtin on top of the frames.
    pub(crate) fn drive(&mut self, last: Option<Value>) -> Result<(), Fault> {
        if self.core.exact.on {
            return self.settle(Step::Resume(last));
        }
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let Some(state) = frame.native.as_mut() else { return Ok(()) };
        let mut ctx = Ctx { core: &mut self.core, place: (frame.proto, frame.pc), name: frame.name };
        ctx.core.bound_work();
        let next = state.resume(&mut ctx, last)?;
        self.advance(next)
    }

    /// Does what the builtin on top wants next. A loop, not a recursion: results may pass through many builtins.
    pub(super) fn advance(&mut self, next: Next) -> Result<(), Fault> {
        if self.core.exact.on {
            return self.settle(Step::Next(next));
        }
        match next {
            Next::Done(value) => {
                let ret = self.pop_native();
                self.deliver(ret, value)
            }
            Next::Call(callee, args) => self.call_back_with(callee, args),
            Next::Again(args) => self.call_back_with(self.last_callee(), args),
        }
    }

    fn call_back_with(&mut self, callee: Value, args: CallArgs) -> Result<(), Fault> {
        let base = self.frames.last().map_or(0, |f| f.base as usize);
        let count = self.place_args(base, args);
        self.call(callee, base, count, Ret::Native, false)
    }

    /// Puts the arguments of a call back into the stack.
    pub(crate) fn place_args(&mut self, base: usize, args: CallArgs) -> usize {
        if self.stack.len() < base + 2 {
            self.room(base);
        }
        let count = usize::from(args.count);
        let [a, b] = args.values;
        if count > 0 {
            self.stack[base] = a;
        }
        if count > 1 {
            self.stack[base + 1] = b;
        }
        count
    }

    pub(crate) fn pop_native(&mut self) -> Ret {
        match self.frames.pop() {
            Some(mut frame) => {
                if let Some(state) = frame.native.as_mut() {
                    self.natives = self.natives.saturating_sub(1);
                    state.leave(&mut self.core);
                }
                frame.ret
            }
            None => Ret::Top,
        }
    }

    /// Hands a result to whoever waits for it.
    pub(crate) fn deliver(&mut self, ret: Ret, value: Value) -> Result<(), Fault> {
        if ret == Ret::Top {
            self.result = value;
            return Ok(());
        }
        if self.core.exact.on {
            return self.settle(Step::Deliver(ret, value));
        }
        let (mut ret, mut value) = (ret, value);
        loop {
            match ret {
                Ret::Reg(r) => {
                    if let Some(frame) = self.frames.last() {
                        let at = frame.base as usize + usize::from(r);
                        self.stack[at] = value;
                    }
                    return Ok(());
                }
                Ret::Again => return Ok(()),
                Ret::Top => {
                    self.result = value;
                    return Ok(());
                }
                Ret::Native => {
                    let Some(frame) = self.frames.last_mut() else { return Ok(()) };
                    let Some(state) = frame.native.as_mut() else { return Ok(()) };
                    let mut ctx =
                        Ctx { core: &mut self.core, place: (frame.proto, frame.pc), name: frame.name };
                    let next = match state.resume(&mut ctx, Some(value))? {
                        Next::Again(args) => Next::Call(state.callee(), args),
                        next => next,
                    };
                    match next {
                        Next::Again(_) => return Ok(()),
                        Next::Done(result) => {
                            ret = self.pop_native();
                            value = result;
                        }
                        Next::Call(callee, args) => {
                            let base = self.frames.last().map_or(0, |f| f.base as usize);
                            let count = self.place_args(base, args);
                            match callee {
                                Value::Builtin(id) => match self.plain_builtin(id, base, count)? {
                                    Some(result) => {
                                        ret = Ret::Native;
                                        value = result;
                                    }
                                    None => return self.call_builtin(id, base, count, Ret::Native, false),
                                },
                                Value::Task(task) => {
                                    return self.call_task(&task, base, count, Ret::Native, false);
                                }
                                other => {
                                    value = self.call_other(&other, base, count)?;
                                    self.clear(base, count);
                                    ret = Ret::Native;
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// Runs a builtin that doesn't call back, without growing the host's stack.
    fn plain_builtin(&mut self, id: u16, first: usize, count: usize) -> Result<Option<Value>, Fault> {
        let builtin = crate::builtins::get(id);
        if !matches!(builtin.run, crate::builtins::Run::Plain(_)) {
            return Ok(None);
        }
        let place = self.place();
        let count =
            if builtin.positional == 255 { count } else { count.min(usize::from(builtin.positional)) };
        let mut args = Args { values: &mut self.stack[first..first + count], name: builtin.name };
        let mut ctx = Ctx { core: &mut self.core, place, name: builtin.name };
        let result = super::steps::enter_builtin(builtin, &mut ctx, &mut args);
        self.clear(first, 3);
        match result? {
            super::steps::Entered::Value(value) => Ok(Some(value)),
            super::steps::Entered::State(_) => Ok(None),
        }
    }
}

pub(crate) fn too_many(proto: &Proto, got: usize) -> String {
    let takes = proto.params.len();
    format!(
        "task '{}' takes {takes} {}, got {got}",
        proto.name.as_deref().unwrap_or("<lambda>"),
        if takes == 1 { "argument" } else { "arguments" }
    )
}

pub(crate) fn missing(proto: &Proto, i: usize) -> String {
    format!(
        "task '{}' is missing argument '{}' — pass it, or give the parameter a default",
        proto.name.as_deref().unwrap_or("<lambda>"),
        proto.params[i]
    )
}
