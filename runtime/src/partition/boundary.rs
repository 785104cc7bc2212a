//! Only data crosses: a value is copied out as a tree, or refused with the place of the first offence.
//!
//! Invariant: what arrives shares nothing with what was sent, and neither side can hold a function, a reference or a
//! task of the other.

use super::Core;
use crate::vm::shared::{Body, sizes};
use crate::vm::strict;
use crate::vm::trap::{Fault, Stop, Trap, raised};
use crate::vm::value::{Entries, Key, Seed, Value};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// A value on its way from one partition to another, or to and from the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Data {
    /// No value.
    #[default]
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A double.
    Float(f64),
    /// A string.
    Text(Rc<str>),
    /// An array.
    Array(Vec<Data>),
    /// A record, in the order of its fields.
    Record(Vec<(Rc<str>, Data)>),
    /// A tag, with its value if it has one.
    Tagged(Rc<str>, Option<Box<Data>>),
}

impl From<i64> for Data {
    fn from(n: i64) -> Self {
        Data::Int(n)
    }
}
impl From<f64> for Data {
    fn from(n: f64) -> Self {
        Data::Float(n)
    }
}
impl From<bool> for Data {
    fn from(b: bool) -> Self {
        Data::Bool(b)
    }
}
impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Data::Text(text.into())
    }
}

impl Data {
    /// A field of a record.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Data> {
        match self {
            Data::Record(fields) => fields.iter().find(|(n, _)| **n == *name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// From any serialisable value, by its JSON form; a tag can't be expressed that way.
    ///
    /// # Errors
    /// It has no JSON form.
    pub fn from_serde(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        Ok(Self::from_json(&serde_json::to_value(value)?))
    }

    /// Into any deserialisable value, by its JSON form: a tag is `{"tag": …, "value": …}`.
    ///
    /// # Errors
    /// It has another form.
    pub fn to_serde<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.to_json())
    }

    fn from_json(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Data::Nil,
            serde_json::Value::Bool(b) => Data::Bool(*b),
            serde_json::Value::Number(n) => {
                n.as_i64().map_or_else(|| Data::Float(n.as_f64().unwrap_or(f64::NAN)), Data::Int)
            }
            serde_json::Value::String(s) => Data::Text(s.as_str().into()),
            serde_json::Value::Array(all) => Data::Array(all.iter().map(Self::from_json).collect()),
            serde_json::Value::Object(fields) => {
                Data::Record(fields.iter().map(|(k, v)| (k.as_str().into(), Self::from_json(v))).collect())
            }
        }
    }

    fn to_json(&self) -> serde_json::Value {
        match self {
            Data::Nil => serde_json::Value::Null,
            Data::Bool(b) => (*b).into(),
            Data::Int(n) => (*n).into(),
            Data::Float(f) => (*f).into(),
            Data::Text(text) => text.to_string().into(),
            Data::Array(all) => all.iter().map(Self::to_json).collect(),
            Data::Record(fields) => fields
                .iter()
                .map(|(k, v)| (k.to_string(), v.to_json()))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Data::Tagged(tag, value) => serde_json::json!({
                "tag": &**tag,
                "value": value.as_ref().map(|v| v.to_json()),
            }),
        }
    }

    /// Bytes that a copy counts.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Data::Nil | Data::Bool(_) | Data::Int(_) | Data::Float(_) | Data::Tagged(_, None) => 0,
            Data::Text(text) => sizes::text(text.len()),
            Data::Array(all) => {
                sizes::ARRAY + sizes::SLOT * all.len() + all.iter().map(Data::bytes).sum::<usize>()
            }
            Data::Record(fields) => {
                let of = |(key, v): &(Rc<str>, Data)| sizes::ENTRY + key_bytes(key) + v.bytes();
                sizes::RECORD + fields.iter().map(of).sum::<usize>()
            }
            Data::Tagged(_, Some(value)) => sizes::TAGGED + value.bytes(),
        }
    }

    /// What reading it costs: its nodes and its strings.
    pub(crate) fn work(&self) -> u64 {
        match self {
            Data::Text(text) => 1 + text.len() as u64 / 32,
            Data::Array(all) => 1 + all.iter().map(Data::work).sum::<u64>(),
            Data::Record(fields) => {
                1 + fields.iter().map(|(key, v)| key.len() as u64 / 32 + v.work()).sum::<u64>()
            }
            Data::Tagged(_, Some(value)) => 1 + value.work(),
            _ => 1,
        }
    }
}

/// Bytes of a field's name, where it is made at run time; a short one has its place in the record.
fn key_bytes(key: &str) -> usize {
    if key.len() <= 15 && key.is_ascii() { 0 } else { sizes::text(key.len()) }
}

