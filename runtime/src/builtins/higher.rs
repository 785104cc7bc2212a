//! Higher order: builtins that call back into the program.
//!
//! Callable and list may come in either order; each is a state that the machine drives.

use super::list::{Seen, sort_values};
use super::{Args, Builtin, CallArgs, Ctx, Next, Resume};
use crate::partition::Core;
use crate::vm::compare::equal;
use crate::vm::ops::truthy;
use crate::vm::other::Other;
use crate::vm::render::type_name;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{List, Value};
use std::rc::Rc;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::calls("apply", &["fn", "list"], 2, |_, a| each(a, "apply", Kind::Apply)),
    Builtin::calls("parallel_map", &["fn", "list", "limit"], 2, |_, a| each(a, "parallel_map", Kind::Apply)),
    Builtin::calls("where", &["list", "pred"], 2, |_, a| each(a, "where", Kind::Where)),
    Builtin::calls("find_first", &["list", "pred"], 2, |_, a| each(a, "find_first", Kind::FindFirst)),
    Builtin::calls("every", &["list", "pred"], 2, |_, a| each(a, "every", Kind::Every)),
    Builtin::calls("some", &["list", "pred"], 2, |_, a| each(a, "some", Kind::Some)),
    Builtin::calls("count_where", &["list", "pred"], 2, |_, a| each(a, "count_where", Kind::Count)),
    Builtin::calls("transform", &["list", "fn", "pred"], 2, transform),
    Builtin::calls("reduce", &["list", "fn", "init"], 2, reduce),
    Builtin::calls("sort_by", &["list", "key", "desc"], 2, sort_by).named(3),
    Builtin::calls("group_by", &["list", "key"], 2, group_by),
    Builtin::calls("index_of", &["collection", "value"], 2, index_of),
    Builtin::new("collect", &["list", "name"], 2, collect),
    Builtin::calls("zip_with", &["a", "b", "fn"], 3, zip_with),
    Builtin::calls("call_tool", &["task", "arg"], 1, call_tool),
];

pub(super) fn callable(v: &Value) -> bool {
    matches!(v, Value::Task(_) | Value::Builtin(_))
        || matches!(v.as_other(), Some(Other::Type(_) | Other::Maker(..)))
}

/// Takes the callable and the list out of the first two arguments, whichever comes first.
fn pair(args: &mut Args<'_>) -> Result<(Value, Rc<List>), Fault> {
    let name = args.name;
    let (a, b) = (args.take(0), args.take(1));
    match (callable(&a), callable(&b)) {
        (true, true) => Err(raised(format!("{name} got two tasks — {name}(fn, list) or {name}(list, fn)"))),
        (true, false) => match b {
            Value::List(list) => Ok((a, list)),
            other => Err(raised(format!("{name} expects a list, got {}", type_name(&other)))),
        },
        (false, true) => match a {
            Value::List(list) => Ok((b, list)),
            other => Err(raised(format!("{name} expects a list, got {}", type_name(&other)))),
        },
        (false, false) => match (&a, &b) {
            (Value::List(_), Value::List(_)) => {
                Err(raised(format!("{name} got two lists — {name}(fn, list) or {name}(list, fn)")))
            }
            (Value::List(_), other) => {
                Err(raised(format!("{name} expects a task, got {}", type_name(other))))
            }
            (other, _) => Err(raised(format!("{name} expects a list, got {}", type_name(other)))),
        },
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Apply,
    Where,
    FindFirst,
    Every,
    Some,
    Count,
}

/// One call for each item, in order.
struct Each {
    kind: Kind,
    callee: Value,
    list: Rc<List>,
    at: usize,
    out: Vec<Value>,
    count: i64,
}

fn each(args: &mut Args<'_>, _name: &str, kind: Kind) -> Result<Box<dyn Resume>, Fault> {
    let (callee, list) = pair(args)?;
    let room = if kind == Kind::Apply { list.items().len() } else { 0 };
    Ok(Box::new(Each { kind, callee, list, at: 0, out: Vec::with_capacity(room), count: 0 }))
}

impl Resume for Each {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        if let Some(result) = last {
            let item = self.list.items().get(self.at - 1);
            match self.kind {
                Kind::Apply => self.out.push(result),
                Kind::Where => {
                    if truthy(&result)
                        && let Some(item) = item
                    {
                        self.out.push(item.clone());
                    }
                }
                Kind::FindFirst => {
                    if truthy(&result) {
                        return Ok(Next::Done(item.cloned().unwrap_or_default()));
                    }
                }
                Kind::Every => {
                    if !truthy(&result) {
                        return Ok(Next::Done(Value::Bool(false)));
                    }
                }
                Kind::Some => {
                    if truthy(&result) {
                        return Ok(Next::Done(Value::Bool(true)));
                    }
                }
                Kind::Count => self.count += i64::from(truthy(&result)),
            }
        }
        match self.list.items().get(self.at) {
            Some(item) => {
                self.at += 1;
                ctx.core.fuel_used(1);
                Ok(Next::Call(self.callee.clone(), [item.clone()].into()))
            }
            None => Ok(Next::Done(match self.kind {
                Kind::Apply | Kind::Where => Value::list(std::mem::take(&mut self.out)),
                Kind::FindFirst => Value::Nothing,
                Kind::Every => Value::Bool(true),
                Kind::Some => Value::Bool(false),
                Kind::Count => Value::Int(self.count),
            })),
        }
    }
}

