//! Where a value lives while it is changed in place: a register, a cell, a captured cell, a global. It is taken from there,
//! changed, and put back, also when the change fails.

use super::paths;
use super::steps::{self, Regs};
use super::trap::Fault;
use super::value::Value;
use crate::bytecode::{Ins, Op};
use crate::partition::Core;

/// Lends the root of a path out; `place` is the instruction that would write the variable.
fn at_root<T>(
    regs: &mut Regs,
    place: Ins,
    core: &mut Core,
    up: Option<&[Value]>,
    inner: impl FnOnce(&mut Value, &Regs, &mut Core) -> T,
) -> Option<T> {
    let cell = match place.op {
        Op::SetGlobal => {
            let mut root = std::mem::take(&mut core.globals[place.d as usize]);
            let result = inner(&mut root, regs, core);
            core.globals[place.d as usize] = root;
            return Some(result);
        }
        Op::SetCell => &regs[usize::from(place.b)],
        Op::SetUp => up.and_then(|up| up.get(usize::from(place.b)))?,
        _ => {
            let mut root = std::mem::take(&mut regs[usize::from(place.a)]);
            let result = inner(&mut root, regs, core);
            regs[usize::from(place.a)] = root;
            return Some(result);
        }
    };
    let Value::Cell(cell) = cell else { return None };
    let mut root = cell.0.take();
    let result = inner(&mut root, regs, core);
    drop(cell.0.replace(root));
    Some(result)
}

/// The registers that hold the keys of a `SetPath` or a `TakePath`.
fn keys(ins: Ins) -> std::ops::Range<usize> {
    let first = ins.d as usize & 255;
    first..first + usize::from(ins.b)
}

/// Writes a value at a path of keys below a variable.
pub(super) fn set_path(
    regs: &mut Regs,
    ins: Ins,
    place: Ins,
    core: &mut Core,
    up: Option<&[Value]>,
) -> Result<(), Fault> {
    let value = std::mem::take(&mut regs[usize::from(ins.a)]);
    let result =
        at_root(regs, place, core, up, |root, regs, core| paths::set(root, &regs[keys(ins)], value, core));
    regs[keys(ins)].fill(Value::Nothing);
    result.unwrap_or(Ok(()))
}

/// `TakePath`: if what `R[a]` holds was read at the path and nobody else has it or a part of the path, the path
/// lets go of it. For a sum only if that can't fail.
pub(super) fn take_path(regs: &mut Regs, ins: Ins, place: Ins, core: &mut Core, up: Option<&[Value]>) {
    let held = &regs[usize::from(ins.a)];
    if !matches!(held, Value::List(_) | Value::Map(_) | Value::Text(_)) {
        return;
    }
    let (first, count) = ((ins.d >> 8) as usize & 255, (ins.d >> 16) as usize);
    if !regs[first..first + count].iter().all(|term| steps::sums(held, term)) {
        return;
    }
    let mark = if count > 0 { Value::Nothing } else { Value::Unbound };
    at_root(regs, place, core, up, |root, regs, core| {
        paths::let_go(root, &regs[keys(ins)], &regs[usize::from(ins.a)], mark, core)
    });
}

/// Puts a value that was taken for an in-place change back where it came from: to the place of the instruction that
/// would write the result, or to its path, whose root's place is the one after it.
pub(super) fn put_back(
    regs: &mut Regs,
    from: u8,
    (place, root): (Ins, Option<&Ins>),
    core: &mut Core,
    up: Option<&[Value]>,
) {
    let value = std::mem::take(&mut regs[usize::from(from)]);
    match place.op {
        Op::SetPath => {
            if let Some(root) = root {
                at_root(regs, *root, core, up, |root, regs, core| {
                    paths::give_back(root, &regs[keys(place)], value, core);
                });
                regs[keys(place)].fill(Value::Nothing);
            }
        }
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
