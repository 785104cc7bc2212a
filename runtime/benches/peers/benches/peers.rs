//! The same job by this runtime, by Lua 5.4 (mlua) and by WebAssembly (wasmtime), and what an actor's message costs.
//!
//! `cd runtime/benches/peers && cargo bench`; `--no-default-features` leaves out WebAssembly, which takes minutes to compile.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::host::Memory;
use runtime::partition::sandbox::Limits;
use runtime::scua::program::Grants;
use runtime::scua::{Live, Mod, Script};
use std::hint::black_box;
use std::time::{Duration, Instant};

const LINE: &str = "fn main(input) return input * 2 end";
#[cfg(feature = "wasmtime")]
const WASM: &str =
    "(module (func (export \"main\") (param i64) (result i64) local.get 0 i64.const 2 i64.mul))";

/// Create, run and tear down: one line that doubles its input.
fn one_line(c: &mut Criterion) {
    let mut group = c.benchmark_group("one line, created, run and torn down");
    let sandbox = Mod::new(Limits::frame("t"));
    group.bench_function("SCUA: sandbox.run, the same source each time", |b| {
        b.iter(|| sandbox.run(black_box(LINE), &Data::Int(21)));
    });
    group.bench_function("SCUA: sandbox.run, another source each time", |b| {
        let mut n = 0;
        b.iter_batched(
            || {
                n += 1;
                format!("fn main(input) return input * {n} end")
            },
            |source| sandbox.run(&source, &Data::Int(21)),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("Lua 5.4: a bare state from source", |b| {
        b.iter(|| {
            let options = mlua::LuaOptions::new();
            let lua = mlua::Lua::new_with(mlua::StdLib::NONE, options).expect("a state");
            let source = black_box("local input = ... return input * 2");
            lua.load(source).call::<i64>(21).expect("an answer")
        });
    });
    group.bench_function("Lua 5.4: a state with its library, from source", |b| {
        b.iter(|| {
            let lua = mlua::Lua::new();
            let source = black_box("local input = ... return input * 2");
            lua.load(source).call::<i64>(21).expect("an answer")
        });
    });
    #[cfg(feature = "wasmtime")]
    {
        let engine = wasmtime::Engine::default();
        let module = wasmtime::Module::new(&engine, WASM).expect("a module");
        group.bench_function("wasmtime: a compiled module instantiated and called", |b| {
            b.iter(|| {
                let mut store = wasmtime::Store::new(&engine, ());
                let instance =
                    wasmtime::Instance::new(&mut store, black_box(&module), &[]).expect("an instance");
                let main = instance.get_typed_func::<i64, i64>(&mut store, "main").expect("main");
                main.call(&mut store, 21).expect("an answer")
            });
        });
    }
    group.finish();
}

const ACTORS: &str = "
import sandbox
let adder = actor(fn(state, msg)
  match msg
    Add([a, b]) -> reply(a + b)
  end
  return state
end, nil)
let made = sandbox.actor(\"fn handler(state, msg)\\n match msg\\n Add([a, b]) -> reply(a + b)\\n end\\n return state\\n end\", nil)
let mod = payload(made)
fn asks(n) for i = 1, n do ask adder.Add(i, 2) end end
fn tells(n) for i = 1, n do tell adder.Add(i, 2) end end
fn sandboxed(n) for i = 1, n do ask mod.Add(i, 2) end end
fn loops(n) for i = 1, n do loops_in(i, 2) end end
fn loops_in(a, b) return a + b end
";

fn live() -> Live {
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    let script = Script::new("bench.scua", ACTORS).grants(Grants { granted, ..Grants::nothing() });
    let live = script.start(Box::new(Memory::default())).expect("it compiles");
    assert!(live.errors().is_empty(), "{:?}", live.errors());
    live
}

fn messages(c: &mut Criterion) {
    let mut group = c.benchmark_group("one message that adds two numbers");
    for (function, name) in [
        ("asks", "ask an actor"),
        ("tells", "tell an actor"),
        ("sandboxed", "ask a sandbox"),
        ("loops", "call a function, to compare"),
    ] {
        let mut live = live();
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                let mut spent = Duration::ZERO;
                let mut left = n;
                while left > 0 {
                    let some = left.min(100_000);
                    let start = Instant::now();
                    live.call(function, &[Data::Int(some as i64)]).expect("it runs");
                    spent += start.elapsed();
                    left -= some;
                }
                spent
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = peers;
    config = Criterion::default().sample_size(30).measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = one_line, messages
}
criterion_main!(peers);
