//! Containers that are shared by reference: arrays and records with identity, tagged values, tasks and actors.
//!
//! Invariant: every object counts exactly the bytes of the table in the language's reference while it lives, in the
//! meter of its partition; whoever makes one asks `Core::allocate` first.

use super::tasks::{Actor, Task};
use super::value::{Entries, Key, Value, copy};
use crate::partition::heap;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::{Rc, Weak};

/// Bytes of each kind of object, before its elements.
pub(crate) mod sizes {
    pub(crate) const ARRAY: usize = 32;
    pub(crate) const SLOT: usize = 16;
    pub(crate) const RECORD: usize = 48;
    pub(crate) const ENTRY: usize = 48;
    pub(crate) const TAGGED: usize = 32;
    pub(crate) const CLOSURE: usize = 32;
    pub(crate) const CELL: usize = 24;
    pub(crate) const FRAME: usize = 64;
    pub(crate) const TASK: usize = 128;

    /// A string of so many bytes.
    pub(crate) const fn text(length: usize) -> usize {
        24 + length.next_multiple_of(8)
    }
}

/// One shared object, and its number while cycles are looked for.
pub struct Shared(pub(crate) Body, pub(crate) Cell<u32>);

/// What it is.
pub(crate) enum Body {
    Array(Array),
    Record(Box<Table>),
    /// A tag with a value.
    Tagged(Rc<str>, Value),
    /// A tag without one; counts nothing.
    Tag(Rc<str>),
    Task(Box<Task>),
    Actor(Box<Actor>),
    /// Where a loop is in a record; never seen by a program, counts nothing.
    Walk(Walk),
}

/// A loop's way through the fields that a record had at its start. Fields that are added stand behind them; one that is
/// removed moves it.
pub(crate) struct Walk {
    at: Cell<usize>,
    end: Cell<usize>,
}

impl Walk {
    pub(crate) fn next(&self) -> Option<usize> {
        let at = self.at.get();
        if at >= self.end.get() {
            return None;
        }
        self.at.set(at + 1);
        Some(at)
    }

    fn removed(&self, at: usize) {
        for place in [&self.at, &self.end] {
            if at < place.get() {
                place.set(place.get() - 1);
            }
        }
    }
}

/// A growing sequence.
pub(crate) struct Array {
    items: RefCell<Vec<Value>>,
    capacity: Cell<usize>,
    suspect: Cell<bool>,
}

/// Fields in insertion order.
pub(crate) struct Table {
    entries: RefCell<Entries>,
    capacity: Cell<usize>,
    suspect: Cell<bool>,
    /// Loops that may be going on.
    walks: RefCell<Vec<Weak<Shared>>>,
}

/// The capacity after growing to hold `needed` elements.
pub(crate) fn grown(capacity: usize, needed: usize) -> usize {
    let mut to = capacity;
    while to < needed {
        to = (2 * to).max(4);
    }
    to
}

impl Array {
    pub(crate) fn items(&self) -> Ref<'_, Vec<Value>> {
        self.items.borrow()
    }

    pub(crate) fn items_mut(&self) -> RefMut<'_, Vec<Value>> {
        self.items.borrow_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.items.borrow().len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.get()
    }

    /// Counts a larger capacity, which `Core::allocate` has agreed to.
    pub(crate) fn count_to(&self, capacity: usize) {
        heap::grow(sizes::SLOT * (capacity - self.capacity.get()));
        self.capacity.set(capacity);
    }
}

impl Table {
    pub(crate) fn entries(&self) -> Ref<'_, Entries> {
        self.entries.borrow()
    }

    pub(crate) fn entries_mut(&self) -> RefMut<'_, Entries> {
        self.entries.borrow_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity.get()
    }

    pub(crate) fn count_to(&self, capacity: usize) {
        heap::grow(sizes::ENTRY * (capacity - self.capacity.get()));
        self.capacity.set(capacity);
    }

    /// A loop over the fields that there are now.
    pub(crate) fn walk(&self) -> Rc<Shared> {
        let walk = Walk { at: Cell::new(0), end: Cell::new(self.len()) };
        let walk = Rc::new(Shared(Body::Walk(walk), Cell::new(0)));
        let mut walks = self.walks.borrow_mut();
        if walks.len() == walks.capacity() {
            walks.retain(|walk| walk.strong_count() > 0);
        }
        walks.push(Rc::downgrade(&walk));
        walk
    }

    /// Removes a field; loops skip it.
    pub(crate) fn remove(&self, key: &str) -> Option<Value> {
        let (at, _, value) = self.entries_mut().shift_remove_full(&super::value::Look(key))?;
        for walk in self.walks.borrow().iter().filter_map(Weak::upgrade) {
            if let Body::Walk(walk) = &walk.0 {
                walk.removed(at);
            }
        }
        Some(value)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.entries.borrow().get(&super::value::Look(key)).cloned()
    }
}

impl Shared {
    fn bytes(&self) -> usize {
        match &self.0 {
            Body::Array(array) => sizes::ARRAY + sizes::SLOT * array.capacity.get(),
            Body::Record(table) => sizes::RECORD + sizes::ENTRY * table.capacity.get(),
            Body::Tagged(..) => sizes::TAGGED,
            Body::Task(task) if task.spawned => sizes::TASK,
            Body::Task(_) | Body::Tag(_) | Body::Actor(_) | Body::Walk(_) => 0,
        }
    }

    fn new(body: Body) -> Rc<Self> {
        let shared = Self(body, Cell::new(0));
        heap::grow(shared.bytes());
        Rc::new(shared)
    }

