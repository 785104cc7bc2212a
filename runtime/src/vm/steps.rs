//! What instructions do off the fast path.

use super::compare::{equal, order};
use super::machine::Machine;
use super::ops::{Arith, arith, key_text, truthy};
use super::other::Other;
use super::render::{inside, type_name};
use super::trap::{Fault, raised};
use super::value::{Key, Map, Record, Value};
use crate::builtins::{Args, Builtin, Cost, Ctx, Profile, Resume, Run};
use crate::bytecode::{Ins, Op, WINDOW};
use crate::partition::gate::Elsewhere;
use crate::partition::{Core, Profile as Wanted};
use policies::layer::Layer;
use std::cmp::Ordering;
use std::rc::Rc;

pub(super) type Regs = [Value; WINDOW];

/// For the audit, where a builtin is only bound.
const NOT_IN_PROFILE: &str = "not available in the pure profile";

/// What entering a builtin gives.
pub(crate) enum Entered {
    Value(Value),
    State(Box<dyn Resume>),
}

/// Checks, charges and runs a builtin.
pub(crate) fn enter_builtin(
    builtin: &'static Builtin,
    ctx: &mut Ctx<'_>,
    args: &mut Args<'_>,
) -> Result<Entered, Fault> {
    let count = args.len();
    match builtin.run {
        Run::Exact(run) => {
            builtin.check_count(count)?;
            ctx.charge(2)?;
            return run(ctx, args).map(Entered::Value);
        }
        Run::ExactCalls(run) => {
            builtin.check_count(count)?;
            ctx.charge(2)?;
            return run(ctx, args).map(Entered::State);
        }
        _ => {}
    }
    ctx.core.fuel_used(2);
    if let Some(name) = builtin.deprecated
        && ctx.core.warned.insert(builtin.name.to_owned())
    {
        ctx.core.host.eprint(&format!("warning: {} is an old name, write {name}", builtin.name));
    }
    if let Profile::Native(why) = builtin.profile
        && ctx.core.settings.profile == Wanted::Pure
    {
        let site = ctx.core.site(ctx.place);
        let denial = Elsewhere {
            check: "profile(native)".to_owned(),
            target: builtin.name,
            source: &format!("{}()", builtin.name),
            reason: NOT_IN_PROFILE,
            layer: Layer::Profile,
        };
        ctx.core.gate.note(ctx.core.host.as_mut(), &denial, &site);
        return Err(raised(format!(
            "{}: not available in the pure profile — {why} (drop --profile pure to run it natively)",
            builtin.name
        )));
    }
    if let Run::Missing(why) = builtin.run {
        return Err(raised(format!("{}: {why}", builtin.name)));
    }
    if builtin.positional != 255 && count > builtin.params.len().max(usize::from(builtin.positional)) {
        return Err(raised(too_many(builtin, count)));
    }
    if count < usize::from(builtin.required) {
        return Err(raised(format!(
            "{}() is missing argument '{}'",
            builtin.name,
            builtin.params.get(count).copied().unwrap_or("value")
        )));
    }
    if let Some(capability) = builtin.capability {
        ctx.ask(capability, None)?;
    }
    match builtin.cost {
        Cost::Flat | Cost::Own => {}
        Cost::Linear => {
            let work: u64 = args.values.iter().map(size).sum();
            if work > 0 {
                ctx.charge(work)?;
            }
        }
        Cost::Sort => {
            let n =
                args.values.iter().filter_map(|v| v.as_list()).map(<[Value]>::len).max().unwrap_or(0) as u64;
            ctx.charge(n * u64::from(64 - (n + 1).leading_zeros()))?;
        }
    }
    match builtin.run {
        Run::Plain(run) => run(ctx, args).map(Entered::Value),
        Run::Calls(run) => run(ctx, args).map(Entered::State),
        Run::Missing(_) | Run::Exact(_) | Run::ExactCalls(_) => Ok(Entered::Value(Value::Nothing)),
    }
}

