//! Calls.

use super::{Compiler, Place};
use crate::bytecode::{Const, Op};
use crate::synsema::ast::{Arg, Name};
use std::rc::Rc;

impl Compiler<'_> {
    /// A call whose callee is a name.
    pub(super) fn call_name(&mut self, name: &Name, args: &[Arg], dst: u8) {
        let named = args.iter().any(|a| a.name.is_some());
        if let Some(id) = self.builtin(name).filter(|_| !named) {
            let base = self.b().next as u8;
            self.args(args);
            self.at(name.at);
            self.emit(Op::CallBuiltin, base, args.len() as u8, u32::from(id) << 8 | u32::from(dst));
            return;
        }
        let base = self.temp();
        let candidates = self.candidates(name);
        let single = match candidates {
            [one] if crate::builtins::find(&name.text).is_none() => Some(*one),
            _ => None,
        };
        if let Some(one) = single.filter(|_| !named)
            && let Place::Global(slot) = self.place(one.scope, one.var)
            && slot < 1 << 23
        {
            self.args(args);
            self.at(name.at);
            self.emit(Op::CallGlobal, base, args.len() as u8, slot << 8 | u32::from(dst));
            return;
        }
        self.name_to(name, base);
        self.call_loaded(base, args, name.at, named, dst);
    }

    /// A call of a value in a register.
    pub(super) fn call_value(&mut self, callee: u8, args: &[Arg], at: u32, dst: u8) {
        let named = args.iter().any(|a| a.name.is_some());
        self.scratch(|c| {
            let base = c.temp();
            let op = if usize::from(callee) < c.b().locals { Op::Move } else { Op::Take };
            c.emit(op, base, callee, 0);
            c.call_loaded(base, args, at, named, dst);
        });
    }

    fn call_loaded(&mut self, base: u8, args: &[Arg], at: u32, named: bool, dst: u8) {
        self.args(args);
        self.at(at);
        if named {
            let names: Rc<[Rc<str>]> = args.iter().filter_map(|a| a.name.clone()).collect();
            let k = self.b().constant(Const::Names(names));
            self.emit(Op::CallNamed, base, args.len() as u8, k);
            self.emit(Op::Take, dst, base, 0);
        } else {
            self.emit(Op::Call, base, args.len() as u8, u32::from(dst));
        }
    }

    /// Evaluates arguments into the next registers.
    pub(super) fn args(&mut self, args: &[Arg]) {
        for arg in args {
            let r = self.temp();
            self.expr_to(&arg.value, r);
        }
    }
}
