//! Databases: SQLite behind `db`, in a file that is granted or in memory.
//!
//! The gate is asked for each statement, so that an open database is of no use where `db` is not held (a sandbox, a tool).
//! The one that was opened last is meant where none is named.
//!
//! Invariant: values go in as parameters, of a data type that SQL has; a secret never does.
//! Invariant: a result has at most [`MOST_ROWS`] rows, and each is paid for as it is read.

mod connection;
mod kept;
mod storage;

use connection::Mode;
pub(super) use kept::{Kept, Row};
pub use storage::mend_clock_with;

use super::{Args, Builtin, Cost, Ctx};
use crate::partition::Core;
use crate::partition::gate::Gate;
use crate::vm::other::Other;
use crate::vm::render::{display, inside, type_name};
use crate::vm::trap::{Fault, Stop, Trap, denied, raised};
use crate::vm::value::{Key, Value};
use connection::{MOST_MEMORY, Open};
use policies::broker::By;
use policies::capability::Capability;
use policies::scope::Database;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, ErrorCode, Statement};
use std::sync::atomic::Ordering;
use storage::Place;

const WHY: &str = "this run has no database drivers";
/// Rows of one result.
const MOST_ROWS: usize = 1_000_000;
/// Databases that are open at once.
const MOST_OPEN: usize = 16;
/// Rows of a page, where nothing is said.
const PAGE: i64 = 50;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("db_open", &["target", "mode"], 1, db_open).named(2).cost(Cost::Own).native(WHY),
    Builtin::new("db_close", &["target"], 0, db_close).named(1).cost(Cost::Own).native(WHY),
    Builtin::new("sql", &["query", "params", "db"], 1, sql).named(2).native(WHY),
    Builtin::new("sql_exec", &["query", "params", "db"], 1, sql_exec).named(2).native(WHY),
    Builtin::new("sql_batch", &["query", "rows", "db"], 2, sql_batch).named(2).native(WHY),
    Builtin::new("sql_tables", &["db"], 0, sql_tables).named(0).cost(Cost::Own).native(WHY),
    Builtin::new("paged", &["query", "params", "page", "size", "db"], 1, paged).named(4).native(WHY),
];

/// The open databases of a partition, the one that is meant last.
#[derive(Default)]
struct All(Vec<Open>);

const KEEP: &str = "databases";

fn all(core: &mut Core) -> Option<&mut All> {
    core.keep.entry(KEEP).or_insert_with(|| Box::new(All::default())).downcast_mut()
}

/// Closes what a partition has open, at its end: logs are written back, unfinished transactions undone.
pub(crate) fn close_all(core: &mut Core) {
    if let Some(all) = core.keep.remove(KEEP).and_then(|all| all.downcast::<All>().ok()) {
        storage::lending(core, |_| all.0.into_iter().for_each(Open::close));
    }
}

fn db_open(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let target = args.text(0)?;
    let database = Database::parse(target).map_err(|e| raised(format!("db_open: '{target}': {e}")))?;
    let mode = match args.optional(1).map(|v| (v.as_text(), v)) {
        None | Some((Some("rwc"), _)) => Mode::Make,
        Some((Some("rw"), _)) => Mode::Write,
        Some((Some("ro"), _)) => Mode::Read,
        Some((_, v)) => {
            let given = inside(v).chars().take(40).collect::<String>();
            return Err(raised(format!(
                "db_open: mode must be \"ro\" (read only), \"rw\" or \"rwc\" (made if it isn't there), got {given}"
            )));
        }
    };
    let shown = database.to_string();
    ctx.ask(Capability::Db, Some(&shown))?;
    let place = match database {
        Database::Memory => None,
        Database::File(path) => Some(Place::File(path.to_string())),
        Database::Url(url) => {
            let url = url.to_string();
            return Err(raised(format!(
                "db_open: '{url}': only SQLite is built in — a file's path, or \":memory:\""
            )));
        }
    };
    let known = all(ctx.core).and_then(|all| {
        let at = all.0.iter().position(|open| open.target == shown)?;
        // The one that was opened before is meant again.
        all.0[at..].rotate_left(1);
        Some(())
    });
    if known.is_none() {
        let open = opened(ctx, &shown, place, mode)?;
        if let Some(all) = all(ctx.core) {
            all.0.push(open);
        }
    }
    Ok(Value::text(&shown))
}

