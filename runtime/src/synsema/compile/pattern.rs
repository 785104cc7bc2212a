//! `match`.

use super::{Compiler, Hole, work};
use crate::bytecode::Op;
use crate::synsema::ast::{Arm, Block, Expr, Name, Pattern, ScopeId};

impl Compiler<'_> {
    pub(super) fn match_(&mut self, subject: &Expr, arms: &[Arm], otherwise: Option<&(Block, ScopeId)>) {
        self.cost(1 + work::of(subject));
        let value = self.temp();
        self.expr_to(subject, value);
        let mut ends = Vec::new();
        for arm in arms {
            self.at(arm.at);
            let scope = arm.scope.0.get();
            self.enter(scope);
            self.cost(nodes(&arm.pattern));
            self.b().flush();
            self.fresh(scope, 0);
            let mut fails = Vec::new();
            self.scratch(|c| c.pattern(&arm.pattern, value, &mut fails));
            if let Some(guard) = &arm.guard {
                self.cost(1 + work::of(guard));
                fails.extend(self.jump_unless(guard));
            }
            self.block(&arm.body);
            self.leave(scope);
            ends.push(self.jump(Op::Jump, 0, 0));
            self.b().land_all(fails);
        }
        if let Some((body, scope)) = otherwise {
            let scope = scope.0.get();
            self.enter(scope);
            self.fresh(scope, 0);
            self.block(body);
            self.leave(scope);
        }
        self.b().land_all(ends);
        self.emit(Op::Nothing, value, 0, 0);
    }

    fn bind_copy(&mut self, name: &Name, value: u8) {
        let copy = self.temp();
        self.emit(Op::Move, copy, value, 0);
        self.bind(name, copy);
    }

    fn pattern(&mut self, pattern: &Pattern, value: u8, fails: &mut Vec<Hole>) {
        match pattern {
            Pattern::Any => {}
            Pattern::Bind(name) => self.scratch(|c| c.bind_copy(name, value)),
            Pattern::Value(e) => self.scratch(|c| {
                let right = c.operand(e);
                c.at(e.at);
                // The comparison may take what it reads from a temporary register: it gets a copy.
                let left = c.temp();
                c.emit(Op::Move, left, value, 0);
                fails.push(c.jump(Op::JumpNe, left, right));
            }),
            Pattern::List { before, rest, after } => self.scratch(|c| {
                let least = before.len() + after.len();
                c.emit(Op::MatchList, value, least.min(255) as u8, u32::from(rest.is_some()));
                fails.push(c.jump(Op::Jump, 0, 0));
                for (i, part) in before.iter().enumerate() {
                    c.part(part, fails, |c, r| {
                        c.emit(Op::ItemAt, r, value, i as u32);
                    });
                }
                if let Some(Some(name)) = rest {
                    let r = c.temp();
                    c.emit(Op::Rest, r, value, (before.len() as u32) << 16 | after.len() as u32);
                    c.bind(name, r);
                }
                for (i, part) in after.iter().enumerate() {
                    let from_end = i as i32 - after.len() as i32;
                    c.part(part, fails, |c, r| {
                        c.emit(Op::ItemAt, r, value, from_end as u32);
                    });
                }
            }),
            Pattern::Map(parts) => self.scratch(|c| {
                c.emit(Op::MatchMap, value, 0, 0);
                fails.push(c.jump(Op::Jump, 0, 0));
                for (key, part) in parts {
                    let k = c.text_const(key);
                    c.scratch(|c| {
                        let r = c.temp();
                        c.emit(Op::MatchKey, r, value, k);
                        fails.push(c.jump(Op::Jump, 0, 0));
                        c.pattern(part, r, fails);
                    });
                }
            }),
            Pattern::Variant(path, parts, at) => self.scratch(|c| {
                let r = c.operand(path);
                c.at(*at);
                c.emit(Op::MatchVariant, value, r, parts.len() as u32);
                fails.push(c.jump(Op::Jump, 0, 0));
                for (i, part) in parts.iter().enumerate() {
                    c.part(part, fails, |c, r| {
                        c.emit(Op::PartAt, r, value, i as u32);
                    });
                }
            }),
        }
    }

    fn part(&mut self, part: &Pattern, fails: &mut Vec<Hole>, load: impl FnOnce(&mut Self, u8)) {
        if matches!(part, Pattern::Any) {
            return;
        }
        self.scratch(|c| {
            let r = c.temp();
            load(c, r);
            c.pattern(part, r, fails);
        });
    }
}

/// Nodes of a pattern: what trying it costs.
fn nodes(pattern: &Pattern) -> u32 {
    match pattern {
        Pattern::Any | Pattern::Bind(_) => 1,
        Pattern::Value(e) => 1 + work::of(e),
        Pattern::List { before, after, .. } => 1 + before.iter().chain(after).map(nodes).sum::<u32>(),
        Pattern::Map(parts) => 1 + parts.iter().map(|(_, p)| nodes(p)).sum::<u32>(),
        Pattern::Variant(_, parts, _) => 1 + parts.iter().map(nodes).sum::<u32>(),
    }
}