/// `transform(list, fn, pred?)`.
struct Transform {
    callee: Value,
    pred: Option<Value>,
    list: Rc<List>,
    at: usize,
    testing: bool,
    out: Vec<Value>,
}

fn transform(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let pred = args.optional(2).cloned();
    if let Some(pred) = &pred
        && !callable(pred)
    {
        return Err(raised(format!("transform expects a task as the predicate, got {}", type_name(pred))));
    }
    let (callee, list) = pair(args)?;
    Ok(Box::new(Transform { callee, pred, list, at: 0, testing: false, out: Vec::new() }))
}

impl Resume for Transform {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        let mut last = last;
        loop {
            let item = self.list.items().get(self.at).cloned();
            match (last.take(), item) {
                (Some(yes), Some(item)) if self.testing => {
                    self.testing = false;
                    if truthy(&yes) {
                        return Ok(Next::Call(self.callee.clone(), [item].into()));
                    }
                    self.out.push(item);
                    self.at += 1;
                }
                (Some(result), _) => {
                    self.out.push(result);
                    self.at += 1;
                }
                (None, Some(item)) => {
                    ctx.core.fuel_used(1);
                    if let Some(pred) = &self.pred {
                        self.testing = true;
                        return Ok(Next::Call(pred.clone(), [item].into()));
                    }
                    return Ok(Next::Call(self.callee.clone(), [item].into()));
                }
                (None, None) => return Ok(Next::Done(Value::list(std::mem::take(&mut self.out)))),
            }
        }
    }
}

/// `reduce(list, fn(acc, x), init?)`.
struct Reduce {
    callee: Value,
    list: Rc<List>,
    at: usize,
    acc: Option<Value>,
}

fn reduce(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let init = args.given(2).cloned();
    let (callee, list) = pair(args)?;
    let (acc, at) = match (init, list.items().first()) {
        (Some(init), _) => (init, 0),
        (None, Some(first)) => (first.clone(), 1),
        (None, None) => {
            return Err(raised("reduce of an empty list needs an initial value: reduce(list, fn, init)"));
        }
    };
    Ok(Box::new(Reduce { callee, list, at, acc: Some(acc) }))
}

impl Resume for Reduce {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        if last.is_some() {
            self.acc = last;
        }
        let acc = self.acc.take().unwrap_or_default();
        match self.list.items().get(self.at) {
            Some(item) => {
                self.at += 1;
                ctx.core.fuel_used(1);
                Ok(Next::Call(self.callee.clone(), [acc, item.clone()].into()))
            }
            None => Ok(Next::Done(acc)),
        }
    }
}

