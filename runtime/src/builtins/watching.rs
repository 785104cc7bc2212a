//! `watch`: changes of files, found by looking at them again and again through the broker.
//!
//! Invariant: a look is never sooner than its interval after the one before, and sees so many entries at most; changes that
//! wait are bounded too.
//! Invariant: what a watch tells needs what `list_dir` of the same path needs, each time.

use super::files::{listed, look_at};
use super::waiting::{self, DEFAULT_WAIT, Seen, Source, Wait};
use super::{Args, Builtin, Cost, Ctx, Next, Resume};
use crate::partition::Core;
use crate::vm::other::Foreign;
use crate::vm::render::display;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Map, Value};
use policies::capability::Capability;
use std::collections::{BTreeMap, VecDeque};

const HUB: &str = super::stubs::HUB;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("watch", &["path", "options"], 1, watch).cost(Cost::Own).native(HUB),
    Builtin::calls("watch_recv", &["watch", "timeout"], 1, receive).native(HUB),
    Builtin::new("watch_stats", &["watch"], 1, stats).cost(Cost::Flat).native(HUB),
    Builtin::new("watch_close", &["watch"], 1, close).cost(Cost::Flat).native(HUB),
];

/// Seconds between two looks, unless a watch says otherwise.
const INTERVAL: f64 = 0.5;
/// Watches of one program.
const MOST_WATCHES: usize = 64;
/// Entries that one look sees.
const MOST_SEEN: usize = 10_000;
/// Folders below one another.
const MOST_DEPTH: usize = 32;
/// Changes that wait; what is beyond is counted and lost.
const MOST_WAITING: usize = 10_000;
/// Changes that are given at once.
const MOST_GIVEN: usize = 1000;

/// What is known of an entry: a folder is there or isn't, a file changes as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entry {
    Folder,
    File { size: u64, changed: i64 },
}

type Entries = BTreeMap<String, Entry>;

struct Watch {
    path: String,
    interval: f64,
    recursive: bool,
    seen: Entries,
    waiting: VecDeque<(&'static str, String)>,
    due: f64,
    looks: u64,
    changes: u64,
    lost: u64,
}

#[derive(Default)]
struct Watches {
    all: BTreeMap<u64, Watch>,
    next: u64,
}

/// The program's handle of one.
struct Handle(u64);

impl Foreign for Handle {
    fn type_name(&self) -> &'static str {
        "watch"
    }
    fn render(&self) -> String {
        format!("watch({})", self.0)
    }
    fn equals(&self, other: &dyn Foreign) -> bool {
        other.any().downcast_ref::<Self>().is_some_and(|o| o.0 == self.0)
    }
    fn any(&self) -> &dyn std::any::Any {
        self
    }
}

fn with<T>(core: &Core, f: impl FnOnce(&mut Watches) -> T) -> T {
    let mut board = core.shared.borrow_mut();
    let slot = board.keep.entry("watches").or_insert_with(|| Box::new(Watches::default()));
    match slot.downcast_mut::<Watches>() {
        Some(watches) => f(watches),
        // Nobody else keeps anything under this name.
        None => f(&mut Watches::default()),
    }
}

/// Which watch a value stands for, if it does.
pub(super) fn number(value: &Value) -> Option<u64> {
    value.as_foreign::<Handle>().map(|handle| handle.0)
}

/// When the next look is due, if the watch is open.
pub(super) fn due(core: &Core, id: u64) -> Option<f64> {
    with(core, |watches| watches.all.get(&id).map(|watch| watch.due))
}

/// Whether a receiver wouldn't wait; looks, if it is time.
pub(super) fn ready(ctx: &mut Ctx<'_>, id: u64) -> Result<bool, Fault> {
    let now = ctx.core.host.now();
    let state = with(ctx.core, |watches| {
        let watch = watches.all.get(&id)?;
        Some((!watch.waiting.is_empty(), now >= watch.due, watch.path.clone(), watch.recursive))
    });
    let Some((waits, is_due, path, recursive)) = state else { return Ok(true) };
    if waits || !is_due {
        return Ok(waits);
    }
    let entries = scan(ctx, &path, recursive)?;
    let now = ctx.core.host.now();
    Ok(with(ctx.core, |watches| {
        let Some(watch) = watches.all.get_mut(&id) else { return true };
        watch.compare(entries);
        watch.due = now + watch.interval;
        !watch.waiting.is_empty()
    }))
}

