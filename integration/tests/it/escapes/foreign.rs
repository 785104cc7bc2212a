//! System calls by the entries and numbers of other architectures.

use crate::{
    given::{Given, outside},
    host::{Who, skip},
};
use policies::report::Verdict;

const SIGSYS: i32 = 31;

#[test]
fn the_32_bit_entry_kills() {
    let twin = outside(Who::ordinary(), &["foreign-int80"]);
    if twin.code != 0 || twin.answer("int80") != "ok" {
        return skip("int 0x80: this host has no 32-bit entry");
    }
    for who in Who::all() {
        let ended = Given::bare(*who).run(&["foreign-int80"]).expect(Verdict::Signal);
        assert_eq!(ended.report().signal, Some(SIGSYS));
        assert_eq!(ended.lines(), [""; 0]);
    }
}

#[test]
fn x32_numbers_kill() {
    let twin = outside(Who::ordinary(), &["foreign-x32"]);
    if twin.answer("x32").starts_with("skipped") {
        return skip("x32: this processor has no such numbers");
    }
    // ENOSYS where the kernel is built without them: an answer, not a death.
    assert!(["ok", "ENOSYS"].contains(&twin.answer("x32")), "{twin:?}");
    for who in Who::all() {
        let ended = Given::bare(*who).run(&["foreign-x32"]).expect(Verdict::Signal);
        assert_eq!(ended.report().signal, Some(SIGSYS));
    }
}
