//! `array`: changed in place or made anew; what calls back is a state that the machine drives.

use super::{array, clamp, int, needs};
use crate::builtins::{Args, Builtin, CallArgs, Ctx, Next, Resume};
use crate::vm::shared::sizes;
use crate::vm::strict;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use std::cmp::Ordering;

pub(crate) const TABLE: &[Builtin] = &[
    Builtin::exact("array.push", (2, 2), |ctx, args| {
        let value = args.take(1);
        let array = array(args, 0)?;
        ctx.core.grow_array(array, array.len() + 1)?;
        ctx.core.suspect(args.at(0), &value);
        array.items_mut().push(value);
        Ok(Value::Nothing)
    }),
    Builtin::exact("array.pop", (1, 1), |_, args| Ok(array(args, 0)?.items_mut().pop().unwrap_or_default())),
    Builtin::exact("array.insert", (3, 3), |ctx, args| {
        let value = args.take(2);
        let at = int(args, 1)?;
        let array = array(args, 0)?;
        let length = array.len();
        let at = usize::try_from(at).ok().filter(|at| *at <= length).ok_or_else(|| range(at, length))?;
        ctx.charge((length - at) as u64)?;
        ctx.core.grow_array(array, length + 1)?;
        ctx.core.suspect(args.at(0), &value);
        array.items_mut().insert(at, value);
        Ok(Value::Nothing)
    }),
    Builtin::exact("array.remove", (2, 2), |ctx, args| {
        let at = int(args, 1)?;
        let array = array(args, 0)?;
        let length = array.len();
        let at = usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| range(at, length))?;
        ctx.charge((length - at - 1) as u64)?;
        let item = array.items_mut().remove(at);
        Ok(item)
    }),
    Builtin::exact("array.slice", (2, 3), |ctx, args| {
        let array = array(args, 0)?;
        let from = clamp(int(args, 1)?, array.len());
        let to = if args.len() > 2 { clamp(int(args, 2)?, array.len()) } else { array.len() };
        let to = to.max(from);
        ctx.charge((to - from) as u64)?;
        ctx.core.allocate(sizes::ARRAY + sizes::SLOT * (to - from))?;
        let items = array.items()[from..to].to_vec();
        Ok(ctx.core.free_array(items))
    }),
    Builtin::exact("array.concat", (2, 2), |ctx, args| {
        let (first, second) = (array(args, 0)?, array(args, 1)?);
        let count = first.len() + second.len();
        ctx.charge(count as u64)?;
        ctx.core.allocate(sizes::ARRAY + sizes::SLOT * count)?;
        let mut items = Vec::with_capacity(count);
        items.extend_from_slice(&first.items());
        items.extend_from_slice(&second.items());
        Ok(ctx.core.free_array(items))
    }),
    Builtin::exact("array.copy", (1, 1), |ctx, args| copy(ctx, args, |_| {})),
    Builtin::exact("array.reverse", (1, 1), |ctx, args| copy(ctx, args, |items| items.reverse())),
    Builtin::exact("array.range", (2, 3), |ctx, args| {
        let (from, to) = (int(args, 0)?, int(args, 1)?);
        let step = if args.len() > 2 { int(args, 2)? } else { 1 };
        if step == 0 {
            return Err(raised("the step of a range can't be 0"));
        }
        let none = (step > 0 && from >= to) || (step < 0 && from <= to);
        let count = if none { 0 } else { (from.abs_diff(to) - 1) / step.unsigned_abs() + 1 };
        ctx.charge(count)?;
        let bytes = usize::try_from(count).ok().and_then(|n| n.checked_mul(sizes::SLOT));
        ctx.core.allocate(bytes.unwrap_or(usize::MAX / 2).saturating_add(sizes::ARRAY))?;
        let items = (0..count as i64).map(|i| Value::Int(from.wrapping_add(step.wrapping_mul(i)))).collect();
        Ok(ctx.core.free_array(items))
    }),
    Builtin::exact("array.fill", (2, 2), |ctx, args| {
        let count =
            usize::try_from(int(args, 0)?).map_err(|_| raised("`array.fill` needs a count from 0 up"))?;
        ctx.charge(count as u64)?;
        let bytes = count.checked_mul(sizes::SLOT).unwrap_or(usize::MAX / 2);
        ctx.core.allocate(bytes.saturating_add(sizes::ARRAY))?;
        let items = vec![args.take(1); count];
        Ok(ctx.core.free_array(items))
    }),
    Builtin::exact_calls("array.map", (2, 2), |ctx, args| each(ctx, args, Kind::Map)),
    Builtin::exact_calls("array.filter", (2, 2), |ctx, args| each(ctx, args, Kind::Filter)),
    Builtin::exact_calls("array.any", (2, 2), |ctx, args| each(ctx, args, Kind::Any)),
    Builtin::exact_calls("array.all", (2, 2), |ctx, args| each(ctx, args, Kind::All)),
    Builtin::exact_calls("array.find", (2, 2), |ctx, args| each(ctx, args, Kind::Find)),
    Builtin::exact_calls("array.reduce", (3, 3), |_, args| {
        array(args, 0)?;
        Ok(Box::new(Reduce { over: args.take(0), sum: Some(args.take(1)), callee: args.take(2), at: 0 }))
    }),
    Builtin::exact_calls("array.sort", (1, 2), sort),
    Builtin::exact("array.index_of", (2, 2), |ctx, args| {
        Ok(position(ctx, args)?.map_or(Value::Nothing, Value::from))
    }),
    Builtin::exact("array.contains", (2, 2), |ctx, args| Ok(position(ctx, args)?.is_some().into())),
    Builtin::exact("array.sum", (1, 1), |ctx, args| {
        let array = array(args, 0)?;
        ctx.charge(array.len() as u64)?;
        let mut sum = Value::Int(0);
        for item in array.items().iter() {
            sum = strict::arith(crate::vm::ops::Arith::Add, &sum, item)?;
        }
        Ok(sum)
    }),
    Builtin::exact("array.join", (2, 2), |ctx, args| {
        let separator = super::text(ctx, args, 1)?;
        let array = array(args, 0)?;
        ctx.charge(array.len() as u64)?;
        let items = array.items();
        let mut length = separator.len() * items.len().saturating_sub(1);
        for (i, item) in items.iter().enumerate() {
            let Some((own, read)) = strict::joined(item) else {
                return Err(raised(format!(
                    "`array.join` joins strings and numbers, got {} at index {i}",
                    strict::type_name(item)
                )));
            };
            ctx.charge(read as u64 / 32)?;
            length += own;
        }
        let bytes = super::strings::room(ctx, Some(length))?;
        let mut text = String::with_capacity(length);
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                text.push_str(separator);
            }
            strict::push(item, &mut text);
        }
        Ok(crate::partition::Core::counted_text(text, bytes))
    }),
];