/// The keys of all items, by calls or by a column's name; then one step that uses them.
struct Keyed {
    callee: Value,
    list: Rc<List>,
    at: usize,
    keys: Vec<Value>,
    finish: Finish,
}

enum Finish {
    Sort { descending: bool },
    Group,
}

pub(super) fn property(item: &Value, name: &str, core: &Core) -> Result<Value, Fault> {
    match item {
        Value::Map(map) => match map.get(name) {
            Some(value) => Ok(value.clone()),
            None => Err(raised(format!("Map has no key '{name}'"))),
        },
        other => crate::vm::field_of(other, name, core),
    }
}

fn keyed(ctx: &mut Ctx<'_>, args: &mut Args<'_>, finish: Finish) -> Result<Box<dyn Resume>, Fault> {
    let column = args.at(1).as_text().map(str::to_owned);
    if let Some(name) = column {
        let Value::List(list) = args.take(0) else { return Err(args.wrong(0, "a list")) };
        ctx.charge(list.items().len() as u64)?;
        let keys =
            list.items().iter().map(|i| property(i, &name, ctx.core)).collect::<Result<Vec<_>, _>>()?;
        let at = list.items().len();
        return Ok(Box::new(Keyed { callee: Value::Nothing, list, at, keys, finish }));
    }
    let (callee, list) = pair(args)?;
    Ok(Box::new(Keyed { callee, list, at: 0, keys: Vec::new(), finish }))
}

fn sort_by(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let descending = args.flag(2);
    keyed(ctx, args, Finish::Sort { descending })
}

fn group_by(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    keyed(ctx, args, Finish::Group)
}

impl Resume for Keyed {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        self.keys.extend(last);
        if let Some(item) = self.list.items().get(self.at) {
            self.at += 1;
            ctx.core.fuel_used(1);
            return Ok(Next::Call(self.callee.clone(), [item.clone()].into()));
        }
        let keys = std::mem::take(&mut self.keys);
        let n = keys.len() as u64;
        match self.finish {
            Finish::Sort { descending } => {
                ctx.charge(n * u64::from(64 - (n + 1).leading_zeros()))?;
                let mut pairs: Vec<(Value, Value)> =
                    keys.into_iter().zip(self.list.items().iter().cloned()).collect();
                sort_values(&mut pairs, |p| &p.0, descending)?;
                Ok(Next::Done(Value::list(pairs.into_iter().map(|(_, v)| v).collect())))
            }
            Finish::Group => {
                ctx.charge(n)?;
                let mut seen = Seen::new();
                let mut kinds: Vec<Value> = Vec::new();
                let mut groups: Vec<Vec<Value>> = Vec::new();
                for (key, item) in keys.into_iter().zip(self.list.items()) {
                    match seen.find(&key, &kinds)? {
                        Some(i) => groups[i].push(item.clone()),
                        None => {
                            kinds.push(key);
                            groups.push(vec![item.clone()]);
                        }
                    }
                }
                Ok(Next::Done(Value::list(
                    kinds
                        .into_iter()
                        .zip(groups)
                        .map(|(k, g)| Value::record([("key", k), ("items", Value::list(g))]))
                        .collect(),
                )))
            }
        }
    }
}

/// `index_of(list, value or pred)`, `index_of(text, piece)`.
struct IndexOf {
    callee: Value,
    list: Rc<List>,
    at: usize,
    found: Option<Value>,
}

