//! Values → bytes. Objects are numbered by kind as they are found, from the globals and the queue on.

use super::bytes::Out;
use super::{MAGIC, MAX_ACTORS, MAX_STATE, VERSION, hash, hash_of_source, kind};
use crate::error::StateError;
use crate::partition::Core;
use crate::vm::shared::{Body, Shared};
use crate::vm::strict;
use crate::vm::tasks::still::{Gone, Resting};
use crate::vm::trap::Raised;
use crate::vm::value::{CellBox, Closure, Text, Value};
use std::collections::HashMap;
use std::rc::Rc;

/// Objects of one kind, numbered, with what has been written of each.
struct Numbered<T> {
    all: Vec<Rc<T>>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { all: Vec::new() }
    }
}

#[derive(Default)]
struct Found {
    numbers: HashMap<usize, usize>,
    names: HashMap<Rc<str>, usize>,
    name_order: Vec<Rc<str>>,
    texts: Numbered<Text>,
    cells: Numbered<CellBox>,
    arrays: Numbered<Shared>,
    records: Numbered<Shared>,
    tagged: Numbered<Shared>,
    tasks: Numbered<Shared>,
    actors: Numbered<Shared>,
    closures: Numbered<Closure>,
}

/// The state of a partition at rest.
///
/// # Errors
/// It isn't at rest, or it is larger than a state may be.
pub(crate) fn write(core: &Core) -> Result<Vec<u8>, StateError> {
    if !core.exact.tasks.is_still() {
        return Err(StateError::NotAtRest);
    }
    let mut writer = Writer { core, found: Found::default() };
    let next: Vec<Value> = core.exact.tasks.next_actors().into_iter().map(Value::Shared).collect();
    let mut globals = Out::default();
    globals.number(core.globals.len() as u64);
    for value in &core.globals {
        writer.variable(value, &mut globals)?;
    }
    globals.number(next.len() as u64);
    for actor in &next {
        writer.value(actor, &mut globals)?;
    }
    let objects = writer.objects()?;
    let mut out = Out(MAGIC.to_vec());
    out.byte(VERSION);
    out.0.extend(hash_of_source(&core.program));
    let counters = core.exact.tasks.counters();
    out.signed(counters.now);
    out.number(counters.next);
    out.number(u64::from(counters.tasks));
    out.number(u64::from(counters.actors));
    out.number(writer.found.name_order.len() as u64);
    for name in &writer.found.name_order {
        out.text(name);
    }
    out.number(writer.found.texts.all.len() as u64);
    for text in &writer.found.texts.all {
        out.byte(u8::from(text.is_counted()));
        out.text(text.as_str());
    }
    out.0.extend(objects.0);
    out.0.extend(globals.0);
    if out.0.len() + 32 > MAX_STATE {
        return Err(StateError::TooLarge { limit: MAX_STATE });
    }
    let hash = hash(&out.0);
    out.0.extend(hash);
    Ok(out.0)
}

struct Writer<'c> {
    core: &'c Core,
    found: Found,
}

