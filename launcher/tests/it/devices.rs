//! Devices in a jail are the host's nodes: they work, and nothing of the nodes themselves changes.

use crate::run::script;
use std::{fs, os::unix::fs::MetadataExt};

#[test]
fn a_device_can_be_written_to_and_its_node_stays_as_it_is() {
    let before = fs::metadata("/dev/null").unwrap();
    let changes = "echo x >/dev/null && head -c 1 /dev/zero >/dev/full; echo works; \
                   touch -d 2001-01-01 /dev/null 2>/dev/null || echo kept; touch /dev/zero 2>/dev/null || echo kept";
    assert_eq!(script(changes).go().text(), "works\nkept\nkept\n");
    let after = fs::metadata("/dev/null").unwrap();
    assert_eq!(before.mode(), after.mode());
    assert!(after.mtime() >= before.mtime());
}
