//! Tasks, actors and turns of one partition: cooperative, on one thread, in one fixed order.
//!
//! A task has its own registers and frames, which the machine takes up and lays down. Ready tasks and actors with
//! messages stand in one queue; nothing depends on speed, addresses or threads.

use super::frame::{Frame, Handler, Ret};
use super::machine::Machine;
use super::shared::{Body, Shared};
use super::strict;
use super::trap::{Elsewhere, Fault, Origin, Stop, of_kind, raised};
use super::value::Value;
use crate::builtins::{Ctx, Next, Resume};
use crate::partition::Core;
use crate::partition::boundary::Data;
use crate::partition::sandbox::Sandbox;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::{Rc, Weak};

/// Messages that wait for one actor.
const MAILBOX: usize = 1024;
/// Milliseconds of an `ask` without a `timeout`.
pub(crate) const DEFAULT_TIMEOUT: i64 = 5000;
/// Parked tasks from which on their registers are cut to what they use.
const MANY: usize = 64;

/// A task.
pub(crate) struct Task {
    pub(crate) number: u32,
    /// Made by `spawn`, so that it counts bytes.
    pub(crate) spawned: bool,
    /// Where its `spawn` stands.
    place: (u32, u32),
    turn: Rc<Turn>,
    state: RefCell<State>,
    joiners: RefCell<Vec<Rc<Shared>>>,
    joined: Cell<bool>,
}

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
    ask: Option<u64>,
}

struct Letter {
    call: Rc<Call>,
    payload: Payload,
}

enum Payload {
    Values(Vec<Value>),
    Data(Vec<Data>),
}

/// An actor of this partition, or a sandbox that is used like one.
pub(crate) struct Actor {
    pub(crate) number: u32,
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
}

