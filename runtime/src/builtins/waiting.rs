//! What a program can wait for, and `select` over all of it.
//!
//! A wait looks first; with nothing there it lets the program's agents run and is asked again. A program that is alone leaves
//! the wait to the supervisor, and doesn't wait for what only another part of it could bring.
//!
//! Invariant: a wait is bounded in handles and in time.
//! Invariant: how often a wait looks costs no fuel: that depends on clocks.

use super::{Args, Builtin, Ctx, Next, Resume, bus, pipes, processes, sockets, terminal, watching};
use crate::vm::trap::{Fault, Stop, raised};
use crate::vm::value::Value;
use policies::process::{Awaited, What};

pub(super) const TABLE: &[Builtin] =
    &[Builtin::calls("select", &["handles", "timeout"], 1, select).native(super::stubs::HUB)];

/// Seconds of a wait that says nothing.
pub(super) const DEFAULT_WAIT: f64 = 30.0;
/// Longest wait, in seconds.
const LONGEST_WAIT: f64 = 3600.0;
/// Handles of one `select`.
const MOST_HANDLES: usize = 256;
/// How long keys are waited for while other handles wait as well.
const MOST_BETWEEN: f64 = 0.02;
/// How long the supervisor is left alone with a wait before somebody is asked whether it still should go on.
const MOST_ASLEEP: f64 = 0.1;

/// Something that may be there.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    /// An end of a pipe.
    Pipe(pipes::End),
    /// A subscription of the bus.
    Subscription(u64),
    /// A process.
    Process(Awaited),
    /// A connection.
    Connection(Awaited),
    /// A connection that speaks WebSocket.
    Websocket(u32),
    /// The caller's terminal.
    Terminal,
    /// A watched path.
    Watch(u64),
}

impl Source {
    fn of(value: &Value) -> Option<Self> {
        if let Some(end) = value.as_foreign::<pipes::End>() {
            return Some(Self::Pipe(*end));
        }
        let process = || processes::number(value).map(|number| Awaited { number, what: What::Output });
        bus::number(value)
            .map(Self::Subscription)
            .or_else(|| process().map(Self::Process))
            .or_else(|| watching::number(value).map(Self::Watch))
            .or_else(|| sockets::source(value))
            .or_else(|| terminal::is_one(value).then_some(Self::Terminal))
    }
}

/// What a look gave.
pub(super) enum Seen {
    /// These can go on, by their places.
    Ready(Vec<usize>),
    /// The time is over, or nothing could come.
    Over,
}

/// A wait that goes on over several turns.
pub(super) struct Wait {
    sources: Vec<Source>,
    seconds: f64,
    deadline: Option<f64>,
}

impl Wait {
    pub(super) fn new(sources: Vec<Source>, seconds: f64) -> Self {
        Self { sources, seconds, deadline: None }
    }

    /// Looks, and waits if nobody else has anything to do.
    ///
    /// # Errors
    /// [`Stop::Wait`]: the machine lets the others run, and asks again.
    pub(super) fn look(&mut self, ctx: &mut Ctx<'_>) -> Result<Seen, Fault> {
        loop {
            let ready = self.ready(ctx)?;
            if !ready.is_empty() {
                return Ok(Seen::Ready(ready));
            }
            let outside = |source: &Source| match source {
                Source::Process(_)
                | Source::Connection(_)
                | Source::Websocket(_)
                | Source::Terminal
                | Source::Watch(_) => true,
                Source::Pipe(_) | Source::Subscription(_) => false,
            };
            let alone = ctx.core.is_alone();
            if self.seconds == 0.0 || alone && !self.sources.iter().any(outside) {
                return Ok(Seen::Over);
            }
            let now = ctx.core.host.now();
            let deadline = *self.deadline.get_or_insert(now + self.seconds);
            if now >= deadline {
                return Ok(Seen::Over);
            }
            if !alone {
                return Err(Box::new(Stop::Wait));
            }
            self.sleep(ctx, now, deadline)?;
            ctx.core.check_limits()?;
            ctx.core.interruption()?;
        }
    }

    /// The places of those that are there.
    fn ready(&self, ctx: &mut Ctx<'_>) -> Result<Vec<usize>, Fault> {
        let mut ready = Vec::new();
        let of_supervisor = processes::ready(ctx, &self.awaited(), 0)?;
        let mut of_supervisor = of_supervisor.iter().peekable();
        let mut seen = 0;
        for (place, source) in self.sources.iter().enumerate() {
            let there = match source {
                Source::Pipe(end) => pipes::ready(ctx.core, *end),
                Source::Subscription(id) => bus::ready(ctx.core, *id),
                Source::Process(_) | Source::Connection(_) => {
                    seen += 1;
                    of_supervisor.next_if(|at| **at == seen - 1).is_some()
                }
                Source::Websocket(number) => sockets::ready(ctx, *number)?,
                Source::Terminal => terminal::ready(ctx.core),
                Source::Watch(id) => watching::ready(ctx, *id)?,
            };
            if there {
                ready.push(place);
            }
        }
        Ok(ready)
    }

