//! Turns: the scheduler takes what is ready, in order, until nothing is and nothing can come.

use super::actors::bytes;
use super::{Call, MANY, Payload, Ready, State, Strand, Task, Turn, as_actor, as_task, stacks};
use crate::partition::Core;
use crate::vm::frame::{Frame, Ret};
use crate::vm::machine::Machine;
use crate::vm::shared::Shared;
use crate::vm::strict;
use crate::vm::trap::{Fault, Raised, Stop};
use crate::vm::value::Value;
use std::rc::Rc;

/// How the scheduler's run ended.
pub(crate) enum Ended {
    /// Everything is done.
    Done(Value),
    /// A limit, an exit, or a fault that nobody caught.
    Stopped(Fault),
}

impl Machine {
    /// Runs a function as a turn of its own, and everything that follows from it.
    pub(crate) fn run_turn(&mut self, callee: Value, args: Vec<Value>, place: (u32, u32)) -> Ended {
        self.turn(callee, args, None, place)
    }

    /// Runs a message's handler as a turn.
    pub(crate) fn run_message(
        &mut self,
        callee: Value,
        args: Vec<Value>,
        tag: Rc<str>,
        place: (u32, u32),
    ) -> Ended {
        self.turn(callee, args, Some(Call::new(tag, None, place)), place)
    }

    /// Handles the messages that wait, if there are any.
    pub(crate) fn run_rest(&mut self) -> Result<(), Fault> {
        let nobody = Core::new_turn(None, None);
        let outcome = self.schedule(&nobody);
        self.core.exact.tasks.current = None;
        outcome
    }

    fn turn(&mut self, callee: Value, args: Vec<Value>, call: Option<Rc<Call>>, place: (u32, u32)) -> Ended {
        let turn = Core::new_turn(call, None);
        let task = self.core.make_task(callee, args, turn.clone(), false, place);
        self.core.exact.tasks.ready.push_back(Ready::Task(task, None));
        let outcome = self.schedule(&turn);
        self.core.exact.tasks.current = None;
        match outcome {
            Ok(()) => Ended::Done(turn.result.take()),
            Err(fault) => Ended::Stopped(fault),
        }
    }