/// A function that the host registered on a partition.
#[derive(Clone)]
pub struct HostFunction {
    /// As the program calls it.
    pub name: Rc<str>,
    /// Arguments that it takes.
    pub takes: usize,
    /// Fuel beyond the call itself: flat, and for each byte of its arguments.
    pub cost: (u64, u64),
    /// What it does; an error is a fault inside.
    #[expect(clippy::type_complexity, reason = "the signature is the documentation")]
    pub run: Rc<dyn Fn(&[Data]) -> Result<Data, String>>,
}

impl std::fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name, self.takes)
    }
}

/// Bytes of a copy that fuel alone bounds.
const FREE_COPY: i64 = 64 << 20;

/// One step from a container to what it holds.
enum Step {
    Field(Key),
    Index(usize),
    Tag(Rc<str>),
}

/// What may travel besides data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// Into or out of a sandbox: nothing.
    Data,
    /// Between the actors of one partition: functions and references.
    Actors,
}

impl Route {
    fn rule(self) -> &'static str {
        match self {
            Route::Data => "only data crosses into or out of a sandbox",
            Route::Actors => "only data, functions and references go between actors",
        }
    }
}

/// The walk over one value.
struct Walk<'r> {
    route: Route,
    root: &'r str,
    limit: usize,
    path: Vec<Step>,
    /// Containers that are open, by address.
    open: Vec<usize>,
    /// Bytes of what has been copied: shared parts are copied once for each place.
    copied: usize,
}

impl Walk<'_> {
    fn refused(&self, what: &str) -> Fault {
        let mut steps: Vec<String> = self
            .path
            .iter()
            .rev()
            .map(|step| match step {
                Step::Field(name) => format!("field `{}` of ", shortened(name.as_str())),
                Step::Index(i) => format!("index {i} of "),
                Step::Tag(tag) => format!("the value of `{tag}` in "),
            })
            .collect();
        if steps.len() > 8 {
            let outer = steps.split_off(steps.len() - 2);
            steps.truncate(4);
            steps.push("… of ".into());
            steps.extend(outer);
        }
        raised(format!("{}, and {}{} is {what}", self.route.rule(), steps.concat(), self.root))
    }

    /// Goes into a container.
    fn enter(&mut self, address: usize) -> Result<(), Fault> {
        if self.open.contains(&address) {
            return Err(self.refused("a cycle"));
        }
        if self.open.len() >= self.limit {
            let rule = self.route.rule();
            return Err(raised(format!("{rule}, and {} nests deeper than {}", self.root, self.limit)));
        }
        self.open.push(address);
        Ok(())
    }
}

fn shortened(name: &str) -> String {
    let mut text: String = name.chars().take(40).flat_map(char::escape_debug_control).collect();
    if name.chars().nth(40).is_some() {
        text.push('…');
    }
    text
}

trait Controls {
    fn escape_debug_control(self) -> Vec<char>;
}

impl Controls for char {
    fn escape_debug_control(self) -> Vec<char> {
        if self.is_control() { crate::vm::strict::escaped(self).chars().collect() } else { vec![self] }
    }
}

impl Core {
    /// A value as data; the partition that runs pays for the walk.
    ///
    /// # Errors
    /// It holds what may not cross, or the fuel is used up.
    pub(crate) fn export(&mut self, value: &Value, root: &str, limit: usize) -> Result<Data, Fault> {
        let mut walk =
            Walk { route: Route::Data, root, limit, path: Vec::new(), open: Vec::new(), copied: 0 };
        self.out(value, &mut walk)
    }