/// A sandbox behind a reference.
pub(crate) struct Guest {
    pub(crate) name: Rc<str>,
    sandbox: RefCell<Option<Box<Sandbox>>>,
    /// Its error record, once it has failed.
    pub(crate) failure: RefCell<Option<crate::partition::sandbox::Failure>>,
    pub(crate) limits: (usize, i64),
    /// Bytes of messages that wait.
    waiting: Cell<usize>,
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

enum Ready {
    Task(Rc<Shared>, Option<Result<Value, Fault>>),
    Actor(Rc<Shared>),
}

enum Timer {
    Ask(u64),
    Sleep(Rc<Shared>),
}

struct Asking {
    task: Rc<Shared>,
    timer: (i64, u64),
    tag: Rc<str>,
    timeout: i64,
}

/// The scheduler of a partition.
#[derive(Default)]
pub(crate) struct Tasks {
    ready: VecDeque<Ready>,
    asks: HashMap<u64, Asking>,
    timers: BTreeMap<(i64, u64), Timer>,
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
    spare: Vec<Vec<Value>>,
    /// The reply of a turn inside a sandbox.
    pub(crate) outbox: Option<Data>,
    /// Waits are jumped over.
    pub(crate) virtual_time: bool,
    /// The host's time at the start, in seconds.
    pub(crate) started: f64,
    /// An ordinary actor failed and nobody was told.
    pub(crate) complaints: bool,
    /// Sandboxes that are alive.
    pub(crate) sandboxes: Rc<Cell<usize>>,
}

impl Tasks {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn turn(&self) -> Option<Rc<Turn>> {
        self.current.as_ref().and_then(|task| as_task(task)).map(|task| task.turn.clone())
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
    fn resume(&mut self, _ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        match last {
            Some(value) => Ok(Next::Done(value)),
            None => Err(Box::new(Stop::Wait)),
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

    fn new_task(
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
        let task = Shared::task(Task {
            number: self.exact.tasks.tasks,
            spawned,
            place,
            turn,
            state: RefCell::new(State::New(callee, args)),
            joiners: RefCell::default(),
            joined: Cell::new(false),
        });
        self.exact.tasks.ready.push_back(Ready::Task(task.clone(), None));
        task
    }

    /// `spawn`: the callee has been checked.
    pub(crate) fn spawn_task(
        &mut self,
        callee: Value,
        args: Vec<Value>,
        place: (u32, u32),
    ) -> Result<Value, Fault> {
        self.allocate(super::shared::sizes::TASK)?;
        let turn = self.exact.tasks.turn().unwrap_or_else(|| Self::new_turn(None, None));
        let task = self.new_task(callee, args, turn, true, place);
        self.known_task(&task);
        Ok(Value::Shared(task))
    }

    fn wake(&mut self, task: Rc<Shared>, with: Result<Value, Fault>) {
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
        task.joiners.borrow_mut().push(current.clone());
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
        let key = (self.exact.tasks.now.saturating_add(ms), self.exact.tasks.number());
        self.exact.tasks.sleepers += 1;
        self.exact.tasks.timers.insert(key, Timer::Sleep(current));
    }

    fn answer(&mut self, ask: u64, with: Result<Value, Fault>) -> bool {
        let Some(asking) = self.exact.tasks.asks.remove(&ask) else { return false };
        self.exact.tasks.timers.remove(&asking.timer);
        self.wake(asking.task, with);
        true
    }

    // ---- actors ----

    /// `actor(handler, state)`.
    pub(crate) fn new_actor(&mut self, handler: Value, state: Value) -> Value {
        self.exact.tasks.actors += 1;
        let number = self.exact.tasks.actors;
        self.make_actor(number, handler, state, None)
    }

    fn make_actor(&mut self, number: u32, handler: Value, state: Value, guest: Option<Guest>) -> Value {
        let actor = Shared::actor(Actor {
            number,
            handler: RefCell::new(handler),
            state: RefCell::new(state),
            mailbox: RefCell::default(),
            senders: RefCell::default(),
            busy: Cell::new(false),
            queued: Cell::new(false),
            end: RefCell::default(),
            guest,
        });
        self.known_task(&actor);
        Value::Shared(actor)
    }

    /// A reference to a sandbox.
    pub(crate) fn new_guest(&mut self, sandbox: Box<Sandbox>) -> Value {
        let guest = Guest {
            name: sandbox.name(),
            limits: (sandbox.depth(), sandbox.memory()),
            sandbox: RefCell::new(Some(sandbox)),
            failure: RefCell::default(),
            waiting: Cell::new(0),
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
            if let Some(ask) = call.ask {
                self.answer(ask, Ok(copy));
            }
        }
        call.replied.set(true);
        Ok(())
    }

    /// `tell` (without a timeout) and `ask`. Gives whether the sender must wait.
    pub(crate) fn send(
        &mut self,
        receiver: &Value,
        tag: &Rc<str>,
        args: Vec<Value>,
        timeout: Option<&Value>,
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
                    all.push(self.export(arg, &format!("argument {} of `{tag}`", i + 1), depth)?);
                }
                Payload::Data(all)
            }
            None => {
                let mut all = Vec::with_capacity(args.len());
                for (i, arg) in args.iter().enumerate() {
                    let copy = if arg.is_container() {
                        self.copy(arg, &format!("argument {} of `{tag}`", i + 1))?
                    } else {
                        self.charge(1)?;
                        arg.clone()
                    };
                    all.push(copy);
                }
                Payload::Values(all)
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
        let ask = asks.then(|| {
            let number = self.exact.tasks.number();
            let timer = (self.exact.tasks.now.saturating_add(timeout), number);
            self.exact.tasks.timers.insert(timer, Timer::Ask(number));
            let asking = Asking { task: current.clone(), timer, tag: tag.clone(), timeout };
            self.exact.tasks.asks.insert(number, asking);
            number
        });
        let letter =
            Letter { call: Rc::new(Call { tag: tag.clone(), replied: Cell::new(false), ask }), payload };
        if actor.mailbox.borrow().len() < MAILBOX
            && actor.senders.borrow().is_empty()
            && has_room(actor, &letter)
        {
            self.deliver_letter(shared, actor, letter);
            return Ok(asks);
        }
        let number = self.exact.tasks.number();
        actor.senders.borrow_mut().push_back((number, letter));
        self.exact.tasks.blocked.insert(number, (current, Rc::downgrade(shared)));
        Ok(true)
    }

    fn deliver_letter(&mut self, shared: &Rc<Shared>, actor: &Actor, letter: Letter) {
        if let (Some(guest), Payload::Data(all)) = (&actor.guest, &letter.payload) {
            guest.waiting.set(guest.waiting.get() + bytes(all));
        }
        actor.mailbox.borrow_mut().push_back(letter);
        self.queue_actor(shared, actor);
    }

    fn queue_actor(&mut self, shared: &Rc<Shared>, actor: &Actor) {
        if !actor.busy.get() && !actor.queued.get() && !actor.mailbox.borrow().is_empty() {
            actor.queued.set(true);
            self.exact.tasks.ready.push_back(Ready::Actor(shared.clone()));
        }
    }

    /// Lets senders in whose message has room now.
    fn admit(&mut self, shared: &Rc<Shared>, actor: &Actor) {
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
            let asks = letter.call.ask.is_some();
            self.deliver_letter(shared, actor, letter);
            if let Some((task, _)) = self.exact.tasks.blocked.remove(&number)
                && !asks
            {
                self.wake(task, Ok(Value::Nothing));
            }
        }
    }

