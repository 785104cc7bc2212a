//! Where a value lives while it is changed in place: a register, a cell, a captured cell, a global. It is taken from there,
//! changed, and put back, also when the change fails.

use super::paths;
use super::steps::Regs;
use super::trap::Fault;
use super::value::Value;
use crate::bytecode::{Ins, Op};
use crate::partition::Core;

/// Writes a value at a path of keys below a variable; `place` is the instruction that would write the variable.
pub(super) fn set_path(
    regs: &mut Regs,
    keys: &[Value],
    value: Value,
    place: Ins,
    core: &mut Core,
    up: Option<&[Value]>,
) -> Result<(), Fault> {
    let cell = match place.op {
        Op::SetGlobal => {
            let mut root = std::mem::take(&mut core.globals[place.d as usize]);
            let result = paths::set(&mut root, keys, value, core);
            core.globals[place.d as usize] = root;
            return result;
        }
        Op::SetCell => &regs[usize::from(place.b)],
        Op::SetUp => match up.and_then(|up| up.get(usize::from(place.b))) {
            Some(cell) => cell,
            None => return Ok(()),
        },
        _ => {
            let mut root = std::mem::take(&mut regs[usize::from(place.a)]);
            let result = paths::set(&mut root, keys, value, core);
            regs[usize::from(place.a)] = root;
            return result;
        }
    };
    let Value::Cell(cell) = cell else { return Ok(()) };
    let mut root = cell.0.take();
    let result = paths::set(&mut root, keys, value, core);
    drop(cell.0.replace(root));
    result
}

/// Puts a value that was taken for an in-place change back where it came from.
pub(super) fn put_back(regs: &mut Regs, from: u8, place: Ins, core: &mut Core, up: Option<&[Value]>) {
    let value = std::mem::take(&mut regs[usize::from(from)]);
    match place.op {
        Op::SetGlobal => core.globals[place.d as usize] = value,
        Op::SetCell => {
            if let Value::Cell(cell) = &regs[usize::from(place.b)] {
                drop(cell.0.replace(value));
            }
        }
        Op::SetUp => {
            if let Some(Value::Cell(cell)) = up.and_then(|u| u.get(usize::from(place.b))) {
                drop(cell.0.replace(value));
            }
        }
        _ => regs[usize::from(place.a)] = value,
    }
}

pub(super) fn put_back_unbound(regs: &Regs, cell: u8) {
    if let Value::Cell(cell) = &regs[usize::from(cell)] {
        drop(cell.0.replace(Value::Unbound));
    }
}
