//! The bus: topics that a program's agents publish to and listen on. All of it is in memory, for the run.

use super::waiting::{self, DEFAULT_WAIT, Seen, Source, Wait};
use super::{Args, Builtin, Cost, Ctx, Next, Resume};
use crate::partition::Core;
use crate::vm::agents::cross;
use crate::vm::other::Foreign;
use crate::vm::render::inside;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("bus_publish", &["topic", "value"], 2, publish),
    Builtin::new("bus_subscribe", &["topics", "options"], 1, subscribe).cost(Cost::Flat),
    Builtin::calls("bus_recv", &["subscription", "timeout"], 1, receive),
    Builtin::new("bus_unsubscribe", &["subscription"], 1, unsubscribe).cost(Cost::Flat),
    Builtin::new("bus_topics", &[], 0, topics),
];

/// Messages that wait for one subscriber, unless it says otherwise.
const CAPACITY: usize = 1000;
/// Subscriptions of one program.
const MAX_SUBSCRIPTIONS: usize = 1000;
/// Topics of one subscription.
const MAX_TOPICS: usize = 64;
/// Messages that wait for all subscribers together.
const MAX_WAITING: usize = 100_000;

struct Subscription {
    topics: Vec<Rc<str>>,
    waiting: VecDeque<(Rc<str>, Value)>,
    capacity: usize,
}

#[derive(Default)]
struct Bus {
    subscriptions: BTreeMap<u64, Subscription>,
    next: u64,
    /// Messages that wait, all together.
    waiting: usize,
}

/// The program's handle of a subscription.
struct Handle(u64);

impl Foreign for Handle {
    fn type_name(&self) -> &'static str {
        "subscription"
    }
    fn render(&self) -> String {
        format!("subscription({})", self.0)
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| o.0 == self.0)
    }
    fn any(&self) -> &dyn std::any::Any {
        self
    }
}

fn with<T>(core: &Core, f: impl FnOnce(&mut Bus) -> T) -> T {
    let mut board = core.shared.borrow_mut();
    let slot = board.keep.entry("bus").or_insert_with(|| Box::new(Bus::default()));
    match slot.downcast_mut::<Bus>() {
        Some(bus) => f(bus),
        // Nobody else keeps anything under this name.
        None => f(&mut Bus::default()),
    }
}

/// Which subscription a value stands for, if it does.
pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_foreign::<Handle>().map(|handle| handle.0)
}

/// Whether a receiver wouldn't wait: there is a message, or the subscription has ended.
pub(super) fn ready(core: &Core, id: u64) -> bool {
    with(core, |bus| bus.subscriptions.get(&id).is_none_or(|s| !s.waiting.is_empty()))
}

/// A topic, or one that ends in `*` for all that begin so.
fn topic(args: &Args<'_>, v: &Value) -> Result<Rc<str>, Fault> {
    match v.as_text() {
        Some(t) if !t.is_empty() && t.len() <= 200 => Ok(t.into()),
        _ => Err(raised(format!(
            "{} expects a topic of 1 to 200 bytes, got {}",
            args.name,
            inside(v).chars().take(60).collect::<String>()
        ))),
    }
}

fn covers(pattern: &str, topic: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => topic.starts_with(start),
        None => pattern == topic,
    }
}

fn publish(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let topic = topic(args, args.at(0))?;
    if topic.contains('*') {
        return Err(raised("bus_publish: a topic to publish to has no `*`"));
    }
    let value = cross(args.at(1));
    let (reached, looked_at) = with(ctx.core, |bus| {
        let mut reached = 0usize;
        if bus.waiting >= MAX_WAITING {
            return (None, 0);
        }
        for sub in bus.subscriptions.values_mut() {
            if sub.topics.iter().any(|t| covers(t, &topic)) {
                if sub.waiting.len() >= sub.capacity {
                    sub.waiting.pop_front();
                    bus.waiting -= 1;
                }
                bus.waiting += 1;
                sub.waiting.push_back((topic.clone(), value.clone()));
                reached += 1;
            }
        }
        (Some(reached), bus.subscriptions.len())
    });
    let Some(reached) = reached else {
        return Err(raised(format!("bus_publish: too many messages wait ({MAX_WAITING})")));
    };
    ctx.charge(looked_at as u64 + reached as u64 * 4)?;
    Ok(Value::from(reached))
}