    /// An actor's end: whoever asks gets the fault, messages are gone.
    fn end_actor(&mut self, actor: &Actor, fault: &Fault) {
        actor.end.replace(Some(fault.clone()));
        let mut letters: Vec<Letter> = actor.mailbox.take().into_iter().collect();
        for (number, letter) in actor.senders.take() {
            if let Some((task, _)) = self.exact.tasks.blocked.remove(&number)
                && letter.call.ask.is_none()
            {
                self.wake(task, Ok(Value::Nothing));
            }
            letters.push(letter);
        }
        for letter in letters {
            if let Some(ask) = letter.call.ask {
                self.answer(ask, Err(fault.clone()));
            }
        }
        drop(actor.handler.take());
        drop(actor.state.take());
    }

    /// `sandbox.stop`: what the sandbox had failed with, if it had.
    pub(crate) fn stop_guest(&mut self, value: &Value) -> Option<Option<crate::partition::sandbox::Failure>> {
        let actor = value.as_actor()?;
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

fn bytes(all: &[Data]) -> usize {
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
        let call = Rc::new(Call { tag, replied: Cell::new(false), ask: None });
        self.turn(callee, args, Some(call), place)
    }

    fn turn(&mut self, callee: Value, args: Vec<Value>, call: Option<Rc<Call>>, place: (u32, u32)) -> Ended {
        let turn = Core::new_turn(call, None);
        self.core.new_task(callee, args, turn.clone(), false, place);
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
        let outcome;
        match task.state.replace(State::Running) {
            State::New(callee, args) => {
                self.stack = self.core.exact.tasks.spare.pop().unwrap_or_default();
                outcome = self.begin(callee, args, task.place);
            }
            State::Parked(strand) => {
                self.stack = strand.stack;
                self.frames = strand.frames;
                self.handlers = strand.handlers;
                if let Some(frame) = self.frames.last() {
                    let base = frame.base as usize;
                    self.room(base);
                }
                outcome = match with {
                    Some(Ok(value)) => self.drive(Some(value)),
                    Some(Err(fault)) => Err(fault),
                    None => Ok(()),
                };
            }
            other => {
                task.state.replace(other);
                return Ok(());
            }
        }
        let outcome = match outcome {
            Ok(()) => self.run_until_wait(),
            Err(fault) => self.go_on_from(fault),
        };
        match outcome {
            Ok(true) => {
                let mut strand = Strand {
                    stack: std::mem::take(&mut self.stack),
                    frames: std::mem::take(&mut self.frames),
                    handlers: std::mem::take(&mut self.handlers),
                };
                let tasks = &self.core.exact.tasks;
                if tasks.joining.len() + tasks.asks.len() + tasks.blocked.len() > MANY {
                    let used = strand.frames.last().map_or(0, |f| f.base as usize + 8);
                    strand.stack.truncate(used);
                    strand.stack.shrink_to_fit();
                }
                task.state.replace(State::Parked(strand));
                Ok(())
            }
            Ok(false) => {
                let value = std::mem::take(&mut self.result);
                self.keep_stack();
                self.ended(&shared, task, Ok(value), first)
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

    fn keep_stack(&mut self) {
        let stack = std::mem::take(&mut self.stack);
        if stack.len() <= 4096 && self.core.exact.tasks.spare.len() < 4 {
            self.core.exact.tasks.spare.push(stack);
        }
        self.frames.clear();
        self.handlers.clear();
    }

    /// The first call of a task; its fuel runs out at the `spawn`, or at the function of an entry.
    fn begin(&mut self, callee: Value, args: Vec<Value>, place: (u32, u32)) -> Result<(), Fault> {
        self.room(0);
        let count = args.len();
        for (i, arg) in args.into_iter().enumerate() {
            self.stack[i] = arg;
        }
        let result = self.call(callee, 0, count, Ret::Top, true);
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
        first: &Rc<Turn>,
    ) -> Result<(), Fault> {
        let turn = task.turn.clone();
        turn.open.set(turn.open.get() - 1);
        let joiners = task.joiners.take();
        for joiner in joiners {
            self.core.exact.tasks.joining.retain(|_, waiting| !Rc::ptr_eq(waiting, &joiner));
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

    fn end_turn(&mut self, turn: &Rc<Turn>, fault: Option<Fault>, first: &Rc<Turn>) -> Result<(), Fault> {
        turn.over.set(true);
        let Some(shared) = turn.actor.clone() else {
            // The first turn of the run: its fault is the run's.
            return match fault {
                Some(fault) if Rc::ptr_eq(turn, first) => Err(fault),
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
        let fault = self.core.of_actor(fault, actor.number);
        let told = match turn.call.as_ref().and_then(|call| call.ask) {
            Some(ask) => self.core.answer(ask, Err(fault.clone())),
            None => false,
        };
        self.core.end_actor(actor, &fault);
        if !told {
            self.core.exact.tasks.complaints = true;
            if let Stop::Raised(error) = &*fault {
                let line = strict::shown(&self.core, error);
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
                guest.waiting.set(guest.waiting.get() - bytes(&all));
                let Some(mut sandbox) = guest.sandbox.take() else { return Ok(()) };
                let outcome = sandbox.handle(&mut self.core, &letter.call.tag, all)?;
                if let (Some(data), Some(ask)) = (outcome.reply, letter.call.ask) {
                    let value = self.core.import(&data)?;
                    self.core.answer(ask, Ok(value));
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
                        if let Some(ask) = letter.call.ask {
                            self.core.answer(ask, Err(fault.clone()));
                        }
                        self.core.end_actor(actor, &fault);
                    }
                }
                Ok(())
            }
            (_, Payload::Values(all)) => {
                self.core.admit(shared, actor);
                actor.busy.set(true);
                let turn = Core::new_turn(Some(letter.call.clone()), Some(shared.clone()));
                let payload = self.core.array(all)?;
                let message = self.core.tagged(&letter.call.tag, payload)?;
                let handler = actor.handler.borrow().clone();
                let state = actor.state.borrow().clone();
                let place = strict::function_place(&handler);
                // It is the actor's turn now: its task doesn't queue again.
                let task = self.core.new_task(handler, vec![state, message], turn.clone(), false, place);
                self.core.exact.tasks.ready.pop_back();
                self.step(task, None, &turn)
            }
            (None, Payload::Data(_)) => Ok(()),
        }
    }

    /// Nothing is ready: time passes, or somebody waits for ever. `false`: all is done.
    fn idle(&mut self) -> Result<bool, Fault> {
        let core = &mut self.core;
        core.check_limits()?;
        let next = core.exact.tasks.timers.first_key_value().map(|(key, _)| *key);
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
                    && let Some(ask) = letter.call.ask
                    && let Some(asking) = core.exact.tasks.asks.remove(&ask)
                {
                    core.exact.tasks.timers.remove(&asking.timer);
                }
            }
            core.wake(task, Err(of_kind("mailbox_full", format!("the mailbox of {name} is full"))));
            return Ok(true);
        }
        if let Some(key) = next {
            let wait = (key.0 - core.exact.tasks.now).max(0);
            if core.exact.tasks.sleepers > 0 && wait > 0 && !core.exact.tasks.virtual_time {
                core.host.flush();
                core.host.sleep(wait as f64 / 1000.0);
            }
            core.exact.tasks.now = core.exact.tasks.now.max(key.0);
            match core.exact.tasks.timers.remove(&key) {
                Some(Timer::Ask(ask)) => {
                    if let Some(asking) = core.exact.tasks.asks.remove(&ask) {
                        let message = format!("ask `{}` timed out after {} ms", asking.tag, asking.timeout);
                        core.wake(asking.task, Err(of_kind("timeout", message)));
                    }
                }
                Some(Timer::Sleep(task)) => {
                    core.exact.tasks.sleepers -= 1;
                    core.wake(task, Ok(Value::Nothing));
                }
                None => {}
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

impl Core {
    /// A fault of an ordinary actor, for others: it keeps its line.
    fn of_actor(&self, mut fault: Fault, number: u32) -> Fault {
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
