//! Control groups: one short-lived folder for each jail and controller.
//!
//! Flow: [`look`] says what this caller may use → the plan chooses → [`Cgroup::create`] makes folders with their
//! limits → the jail's init enters through [`Cgroup::entry_files`] → the supervisor reads → drop removes.
//!
//! Invariant: nothing stays behind. Folders are flat (`thirdwall-<pid>-<serial>` in an existing group), so there is no
//! parent folder to keep.
//! Invariant: init enters by itself. On version 1 it writes `0` to `tasks`, which takes no global lock; a pid written
//! to `cgroup.procs` from outside waits for one, for up to 12 ms.

mod folder;
mod place;
mod stale;
mod v1;
mod v2;

mod group;
pub use group::{Cgroup, Events, MemoryAlarm};
pub use place::look;
pub use stale::sweep;
