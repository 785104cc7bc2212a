//! The registry: every builtin in one table with its name, parameters, capability, profile and cost.
//!
//! A family is a file with a `TABLE`; the tables are listed once, below. A builtin takes its arguments from the
//! machine's registers and may take them over (`std::mem::take`).

pub mod context;

mod archive;
mod arrays;
mod assertions;
mod bus;
mod bytes;
mod chart;
mod cipher;
mod command;
mod complex;
mod config;
mod control;
mod convert;
mod cron;
mod csv;
pub(crate) mod database;
mod dates;
pub(crate) mod files;
mod hash;
mod higher;
mod http;
mod json;
mod list;
mod math;
mod model;
mod notebook;
pub(crate) mod operations;
mod page;
mod pipes;
mod process;
mod processes;
mod random;
mod sockets;
mod stubs;
mod tables;
mod terminal;
mod text;
mod time;
mod toml;
mod waiting;
mod watching;
mod xml;

pub use context::{Args, CallArgs, Ctx, Next, Resume};
pub use database::mend_clock_with;

use crate::vm::trap::Fault;
use crate::vm::value::Value;
use policies::capability::Capability;
use std::collections::HashMap;
use std::sync::OnceLock;

pub(crate) use json::to_host as to_json;

/// One builtin.
pub struct Builtin {
    /// As programs call it.
    pub name: &'static str,
    /// Parameter names in order; those after `positional` can only be named.
    pub params: &'static [&'static str],
    /// Arguments that must be given.
    pub required: u8,
    /// Arguments that may be given by position; 255 for any number.
    pub positional: u8,
    /// Whether arguments may be named.
    pub named: bool,
    /// What the gate is asked for before it runs. Scoped ones ask by themselves when the target is known.
    pub capability: Option<Capability>,
    /// Where it exists.
    pub profile: Profile,
    /// Fuel beyond the call itself.
    pub cost: Cost,
    /// Whether `set x to f(x, …)` may hand `x` over without a copy.
    pub reuses_first: bool,
    /// The name that replaces this one.
    pub deprecated: Option<&'static str>,
    /// Arguments at most, in an exact partition.
    pub most: u8,
    /// What it does.
    pub run: Run,
}

/// In which profile a builtin works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Everywhere.
    Pure,
    /// A stub under the pure profile that says why.
    Native(&'static str),
}

/// Fuel of a builtin beyond the 2 of its call; allocation is charged by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Nothing further.
    Flat,
    /// One for each element and each 32 bytes of its arguments.
    Linear,
    /// n · log2 n of its first list.
    Sort,
    /// It charges by itself, as it works.
    Own,
}

/// Starts a builtin that calls back.
pub type Calls = fn(&mut Ctx<'_>, &mut Args<'_>) -> Result<Box<dyn Resume>, Fault>;

/// Begins what calls back into the program or waits: gives the state that the machine drives.
pub type Begin = fn(&mut Ctx<'_>, &mut Args<'_>) -> Result<Box<dyn Resume>, Fault>;

/// How a builtin is run.
pub enum Run {
    /// At once.
    Plain(fn(&mut Ctx<'_>, &mut Args<'_>) -> Result<Value, Fault>),
    /// With calls back into the program: gives the state that the machine drives.
    Calls(Calls),
    /// Not built: the message that it raises after its name.
    Missing(&'static str),
    /// At once, in an exact partition: it charges for what it does, before it does it.
    Exact(fn(&mut Ctx<'_>, &mut Args<'_>) -> Result<Value, Fault>),
    /// With calls back or a wait, in an exact partition.
    ExactCalls(Begin),
}

impl Builtin {
    /// A pure builtin with a flat cost, to be adjusted by the methods below.
    #[must_use]
    pub const fn new(
        name: &'static str,
        params: &'static [&'static str],
        required: u8,
        run: fn(&mut Ctx<'_>, &mut Args<'_>) -> Result<Value, Fault>,
    ) -> Self {
        Self {
            name,
            params,
            required,
            positional: params.len() as u8,
            named: false,
            capability: None,
            profile: Profile::Pure,
            cost: Cost::Linear,
            reuses_first: false,
            deprecated: None,
            most: 0,
            run: Run::Plain(run),
        }
    }