/// What reading a value costs.
fn size(v: &Value) -> u64 {
    match v {
        Value::Text(_) => v.as_text().map_or(0, str::len) as u64 / 32,
        Value::List(l) => l.items().len() as u64,
        Value::Map(m) => m.len() as u64,
        Value::Big(n) => n.0.bits() / 256,
        Value::Other(o) => match &o.inner {
            Other::Bytes(b) => b.len() as u64 / 32,
            _ => 0,
        },
        _ => 0,
    }
}

pub(crate) fn too_many(builtin: &Builtin, got: usize) -> String {
    let most = builtin.positional;
    format!(
        "{}() takes at most {most} {}, got {got}",
        builtin.name,
        if most == 1 { "argument" } else { "arguments" }
    )
}

/// Reads a register: a temporary one is taken, a variable copied.
#[inline]
pub(super) fn fetch(regs: &mut Regs, r: u8, locals: u8) -> Value {
    if r >= locals { std::mem::take(&mut regs[usize::from(r)]) } else { regs[usize::from(r)].clone() }
}

/// Empties a temporary register that holds something counted.
#[inline]
fn spent(regs: &mut Regs, r: u8, locals: u8) {
    if r >= locals && regs[usize::from(r)].is_heap() {
        regs[usize::from(r)] = Value::Nothing;
    }
}

fn arith_of(op: Op) -> Arith {
    match op {
        Op::Add | Op::AddI => Arith::Add,
        Op::Sub | Op::SubI => Arith::Sub,
        Op::Mul | Op::MulI => Arith::Mul,
        Op::Div => Arith::Div,
        Op::FloorDiv | Op::FloorDivI => Arith::FloorDiv,
        Op::Rem | Op::RemI => Arith::Rem,
        _ => Arith::Pow,
    }
}

/// Arithmetic off the fast path.
#[inline(never)]
pub(super) fn arith_slow(regs: &mut Regs, ins: Ins, locals: u8, core: &mut Core) -> Result<(), Fault> {
    let op = arith_of(ins.op);
    if let Some(f) = mixed(op, &regs[usize::from(ins.b)], &regs[usize::from(ins.c())])
        && matches!(ins.op, Op::Add | Op::Sub | Op::Mul)
    {
        regs[usize::from(ins.a)] = Value::Float(f);
        return Ok(());
    }
    if core.exact.on {
        let right = fetch(regs, ins.c(), locals);
        let left =
            if ins.b == ins.c() && ins.b >= locals { right.clone() } else { fetch(regs, ins.b, locals) };
        regs[usize::from(ins.a)] = super::strict::arith(op, &left, &right)?;
        return Ok(());
    }
    let immediate = matches!(ins.op, Op::AddI | Op::SubI | Op::MulI | Op::FloorDivI | Op::RemI);
    let right = if immediate { Value::Int(i64::from(ins.d as i32)) } else { fetch(regs, ins.c(), locals) };
    // `set x to x + v`: x is taken if the sum can't fail.
    let own = ins.a == ins.b && op == Arith::Add && sums(&regs[usize::from(ins.b)], &right);
    let left = if own {
        std::mem::take(&mut regs[usize::from(ins.b)])
    } else if ins.b == ins.c() && !immediate && ins.b >= locals {
        right.clone()
    } else {
        fetch(regs, ins.b, locals)
    };
    let work = match (&left, &right) {
        (Value::Text(_) | Value::Short(_), Value::Text(t)) => t.chars() as u64 / 32,
        (Value::List(_), Value::List(l)) => l.items().len() as u64,
        (Value::Big(n), _) | (_, Value::Big(n)) => n.0.bits() / 64,
        _ => 0,
    };
    if work > 0 {
        core.fuel_used(work);
    }
    regs[usize::from(ins.a)] = arith(op, left, right)?;
    Ok(())
}

