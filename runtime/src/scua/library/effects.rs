//! What reaches outside. Every use asks the gate first, each time; a failed operation is an `Error`, a refusal a fault.

use super::{files, int, net, sandbox, text};
use crate::builtins::{Args, Builtin, Ctx, Resume};
use crate::partition::Core;
use crate::vm::tasks;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use policies::capability::Capability;

pub(crate) const TABLE: &[Builtin] = &[
    Builtin::exact("sandbox.run", (1, 3), sandbox::run),
    Builtin::exact("sandbox.actor", (1, 3), sandbox::actor),
    Builtin::exact("sandbox.stop", (1, 1), sandbox::stop),
    Builtin::exact("clock.now", (0, 0), |ctx, _| {
        ctx.ask(Capability::Time, None)?;
        if ctx.core.exact.tasks.virtual_time {
            return Ok(Value::Int(ctx.core.exact.tasks.now));
        }
        Ok(Value::Int((ctx.core.host.now() * 1000.0) as i64))
    }),
    Builtin::exact("clock.ticks", (0, 0), |ctx, _| {
        ctx.ask(Capability::Time, None)?;
        if ctx.core.exact.tasks.virtual_time {
            return Ok(Value::Int(ctx.core.exact.tasks.now));
        }
        let started = ctx.core.exact.tasks.started;
        Ok(Value::Int(((ctx.core.host.now() - started) * 1000.0).max(0.0) as i64))
    }),
    Builtin::exact_calls("clock.sleep", (1, 1), sleep),
    Builtin::exact("random.int", (2, 2), |ctx, args| {
        let (low, high) = (int(args, 0)?, int(args, 1)?);
        if low > high {
            return Err(raised(format!("`random.int` needs low <= high, got {low} and {high}")));
        }
        ctx.ask(Capability::Random, None)?;
        let span = high.abs_diff(low);
        // Numbers beyond the last whole multiple are thrown away, so that each is as likely as the others.
        loop {
            let n = word(ctx);
            if span == u64::MAX {
                return Ok(Value::Int(n as i64));
            }
            let count = span + 1;
            if n < u64::MAX - u64::MAX % count {
                return Ok(Value::Int(low.wrapping_add((n % count) as i64)));
            }
        }
    }),
    Builtin::exact("random.float", (0, 0), |ctx, _| {
        ctx.ask(Capability::Random, None)?;
        Ok(Value::Float((word(ctx) >> 11) as f64 / (1u64 << 53) as f64))
    }),
    Builtin::exact("env.get", (1, 1), |ctx, args| {
        let name = text(ctx, args, 0)?.to_owned();
        ctx.ask(Capability::Env, Some(&name))?;
        match ctx.core.host.env(&name) {
            Some(value) => ctx.core.string(value),
            None => Ok(Value::Nothing),
        }
    }),
    Builtin::exact("env.names", (0, 0), |ctx, _| {
        // The names that are granted are the answer; that it was asked for is one decision.
        ctx.ask_any(Capability::Env)?;
        let mut names = Vec::new();
        for name in ctx.core.host.env_names() {
            if ctx.core.gate.covers(Capability::Env, Some(&name)) {
                names.push(ctx.core.string(name)?);
            }
        }
        ctx.core.array(names)
    }),
    Builtin::exact("env.args", (0, 0), |ctx, _| {
        let mut args = Vec::new();
        for arg in ctx.core.host.args() {
            args.push(ctx.core.string(arg)?);
        }
        ctx.core.array(args)
    }),
    Builtin::exact("fs.read", (1, 1), files::act),
    Builtin::exact("fs.list", (1, 1), files::act),
    Builtin::exact("fs.exists", (1, 1), files::act),
    Builtin::exact("fs.write", (2, 2), files::act),
    Builtin::exact("fs.append", (2, 2), files::act),
    Builtin::exact("fs.remove", (1, 1), files::act),
    Builtin::exact("fs.make_dir", (1, 1), files::act),
    Builtin::exact("net.get", (1, 1), net::act),
    Builtin::exact("net.request", (1, 1), net::act),
];

fn word(ctx: &mut Ctx<'_>) -> u64 {
    let mut bytes = [0; 8];
    ctx.core.host.random(&mut bytes);
    u64::from_le_bytes(bytes)
}

fn sleep(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Box<dyn Resume>, Fault> {
    let ms = int(args, 0)?;
    if ms < 0 {
        return Err(raised(format!("`clock.sleep` needs milliseconds from 0 up, got {ms}")));
    }
    ctx.ask(Capability::Time, None)?;
    ctx.core.sleep_task(ms);
    Ok(tasks::parked())
}

impl Core {
    /// `print`: one line, paid for by whoever rendered it.
    pub(crate) fn print_line(&mut self, text: &str, place: (u32, u32)) -> Result<(), Fault> {
        self.check_limits()?;
        if !self.gate.output_is_open() {
            self.ask(Capability::Stdout, None, "print()", place)?;
        }
        self.host.print(text);
        Ok(())
    }
}
