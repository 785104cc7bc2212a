//! The notebook in a file of its own: what is in memory is a copy of it.
//!
//! Before each use the copy is renewed if another run has written since; a change is read, made and written in one
//! transaction, so that two runs with one notebook lose nothing of each other's.
//!
//! Invariant: the host says where it is kept, or that it is kept nowhere: then it is in memory, for the run.
//! Invariant: the file may be anybody's work: what doesn't read as a notebook is left out or is an error, never trusted.

use super::super::Ctx;
use super::super::database::{Kept, Row};
use super::super::json;
use super::progress::{State, Step, Work};
use super::{CATEGORIES, Entry, MAX_ENTRIES, Notebook, Rule};
use crate::vm::trap::Fault;
use crate::vm::value::Value;
use rusqlite::types::Value as Sql;

/// What was changed in the copy.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Entry(i64),
    Gone(i64),
    Rule(String),
    Work(String),
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS entries(id INTEGER PRIMARY KEY AUTOINCREMENT, category TEXT NOT NULL, content TEXT, tags TEXT);
    CREATE TABLE IF NOT EXISTS rules(name TEXT PRIMARY KEY, level TEXT, description TEXT, category TEXT);
    CREATE TABLE IF NOT EXISTS works(name TEXT PRIMARY KEY, steps TEXT);";

/// Whether a use changes the notebook.
pub(super) fn changes(builtin: &str) -> bool {
    matches!(
        builtin,
        "remember"
            | "forget_memory"
            | "add_rule"
            | "create_progress"
            | "start_step"
            | "complete_step"
            | "fail_step"
    )
}

/// Opens a notebook's file, where the host keeps it in one.
pub(super) fn find(ctx: &mut Ctx<'_>, name: &str) -> Result<Option<Kept>, Fault> {
    let Some(kept) = Kept::notebook(ctx, name)? else { return Ok(None) };
    kept.script(ctx, TABLES)?;
    Ok(Some(kept))
}

/// Makes the copy what the file has, if somebody else has written since. A use that changes something begins here.
pub(super) fn renew(ctx: &mut Ctx<'_>, kept: &Kept, notebook: &mut Notebook) -> Result<(), Fault> {
    if changes(ctx.name) {
        kept.script(ctx, "BEGIN IMMEDIATE")?;
    }
    let version = kept.rows(ctx, "PRAGMA data_version")?;
    let version = version.first().map_or(0, |row| row.int(0));
    if notebook.seen == Some(version) {
        return Ok(());
    }
    let mut entries = Vec::new();
    for row in kept.rows(
        ctx,
        &format!("SELECT id, category, content, tags FROM entries ORDER BY id LIMIT {MAX_ENTRIES}"),
    )? {
        let Some(category) = CATEGORIES.into_iter().find(|c| row.text(1) == Some(c)) else { continue };
        let tags = value(&row, 3);
        let tags = if tags.as_list().is_some() { tags } else { Value::list(Vec::new()) };
        entries.push(Entry { id: row.int(0), category, content: value(&row, 2), tags });
    }
    let last = kept.rows(ctx, "SELECT max(seq) FROM sqlite_sequence WHERE name = 'entries'")?;
    let last = last.first().map_or(0, |row| row.int(0));
    notebook.made = entries.last().map_or(last, |entry| entry.id.max(last));
    notebook.entries = entries;
    let text = |row: &Row, i| row.text(i).map_or(Value::Nothing, Value::text);
    let rules = kept.rows(
        ctx,
        &format!("SELECT name, level, description, category FROM rules ORDER BY rowid LIMIT {MAX_ENTRIES}"),
    )?;
    notebook.rules = rules
        .iter()
        .map(|row| Rule {
            name: text(row, 0),
            level: text(row, 1),
            description: text(row, 2),
            category: text(row, 3),
        })
        .collect();
    notebook.progress.clear();
    for row in kept.rows(ctx, "SELECT name, steps FROM works ORDER BY rowid LIMIT 100")? {
        let (Some(name), steps) = (row.text(0).map(str::to_owned), value(&row, 1)) else { continue };
        let steps = steps.as_list().unwrap_or(&[]).iter().filter_map(|step| match step.as_list() {
            Some([name, state, note]) if name.as_text().is_some() => {
                let state = State::of(state.as_text()?)?;
                Some(Step { name: name.clone(), state, note: note.clone() })
            }
            _ => None,
        });
        notebook.progress.insert(name, Work { steps: steps.collect() });
    }
    notebook.seen = Some(version);
    Ok(())
}

/// Writes what was changed.
pub(super) fn write(ctx: &mut Ctx<'_>, kept: &Kept, notebook: &mut Notebook) -> Result<(), Fault> {
    for change in std::mem::take(&mut notebook.changes) {
        match change {
            Change::Entry(id) => {
                let Some(entry) = notebook.entries.iter().rev().find(|entry| entry.id == id) else {
                    continue;
                };
                let (content, tags) = (text(ctx, &entry.content)?, text(ctx, &entry.tags)?);
                kept.run(
                    ctx,
                    "INSERT INTO entries(id, category, content, tags) VALUES (?, ?, ?, ?)",
                    vec![Sql::Integer(id), Sql::Text(entry.category.to_owned()), content, tags],
                )?;
            }
            Change::Gone(id) => {
                kept.run(ctx, "DELETE FROM entries WHERE id = ?", vec![Sql::Integer(id)])?;
            }
            Change::Rule(name) => {
                let rule = notebook.rules.iter().find(|rule| rule.name.as_text() == Some(&name));
                let Some(rule) = rule else { continue };
                let plain = |v: &Value| v.as_text().map_or(Sql::Null, |t| Sql::Text(t.to_owned()));
                kept.run(
                    ctx,
                    "INSERT INTO rules(name, level, description, category) VALUES (?, ?, ?, ?) ON CONFLICT(name) DO UPDATE \
                     SET level = excluded.level, description = excluded.description, category = excluded.category",
                    vec![
                        Sql::Text(name),
                        plain(&rule.level),
                        plain(&rule.description),
                        plain(&rule.category),
                    ],
                )?;
            }
            Change::Work(name) => {
                let Some(work) = notebook.progress.get(&name) else { continue };
                let steps = work.steps.iter().map(|step| {
                    Value::list(vec![step.name.clone(), Value::text(step.state.word()), step.note.clone()])
                });
                let steps = text(ctx, &Value::list(steps.collect()))?;
                kept.run(
                    ctx,
                    "INSERT INTO works(name, steps) VALUES (?, ?) ON CONFLICT(name) DO UPDATE SET steps = excluded.steps",
                    vec![Sql::Text(name), steps],
                )?;
            }
        }
    }
    kept.script(ctx, "COMMIT")
}

/// Gives a use up: the copy is read anew at the next one.
pub(super) fn give_up(ctx: &mut Ctx<'_>, kept: &Kept, notebook: &mut Notebook) {
    notebook.seen = None;
    notebook.changes.clear();
    // Without a transaction there is nothing to undo.
    let _undone = kept.script(ctx, "ROLLBACK");
}

fn value(row: &Row, i: usize) -> Value {
    row.text(i).map(|text| json::parse(text, false).unwrap_or(Value::Nothing)).unwrap_or(Value::Nothing)
}

fn text(ctx: &mut Ctx<'_>, value: &Value) -> Result<Sql, Fault> {
    let mut out = String::new();
    json::plain(ctx, value, &mut out)?;
    Ok(Sql::Text(out))
}