    /// One that calls back.
    #[must_use]
    pub const fn calls(
        name: &'static str,
        params: &'static [&'static str],
        required: u8,
        run: Calls,
    ) -> Self {
        let mut b = Self::new(name, params, required, |_, _| Ok(Value::Nothing));
        b.run = Run::Calls(run);
        b.cost = Cost::Own;
        b
    }

    /// One for exact partitions, with from `required` to `most` arguments (255: any number).
    #[must_use]
    pub const fn exact(
        name: &'static str,
        (required, most): (u8, u8),
        run: fn(&mut Ctx<'_>, &mut Args<'_>) -> Result<Value, Fault>,
    ) -> Self {
        let mut b = Self::new(name, &[], required, |_, _| Ok(Value::Nothing));
        b.positional = 255;
        b.most = most;
        b.run = Run::Exact(run);
        b
    }

    /// One for exact partitions that calls back or waits.
    #[must_use]
    pub const fn exact_calls(name: &'static str, (required, most): (u8, u8), run: Begin) -> Self {
        let mut b = Self::exact(name, (required, most), |_, _| Ok(Value::Nothing));
        b.run = Run::ExactCalls(run);
        b
    }

    /// Whether so many arguments may be given, in an exact partition.
    pub(crate) fn check_count(&self, count: usize) -> Result<(), Fault> {
        let (least, most) = (usize::from(self.required), usize::from(self.most));
        if count >= least && (self.most == 255 || count <= most) {
            return Ok(());
        }
        let takes = if least == most {
            crate::vm::strict::arguments(least)
        } else {
            format!("{least} to {most} arguments")
        };
        Err(crate::vm::trap::raised(format!("`{}` takes {takes}, got {count}", self.name)))
    }

    /// One that isn't built yet.
    #[must_use]
    pub const fn missing(name: &'static str, why: &'static str) -> Self {
        let mut b = Self::new(name, &["…"], 0, |_, _| Ok(Value::Nothing));
        b.positional = 255;
        b.named = true;
        b.run = Run::Missing(why);
        b
    }

    /// Any number of arguments.
    #[must_use]
    pub const fn variadic(mut self) -> Self {
        self.positional = 255;
        self
    }

    /// Arguments may be named; only the first `positional` may be given by position.
    #[must_use]
    pub const fn named(mut self, positional: u8) -> Self {
        self.named = true;
        self.positional = positional;
        self
    }

    /// With a cost.
    #[must_use]
    pub const fn cost(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Behind a capability without a scope.
    #[must_use]
    pub const fn needs(mut self, capability: Capability) -> Self {
        self.capability = Some(capability);
        self
    }

    /// A stub under the pure profile.
    #[must_use]
    pub const fn native(mut self, why: &'static str) -> Self {
        self.profile = Profile::Native(why);
        self
    }

    /// `set x to f(x, …)` hands `x` over; on an error the first argument must still be whole.
    #[must_use]
    pub const fn reuses(mut self) -> Self {
        self.reuses_first = true;
        self
    }

    /// An old name: a program that uses it is told once.
    #[must_use]
    pub const fn replaced_by(mut self, name: &'static str) -> Self {
        self.deprecated = Some(name);
        self
    }

    /// Whether it neither calls back nor reaches outside.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        matches!(self.run, Run::Plain(_)) && self.capability.is_none()
    }
}

/// All families. The order is no part of any contract.
static FAMILIES: &[&[Builtin]] = &[
    control::TABLE,
    // Before the plain functions of the same names, which they call.
    arrays::REDUCTIONS,
    complex::TABLE,
    convert::TABLE,
    text::TABLE,
    list::TABLE,
    higher::TABLE,
    math::TABLE,
    json::TABLE,
    time::TABLE,
    dates::TABLE,
    random::TABLE,
    csv::TABLE,
    tables::TABLE,
    toml::TABLE,
    xml::TABLE,
    bytes::TABLE,
    hash::TABLE,
    cipher::TABLE,
    chart::TABLE,
    bus::TABLE,
    pipes::TABLE,
    waiting::TABLE,
    processes::TABLE,
    sockets::TABLE,
    terminal::TABLE,
    watching::TABLE,
    cron::TABLE,
    notebook::TABLE,
    notebook::PROGRESS,
    config::TABLE,
    arrays::TABLE,
    arrays::LINEAR,
    assertions::TABLE,
    process::TABLE,
    command::TABLE,
    files::TABLE,
    archive::TABLE,
    page::TABLE,
    database::TABLE,
    http::TABLE,
    model::TABLE,
    stubs::TABLE,
    crate::scua::CORE,
    crate::scua::STRINGS,
    crate::scua::ARRAYS,
    crate::scua::RECORDS,
    crate::scua::MATH,
    crate::scua::EFFECTS,
];