fn opened(ctx: &mut Ctx<'_>, shown: &str, place: Option<Place>, mode: Mode) -> Result<Open, Fault> {
    if all(ctx.core).is_some_and(|all| all.0.len() >= MOST_OPEN) {
        return Err(raised(format!(
            "db_open: {MOST_OPEN} databases are open; close one with db_close(target)"
        )));
    }
    let memory = ctx.core.settings.heap.unwrap_or(MOST_MEMORY);
    let opened = storage::lending(ctx.core, |_| Open::new(shown, place, mode, memory));
    opened.map_err(|error| told(ctx.name, shown, &error, Some(&ctx.core.gate)))
}

/// Which database a call means: its name in the gate's form.
fn meant(ctx: &mut Ctx<'_>, named: Option<&Value>) -> Result<String, Fault> {
    let name = ctx.name;
    let wanted = match named {
        None => None,
        Some(v) => {
            let text = v
                .as_text()
                .ok_or_else(|| raised(format!("{name}: db must be a text, got {}", type_name(v))))?;
            let database = Database::parse(text).map_err(|e| raised(format!("{name}: '{text}': {e}")))?;
            Some(database.to_string())
        }
    };
    let found = all(ctx.core).and_then(|all| match &wanted {
        None => all.0.last(),
        Some(wanted) => all.0.iter().find(|open| open.target == *wanted),
    });
    match (found, wanted) {
        (Some(open), _) => Ok(open.target.clone()),
        (None, Some(wanted)) => {
            Err(raised(format!("{name}: '{wanted}' isn't open — db_open(\"{wanted}\") first")))
        }
        (None, None) => Err(raised(format!("{name}: no database is open — db_open(target) first"))),
    }
}

/// Asks the gate, then works on a database.
fn with<T>(
    ctx: &mut Ctx<'_>,
    named: Option<&Value>,
    work: impl FnOnce(&mut Core, &Connection) -> Result<T, Failure>,
) -> Result<T, Fault> {
    let target = meant(ctx, named)?;
    ctx.ask(Capability::Db, Some(&target))?;
    let Some(open) = all(ctx.core).and_then(|all| {
        let at = all.0.iter().position(|open| open.target == target)?;
        // Out of the partition while it works, and last in it afterwards only if it was.
        Some((at, all.0.remove(at)))
    }) else {
        return Err(raised(format!("{}: '{target}' isn't open", ctx.name)));
    };
    let (at, open) = open;
    let done = metered(ctx.core, &open, work);
    let wanted = |flag: &std::sync::atomic::AtomicBool| flag.swap(false, Ordering::Relaxed);
    let (time, random) = (wanted(&open.shared.wanted_time), wanted(&open.shared.wanted_random));
    if let Some(all) = all(ctx.core) {
        all.0.insert(at.min(all.0.len()), open);
    }
    match done {
        Ok(done) => Ok(done),
        Err(Failure::Fault(fault)) => Err(fault),
        Err(Failure::Sql(error)) => {
            // SQLite said no because the gate would have: its own words are better.
            if time {
                ctx.ask(Capability::Time, None)?;
            }
            if random {
                ctx.ask(Capability::Random, None)?;
            }
            Err(told(ctx.name, &target, &error, Some(&ctx.core.gate)))
        }
    }
}