/// An integer and a float, in either order.
#[inline]
fn mixed(op: Arith, a: &Value, b: &Value) -> Option<f64> {
    let (x, y) = match (a, b) {
        (Value::Int(x), Value::Float(y)) => (*x as f64, *y),
        (Value::Float(x), Value::Int(y)) => (*x, *y as f64),
        _ => return None,
    };
    match op {
        Arith::Add => Some(x + y),
        Arith::Sub => Some(x - y),
        Arith::Mul => Some(x * y),
        Arith::Div | Arith::FloorDiv | Arith::Rem | Arith::Pow => None,
    }
}

/// Whether `a + b` can't fail and may reuse `a`.
fn sums(a: &Value, b: &Value) -> bool {
    match a {
        Value::Text(_) | Value::Short(_) => {
            matches!(b, Value::Text(_) | Value::Short(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_))
        }
        Value::List(_) => matches!(b, Value::List(_)),
        _ => false,
    }
}

/// `SumInto`: texts in place where all terms fit, else one sum after the other.
pub(super) fn sum_into(regs: &mut Regs, ins: Ins, core: &mut Core) -> Result<(), Fault> {
    let (a, first, count) = (usize::from(ins.a), usize::from(ins.b), ins.d as usize);
    let all = regs[first..first + count].iter().all(|b| sums(&regs[a], b));
    if all {
        let mut sum = std::mem::take(&mut regs[a]);
        for term in &mut regs[first..first + count] {
            let term = std::mem::take(term);
            core.fuel_used(size(&term));
            sum = arith(Arith::Add, sum, term)?;
        }
        regs[a] = sum;
        return Ok(());
    }
    let mut sum = regs[a].clone();
    for term in &mut regs[first..first + count] {
        let term = std::mem::take(term);
        sum = arith(Arith::Add, sum, term)?;
    }
    regs[a] = sum;
    Ok(())
}

/// Equality off the fast path.
#[inline(never)]
pub(super) fn equal_slow(regs: &mut Regs, a: u8, b: u8, locals: u8, core: &mut Core) -> Result<bool, Fault> {
    let (x, y) = (&regs[usize::from(a)], &regs[usize::from(b)]);
    let result = if core.exact.on {
        super::strict::equal(core, x, y)?
    } else {
        core.fuel_used(size(x).min(size(y)));
        equal(x, y)?
    };
    spent(regs, a, locals);
    spent(regs, b, locals);
    Ok(result)
}

/// Order off the fast path in an exact partition.
#[inline(never)]
pub(super) fn less_exact(
    regs: &mut Regs,
    (a, b): (u8, u8),
    or_equal: bool,
    op: Op,
    locals: u8,
    core: &mut Core,
) -> Result<bool, Fault> {
    let result = super::strict::less(core, &regs[usize::from(a)], &regs[usize::from(b)], or_equal, op)?;
    spent(regs, a, locals);
    spent(regs, b, locals);
    Ok(result)
}

/// Order off the fast path: whether `a < b`, or `a <= b`.
#[inline(never)]
pub(super) fn less_slow(regs: &mut Regs, a: u8, b: u8, or_equal: bool, locals: u8) -> Result<bool, Fault> {
    let result = order(&regs[usize::from(a)], &regs[usize::from(b)])?;
    spent(regs, a, locals);
    spent(regs, b, locals);
    Ok(match result {
        Some(Ordering::Less) => true,
        Some(Ordering::Equal) => or_equal,
        _ => false,
    })
}

/// `in`.
pub(super) fn contains(regs: &mut Regs, a: u8, b: u8, locals: u8, core: &mut Core) -> Result<bool, Fault> {
    let (x, c) = (&regs[usize::from(a)], &regs[usize::from(b)]);
    if !matches!(c, Value::Map(_)) {
        core.fuel_used(size(c));
    }
    let result = super::ops::contains(c, x)?;
    spent(regs, a, locals);
    spent(regs, b, locals);
    Ok(result)
}

