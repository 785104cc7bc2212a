//! Actors and what is sent to them: mailboxes, senders that wait for room, replies, ends.

use super::{Actor, Call, DEFAULT_TIMEOUT, Guest, Letter, MAILBOX, Payload, Ready, Wakes};
use crate::partition::Core;
use crate::partition::boundary::Data;
use crate::partition::sandbox::{Failure, Sandbox};
use crate::vm::shared::Shared;
use crate::vm::strict;
use crate::vm::trap::{Elsewhere, Fault, Origin, Stop, of_kind, raised};
use crate::vm::value::Value;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

impl Core {
    /// `actor(handler, state)`.
    pub(crate) fn new_actor(&mut self, handler: Value, state: Value) -> Value {
        self.exact.tasks.actors += 1;
        let number = self.exact.tasks.actors;
        self.make_actor(number, handler, state, None)
    }

    fn make_actor(&mut self, number: u32, handler: Value, state: Value, guest: Option<Guest>) -> Value {
        Value::Shared(self.bare_actor(number, handler, state, guest))
    }

    pub(super) fn bare_actor(
        &mut self,
        number: u32,
        handler: Value,
        state: Value,
        guest: Option<Guest>,
    ) -> Rc<Shared> {
        let actor = Shared::actor(Actor {
            number: Cell::new(number),
            handler: RefCell::new(handler),
            state: RefCell::new(state),
            mailbox: RefCell::default(),
            senders: RefCell::default(),
            busy: Cell::new(false),
            queued: Cell::new(false),
            end: RefCell::default(),
            guest,
            lost: RefCell::default(),
        });
        self.known_task(&actor);
        actor
    }

    /// A reference to a sandbox.
    pub(crate) fn new_guest(&mut self, sandbox: Box<Sandbox>) -> Value {
        let guest = Guest {
            name: sandbox.name(),
            limits: (sandbox.depth(), sandbox.memory()),
            sandbox: RefCell::new(Some(sandbox)),
            failure: RefCell::default(),
            waiting: Cell::new(0),
            alive: self.exact.tasks.sandboxes.clone(),
        };
        self.make_actor(0, Value::Nothing, Value::Nothing, Some(guest))
    }

    /// `self()`.
    pub(crate) fn current_actor(&self) -> Option<Value> {
        self.exact.tasks.turn()?.actor.clone().map(Value::Shared)
    }

    /// `reply(v)`.
    pub(crate) fn reply(&mut self, value: &Value) -> Result<(), Fault> {
        let turn = self.exact.tasks.turn();
        let Some(call) = turn.and_then(|turn| turn.call.clone()) else {
            return Err(raised("`reply` answers a message, and none is being handled"));
        };
        if call.replied.get() {
            return Err(raised("this message already has its reply"));
        }
        if self.exact.terms.sandbox {
            let depth = self.exact.terms.depth;
            let data = self.export(value, "the reply", depth)?;
            self.exact.tasks.outbox = Some(data);
        } else {
            let copy = self.copy(value, "the reply")?;
            self.answer(&call, Ok(copy));
        }
        call.replied.set(true);
        Ok(())
    }

    /// `tell` (without a timeout) and `ask`. Gives whether the sender must wait.
    pub(crate) fn send(
        &mut self,
        receiver: &Value,
        tag: &Rc<str>,
        mut args: Vec<Value>,
        timeout: Option<&Value>,
        place: (u32, u32),
    ) -> Result<bool, Fault> {
        let asks = timeout.is_some();
        let (Value::Shared(shared), Some(actor)) = (receiver, receiver.as_actor()) else {
            return Err(raised(format!(
                "`{}` needs an actor reference, got {}",
                if asks { "ask" } else { "tell" },
                strict::type_name(receiver)
            )));
        };
        let payload = match &actor.guest {
            Some(guest) => {
                let depth = guest.limits.0;
                let mut all = Vec::with_capacity(args.len());
                for (i, arg) in args.iter().enumerate() {
                    all.push(self.export(
                        arg,
                        &format!("argument {} of `{}`", i + 1, strict::cut(tag)),
                        depth,
                    )?);
                }
                Payload::Data(all)
            }
            None => {
                for (i, arg) in args.iter_mut().enumerate() {
                    if arg.is_container() {
                        *arg = self.copy(arg, &format!("argument {} of `{}`", i + 1, strict::cut(tag)))?;
                    } else {
                        self.charge(1)?;
                    }
                }
                Payload::Values(args)
            }
        };
        let timeout = match timeout {
            None => 0,
            Some(Value::Unbound) => DEFAULT_TIMEOUT,
            Some(Value::Int(n)) if *n >= 0 => *n,
            Some(Value::Int(n)) => {
                return Err(raised(format!("`timeout` is an int of milliseconds, got {n}")));
            }
            Some(other) => {
                return Err(raised(format!(
                    "`timeout` is an int of milliseconds, got {}",
                    strict::type_name(other)
                )));
            }
        };
        if let Some(end) = &*actor.end.borrow() {
            return if asks { Err(end.clone()) } else { Ok(false) };
        }
        let Some(current) = self.exact.tasks.current.clone() else { return Ok(false) };
        let call = Call::new(tag.clone(), asks.then(|| (current.clone(), timeout)), place);
        if asks {
            self.exact.tasks.asking += 1;
            self.exact.tasks.set_timer(timeout, Wakes::Ask(call.clone()));
        }
        let letter = Letter { call, payload };
        if actor.mailbox.borrow().len() < MAILBOX
            && actor.senders.borrow().is_empty()
            && has_room(actor, &letter)
        {
            self.deliver_letter(shared, actor, letter);
            self.count_sandboxes()?;
            return Ok(asks);
        }
        let number = self.exact.tasks.number();
        actor.senders.borrow_mut().push_back((number, letter));
        self.exact.tasks.blocked.insert(number, (current, Rc::downgrade(shared)));
        Ok(true)
    }