/// The number of an exact partition's builtin.
pub(crate) fn find_exact(name: &str) -> Option<u16> {
    static INDEX: OnceLock<HashMap<&'static str, u16>> = OnceLock::new();
    let own = FAMILIES.len() - crate::scua::FAMILIES;
    let index = INDEX.get_or_init(|| {
        let mut map = HashMap::with_capacity(256);
        for (f, family) in FAMILIES.iter().enumerate().skip(own) {
            for (i, builtin) in family.iter().enumerate() {
                map.insert(builtin.name, (f as u16) << FAMILY_BITS | i as u16);
            }
        }
        map
    });
    index.get(name).copied()
}

const FAMILY_BITS: u16 = 10;

fn index() -> &'static HashMap<&'static str, u16> {
    static INDEX: OnceLock<HashMap<&'static str, u16>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut map = HashMap::with_capacity(512);
        let own = FAMILIES.len() - crate::scua::FAMILIES;
        for (f, family) in FAMILIES.iter().enumerate().take(own) {
            for (i, builtin) in family.iter().enumerate() {
                // A stub yields to a family that builds the real one.
                map.entry(builtin.name).or_insert((f as u16) << FAMILY_BITS | i as u16);
            }
        }
        map
    })
}

/// The number of a builtin.
#[must_use]
pub fn find(name: &str) -> Option<u16> {
    index().get(name).copied()
}

pub(crate) use files::shown as shown_path;
pub(crate) use stubs::missing_by_family;

/// A builtin by its number.
#[must_use]
#[inline]
pub fn get(id: u16) -> &'static Builtin {
    &FAMILIES[usize::from(id >> FAMILY_BITS)][usize::from(id & ((1 << FAMILY_BITS) - 1))]
}

/// Every builtin, stubs that a family replaces left out.
pub fn all() -> impl Iterator<Item = &'static Builtin> {
    FAMILIES
        .iter()
        .flat_map(|f| f.iter())
        .filter(|b| find(b.name).is_some_and(|id| std::ptr::eq(get(id), *b)))
}

/// Every builtin of exact partitions.
pub fn exact() -> impl Iterator<Item = &'static Builtin> {
    FAMILIES.iter().skip(FAMILIES.len() - crate::scua::FAMILIES).flat_map(|family| family.iter())
}

/// A predefined constant.
#[must_use]
pub fn constant(name: &str) -> Option<Value> {
    Some(Value::Float(match name {
        "pi" => std::f64::consts::PI,
        "tau" => std::f64::consts::TAU,
        "e" => std::f64::consts::E,
        "inf" => f64::INFINITY,
        "nan" => f64::NAN,
        _ => return None,
    }))
}

/// The nearest builtin or a form that people know from elsewhere.
#[must_use]
pub(crate) fn hint(name: &str) -> Option<String> {
    let known = match name {
        "len" | "count_of" => "length(x)",
        "str" | "toString" | "to_string" | "string" | "String" => "text(x)",
        "push" | "add" => "append(list, item)",
        "map" => "apply(fn, list)",
        "filter" => "where(list, pred)",
        "println" | "puts" | "echo" | "printf" => "print(x)",
        "None" | "null" | "nil" | "undefined" => "nothing",
        "True" => "true",
        "False" => "false",
        "parse_int" | "parseInt" => "int(x)",
        "parse_float" | "parseFloat" => "float(x)",
        "type" | "typeof" => "type_of(x)",
        "fold" => "reduce(list, fn, init)",
        "any" => "some(list, pred)",
        "all" => "every(list, pred)",
        "substring" | "substr" => "slice(text, start, end)",
        "sorted" => "sort(list)",
        "reversed" => "reverse(list)",
        "uppercase" | "to_upper" => "upper(t)",
        "lowercase" | "to_lower" => "lower(t)",
        "strip" => "trim(t)",
        "input" => "read_line(prompt)",
        "error" | "throw" | "panic" => "raise(message)",
        "self" | "this" => return None,
        _ => return None,
    };
    Some(known.to_owned())
}
