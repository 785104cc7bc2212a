//! One open database, fenced: what SQL may do, how much it may take.
//!
//! Invariant: no statement reaches another file, a library, or a setting that would open a way to one; a database's own
//! schema may be hostile and gets no more than a statement does.
//! Invariant: fuel pays for SQLite's own instructions; its memory, texts and statements are bounded.
//! Source: sqlite.org/security.html, sqlite.org/limits.html, sqlite.org/c3ref/c_dbconfig_defensive.html.

use super::storage::{self, Place};
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error, OpenFlags};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

/// How long a statement waits for others to unlock a database.
const PATIENCE: Duration = Duration::from_secs(5);
/// SQLite's instructions between two looks at the fuel.
const STRIDE: i32 = 1000;
/// Memory of all databases together, at most.
pub(super) const MOST_MEMORY: u64 = 256 << 20;

const LIMITS: [(Limit, i32); 12] = [
    (Limit::SQLITE_LIMIT_LENGTH, 64 << 20),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 1 << 20),
    (Limit::SQLITE_LIMIT_COLUMN, 1000),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
    (Limit::SQLITE_LIMIT_VDBE_OP, 1_000_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 100),
    // One, which VACUUM needs for its copy in memory.
    (Limit::SQLITE_LIMIT_ATTACHED, 1),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 32_766),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 50),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// Settings that a statement may read, and those that it may set too.
const READ: [&str; 22] = [
    "application_id",
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "encoding",
    "foreign_key_check",
    "foreign_key_list",
    "freelist_count",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "journal_mode",
    "page_count",
    "page_size",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];
const SET: [&str; 10] = [
    "application_id",
    "auto_vacuum",
    "case_sensitive_like",
    "defer_foreign_keys",
    "foreign_keys",
    "incremental_vacuum",
    "optimize",
    "recursive_triggers",
    "synchronous",
    "user_version",
];
/// Readings that take a name in the place of a value.
const NAMED: [&str; 10] = [
    "foreign_key_check",
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];
/// Functions that read the clock, whether they are asked for `now` or not: that can't be seen beforehand.
const CLOCK: [&str; 10] = [
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "julianday",
    "strftime",
    "time",
    "timediff",
    "unixepoch",
];

/// For what a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Read,
    Write,
    Make,
}

/// What the fence shares with the callbacks that SQLite keeps.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Instructions that may still run.
    pub(super) fuel: AtomicI64,
    /// Whether the program may read the clock, and random numbers.
    pub(super) time: AtomicBool,
    pub(super) random: AtomicBool,
    /// What was refused for want of one of them.
    pub(super) wanted_time: AtomicBool,
    pub(super) wanted_random: AtomicBool,
}

/// An open database.
pub(super) struct Open {
    /// `None` only while it is closed.
    connection: Option<Connection>,
    pub(super) shared: Arc<Shared>,
    name: Option<String>,
    /// As the program named it.
    pub(super) target: String,
}

impl Open {
    /// Opens a database; the host has been lent. `None` is one in memory.
    pub(super) fn new(target: &str, place: Option<Place>, mode: Mode, memory: u64) -> Result<Self, Error> {
        let name = place.map(storage::name);
        let opened = Self::fenced(name.as_deref(), mode, memory);
        if opened.is_err()
            && let Some(name) = &name
        {
            storage::forget(name);
        }
        let (connection, shared) = opened?;
        Ok(Self { connection: Some(connection), shared, name, target: target.to_owned() })
    }