/// A position in something of a length; negative ones count from the end.
pub(crate) fn position(index: &Value, length: usize, what: &str) -> Result<usize, Fault> {
    let i = match index {
        Value::Int(i) => *i,
        Value::Float(f) if f.fract() == 0.0 && f.abs() < 9e15 => *f as i64,
        other => return Err(raised(format!("index must be an integer, got {}", inside(other)))),
    };
    let at = if i < 0 { i + length as i64 } else { i };
    if at < 0 || at >= length as i64 {
        return Err(raised(format!("Index {i} out of bounds ({what} length {length})")));
    }
    Ok(at as usize)
}

/// `c[i]`.
pub(crate) fn index(c: &Value, i: &Value, core: &Core) -> Result<Value, Fault> {
    match c {
        Value::List(list) => {
            let at = position(i, list.items().len(), "list")?;
            Ok(list.items()[at].clone())
        }
        Value::Map(map) => match key_text(i) {
            Some(key) => map.get(&key).cloned().ok_or_else(|| no_key(&key)),
            None => Err(raised(format!("a map key must be text, got {}", type_name(i)))),
        },
        Value::Short(_) | Value::Text(_) => {
            let text = c.as_text().unwrap_or("");
            let at = position(i, c.chars(), "text")?;
            if c.chars() == text.len() {
                return Ok(Value::text(&text[at..=at]));
            }
            Ok(text.chars().nth(at).map_or(Value::Nothing, Value::char))
        }
        Value::Record(_) => match i.as_text() {
            Some(name) => field(c, name, core, Member::Plain),
            None => Err(raised(format!("Cannot index {}", type_name(c)))),
        },
        Value::Other(o) => match &o.inner {
            Other::Bytes(bytes) => {
                let at = position(i, bytes.len(), "bytes")?;
                Ok(Value::Int(i64::from(bytes[at])))
            }
            Other::Foreign(f) => match f.index(i) {
                Some(result) => result.map_err(Fault::from),
                None => Err(raised(format!("Cannot index {}", type_name(c)))),
            },
            _ => match i.as_text() {
                Some(name) => field(c, name, core, Member::Plain),
                None => Err(raised(format!("Cannot index {}", type_name(c)))),
            },
        },
        _ => Err(raised(format!("Cannot index {}", type_name(c)))),
    }
}

fn no_key(key: &str) -> Fault {
    raised(format!("Map has no key '{key}'"))
}

/// How a member is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member {
    Plain,
    Of,
    Called,
}

/// `m.k`.
pub(crate) fn field(value: &Value, name: &str, core: &Core, how: Member) -> Result<Value, Fault> {
    match value {
        Value::Map(map) => map
            .get(name)
            .cloned()
            .ok_or_else(|| if how == Member::Called { method(value, name) } else { no_key(name) }),
        Value::Record(record) => match record.field(name) {
            Some(i) => Ok(record.values[i].clone()),
            None => Err(raised(format!("{} has no field '{name}'", record.shape.name))),
        },
        Value::Other(o) => match &o.inner {
            Other::Module(module) => match module.exports.get(name) {
                Some(slot) => match &core.globals[*slot as usize] {
                    Value::Unbound => Err(no_key(name)),
                    v => Ok(v.clone()),
                },
                None => Err(no_key(name)),
            },
            Other::Enum(shape) => match shape.variants.iter().position(|(v, _)| **v == *name) {
                Some(i) if shape.variants[i].1 == 0 => {
                    Ok(Value::Record(Rc::new(Record::new(shape.clone(), Some(i), Vec::new()))))
                }
                Some(i) => Ok(Value::other(Other::Maker(shape.clone(), i))),
                None => Err(raised(format!("enum {} has no variant '{name}'", shape.name))),
            },
            Other::Foreign(f) => f
                .field(name)
                .ok_or_else(|| raised(format!("Cannot read property '{name}' of {}", type_name(value)))),
            _ => Err(raised(format!("Cannot read property '{name}' of {}", type_name(value)))),
        },
        _ if how == Member::Called => Err(method(value, name)),
        _ => {
            let hint = if how == Member::Of {
                " — `of` takes the whole chain on its right: bind the inner value first"
            } else {
                ""
            };
            Err(raised(format!("Cannot read property '{name}' of {}{hint}", type_name(value))))
        }
    }
}