fn range(at: i64, length: usize) -> Fault {
    raised(format!("index {at} is out of range (length {length})"))
}

fn copy(ctx: &mut Ctx<'_>, args: &Args<'_>, change: fn(&mut Vec<Value>)) -> Result<Value, Fault> {
    let array = array(args, 0)?;
    ctx.charge(array.len() as u64)?;
    ctx.core.allocate(sizes::ARRAY + sizes::SLOT * array.len())?;
    let mut items = array.items().clone();
    change(&mut items);
    Ok(ctx.core.free_array(items))
}

fn position(ctx: &mut Ctx<'_>, args: &Args<'_>) -> Result<Option<usize>, Fault> {
    let array = array(args, 0)?;
    for i in 0..array.len() {
        ctx.charge(1)?;
        let item = array.items()[i].clone();
        if strict::equal(ctx.core, &item, args.at(1))? {
            return Ok(Some(i));
        }
    }
    Ok(None)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    Filter,
    Any,
    All,
    Find,
}

/// One call for each element.
struct Each {
    kind: Kind,
    over: Value,
    callee: Value,
    at: usize,
    current: Value,
    /// What `map` and `filter` make.
    out: Value,
}

fn each(ctx: &mut Ctx<'_>, args: &mut Args<'_>, kind: Kind) -> Result<Box<dyn Resume>, Fault> {
    let count = array(args, 0)?.len();
    let out = match kind {
        Kind::Map => {
            ctx.core.allocate(sizes::ARRAY + sizes::SLOT * count)?;
            let out = ctx.core.free_array(Vec::with_capacity(count));
            if let Some(array) = out.as_array() {
                array.count_to(count);
            }
            out
        }
        Kind::Filter => ctx.core.array(Vec::new())?,
        _ => Value::Nothing,
    };
    Ok(Box::new(Each { kind, over: args.take(0), callee: args.take(1), at: 0, current: Value::Nothing, out }))
}

impl Resume for Each {
    fn callee(&self) -> Value {
        self.callee.clone()
    }

    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        let again = last.is_some();
        if let Some(value) = last {
            let kept = match (self.kind, strict::truthy(&value)) {
                (Kind::Map, _) => Some(value),
                (Kind::Filter, true) => Some(std::mem::take(&mut self.current)),
                (Kind::Any, true) => return Ok(Next::Done(true.into())),
                (Kind::All, false) => return Ok(Next::Done(false.into())),
                (Kind::Find, true) => return Ok(Next::Done(std::mem::take(&mut self.current))),
                _ => None,
            };
            if let (Some(kept), Some(out)) = (kept, self.out.as_array()) {
                ctx.core.grow_array(out, out.len() + 1)?;
                out.items_mut().push(kept);
            }
        }
        match element(&self.over, self.at) {
            Some(item) => {
                ctx.charge(1)?;
                self.at += 1;
                if matches!(self.kind, Kind::Filter | Kind::Find) {
                    self.current = item.clone();
                }
                let args = CallArgs::from([item]);
                Ok(if again { Next::Again(args) } else { Next::Call(self.callee.clone(), args) })
            }
            None => Ok(Next::Done(match self.kind {
                Kind::Map | Kind::Filter => std::mem::take(&mut self.out),
                Kind::Any => false.into(),
                Kind::All => true.into(),
                Kind::Find => Value::Nothing,
            })),
        }
    }
}

