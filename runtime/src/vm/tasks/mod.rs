//! Tasks, actors and turns of one partition: cooperative, on one thread, in one fixed order.
//!
//! A task has its own registers and frames, which the machine takes up and lays down. Ready tasks and actors with
//! messages stand in one queue; nothing depends on speed, addresses or threads.
//!
//! Here is what there is; [`turns`] runs it, [`actors`] sends and delivers, [`waiting`] is for whoever must wait, and
//! [`still`] is for a partition in which nothing happens, which can be saved.

mod actors;
pub(crate) mod stacks;
pub(crate) mod still;
mod turns;
mod waiting;

pub(crate) use turns::Ended;

use super::frame::{Frame, Handler};
use super::shared::{Body, Shared, sizes};
use super::trap::{Fault, Stop};
use super::value::Value;
use crate::builtins::{Ctx, Next, Resume};
use crate::partition::Core;
use crate::partition::boundary::Data;
use crate::partition::sandbox::{Alive, Failure, Sandbox};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::rc::{Rc, Weak};

/// Messages that wait for one actor.
const MAILBOX: usize = 1024;
/// Milliseconds of an `ask` without a `timeout`.
pub(crate) const DEFAULT_TIMEOUT: i64 = 5000;
/// Parked tasks from which on their registers are cut to what they use.
const MANY: usize = 64;

/// A task.
pub(crate) struct Task {
    /// As it is printed.
    pub(crate) number: Cell<u32>,
    /// Made by `spawn`, so that it counts bytes.
    pub(crate) spawned: bool,
    /// Where its `spawn` stands.
    place: (u32, u32),
    turn: Rc<Turn>,
    state: RefCell<State>,
    /// Tasks that wait for its end, with their places in `Tasks::joining`.
    joiners: RefCell<Vec<(u64, Rc<Shared>)>>,
    joined: Cell<bool>,
}

/// How far a task is.
enum State {
    /// Hasn't started: what to call.
    New(Value, Vec<Value>),
    Parked(Strand),
    Running,
    Done(Value),
    Failed(Fault),
}

/// A task's registers, frames and handlers while another one runs.
#[derive(Default)]
struct Strand {
    stack: Vec<Value>,
    frames: Vec<Frame>,
    handlers: Vec<Handler>,
    /// The register of the last frame that gets what it waits for; `None`: a builtin on top of it does.
    wanted: Option<u8>,
}

impl Task {
    pub(crate) fn children(&self, mut each: impl FnMut(&Value)) {
        match &*self.state.borrow() {
            State::New(callee, args) => {
                each(callee);
                args.iter().for_each(each);
            }
            State::Parked(strand) => strand.stack.iter().for_each(each),
            State::Done(value) => each(value),
            State::Running | State::Failed(_) => {}
        }
    }

    pub(crate) fn take_children(&self) -> Vec<Value> {
        match self.state.replace(State::Done(Value::Nothing)) {
            State::New(callee, mut args) => {
                args.push(callee);
                args
            }
            State::Parked(strand) => strand.stack,
            State::Done(value) => vec![value],
            State::Running | State::Failed(_) => Vec::new(),
        }
    }
}

/// One run of the partition: its top level, `main`, or one message, with all tasks spawned in it.
pub(crate) struct Turn {
    /// Tasks that haven't ended.
    open: Cell<usize>,
    over: Cell<bool>,
    /// The message that is handled.
    call: Option<Rc<Call>>,
    /// The actor that handles it.
    actor: Option<Rc<Shared>>,
    result: RefCell<Value>,
    /// Faults of spawned tasks, until somebody joins them.
    faults: RefCell<Vec<(Weak<Shared>, Fault)>>,
}

/// A message on its way, and who waits for its reply.
pub(crate) struct Call {
    pub(crate) tag: Rc<str>,
    replied: Cell<bool>,
    /// Who waits for the reply; whoever answers takes it.
    asker: RefCell<Option<Rc<Shared>>>,
    /// Milliseconds that it waits; `None`: nobody ever asked.
    timeout: Option<i64>,
    /// Where it was sent.
    place: (u32, u32),
}

