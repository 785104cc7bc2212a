//! Instructions of patterns: whether a value has a form, and its parts.

use super::other::Other;
use super::steps::{self, Flow, Regs, skip};
use super::trap::Fault;
use super::value::Value;
use crate::bytecode::{Const, Ins, Op, Proto};
use crate::partition::Core;

/// Executes one instruction.
pub(super) fn step(regs: &mut Regs, ins: Ins, proto: &Proto, core: &mut Core) -> Result<Flow, Fault> {
    let (a, b) = (usize::from(ins.a), usize::from(ins.b));
    match ins.op {
        Op::MatchList => {
            let length = regs[a].as_list().map(<[Value]>::len);
            return Ok(skip(length.is_some_and(|n| n == b || (ins.d == 1 && n > b))));
        }
        Op::ItemAt => {
            let items = regs[b].as_list().unwrap_or(&[]);
            let i = ins.d as i32;
            let at = if i < 0 { items.len() as i64 + i64::from(i) } else { i64::from(i) };
            regs[a] = items.get(at as usize).cloned().unwrap_or_default();
        }
        Op::Rest => {
            let rest = regs[b].as_list().map(|items| {
                let (from, end) = ((ins.d >> 16) as usize, (ins.d & 0xffff) as usize);
                items[from..items.len() - end].to_vec()
            });
            core.fuel_used(rest.as_ref().map_or(0, Vec::len) as u64);
            regs[a] = rest.map_or(Value::Nothing, Value::list);
        }
        Op::MatchMap => return Ok(skip(matches!(regs[a], Value::Map(_)))),
        Op::MatchKey => {
            let value = match &regs[b] {
                Value::Map(map) => map.get(proto.text(ins.d)).cloned(),
                _ => None,
            };
            let Some(value) = value else { return Ok(Flow::Next) };
            regs[a] = value;
            return Ok(Flow::Skip);
        }
        Op::MatchVariant => return steps::is_variant(&regs[a], &regs[b], ins.d as usize).map(skip),
        Op::PartAt => {
            let value = match &regs[b] {
                Value::Record(record) => record.values.get(ins.d as usize).cloned().unwrap_or_default(),
                _ => Value::Nothing,
            };
            regs[a] = value;
        }
        Op::Shape => {
            if let Some(Const::Shape(shape)) = proto.consts.get(ins.d as usize) {
                let shape = shape.clone();
                let is_enum = !shape.variants.is_empty();
                regs[a] = Value::other(if is_enum { Other::Enum(shape) } else { Other::Type(shape) });
            }
        }
        _ => {}
    }
    Ok(Flow::Next)
}
