//! Values: 16 bytes each, numbers and short texts inside, everything else counted by reference.
//!
//! Lists, maps and records are values for the program: they are shared while nobody writes, and copied by the
//! first writer who isn't alone.

use crate::bytecode::Proto;
use crate::partition::heap::{self, costs};
use num_bigint::BigInt;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tinystr::TinyAsciiStr;

pub(crate) use super::map::{Entries, Look};
pub use super::map::{Key, KeyHasher, Map, Seed};

/// A value of either language.
#[derive(Clone, Default)]
pub enum Value {
    /// No value.
    #[default]
    Nothing,
    /// A variable that has not been bound yet; never seen by a program.
    Unbound,
    /// A truth value.
    Bool(bool),
    /// An integer within 64 bits.
    Int(i64),
    /// A double.
    Float(f64),
    /// A text of at most 15 ASCII characters.
    Short(TinyAsciiStr<15>),
    /// A builtin, by its number in the registry.
    Builtin(u16),
    /// Any other text.
    Text(Rc<Text>),
    /// A list.
    List(Rc<List>),
    /// A map in insertion order.
    Map(Rc<Map>),
    /// An instance of a type, or a variant of an enum.
    Record(Rc<Record>),
    /// An integer beyond 64 bits.
    Big(Rc<Big>),
    /// A task or lambda.
    Task(Rc<Closure>),
    /// A captured variable; never seen by a program.
    Cell(Rc<CellBox>),
    /// A container that is shared by reference, a tagged value, a task or an actor.
    Shared(Rc<super::shared::Shared>),
    /// Everything rarer.
    Other(Rc<Boxed>),
}

/// A text on the heap.
pub struct Text {
    text: String,
    charged: usize,
    /// Number of characters; `usize::MAX` until somebody asks.
    chars: Cell<usize>,
}

impl Text {
    pub(crate) fn new(text: String) -> Self {
        let charged = costs::TEXT + text.capacity();
        heap::grow(charged);
        Self { text, charged, chars: Cell::new(usize::MAX) }
    }

    /// A text that counts so many bytes, whatever its own size.
    pub(crate) fn counted(text: String, bytes: usize) -> Self {
        heap::grow(bytes);
        Self { text, charged: bytes, chars: Cell::new(usize::MAX) }
    }

    /// Whether it counts bytes at all.
    pub(crate) fn is_counted(&self) -> bool {
        self.charged > 0
    }

    pub(crate) fn push(&mut self, more: &str) {
        self.text.push_str(more);
        self.chars.set(usize::MAX);
        let now = costs::TEXT + self.text.capacity();
        if now != self.charged {
            heap::resize(self.charged, now);
            self.charged = now;
        }
    }

    /// The text.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Number of characters.
    #[must_use]
    pub fn chars(&self) -> usize {
        if self.chars.get() == usize::MAX {
            let n = if self.text.is_ascii() { self.text.len() } else { self.text.chars().count() };
            self.chars.set(n);
        }
        self.chars.get()
    }
}

impl Clone for Text {
    fn clone(&self) -> Self {
        let copy = Self::new(self.text.clone());
        copy.chars.set(self.chars.get());
        copy
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        heap::shrink(self.charged);
    }
}

/// A list on the heap.
pub struct List {
    items: Vec<Value>,
    charged: usize,
}

impl List {
    pub(crate) fn new(items: Vec<Value>) -> Self {
        let charged = costs::LIST + costs::SLOT * items.capacity();
        heap::grow(charged);
        Self { items, charged }
    }

    /// The elements.
    #[must_use]
    pub fn items(&self) -> &[Value] {
        &self.items
    }

    /// Replaces an element that exists.
    #[inline]
    pub(crate) fn slot(&mut self, index: usize) -> Option<&mut Value> {
        self.items.get_mut(index)
    }

    /// Any change; the count follows the capacity.
    #[inline]
    pub(crate) fn edit<T>(&mut self, change: impl FnOnce(&mut Vec<Value>) -> T) -> T {
        let result = change(&mut self.items);
        let now = costs::LIST + costs::SLOT * self.items.capacity();
        if now != self.charged {
            heap::resize(self.charged, now);
            self.charged = now;
        }
        result
    }
}

impl Clone for List {
    fn clone(&self) -> Self {
        Self::new(self.items.clone())
    }
}

