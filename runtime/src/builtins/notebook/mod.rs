//! The notebook: what a program remembers, its rules, and the progress of its work.
//!
//! It is kept in a file beside the program ([`kept`]) where the host has one for it, else in memory, for the run; it is
//! shared by the program's agents. Everything in it asks for `memory` under the
//! name that the program declared.
//!
//! Invariant: secrets and tasks come in as text.

mod kept;
mod progress;

use super::database::Kept;
use super::{Args, Builtin, Cost, Ctx};
use crate::partition::Core;
use crate::vm::agents::cross;
use crate::vm::render::{display, inside};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Key, Value};
use kept::Change;
use policies::capability::Capability;

pub(super) use progress::TABLE as PROGRESS;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("remember", &["category", "content", "tags"], 2, remember).named(3),
    Builtin::new("recall", &["category", "tags", "search", "mode", "limit", "from"], 0, recall)
        .named(6)
        .cost(Cost::Own),
    Builtin::new("forget_memory", &["id"], 1, forget).cost(Cost::Own),
    Builtin::new("memory_summary", &[], 0, summary).cost(Cost::Own),
    Builtin::new("add_rule", &["name", "level", "description", "category"], 3, add_rule).named(4),
    Builtin::new("get_rules", &["category"], 0, rules).cost(Cost::Own),
    Builtin::new("check_rules", &["category", "context"], 0, rules).cost(Cost::Own),
];

const CATEGORIES: [&str; 5] = ["preference", "rule", "learning", "decision", "context"];
/// Entries, and rules, of one notebook.
const MAX_ENTRIES: usize = 100_000;

/// Texts are values here and below: so their bytes are counted.
struct Entry {
    id: i64,
    category: &'static str,
    content: Value,
    /// A list.
    tags: Value,
}

struct Rule {
    name: Value,
    level: Value,
    description: Value,
    category: Value,
}

/// What is kept under one name.
#[derive(Default)]
struct Notebook {
    entries: Vec<Entry>,
    made: i64,
    rules: Vec<Rule>,
    progress: indexmap::IndexMap<String, progress::Work>,
    /// Where it is kept, once that is known.
    kept: Option<Option<Kept>>,
    /// The state of the file that this is a copy of.
    seen: Option<i64>,
    /// What the file doesn't have yet.
    changes: Vec<Change>,
}

/// Asks the gate, then works on the notebook.
fn open<T>(ctx: &mut Ctx<'_>, f: impl FnOnce(&mut Notebook) -> T) -> Result<T, Fault> {
    let name = ctx.core.gate.notebook().unwrap_or_else(|| stem(ctx.core));
    ctx.ask(Capability::Memory, Some(&name))?;
    // Out of the board while it works: its file needs the partition.
    let slot = ctx.core.shared.borrow_mut().keep.remove(KEEP);
    let mut notebook = slot.and_then(|slot| slot.downcast::<Notebook>().ok()).unwrap_or_default();
    let done = used(ctx, &name, &mut notebook, f);
    ctx.core.shared.borrow_mut().keep.insert(KEEP, notebook);
    done
}

const KEEP: &str = "notebook";

fn used<T>(
    ctx: &mut Ctx<'_>,
    name: &str,
    notebook: &mut Notebook,
    f: impl FnOnce(&mut Notebook) -> T,
) -> Result<T, Fault> {
    let kept = match notebook.kept.take() {
        Some(kept) => kept,
        None => kept::find(ctx, name)?,
    };
    let Some(kept) = kept else {
        notebook.kept = Some(None);
        let done = f(notebook);
        notebook.changes.clear();
        return Ok(done);
    };
    let done = kept::renew(ctx, &kept, notebook).map(|()| f(notebook)).and_then(|done| {
        if kept::changes(ctx.name) {
            kept::write(ctx, &kept, notebook)?;
        }
        Ok(done)
    });
    if done.is_err() {
        kept::give_up(ctx, &kept, notebook);
    }
    notebook.kept = Some(Some(kept));
    done
}

/// The program's file without folder and ending: the name that is proposed.
fn stem(core: &Core) -> String {
    let name = core.program.sources.first().map_or("program", |s| s.name.as_str());
    let file = name.rsplit('/').next().unwrap_or(name);
    file.strip_suffix(".syn").unwrap_or(file).trim_matches(['<', '>']).to_owned()
}