fn index_of(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let empty = || Rc::new(List::new(Vec::new()));
    let done = |found: Value| {
        let state = IndexOf { callee: Value::Nothing, list: empty(), at: 0, found: Some(found) };
        Ok(Box::new(state) as Box<dyn Resume>)
    };
    if let Some(text) = args.at(0).as_text() {
        let piece = args.text(1)?;
        ctx.charge(text.len() as u64 / 32)?;
        let found = crate::vm::search::find(text, piece).map(|at| text[..at].chars().count());
        return done(found.map_or(Value::Nothing, Value::from));
    }
    if callable(args.at(1)) || callable(args.at(0)) {
        let (callee, list) = pair(args)?;
        return Ok(Box::new(IndexOf { callee, list, at: 0, found: None }));
    }
    ctx.charge(args.list(0)?.len() as u64)?;
    for (i, item) in args.list(0)?.iter().enumerate() {
        if equal(item, args.at(1))? {
            return done(Value::from(i));
        }
    }
    done(Value::Nothing)
}

impl Resume for IndexOf {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        if let Some(found) = self.found.take() {
            return Ok(Next::Done(found));
        }
        if last.is_some_and(|v| truthy(&v)) {
            return Ok(Next::Done(Value::from(self.at - 1)));
        }
        match self.list.items().get(self.at) {
            Some(item) => {
                self.at += 1;
                ctx.core.fuel_used(1);
                Ok(Next::Call(self.callee.clone(), [item.clone()].into()))
            }
            None => Ok(Next::Done(Value::Nothing)),
        }
    }
}

fn collect(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let name = args.text(1)?;
    let out = args.list(0)?.iter().map(|i| property(i, name, ctx.core)).collect::<Result<Vec<_>, _>>()?;
    Ok(Value::list(out))
}

/// `zip_with(a, b, fn)`.
struct ZipWith {
    callee: Value,
    a: Rc<List>,
    b: Rc<List>,
    at: usize,
    out: Vec<Value>,
}

fn zip_with(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    // The combiner may come first or last.
    let mut values = [args.take(0), args.take(1), args.take(2)];
    if callable(&values[0]) && !callable(&values[2]) {
        values.rotate_left(1);
    }
    let [a, b, callee] = values;
    if !callable(&callee) {
        return Err(raised(format!("zip_with expects a task as the combiner, got {}", type_name(&callee))));
    }
    match (a, b) {
        (Value::List(a), Value::List(b)) => Ok(Box::new(ZipWith { callee, a, b, at: 0, out: Vec::new() })),
        (Value::List(_), other) | (other, _) => {
            Err(raised(format!("zip_with expects two lists, got {}", type_name(&other))))
        }
    }
}

impl Resume for ZipWith {
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        self.out.extend(last);
        match (self.a.items().get(self.at), self.b.items().get(self.at)) {
            (Some(x), Some(y)) => {
                self.at += 1;
                ctx.core.fuel_used(1);
                Ok(Next::Call(self.callee.clone(), [x.clone(), y.clone()].into()))
            }
            _ => Ok(Next::Done(Value::list(std::mem::take(&mut self.out)))),
        }
    }
}

/// `call_tool(task, arg)`: declared ∩ held.
struct CallTool {
    callee: Value,
    argument: Option<Value>,
    layers: usize,
}

fn call_tool(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let callee = args.take(0);
    let Value::Task(task) = &callee else {
        let got = match &callee {
            Value::Builtin(id) => format!("the builtin {}", super::get(*id).name),
            other => type_name(other).to_owned(),
        };
        return Err(raised(format!("call_tool expects a task of the program, got {got}")));
    };
    let layers = ctx.core.gate.depth();
    let name = task.proto.name.clone().unwrap_or_else(|| "<lambda>".into());
    ctx.core.gate.enter_tool(&name, &task.proto.requires);
    let argument = if args.len() > 1 { Some(args.take(1)) } else { None };
    Ok(Box::new(CallTool { callee, argument, layers }))
}

impl Resume for CallTool {
    fn resume(&mut self, _: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        match last {
            None => {
                let args = match self.argument.take() {
                    Some(argument) => [argument].into(),
                    None => CallArgs::default(),
                };
                Ok(Next::Call(std::mem::take(&mut self.callee), args))
            }
            Some(result) => Ok(Next::Done(result)),
        }
    }

    fn leave(&mut self, core: &mut Core) {
        core.gate.truncate(self.layers);
    }
}