    fn schedule(&mut self, first: &Rc<Turn>) -> Result<(), Fault> {
        loop {
            match self.core.exact.tasks.ready.pop_front() {
                Some(Ready::Task(task, with)) => self.step(task, with, first)?,
                Some(Ready::Actor(actor)) => self.handle(&actor)?,
                None => {
                    if !self.idle()? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Runs a task until it ends or waits.
    fn step(
        &mut self,
        shared: Rc<Shared>,
        with: Option<Result<Value, Fault>>,
        first: &Rc<Turn>,
    ) -> Result<(), Fault> {
        let Some(task) = as_task(&shared) else { return Ok(()) };
        if task.turn.over.get() {
            drop(task.take_children());
            return Ok(());
        }
        self.core.exact.tasks.current = Some(shared.clone());
        let outcome: Result<(), Fault>;
        match task.state.replace(State::Running) {
            State::New(callee, args) => {
                outcome = self.begin(callee, args, task.place);
            }
            State::Parked(strand) => {
                self.stack = strand.stack;
                let frames = std::mem::replace(&mut self.frames, strand.frames);
                self.core.exact.tasks.spare_frames(frames);
                self.handlers = strand.handlers;
                if let Some(frame) = self.frames.last() {
                    let base = frame.base as usize;
                    self.room(base);
                }
                outcome = match (with, strand.wanted) {
                    (Some(Ok(value)), Some(register)) => {
                        self.put_at(register, value);
                        Ok(())
                    }
                    (Some(Ok(value)), None) => self.drive(Some(value)),
                    (Some(Err(fault)), _) => Err(fault),
                    (None, _) => Ok(()),
                };
            }
            other => {
                task.state.replace(other);
                return Ok(());
            }
        }
        self.go_on(shared, outcome, Some(first))
    }

    /// Runs the current task, whose frames are in place, until it ends or waits.
    fn go_on(
        &mut self,
        shared: Rc<Shared>,
        outcome: Result<(), Fault>,
        first: Option<&Rc<Turn>>,
    ) -> Result<(), Fault> {
        let Some(task) = as_task(&shared) else { return Ok(()) };
        let outcome = match outcome {
            Ok(()) => self.run_until_wait(),
            Err(fault) => self.go_on_from(fault),
        };
        match outcome {
            Ok(true) => {
                let frames = self.core.exact.tasks.spare_frames.pop().unwrap_or_default();
                let mut strand = Strand {
                    stack: std::mem::take(&mut self.stack),
                    frames: std::mem::replace(&mut self.frames, frames),
                    handlers: std::mem::take(&mut self.handlers),
                    wanted: self.wanted.take(),
                };
                if self.core.exact.tasks.parked() > MANY {
                    let used = strand.frames.last().map_or(0, |frame| self.used_to(frame));
                    strand.stack.truncate(used);
                    strand.stack.shrink_to_fit();
                    strand.frames.shrink_to_fit();
                }
                task.state.replace(State::Parked(strand));
                Ok(())
            }
            Ok(false) => {
                let value = std::mem::take(&mut self.result);
                self.keep_stack();
                self.ended(&shared, task, Ok(value), first)?;
                drop(self.core.exact.tasks.current.take());
                self.core.recycle(shared);
                Ok(())
            }
            Err(fault) => {
                self.keep_stack();
                match *fault {
                    Stop::Raised(_) => self.ended(&shared, task, Err(fault), first),
                    _ => Err(fault),
                }
            }
        }
    }

    /// Registers up to the end of a frame's own, or of the arguments of a builtin that waits.
    fn used_to(&self, frame: &Frame) -> usize {
        let own = match &frame.native {
            Some(_) => 0,
            None => {
                self.core.program.protos.get(frame.proto as usize).map_or(0, |p| usize::from(p.registers))
            }
        };
        frame.base as usize + own + 8
    }

    /// Gives the last frame what it has waited for.
    fn put_at(&mut self, register: u8, value: Value) {
        if let Some(frame) = self.frames.last() {
            let at = frame.base as usize + usize::from(register);
            self.stack[at] = value;
        }
    }

    fn keep_stack(&mut self) {
        let stack = std::mem::take(&mut self.stack);
        if stack.len() <= 4096 && self.core.exact.tasks.spare.len() < 4 {
            self.core.exact.tasks.spare.push(stack);
        }
        self.frames.clear();
        self.handlers.clear();
    }

    /// The first call of a task; its fuel runs out at the `spawn`, or at the function of an entry.
    fn begin(
        &mut self,
        callee: Value,
        args: impl IntoIterator<Item = Value>,
        place: (u32, u32),
    ) -> Result<(), Fault> {
        self.stack = self.core.exact.tasks.spare.pop().unwrap_or_else(stacks::take);
        self.room(0);
        let mut count = 0;
        for arg in args {
            self.stack[count] = arg;
            count += 1;
        }
        let result = match callee {
            Value::Task(task) => {
                let closure = (!task.captured.is_empty()).then(|| task.clone());
                self.enter_function(&task.proto, closure, 0, count, Ret::Top)
            }
            other => self.call(other, 0, count, Ret::Top, true),
        };
        if result.is_err() && self.frames.is_empty() {
            self.core.exact.stopped = place;
            return result.map_err(|mut fault| {
                if let Stop::Raised(error) = &mut *fault
                    && error.place.is_none()
                {
                    error.place = Some(place);
                }
                fault
            });
        }
        result
    }

    /// A task has ended; its turn may be over.
    fn ended(
        &mut self,
        shared: &Rc<Shared>,
        task: &Task,
        result: Result<Value, Fault>,
        first: Option<&Rc<Turn>>,
    ) -> Result<(), Fault> {
        let turn = task.turn.clone();
        turn.open.set(turn.open.get() - 1);
        let joiners = task.joiners.take();
        for (number, joiner) in joiners {
            self.core.exact.tasks.joining.remove(&number);
            self.core.wake(joiner, result.clone());
        }
        let mut over = None;
        match result {
            Ok(value) if task.spawned => {
                task.state.replace(State::Done(value));
            }
            Ok(value) => {
                turn.result.replace(value);
                task.state.replace(State::Done(Value::Nothing));
            }
            Err(fault) => {
                if task.spawned {
                    if !task.joined.get() {
                        turn.faults.borrow_mut().push((Rc::downgrade(shared), fault.clone()));
                    }
                } else {
                    over = Some(fault.clone());
                }
                task.state.replace(State::Failed(fault));
            }
        }
        if over.is_none() && turn.open.get() == 0 {
            let unjoined = turn.faults.take().into_iter().find(|(task, _)| {
                task.upgrade().and_then(|shared| as_task(&shared).map(|t| !t.joined.get())).unwrap_or(true)
            });
            return self.end_turn(&turn, unjoined.map(|(_, fault)| fault), first);
        }
        match over {
            Some(fault) => self.end_turn(&turn, Some(fault), first),
            None => Ok(()),
        }
    }

    fn end_turn(
        &mut self,
        turn: &Rc<Turn>,
        fault: Option<Fault>,
        first: Option<&Rc<Turn>>,
    ) -> Result<(), Fault> {
        turn.over.set(true);
        let Some(shared) = turn.actor.clone() else {
            // The first turn of the run: its fault is the run's.
            return match fault {
                Some(fault) if first.is_some_and(|first| Rc::ptr_eq(turn, first)) => Err(fault),
                _ => Ok(()),
            };
        };
        let Some(actor) = as_actor(&shared) else { return Ok(()) };
        actor.busy.set(false);
        let fault = match fault {
            Some(fault) => Some(fault),
            None => {
                let result = turn.result.take();
                match self.core.copy(&result, "the next state") {
                    Ok(state) => {
                        drop(actor.state.replace(state));
                        None
                    }
                    Err(mut fault) => {
                        let returned = self.core.exact.returned;
                        match &mut *fault {
                            Stop::Raised(error) => error.place = Some(returned),
                            _ => {
                                self.core.exact.stopped = returned;
                                return Err(fault);
                            }
                        }
                        Some(fault)
                    }
                }
            }
        };
        let Some(fault) = fault else {
            self.core.queue_actor(&shared, actor);
            return Ok(());
        };
        // To whoever asked, what a sandbox did is told at the asking line; where nobody waits, the actor's own is the outermost.
        let own = match &*fault {
            Stop::Raised(error) => error.place,
            _ => None,
        };
        let fault = self.core.of_actor(fault, actor.number.get());
        let told = turn.call.as_ref().is_some_and(|call| self.core.answer(call, Err(fault.clone())));
        self.core.end_actor(actor, &fault);
        if !told {
            self.core.exact.tasks.complaints = true;
            if let Stop::Raised(error) = &*fault {
                let error = Raised { place: error.place.or(own), ..error.clone() };
                let line = strict::shown(&self.core, &error, Some(actor.number.get()));
                self.core.host.flush();
                self.core.host.eprint(&line);
            }
        }
        Ok(())
    }

    /// An actor's next message.
    fn handle(&mut self, shared: &Rc<Shared>) -> Result<(), Fault> {
        let Some(actor) = as_actor(shared) else { return Ok(()) };
        actor.queued.set(false);
        let Some(letter) = actor.mailbox.borrow_mut().pop_front() else { return Ok(()) };
        match (&actor.guest, letter.payload) {
            (Some(guest), Payload::Data(all)) => {
                guest.taken(bytes(&all));
                let Some(mut sandbox) = guest.sandbox.take() else { return Ok(()) };
                // What it uses beyond the program's own limits ends the program there.
                self.core.exact.stopped = letter.call.place;
                let outcome = sandbox.handle(&mut self.core, &letter.call.tag, all)?;
                if let Some(data) = outcome.reply
                    && letter.call.asks()
                {
                    let value = self.core.import(&data)?;
                    self.core.answer(&letter.call, Ok(value));
                }
                match outcome.failure {
                    None => {
                        guest.sandbox.replace(Some(sandbox));
                        self.core.admit(shared, actor);
                        self.core.queue_actor(shared, actor);
                    }
                    Some(failure) => {
                        drop(sandbox);
                        let fault = failure.fault();
                        guest.failure.replace(Some(failure));
                        self.core.answer(&letter.call, Err(fault.clone()));
                        self.core.end_actor(actor, &fault);
                    }
                }
                Ok(())
            }
            (_, Payload::Values(all)) => {
                self.core.admit(shared, actor);
                actor.busy.set(true);
                let payload = self.core.array(all)?;
                let message = self.core.tagged(&letter.call.tag, payload)?;
                let handler = actor.handler.borrow().clone();
                let state = actor.state.borrow().clone();
                let place = strict::function_place(&handler);
                let task = self.core.handler_task(letter.call, shared.clone(), place);
                self.core.exact.tasks.current = Some(task.clone());
                let outcome = self.begin(handler, [state, message], place);
                self.go_on(task, outcome, None)
            }
            (None, Payload::Data(_)) => Ok(()),
        }
    }
}
