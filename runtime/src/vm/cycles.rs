//! Frees cycles of closures and captured variables that nothing outside reaches.
//!
//! Only a captured variable can close a cycle: lists, maps and records are values. So trial deletion starts from
//! the variables: references from inside the graph are subtracted from each one's count, what is left over is
//! held from outside and keeps what it reaches; the rest is emptied.

use super::other::Other;
use super::value::{CellBox, Value};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// Empties every variable that only a cycle holds.
pub(crate) fn collect(cells: &[Weak<CellBox>]) {
    let live: Vec<Rc<CellBox>> = cells.iter().filter_map(Weak::upgrade).collect();
    let index: HashMap<usize, usize> =
        live.iter().enumerate().map(|(i, c)| (Rc::as_ptr(c) as usize, i)).collect();
    // Held from outside: what the count says beyond our own handle and the references found inside.
    let mut outside: Vec<usize> = live.iter().map(|c| Rc::strong_count(c) - 1).collect();
    let mut edges: Vec<Vec<usize>> = vec![Vec::new(); live.len()];
    // A container counts once for each way that leads to it from a variable; one that is also held from
    // elsewhere makes what it reaches outside.
    let mut seen: HashMap<usize, usize> = HashMap::new();
    let mut counts: HashMap<usize, usize> = HashMap::new();
    let mut container_edges: Vec<Vec<usize>> = Vec::new();
    let mut container_children: Vec<Vec<usize>> = Vec::new();
    let mut cell_children: Vec<Vec<usize>> = vec![Vec::new(); live.len()];
    let mut todo: Vec<(Owner, Value)> = Vec::new();
    for (i, cell) in live.iter().enumerate() {
        todo.push((Owner::Cell(i), cell.0.borrow().clone()));
    }
    let mut handles: Vec<Value> = Vec::new();
    while let Some((owner, value)) = todo.pop() {
        if let Value::Cell(cell) = &value {
            if let Some(&target) = index.get(&(Rc::as_ptr(cell) as usize)) {
                outside[target] = outside[target].saturating_sub(1);
                match owner {
                    Owner::Cell(i) => edges[i].push(target),
                    Owner::Container(c) => container_edges[c].push(target),
                }
            }
            continue;
        }
        let Some(address) = address(&value) else { continue };
        let id = match seen.get(&address) {
            Some(id) => *id,
            None => {
                let id = container_edges.len();
                seen.insert(address, id);
                container_edges.push(Vec::new());
                container_children.push(Vec::new());
                children(&value, |child| todo.push((Owner::Container(id), child.clone())));
                handles.push(value);
                id
            }
        };
        *counts.entry(id).or_default() += 1;
        match owner {
            Owner::Cell(i) => cell_children[i].push(id),
            Owner::Container(c) => container_children[c].push(id),
        }
    }
    // The `todo` list itself held clones; they are gone now, but `handles` keeps one of each container.
    let mut reached_cells = vec![false; live.len()];
    let mut reached_containers = vec![false; handles.len()];
    let mut work: Vec<Owner> = Vec::new();
    for (i, count) in outside.iter().enumerate() {
        if *count > 0 {
            work.push(Owner::Cell(i));
        }
    }
    for (id, handle) in handles.iter().enumerate() {
        let inside = counts.get(&id).copied().unwrap_or(0);
        if strong(handle) > inside + 1 {
            work.push(Owner::Container(id));
        }
    }
    while let Some(owner) = work.pop() {
        let (next_cells, next_containers) = match owner {
            Owner::Cell(i) if !std::mem::replace(&mut reached_cells[i], true) => {
                (&edges[i], &cell_children[i])
            }
            Owner::Container(c) if !std::mem::replace(&mut reached_containers[c], true) => {
                (&container_edges[c], &container_children[c])
            }
            _ => continue,
        };
        work.extend(next_cells.iter().map(|i| Owner::Cell(*i)));
        work.extend(next_containers.iter().map(|c| Owner::Container(*c)));
    }
    drop(handles);
    for (cell, reached) in live.iter().zip(reached_cells) {
        if !reached {
            drop(cell.0.take());
        }
    }
}

#[derive(Clone, Copy)]
enum Owner {
    Cell(usize),
    Container(usize),
}

fn address(value: &Value) -> Option<usize> {
    match value {
        Value::List(l) => Some(Rc::as_ptr(l) as usize),
        Value::Map(m) => Some(Rc::as_ptr(m) as usize),
        Value::Record(r) => Some(Rc::as_ptr(r) as usize),
        Value::Task(t) => Some(Rc::as_ptr(t) as usize),
        _ => None,
    }
}

fn strong(value: &Value) -> usize {
    match value {
        Value::List(l) => Rc::strong_count(l),
        Value::Map(m) => Rc::strong_count(m),
        Value::Record(r) => Rc::strong_count(r),
        Value::Task(t) => Rc::strong_count(t),
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
        Value::Other(o) => {
            if let Other::Secret(s) = &o.inner {
                each(&s.value);
            }
        }
        _ => {}
    }
}