    fn fenced(name: Option<&str>, mode: Mode, memory: u64) -> Result<(Connection, Arc<Shared>), Error> {
        let flags = match mode {
            Mode::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
            Mode::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Mode::Make => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        let connection = match name {
            Some(name) => Connection::open_with_flags_and_vfs(
                name,
                flags | OpenFlags::SQLITE_OPEN_NO_MUTEX,
                storage::NAME,
            ),
            None => Connection::open_in_memory_with_flags(flags | OpenFlags::SQLITE_OPEN_NO_MUTEX),
        };
        let mut connection = connection?;
        connection.busy_timeout(PATIENCE)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        for (limit, value) in LIMITS {
            connection.set_limit(limit, value)?;
        }
        connection.execute_batch(&format!(
            "PRAGMA hard_heap_limit={}; PRAGMA cell_size_check=ON; PRAGMA mmap_size=0;",
            memory.min(MOST_MEMORY)
        ))?;
        // A log's index would be shared memory: alone with the database, SQLite needs none.
        if let Some(name) = name
            && storage::is_logged(name).unwrap_or(false)
        {
            connection.execute_batch("PRAGMA locking_mode=EXCLUSIVE;")?;
        }
        let shared = Arc::new(Shared::default());
        let rights = shared.clone();
        connection.authorizer(Some(move |asked: AuthContext<'_>| allowed(&asked, &rights)))?;
        let meter = shared.clone();
        connection.progress_handler(
            STRIDE,
            Some(move || meter.fuel.fetch_sub(i64::from(STRIDE), Ordering::Relaxed) < i64::from(STRIDE)),
        )?;
        // Whether it is a database at all is seen now, not at the first statement.
        shared.fuel.store(i64::from(STRIDE) * 1000, Ordering::Relaxed);
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok((connection, shared))
    }

    /// The connection.
    pub(super) fn sql(&self) -> Result<&Connection, Error> {
        self.connection.as_ref().ok_or(Error::InvalidQuery)
    }

    /// Closes it; the host has been lent. An open transaction is undone.
    pub(super) fn close(mut self) {
        drop(self.connection.take());
        if let Some(name) = self.name.take() {
            storage::forget(&name);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            drop(self.connection.take());
            storage::forget(&name);
        }
    }
}

fn allowed(asked: &AuthContext<'_>, rights: &Shared) -> Authorization {
    let when = |good: bool| if good { Authorization::Allow } else { Authorization::Deny };
    match asked.action {
        // An empty name is VACUUM's, for its copy in memory. VACUUM INTO comes with a name.
        AuthAction::Attach { filename } => when(filename.is_empty()),
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let name = pragma_name.to_ascii_lowercase();
            let name = name.as_str();
            when(match pragma_value {
                None => READ.contains(&name) || SET.contains(&name),
                Some(_) => SET.contains(&name) || NAMED.contains(&name),
            })
        }
        AuthAction::Function { function_name } => {
            let name = function_name.to_ascii_lowercase();
            let name = name.as_str();
            if matches!(name, "random" | "randomblob") {
                let may = rights.random.load(Ordering::Relaxed);
                rights.wanted_random.fetch_or(!may, Ordering::Relaxed);
                return when(may);
            }
            if CLOCK.contains(&name) {
                let may = rights.time.load(Ordering::Relaxed);
                rights.wanted_time.fetch_or(!may, Ordering::Relaxed);
                return when(may);
            }
            when(!matches!(name, "load_extension" | "fts3_tokenizer"))
        }
        AuthAction::Unknown { .. } => Authorization::Deny,
        AuthAction::CreateIndex { .. }
        | AuthAction::CreateTable { .. }
        | AuthAction::CreateTempIndex { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempTrigger { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::CreateTrigger { .. }
        | AuthAction::CreateView { .. }
        | AuthAction::Delete { .. }
        | AuthAction::DropIndex { .. }
        | AuthAction::DropTable { .. }
        | AuthAction::DropTempIndex { .. }
        | AuthAction::DropTempTable { .. }
        | AuthAction::DropTempTrigger { .. }
        | AuthAction::DropTempView { .. }
        | AuthAction::DropTrigger { .. }
        | AuthAction::DropView { .. }
        | AuthAction::Insert { .. }
        | AuthAction::Read { .. }
        | AuthAction::Select
        | AuthAction::Transaction { .. }
        | AuthAction::Update { .. }
        | AuthAction::Detach { .. }
        | AuthAction::AlterTable { .. }
        | AuthAction::Reindex { .. }
        | AuthAction::Analyze { .. }
        | AuthAction::CreateVtable { .. }
        | AuthAction::DropVtable { .. }
        | AuthAction::Savepoint { .. }
        | AuthAction::Recursive => Authorization::Allow,
        // The list may grow: what isn't known isn't allowed.
        _ => Authorization::Deny,
    }
}
