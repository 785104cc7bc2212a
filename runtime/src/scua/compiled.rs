//! Sources of sandboxes that were compiled not long ago: who runs one source again and again has it compiled once.
//!
//! What it costs the program is the same each time: fuel is of the text. Two sandboxes of one source share its code,
//! which nothing can change, and nothing else.
//!
//! Invariant: an entry is found by all that the compiler was given, to the letter.

use super::{Entry, source};
use crate::bytecode::{EntryPoint, Program};
use crate::partition::boundary::HostFunction;
use crate::partition::sandbox::{Failure, Limits};
use std::rc::Rc;

/// Entries that are kept at most, and bytes of one source.
const KEPT: usize = 16;
const LONGEST: usize = 16_384;

struct One {
    entry: Entry,
    /// As errors name it.
    name: Rc<str>,
    prototypes: u32,
    hosts: Vec<Rc<str>>,
    text: Box<str>,
    program: Rc<Program>,
    point: EntryPoint,
}

impl One {
    fn is_of(&self, text: &str, entry: Entry, limits: &Limits, hosts: &[HostFunction]) -> bool {
        *self.text == *text
            && self.entry == entry
            && self.prototypes == limits.prototypes
            && self.name == limits.name
            && self.hosts.iter().eq(hosts.iter().map(|host| &host.name))
    }
}

/// The sources, the last used one first.
#[derive(Default)]
pub(crate) struct Compiled(Vec<One>);

impl Compiled {
    /// Where a partition keeps them.
    pub(crate) const KEPT_AS: &'static str = "compiled";

    /// As [`source`], from what is kept if it is.
    pub(crate) fn source(
        &mut self,
        text: &str,
        entry: Entry,
        limits: &Limits,
        hosts: &[HostFunction],
    ) -> Result<(Rc<Program>, EntryPoint), Failure> {
        if text.len() > LONGEST || text.len() > limits.source {
            return source(text, entry, limits, hosts);
        }
        if let Some(at) = self.0.iter().position(|one| one.is_of(text, entry, limits, hosts)) {
            self.0[..=at].rotate_right(1);
            let one = &self.0[0];
            return Ok((one.program.clone(), one.point.clone()));
        }
        let (program, point) = source(text, entry, limits, hosts)?;
        let one = One {
            entry,
            name: limits.name.clone(),
            prototypes: limits.prototypes,
            hosts: hosts.iter().map(|host| host.name.clone()).collect(),
            text: text.into(),
            program: program.clone(),
            point: point.clone(),
        };
        self.0.truncate(KEPT - 1);
        self.0.insert(0, one);
        Ok((program, point))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "fn main(input) return input end";

    fn limits(name: &str) -> Limits {
        Limits::frame(name)
    }

    #[test]
    fn one_source_is_compiled_once() {
        let mut compiled = Compiled::default();
        let (first, _) = compiled.source(LINE, Entry::Main, &limits("a"), &[]).expect("it compiles");
        let (again, _) = compiled.source(LINE, Entry::Main, &limits("a"), &[]).expect("it compiles");
        assert!(Rc::ptr_eq(&first, &again));
    }

    #[test]
    fn another_name_or_limit_is_another_source() {
        let mut compiled = Compiled::default();
        let (first, _) = compiled.source(LINE, Entry::Main, &limits("a"), &[]).expect("it compiles");
        let (named, _) = compiled.source(LINE, Entry::Main, &limits("b"), &[]).expect("it compiles");
        assert!(!Rc::ptr_eq(&first, &named));
        let few = Limits { prototypes: 1, ..limits("a") };
        assert_eq!(compiled.source(LINE, Entry::Main, &few, &[]).unwrap_err().kind, "too_many_prototypes");
        let short = Limits { source: 5, ..limits("a") };
        assert_eq!(compiled.source(LINE, Entry::Main, &short, &[]).unwrap_err().kind, "source_too_large");
        assert_eq!(compiled.source(LINE, Entry::Handler, &limits("a"), &[]).unwrap_err().kind, "no_handler");
    }

    #[test]
    fn what_was_used_long_ago_is_forgotten() {
        let mut compiled = Compiled::default();
        let nth = |n: usize| format!("fn main() return {n} end");
        let (first, _) = compiled.source(&nth(0), Entry::Main, &limits("a"), &[]).expect("it compiles");
        for n in 1..=KEPT {
            compiled.source(&nth(n), Entry::Main, &limits("a"), &[]).expect("it compiles");
        }
        assert_eq!(compiled.0.len(), KEPT);
        let (again, _) = compiled.source(&nth(0), Entry::Main, &limits("a"), &[]).expect("it compiles");
        assert!(!Rc::ptr_eq(&first, &again));
    }
}
