//! Frees cycles that nothing outside reaches.
//!
//! A cycle is closed by a captured variable or a shared container; lists, maps and records of the other language are
//! values. Trial deletion starts from those: references from inside the graph are subtracted from each object's count;
//! what is left over is held from outside and keeps what it reaches, the rest is emptied.

use super::other::Other;
use super::value::{Seed, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// Objects by their numbers, in the order in which they were found.
#[derive(Default)]
struct Found {
    /// Numbers of those that have no place for one; the others keep it themselves, and 0 stands for none.
    ids: HashMap<usize, usize, Seed>,
    count: usize,
}

impl Found {
    /// An object's number, if it has been found.
    fn known(&self, value: &Value) -> Option<usize> {
        match value {
            Value::Shared(shared) => (shared.1.get() as usize).checked_sub(1),
            other => self.ids.get(&address(other)?).copied(),
        }
    }

    /// An object's number, and whether it is a new one.
    fn number(&mut self, value: &Value) -> Option<(usize, bool)> {
        if let Some(id) = self.known(value) {
            return Some((id, false));
        }
        let id = self.count;
        match value {
            Value::Shared(shared) => shared.1.set(u32::try_from(id + 1).ok()?),
            other => {
                self.ids.insert(address(other)?, id);
            }
        }
        self.count += 1;
        Some((id, true))
    }
}

/// Empties every object of `suspects` that only a cycle holds. Whatever else holds one keeps it.
pub(crate) fn collect(suspects: Vec<Value>) {
    let mut known = Found::default();
    let mut inside: Vec<usize> = Vec::with_capacity(suspects.len());
    let mut nodes: Vec<Value> = Vec::with_capacity(suspects.len());
    for value in suspects {
        if let Some((_, true)) = known.number(&value) {
            nodes.push(value);
            inside.push(0);
        }
    }
    let mut next = 0;
    let mut found: Vec<Value> = Vec::new();
    while next < nodes.len() {
        children(&nodes[next], |child| {
            let Some((id, new)) = known.number(child) else { return };
            if new {
                inside.push(0);
                found.push(child.clone());
            }
            inside[id] += 1;
        });
        nodes.append(&mut found);
        next += 1;
    }
    // One reference of each is ours.
    let mut reached = vec![false; nodes.len()];
    let mut work: Vec<usize> = (0..nodes.len()).filter(|i| strong(&nodes[*i]) > inside[*i] + 1).collect();
    while let Some(id) = work.pop() {
        if std::mem::replace(&mut reached[id], true) {
            continue;
        }
        children(&nodes[id], |child| {
            if let Some(id) = known.known(child)
                && !reached[id]
            {
                work.push(id);
            }
        });
    }
    for node in &nodes {
        if let Value::Shared(shared) = node {
            shared.1.set(0);
        }
    }
    for (node, reached) in nodes.iter().zip(reached) {
        if !reached {
            match node {
                Value::Cell(cell) => drop(cell.0.take()),
                Value::Shared(shared) => drop(shared.take_children()),
                _ => {}
            }
        }
    }
}

fn address(value: &Value) -> Option<usize> {
    match value {
        Value::List(l) => Some(Rc::as_ptr(l) as usize),
        Value::Map(m) => Some(Rc::as_ptr(m) as usize),
        Value::Record(r) => Some(Rc::as_ptr(r) as usize),
        Value::Task(t) => Some(Rc::as_ptr(t) as usize),
        Value::Cell(c) => Some(Rc::as_ptr(c) as usize),
        Value::Shared(s) => Some(Rc::as_ptr(s) as usize),
        Value::Other(o) => Some(Rc::as_ptr(o) as usize),
        _ => None,
    }
}

fn strong(value: &Value) -> usize {
    match value {
        Value::List(l) => Rc::strong_count(l),
        Value::Map(m) => Rc::strong_count(m),
        Value::Record(r) => Rc::strong_count(r),
        Value::Task(t) => Rc::strong_count(t),
        Value::Cell(c) => Rc::strong_count(c),
        Value::Shared(s) => Rc::strong_count(s),
        Value::Other(o) => Rc::strong_count(o),
        _ => usize::MAX,
    }
}

fn children(value: &Value, mut each: impl FnMut(&Value)) {
    let heavy = |v: &&Value| v.is_container();
    match value {
        Value::List(l) => l.items().iter().filter(heavy).for_each(&mut each),
        Value::Map(m) => m.entries().map(|(_, v)| v).filter(heavy).for_each(&mut each),
        Value::Record(r) => r.values.iter().filter(heavy).for_each(&mut each),
        Value::Task(t) => t.captured.iter().filter(heavy).for_each(&mut each),
        Value::Cell(c) => each(&c.0.borrow()),
        Value::Shared(s) => s.children(|child| {
            if child.is_container() {
                each(child);
            }
        }),
        Value::Other(o) => {
            if let Other::Secret(s) = &o.inner {
                each(&s.value);
            }
        }
        _ => {}
    }
}
