//! Instructions of statements that have a word of their own: output, what a program says about itself, errors that it
//! raises, and what agents share.

use super::ops::truthy;
use super::render;
use super::steps::{Regs, concat};
use super::trap::{Fault, raised};
use crate::bytecode::{Const, Ins, Op, Proto};
use crate::partition::Core;

/// Executes one instruction, which stands at this place of the source.
pub(super) fn step(
    regs: &mut Regs,
    ins: Ins,
    proto: &Proto,
    place: (u32, u32),
    core: &mut Core,
) -> Result<(), Fault> {
    let (a, b) = (usize::from(ins.a), usize::from(ins.b));
    match ins.op {
        Op::Raise => return Err(raised(render::display(&regs[a]))),
        Op::Invariant if !truthy(&regs[a]) => {
            return Err(raised(format!("Invariant violation: {}", proto.text(ins.d))));
        }
        Op::Require => {
            if let Some(Const::Require(name, scopes)) = proto.consts.get(ins.d as usize) {
                let site = core.site(place);
                core.gate.require(name, scopes, &site, core.host.as_mut())?;
            }
        }
        Op::Intent => {
            if ins.b == 1 || core.started {
                return Err(raised(
                    "Cannot declare a new intent after execution has started. Intent is frozen to prevent prompt \
                     injection from expanding the mandate.",
                ));
            }
            core.intent = Some(proto.text(ins.d).into());
        }
        Op::Concat => regs[a] = concat(regs, b, ins.d as usize, core)?,
        Op::Log => {
            let text = format!("[LOG] {}", render::display(&regs[a]));
            core.log(&text, place)?;
        }
        Op::Show => {
            let mut text = String::new();
            if ins.d == 1 {
                text = render::display(&regs[b]) + ": ";
            }
            render::write(&regs[a], &mut text);
            core.print(&text, "show", place)?;
        }
        Op::Operation => {
            if let Some(Const::Operation(name, parts)) = proto.consts.get(ins.d as usize) {
                let values = regs[a..=a + parts.len()].iter_mut().map(std::mem::take).collect();
                regs[a] = crate::builtins::operations::run(core, name, parts, values, place)?;
            }
        }
        Op::Share => {
            let value = regs[a].clone();
            core.share(render::display(&regs[b]), &value);
        }
        Op::Observe => regs[a] = core.observe(&render::display(&regs[b])),
        Op::Signal => {
            let value = std::mem::take(&mut regs[a]);
            core.signal(render::display(&regs[b]), &value);
        }
        _ => {}
    }
    Ok(())
}