fn category(args: &Args<'_>, i: usize) -> Result<&'static str, Fault> {
    let given = args.text(i)?;
    CATEGORIES.into_iter().find(|c| *c == given).ok_or_else(|| {
        raised(format!("Invalid memory category: '{given}'. Valid categories: {}", CATEGORIES.join(", ")))
    })
}

fn tags(args: &Args<'_>, i: usize) -> Result<Vec<Value>, Fault> {
    let all = match args.optional(i) {
        None => return Ok(Vec::new()),
        Some(Value::List(list)) => list.items().to_vec(),
        Some(v) => vec![v.clone()],
    };
    match all.iter().find(|t| t.as_text().is_none()) {
        None => Ok(all),
        Some(odd) => Err(raised(format!(
            "{}: tags must be texts, got {}",
            args.name,
            inside(odd).chars().take(60).collect::<String>()
        ))),
    }
}

fn remember(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let category = category(args, 0)?;
    let tags = tags(args, 2)?;
    let content = cross(args.at(1));
    let id = open(ctx, |notebook| {
        if notebook.entries.len() >= MAX_ENTRIES {
            return None;
        }
        notebook.made += 1;
        let tags = Value::list(tags);
        notebook.entries.push(Entry { id: notebook.made, category, content, tags });
        notebook.changes.push(Change::Entry(notebook.made));
        Some(notebook.made)
    })?;
    id.map(Value::Int)
        .ok_or_else(|| raised(format!("remember: the notebook is full ({MAX_ENTRIES} entries)")))
}

fn shown(entry: &Entry) -> Value {
    Value::record([
        ("id", Value::Int(entry.id)),
        ("category", Value::text(entry.category)),
        ("content", entry.content.clone()),
        ("tags", entry.tags.clone()),
    ])
}

fn recall(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let category = if args.optional(0).is_some() { Some(category(args, 0)?) } else { None };
    let tags = tags(args, 1)?;
    let search = if args.optional(2).is_some() { args.text(2)?.to_lowercase() } else { String::new() };
    let all = match args.optional(3).map(|v| v.as_text()) {
        None | Some(Some("any")) => false,
        Some(Some("all")) => true,
        Some(_) => {
            return Err(raised(format!(
                "recall: mode must be \"any\" or \"all\", got {}",
                inside(args.at(3)).chars().take(60).collect::<String>()
            )));
        }
    };
    let limit = if args.optional(4).is_some() { args.int(4, "limit")? } else { 200 };
    let from = if args.optional(5).is_some() { args.int(5, "from")? } else { i64::MAX };
    let Ok(limit) = usize::try_from(limit) else { return Err(raised("recall: limit must not be negative")) };
    let words: Vec<&str> = search.split_whitespace().collect();
    let (found, looked_at) = open(ctx, |notebook| {
        let mut looked_at = 0u64;
        let mut found = Vec::new();
        for entry in notebook.entries.iter().rev() {
            if found.len() >= limit {
                break;
            }
            looked_at += 2;
            let own = entry.tags.as_list().unwrap_or(&[]);
            looked_at += own.len() as u64 * tags.len() as u64;
            let known = |t: &Value| own.iter().any(|own| own.as_text() == t.as_text());
            let tagged = match (tags.is_empty(), all) {
                (true, _) => true,
                (false, true) => tags.iter().all(known),
                (false, false) => tags.iter().any(known),
            };
            let wanted = entry.id < from && category.is_none_or(|c| c == entry.category) && tagged;
            let worded = wanted && {
                let text =
                    if words.is_empty() { String::new() } else { display(&entry.content).to_lowercase() };
                looked_at += text.len() as u64 / 32;
                match (words.is_empty(), all) {
                    (true, _) => true,
                    (false, true) => words.iter().all(|w| text.contains(w)),
                    (false, false) => words.iter().any(|w| text.contains(w)),
                }
            };
            if worded {
                found.push(shown(entry));
            }
        }
        (found, looked_at)
    })?;
    ctx.charge(looked_at)?;
    Ok(Value::list(found))
}

fn forget(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let id = args.int(0, "id")?;
    let (gone, length) = open(ctx, |notebook| {
        let at = notebook.entries.binary_search_by_key(&id, |e| e.id).ok();
        let gone = at.map(|at| notebook.entries.remove(at));
        notebook.changes.extend(gone.as_ref().map(|entry| Change::Gone(entry.id)));
        (gone, notebook.entries.len())
    })?;
    ctx.charge(length as u64 / 64)?;
    Ok(gone.is_some().into())
}

fn summary(ctx: &mut Ctx<'_>, _: &mut Args<'_>) -> Result<Value, Fault> {
    let (counts, total) = open(ctx, |notebook| {
        let count = |c: &str| notebook.entries.iter().filter(|e| e.category == c).count();
        (CATEGORIES.map(|c| (c, count(c))), notebook.entries.len())
    })?;
    ctx.charge(total as u64 / 4)?;
    let rows = counts.into_iter().map(|(name, n)| (Key::new(name), Value::from(n)));
    Ok(Value::map(std::iter::once((Key::new("total"), Value::from(total))).chain(rows)))
}

fn add_rule(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    for i in 0..3 {
        if args.text(i)?.is_empty() {
            return Err(raised("add_rule: a rule has a name, a level and a description"));
        }
    }
    if args.optional(3).is_some() {
        args.text(3)?;
    }
    let rule =
        Rule { name: args.take(0), level: args.take(1), description: args.take(2), category: args.take(3) };
    let (full, length) = open(ctx, |notebook| {
        let at = notebook.rules.iter().position(|r| r.name.as_text() == rule.name.as_text());
        let full = at.is_none() && notebook.rules.len() >= MAX_ENTRIES;
        if !full {
            notebook.changes.extend(rule.name.as_text().map(|name| Change::Rule(name.to_owned())));
        }
        match at {
            Some(at) => notebook.rules[at] = rule,
            None if !full => notebook.rules.push(rule),
            None => {}
        }
        (full, notebook.rules.len())
    })?;
    ctx.charge(length as u64)?;
    if full {
        Err(raised(format!("add_rule: the notebook is full ({MAX_ENTRIES} rules)")))
    } else {
        Ok(Value::Nothing)
    }
}

/// The rules of a category, and those of none: they hold everywhere.
fn rules(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let category = if args.optional(0).is_some() { Some(args.text(0)?.to_owned()) } else { None };
    let checking = args.name == "check_rules";
    let found = open(ctx, |notebook| {
        let rows = notebook.rules.iter().filter(|r| match (&category, r.category.as_text()) {
            (None, _) => true,
            (Some(wanted), Some(own)) => wanted == own,
            (Some(_), None) => checking,
        });
        rows.map(|r| {
            Value::record([
                ("name", r.name.clone()),
                ("level", r.level.clone()),
                ("description", r.description.clone()),
                ("category", r.category.clone()),
            ])
        })
        .collect::<Vec<_>>()
    })?;
    ctx.charge(found.len() as u64 * 8)?;
    Ok(Value::list(found))
}