    fn out(&mut self, value: &Value, walk: &mut Walk<'_>) -> Result<Data, Fault> {
        self.charge(1)?;
        walk.copied += sizes::SLOT + value.as_text().map_or(0, str::len);
        if i64::try_from(walk.copied).is_ok_and(|copied| copied > self.exact.terms.memory.max(FREE_COPY)) {
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        Ok(match value {
            Value::Nothing | Value::Unbound => Data::Nil,
            Value::Bool(b) => Data::Bool(*b),
            Value::Int(n) => Data::Int(*n),
            Value::Float(f) => Data::Float(*f),
            Value::Short(_) | Value::Text(_) => {
                let text = value.as_text().unwrap_or("");
                self.charge(text.len() as u64 / 32)?;
                Data::Text(text.into())
            }
            Value::Shared(shared) => {
                let address = Rc::as_ptr(shared) as usize;
                match &shared.0 {
                    Body::Array(array) => {
                        walk.enter(address)?;
                        let count = array.len();
                        let mut all = Vec::new();
                        for i in 0..count {
                            let item = array.items().get(i).cloned().unwrap_or_default();
                            walk.path.push(Step::Index(i));
                            all.push(self.out(&item, walk)?);
                            walk.path.pop();
                        }
                        walk.open.pop();
                        Data::Array(all)
                    }
                    Body::Record(table) => {
                        walk.enter(address)?;
                        let mut all = Vec::new();
                        for i in 0..table.len() {
                            let field = table.entries().get_index(i).map(|(k, v)| (k.clone(), v.clone()));
                            let Some((key, item)) = field else { break };
                            strict::read_key(self, key.as_str())?;
                            walk.copied += key.as_str().len();
                            walk.path.push(Step::Field(key.clone()));
                            all.push((key.as_str().into(), self.out(&item, walk)?));
                            walk.path.pop();
                        }
                        walk.open.pop();
                        Data::Record(all)
                    }
                    Body::Tagged(tag, inner) => {
                        walk.enter(address)?;
                        walk.path.push(Step::Tag(tag.clone()));
                        let inner = self.out(inner, walk)?;
                        walk.path.pop();
                        walk.open.pop();
                        Data::Tagged(tag.clone(), Some(Box::new(inner)))
                    }
                    Body::Tag(tag) => Data::Tagged(tag.clone(), None),
                    Body::Task(_) => return Err(walk.refused("a task")),
                    Body::Actor(_) => return Err(walk.refused("an actor reference")),
                    Body::Walk(_) => Data::Nil,
                }
            }
            _ => return Err(walk.refused("a function")),
        })
    }

    /// A copy for another actor of this partition.
    ///
    /// # Errors
    /// It holds a task or a cycle, or a limit is passed.
    pub(crate) fn copy(&mut self, value: &Value, root: &str) -> Result<Value, Fault> {
        if !matches!(value, Value::Shared(_)) {
            self.charge(1)?;
            return Ok(value.clone());
        }
        let mut walk =
            Walk { route: Route::Actors, root, limit: 64, path: Vec::new(), open: Vec::new(), copied: 0 };
        self.copied(value, &mut walk)
    }

    fn copied(&mut self, value: &Value, walk: &mut Walk<'_>) -> Result<Value, Fault> {
        self.charge(1)?;
        let Value::Shared(shared) = value else { return Ok(value.clone()) };
        let address = Rc::as_ptr(shared) as usize;
        match &shared.0 {
            Body::Array(array) => {
                walk.enter(address)?;
                let mut all = Vec::new();
                for i in 0..array.len() {
                    let item = array.items().get(i).cloned().unwrap_or_default();
                    walk.path.push(Step::Index(i));
                    all.push(self.copied(&item, walk)?);
                    walk.path.pop();
                }
                walk.open.pop();
                self.array(all)
            }
            Body::Record(table) => {
                walk.enter(address)?;
                let copy = self.record(table.len())?;
                for i in 0..table.len() {
                    let field = table.entries().get_index(i).map(|(k, v)| (k.clone(), v.clone()));
                    let Some((key, item)) = field else { break };
                    strict::read_key(self, key.as_str())?;
                    walk.path.push(Step::Field(key.clone()));
                    let item = self.copied(&item, walk)?;
                    walk.path.pop();
                    if let Some(table) = copy.as_table() {
                        table.entries_mut().insert(key, item);
                    }
                }
                walk.open.pop();
                Ok(copy)
            }
            Body::Tagged(tag, inner) => {
                walk.enter(address)?;
                walk.path.push(Step::Tag(tag.clone()));
                let inner = self.copied(inner, walk)?;
                walk.path.pop();
                walk.open.pop();
                self.tagged(tag, inner)
            }
            Body::Task(_) => Err(walk.refused("a task")),
            Body::Tag(_) | Body::Actor(_) | Body::Walk(_) => Ok(value.clone()),
        }
    }

    /// Data as a value of this partition: it counts bytes and costs no fuel, the sender has paid.
    ///
    /// # Errors
    /// It doesn't fit.
    pub(crate) fn import(&mut self, data: &Data) -> Result<Value, Fault> {
        let bytes = data.bytes();
        // A value that can't fit is never begun.
        if i64::try_from(bytes).unwrap_or(i64::MAX) > self.exact.terms.memory {
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        self.take_bytes(bytes)?;
        Ok(self.inward(data))
    }

    fn inward(&mut self, data: &Data) -> Value {
        match data {
            Data::Nil => Value::Nothing,
            Data::Bool(b) => Value::Bool(*b),
            Data::Int(n) => Value::Int(*n),
            Data::Float(f) => Value::Float(*f),
            Data::Text(text) => Self::counted_text(text.to_string(), sizes::text(text.len())),
            Data::Array(all) => {
                let items = all.iter().map(|item| self.inward(item)).collect();
                self.free_array(items)
            }
            Data::Record(fields) => {
                let mut entries = Entries::with_capacity_and_hasher(fields.len(), Seed::default());
                for (name, item) in fields {
                    let item = self.inward(item);
                    entries.insert(Key::counted(name, key_bytes(name)), item);
                }
                let record = self.free_record(fields.len());
                if let Some(table) = record.as_table() {
                    *table.entries_mut() = entries;
                }
                record
            }
            Data::Tagged(tag, None) => Value::Shared(crate::vm::shared::Shared::tag(tag.clone())),
            Data::Tagged(tag, Some(inner)) => {
                let inner = self.inward(inner);
                Value::Shared(crate::vm::shared::Shared::tagged(tag.clone(), inner))
            }
        }
    }
}
