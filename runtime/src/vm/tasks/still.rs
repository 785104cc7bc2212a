//! A partition in which nothing happens: what its actors and tasks are then, and how they are made again.

use super::{Actor, Call, Letter, Payload, Ready, State, Task, Tasks, Wakes, as_actor, as_task};
use crate::partition::Core;
use crate::vm::shared::Shared;
use crate::vm::trap::{Fault, Raised, Stop, of_kind};
use crate::vm::value::Value;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::rc::Rc;

/// A message that waits.
pub(crate) struct Mail {
    pub(crate) tag: Rc<str>,
    pub(crate) values: Vec<Value>,
}

/// An actor at rest.
pub(crate) enum Resting {
    /// What handles its messages, what it remembers, and what waits for it.
    Ordinary { handler: Value, state: Value, mail: Vec<Mail>, end: Option<Raised> },
    /// A sandbox, by its name.
    Sandbox(Rc<str>),
}

/// How a task has ended.
pub(crate) enum Gone {
    With(Value),
    Failed(Raised),
    /// Its turn was over before it was.
    Never,
}

/// The counters of a scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) now: i64,
    pub(crate) next: u64,
    pub(crate) tasks: u32,
    pub(crate) actors: u32,
}

impl Tasks {
    /// Forgets what belongs to turns that are over: nothing of it ever goes on.
    pub(crate) fn forget_the_dead(&mut self) {
        let over = |task: &Rc<Shared>| as_task(task).is_some_and(|task| task.turn.over.get());
        self.ready.retain(|ready| match ready {
            Ready::Task(task, _) => !over(task),
            Ready::Actor(_) => true,
        });
        let (mut asks, mut sleeps) = (0, 0);
        self.sort_timers();
        self.timers.retain(|Reverse(timer)| match &timer.wakes {
            Wakes::Ask(call) => {
                let dead = call.asker.borrow().as_ref().is_some_and(over);
                if dead {
                    drop(call.asker.take());
                    asks += 1;
                }
                !dead && timer.is_live()
            }
            Wakes::Sleep(task) => {
                let dead = over(task);
                sleeps += usize::from(dead);
                !dead
            }
        });
        self.stale = 0;
        self.asking -= asks;
        self.sleepers -= sleeps;
        self.joining.retain(|_, task| !over(task));
        self.blocked.retain(|number, (task, actor)| {
            let dead = over(task);
            if dead
                && let Some(shared) = actor.upgrade()
                && let Some(actor) = as_actor(&shared)
            {
                actor.senders.borrow_mut().retain(|(n, _)| n != number);
            }
            !dead
        });
    }

    /// Whether nobody runs and nobody waits; messages may lie in mailboxes.
    pub(crate) fn is_still(&self) -> bool {
        self.waiting() == 0
            && self.sleepers == 0
            && self.current.is_none()
            && self.ready.iter().all(|ready| matches!(ready, Ready::Actor(_)))
    }

    /// Ordinary actors with messages, in the order in which they come.
    pub(crate) fn next_actors(&self) -> Vec<Rc<Shared>> {
        let ready = self.ready.iter().filter_map(|ready| match ready {
            Ready::Actor(actor) => Some(actor.clone()),
            Ready::Task(..) => None,
        });
        ready.filter(|shared| as_actor(shared).is_some_and(|actor| actor.guest.is_none())).collect()
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters { now: self.now, next: self.next, tasks: self.tasks, actors: self.actors }
    }

    pub(crate) fn set_counters(&mut self, to: Counters) {
        (self.now, self.next, self.tasks, self.actors) = (to.now, to.next, to.tasks, to.actors);
    }
}

fn error(fault: &Fault) -> Raised {
    match &**fault {
        Stop::Raised(error) => error.clone(),
        // No actor and no task ends by anything else.
        _ => Raised { message: String::new(), place: None, denied: false, stack: Vec::new(), origin: None },
    }
}

