//! Progress: named work in steps, each pending, running, done or failed.

use super::super::{Args, Builtin, Cost, Ctx};
use super::kept::Change;
use super::{Notebook, open};
use crate::vm::render::{display, inside};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;

pub(in super::super) const TABLE: &[Builtin] = &[
    Builtin::new("create_progress", &["name", "steps"], 2, create),
    Builtin::new("start_step", &["name", "step"], 2, |c, a| mark(c, a, State::Running)).cost(Cost::Flat),
    Builtin::new("complete_step", &["name", "step", "note"], 2, |c, a| mark(c, a, State::Done))
        .cost(Cost::Flat),
    Builtin::new("fail_step", &["name", "step", "note"], 2, |c, a| mark(c, a, State::Failed))
        .cost(Cost::Flat),
    Builtin::new("resume_point", &["name"], 1, |c, a| {
        looked_at(c, a, |work| {
            let next = work.steps.iter().find(|s| s.state != State::Done);
            next.map_or(Value::Nothing, |s| s.name.clone())
        })
    }),
    Builtin::new("progress_percent", &["name"], 1, |c, a| {
        looked_at(c, a, |work| {
            let done = work.steps.iter().filter(|s| s.state == State::Done).count();
            Value::Float((done as f64 / work.steps.len().max(1) as f64 * 1000.0).round() / 10.0)
        })
    }),
    Builtin::new("progress_display", &["name"], 1, |c, a| {
        looked_at(c, a, |work| {
            let lines = work.steps.iter().map(|s| {
                let note = s.note.as_text().map_or(String::new(), |n| format!(" — {n}"));
                format!("[{}] {}{note}", s.state.sign(), display(&s.name))
            });
            Value::string(lines.collect::<Vec<_>>().join("\n"))
        })
    }),
];

/// Steps of one work.
const MAX_STEPS: usize = 1000;
/// Works of one notebook.
const MAX_WORKS: usize = 100;
/// Bytes of a work's name.
const MAX_NAME: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    Running,
    Done,
    Failed,
}

impl State {
    /// As a notebook's file has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Running => "running",
            State::Done => "done",
            State::Failed => "failed",
        }
    }

    /// From what a notebook's file has.
    pub(super) fn of(word: &str) -> Option<Self> {
        [State::Pending, State::Running, State::Done, State::Failed].into_iter().find(|s| s.word() == word)
    }

    fn sign(self) -> char {
        match self {
            State::Pending => ' ',
            State::Running => '>',
            State::Done => 'x',
            State::Failed => '!',
        }
    }
}

/// Texts are values: so their bytes are counted.
pub(super) struct Step {
    pub(super) name: Value,
    pub(super) state: State,
    pub(super) note: Value,
}

/// Work in steps.
pub(super) struct Work {
    pub(super) steps: Vec<Step>,
}

/// As it is shown in messages.
fn short(v: &Value) -> String {
    inside(v).chars().take(60).collect()
}

fn create(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let name = args.text(0)?.to_owned();
    if name.is_empty() || name.len() > MAX_NAME {
        return Err(raised(format!("create_progress: a name has 1 to {MAX_NAME} bytes")));
    }
    let names = args.list(1)?;
    if names.is_empty() || names.len() > MAX_STEPS {
        return Err(raised(format!("create_progress expects 1 to {MAX_STEPS} steps, got {}", names.len())));
    }
    let mut seen = std::collections::BTreeSet::new();
    let mut steps = Vec::with_capacity(names.len());
    for v in names {
        match v.as_text() {
            Some(t) if seen.insert(t) => {
                steps.push(Step { name: v.clone(), state: State::Pending, note: Value::Nothing });
            }
            Some(_) => return Err(raised(format!("create_progress: the step {} stands twice", short(v)))),
            None => return Err(raised(format!("create_progress: a step is a text, got {}", short(v)))),
        }
    }
    let full = open(ctx, |notebook| {
        let full = notebook.progress.len() >= MAX_WORKS && !notebook.progress.contains_key(&name);
        // Work that is there already goes on where it stopped.
        if !full {
            let same = notebook.progress.get(&name).is_some_and(|w| {
                w.steps.len() == steps.len()
                    && w.steps.iter().zip(&steps).all(|(a, b)| a.name.as_text() == b.name.as_text())
            });
            if !same {
                notebook.changes.push(Change::Work(name.clone()));
                notebook.progress.insert(name, Work { steps });
            }
        }
        full
    })?;
    if full {
        Err(raised(format!("create_progress: the notebook is full ({MAX_WORKS} works)")))
    } else {
        Ok(args.take(0))
    }
}

fn find<'n>(notebook: &'n mut Notebook, name: &str) -> Result<&'n mut Work, String> {
    notebook
        .progress
        .get_mut(name)
        .ok_or_else(|| format!("no progress named '{name}' — create_progress makes it"))
}

fn mark(ctx: &mut Ctx<'_>, args: &mut Args<'_>, state: State) -> Result<Value, Fault> {
    let (name, step) = (args.text(0)?.to_owned(), args.text(1)?.to_owned());
    let note = args.optional(2).map_or(Value::Nothing, |v| Value::string(display(v)));
    let builtin = args.name;
    open(ctx, |notebook| {
        let work = find(notebook, &name)?;
        let found = work.steps.iter_mut().find(|s| s.name.as_text() == Some(&step));
        let found = found.ok_or_else(|| format!("progress '{name}' has no step '{step}'"))?;
        found.state = state;
        found.note = note;
        notebook.changes.push(Change::Work(name.clone()));
        Ok::<_, String>(Value::Nothing)
    })?
    .map_err(|e| raised(format!("{builtin}: {e}")))
}

fn looked_at(ctx: &mut Ctx<'_>, args: &Args<'_>, f: fn(&Work) -> Value) -> Result<Value, Fault> {
    let name = args.text(0)?.to_owned();
    let builtin = args.name;
    let result = open(ctx, |notebook| find(notebook, &name).map(|work| (f(work), work.steps.len())))?;
    let (value, steps) = result.map_err(|e| raised(format!("{builtin}: {e}")))?;
    ctx.charge(steps as u64)?;
    Ok(value)
}