impl Watch {
    fn compare(&mut self, entries: Entries) {
        self.looks += 1;
        let before = std::mem::replace(&mut self.seen, entries);
        let mut changes: Vec<(String, &'static str)> = Vec::new();
        for (path, entry) in &self.seen {
            match before.get(path) {
                None => changes.push((path.clone(), "created")),
                Some(old) if old != entry => changes.push((path.clone(), "modified")),
                Some(_) => {}
            }
        }
        let gone = before.keys().filter(|path| !self.seen.contains_key(*path));
        changes.extend(gone.map(|path| (path.clone(), "deleted")));
        changes.sort();
        for (path, kind) in changes {
            self.changes += 1;
            if self.waiting.len() < MOST_WAITING {
                self.waiting.push_back((kind, path));
            } else {
                self.lost += 1;
            }
        }
    }
}

/// What is at a path now: itself, or what is in the folder.
fn scan(ctx: &mut Ctx<'_>, path: &str, recursive: bool) -> Result<Entries, Fault> {
    let mut all = Entries::new();
    allowed(ctx, path)?;
    let seen = look_at(ctx, path)?;
    ctx.charge(1)?;
    if !seen.exists {
        return Ok(all);
    }
    if !seen.is_dir {
        let changed = (seen.modified * 1e9) as i64;
        all.insert(path.to_owned(), Entry::File { size: seen.size, changed });
        return Ok(all);
    }
    let mut folders = vec![(path.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = match listed(ctx, &folder) {
            Ok(entries) => entries,
            // One below may go at any moment.
            Err(_gone) if depth > 0 => continue,
            Err(fault) => return Err(fault),
        };
        ctx.charge(entries.len() as u64 + 1)?;
        for entry in entries {
            if all.len() >= MOST_SEEN {
                return Err(raised(format!("{}: {path} has more than {MOST_SEEN} entries", ctx.name)));
            }
            let at = format!("{}/{}", folder.trim_end_matches('/'), entry.name);
            if entry.is_dir {
                let below = recursive && depth < MOST_DEPTH;
                if below && ctx.core.gate.covers(Capability::FileRead, Some(&at)) {
                    folders.push((at.clone(), depth + 1));
                }
                all.insert(at, Entry::Folder);
            } else {
                all.insert(at, Entry::File { size: entry.size, changed: entry.changed });
            }
        }
    }
    Ok(all)
}

/// Asks the gate, in silence where it agrees: a loop of looks is one decision, and its start has the entry.
fn allowed(ctx: &mut Ctx<'_>, path: &str) -> Result<(), Fault> {
    if ctx.core.gate.covers(Capability::FileRead, Some(path)) {
        return Ok(());
    }
    ctx.ask(Capability::FileRead, Some(path))
}

fn watch(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = super::files::path_of(args, 0)?;
    let (mut interval, mut recursive) = (INTERVAL, false);
    let options = if args.optional(1).is_some() { Some(args.map(1)?) } else { None };
    for (key, v) in options.into_iter().flat_map(Map::entries) {
        match (key.as_str(), v) {
            ("interval", Value::Int(n)) if (1..=3600).contains(n) => interval = *n as f64,
            ("interval", Value::Float(f)) if (0.05..=3600.0).contains(f) => interval = *f,
            ("interval", v) => {
                let got = display(v);
                return Err(raised(format!("watch: interval must be from 0.05 to 3600 seconds, got {got}")));
            }
            ("recursive", Value::Bool(yes)) => recursive = *yes,
            ("recursive", _) => return Err(raised("watch: recursive must be true or false")),
            (key, _) => {
                return Err(raised(format!("watch: unknown option '{key}', one of interval, recursive")));
            }
        }
    }
    ctx.ask(Capability::FileRead, Some(&path))?;
    if with(ctx.core, |watches| watches.all.len() >= MOST_WATCHES) {
        return Err(raised(format!("watch: too many watches ({MOST_WATCHES}): close those that are done")));
    }
    let seen = scan(ctx, &path, recursive)?;
    let due = ctx.core.host.now() + interval;
    let id = with(ctx.core, |watches| {
        let id = watches.next;
        watches.next += 1;
        let waiting = VecDeque::new();
        let watch = Watch { path, interval, recursive, seen, waiting, due, looks: 1, changes: 0, lost: 0 };
        watches.all.insert(id, watch);
        id
    });
    Ok(Value::foreign(Handle(id)))
}

/// The watch that is meant, if it may be used here.
fn target(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<u64, Fault> {
    let id = number(args.at(0)).ok_or_else(|| args.wrong(0, "a watch"))?;
    let path = with(ctx.core, |watches| watches.all.get(&id).map(|watch| watch.path.clone()));
    let path = path.ok_or_else(|| raised(format!("{}: this watch is closed", args.name)))?;
    allowed(ctx, &path)?;
    Ok(id)
}

/// Waits for changes.
struct Receive {
    id: u64,
    wait: Wait,
}

fn receive(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let id = target(ctx, args)?;
    let seconds = waiting::seconds(args, 1, DEFAULT_WAIT)?;
    Ok(Box::new(Receive { id, wait: Wait::new(vec![Source::Watch(id)], seconds) }))
}

impl Resume for Receive {
    fn resume(&mut self, ctx: &mut Ctx<'_>, _: Option<Value>) -> Result<Next, Fault> {
        if let Seen::Over = self.wait.look(ctx)? {
            return Ok(Next::Done(Value::list(Vec::new())));
        }
        let given: Vec<(&str, String)> = with(ctx.core, |watches| {
            let watch = watches.all.get_mut(&self.id);
            watch.map_or(Vec::new(), |watch| {
                let count = watch.waiting.len().min(MOST_GIVEN);
                watch.waiting.drain(..count).collect()
            })
        });
        ctx.charge(given.len() as u64)?;
        let change = |(kind, path): (&str, String)| {
            Value::record([("kind", Value::text(kind)), ("path", Value::string(path))])
        };
        Ok(Next::Done(Value::list(given.into_iter().map(change).collect())))
    }
}

fn stats(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let id = target(ctx, args)?;
    let count = |n: u64| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
    let stats = with(ctx.core, |watches| {
        watches.all.get(&id).map(|watch| {
            Value::record([
                ("path", Value::text(&watch.path)),
                ("interval", Value::Float(watch.interval)),
                ("entries", Value::from(watch.seen.len())),
                ("looks", count(watch.looks)),
                ("changes", count(watch.changes)),
                ("waiting", Value::from(watch.waiting.len())),
                ("lost", count(watch.lost)),
            ])
        })
    });
    Ok(stats.unwrap_or_default())
}

fn close(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let id = number(args.at(0)).ok_or_else(|| args.wrong(0, "a watch"))?;
    Ok(with(ctx.core, |watches| watches.all.remove(&id)).is_some().into())
}