fn method(value: &Value, name: &str) -> Fault {
    let form = match (name, value) {
        ("append" | "push" | "add", _) => "set xs to append(xs, item)".to_owned(),
        ("get", _) => "get(m, key, default)".to_owned(),
        ("len" | "length" | "size", _) => "length(x)".to_owned(),
        ("keys" | "values" | "items", _) => format!("{name}(m)"),
        ("upper" | "lower" | "trim" | "split" | "replace", _) => format!("{name}(text, …)"),
        _ if crate::builtins::find(name).is_some() => format!("{name}(x, …)"),
        _ => format!("a task called with the value, {name}(x, …)"),
    };
    if let Value::Map(_) = value
        && crate::builtins::find(name).is_none()
        && !matches!(name, "append" | "push" | "add" | "get" | "len" | "size")
    {
        return no_key(name);
    }
    raised(format!("Synsema has no methods: {form}"))
}

/// `Undefined variable`, with the Synsema form of names known from elsewhere.
pub(super) fn undefined(name: &str) -> Fault {
    let hint = match crate::builtins::hint(name) {
        Some(form) => format!(" — in Synsema: {form}"),
        None => String::new(),
    };
    raised(format!("Undefined variable: '{name}'{hint}"))
}

impl Core {
    /// The name that stands at a place in the source.
    pub(crate) fn name_at(&self, (file, at): (u32, u32)) -> String {
        let Some(source) = self.program.sources.get(file as usize) else { return String::new() };
        let rest = source.text.get(at as usize..).unwrap_or("");
        rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    }
}

/// A key of a map literal.
pub(super) fn put(map: &mut Value, key: &Value, value: Value) -> Result<(), Fault> {
    let Some(text) = key_text(key) else {
        return Err(raised(format!("a map key must be text, got {}", type_name(key))));
    };
    let key = Key::of(key).unwrap_or_else(|| Key::new(&text));
    if let Value::Map(map) = map {
        Rc::make_mut(map).edit(|entries| entries.insert(key, value));
    }
    Ok(())
}

/// The next element of what a loop goes through; `at` is its state.
#[inline]
pub(super) fn each_next(collection: &Value, at: &mut i64) -> Option<Value> {
    match collection {
        Value::List(list) => {
            let item = list.items().get(*at as usize)?.clone();
            *at += 1;
            Some(item)
        }
        Value::Map(map) => {
            let (key, _) = map.inner().get_index(*at as usize)?;
            *at += 1;
            Some(key.value())
        }
        Value::Short(_) | Value::Text(_) => {
            let c = collection.as_text()?.get(*at as usize..)?.chars().next()?;
            *at += c.len_utf8() as i64;
            Some(Value::char(c))
        }
        _ => {
            if let Some(Other::Foreign(f)) = collection.as_other() {
                if *at as usize >= f.length()? {
                    return None;
                }
                let item = f.index(&Value::Int(*at))?.ok()?;
                *at += 1;
                return Some(item);
            }
            let byte = *collection.as_bytes()?.get(*at as usize)?;
            *at += 1;
            Some(Value::Int(i64::from(byte)))
        }
    }
}

/// Whether `each` can go through a value.
pub(super) fn iterable(value: &Value) -> bool {
    match value {
        Value::List(_) | Value::Map(_) | Value::Short(_) | Value::Text(_) => true,
        _ => {
            value.as_bytes().is_some()
                || matches!(value.as_other(), Some(Other::Foreign(f)) if f.length().is_some())
        }
    }
}