impl Drop for List {
    fn drop(&mut self) {
        heap::shrink(self.charged);
        if self.items.iter().any(Value::is_container) {
            heap::drop_inside(std::mem::take(&mut self.items).into_iter());
        }
    }
}

/// What instances of a type, or the variants of an enum, have in common.
#[derive(Debug)]
pub struct Shape {
    /// The type's or enum's name.
    pub name: Rc<str>,
    /// Field names of a type; empty for an enum.
    pub fields: Vec<Rc<str>>,
    /// Variants of an enum with the number of their parts; empty for a type.
    pub variants: Vec<(Rc<str>, usize)>,
}

/// An instance (`variant` is `None`) or a variant.
pub struct Record {
    pub(crate) shape: Rc<Shape>,
    pub(crate) variant: Option<usize>,
    pub(crate) values: Vec<Value>,
}

impl Record {
    pub(crate) fn new(shape: Rc<Shape>, variant: Option<usize>, values: Vec<Value>) -> Self {
        heap::grow(costs::RECORD + costs::SLOT * values.len());
        Self { shape, variant, values }
    }

    pub(crate) fn field(&self, name: &str) -> Option<usize> {
        if self.variant.is_some() {
            return None;
        }
        self.shape.fields.iter().position(|f| **f == *name)
    }
}

impl Clone for Record {
    fn clone(&self) -> Self {
        Self::new(self.shape.clone(), self.variant, self.values.clone())
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        heap::shrink(costs::RECORD + costs::SLOT * self.values.len());
        if self.values.iter().any(Value::is_container) {
            heap::drop_inside(std::mem::take(&mut self.values).into_iter());
        }
    }
}

/// An integer beyond 64 bits.
pub struct Big(pub(crate) BigInt);

impl Big {
    fn bytes(&self) -> usize {
        costs::BIG + (self.0.bits() / 8) as usize
    }
}

impl Drop for Big {
    fn drop(&mut self) {
        heap::shrink(self.bytes());
    }
}

/// A task or lambda with the variables that it captured.
pub struct Closure {
    pub(crate) index: u32,
    pub(crate) proto: Rc<Proto>,
    pub(crate) captured: Box<[Value]>,
    charged: usize,
}

impl Closure {
    pub(crate) fn new(proto: Rc<Proto>, captured: Box<[Value]>) -> Self {
        let charged = costs::CLOSURE + costs::SLOT * captured.len();
        Self::counted(proto, captured, charged)
    }

    /// One that counts so many bytes.
    pub(crate) fn counted(proto: Rc<Proto>, captured: Box<[Value]>, charged: usize) -> Self {
        heap::grow(charged);
        Self { index: proto.index, proto, captured, charged }
    }
}

impl Drop for Closure {
    fn drop(&mut self) {
        heap::shrink(self.charged);
        if !self.captured.is_empty() {
            heap::drop_inside(std::mem::take(&mut self.captured).into_iter());
        }
    }
}

/// A captured variable.
pub struct CellBox(pub(crate) RefCell<Value>, usize);

impl CellBox {
    pub(crate) fn new(value: Value) -> Self {
        Self::counted(value, costs::CELL)
    }

    /// One that counts so many bytes.
    pub(crate) fn counted(value: Value, bytes: usize) -> Self {
        heap::grow(bytes);
        Self(RefCell::new(value), bytes)
    }
}

impl Drop for CellBox {
    fn drop(&mut self) {
        heap::shrink(self.1);
        let value = self.0.take();
        if value.is_container() {
            heap::drop_inside(std::iter::once(value));
        }
    }
}

/// A rarer object with its counted size.
pub struct Boxed {
    pub(crate) inner: super::other::Other,
    charged: usize,
}

impl Boxed {
    pub(crate) fn new(inner: super::other::Other) -> Self {
        let charged = costs::OTHER + inner.bytes();
        heap::grow(charged);
        Self { inner, charged }
    }
}

impl Drop for Boxed {
    fn drop(&mut self) {
        heap::shrink(self.charged);
    }
}

