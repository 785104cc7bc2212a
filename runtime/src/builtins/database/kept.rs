//! A database that the runtime keeps for itself: statements of its own, without the program's rights.

use super::connection::{MOST_MEMORY, Mode, Open};
use super::storage::{self, Place};
use super::{Failure, metered, told};
use crate::broker::Reply;
use crate::builtins::Ctx;
use crate::vm::trap::{Fault, raised};
use policies::broker::{Act, By, Part, Request};
use rusqlite::types::Value as Sql;

/// EOPNOTSUPP: the host keeps no notebook for this run.
const NOWHERE: i32 = 95;

/// One row.
#[derive(Debug)]
pub(crate) struct Row(Vec<Sql>);

impl Row {
    /// A number, 0 where there is none.
    pub(crate) fn int(&self, i: usize) -> i64 {
        match self.0.get(i) {
            Some(Sql::Integer(n)) => *n,
            Some(_) | None => 0,
        }
    }

    /// A text, if it is one.
    pub(crate) fn text(&self, i: usize) -> Option<&str> {
        match self.0.get(i) {
            Some(Sql::Text(text)) => Some(text),
            Some(_) | None => None,
        }
    }
}

/// The open database.
pub(crate) struct Kept(Open);

impl Kept {
    /// A notebook's; `None` where the host keeps none.
    pub(crate) fn notebook(ctx: &mut Ctx<'_>, name: &str) -> Result<Option<Self>, Fault> {
        let look = Request::Notebook { name: name.to_owned(), part: Part::Main, act: Act::Look };
        match ctx.core.host.broker(&look, &[]) {
            Ok(Reply::Seen(_)) => {}
            Ok(Reply::Refused(refused)) if refused.by == By::Kernel(NOWHERE) => return Ok(None),
            Ok(Reply::Refused(refused)) => return Err(raised(format!("{}: {}", ctx.name, refused.why))),
            Ok(_) | Err(_) => return Ok(None),
        }
        let place = Some(Place::Notebook(name.to_owned()));
        let memory = ctx.core.settings.heap.unwrap_or(MOST_MEMORY);
        let opened = storage::lending(ctx.core, |_| Open::new(name, place, Mode::Make, memory));
        opened
            .map(|open| Some(Self(open)))
            .map_err(|error| told(ctx.name, &format!("notebook {name}"), &error, None))
    }

    fn with<T>(
        &self,
        ctx: &mut Ctx<'_>,
        work: impl FnOnce(&rusqlite::Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, Fault> {
        let done = metered(ctx.core, &self.0, |_, connection| work(connection).map_err(Failure::from));
        done.map_err(|failure| match failure {
            Failure::Fault(fault) => fault,
            Failure::Sql(error) => told(ctx.name, &format!("notebook {}", self.0.target), &error, None),
        })
    }

    /// Statements without parameters.
    pub(crate) fn script(&self, ctx: &mut Ctx<'_>, sql: &str) -> Result<(), Fault> {
        self.with(ctx, |connection| connection.execute_batch(sql))
    }

    /// One statement.
    pub(crate) fn run(&self, ctx: &mut Ctx<'_>, sql: &str, params: Vec<Sql>) -> Result<(), Fault> {
        self.with(ctx, |connection| connection.execute(sql, rusqlite::params_from_iter(params)).map(drop))
    }

    /// The rows of a query.
    pub(crate) fn rows(&self, ctx: &mut Ctx<'_>, sql: &str) -> Result<Vec<Row>, Fault> {
        self.with(ctx, |connection| {
            let mut statement = connection.prepare(sql)?;
            let columns = statement.column_count();
            let mut rows = statement.raw_query();
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(Row((0..columns).map(|i| row.get(i)).collect::<Result<_, _>>()?));
            }
            Ok(all)
        })
    }
}