    /// What the supervisor is asked for. Whether a message is whole it doesn't know.
    fn awaited(&self) -> Vec<Awaited> {
        let awaited = |source: &Source| match source {
            Source::Process(awaited) | Source::Connection(awaited) => Some(*awaited),
            Source::Pipe(_)
            | Source::Subscription(_)
            | Source::Websocket(_)
            | Source::Terminal
            | Source::Watch(_) => None,
        };
        self.sources.iter().filter_map(awaited).collect()
    }

    fn sleep(&self, ctx: &mut Ctx<'_>, now: f64, deadline: f64) -> Result<(), Fault> {
        let due = |source: &Source| match source {
            Source::Watch(id) => watching::due(ctx.core, *id),
            Source::Pipe(_)
            | Source::Subscription(_)
            | Source::Process(_)
            | Source::Connection(_)
            | Source::Terminal
            | Source::Websocket(_) => None,
        };
        let until = self.sources.iter().filter_map(due).fold(deadline, f64::min);
        let seconds = (until - now).clamp(0.001, MOST_ASLEEP);
        let bytes = |source: &Source| match source {
            Source::Websocket(number) => Some(Awaited { number: *number, what: What::Arrival }),
            Source::Pipe(_)
            | Source::Subscription(_)
            | Source::Process(_)
            | Source::Connection(_)
            | Source::Terminal
            | Source::Watch(_) => None,
        };
        let awaited: Vec<Awaited> =
            self.awaited().into_iter().chain(self.sources.iter().filter_map(bytes)).collect();
        let for_keys = self.sources.iter().any(|source| matches!(source, Source::Terminal));
        if for_keys {
            // Nobody waits for both at once, so neither of them waits long.
            let seconds = if awaited.is_empty() { seconds } else { seconds.min(MOST_BETWEEN) };
            terminal::sleep(ctx.core, seconds);
            return Ok(());
        }
        if awaited.is_empty() {
            ctx.core.host.flush();
            ctx.core.host.sleep(seconds);
            return Ok(());
        }
        processes::ready(ctx, &awaited, (seconds * 1000.0).ceil() as u64).map(drop)
    }
}

/// The seconds of a wait.
pub(super) fn seconds(args: &Args<'_>, i: usize, otherwise: f64) -> Result<f64, Fault> {
    let seconds = if args.optional(i).is_some() { args.float(i)? } else { otherwise };
    if (0.0..=LONGEST_WAIT).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(raised(format!("{}: timeout must be from 0 to {LONGEST_WAIT} seconds", args.name)))
    }
}

/// The handles of a list.
struct Select {
    handles: Value,
    wait: Wait,
}

/// `select` over a list of handles, `expected` of which kind.
pub(super) fn over(
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
    expected: &str,
    fits: fn(&Source) -> bool,
) -> Result<Box<dyn Resume>, Fault> {
    let name = args.name;
    let list = args.list(0)?;
    if list.len() > MOST_HANDLES {
        return Err(raised(format!("{name}: at most {MOST_HANDLES} handles, got {}", list.len())));
    }
    ctx.charge(list.len() as u64)?;
    let mut sources = Vec::with_capacity(list.len());
    for handle in list {
        let Some(source) = Source::of(handle).filter(fits) else {
            let got = crate::vm::render::type_name(handle);
            return Err(raised(format!("{name} expects {expected}, got {got}")));
        };
        match source {
            Source::Process(awaited) => processes::allowed(ctx, awaited.number)?,
            Source::Connection(Awaited { number, .. }) | Source::Websocket(number) => {
                sockets::allowed(ctx, number)?;
            }
            Source::Terminal => terminal::allowed(ctx)?,
            Source::Pipe(_) | Source::Subscription(_) | Source::Watch(_) => {}
        }
        sources.push(source);
    }
    let seconds = seconds(args, 1, DEFAULT_WAIT)?;
    Ok(Box::new(Select { handles: args.take(0), wait: Wait::new(sources, seconds) }))
}

fn select(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    over(
        ctx,
        args,
        "ends of pipes, subscriptions, processes, connections, websockets, terminals and watches",
        |_| true,
    )
}

impl Resume for Select {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        let places = match self.wait.look(ctx)? {
            Seen::Ready(places) => places,
            Seen::Over => Vec::new(),
        };
        let handles = self.handles.as_list().unwrap_or_default();
        Ok(Next::Done(Value::list(places.into_iter().filter_map(|i| handles.get(i).cloned()).collect())))
    }
}