fn element(array: &Value, at: usize) -> Option<Value> {
    match array {
        Value::Shared(shared) => shared.element(at as i64),
        _ => None,
    }
}

struct Reduce {
    over: Value,
    sum: Option<Value>,
    callee: Value,
    at: usize,
}

impl Resume for Reduce {
    fn callee(&self) -> Value {
        self.callee.clone()
    }

    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        let again = last.is_some();
        let sum = last.or_else(|| self.sum.take()).unwrap_or_default();
        match element(&self.over, self.at) {
            Some(item) => {
                ctx.charge(1)?;
                self.at += 1;
                let args = CallArgs::from([sum, item]);
                Ok(if again { Next::Again(args) } else { Next::Call(self.callee.clone(), args) })
            }
            None => Ok(Next::Done(sum)),
        }
    }
}

/// A top-down merge sort, split at n // 2, one question at a time.
struct Sort {
    items: Vec<Value>,
    spare: Vec<Value>,
    less: Option<Value>,
    /// Ranges still to be merged, last first.
    merges: Vec<(usize, usize, usize)>,
    /// The merge that is going on: left, right, end of each.
    at: Option<(usize, usize, usize, usize, usize)>,
    /// Counts the second array while it lives.
    _garbage: Value,
}

fn sort(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let less = (args.len() > 1).then(|| args.take(1));
    if let Some(less) = &less
        && !matches!(less, Value::Task(_) | Value::Builtin(_))
    {
        return Err(needs(args, 1, "a function"));
    }
    let array = array(args, 0)?;
    let n = array.len();
    ctx.charge(n as u64 * u64::from(usize::BITS - n.leading_zeros()))?;
    let bytes = sizes::ARRAY + sizes::SLOT * n;
    ctx.core.allocate(bytes)?;
    ctx.core.allocate(bytes)?;
    let garbage = ctx.core.free_array(Vec::new());
    if let Some(array) = garbage.as_array() {
        array.count_to(n);
    }
    let mut merges = Vec::new();
    let mut todo = vec![(0, n)];
    while let Some((from, to)) = todo.pop() {
        if to - from > 1 {
            let middle = from + (to - from) / 2;
            merges.push((from, middle, to));
            todo.push((from, middle));
            todo.push((middle, to));
        }
    }
    let items = array.items().clone();
    Ok(Box::new(Sort { items, spare: Vec::new(), less, merges, at: None, _garbage: garbage }))
}

impl Resume for Sort {
    fn callee(&self) -> Value {
        self.less.clone().unwrap_or_default()
    }

    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        let again = last.is_some();
        let mut answer = last.map(|value| strict::truthy(&value));
        loop {
            let Some((from, mut left, middle, mut right, to)) = self.at else {
                let Some((from, middle, to)) = self.merges.pop() else {
                    let items = std::mem::take(&mut self.items);
                    return Ok(Next::Done(ctx.core.free_array(items)));
                };
                self.spare.clear();
                self.at = Some((from, from, middle, middle, to));
                continue;
            };
            if left < middle && right < to {
                let less = match answer.take() {
                    Some(less) => less,
                    None => match &self.less {
                        Some(callee) => {
                            let pair = [self.items[right].clone(), self.items[left].clone()];
                            let args = CallArgs::from(pair);
                            return Ok(if again {
                                Next::Again(args)
                            } else {
                                Next::Call(callee.clone(), args)
                            });
                        }
                        None => {
                            let (r, l) = (&self.items[right], &self.items[left]);
                            strict::order(ctx.core, r, l, "<")? == Some(Ordering::Less)
                        }
                    },
                };
                let from = if less { &mut right } else { &mut left };
                self.spare.push(std::mem::take(&mut self.items[*from]));
                *from += 1;
                self.at = self.at.map(|(start, _, middle, _, to)| (start, left, middle, right, to));
                continue;
            }
            for i in (left..middle).chain(right..to) {
                self.spare.push(std::mem::take(&mut self.items[i]));
            }
            for (i, item) in self.spare.drain(..).enumerate() {
                self.items[from + i] = item;
            }
            self.at = None;
        }
    }
}