impl Actor {
    /// Its name, if it is a sandbox or was one.
    pub(crate) fn sandbox_name(&self) -> Option<Rc<str>> {
        match &self.guest {
            Some(guest) => Some(guest.name.clone()),
            None => self.lost.borrow().clone(),
        }
    }

    pub(crate) fn resting(&self) -> Resting {
        if let Some(name) = self.sandbox_name() {
            return Resting::Sandbox(name);
        }
        let mailbox = self.mailbox.borrow();
        let mail = mailbox.iter().map(|letter| Mail {
            tag: letter.call.tag.clone(),
            values: match &letter.payload {
                Payload::Values(values) => values.clone(),
                Payload::Data(_) => Vec::new(),
            },
        });
        Resting::Ordinary {
            handler: self.handler.borrow().clone(),
            state: self.state.borrow().clone(),
            mail: mail.collect(),
            end: self.end.borrow().as_ref().map(error),
        }
    }
}

impl Task {
    pub(crate) fn is_joined(&self) -> bool {
        self.joined.get()
    }

    pub(crate) fn gone(&self) -> Gone {
        match &*self.state.borrow() {
            State::Done(value) => Gone::With(value.clone()),
            State::Failed(fault) => Gone::Failed(error(fault)),
            State::New(..) | State::Parked(_) | State::Running => Gone::Never,
        }
    }
}

impl Core {
    /// An actor that is nothing yet.
    pub(crate) fn empty_actor(&mut self, number: u32) -> Rc<Shared> {
        self.bare_actor(number, Value::Nothing, Value::Nothing, None)
    }

    /// Makes an empty actor what it was. Messages stand in its mailbox; it isn't in the queue yet.
    pub(crate) fn fill_actor(
        &mut self,
        shared: &Rc<Shared>,
        number: u32,
        (handler, state): (Value, Value),
        mail: Vec<Mail>,
        end: Option<Raised>,
    ) {
        let Some(actor) = as_actor(shared) else { return };
        actor.number.set(number);
        actor.handler.replace(handler);
        actor.state.replace(state);
        actor.end.replace(end.map(|error| Box::new(Stop::Raised(error))));
        let mut mailbox = actor.mailbox.borrow_mut();
        for Mail { tag, values } in mail {
            let call = Call::new(tag, None, (0, 0));
            mailbox.push_back(Letter { call, payload: Payload::Values(values) });
        }
    }

    /// Lets an actor stand in the queue, if it has messages.
    pub(crate) fn wake_actor(&mut self, shared: &Rc<Shared>) {
        if let Some(actor) = as_actor(shared) {
            self.queue_actor(shared, actor);
        }
    }

    /// In place of a sandbox that was not saved: the same reference, stopped.
    pub(crate) fn lose_sandbox(&mut self, shared: &Rc<Shared>, name: &Rc<str>) {
        let Some(actor) = as_actor(shared) else { return };
        let message = format!("sandbox `{name}` was not saved; load its source again");
        actor.end.replace(Some(of_kind("stopped", message)));
        actor.lost.replace(Some(name.clone()));
    }

    /// A task that has ended.
    pub(crate) fn ended_task(&mut self, number: u32, joined: bool) -> Rc<Shared> {
        let turn = Self::new_turn(None, None);
        turn.over.set(true);
        let task = Shared::task(Task {
            number: Cell::new(number),
            spawned: true,
            place: (0, 0),
            turn,
            state: RefCell::new(State::New(Value::Nothing, Vec::new())),
            joiners: RefCell::default(),
            joined: Cell::new(joined),
        });
        self.known_task(&task);
        task
    }

    pub(crate) fn fill_task(&mut self, shared: &Rc<Shared>, (number, joined): (u32, bool), end: Gone) {
        let Some(task) = as_task(shared) else { return };
        task.number.set(number);
        task.joined.set(joined);
        match end {
            Gone::With(value) => drop(task.state.replace(State::Done(value))),
            Gone::Failed(error) => {
                drop(task.state.replace(State::Failed(Box::new(Stop::Raised(error)))));
            }
            Gone::Never => {}
        }
    }
}