impl Writer<'_> {
    fn name(&mut self, name: &Rc<str>, out: &mut Out) {
        let fresh = self.found.name_order.len();
        let number = *self.found.names.entry(name.clone()).or_insert(fresh);
        if number == fresh {
            self.found.name_order.push(name.clone());
        }
        out.number(number as u64);
    }

    /// A value where a variable stands.
    fn variable(&mut self, value: &Value, out: &mut Out) -> Result<(), StateError> {
        if matches!(value, Value::Unbound) {
            out.byte(kind::UNBOUND);
            return Ok(());
        }
        self.value(value, out)
    }

    fn value(&mut self, value: &Value, out: &mut Out) -> Result<(), StateError> {
        match value {
            Value::Nothing | Value::Unbound => out.byte(kind::NIL),
            Value::Bool(b) => out.byte(if *b { kind::TRUE } else { kind::FALSE }),
            Value::Int(n) => {
                out.byte(kind::INT);
                out.signed(*n);
            }
            Value::Float(f) => {
                out.byte(kind::FLOAT);
                out.0.extend(f.to_bits().to_le_bytes());
            }
            Value::Short(text) => {
                out.byte(kind::SHORT);
                out.text(text.as_str());
            }
            Value::Text(text) => {
                out.byte(kind::TEXT);
                out.number(number(&mut self.found.numbers, &mut self.found.texts, text));
            }
            Value::Builtin(id) => match strict::host_index(*id) {
                Some(index) => {
                    out.byte(kind::HOST);
                    let name = self.core.exact.hosts.get(index).map(|host| host.name.clone());
                    self.name(&name.unwrap_or_else(|| "".into()), out);
                }
                None => {
                    out.byte(kind::BUILTIN);
                    self.name(&crate::builtins::get(*id).name.into(), out);
                }
            },
            Value::Task(closure) if closure.proto.fixed => {
                out.byte(kind::TOP);
                out.number(u64::from(closure.proto.index));
            }
            Value::Task(closure) => {
                out.byte(kind::CLOSURE);
                out.number(number(&mut self.found.numbers, &mut self.found.closures, closure));
            }
            Value::Shared(shared) => self.shared(shared, out),
            // None of these is a value of this language.
            Value::List(_)
            | Value::Map(_)
            | Value::Record(_)
            | Value::Big(_)
            | Value::Cell(_)
            | Value::Other(_) => return Err(StateError::NotAtRest),
        }
        Ok(())
    }

    fn shared(&mut self, shared: &Rc<Shared>, out: &mut Out) {
        let found = &mut self.found;
        let (mark, list) = match &shared.0 {
            Body::Array(_) => (kind::ARRAY, &mut found.arrays),
            Body::Record(_) => (kind::RECORD, &mut found.records),
            Body::Tagged(..) => (kind::TAGGED, &mut found.tagged),
            Body::Task(_) => (kind::TASK, &mut found.tasks),
            Body::Actor(_) => (kind::ACTOR, &mut found.actors),
            Body::Walk(_) => {
                out.byte(kind::NIL);
                return;
            }
            Body::Tag(name) => {
                out.byte(kind::TAG);
                let name = name.clone();
                self.name(&name, out);
                return;
            }
        };
        out.byte(mark);
        out.number(number(&mut found.numbers, list, shared));
    }

    /// All objects, each found while another one is written until there is no more.
    fn objects(&mut self) -> Result<Out, StateError> {
        let mut done = [0usize; 7];
        let mut parts: [Out; 7] = std::array::from_fn(|_| Out::default());
        let mut tagged: Vec<(Option<usize>, Out)> = Vec::new();
        let mut written = 0;
        loop {
            let before = written;
            while let Some(cell) = self.found.cells.all.get(done[0]).cloned() {
                self.variable(&cell.0.borrow(), &mut parts[0])?;
                done[0] += 1;
                written += 1;
            }
            while let Some(shared) = self.found.arrays.all.get(done[1]).cloned() {
                self.array(&shared, &mut parts[1])?;
                done[1] += 1;
                written += 1;
            }
            while let Some(shared) = self.found.records.all.get(done[2]).cloned() {
                self.record(&shared, &mut parts[2])?;
                done[2] += 1;
                written += 1;
            }
            while let Some(shared) = self.found.tasks.all.get(done[3]).cloned() {
                self.task(&shared, &mut parts[3])?;
                done[3] += 1;
                written += 1;
            }
            while let Some(shared) = self.found.actors.all.get(done[4]).cloned() {
                self.actor(&shared, &mut parts[4])?;
                done[4] += 1;
                written += 1;
            }
            while let Some(closure) = self.found.closures.all.get(done[5]).cloned() {
                self.closure(&closure, &mut parts[5])?;
                done[5] += 1;
                written += 1;
            }
            while let Some(shared) = self.found.tagged.all.get(done[6]).cloned() {
                if let Body::Tagged(tag, value) = &shared.0 {
                    let mut out = Out::default();
                    self.name(tag, &mut out);
                    self.value(value, &mut out)?;
                    let inner = match value.body() {
                        Some(Body::Tagged(..)) => {
                            value_address(value).and_then(|a| self.found.numbers.get(&a))
                        }
                        _ => None,
                    };
                    tagged.push((inner.copied(), out));
                }
                done[6] += 1;
                written += 1;
            }
            let sum: usize = parts.iter().map(|part| part.0.len()).sum();
            if sum > MAX_STATE || done[3] + done[4] > MAX_ACTORS {
                return Err(StateError::TooLarge { limit: MAX_STATE });
            }
            if written == before {
                break;
            }
        }
        let mut out = Out::default();
        for count in done {
            out.number(count as u64);
        }
        let [cells, arrays, records, tasks, actors, closures, _] = parts;
        out.0.extend(closures.0);
        for part in inner_first(&tagged) {
            out.number(part as u64);
            out.0.extend(&tagged[part].1.0);
        }
        for part in [cells, arrays, records, tasks, actors] {
            out.0.extend(part.0);
        }
        Ok(out)
    }

    fn array(&mut self, shared: &Rc<Shared>, out: &mut Out) -> Result<(), StateError> {
        let Body::Array(array) = &shared.0 else { return Ok(()) };
        out.number(array.capacity() as u64);
        out.number(array.len() as u64);
        for item in array.items().iter() {
            self.value(item, out)?;
        }
        Ok(())
    }

    fn record(&mut self, shared: &Rc<Shared>, out: &mut Out) -> Result<(), StateError> {
        let Body::Record(table) = &shared.0 else { return Ok(()) };
        out.number(table.capacity() as u64);
        out.number(table.len() as u64);
        for (key, value) in table.entries().iter() {
            self.value(&key.value(), out)?;
            self.value(value, out)?;
        }
        Ok(())
    }

    fn task(&mut self, shared: &Rc<Shared>, out: &mut Out) -> Result<(), StateError> {
        let Body::Task(task) = &shared.0 else { return Ok(()) };
        out.number(u64::from(task.number.get()));
        out.byte(u8::from(task.is_joined()));
        match task.gone() {
            Gone::Never => out.byte(0),
            Gone::With(value) => {
                out.byte(1);
                self.value(&value, out)?;
            }
            Gone::Failed(error) => {
                out.byte(2);
                self.error(&error, out);
            }
        }
        Ok(())
    }

    fn actor(&mut self, shared: &Rc<Shared>, out: &mut Out) -> Result<(), StateError> {
        let Body::Actor(actor) = &shared.0 else { return Ok(()) };
        match actor.resting() {
            Resting::Sandbox(name) => {
                out.byte(0);
                self.name(&name, out);
            }
            Resting::Ordinary { handler, state, mail, end } => {
                out.byte(1);
                out.number(u64::from(actor.number.get()));
                self.value(&handler, out)?;
                self.value(&state, out)?;
                out.number(mail.len() as u64);
                for letter in mail {
                    self.name(&letter.tag, out);
                    out.number(letter.values.len() as u64);
                    for value in &letter.values {
                        self.value(value, out)?;
                    }
                }
                out.byte(u8::from(end.is_some()));
                if let Some(end) = end {
                    self.error(&end, out);
                }
            }
        }
        Ok(())
    }

    fn closure(&mut self, closure: &Rc<Closure>, out: &mut Out) -> Result<(), StateError> {
        out.number(u64::from(closure.proto.index));
        out.number(closure.captured.len() as u64);
        for value in &closure.captured {
            let Value::Cell(cell) = value else { return Err(StateError::NotAtRest) };
            out.number(number(&mut self.found.numbers, &mut self.found.cells, cell));
        }
        Ok(())
    }

    fn error(&mut self, error: &Raised, out: &mut Out) {
        out.text(strict::cut(&error.message));
        out.byte(u8::from(error.denied));
        out.number(error.place.map_or(0, |(_, at)| u64::from(at) + 1));
        let Some(origin) = &error.origin else {
            out.byte(0);
            return;
        };
        out.byte(if origin.elsewhere.is_some() { 2 } else { 1 });
        self.name(&origin.kind, out);
        if let Some(from) = &origin.elsewhere {
            self.name(&from.name, out);
            out.signed(from.line);
            out.number(from.actor.map_or(0, |number| u64::from(number) + 1));
        }
    }
}

fn value_address(value: &Value) -> Option<usize> {
    match value {
        Value::Shared(shared) => Some(Rc::as_ptr(shared) as *const u8 as usize),
        _ => None,
    }
}

/// Tagged values can't be changed, so they are made from the inside out: the order in which they can be made again.
fn inner_first(tagged: &[(Option<usize>, Out)]) -> Vec<usize> {
    let mut order = Vec::with_capacity(tagged.len());
    let mut seen = vec![false; tagged.len()];
    let mut chain = Vec::new();
    for start in 0..tagged.len() {
        let mut at = Some(start);
        while let Some(number) = at.filter(|number| !std::mem::replace(&mut seen[*number], true)) {
            chain.push(number);
            at = tagged[number].0;
        }
        order.extend(chain.drain(..).rev());
    }
    order
}

fn number<T>(numbers: &mut HashMap<usize, usize>, list: &mut Numbered<T>, of: &Rc<T>) -> u64 {
    let fresh = list.all.len();
    let number = *numbers.entry(Rc::as_ptr(of) as *const u8 as usize).or_insert(fresh);
    if number == fresh && list.all.get(fresh).is_none() {
        list.all.push(of.clone());
    }
    number as u64
}
