//! Waiting: for a task, for a turn in the queue, for time. What waits is woken by whoever it waits for.

use super::{Call, Ready, State, Wakes, as_actor, as_task};
use crate::partition::Core;
use crate::vm::machine::Machine;
use crate::vm::shared::Shared;
use crate::vm::strict;
use crate::vm::trap::{Fault, of_kind, raised};
use crate::vm::value::Value;
use std::cmp::Reverse;
use std::rc::Rc;

impl Core {
    pub(super) fn wake(&mut self, task: Rc<Shared>, with: Result<Value, Fault>) {
        self.exact.tasks.ready.push_back(Ready::Task(task, Some(with)));
    }

    // ---- waiting ----

    /// `join`: `None` if the task must wait.
    pub(crate) fn join_task(&mut self, value: &Value) -> Result<Option<Value>, Fault> {
        let Some(task) = value.as_task() else {
            return Err(raised(format!("`join` needs a task, got {}", strict::type_name(value))));
        };
        task.joined.set(true);
        match &*task.state.borrow() {
            State::Done(value) => return Ok(Some(value.clone())),
            State::Failed(fault) => return Err(fault.clone()),
            _ => {}
        }
        let Some(current) = self.exact.tasks.current.clone() else { return Ok(Some(Value::Nothing)) };
        let number = self.exact.tasks.number();
        task.joiners.borrow_mut().push((number, current.clone()));
        self.exact.tasks.joining.insert(number, current);
        Ok(None)
    }

    /// `pause`.
    pub(crate) fn pause(&mut self) {
        if let Some(current) = self.exact.tasks.current.clone() {
            self.wake(current, Ok(Value::Nothing));
        }
    }

    /// `clock.sleep`.
    pub(crate) fn sleep_task(&mut self, ms: i64) {
        let Some(current) = self.exact.tasks.current.clone() else { return };
        self.exact.tasks.sleepers += 1;
        self.exact.tasks.set_timer(ms, Wakes::Sleep(current));
    }

    /// Answers whoever waits for a message's reply; `false`: nobody, or not any longer.
    pub(super) fn answer(&mut self, call: &Call, with: Result<Value, Fault>) -> bool {
        let Some(task) = call.asker.take() else { return false };
        self.exact.tasks.answered(call);
        self.wake(task, with);
        true
    }
}

impl Machine {
    /// Nothing is ready: time passes, or somebody waits for ever. `false`: all is done.
    pub(super) fn idle(&mut self) -> Result<bool, Fault> {
        let core = &mut self.core;
        core.check_limits()?;
        // An ask that can never be delivered is told before time passes: nobody could make room.
        if core.exact.tasks.sleepers == 0
            && let Some((number, (task, actor))) = core.exact.tasks.blocked.pop_first()
        {
            let name =
                actor.upgrade().map_or_else(|| "an actor".to_owned(), |a| strict::display(&Value::Shared(a)));
            if let Some(shared) = actor.upgrade()
                && let Some(actor) = as_actor(&shared)
            {
                let mut senders = actor.senders.borrow_mut();
                if let Some(at) = senders.iter().position(|(n, _)| *n == number)
                    && let Some((_, letter)) = senders.remove(at)
                    && letter.call.asker.take().is_some()
                {
                    core.exact.tasks.answered(&letter.call);
                }
            }
            core.wake(task, Err(of_kind("mailbox_full", format!("the mailbox of {name} is full"))));
            return Ok(true);
        }
        if let Some(Reverse(timer)) = core.exact.tasks.next_timer() {
            let (at, _) = timer.due;
            let wait = at.saturating_sub(core.exact.tasks.now).max(0);
            if core.exact.tasks.sleepers > 0 && wait > 0 && !core.exact.tasks.virtual_time {
                core.host.flush();
                core.host.sleep(wait as f64 / 1000.0);
            }
            core.exact.tasks.now = core.exact.tasks.now.max(at);
            match timer.wakes {
                Wakes::Ask(call) => {
                    if let Some(task) = call.asker.take() {
                        core.exact.tasks.asking -= 1;
                        let ms = call.timeout.unwrap_or(0);
                        let message = format!("ask `{}` timed out after {ms} ms", strict::cut(&call.tag));
                        core.wake(task, Err(of_kind("timeout", message)));
                    }
                }
                Wakes::Sleep(task) => {
                    core.exact.tasks.sleepers -= 1;
                    core.wake(task, Ok(Value::Nothing));
                }
            }
            return Ok(true);
        }
        if let Some((_, task)) = core.exact.tasks.joining.pop_first() {
            // It must be told, even if the tasks of the circle have joined one another.
            if let Some(task) = as_task(&task) {
                task.joined.set(false);
            }
            core.wake(task, Err(raised("deadlock: every task is waiting")));
            return Ok(true);
        }
        Ok(false)
    }
}

impl super::Tasks {
    /// Takes the next timer that isn't stale.
    fn next_timer(&mut self) -> Option<Reverse<super::Timer>> {
        self.sort_timers();
        loop {
            let timer = self.timers.pop()?;
            if timer.0.is_live() {
                return Some(timer);
            }
            self.stale -= 1;
        }
    }
}
