//! Uses that passed: a loop asks for the same few again and again.
//!
//! Invariant: a decision depends on nothing but the use's letters and the gate itself, so what stands here is forgotten whenever
//! the gate changes. A use that didn't pass is never here.

use policies::capability::Capability;

/// How many uses are remembered; a power of two.
const PLACES: usize = 16;
/// Longest target that is remembered, in bytes.
const LONGEST: usize = 512;

/// One place for each use, by its letters; a later one takes the place of an older one. Made with the first use, since most
/// gates of partitions that only compute never see one.
#[derive(Debug, Clone, Default)]
pub(super) struct PassedUses(Option<Box<[Option<Passed>; PLACES]>>);

/// A use that passed, and why.
#[derive(Debug, Clone)]
struct Passed {
    capability: Capability,
    target: Option<Box<str>>,
    reason: &'static str,
}

impl PassedUses {
    /// Why the use passed before.
    pub(super) fn get(&self, capability: Capability, target: Option<&str>) -> Option<&'static str> {
        let passed = self.0.as_ref()?[place(capability, target)].as_ref()?;
        (passed.capability == capability && passed.target.as_deref() == target).then_some(passed.reason)
    }

    /// Remembers a use that passed.
    pub(super) fn add(&mut self, capability: Capability, target: Option<&str>, reason: &'static str) {
        if target.is_none_or(|target| target.len() <= LONGEST) {
            let places = self.0.get_or_insert_default();
            places[place(capability, target)] =
                Some(Passed { capability, target: target.map(Box::from), reason });
        }
    }

    /// Forgets all, since the gate changes.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

/// From a few letters of the use: which place it is decides only how often a use is found here.
fn place(capability: Capability, target: Option<&str>) -> usize {
    let mut mixed = capability as u64;
    if let Some(target) = target {
        // Names that a program takes in turn differ near their ends.
        let bytes = target.as_bytes();
        let last = bytes.last_chunk::<8>().map_or_else(
            || bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            |chunk| u64::from_le_bytes(*chunk),
        );
        mixed ^= last ^ (bytes.len() as u64) << 8;
    }
    // Fibonacci hashing: the highest bits depend on all.
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_found_by_all_of_its_letters_and_gone_after_a_change() {
        let mut passed = PassedUses::default();
        let paths: Vec<String> = (0..200).map(|i| format!("data/{i}.csv")).collect();
        for path in &paths {
            passed.add(Capability::FileRead, Some(path), "granted");
            assert_eq!(passed.get(Capability::FileRead, Some(path)), Some("granted"));
            assert_eq!(passed.get(Capability::FileWrite, Some(path)), None);
            assert_eq!(passed.get(Capability::FileRead, Some(&path[1..])), None);
            assert_eq!(passed.get(Capability::FileRead, None), None);
        }
        passed.add(Capability::Time, None, "granted");
        assert_eq!(passed.get(Capability::Time, None), Some("granted"));
        passed.clear();
        assert!(passed.get(Capability::Time, None).is_none());
        assert!(paths.iter().all(|path| passed.get(Capability::FileRead, Some(path)).is_none()));
    }

    #[test]
    fn uses_in_turn_have_places_of_their_own() {
        let mut taken = [false; PLACES];
        for path in ["data/a.csv", "data/b.csv", "data/c.csv", "data/d.csv"] {
            taken[place(Capability::FileRead, Some(path))] = true;
        }
        assert!(taken.iter().filter(|taken| **taken).count() >= 3);
    }

    #[test]
    fn a_target_that_is_too_long_is_not_remembered() {
        let mut passed = PassedUses::default();
        for (length, there) in [(LONGEST, true), (LONGEST + 1, false)] {
            let target = "a".repeat(length);
            passed.add(Capability::Env, Some(&target), "granted");
            assert_eq!(passed.get(Capability::Env, Some(&target)).is_some(), there);
        }
    }
}
