//! Maps and their keys: texts in the order of their first insertion.

use super::value::Value;
use crate::partition::heap::{self, costs};
use std::hash::{BuildHasher, Hash, Hasher};
use std::rc::Rc;

/// Hashes keys; seeded once for each process, so that nobody can prepare colliding keys.
#[derive(Clone)]
pub struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        thread_local! {
            static SEED: u64 = std::hash::RandomState::new().hash_one(0u8) | 1;
        }
        Self(SEED.with(|s| *s))
    }
}

/// The state of one key's hash.
pub struct KeyHasher(u64);

impl BuildHasher for Seed {
    type Hasher = KeyHasher;
    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        const K: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut state = self.0 ^ (bytes.len() as u64).wrapping_mul(K);
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
            state = mix(state ^ word, K);
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0u8; 8];
            word[..rest.len()].copy_from_slice(rest);
            state = mix(state ^ u64::from_le_bytes(word), K);
        }
        self.0 = mix(state, K ^ 0x5851_f42d_4c95_7f2d);
    }
}

/// A map's key: a text.
#[derive(Clone)]
pub struct Key(Value);

impl Key {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_text().unwrap_or("")
    }

    /// The text as a value.
    #[must_use]
    pub fn value(&self) -> Value {
        self.0.clone()
    }

    pub(crate) fn new(text: &str) -> Self {
        Self(Value::text(text))
    }

    /// A key that counts so many bytes, whatever its own size.
    pub(crate) fn counted(text: &str, bytes: usize) -> Self {
        Self(crate::partition::Core::counted_text(text.to_owned(), bytes))
    }

    /// A text value as a key.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        matches!(value, Value::Short(_) | Value::Text(_)).then(|| Self(value.clone()))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Value::Short(a), Value::Short(b)) => a == b,
            (Value::Text(a), Value::Text(b)) => Rc::ptr_eq(a, b) || a.as_str() == b.as_str(),
            _ => false,
        }
    }
}
impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.as_str().as_bytes());
    }
}

/// Looks a key up by its text.
#[derive(PartialEq, Eq)]
pub(crate) struct Look<'a>(pub(crate) &'a str);

impl Hash for Look<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.0.as_bytes());
    }
}

impl indexmap::Equivalent<Key> for Look<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.as_str()
    }
}

pub(crate) type Entries = indexmap::IndexMap<Key, Value, Seed>;

/// A map on the heap.
pub struct Map {
    entries: Entries,
    charged: usize,
}

impl Map {
    pub(crate) fn new(entries: Entries) -> Self {
        let charged = costs::MAP + costs::ENTRY * entries.capacity();
        heap::grow(charged);
        Self { entries, charged }
    }

    /// The entries in insertion order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&Key, &Value)> + DoubleEndedIterator {
        self.entries.iter()
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.get(&Look(key))
    }

    pub(crate) fn inner(&self) -> &Entries {
        &self.entries
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    #[inline]
    pub(crate) fn edit<T>(&mut self, change: impl FnOnce(&mut Entries) -> T) -> T {
        let result = change(&mut self.entries);
        let now = costs::MAP + costs::ENTRY * self.entries.capacity();
        if now != self.charged {
            heap::resize(self.charged, now);
            self.charged = now;
        }
        result
    }

    pub(crate) fn slot(&mut self, key: &str) -> Option<&mut Value> {
        self.entries.get_mut(&Look(key))
    }
}

impl Clone for Map {
    fn clone(&self) -> Self {
        Self::new(self.entries.clone())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        heap::shrink(self.charged);
        if self.entries.values().any(Value::is_container) {
            let entries = std::mem::take(&mut self.entries);
            heap::drop_inside(entries.into_iter().map(|(_, v)| v));
        }
    }
}
