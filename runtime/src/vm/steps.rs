//! What instructions do off the fast path.

use super::compare::{equal, order};
use super::ops::{Arith, arith, truthy};
use super::other::Other;
use super::trap::{Fault, Stop, denied, raised};
use super::value::Value;
use crate::builtins::{Args, Builtin, Cost, Ctx, Profile, Resume, Run};
use crate::bytecode::{Capture, Ins, Op, Proto, WINDOW};
use crate::partition::gate::Elsewhere;
use crate::partition::{Core, Profile as Wanted};
use policies::layer::Layer;
use std::cmp::Ordering;
use std::rc::Rc;

pub(super) use super::access::{Member, each_next, field, index, iterable, position, put};

pub(super) type Regs = [Value; WINDOW];

/// For the audit, where a builtin is only bound.
const NOT_IN_PROFILE: &str = "not available in the pure profile";

/// Where execution goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Skip,
    Jump,
}

/// Past the next instruction, or on with it.
pub(super) fn skip(yes: bool) -> Flow {
    if yes { Flow::Skip } else { Flow::Next }
}

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
        && !crate::builtins::files::is_of_asset(ctx, args)
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
    ctx.core.bound_work();
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
    core.bound_work();
    let op = arith_of(ins.op);
    if let Some(f) = mixed(op, &regs[usize::from(ins.b)], &regs[usize::from(ins.c())])
        && matches!(ins.op, Op::Add | Op::Sub | Op::Mul)
    {
        regs[usize::from(ins.a)] = Value::Float(f);
        return Ok(());
    }
    let immediate = matches!(ins.op, Op::AddI | Op::SubI | Op::MulI | Op::FloorDivI | Op::RemI);
    let right = if immediate { Value::Int(i64::from(ins.d as i32)) } else { fetch(regs, ins.c(), locals) };
    // `set x to x + v`: x is taken if the sum can't fail.
    let own = !core.exact.on && ins.a == ins.b && op == Arith::Add && sums(&regs[usize::from(ins.b)], &right);
    let left = if own {
        std::mem::take(&mut regs[usize::from(ins.b)])
    } else if ins.b == ins.c() && !immediate && ins.b >= locals {
        right.clone()
    } else {
        fetch(regs, ins.b, locals)
    };
    if core.exact.on {
        regs[usize::from(ins.a)] = super::strict::arith(op, &left, &right)?;
        return Ok(());
    }
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
pub(super) fn sums(a: &Value, b: &Value) -> bool {
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
        core.bound_work();
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
pub(super) fn less_slow(
    regs: &mut Regs,
    (a, b): (u8, u8),
    or_equal: bool,
    locals: u8,
    core: &Core,
) -> Result<bool, Fault> {
    core.bound_work();
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
    core.bound_work();
    if !matches!(c, Value::Map(_)) {
        core.fuel_used(size(c));
    }
    let result = super::ops::contains(c, x)?;
    spent(regs, a, locals);
    spent(regs, b, locals);
    Ok(result)
}

/// `Undefined variable`, with the Synsema form of names known from elsewhere.
pub(super) fn undefined(name: &str) -> Fault {
    if let Some(why) = crate::builtins::missing_by_family(name) {
        return raised(format!("{name}: {why}"));
    }
    if matches!(name, "request" | "params") {
        return raised(format!(
            "Undefined variable: '{name}' — it is there inside a handler only; pass it as a parameter to what the handler calls"
        ));
    }
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

/// Text of a template.
pub(super) fn concat(regs: &mut Regs, first: usize, count: usize, core: &mut Core) -> Result<Value, Fault> {
    core.bound_work();
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

/// A comparison with a small constant; `None` with NaN, and for whatever is unequal where no more is asked.
#[inline(never)]
pub(super) fn small(
    regs: &mut Regs,
    ins: Ins,
    locals: u8,
    core: &mut Core,
) -> Result<Option<Ordering>, Fault> {
    let right = Value::Int(i64::from(ins.b as i8));
    let left = &regs[usize::from(ins.a)];
    let equality = matches!(ins.op, Op::JumpEqI | Op::JumpNeI);
    let result = if core.exact.on {
        match equality {
            true => super::strict::equal(core, left, &right)?.then_some(Ordering::Equal),
            false => super::strict::order(core, left, &right, super::strict::sign(ins.op))?,
        }
    } else {
        core.bound_work();
        match ins.op {
            _ if equality => equal(left, &right)?.then_some(Ordering::Equal),
            // As `n < x`.
            Op::JumpGtI | Op::JumpNgtI | Op::JumpGeI | Op::JumpNgeI => {
                order(&right, left)?.map(Ordering::reverse)
            }
            _ => order(left, &right)?,
        }
    };
    spent(regs, ins.a, locals);
    Ok(result)
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

/// Whether a value is true; the fast cases are the caller's.
pub(super) fn truth(regs: &mut Regs, r: u8, locals: u8) -> bool {
    let result = truthy(&regs[usize::from(r)]);
    spent(regs, r, locals);
    result
}

/// Checks start, end and step of a `range`; the first number, if there is one.
pub(super) fn range_bounds(bounds: &mut [Value]) -> Result<Option<i64>, Fault> {
    let mut whole = [0i64; 3];
    for (i, value) in bounds.iter_mut().enumerate() {
        whole[i] = match value {
            Value::Int(n) => *n,
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 9e15 => *f as i64,
            other => {
                let name = ["start", "end", "step"][i];
                return Err(raised(format!(
                    "range: {name} must be an integer{}, got {}",
                    super::number::too_wide(other),
                    super::render::brief(other)
                )));
            }
        };
        *value = Value::Int(whole[i]);
    }
    let [start, end, step] = whole;
    if step == 0 {
        return Err(raised("range: step must not be 0"));
    }
    Ok(((step > 0 && start < end) || (step < 0 && start > end)).then_some(start))
}

/// A `serve` block where no service runs: the gate is asked all the same.
#[cold]
pub(super) fn serve(core: &mut Core, port: &str, place: (u32, u32)) -> Fault {
    match core.ask(policies::capability::Capability::Serve, Some(port), "serve", place) {
        Ok(()) => raised("a file with a `serve` block runs under `serve`, not under `run`"),
        Err(fault) => match *fault {
            Stop::Raised(error) if error.message.contains("missing capability") => {
                denied(format!("serve on {port} is not permitted: missing capability serve({port})"))
            }
            other => Box::new(other),
        },
    }
}

/// The cells that a new function takes with it.
pub(super) fn captures<All: FromIterator<Value>>(target: &Proto, regs: &Regs, up: &[Value]) -> All {
    let cell = |capture: &Capture| match capture {
        Capture::Local(r) => regs[usize::from(*r)].clone(),
        Capture::Captured(i) => up.get(usize::from(*i)).cloned().unwrap_or_default(),
    };
    target.captures.iter().map(cell).collect()
}