impl Call {
    fn new(tag: Rc<str>, asker: Option<(Rc<Shared>, i64)>, place: (u32, u32)) -> Rc<Self> {
        let (asker, timeout) = asker.map_or((None, None), |(task, ms)| (Some(task), Some(ms)));
        Rc::new(Self { tag, replied: Cell::new(false), asker: RefCell::new(asker), timeout, place })
    }

    fn asks(&self) -> bool {
        self.timeout.is_some()
    }
}

/// A message in a mailbox.
struct Letter {
    call: Rc<Call>,
    payload: Payload,
}

/// What a message brings.
enum Payload {
    Values(Vec<Value>),
    Data(Vec<Data>),
}

/// An actor of this partition, or a sandbox that is used like one.
pub(crate) struct Actor {
    /// As it is printed.
    pub(crate) number: Cell<u32>,
    handler: RefCell<Value>,
    state: RefCell<Value>,
    mailbox: RefCell<VecDeque<Letter>>,
    /// Senders that wait for room, with what they send.
    senders: RefCell<VecDeque<(u64, Letter)>>,
    busy: Cell<bool>,
    queued: Cell<bool>,
    end: RefCell<Option<Fault>>,
    /// `None` for an ordinary actor.
    pub(crate) guest: Option<Guest>,
    /// In place of a sandbox that was not saved.
    pub(crate) lost: RefCell<Option<Rc<str>>>,
}

/// A sandbox behind a reference.
pub(crate) struct Guest {
    pub(crate) name: Rc<str>,
    sandbox: RefCell<Option<Box<Sandbox>>>,
    /// Its error record, once it has failed.
    pub(crate) failure: RefCell<Option<Failure>>,
    pub(crate) limits: (usize, i64),
    /// Bytes of messages that wait.
    waiting: Cell<usize>,
    /// What sandboxes use together, those bytes included.
    alive: Rc<Alive>,
}

impl Guest {
    /// A message of so many bytes waits now.
    fn brought(&self, bytes: usize) {
        self.waiting.set(self.waiting.get() + bytes);
        self.alive.use_more(bytes as i64);
    }

    /// It waits no longer.
    fn taken(&self, bytes: usize) {
        self.waiting.set(self.waiting.get() - bytes);
        self.alive.use_more(-(bytes as i64));
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.taken(self.waiting.get());
    }
}

impl Actor {
    pub(crate) fn children(&self, mut each: impl FnMut(&Value)) {
        each(&self.handler.borrow());
        each(&self.state.borrow());
        for letter in self.mailbox.borrow().iter() {
            if let Payload::Values(values) = &letter.payload {
                values.iter().for_each(&mut each);
            }
        }
    }

    pub(crate) fn take_children(&self) -> Vec<Value> {
        let mut all = vec![self.handler.take(), self.state.take()];
        for letter in self.mailbox.take() {
            if let Payload::Values(values) = letter.payload {
                all.extend(values);
            }
        }
        all
    }
}

/// What can go on.
enum Ready {
    Task(Rc<Shared>, Option<Result<Value, Fault>>),
    Actor(Rc<Shared>),
}

/// What happens when a time has come.
struct Timer {
    /// Program time, then order of creation.
    due: (i64, u64),
    wakes: Wakes,
}

enum Wakes {
    /// Stale once it has its answer.
    Ask(Rc<Call>),
    Sleep(Rc<Shared>),
}

impl Timer {
    fn is_live(&self) -> bool {
        match &self.wakes {
            Wakes::Ask(call) => call.asker.borrow().is_some(),
            Wakes::Sleep(_) => true,
        }
    }

