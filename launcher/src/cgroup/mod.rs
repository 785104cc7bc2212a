//! Control groups: one short-lived folder for each jail and controller.
//!
//! Flow: [`look`] says what this caller may use → the plan chooses → [`Cgroup::create`] makes folders with their
//! limits → the jail's init enters through [`Cgroup::entry`] → the supervisor reads → drop removes.
//!
//! Invariant: nothing stays behind. A jail's folder (`thirdwall-<pid>-<serial>-<chance>`) is made in an existing group; on
//! version 1 those of jails that it starts are made in it, and are removed with it where their supervisor was killed.
//! Invariant: nobody is moved from outside. On version 1 init writes `0` to `tasks`, which takes no global lock; a pid
//! written to `cgroup.procs` waits for one, for up to 12 ms. On version 2 init is born in its group.

mod folder;
mod place;
mod stale;
mod v1;
mod v2;

mod group;
pub use group::{Cgroup, Entry, Events, MemoryAlarm};
pub use place::look;
pub use stale::sweep;