impl Value {
    /// A text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        match TinyAsciiStr::try_from_utf8(text.as_bytes()) {
            Ok(short) => Value::Short(short),
            Err(_) => Value::Text(Rc::new(Text::new(text.to_owned()))),
        }
    }

    /// A text, if it needs no place on the heap.
    pub(crate) fn text_if_short(text: &str) -> Option<Self> {
        TinyAsciiStr::try_from_utf8(text.as_bytes()).ok().map(Value::Short)
    }

    /// A text that is already owned.
    #[must_use]
    pub fn string(text: String) -> Self {
        match TinyAsciiStr::try_from_utf8(text.as_bytes()) {
            Ok(short) => Value::Short(short),
            Err(_) => Value::Text(Rc::new(Text::new(text))),
        }
    }

    /// A text of one character.
    #[must_use]
    pub fn char(c: char) -> Self {
        let mut buffer = [0; 4];
        Value::text(c.encode_utf8(&mut buffer))
    }

    /// A list.
    #[must_use]
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(Rc::new(List::new(items)))
    }

    /// A map.
    #[must_use]
    pub fn map(entries: impl IntoIterator<Item = (Key, Value)>) -> Self {
        Value::Map(Rc::new(Map::new(entries.into_iter().collect())))
    }

    /// A map with fixed keys.
    #[must_use]
    pub fn record<const N: usize>(entries: [(&str, Value); N]) -> Self {
        Self::map(entries.into_iter().map(|(k, v)| (Key::new(k), v)))
    }

    /// An integer of any size, small again if it fits.
    #[must_use]
    pub fn big(n: BigInt) -> Self {
        match i64::try_from(&n) {
            Ok(small) => Value::Int(small),
            Err(_) => {
                let big = Big(n);
                heap::grow(big.bytes());
                Value::Big(Rc::new(big))
            }
        }
    }

    /// A rarer object.
    #[must_use]
    pub fn other(inner: super::other::Other) -> Self {
        Value::Other(Rc::new(Boxed::new(inner)))
    }

    /// The text, if it is one.
    #[must_use]
    #[inline]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Short(t) => Some(t.as_str()),
            Value::Text(t) => Some(&t.text),
            _ => None,
        }
    }

    /// The elements, if it is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(l) => Some(&l.items),
            _ => None,
        }
    }

    /// The rarer object, if it is one.
    #[must_use]
    pub fn as_other(&self) -> Option<&super::other::Other> {
        match self {
            Value::Other(o) => Some(&o.inner),
            _ => None,
        }
    }

    /// Number of characters of a text.
    #[must_use]
    pub fn chars(&self) -> usize {
        match self {
            Value::Short(t) => t.len(),
            Value::Text(t) => t.chars(),
            _ => 0,
        }
    }

    /// Whether dropping it may drop further values.
    #[inline]
    #[must_use]
    pub(crate) fn is_container(&self) -> bool {
        matches!(
            self,
            Value::List(_)
                | Value::Map(_)
                | Value::Record(_)
                | Value::Task(_)
                | Value::Cell(_)
                | Value::Shared(_)
                | Value::Other(_)
        )
    }

    /// Whether it holds a counted reference.
    #[inline]
    #[must_use]
    pub(crate) fn is_heap(&self) -> bool {
        !matches!(
            self,
            Value::Nothing
                | Value::Unbound
                | Value::Bool(_)
                | Value::Int(_)
                | Value::Float(_)
                | Value::Short(_)
                | Value::Builtin(_)
        )
    }

    /// Whether it is `nothing`.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Value::Nothing | Value::Unbound)
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&super::render::display(self))
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Value::Int(n)
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Self {
        Value::Int(n as i64)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Value::Float(n)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<&str> for Value {
    fn from(t: &str) -> Self {
        Value::text(t)
    }
}

impl From<String> for Value {
    fn from(t: String) -> Self {
        Value::string(t)
    }
}

/// Writes a slot. The drop of what it held is looked at only if that is counted.
#[inline(always)]
pub(crate) fn put(slot: &mut Value, value: Value) {
    if slot.is_heap() {
        *slot = value;
    } else {
        std::mem::forget(std::mem::replace(slot, value));
    }
}

/// A copy; numbers and the like without looking at each kind.
#[inline(always)]
pub(crate) fn copy(value: &Value) -> Value {
    match value {
        Value::Int(n) => Value::Int(*n),
        Value::Float(f) => Value::Float(*f),
        Value::Bool(b) => Value::Bool(*b),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_sixteen_bytes() {
        assert_eq!(size_of::<Value>(), 16);
    }

    #[test]
    fn a_deep_list_drops_without_the_hosts_stack() {
        let before = heap::live();
        let mut deep = Value::list(Vec::new());
        for _ in 0..1_000_000 {
            deep = Value::list(vec![deep]);
        }
        drop(deep);
        assert_eq!(heap::live(), before);
    }
}