fn metered<T>(
    core: &mut Core,
    open: &Open,
    work: impl FnOnce(&mut Core, &Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    core.check_limits()?;
    let left = core.fuel_left();
    open.shared.fuel.store(left, Ordering::Relaxed);
    open.shared.time.store(core.gate.covers(Capability::Time, None), Ordering::Relaxed);
    open.shared.random.store(core.gate.covers(Capability::Random, None), Ordering::Relaxed);
    let connection = open.sql()?;
    let done = storage::lending(core, |core| work(core, connection));
    let used = left.saturating_sub(open.shared.fuel.load(Ordering::Relaxed));
    core.charge(u64::try_from(used).unwrap_or(0))?;
    done
}

/// Why work on a database ended early.
enum Failure {
    Sql(Error),
    Fault(Fault),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.sqlite_error_code() {
            // The handler that counts instructions stops one only for this.
            Some(ErrorCode::OperationInterrupted) => Self::Fault(Box::new(Stop::Trap(Trap::Fuel))),
            _ => Self::Sql(error),
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// An error of SQLite as a person reads it; the gate has agreed to a file, where it is given.
fn told(name: &str, target: &str, error: &Error, agreed: Option<&Gate>) -> Fault {
    let refused = storage::refused();
    if let Some(refused) = &refused {
        match refused.by {
            By::Ceiling => {
                return denied(match agreed {
                    Some(gate) => gate.leads_out(Capability::Db, target),
                    None => format!("Capability not granted: {} — {name} of {target}", refused.why),
                });
            }
            By::Kernel(2) => return raised(format!("{name}: File not found: {target}")),
            By::Kernel(_) | By::Limit | By::Misuse => {}
        }
    }
    let why = match error {
        Error::SqliteFailure(failure, text) => {
            let text = text.clone().unwrap_or_default();
            match failure.code {
                ErrorCode::NotADatabase => format!("'{target}' is not a database"),
                ErrorCode::DatabaseCorrupt => format!("'{target}' is damaged: {text}"),
                ErrorCode::DatabaseBusy => {
                    format!("'{target}' is locked: another program writes to it — try again when it has ended")
                }
                ErrorCode::DiskFull => format!("'{target}': the disk is full"),
                ErrorCode::OutOfMemory => "it needs more memory than databases may have here".to_owned(),
                ErrorCode::TooBig => "a text or a row is too long".to_owned(),
                ErrorCode::ReadOnly => format!("'{target}' can't be written: it is open for reading only"),
                ErrorCode::AuthorizationForStatementDenied => {
                    "not allowed here — one database alone, no other file, no library, no setting of the engine"
                        .to_owned()
                }
                ErrorCode::CannotOpen | ErrorCode::SystemIoFailure => match &refused {
                    Some(refused) => format!("'{target}': {}", refused.why),
                    None => format!("'{target}' can't be opened: {text}"),
                },
                _ => text,
            }
        }
        Error::SqlInputError { msg, .. } => msg.clone(),
        Error::MultipleStatement => "one statement at a time".to_owned(),
        Error::ExecuteReturnedResults => "the statement gives rows: ask for them with sql(query)".to_owned(),
        other => other.to_string(),
    };
    raised(format!("{name}: {why}"))
}

/// A value as SQL has it.
fn parameter(name: &str, value: &Value) -> Result<rusqlite::types::Value, Fault> {
    use rusqlite::types::Value as Sql;
    Ok(match value {
        Value::Nothing | Value::Unbound => Sql::Null,
        Value::Bool(b) => Sql::Integer(i64::from(*b)),
        Value::Int(n) => Sql::Integer(*n),
        Value::Float(f) => Sql::Real(*f),
        value => {
            if let Some(text) = value.as_text() {
                Sql::Text(text.to_owned())
            } else if let Some(bytes) = value.as_bytes() {
                Sql::Blob(bytes.to_vec())
            } else {
                match value.as_other() {
                    Some(Other::Secret(_)) => {
                        return Err(raised(format!(
                            "{name}: a parameter is a secret — reveal() it on purpose"
                        )));
                    }
                    Some(Other::Foreign(foreign))
                        if matches!(foreign.type_name(), "date" | "datetime" | "duration") =>
                    {
                        Sql::Text(display(value))
                    }
                    // Exact, where SQL's own numbers are not.
                    Some(Other::Decimal(_)) => Sql::Text(display(value)),
                    _ if matches!(value, Value::Big(_)) => {
                        return Err(raised(format!(
                            "{name}: an integer parameter must fit 64 bits, got {} — text(n) holds any size",
                            crate::vm::render::brief(value)
                        )));
                    }
                    _ => {
                        let more = if value.as_list().is_some() || matches!(value, Value::Map(_)) {
                            " — json_encode it first"
                        } else {
                            ""
                        };
                        return Err(raised(format!(
                            "{name}: a parameter must be text, a number, a bool, bytes, a date or nothing, got {}{more}",
                            type_name(value)
                        )));
                    }
                }
            }
        }
    })
}

/// Binds a list to `?`, or a map to `:name`.
fn bind(name: &str, statement: &mut Statement<'_>, params: Option<&Value>) -> Result<(), Failure> {
    let wanted = statement.parameter_count();
    let given = match params {
        None => 0,
        Some(Value::Map(map)) => {
            let mut bound = 0;
            for (key, value) in map.entries() {
                let known = [":", "@", "$"].iter().find_map(|sign| {
                    statement.parameter_index(&format!("{sign}{}", key.as_str())).ok().flatten()
                });
                let Some(index) = known else {
                    return Err(raised(format!("{name}: the statement has no :{}", key.as_str())).into());
                };
                statement.raw_bind_parameter(index, parameter(name, value)?)?;
                bound += 1;
            }
            bound
        }
        Some(value) => {
            let Some(list) = value.as_list() else {
                return Err(raised(format!(
                    "{name}: params must be a list for `?` or a map for `:name`, got {}",
                    type_name(value)
                ))
                .into());
            };
            for (i, value) in list.iter().enumerate().take(wanted) {
                statement.raw_bind_parameter(i + 1, parameter(name, value)?)?;
            }
            list.len()
        }
    };
    if given == wanted {
        return Ok(());
    }
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let why =
        format!("{name}: the statement has {}, got {}", count(wanted, "placeholder"), count(given, "value"));
    Err(raised(why).into())
}

fn rows(
    core: &mut Core,
    connection: &Connection,
    name: &str,
    query: &str,
    params: Option<&Value>,
) -> Result<Value, Failure> {
    let mut statement = connection.prepare(query)?;
    bind(name, &mut statement, params)?;
    let columns: Vec<Key> = statement.column_names().map(Key::new).collect();
    let mut found = Vec::new();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        if found.len() == MOST_ROWS {
            let why =
                format!("{name}: more than {MOST_ROWS} rows — add a LIMIT, or read them with paged(query)");
            return Err(raised(why).into());
        }
        let mut cells = Vec::with_capacity(columns.len());
        for (i, column) in columns.iter().enumerate() {
            let value = match row.get_ref(i)? {
                ValueRef::Null => Value::Nothing,
                ValueRef::Integer(n) => Value::Int(n),
                ValueRef::Real(f) => Value::Float(f),
                ValueRef::Text(text) => Value::text(&String::from_utf8_lossy(text)),
                ValueRef::Blob(bytes) => Value::bytes(bytes.to_vec()),
            };
            cells.push((column.clone(), value));
        }
        found.push(Value::map(cells));
        core.charge(columns.len() as u64 + 1)?;
    }
    Ok(Value::list(found))
}

fn sql(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (query, name) = (args.text(0)?, args.name);
    with(ctx, args.optional(2), |core, connection| rows(core, connection, name, query, args.optional(1)))
}

/// What statements changed: rows, and the last number that a row got.
fn changed(connection: &Connection, rows: u64) -> Value {
    let rows = Value::Int(i64::try_from(rows).unwrap_or(i64::MAX));
    Value::record([("rows_affected", rows), ("last_id", Value::Int(connection.last_insert_rowid()))])
}

fn execute(statement: &mut Statement<'_>, connection: &Connection) -> Result<u64, Error> {
    let before = connection.total_changes();
    let rows = statement.raw_execute()?;
    // Where nothing changed, SQLite's count is still that of the statement before.
    Ok(if connection.total_changes() == before { 0 } else { rows as u64 })
}

fn sql_exec(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (query, name) = (args.text(0)?, args.name);
    with(ctx, args.optional(2), |_, connection| {
        let mut statement = connection.prepare(query)?;
        bind(name, &mut statement, args.optional(1))?;
        let rows = execute(&mut statement, connection)?;
        Ok(changed(connection, rows))
    })
}

/// All rows or none.
fn sql_batch(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (query, all, name) = (args.text(0)?, args.list(1)?, args.name);
    with(ctx, args.optional(2), |core, connection| {
        connection.execute_batch("SAVEPOINT batch")?;
        let mut run = || -> Result<u64, Failure> {
            let mut statement = connection.prepare(query)?;
            let mut rows = 0;
            for (i, params) in all.iter().enumerate() {
                core.charge(4)?;
                let at = |failure: Failure| match failure {
                    Failure::Fault(fault) => match *fault {
                        Stop::Raised(mut why) if !why.denied => {
                            why.message = format!("{} (row {})", why.message, i + 1);
                            Failure::Fault(Box::new(Stop::Raised(why)))
                        }
                        other => Failure::Fault(Box::new(other)),
                    },
                    sql => sql,
                };
                bind(name, &mut statement, Some(params)).map_err(at)?;
                rows += execute(&mut statement, connection)?;
            }
            Ok(rows)
        };
        match run() {
            Ok(rows) => {
                connection.execute_batch("RELEASE batch")?;
                Ok(changed(connection, rows))
            }
            Err(failure) => {
                // SQLite may have undone it already, with the whole transaction.
                let _undone = connection.execute_batch("ROLLBACK TO batch; RELEASE batch");
                Err(failure)
            }
        }
    })
}

fn sql_tables(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    with(ctx, args.optional(0), |core, connection| {
        let mut statement = connection.prepare(
            "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
             ORDER BY name",
        )?;
        let mut names = Vec::new();
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            if let ValueRef::Text(text) = row.get_ref(0)? {
                names.push(Value::text(&String::from_utf8_lossy(text)));
            }
            core.charge(2)?;
        }
        Ok(Value::list(names))
    })
}

/// One page of a query's rows, with what is needed to turn to the next.
fn paged(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let (query, name) = (args.text(0)?.trim_end_matches([';', ' ', '\n', '\t']), args.name);
    let page = if args.optional(2).is_some() { args.int(2, "page")? } else { 1 };
    let size = if args.optional(3).is_some() { args.int(3, "size")? } else { PAGE };
    if page < 1 || size < 1 || size > MOST_ROWS as i64 {
        return Err(raised(format!("paged: page and size are counted from 1, size up to {MOST_ROWS}")));
    }
    let params = args.optional(1);
    with(ctx, args.optional(4), |core, connection| {
        // On a line of its own: a comment at the query's end doesn't take the bracket along.
        let total = {
            let mut statement = connection.prepare(&format!("SELECT count(*) FROM (\n{query}\n)"))?;
            bind(name, &mut statement, params)?;
            let mut rows = statement.raw_query();
            match rows.next()? {
                Some(row) => row.get::<_, i64>(0)?,
                None => 0,
            }
        };
        let skipped = (page - 1).saturating_mul(size);
        let one = format!("SELECT * FROM (\n{query}\n) LIMIT {size} OFFSET {skipped}");
        let rows = rows(core, connection, name, &one, params)?;
        let pages = total.saturating_add(size - 1) / size;
        Ok(Value::record([
            ("rows", rows),
            ("page", Value::Int(page)),
            ("size", Value::Int(size)),
            ("total", Value::Int(total)),
            ("pages", Value::Int(pages)),
            ("has_next", (page < pages).into()),
        ]))
    })
}

fn db_close(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let target = meant(ctx, args.optional(0))?;
    ctx.ask(Capability::Db, Some(&target))?;
    let open = all(ctx.core).and_then(|all| {
        let at = all.0.iter().position(|open| open.target == target)?;
        Some(all.0.remove(at))
    });
    if let Some(open) = open {
        storage::lending(ctx.core, |_| open.close());
    }
    Ok(Value::Nothing)
}
