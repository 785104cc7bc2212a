//! The instructions of exact partitions that are off the fast path.

use super::shared::{Body, sizes};
use super::steps::{Flow, Regs, fetch, skip};
use super::strict;
use super::trap::{Fault, raised};
use super::value::Value;
use crate::bytecode::{Const, Ins, Op, Proto};
use crate::partition::Core;
use std::rc::Rc;

fn text(consts: &[Const], index: u32) -> &Value {
    match consts.get(index as usize) {
        Some(Const::Value(value)) => value,
        _ => &Value::Nothing,
    }
}

fn tag(consts: &[Const], index: u32) -> Rc<str> {
    match text(consts, index).as_tagged() {
        Some((tag, _)) => tag.clone(),
        None => "".into(),
    }
}

/// Whether two tags are the same. Most come from one place of the source.
fn same(a: &Rc<str>, b: &Rc<str>) -> bool {
    Rc::ptr_eq(a, b) || **a == **b
}

/// Executes one instruction.
pub(super) fn step(regs: &mut Regs, ins: Ins, proto: &Proto, core: &mut Core) -> Result<Flow, Fault> {
    let locals = proto.locals;
    let (a, b) = (usize::from(ins.a), usize::from(ins.b));
    match ins.op {
        Op::Denied => {
            let value = fetch(regs, ins.b, locals);
            regs[a] = Value::Bool(!strict::truthy(&value));
        }
        Op::Minus => {
            let value = fetch(regs, ins.b, locals);
            regs[a] = strict::negate(&value)?;
        }
        Op::Join | Op::Template => {
            let parts = b..b + ins.d as usize;
            let text = if ins.op == Op::Join {
                strict::concat(core, &regs[parts.clone()])?
            } else {
                strict::template(core, &regs[parts.clone()])?
            };
            regs[parts].fill(Value::Nothing);
            regs[a] = text;
        }
        Op::Array => {
            let count = ins.d as usize;
            core.allocate(sizes::ARRAY + sizes::SLOT * count)?;
            let items = regs[b..b + count].iter_mut().map(std::mem::take).collect();
            regs[a] = core.free_array(items);
        }
        Op::ArrayOf => {
            let array = core.array(Vec::new())?;
            if let Some(array) = array.as_array() {
                let count = ins.d as usize;
                core.allocate(sizes::SLOT * count)?;
                array.count_to(count);
            }
            regs[a] = array;
        }
        Op::ArrayPut => {
            let value = fetch(regs, ins.b, locals);
            if let Some(array) = regs[a].as_array() {
                array.items_mut().push(value);
            }
        }
        Op::Record => regs[a] = core.record(ins.d as usize)?,
        Op::RecordPut => {
            let value = fetch(regs, ins.b, locals);
            strict::set_key(core, &regs[a], text(&proto.consts, ins.d), value, false)?;
        }
        Op::RecordPutAt => {
            let value = fetch(regs, ins.c(), locals);
            let key = fetch(regs, ins.b, locals);
            if key.as_text().is_none() {
                return Err(raised(format!("a record key is a string, got {}", strict::type_name(&key))));
            }
            strict::set_key(core, &regs[a], &key, value, true)?;
        }
        Op::Tagged => {
            let value = fetch(regs, ins.b, locals);
            regs[a] = core.tagged(&tag(&proto.consts, ins.d), value)?;
        }
        Op::GetField => {
            let object = fetch(regs, ins.b, locals);
            regs[a] = strict::field(core, &object, text(&proto.consts, ins.d).as_text().unwrap_or(""))?;
        }
        Op::GetIndex => {
            // The fast path of arrays is the dispatch loop's.
            let index = fetch(regs, ins.c(), locals);
            let object = fetch(regs, ins.b, locals);
            regs[a] = strict::index(core, &object, &index)?;
        }
        Op::PutField => {
            let value = fetch(regs, ins.b, locals);
            let object = fetch(regs, ins.a, locals);
            strict::set_key(core, &object, text(&proto.consts, ins.d), value, false)?;
        }
        Op::PutIndex => {
            let value = fetch(regs, ins.c(), locals);
            let index = fetch(regs, ins.b, locals);
            let object = fetch(regs, ins.a, locals);
            strict::set_index(core, &object, &index, value)?;
        }
        Op::NewVariable => regs[a] = core.counted_cell(Value::Unbound)?,
        Op::Capture => {
            let value = std::mem::take(&mut regs[a]);
            regs[a] = core.counted_cell(value)?;
        }
        Op::CountPrep => match strict::count_bounds(&regs[a..a + 3])? {
            Some((first, more)) => {
                core.charge(1)?;
                regs[b] = Value::Int(first);
                // As many as fit: a loop of more than 2^63 turns never ends.
                regs[a + 3] = Value::Int(i64::try_from(more).unwrap_or(i64::MAX));
            }
            None => return Ok(Flow::Jump),
        },
        Op::WalkPrep => {
            regs[a + 2] = strict::loop_keys(&regs[a])?;
            regs[a + 1] = Value::Int(0);
            return Ok(Flow::Jump);
        }
        Op::WalkNext => {
            let mut at = match regs[a + 1] {
                Value::Int(at) => at,
                _ => 0,
            };
            match strict::loop_next(&regs[a], &regs[a + 2], &mut at) {
                Some((key, value)) => {
                    core.charge(1)?;
                    regs[a + 1] = Value::Int(at);
                    let record = !matches!(regs[a + 2], Value::Nothing);
                    if b == 1 {
                        regs[a + 3] = key;
                        regs[a + 4] = value;
                    } else {
                        regs[a + 3] = if record { key } else { value };
                    }
                    return Ok(Flow::Jump);
                }
                None => return Ok(Flow::Next),
            }
        }
        Op::TestTag => {
            let wanted = text(&proto.consts, ins.d).as_tagged();
            let found = regs[a].as_tagged();
            return Ok(skip(matches!((found, wanted), (Some((f, None)), Some((w, _))) if same(f, w))));
        }
        Op::TestTagged => {
            let inner = match (regs[b].as_tagged(), text(&proto.consts, ins.d).as_tagged()) {
                (Some((found, Some(inner))), Some((wanted, _))) if same(found, wanted) => Some(inner.clone()),
                _ => None,
            };
            let Some(inner) = inner else { return Ok(Flow::Next) };
            regs[a] = inner;
            return Ok(Flow::Skip);
        }
        Op::TestArray => {
            let least = ins.d as usize;
            let fits = regs[a].as_array().is_some_and(|array| {
                let n = array.len();
                n == least || (ins.b == 1 && n > least)
            });
            return Ok(skip(fits));
        }
        Op::Element => {
            let value = regs[b].as_array().and_then(|array| array.items().get(ins.d as usize).cloned());
            regs[a] = value.unwrap_or_default();
        }
        Op::Rest2 => {
            let from = ins.d as usize;
            let count = regs[b].as_array().map_or(0, |array| array.len().saturating_sub(from));
            core.allocate(sizes::ARRAY + sizes::SLOT * count)?;
            let rest = regs[b].as_array().map(|array| array.items()[from..].to_vec()).unwrap_or_default();
            regs[a] = core.free_array(rest);
        }
        Op::TestRecord => return Ok(skip(matches!(regs[a].body(), Some(Body::Record(_))))),
        Op::TestField => {
            let name = text(&proto.consts, ins.d).as_text().unwrap_or("");
            strict::read_key(core, name)?;
            let Some(value) = regs[b].as_table().and_then(|table| table.get(name)) else {
                return Ok(Flow::Next);
            };
            regs[a] = value;
            return Ok(Flow::Skip);
        }
        Op::NoArm => return Err(strict::unmatched(core, &regs[a].clone())),
        _ => {}
    }
    Ok(Flow::Next)
}