    fn is_of(&self, call: &Call) -> bool {
        matches!(&self.wakes, Wakes::Ask(asked) if std::ptr::eq(&raw const **asked, call))
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

/// The scheduler of a partition.
#[derive(Default)]
pub(crate) struct Tasks {
    ready: VecDeque<Ready>,
    /// Earliest first. Those of asks that have been answered stay for a while.
    timers: BinaryHeap<Reverse<Timer>>,
    /// Timers of asks since time last passed, in order: most have their answer before it passes again.
    fresh: Vec<Timer>,
    stale: usize,
    /// Asks that wait for a reply.
    asking: usize,
    sleepers: usize,
    /// Tasks that wait in `join`, by age.
    joining: BTreeMap<u64, Rc<Shared>>,
    /// Tasks that wait for room in a mailbox, by when they began.
    blocked: BTreeMap<u64, (Rc<Shared>, Weak<Shared>)>,
    pub(crate) now: i64,
    next: u64,
    tasks: u32,
    actors: u32,
    current: Option<Rc<Shared>>,
    pub(crate) spare: Vec<Vec<Value>>,
    /// Frames of tasks that have ended, without anything in them.
    spare_frames: Vec<Vec<Frame>>,
    /// Tasks of handlers that have ended and that nobody knows, with their turns.
    used: Vec<Rc<Shared>>,
    /// What a wait was told with, for the next one.
    wait: Option<Fault>,
    /// The reply of a turn inside a sandbox.
    pub(crate) outbox: Option<Data>,
    /// Waits are jumped over.
    pub(crate) virtual_time: bool,
    /// The host's time at the start, in seconds.
    pub(crate) started: f64,
    /// An ordinary actor failed and nobody was told.
    pub(crate) complaints: bool,
    /// Sandboxes that are alive.
    pub(crate) sandboxes: Rc<Alive>,
}

impl Tasks {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn turn(&self) -> Option<Rc<Turn>> {
        self.current.as_ref().and_then(|task| as_task(task)).map(|task| task.turn.clone())
    }

    /// Tasks that wait for somebody.
    fn waiting(&self) -> usize {
        self.joining.len() + self.asking + self.blocked.len()
    }

    /// Tasks that have registers of their own, about.
    fn parked(&self) -> usize {
        self.waiting() + self.sleepers + self.ready.len()
    }

    /// Says that the running task waits.
    pub(crate) fn wait(&mut self) -> Fault {
        self.wait.take().unwrap_or_else(|| Box::new(Stop::Wait))
    }

    /// The wait has been understood.
    pub(crate) fn waited(&mut self, fault: Fault) {
        self.wait = Some(fault);
    }

    fn set_timer(&mut self, after: i64, wakes: Wakes) {
        let due = (self.now.saturating_add(after), self.number());
        self.fresh.push(Timer { due, wakes });
    }

    /// An ask doesn't wait any longer. Its timer goes at once if it is the last one, and else when more are stale than not.
    fn answered(&mut self, call: &Call) {
        self.asking -= 1;
        if self.fresh.last().is_some_and(|timer| timer.is_of(call)) {
            self.fresh.pop();
            return;
        }
        self.stale += 1;
        if self.stale > 64 && self.stale * 2 > self.timers.len() + self.fresh.len() {
            self.timers.retain(|Reverse(timer)| timer.is_live());
            self.fresh.retain(Timer::is_live);
            self.stale = 0;
        }
    }

    /// Keeps frames without anything in them, so that others need not be made.
    fn spare_frames(&mut self, mut frames: Vec<Frame>) {
        const KEPT: usize = 4;
        if self.spare_frames.len() < KEPT && (1..=64).contains(&frames.capacity()) {
            frames.clear();
            self.spare_frames.push(frames);
        }
    }

    /// Time may pass now: the timers stand in its order.
    fn sort_timers(&mut self) {
        self.timers.extend(self.fresh.drain(..).map(Reverse));
    }
}

fn as_task(shared: &Rc<Shared>) -> Option<&Task> {
    match &shared.0 {
        Body::Task(task) => Some(task),
        _ => None,
    }
}

fn as_actor(shared: &Rc<Shared>) -> Option<&Actor> {
    match &shared.0 {
        Body::Actor(actor) => Some(actor),
        _ => None,
    }
}

/// A builtin that waits: what comes next is its result.
struct Parked;

impl Resume for Parked {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        match last {
            Some(value) => Ok(Next::Done(value)),
            None => Err(ctx.core.exact.tasks.wait()),
        }
    }
}

/// The state of a builtin that has arranged to be woken.
pub(crate) fn parked() -> Box<dyn Resume> {
    Box::new(Parked)
}

impl Core {
    fn new_turn(call: Option<Rc<Call>>, actor: Option<Rc<Shared>>) -> Rc<Turn> {
        Rc::new(Turn {
            open: Cell::new(0),
            over: Cell::new(false),
            call,
            actor,
            result: RefCell::default(),
            faults: RefCell::default(),
        })
    }

