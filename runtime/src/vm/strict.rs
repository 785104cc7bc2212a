//! What instructions mean in an exact partition: checked integers, two false values, containers by reference, faults
//! with a kind and a line. Each step charges before it works.

use super::frame::{Frame, Ret};
use super::machine::Machine;
use super::number;
use super::ops::Arith;
use super::shared::{Body, sizes};
use super::trap::{Fault, Raised, Stop, Trap, raised};
use super::value::{Key, Value};
use crate::builtins::{Args, Ctx, Next};
use crate::bytecode::{Op, Proto};
use crate::partition::Core;
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::rc::Rc;

/// Containers that are compared inside one another.
const COMPARE_DEPTH: usize = 128;
/// Containers that are printed inside one another.
const PRINT_DEPTH: usize = 64;
/// Bytes of a message.
const MESSAGE: usize = 512;
/// Family of builtin numbers that stand for the host's functions.
const HOSTS: u16 = 63 << 10;

/// The value that stands for a function of the host.
pub(crate) fn host_function(index: u16) -> Value {
    Value::Builtin(HOSTS | index)
}

pub(crate) fn host_index(id: u16) -> Option<usize> {
    id.checked_sub(HOSTS).map(usize::from)
}

/// As messages name a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value.body() {
        Some(Body::Tagged(..) | Body::Tag(_)) => "tagged value",
        Some(Body::Actor(_)) => "actor reference",
        _ => type_of(value),
    }
}

/// The answer of `type(v)`.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Nothing | Value::Unbound => "nil",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Float(_) => "float",
        Value::Short(_) | Value::Text(_) => "string",
        Value::Shared(shared) => match &shared.0 {
            Body::Array(_) => "array",
            Body::Record(_) => "record",
            Body::Tagged(..) | Body::Tag(_) => "tagged",
            Body::Task(_) => "task",
            Body::Actor(_) => "actor",
            // Never seen by a program.
            Body::Walk(_) => "nil",
        },
        _ => "function",
    }
}

/// Only `nil` and `false` are false.
#[inline]
pub(crate) fn truthy(value: &Value) -> bool {
    !matches!(value, Value::Nothing | Value::Unbound | Value::Bool(false))
}

// ---- arithmetic and order ----

fn sign(op: Arith) -> &'static str {
    match op {
        Arith::Add => "+",
        Arith::Sub => "-",
        Arith::Mul => "*",
        Arith::Div => "/",
        Arith::FloorDiv => "//",
        Arith::Rem => "%",
        Arith::Pow => "**",
    }
}

