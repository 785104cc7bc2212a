//! Assertions: usable anywhere.

use super::{Args, Builtin, CallArgs, Ctx, Next, Resume};
use crate::vm::compare::equal;
use crate::vm::ops::truthy;
use crate::vm::render::display;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;

pub(super) const TABLE: &[Builtin] = &[
    Builtin::new("assert", &["condition", "message"], 1, assert),
    Builtin::new("assert_eq", &["actual", "expected", "message"], 2, assert_eq),
    Builtin::new("assert_ne", &["a", "b", "message"], 2, assert_ne),
    Builtin::calls("assert_error", &["fn"], 1, assert_error),
];

fn assert(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if truthy(args.at(0)) {
        return Ok(Value::Nothing);
    }
    Err(raised(args.optional(1).map_or("assertion failed".to_owned(), display)))
}

fn prefix(args: &Args<'_>) -> String {
    args.optional(2).map_or(String::new(), |m| display(m) + ": ")
}

fn assert_eq(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if equal(args.at(0), args.at(1))? {
        return Ok(Value::Nothing);
    }
    Err(raised(format!("{}expected {}, got {}", prefix(args), display(args.at(1)), display(args.at(0)))))
}

fn assert_ne(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    if !equal(args.at(0), args.at(1))? {
        return Ok(Value::Nothing);
    }
    Err(raised(format!("{}expected values to differ, both {}", prefix(args), display(args.at(0)))))
}

struct AssertError {
    callee: Value,
    over: bool,
}

fn assert_error(_: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    match args.take(0) {
        f @ (Value::Task(_) | Value::Builtin(_)) => Ok(Box::new(AssertError { callee: f, over: false })),
        _ => Err(raised("assert_error expects a task or lambda")),
    }
}

impl Resume for AssertError {
    fn resume(&mut self, _: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault> {
        match last {
            None => Ok(Next::Call(std::mem::take(&mut self.callee), CallArgs::default())),
            Some(_) => {
                self.over = true;
                Err(raised("expected an error, but none was raised"))
            }
        }
    }

    fn caught(&mut self, _: &mut Ctx<'_>, fault: Fault) -> Result<Next, Fault> {
        // The own failure of this builtin isn't the error that it waits for.
        if self.over { Err(fault) } else { Ok(Next::Done(Value::Nothing)) }
    }
}
