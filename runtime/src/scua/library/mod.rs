//! Core names and modules: what each name stands for, and who may use it. One topic in each file.

mod arrays;
mod core;
mod effects;
mod files;
mod json;
mod math;
mod net;
mod records;
mod sandbox;
mod strings;

pub(crate) use arrays::TABLE as ARRAYS;
pub(crate) use core::TABLE as CORE;
pub(crate) use effects::TABLE as EFFECTS;
pub(crate) use math::TABLE as MATH;
pub(crate) use records::TABLE as RECORDS;
pub(crate) use strings::TABLE as STRINGS;

use crate::builtins::{Args, Ctx, find_exact};
use crate::vm::shared::{Array, Table};
use crate::vm::strict::type_name;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;

/// Who compiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Realm {
    Program,
    Sandbox,
}

/// What a name stands for.
#[derive(Debug, Clone)]
pub(super) enum Member {
    Builtin(u16),
    Int(i64),
    Float(f64),
}

/// A module.
pub(super) struct Module {
    pub(super) name: &'static str,
    /// It only computes: sandboxes have it too.
    pub(super) pure: bool,
}

/// All modules.
pub(super) const MODULES: [Module; 11] = [
    Module { name: "string", pure: true },
    Module { name: "array", pure: true },
    Module { name: "record", pure: true },
    Module { name: "math", pure: true },
    Module { name: "json", pure: true },
    Module { name: "fs", pure: false },
    Module { name: "net", pure: false },
    Module { name: "env", pure: false },
    Module { name: "clock", pure: false },
    Module { name: "random", pure: false },
    Module { name: "sandbox", pure: false },
];

/// Core names, and whether sandboxes have them.
const CORE_NAMES: [(&str, bool); 17] = [
    ("len", true),
    ("str", true),
    ("type", true),
    ("tag", true),
    ("payload", true),
    ("int", true),
    ("float", true),
    ("try", true),
    ("fail", true),
    ("reply", true),
    ("join", true),
    ("pause", true),
    ("print", false),
    ("actor", false),
    ("self", false),
    ("exit", false),
    ("partition", false),
];

/// A core name.
pub(super) struct CoreName {
    pub(super) pure: bool,
    pub(super) member: Member,
}

pub(super) fn module(name: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| module.name == name)
}

pub(super) fn member(module: &str, name: &str) -> Option<Member> {
    if module == "math" {
        match name {
            "pi" => return Some(Member::Float(std::f64::consts::PI)),
            "inf" => return Some(Member::Float(f64::INFINITY)),
            "nan" => return Some(Member::Float(f64::NAN)),
            "max_int" => return Some(Member::Int(i64::MAX)),
            "min_int" => return Some(Member::Int(i64::MIN)),
            _ => {}
        }
    }
    find_exact(&format!("{module}.{name}")).map(Member::Builtin)
}

pub(super) fn core(name: &str) -> Option<CoreName> {
    let (name, pure) = CORE_NAMES.iter().find(|(core, _)| *core == name)?;
    Some(CoreName { pure: *pure, member: Member::Builtin(find_exact(name)?) })
}

pub(super) fn core_names(realm: Realm) -> impl Iterator<Item = &'static str> {
    CORE_NAMES.iter().filter(move |(_, pure)| *pure || realm == Realm::Program).map(|(name, _)| *name)
}

/// A builtin as a value, by the name that it is printed with.
pub(super) fn named(name: &str, realm: Realm) -> Option<Value> {
    let member = match name.split_once('.') {
        Some((of, function)) => {
            let known = module(of).filter(|module| module.pure || realm == Realm::Program);
            known.and_then(|_| member(of, function))
        }
        None => core(name).filter(|core| core.pure || realm == Realm::Program).map(|core| core.member),
    };
    match member? {
        Member::Builtin(id) => Some(Value::Builtin(id)),
        Member::Int(_) | Member::Float(_) => None,
    }
}

// ---- arguments ----

fn needs(args: &Args<'_>, i: usize, what: &str) -> Fault {
    raised(format!("`{}` needs {what} as argument {}, got {}", args.name, i + 1, type_name(args.at(i))))
}

/// A string, whose reading is paid for.
fn text<'a>(ctx: &mut Ctx<'_>, args: &'a Args<'_>, i: usize) -> Result<&'a str, Fault> {
    let text = args.at(i).as_text().ok_or_else(|| needs(args, i, "a string"))?;
    ctx.charge(text.len() as u64 / 32)?;
    Ok(text)
}

fn int(args: &Args<'_>, i: usize) -> Result<i64, Fault> {
    match args.at(i) {
        Value::Int(n) => Ok(*n),
        _ => Err(needs(args, i, "an int")),
    }
}

fn number(args: &Args<'_>, i: usize) -> Result<f64, Fault> {
    match args.at(i) {
        Value::Int(n) => Ok(*n as f64),
        Value::Float(f) => Ok(*f),
        _ => Err(needs(args, i, "a number")),
    }
}

fn array<'a>(args: &'a Args<'_>, i: usize) -> Result<&'a Array, Fault> {
    args.at(i).as_array().ok_or_else(|| needs(args, i, "an array"))
}

fn table<'a>(args: &'a Args<'_>, i: usize) -> Result<&'a Table, Fault> {
    args.at(i).as_table().ok_or_else(|| needs(args, i, "a record"))
}

/// A position clamped to a length.
fn clamp(i: i64, length: usize) -> usize {
    usize::try_from(i.max(0)).unwrap_or(usize::MAX).min(length)
}

/// `Ok(v)`
fn ok(ctx: &mut Ctx<'_>, value: Value) -> Result<Value, Fault> {
    ctx.core.tagged(&"Ok".into(), value)
}

/// `Error({ kind, name, line, message })`
fn error(ctx: &mut Ctx<'_>, kind: &str, name: &str, line: i64, message: &str) -> Result<Value, Fault> {
    let message = ctx.core.string(crate::vm::strict::cut(message).to_owned())?;
    let record = ctx.core.record_of(vec![
        ("kind", Value::text(kind)),
        ("name", crate::partition::Core::counted_text(name.to_owned(), 0)),
        ("line", Value::Int(line)),
        ("message", message),
    ])?;
    ctx.core.tagged(&"Error".into(), record)
}
