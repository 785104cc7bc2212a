//! The clock of SQLite's files.

use rusqlite::ffi;
use std::ffi::CStr;

/// Gives the file system of this name the clock of SQLite's own one.
///
/// What `sqlite-vfs` 0.2.0 registers tells seconds in the place of milliseconds, and has no hook for it. `false`: one of the two
/// isn't there, or has no clock to give.
/// Source: sqlite.org/c3ref/vfs.html (`xCurrentTimeInt64`), sqlite.org/c3ref/vfs_find.html.
pub(crate) fn as_of_the_default(name: &CStr) -> bool {
    // SAFETY: a null name asks for the default one. The answer is null or a static of SQLite's, which nobody writes to.
    let default = unsafe { ffi::sqlite3_vfs_find(std::ptr::null()).as_ref() };
    let Some(default) = default.filter(|default| default.iVersion >= 2) else { return false };
    let Some(clock) = default.xCurrentTimeInt64 else { return false };
    // SAFETY: the name ends with a nul and outlives the call. The answer is null or a box that `sqlite-vfs` has leaked and
    // nobody unregisters; it isn't the static above, whose name is another. The caller has just registered it and opened
    // nothing with it, on the one thread that uses SQLite, so that nobody else looks at it meanwhile.
    let own = unsafe { ffi::sqlite3_vfs_find(name.as_ptr()).as_mut() };
    let Some(own) = own.filter(|own| own.iVersion >= 2) else { return false };
    // Both clocks of SQLite's own file system pay no heed to which file system they are called for.
    (own.xCurrentTimeInt64, own.xCurrentTime) = (Some(clock), default.xCurrentTime);
    true
}