    fn deliver_letter(&mut self, shared: &Rc<Shared>, actor: &Actor, letter: Letter) {
        if let (Some(guest), Payload::Data(all)) = (&actor.guest, &letter.payload) {
            guest.brought(bytes(all));
        }
        actor.mailbox.borrow_mut().push_back(letter);
        self.queue_actor(shared, actor);
    }

    pub(super) fn queue_actor(&mut self, shared: &Rc<Shared>, actor: &Actor) {
        if !actor.busy.get() && !actor.queued.get() && !actor.mailbox.borrow().is_empty() {
            actor.queued.set(true);
            self.exact.tasks.ready.push_back(Ready::Actor(shared.clone()));
        }
    }

    /// Lets senders in whose message has room now.
    pub(super) fn admit(&mut self, shared: &Rc<Shared>, actor: &Actor) {
        loop {
            let letter = {
                let mut senders = actor.senders.borrow_mut();
                match senders.front() {
                    Some((_, letter))
                        if actor.mailbox.borrow().len() < MAILBOX && has_room(actor, letter) =>
                    {
                        senders.pop_front()
                    }
                    _ => None,
                }
            };
            let Some((number, letter)) = letter else { return };
            let asks = letter.call.asks();
            self.deliver_letter(shared, actor, letter);
            if let Some((task, _)) = self.exact.tasks.blocked.remove(&number)
                && !asks
            {
                self.wake(task, Ok(Value::Nothing));
            }
        }
    }

    /// An actor's end: whoever asks gets the fault, messages are gone.
    pub(super) fn end_actor(&mut self, actor: &Actor, fault: &Fault) {
        actor.end.replace(Some(fault.clone()));
        let mut letters: Vec<Letter> = actor.mailbox.take().into_iter().collect();
        for (number, letter) in actor.senders.take() {
            if let Some((task, _)) = self.exact.tasks.blocked.remove(&number)
                && !letter.call.asks()
            {
                self.wake(task, Ok(Value::Nothing));
            }
            letters.push(letter);
        }
        if let Some(guest) = &actor.guest {
            guest.taken(guest.waiting.get());
        }
        for letter in letters {
            self.answer(&letter.call, Err(fault.clone()));
        }
        drop(actor.handler.take());
        drop(actor.state.take());
    }

    /// `sandbox.stop`: what the sandbox had failed with, if it had.
    pub(crate) fn stop_guest(&mut self, value: &Value) -> Option<Option<Failure>> {
        let actor = value.as_actor()?;
        if actor.lost.borrow().is_some() {
            return Some(None);
        }
        let guest = actor.guest.as_ref()?;
        if let Some(failure) = &*guest.failure.borrow() {
            return Some(Some(failure.clone()));
        }
        drop(guest.sandbox.take());
        if actor.end.borrow().is_none() {
            let fault = of_kind("stopped", format!("sandbox `{}` is stopped", guest.name));
            self.end_actor(actor, &fault);
        }
        Some(None)
    }
}

/// Bytes of a message by the table.
pub(super) fn bytes(all: &[Data]) -> usize {
    all.iter().map(Data::bytes).sum()
}

/// Whether a message fits into a sandbox's budget; one too large even alone waits for nothing.
fn has_room(actor: &Actor, letter: &Letter) -> bool {
    match (&actor.guest, &letter.payload) {
        (Some(guest), Payload::Data(all)) => {
            let waiting = guest.waiting.get();
            waiting == 0 || i64::try_from(waiting + bytes(all)).unwrap_or(i64::MAX) <= guest.limits.1
        }
        _ => true,
    }
}

impl Core {
    /// A fault of an ordinary actor, for others: it keeps its line.
    pub(super) fn of_actor(&self, mut fault: Fault, number: u32) -> Fault {
        if let Stop::Raised(error) = &mut *fault {
            let described = strict::describe(self, error);
            if error.origin.as_ref().is_none_or(|origin| origin.elsewhere.is_none()) {
                let elsewhere =
                    Some(Elsewhere { name: described.name, line: described.line, actor: Some(number) });
                error.origin = Some(Box::new(Origin { kind: described.kind, elsewhere }));
            } else if error
                .origin
                .as_ref()
                .and_then(|o| o.elsewhere.as_ref())
                .is_some_and(|e| e.actor.is_none())
            {
                error.place = None;
            }
        }
        fault
    }
}