/// `a op b`.
pub(crate) fn arith(op: Arith, a: &Value, b: &Value) -> Result<Value, Fault> {
    let float = |v: &Value| match v {
        Value::Int(n) => Some(*n as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    };
    let (Some(x), Some(y)) = (float(a), float(b)) else {
        let strings =
            matches!(a, Value::Short(_) | Value::Text(_)) || matches!(b, Value::Short(_) | Value::Text(_));
        let hint = if op == Arith::Add && strings { "; join strings with `..`" } else { "" };
        return Err(raised(format!(
            "`{}` needs two numbers, got {} and {}{hint}",
            sign(op),
            type_name(a),
            type_name(b)
        )));
    };
    if matches!(op, Arith::Div | Arith::FloorDiv | Arith::Rem) && y == 0.0 {
        return Err(raised("division by zero"));
    }
    if let (Value::Int(p), Value::Int(q)) = (a, b)
        && op != Arith::Div
    {
        let result = match op {
            Arith::Add => p.checked_add(*q),
            Arith::Sub => p.checked_sub(*q),
            Arith::Mul => p.checked_mul(*q),
            Arith::FloorDiv => p.checked_div(*q).map(|n| n - i64::from(p % q != 0 && (*p < 0) != (*q < 0))),
            _ => Some(p.checked_rem(*q).map_or(0, |r| if r != 0 && (r < 0) != (*q < 0) { r + q } else { r })),
        };
        return result.map(Value::Int).ok_or_else(|| overflow(sign(op)));
    }
    Ok(Value::Float(match op {
        Arith::Add => x + y,
        Arith::Sub => x - y,
        Arith::Mul => x * y,
        Arith::Div => x / y,
        Arith::FloorDiv => (x / y).floor(),
        _ => {
            let r = x % y;
            if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
        }
    }))
}

fn overflow(sign: &str) -> Fault {
    raised(format!("integer overflow in `{sign}`"))
}

/// `-a`.
pub(crate) fn negate(a: &Value) -> Result<Value, Fault> {
    match a {
        Value::Int(n) => n.checked_neg().map(Value::Int).ok_or_else(|| overflow("-")),
        Value::Float(f) => Ok(Value::Float(-f)),
        other => Err(raised(format!("`-` needs a number, got {}", type_name(other)))),
    }
}

/// Order of two numbers or strings; `None` with NaN.
pub(crate) fn order(core: &mut Core, a: &Value, b: &Value, sign: &str) -> Result<Option<Ordering>, Fault> {
    Ok(match (a, b) {
        (Value::Int(x), Value::Int(y)) => Some(x.cmp(y)),
        (Value::Float(x), Value::Float(y)) => x.partial_cmp(y),
        (Value::Int(x), Value::Float(y)) => number::compare_int_float(*x, *y),
        (Value::Float(x), Value::Int(y)) => number::compare_int_float(*y, *x).map(Ordering::reverse),
        _ => match (a.as_text(), b.as_text()) {
            (Some(x), Some(y)) => {
                core.charge(x.len().min(y.len()) as u64 / 32)?;
                Some(x.cmp(y))
            }
            _ => {
                return Err(raised(format!(
                    "`{sign}` needs two numbers or two strings, got {} and {}",
                    type_name(a),
                    type_name(b)
                )));
            }
        },
    })
}

/// An ordering instruction off the fast path: whether `a < b`, or `a <= b`.
pub(crate) fn less(core: &mut Core, a: &Value, b: &Value, or_equal: bool, op: Op) -> Result<bool, Fault> {
    let sign = match op {
        Op::Lt | Op::JumpLt | Op::JumpNlt => "<",
        Op::Le | Op::JumpLe | Op::JumpNle => "<=",
        Op::Gt | Op::JumpNgt => ">",
        _ => ">=",
    };
    let result = if matches!(op, Op::Gt | Op::Ge | Op::JumpNgt | Op::JumpNge) {
        order(core, b, a, sign)?.map(Ordering::reverse)
    } else {
        order(core, a, b, sign)?
    };
    Ok(match result {
        Some(Ordering::Less) => true,
        Some(Ordering::Equal) => or_equal,
        _ => false,
    })
}

/// `a == b`.
pub(crate) fn equal(core: &mut Core, a: &Value, b: &Value) -> Result<bool, Fault> {
    equal_at(core, a, b, 0)
}

fn equal_at(core: &mut Core, a: &Value, b: &Value, depth: usize) -> Result<bool, Fault> {
    Ok(match (a, b) {
        (Value::Nothing | Value::Unbound, Value::Nothing | Value::Unbound) => true,
        (Value::Bool(x), Value::Bool(y)) => x == y,
        (Value::Int(x), Value::Int(y)) => x == y,
        (Value::Float(x), Value::Float(y)) => x == y,
        (Value::Int(x), Value::Float(y)) | (Value::Float(y), Value::Int(x)) => {
            number::compare_int_float(*x, *y) == Some(Ordering::Equal)
        }
        (Value::Builtin(x), Value::Builtin(y)) => x == y,
        (Value::Task(x), Value::Task(y)) => Rc::ptr_eq(x, y),
        (Value::Shared(x), Value::Shared(y)) => match (&x.0, &y.0) {
            (Body::Tag(p), Body::Tag(q)) => p == q,
            (Body::Tagged(p, v), Body::Tagged(q, w)) => {
                if p != q {
                    return Ok(false);
                }
                inner(core, depth)?;
                equal_at(core, v, w, depth + 1)?
            }
            (Body::Array(p), Body::Array(q)) => {
                if p.len() != q.len() {
                    return Ok(false);
                }
                for i in 0..p.len() {
                    inner(core, depth)?;
                    let (v, w) = (p.items()[i].clone(), q.items()[i].clone());
                    if !equal_at(core, &v, &w, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Body::Record(p), Body::Record(q)) => {
                if p.len() != q.len() {
                    return Ok(false);
                }
                for i in 0..p.len() {
                    inner(core, depth)?;
                    let field = p.entries().get_index(i).map(|(k, v)| (k.clone(), v.clone()));
                    let Some((key, v)) = field else { return Ok(false) };
                    read_key(core, key.as_str())?;
                    let Some(w) = q.get(key.as_str()) else { return Ok(false) };
                    if !equal_at(core, &v, &w, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Body::Task(_) | Body::Actor(_) | Body::Walk(_), _) => Rc::ptr_eq(x, y),
            _ => false,
        },
        _ => match (a.as_text(), b.as_text()) {
            (Some(x), Some(y)) => {
                core.charge(x.len().min(y.len()) as u64 / 32)?;
                x == y
            }
            _ => false,
        },
    })
}

fn inner(core: &mut Core, depth: usize) -> Result<(), Fault> {
    if depth >= COMPARE_DEPTH {
        return Err(raised("too deep to compare"));
    }
    core.charge(1)
}

// ---- rendering ----

/// A control character as it is shown.
pub(crate) fn escaped(c: char) -> String {
    match c {
        '\n' => "\\n".into(),
        '\t' => "\\t".into(),
        '\r' => "\\r".into(),
        '\0' => "\\0".into(),
        '\\' => "\\\\".into(),
        '"' => "\\\"".into(),
        c if c.is_control() => format!("\\u{{{:x}}}", c as u32),
        c => c.into(),
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if c.is_control() || c == '\\' || c == '"' {
            out.push_str(&escaped(c));
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

struct Renderer<'c> {
    /// `None`: somebody else pays.
    core: Option<&'c mut Core>,
    out: String,
    open: Vec<usize>,
    most: usize,
}

impl Renderer<'_> {
    fn pay(&mut self, fuel: u64) -> Result<(), Fault> {
        if let Some(core) = &mut self.core {
            core.charge(fuel)?;
        }
        if self.out.len() > self.most {
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        Ok(())
    }

    fn text(&mut self, value: &Value) -> Result<(), Fault> {
        let text = value.as_text().unwrap_or("");
        self.pay(text.len() as u64 / 32)?;
        self.out.push_str(text);
        Ok(())
    }

    fn value(&mut self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Nothing | Value::Unbound => self.out.push_str("nil"),
            Value::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Value::Int(n) => {
                let _ = write!(self.out, "{n}");
            }
            Value::Float(f) => self.out.push_str(&number::float(*f)),
            Value::Short(_) | Value::Text(_) => {
                let text = value.as_text().unwrap_or("");
                self.pay(text.len() as u64 / 32)?;
                quote(if self.core.is_some() { text } else { cut(text) }, &mut self.out);
            }
            Value::Shared(shared) => self.shared(shared)?,
            Value::Builtin(id) => match host_index(*id) {
                Some(index) => {
                    let name =
                        self.core.as_ref().and_then(|c| c.exact.hosts.get(index).map(|h| h.name.clone()));
                    let _ = write!(self.out, "<fn {}>", name.as_deref().unwrap_or("host"));
                }
                None => {
                    let _ = write!(self.out, "<fn {}>", crate::builtins::get(*id).name);
                }
            },
            Value::Task(task) => match &task.proto.name {
                Some(name) => {
                    let _ = write!(self.out, "<fn {name}>");
                }
                None => self.out.push_str("<fn>"),
            },
            _ => self.out.push_str("<fn>"),
        }
        Ok(())
    }

    fn shared(&mut self, shared: &Rc<super::shared::Shared>) -> Result<(), Fault> {
        let address = Rc::as_ptr(shared) as usize;
        if matches!(shared.0, Body::Array(_) | Body::Record(_) | Body::Tagged(..)) {
            if self.open.contains(&address) || self.open.len() >= PRINT_DEPTH {
                self.out.push_str("...");
                return Ok(());
            }
            self.open.push(address);
        }
        match &shared.0 {
            Body::Array(array) => {
                self.out.push('[');
                for i in 0..array.len() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.pay(1)?;
                    let item = array.items()[i].clone();
                    self.value(&item)?;
                }
                self.out.push(']');
            }
            Body::Record(table) => {
                if table.len() == 0 {
                    self.out.push_str("{}");
                    self.open.pop();
                    return Ok(());
                }
                self.out.push_str("{ ");
                for i in 0..table.len() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.pay(1)?;
                    let field = table.entries().get_index(i).map(|(k, v)| (k.clone(), v.clone()));
                    let Some((key, value)) = field else { break };
                    if is_word(key.as_str()) {
                        self.out.push_str(key.as_str());
                    } else {
                        self.out.push('[');
                        quote(key.as_str(), &mut self.out);
                        self.out.push(']');
                    }
                    self.out.push_str(" = ");
                    self.value(&value)?;
                }
                self.out.push_str(" }");
            }
            Body::Tagged(tag, value) => {
                self.out.push_str(tag);
                self.out.push('(');
                self.pay(1)?;
                self.value(value)?;
                self.out.push(')');
            }
            Body::Tag(tag) => {
                self.out.push_str(tag);
                return Ok(());
            }
            Body::Walk(_) => return Ok(()),
            Body::Task(task) => {
                let _ = write!(self.out, "<task {}>", task.number.get());
                return Ok(());
            }
            Body::Actor(actor) => {
                let _ = match actor.sandbox_name() {
                    Some(name) => write!(self.out, "<sandbox {name}>"),
                    None => write!(self.out, "<actor {}>", actor.number.get()),
                };
                return Ok(());
            }
        }
        self.open.pop();
        Ok(())
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && text != "_"
}

/// A rendering for messages: nobody pays, and it is cut.
pub(crate) fn display(value: &Value) -> String {
    let mut renderer = Renderer { core: None, out: String::new(), open: Vec::new(), most: 1 << 16 };
    let _cut = renderer.value(value);
    renderer.out
}

/// A rendering that the partition pays for, added to what is there.
pub(crate) fn render(core: &mut Core, value: &Value, into: String) -> Result<String, Fault> {
    let most = usize::try_from(core.exact.terms.memory).unwrap_or(usize::MAX);
    let mut renderer = Renderer { core: Some(core), out: into, open: Vec::new(), most };
    match value {
        Value::Short(_) | Value::Text(_) => renderer.text(value)?,
        other => renderer.value(other)?,
    }
    Ok(renderer.out)
}

/// `no arm matches …`
pub(crate) fn unmatched(core: &mut Core, value: &Value) -> Fault {
    let most = usize::try_from(core.exact.terms.memory).unwrap_or(usize::MAX).min(1 << 16);
    let mut renderer = Renderer { core: Some(core), out: String::new(), open: Vec::new(), most };
    if let Err(fault) = renderer.value(value)
        && renderer.out.len() <= most
    {
        return fault;
    }
    let mut text: String = renderer.out.chars().take(80).collect();
    if renderer.out.chars().nth(80).is_some() {
        text.push('…');
    }
    raised(format!("no arm matches {text}"))
}

// ---- fields and elements ----

fn element(array: &super::shared::Array, index: &Value) -> Result<usize, Fault> {
    let Value::Int(i) = index else {
        return Err(raised(format!("an array index is an int, got {}", type_name(index))));
    };
    let length = array.len();
    match usize::try_from(*i) {
        Ok(at) if at < length => Ok(at),
        _ => Err(raised(format!("index {i} is out of range (length {length})"))),
    }
}

/// `c[i]`
pub(crate) fn index(core: &mut Core, c: &Value, i: &Value) -> Result<Value, Fault> {
    match c.body() {
        Some(Body::Array(array)) => {
            let at = element(array, i)?;
            Ok(array.items()[at].clone())
        }
        Some(Body::Record(table)) => match i.as_text() {
            Some(key) => {
                read_key(core, key)?;
                Ok(table.get(key).unwrap_or_default())
            }
            None => Err(raised(format!("a record key is a string, got {}", type_name(i)))),
        },
        Some(Body::Actor(_)) => Err(raised(ACTOR_FIELDS)),
        _ => Err(raised(format!("can't index {}", type_name(c)))),
    }
}

const ACTOR_FIELDS: &str = "an actor reference has no fields; use `tell` or `ask`";

/// `r.name`
pub(crate) fn field(core: &mut Core, c: &Value, name: &str) -> Result<Value, Fault> {
    match c.body() {
        Some(Body::Record(table)) => {
            read_key(core, name)?;
            Ok(table.get(name).unwrap_or_default())
        }
        Some(Body::Actor(_)) => Err(raised(ACTOR_FIELDS)),
        _ => Err(raised(format!("no field `{name}` in {}", type_name(c)))),
    }
}

/// `c[i] = v`
pub(crate) fn set_index(core: &mut Core, c: &Value, i: &Value, v: Value) -> Result<(), Fault> {
    match c.body() {
        Some(Body::Array(array)) => {
            let at = element(array, i)?;
            core.suspect(c, &v);
            let old = std::mem::replace(&mut array.items_mut()[at], v);
            drop(old);
            Ok(())
        }
        Some(Body::Record(_)) => match i.as_text() {
            Some(_) => set_key(core, c, i, v, true),
            None => Err(raised(format!("a record key is a string, got {}", type_name(i)))),
        },
        Some(Body::Actor(_)) => Err(raised(ACTOR_FIELDS)),
        _ => Err(raised(format!("can't set a field of {}", type_name(c)))),
    }
}

/// Reading a key. Most are too short to cost anything.
#[inline]
pub(crate) fn read_key(core: &mut Core, key: &str) -> Result<(), Fault> {
    if key.len() >= 32 { core.charge(key.len() as u64 / 32) } else { Ok(()) }
}

/// `r.k = v`; a key made at run time is a string of the record's own, another one is shared.
pub(crate) fn set_key(core: &mut Core, c: &Value, key: &Value, v: Value, made: bool) -> Result<(), Fault> {
    let table = match c.body() {
        Some(Body::Record(table)) => table,
        Some(Body::Actor(_)) => return Err(raised(ACTOR_FIELDS)),
        _ => return Err(raised(format!("can't set a field of {}", type_name(c)))),
    };
    let text = key.as_text().unwrap_or("");
    read_key(core, text)?;
    core.suspect(c, &v);
    let mut v = v;
    {
        let mut entries = table.entries_mut();
        if let Some(slot) = entries.get_mut(&super::value::Look(text)) {
            std::mem::swap(slot, &mut v);
            drop(entries);
            drop(v);
            return Ok(());
        }
    }
    core.grow_table(table, table.len() + 1)?;
    let key = if made && matches!(key, Value::Text(_)) {
        let bytes = sizes::text(text.len());
        core.allocate(bytes)?;
        Key::counted(text, bytes)
    } else {
        Key::of(key).unwrap_or_else(|| super::shared::key(text))
    };
    table.entries_mut().insert(key, v);
    Ok(())
}

/// `a .. b .. c`: joined from the right, each join paid for.
pub(crate) fn concat(core: &mut Core, parts: &[Value]) -> Result<Value, Fault> {
    let mut texts: Vec<std::borrow::Cow<'_, str>> = Vec::with_capacity(parts.len());
    let mut good = true;
    for part in parts {
        texts.push(match part {
            Value::Int(n) => n.to_string().into(),
            Value::Float(f) => number::float(*f).into(),
            other => match other.as_text() {
                Some(text) => text.into(),
                None => {
                    good = false;
                    "".into()
                }
            },
        });
    }
    let Some(last) = parts.len().checked_sub(1) else { return Ok(Value::text("")) };
    let joins = |v: &Value| matches!(v, Value::Int(_) | Value::Float(_)) || v.as_text().is_some();
    let mut length = texts[last].len();
    let mut right = type_name(&parts[last]);
    let mut right_good = joins(&parts[last]);
    let mut read = if parts[last].as_text().is_some() { length } else { 0 };
    let mut total = Value::Nothing;
    for i in (0..last).rev() {
        let joined = good || (joins(&parts[i]) && right_good);
        if !joined {
            return Err(raised(format!(
                "`..` joins strings and numbers, got {} and {right}",
                type_name(&parts[i])
            )));
        }
        let own = if parts[i].as_text().is_some() { texts[i].len() } else { 0 };
        core.charge(own as u64 / 32 + read as u64 / 32)?;
        length += texts[i].len();
        let bytes = sizes::text(length);
        core.allocate(bytes)?;
        if i == 0 {
            let mut text = String::with_capacity(length);
            texts.iter().for_each(|part| text.push_str(part));
            total = Core::counted_text(text, bytes);
        }
        (right, right_good, read) = ("string", true, length);
    }
    Ok(total)
}

/// A template's text.
pub(crate) fn template(core: &mut Core, parts: &[Value]) -> Result<Value, Fault> {
    let mut text = String::new();
    for part in parts {
        text = render(core, part, text)?;
    }
    core.string(text)
}

// ---- loops ----

/// Checks start, end and step of a counting loop; gives the first number and how many follow.
pub(crate) fn count_bounds(bounds: &[Value]) -> Result<Option<(i64, u64)>, Fault> {
    let mut whole = [0i64; 3];
    for (i, bound) in bounds.iter().take(3).enumerate() {
        whole[i] = match bound {
            Value::Int(n) => *n,
            other => return Err(raised(format!("a loop counts with ints, got {}", type_name(other)))),
        };
    }
    let [from, to, step] = whole;
    if step == 0 {
        return Err(raised("the step of a loop can't be 0"));
    }
    if (step > 0 && from > to) || (step < 0 && from < to) {
        return Ok(None);
    }
    Ok(Some((from, from.abs_diff(to) / step.unsigned_abs())))
}

/// The place in a record, or nothing for an array; a fault if there is no looping over it.
pub(crate) fn loop_keys(value: &Value) -> Result<Value, Fault> {
    match value.body() {
        Some(Body::Array(_)) => Ok(Value::Nothing),
        Some(Body::Record(table)) => Ok(Value::Shared(table.walk())),
        _ => Err(raised(format!("can't loop over {}", type_name(value)))),
    }
}

/// The next element with its index, or key with its value.
pub(crate) fn loop_next(value: &Value, keys: &Value, at: &mut i64) -> Option<(Value, Value)> {
    match value.body() {
        Some(Body::Array(array)) => {
            let item = array.items().get(*at as usize).cloned()?;
            *at += 1;
            Some((Value::Int(*at - 1), item))
        }
        Some(Body::Record(table)) => {
            let Some(Body::Walk(walk)) = keys.body() else { return None };
            let at = walk.next()?;
            let entries = table.entries();
            entries.get_index(at).map(|(key, value)| (key.value(), value.clone()))
        }
        _ => None,
    }
}

// ---- faults ----

/// An error as programs see it.
pub(crate) struct Described {
    pub(crate) kind: Rc<str>,
    pub(crate) name: Rc<str>,
    pub(crate) line: i64,
    pub(crate) message: String,
}

/// A message of at most 512 bytes.
pub(crate) fn cut(message: &str) -> &str {
    let mut end = message.len().min(MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

pub(crate) fn line_of(core: &Core, (file, at): (u32, u32)) -> i64 {
    core.program.sources.get(file as usize).map_or(0, |source| i64::from(source.place(at).line))
}

/// The four fields of an error.
pub(crate) fn describe(core: &Core, error: &Raised) -> Described {
    let message = cut(&error.message).to_owned();
    let line = error.place.map_or(0, |place| line_of(core, place));
    let name = core.exact.terms.name.clone();
    match &error.origin {
        Some(origin) => match &origin.elsewhere {
            Some(from) => {
                Described { kind: origin.kind.clone(), name: from.name.clone(), line: from.line, message }
            }
            None => Described { kind: origin.kind.clone(), name, line, message },
        },
        None => {
            let kind = if error.denied { "not_granted" } else { "faulted" };
            Described { kind: kind.into(), name, line, message }
        }
    }
}

/// `FILE:LINE: fault: MESSAGE` and the source line.
pub(crate) fn shown(core: &Core, error: &Raised) -> String {
    let described = describe(core, error);
    let mut line = error.place.map_or(0, |place| line_of(core, place));
    let mut message = described.message;
    if let Some(from) = error.origin.as_ref().and_then(|origin| origin.elsewhere.as_ref()) {
        match from.actor {
            Some(number) => {
                line = from.line;
                let _ = write!(message, " (in actor {number})");
            }
            None => {
                message = format!(
                    "sandbox `{}` failed at its line {} ({}): {message}",
                    from.name, from.line, described.kind
                );
            }
        }
    }
    at_line(core, line, &message)
}

/// A message about a line of the program.
pub(crate) fn at_line(core: &Core, line: i64, message: &str) -> String {
    let message: String =
        message.chars().map(|c| if c.is_control() { escaped(c) } else { c.into() }).collect();
    let Some(source) = core.program.sources.first() else { return message };
    let text = source.line(u32::try_from(line).unwrap_or(0));
    format!("{}:{line}: fault: {message}\n{line:>3} | {text}", source.name)
}

/// Where a function of the program stands.
pub(crate) fn function_place(value: &Value) -> (u32, u32) {
    match value {
        Value::Task(task) => (task.proto.file, task.proto.at),
        _ => (0, 0),
    }
}

// ---- calls ----

/// `1 argument`, `2 arguments`
pub(crate) fn arguments(count: usize) -> String {
    format!("{count} argument{}", if count == 1 { "" } else { "s" })
}

fn arity(proto: &Proto, got: usize) -> Fault {
    raised(format!(
        "`{}` takes {}, got {got}",
        proto.name.as_deref().unwrap_or("fn"),
        arguments(proto.params.len())
    ))
}

/// A name of the top level is read too early.
pub(crate) fn early(name: &str) -> Fault {
    raised(format!("`{name}` is used before its `let`"))
}

/// Checks before a `spawn` what the call would check.
pub(crate) fn callable(core: &Core, callee: &Value, count: usize) -> Result<(), Fault> {
    match callee {
        Value::Task(task) if task.proto.params.len() != count => Err(arity(&task.proto, count)),
        Value::Task(_) => Ok(()),
        Value::Builtin(id) => match host_index(*id) {
            Some(index) => host_arity(core, index, count),
            None => crate::builtins::get(*id).check_count(count),
        },
        other => Err(raised(format!("{} can't be called", type_name(other)))),
    }
}

fn host_arity(core: &Core, index: usize, count: usize) -> Result<(), Fault> {
    match core.exact.hosts.get(index) {
        Some(host) if host.takes == count => Ok(()),
        Some(host) => Err(raised(format!("`{}` takes {}, got {count}", host.name, arguments(host.takes)))),
        None => Err(raised("the host's function is gone")),
    }
}

/// What is to be done next between instructions.
pub(crate) enum Step {
    Call(Value, usize, usize, Ret),
    Deliver(Ret, Value),
    Resume(Option<Value>),
    Next(Next),
}

impl Machine {
    /// Goes on until there is code to execute. A loop: builtins that call builtins need no native stack.
    pub(crate) fn settle(&mut self, step: Step) -> Result<(), Fault> {
        let mut step = step;
        loop {
            step = match step {
                Step::Call(Value::Task(task), first, count, ret) => {
                    let proto = &task.proto;
                    if proto.params.len() != count {
                        return Err(arity(proto, count));
                    }
                    self.check_depth()?;
                    self.core.charge(u64::from(proto.entry))?;
                    self.core.enter_frame(proto.frame_bytes)?;
                    self.room(first);
                    self.frames.push(Frame {
                        proto: task.index,
                        pc: 0,
                        base: first as u32,
                        layers: 0,
                        ret,
                        closure: (!task.captured.is_empty()).then(|| task.clone()),
                        native: None,
                        name: "",
                    });
                    return Ok(());
                }
                Step::Call(Value::Builtin(id), first, count, ret) => {
                    self.enter_builtin(id, first, count, ret)?
                }
                Step::Call(other, ..) => {
                    return Err(raised(format!("{} can't be called", type_name(&other))));
                }
                Step::Deliver(Ret::Reg(r), value) => {
                    if let Some(frame) = self.frames.last() {
                        let at = frame.base as usize + usize::from(r);
                        self.stack[at] = value;
                    }
                    return Ok(());
                }
                Step::Deliver(Ret::Again, _) => return Ok(()),
                Step::Deliver(Ret::Top, value) => {
                    self.result = value;
                    return Ok(());
                }
                Step::Deliver(Ret::Native, value) => Step::Resume(Some(value)),
                Step::Resume(last) => {
                    let place = self.place();
                    let Some(frame) = self.frames.last_mut() else { return Ok(()) };
                    let Some(state) = frame.native.as_mut() else { return Ok(()) };
                    let mut ctx = Ctx { core: &mut self.core, place, name: frame.name };
                    Step::Next(state.resume(&mut ctx, last)?)
                }
                Step::Next(Next::Done(value)) => Step::Deliver(self.pop_native(), value),
                Step::Next(Next::Call(callee, args)) => {
                    let base = self.frames.last().map_or(0, |f| f.base as usize);
                    let count = self.place_args(base, args);
                    Step::Call(callee, base, count, Ret::Native)
                }
            };
        }
    }

    fn check_depth(&self) -> Result<(), Fault> {
        let most = self.core.exact.terms.calls;
        if self.frames.len() >= most {
            return Err(raised(format!("call depth limit reached ({most})")));
        }
        Ok(())
    }

    fn enter_builtin(&mut self, id: u16, first: usize, count: usize, ret: Ret) -> Result<Step, Fault> {
        self.room(first);
        if let Some(index) = host_index(id) {
            let args: Vec<Value> = self.stack[first..first + count].iter_mut().map(std::mem::take).collect();
            let value = call_host(&mut self.core, index, &args)?;
            return Ok(Step::Deliver(ret, value));
        }
        let builtin = crate::builtins::get(id);
        let place = self.place();
        let mut args = Args { values: &mut self.stack[first..first + count], name: builtin.name };
        let mut ctx = Ctx { core: &mut self.core, place, name: builtin.name };
        let result = super::steps::enter_builtin(builtin, &mut ctx, &mut args);
        self.clear(first, count);
        match result? {
            super::steps::Entered::Value(value) => Ok(Step::Deliver(ret, value)),
            super::steps::Entered::State(state) => {
                self.check_depth()?;
                self.frames.push(Frame {
                    proto: 0,
                    pc: 0,
                    base: first as u32,
                    layers: 0,
                    ret,
                    closure: None,
                    native: Some(state),
                    name: builtin.name,
                });
                Ok(Step::Resume(None))
            }
        }
    }
}

/// Calls a function of the host: data in, data out, its declared cost.
fn call_host(core: &mut Core, index: usize, args: &[Value]) -> Result<Value, Fault> {
    host_arity(core, index, args.len())?;
    let hosts = core.exact.hosts.clone();
    let Some(host) = hosts.get(index) else { return Ok(Value::Nothing) };
    core.charge(2 + host.cost.0)?;
    let depth = core.exact.terms.depth;
    let mut all = Vec::with_capacity(args.len());
    let mut bytes = 0;
    for (i, arg) in args.iter().enumerate() {
        let data = core.export(arg, &format!("argument {} of `{}`", i + 1, host.name), depth)?;
        bytes += data.bytes() as u64;
        all.push(data);
    }
    core.charge(host.cost.1.saturating_mul(bytes))?;
    core.check_limits()?;
    let result = (host.run)(&all).map_err(raised)?;
    core.charge(result.work())?;
    core.import(&result)
}

impl Machine {
    /// Enters a builtin that calls back or waits.
    pub(crate) fn enter_state(
        &mut self,
        state: Box<dyn crate::builtins::Resume>,
        name: &'static str,
        base: usize,
        ret: Ret,
    ) -> Result<(), Fault> {
        self.check_depth()?;
        self.frames.push(Frame {
            proto: 0,
            pc: 0,
            base: base as u32,
            layers: 0,
            ret,
            closure: None,
            native: Some(state),
            name,
        });
        self.settle(Step::Resume(None))
    }

    /// `spawn`, `tell` and `ask`.
    pub(crate) fn concurrent(
        &mut self,
        ins: crate::bytecode::Ins,
        base: usize,
        proto: &Proto,
    ) -> Result<(), Fault> {
        let first = base + usize::from(ins.a);
        let count = usize::from(ins.b);
        let receiver = std::mem::take(&mut self.stack[first]);
        let args: Vec<Value> =
            self.stack[first + 1..first + 1 + count].iter_mut().map(std::mem::take).collect();
        if ins.op == Op::SpawnTask {
            callable(&self.core, &receiver, count)?;
            let place = self.place();
            let task = self.core.spawn_task(receiver, args, place)?;
            self.stack[first] = task;
            return Ok(());
        }
        let timeout = (ins.op == Op::Ask).then(|| std::mem::take(&mut self.stack[first + 1 + count]));
        let tag = match proto.consts.get(ins.d as usize) {
            Some(crate::bytecode::Const::Value(value)) => value.as_tagged().map(|(tag, _)| tag.clone()),
            _ => None,
        };
        let tag = tag.unwrap_or_else(|| "".into());
        let place = self.place();
        if self.core.send(&receiver, &tag, args, timeout.as_ref(), place)? {
            return self.enter_state(super::tasks::parked(), "ask", first, Ret::Reg(ins.a));
        }
        Ok(())
    }
}
