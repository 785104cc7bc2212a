//! The ready policies, part of the binary.

use super::{Policy, read};
use crate::error::Malformed;

/// Name and text of each, in the order of the list that people read.
const READY: [(&str, &str); 7] = [
    ("auto", include_str!("../../ready/auto.toml")),
    ("static", include_str!("../../ready/static.toml")),
    ("sh", include_str!("../../ready/sh.toml")),
    ("python", include_str!("../../ready/python.toml")),
    ("node", include_str!("../../ready/node.toml")),
    ("gcc", include_str!("../../ready/gcc.toml")),
    ("service", include_str!("../../ready/service.toml")),
];

/// Their names.
#[must_use]
pub fn names() -> [&'static str; 7] {
    READY.map(|(name, _)| name)
}

/// The text of one, the reason for it on top.
#[must_use]
pub fn text(name: &str) -> Option<&'static str> {
    READY.into_iter().find(|(ready, _)| *ready == name).map(|(_, text)| text)
}

/// One of them.
///
/// # Errors
/// [`Malformed::Word`] with the nearest name.
pub fn get(name: &str) -> Result<Policy, Malformed> {
    Policy::parse(name, text(name).ok_or_else(|| unknown(name))?)
}

pub(super) fn unknown(name: &str) -> Malformed {
    read::word("policy", name, &names())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ready_policy_is_read_and_begins_with_its_reason() {
        for name in names() {
            let policy = get(name).unwrap();
            assert_eq!(policy.name(), name);
            assert!(text(name).unwrap().starts_with("# "), "{name}");
        }
        assert_eq!(get("pyhton").unwrap_err().help(), "did you mean 'python'?");
    }
}