    /// An array of exactly these elements.
    pub(crate) fn array(items: Vec<Value>) -> Rc<Self> {
        let capacity = Cell::new(items.len());
        Self::new(Body::Array(Array { items: RefCell::new(items), capacity, suspect: Cell::new(false) }))
    }

    /// A record with room for exactly its fields, or for more.
    pub(crate) fn record(entries: Entries, capacity: usize) -> Rc<Self> {
        let capacity = Cell::new(capacity.max(entries.len()));
        let (entries, suspect) = (RefCell::new(entries), Cell::new(false));
        Self::new(Body::Record(Box::new(Table { entries, capacity, suspect, walks: RefCell::default() })))
    }

    pub(crate) fn tagged(tag: Rc<str>, value: Value) -> Rc<Self> {
        Self::new(Body::Tagged(tag, value))
    }

    pub(crate) fn tag(tag: Rc<str>) -> Rc<Self> {
        Self::new(Body::Tag(tag))
    }

    pub(crate) fn task(task: Task) -> Rc<Self> {
        Self::new(Body::Task(Box::new(task)))
    }

    pub(crate) fn actor(actor: Actor) -> Rc<Self> {
        Self::new(Body::Actor(Box::new(actor)))
    }

    /// An element of an array that has it.
    #[inline]
    pub(crate) fn element(&self, at: i64) -> Option<Value> {
        match &self.0 {
            Body::Array(array) => array.items.borrow().get(at as usize).map(copy),
            _ => None,
        }
    }

    /// A field of a record that has it.
    #[inline]
    pub(crate) fn field(&self, name: &str) -> Option<Value> {
        match &self.0 {
            Body::Record(table) => table.get(name),
            _ => None,
        }
    }

    /// Replaces an element of an array that has it, by what is no container; gives what was there.
    #[inline]
    pub(crate) fn put_element(&self, at: i64, value: Value) -> Option<Value> {
        match &self.0 {
            Body::Array(array) => {
                array.items.borrow_mut().get_mut(at as usize).map(|slot| std::mem::replace(slot, value))
            }
            _ => None,
        }
    }

    /// Marks a container that may be part of a cycle; whether it wasn't marked before.
    ///
    /// What is made refers to what was made earlier, so no cycle closes unless a container is put into one that
    /// exists already.
    pub(crate) fn mark(&self) -> bool {
        match &self.0 {
            Body::Array(array) => !array.suspect.replace(true),
            Body::Record(table) => !table.suspect.replace(true),
            Body::Tagged(..) | Body::Tag(_) | Body::Task(_) | Body::Actor(_) | Body::Walk(_) => false,
        }
    }

    /// Values that it holds.
    pub(crate) fn children(&self, mut each: impl FnMut(&Value)) {
        match &self.0 {
            Body::Array(array) => array.items.borrow().iter().for_each(each),
            Body::Record(table) => table.entries.borrow().values().for_each(each),
            Body::Tagged(_, value) => each(value),
            Body::Tag(_) | Body::Walk(_) => {}
            Body::Task(task) => task.children(each),
            Body::Actor(actor) => actor.children(each),
        }
    }

    /// Takes what it holds: how a cycle is broken.
    pub(crate) fn take_children(&self) -> Vec<Value> {
        match &self.0 {
            Body::Array(array) => array.items.take(),
            Body::Record(table) => table.entries.take().into_values().collect(),
            Body::Tagged(..) | Body::Tag(_) | Body::Walk(_) => Vec::new(),
            Body::Task(task) => task.take_children(),
            Body::Actor(actor) => actor.take_children(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        heap::shrink(self.bytes());
        match &mut self.0 {
            Body::Array(array) => {
                let items = array.items.get_mut();
                if items.iter().any(Value::is_container) {
                    heap::drop_inside(std::mem::take(items).into_iter());
                }
            }
            Body::Record(table) => {
                let entries = table.entries.get_mut();
                if entries.values().any(Value::is_container) {
                    heap::drop_inside(std::mem::take(entries).into_iter().map(|(_, v)| v));
                }
            }
            Body::Tagged(_, value) => {
                if value.is_container() {
                    heap::drop_inside(std::iter::once(std::mem::take(value)));
                }
            }
            Body::Tag(_) | Body::Walk(_) => {}
            Body::Task(task) => heap::drop_inside(task.take_children().into_iter()),
            Body::Actor(actor) => heap::drop_inside(actor.take_children().into_iter()),
        }
    }
}

impl Value {
    /// The shared object, if it is one.
    #[inline]
    pub(crate) fn body(&self) -> Option<&Body> {
        match self {
            Value::Shared(shared) => Some(&shared.0),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn as_array(&self) -> Option<&Array> {
        match self.body() {
            Some(Body::Array(array)) => Some(array),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn as_table(&self) -> Option<&Table> {
        match self.body() {
            Some(Body::Record(table)) => Some(table),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn as_task(&self) -> Option<&Task> {
        match self.body() {
            Some(Body::Task(task)) => Some(task),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn as_actor(&self) -> Option<&Actor> {
        match self.body() {
            Some(Body::Actor(actor)) => Some(actor),
            _ => None,
        }
    }

    /// The tag and its value.
    pub(crate) fn as_tagged(&self) -> Option<(&Rc<str>, Option<&Value>)> {
        match self.body() {
            Some(Body::Tagged(tag, value)) => Some((tag, Some(value))),
            Some(Body::Tag(tag)) => Some((tag, None)),
            _ => None,
        }
    }
}

/// A key that stands in a source: it counts nothing.
pub(crate) fn key(text: &str) -> Key {
    Key::counted(text, 0)
}