    /// A task that hasn't started, and that nothing will start by itself.
    fn make_task(
        &mut self,
        callee: Value,
        args: Vec<Value>,
        turn: Rc<Turn>,
        spawned: bool,
        place: (u32, u32),
    ) -> Rc<Shared> {
        turn.open.set(turn.open.get() + 1);
        if spawned {
            self.exact.tasks.tasks += 1;
        }
        Shared::task(Task {
            number: Cell::new(self.exact.tasks.tasks),
            spawned,
            place,
            turn,
            state: RefCell::new(State::New(callee, args)),
            joiners: RefCell::default(),
            joined: Cell::new(false),
        })
    }

    /// A task that is about to run an actor's handler, and its turn.
    fn handler_task(&mut self, call: Rc<Call>, actor: Rc<Shared>, place: (u32, u32)) -> Rc<Shared> {
        if let Some(mut shared) = self.exact.tasks.used.pop()
            && let Some(Body::Task(task)) = Rc::get_mut(&mut shared).map(|shared| &mut shared.0)
            && let Some(turn) = Rc::get_mut(&mut task.turn)
        {
            task.number.set(self.exact.tasks.tasks);
            task.place = place;
            turn.open.set(1);
            turn.call = Some(call);
            turn.actor = Some(actor);
            return shared;
        }
        let turn = Self::new_turn(Some(call), Some(actor));
        let task = self.make_task(Value::Nothing, Vec::new(), turn, false, place);
        if let Some(task) = as_task(&task) {
            task.state.replace(State::Running);
        }
        task
    }

    /// Keeps the task of a handler that has ended, unless somebody still knows it: a message makes none of its own then.
    fn recycle(&mut self, mut shared: Rc<Shared>) {
        const KEPT: usize = 4;
        if self.exact.tasks.used.len() < KEPT
            && let Some(Body::Task(task)) = Rc::get_mut(&mut shared).map(|shared| &mut shared.0)
            && !task.spawned
            && task.turn.open.get() == 0
            && let Some(turn) = Rc::get_mut(&mut task.turn)
        {
            turn.over.set(false);
            turn.call = None;
            turn.actor = None;
            drop(turn.result.take());
            turn.faults.get_mut().clear();
            task.state.replace(State::Running);
            self.exact.tasks.used.push(shared);
        }
    }

    /// `spawn`: the callee has been checked.
    pub(crate) fn spawn_task(
        &mut self,
        callee: Value,
        args: Vec<Value>,
        place: (u32, u32),
    ) -> Result<Value, Fault> {
        self.allocate(sizes::TASK)?;
        let turn = self.exact.tasks.turn().unwrap_or_else(|| Self::new_turn(None, None));
        let task = self.make_task(callee, args, turn, true, place);
        self.exact.tasks.ready.push_back(Ready::Task(task.clone(), None));
        self.known_task(&task);
        Ok(Value::Shared(task))
    }
}