/// Text of a template.
pub(super) fn concat(regs: &mut Regs, first: usize, count: usize, core: &mut Core) -> Result<Value, Fault> {
    let sealed = regs[first..first + count].iter().any(|v| matches!(v.as_other(), Some(Other::Secret(_))));
    if sealed {
        let mut all = Value::text("");
        for term in &mut regs[first..first + count] {
            let term = std::mem::take(term);
            let term = match term.as_other() {
                Some(Other::Secret(_)) => term,
                _ => Value::string(super::render::display(&term)),
            };
            all = arith(Arith::Add, all, term)?;
        }
        return Ok(all);
    }
    let mut out = String::new();
    for value in &mut regs[first..first + count] {
        super::render::write(value, &mut out);
        *value = Value::Nothing;
    }
    core.fuel_used(out.len() as u64 / 32);
    if out.len() > 1 << 16 && crate::partition::heap::would_pass(out.len() as u64) {
        return Err(super::ops::memory().into());
    }
    Ok(Value::string(out))
}

/// A comparison with a small constant.
pub(super) fn small(regs: &Regs, ins: Ins) -> Result<Ordering3, Fault> {
    let right = Value::Int(i64::from(ins.b as i8));
    let left = &regs[usize::from(ins.a)];
    Ok(match ins.op {
        Op::JumpEqI | Op::JumpNeI => Ordering3::from_equal(equal(left, &right)?),
        _ => Ordering3(order(left, &right)?),
    })
}

/// The outcome of a comparison; `None` with NaN.
pub(super) struct Ordering3(pub(super) Option<Ordering>);

impl Ordering3 {
    fn from_equal(same: bool) -> Self {
        Self(same.then_some(Ordering::Equal))
    }
}

/// Whether `R[a]` is the variant that `path` names, with so many parts.
pub(super) fn is_variant(value: &Value, path: &Value, parts: usize) -> Result<bool, Fault> {
    let (shape, index) = match path {
        Value::Record(record) => match record.variant {
            Some(i) => (&record.shape, i),
            None => return Ok(parts == 0 && equal(value, path)?),
        },
        _ => match path.as_other() {
            Some(Other::Maker(shape, i)) => (shape, *i),
            _ => return Ok(parts == 0 && equal(value, path)?),
        },
    };
    Ok(match value {
        Value::Record(record) => {
            Rc::ptr_eq(&record.shape, shape)
                && record.variant == Some(index)
                && (parts == 0 || record.values.len() == parts)
        }
        _ => false,
    })
}

impl Machine {
    /// Calls a value that is neither task nor builtin: constructors.
    pub(crate) fn call_other(&mut self, callee: &Value, first: usize, count: usize) -> Result<Value, Fault> {
        let take = |stack: &mut Vec<Value>| -> Vec<Value> {
            stack[first..first + count].iter_mut().map(std::mem::take).collect()
        };
        match callee.as_other() {
            Some(Other::Type(shape)) => {
                let wanted = shape.fields.len();
                if count != wanted {
                    return Err(raised(format!(
                        "Type {} expects {wanted} {}, got {count}",
                        shape.name,
                        if wanted == 1 { "field" } else { "fields" }
                    )));
                }
                let values = take(&mut self.stack);
                Ok(Value::Record(Rc::new(Record::new(shape.clone(), None, values))))
            }
            Some(Other::Maker(shape, i)) => {
                let (name, wanted) = &shape.variants[*i];
                if count != *wanted {
                    return Err(raised(format!(
                        "variant {}.{name} expects {wanted} fields, got {count}",
                        shape.name
                    )));
                }
                let values = take(&mut self.stack);
                Ok(Value::Record(Rc::new(Record::new(shape.clone(), Some(*i), values))))
            }
            _ => Err(raised(format!("Cannot call {}", type_name(callee)))),
        }
    }

