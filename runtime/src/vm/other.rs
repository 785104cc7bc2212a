//! Objects that are rarer than texts, lists and maps.

use super::decimal::Decimal;
use super::value::{Shape, Value};
use std::any::Any;
use std::rc::Rc;

/// One of the rarer kinds.
pub enum Other {
    /// Bytes.
    Bytes(Vec<u8>),
    /// An exact decimal.
    Decimal(Decimal),
    /// A type's constructor.
    Type(Rc<Shape>),
    /// An enum.
    Enum(Rc<Shape>),
    /// A variant with parts, before it is called.
    Maker(Rc<Shape>, usize),
    /// A module: exported names and the globals that hold them.
    Module(Rc<Module>),
    /// A sealed value.
    Secret(Secret),
    /// A value of a family that has a type of its own (dates, arrays, generators …).
    Foreign(Box<dyn Foreign>),
}

/// A sealed value and the label that is shown in its place.
pub struct Secret {
    pub(crate) label: String,
    pub(crate) value: Value,
}

/// Stands between the labels of what was joined from several secrets; no label has it.
pub(crate) const LABELS: char = '+';

/// A module's names.
#[derive(Debug)]
pub struct Module {
    pub(crate) name: String,
    /// In order of the source.
    pub(crate) exports: indexmap::IndexMap<Rc<str>, u32>,
    /// Exports that may not be replaced: tasks, types, enums.
    pub(crate) fixed: Vec<Rc<str>>,
}

/// What a family's own type must be able to do.
pub trait Foreign: Any {
    /// The answer of `type_of`.
    fn type_name(&self) -> &'static str;
    /// As `text` renders it.
    fn render(&self) -> String;
    /// Whether it is true in a condition.
    fn truthy(&self) -> bool {
        true
    }
    /// Counted bytes.
    fn bytes(&self) -> usize {
        32
    }
    /// Equality with another value of a family.
    fn equals(&self, other: &dyn Foreign) -> bool;
    /// Order within the type; `None` if there is none.
    fn compare(&self, _other: &dyn Foreign) -> Option<std::cmp::Ordering> {
        None
    }
    /// `self op other` or, with `swapped`, `other op self`; `None` if the pair is not supported.
    ///
    /// # Errors
    /// What the operation itself raises.
    fn arith(&self, _op: super::ops::Arith, _other: &Value, _swapped: bool) -> Option<Result<Value, String>> {
        None
    }
    /// An element.
    ///
    /// # Errors
    /// What the access raises.
    fn index(&self, _index: &Value) -> Option<Result<Value, String>> {
        None
    }
    /// A member.
    fn field(&self, _name: &str) -> Option<Value> {
        None
    }
    /// Its length, for `length` and `each`.
    fn length(&self) -> Option<usize> {
        None
    }
    /// For JSON and other formats: what it is as plain data.
    fn data(&self) -> Option<Value> {
        None
    }
    /// For looking at the concrete type.
    fn any(&self) -> &dyn Any;
}

impl Other {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Other::Bytes(b) => b.capacity(),
            Other::Decimal(d) => d.bytes(),
            Other::Foreign(f) => f.bytes(),
            Other::Secret(s) => s.label.capacity(),
            Other::Type(_) | Other::Enum(_) | Other::Maker(..) | Other::Module(_) => 32,
        }
    }
}

impl Value {
    /// Bytes.
    #[must_use]
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Value::other(Other::Bytes(bytes))
    }

    /// The bytes, if it is some.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self.as_other() {
            Some(Other::Bytes(b)) => Some(b),
            _ => None,
        }
    }

    /// A decimal.
    #[must_use]
    pub fn decimal(d: Decimal) -> Self {
        Value::other(Other::Decimal(d))
    }

    /// The decimal, if it is one.
    #[must_use]
    pub fn as_decimal(&self) -> Option<&Decimal> {
        match self.as_other() {
            Some(Other::Decimal(d)) => Some(d),
            _ => None,
        }
    }

    /// A value of a family's own type.
    #[must_use]
    pub fn foreign(value: impl Foreign) -> Self {
        Value::other(Other::Foreign(Box::new(value)))
    }

    /// The family's own type, if it is that one.
    #[must_use]
    pub fn as_foreign<T: Foreign>(&self) -> Option<&T> {
        match self.as_other() {
            Some(Other::Foreign(f)) => f.any().downcast_ref(),
            _ => None,
        }
    }
}
