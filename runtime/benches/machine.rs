//! Loops and calls, with and without a fuel limit; loading; the smallest program.
//!
//! `cargo bench -p runtime`

use criterion::{Criterion, criterion_group, criterion_main};
use runtime::partition::Settings;
use runtime::partition::host::Memory;
use runtime::source::Source;
use runtime::synsema::{self, NoModules, program};
use std::rc::Rc;

fn run(text: &str, fuel: Option<u64>) -> u64 {
    let Ok(loaded) = synsema::load(Source::new("bench.syn", text), &mut NoModules) else { return 0 };
    let mut settings = Settings::trusted();
    settings.fuel = fuel;
    program::run(Rc::new(loaded), settings, Box::new(Memory::default())).end.fuel
}

fn benches(c: &mut Criterion) {
    let fib = include_str!("programs/fib.syn").replace("30", "20");
    let loops = include_str!("programs/loops.syn").replace("2000", "200");
    c.bench_function("fib(20), no limit", |b| b.iter(|| run(&fib, None)));
    c.bench_function("fib(20), fuel limit", |b| b.iter(|| run(&fib, Some(u64::MAX / 8))));
    c.bench_function("40,000 loop steps, no limit", |b| b.iter(|| run(&loops, None)));
    c.bench_function("40,000 loop steps, fuel limit", |b| b.iter(|| run(&loops, Some(u64::MAX / 8))));
    c.bench_function("create, run and tear down one line", |b| b.iter(|| run("let x be 21 * 2\n", None)));
    let large: String = (0..1000).map(|i| format!("let x{i} be [1, 2, \"three\"]\n")).collect();
    c.bench_function("load 1,000 lines", |b| {
        b.iter(|| synsema::check(Source::new("bench.syn", &large), &mut NoModules).is_ok());
    });
}

criterion_group!(machine, benches);
criterion_main!(machine);