fn subscribe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let topics: Vec<Rc<str>> = match args.at(0) {
        Value::List(list) => list.items().iter().map(|v| topic(args, v)).collect::<Result<_, _>>()?,
        v => vec![topic(args, v)?],
    };
    if topics.is_empty() || topics.len() > MAX_TOPICS {
        return Err(raised(format!("bus_subscribe expects 1 to {MAX_TOPICS} topics")));
    }
    let mut capacity = CAPACITY;
    let options = if args.optional(1).is_some() { Some(args.map(1)?) } else { None };
    for (key, v) in options.into_iter().flat_map(Map::entries) {
        match (key.as_str(), v) {
            ("capacity", Value::Int(n)) if (1..=MAX_WAITING as i64).contains(n) => capacity = *n as usize,
            ("capacity", _) => {
                return Err(raised(format!("bus_subscribe: capacity must be from 1 to {MAX_WAITING}")));
            }
            (key, _) => {
                return Err(raised(format!("bus_subscribe: unknown option '{key}', one of capacity")));
            }
        }
    }
    let id = with(ctx.core, |bus| {
        if bus.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return None;
        }
        let id = bus.next;
        bus.next += 1;
        bus.subscriptions.insert(id, Subscription { topics, waiting: VecDeque::new(), capacity });
        Some(id)
    });
    match id {
        Some(id) => Ok(Value::foreign(Handle(id))),
        None => Err(raised(format!("bus_subscribe: too many subscriptions ({MAX_SUBSCRIPTIONS})"))),
    }
}

fn handle(args: &Args<'_>) -> Result<u64, Fault> {
    args.at(0).as_foreign::<Handle>().map(|h| h.0).ok_or_else(|| args.wrong(0, "a subscription"))
}

/// Waits for a message.
struct Receive {
    id: u64,
    wait: Wait,
}

fn receive(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let id = handle(args)?;
    let seconds = waiting::seconds(args, 1, DEFAULT_WAIT)?;
    ctx.charge(1)?;
    Ok(Box::new(Receive { id, wait: Wait::new(vec![Source::Subscription(id)], seconds) }))
}

impl Resume for Receive {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        loop {
            let next = with(ctx.core, |bus| {
                let next = bus.subscriptions.get_mut(&self.id).map(|s| s.waiting.pop_front());
                bus.waiting -= usize::from(matches!(next, Some(Some(_))));
                next
            });
            match next {
                None => return Err(raised("bus_recv: the subscription has ended")),
                Some(Some((topic, value))) => {
                    ctx.charge(1)?;
                    return Ok(Next::Done(Value::record([("topic", Value::text(&topic)), ("value", value)])));
                }
                Some(None) => match self.wait.look(ctx)? {
                    Seen::Ready(_) => {}
                    Seen::Over => return Ok(Next::Done(Value::Nothing)),
                },
            }
        }
    }
}

fn unsubscribe(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let id = handle(args)?;
    let gone = with(ctx.core, |bus| {
        let gone = bus.subscriptions.remove(&id);
        bus.waiting -= gone.as_ref().map_or(0, |s| s.waiting.len());
        gone
    });
    Ok(gone.is_some().into())
}

fn topics(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    let counts = with(ctx.core, |bus| {
        let mut counts: BTreeMap<Rc<str>, i64> = BTreeMap::new();
        for topic in bus.subscriptions.values().flat_map(|s| &s.topics) {
            *counts.entry(topic.clone()).or_default() += 1;
        }
        counts
    });
    ctx.charge(counts.len() as u64)?;
    let rows = counts
        .into_iter()
        .map(|(topic, n)| Value::record([("topic", Value::text(&topic)), ("subscribers", Value::Int(n))]));
    Ok(Value::list(rows.collect()))
}