    /// Orders the arguments of a call with names: into the parameters' places. Gives their count.
    pub(crate) fn place_named(
        &mut self,
        callee: &Value,
        first: usize,
        count: usize,
        names: &[Rc<str>],
    ) -> Result<usize, Fault> {
        let positional = count - names.len();
        let params: Vec<&str> = match callee {
            Value::Task(task) => task.proto.params.iter().map(|p| &**p).collect(),
            Value::Builtin(id) => {
                let builtin = crate::builtins::get(*id);
                if !builtin.named {
                    let shown = inside(&self.stack[first + positional]);
                    return Err(raised(format!(
                        "{}() does not accept named arguments (got {} = {shown}); pass it by position",
                        builtin.name, names[0]
                    )));
                }
                if positional > usize::from(builtin.positional) {
                    return Err(raised(too_many(builtin, positional)));
                }
                builtin.params.to_vec()
            }
            other => match other.as_other() {
                Some(Other::Type(shape)) => shape.fields.iter().map(|f| &**f).collect(),
                _ => return Err(raised("this can't be called with named arguments")),
            },
        };
        if let Value::Task(task) = callee
            && positional > params.len()
        {
            return Err(raised(super::machine::too_many(&task.proto, count)));
        }
        let mut placed: Vec<Option<Value>> = vec![None; params.len()];
        for (i, slot) in placed.iter_mut().enumerate().take(positional) {
            *slot = Some(std::mem::take(&mut self.stack[first + i]));
        }
        for (i, name) in names.iter().enumerate() {
            let value = std::mem::take(&mut self.stack[first + positional + i]);
            let Some(at) = params.iter().position(|p| *p == &**name) else {
                return Err(raised(format!("unknown parameter '{name}'")));
            };
            if placed[at].replace(value).is_some() {
                return Err(raised(format!("duplicate argument '{name}'")));
            }
        }
        let last = placed.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
        self.room(first + last);
        for (i, value) in placed.into_iter().take(last).enumerate() {
            let value = match (value, callee) {
                (Some(value), _) => value,
                (None, Value::Task(task)) if !task.proto.defaults[i] => {
                    return Err(raised(super::machine::missing(&task.proto, i)));
                }
                (None, Value::Task(_) | Value::Builtin(_)) => Value::Unbound,
                (None, _) => Value::Nothing,
            };
            self.stack[first + i] = value;
        }
        if let Value::Builtin(id) = callee {
            let builtin = crate::builtins::get(*id);
            for i in 0..usize::from(builtin.required) {
                if i >= last || matches!(self.stack[first + i], Value::Unbound) {
                    return Err(raised(format!(
                        "{}() is missing argument '{}'",
                        builtin.name, builtin.params[i]
                    )));
                }
            }
        }
        Ok(last)
    }

    /// The ceiling that `sandbox under` names: a map of capability and scopes.
    pub(crate) fn under(&mut self, caps: &Value) -> Result<(), Fault> {
        let Value::Map(map) = caps else {
            return Err(raised(format!(
                "sandbox under expects a map of capabilities, got {}",
                type_name(caps)
            )));
        };
        let allowed = ceiling_of(map, true)?;
        self.core.gate.enter_under(allowed);
        Ok(())
    }
}

/// `{name: scope | [scopes] | nothing}` as a ceiling.
pub(crate) fn ceiling_of(map: &Map, delegable: bool) -> Result<policies::ceiling::Ceiling, Fault> {
    use policies::capability::Capability;
    use policies::ceiling::{Ceiling, Grant};
    let mut grants = Vec::new();
    for (key, value) in map.entries() {
        let name = key.as_str();
        let Some(capability) = Capability::from_name(name) else {
            return Err(raised(format!("unknown capability '{name}'")));
        };
        let local = matches!(
            capability,
            Capability::Stdout | Capability::Stdin | Capability::Time | Capability::Random
        );
        if delegable && local {
            return Err(raised(format!("{name} is process-local")));
        }
        let scopes: Vec<Value> = match value {
            Value::Nothing => Vec::new(),
            Value::List(list) => list.items().to_vec(),
            one => vec![one.clone()],
        };
        if scopes.is_empty() {
            grants.push(Grant::whole(capability));
        }
        for scope in scopes {
            let text = super::render::display(&scope);
            grants.push(Grant::new(capability, Some(&text)).map_err(|e| raised(e.to_string()))?);
        }
    }
    Ok(Ceiling::of(grants))
}

/// Whether a value is true; the fast cases are the caller's.
pub(super) fn truth(regs: &mut Regs, r: u8, locals: u8) -> bool {
    let result = truthy(&regs[usize::from(r)]);
    spent(regs, r, locals);
    result
}
