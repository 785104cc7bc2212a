//! How long fuel takes in each builtin: microseconds of 20,000 units that are spent in one of them, in both languages. A
//! turn of that many units of plain code takes some 200.
//!
//! `cargo bench -p runtime --bench prices`

#![expect(clippy::print_stdout, reason = "a benchmark talks to the terminal")]

#[path = "../tests/it/prices/table.rs"]
mod table;

use runtime::partition::boundary::Data;
use runtime::partition::host::Memory;
use runtime::partition::sandbox::Limits;
use runtime::partition::{Logs, Settings};
use runtime::scua::Mod;
use runtime::source::Source;
use runtime::synsema::{NoModules, load, program};
use std::rc::Rc;
use std::time::Instant;
use table::{SCUA, SCUA_CONSTANT, SCUA_DATA, SYNSEMA, SYNSEMA_DATA};

const FUEL: u64 = 20_000;
const ROUNDS: usize = 15;

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn scua(code: &str) -> f64 {
    let source = format!(
        "import string; import array; import record; import json; import math
fn handler(state, msg)
  if state == nil then
    {SCUA_DATA}
    return data
  end
  let s = state.s; let u = state.u; let a = state.a; let t = state.t; let p = state.p
  let r = state.r; let j = state.j; let d = state.d; let e = state.e
  while true do {code} end
end"
    );
    let once = || {
        let limits = Limits { fuel: 2_000_000, memory: 64 << 20, depth: 128, ..Limits::frame("t") };
        let mut sandbox = Mod::new(limits);
        sandbox.load(&source, &Data::Nil).expect("it loads");
        sandbox.ask("Make", &[]).expect("it makes its data");
        sandbox.refuel(FUEL * 10);
        let start = Instant::now();
        let failure = sandbox.ask("Burn", &[]);
        let took = start.elapsed().as_secs_f64() * 1e5;
        assert!(failure.is_err() || code.starts_with("let x = reply"), "{code}");
        took
    };
    median((0..ROUNDS).map(|_| once()).collect())
}

fn synsema_once(code: &str, fuel: Option<u64>) -> (f64, u64) {
    let settings = Settings { fuel, logs: Logs::WithOutput, ..Settings::trusted() };
    let loaded = load(Source::new("t.syn", code), &mut NoModules);
    let Ok(loaded) = loaded else { panic!("it doesn't load: {code}") };
    let start = Instant::now();
    let outcome = program::run(Rc::new(loaded), settings, Box::new(Memory::default()));
    (start.elapsed().as_secs_f64() * 1e5, outcome.end.fuel)
}

fn synsema(code: &str, used: u64) -> f64 {
    let looped = format!("{SYNSEMA_DATA}while true\n    {code}\n");
    let once = || synsema_once(&looped, Some(used + FUEL * 10)).0 - synsema_once(SYNSEMA_DATA, None).0;
    median((0..5).map(|_| once()).collect())
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let shown = |code: &str| wanted.is_empty() || wanted.iter().any(|word| code.contains(&**word));
    println!(
        "microseconds of {FUEL} fuel, medians, and the least that a call costs; SCUA, {} of whose builtins do no more than a step:",
        SCUA_CONSTANT.len()
    );
    println!("{:>8.0}          (an empty loop)", scua(""));
    for call in SCUA.iter().filter(|call| shown(call.code)) {
        println!("{:>8.0} {:>7}  {}", scua(&format!("let x = {}", call.code)), call.too_little, call.code);
    }
    let used = synsema_once(SYNSEMA_DATA, None).1;
    println!("Synsema:");
    println!("{:>8.0}          (an empty loop)", synsema("nothing", used));
    for call in SYNSEMA.iter().filter(|call| shown(call.code)) {
        println!(
            "{:>8.0} {:>7}  {}",
            synsema(&format!("let x be {}", call.code), used),
            call.too_little,
            call.code
        );
    }
}
