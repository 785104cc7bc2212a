//! Figures that are no durations: bytes of actors, and how late a limit bites.
//!
//! `cd runtime/benches/peers && cargo bench --bench figures`

use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::host::Memory;
use runtime::partition::sandbox::Limits;
use runtime::scua::program::Grants;
use runtime::scua::{Live, Mod, Script};
use std::time::Instant;

/// Resident bytes of this process.
fn resident() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok()).unwrap_or(0) * 4096
}

fn live(source: &str) -> Live {
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    let script = Script::new("figures.scua", source).grants(Grants { granted, ..Grants::nothing() });
    let live = script.start(Box::new(Memory::default())).expect("it compiles");
    assert!(live.errors().is_empty(), "{:?}", live.errors());
    live
}

const ACTORS: &str = "import array; import sandbox
let all = []
fn handle(state, msg) reply(state); return state + 1 end
fn make(n) for i = 1, n do array.push(all, actor(handle, i)) end end
fn churn(n) for i = 1, n do ask actor(handle, i).Get() end end
fn churn_sandboxes(n)
  for i = 1, n do sandbox.stop(payload(sandbox.actor(\"fn handler(s, m) return s end\", i))) end
end";

fn actors() {
    let mut program = live(ACTORS);
    let before = resident();
    program.call("make", &[Data::Int(100_000)]).expect("it runs");
    println!("100,000 live actors: {} bytes each", (resident() - before) / 100_000);
    drop(program);
    for (function, each) in [("churn", 100_000), ("churn_sandboxes", 10_000)] {
        let mut program = live(ACTORS);
        let mut seen = Vec::new();
        for _ in 0..10 {
            program.call(function, &[Data::Int(each)]).expect("it runs");
            seen.push(resident() >> 10);
        }
        println!("{function}: {} one after another, KiB after each tenth: {seen:?}", each * 10);
    }
}

/// Turns of 20,000 fuel that are spent in one builtin: how long each takes beyond what fuel may cost.
fn limits() {
    let sources = [
        "",
        "string.repeat(s, 100)",
        "string.upper(s)",
        "string.trim(s)",
        "string.lines(s)",
        "string.chars(s)",
        "string.split(s, \",\")",
        "string.sub(s, 5, 60000)",
        "string.find(s, \"zz\")",
        "string.replace(s, \",\", \"--\")",
        "string.pad_left(s, 100000, \"x\")",
        "array.slice(a, 1, 5000)",
        "array.concat(a, a)",
        "array.copy(a)",
        "array.reverse(a)",
        "array.range(0, 5000)",
        "array.fill(5000, 1)",
        "array.map(a, str)",
        "array.filter(a, str)",
        "array.sort(a)",
        "array.sort(a, fn(x, y) return x < y end)",
        "array.index_of(a, -1)",
        "array.sum(a)",
        "array.join(a, \",\")",
        "array.insert(a, 0, 1)",
        "array.remove(a, 0)",
        "record.keys(r)",
        "record.values(r)",
        "record.entries(r)",
        "record.copy(r)",
        "record.merge(r, r)",
        "record.remove(r, \"k5\")",
        "json.encode(a)",
        "json.encode(r, 2)",
        "json.decode(j)",
        "str(a)",
        "len(s .. s)",
        "[a == a, r == r]",
        "s < s .. s",
        "`{a}{r}{s}`",
        "reply(a)",
    ];
    const FUEL: u64 = 20_000;
    let mut worst = (0.0, "");
    println!("microseconds of a turn of {FUEL} fuel, median and worst of 40:");
    for body in sources {
        let body_line = if body.is_empty() { String::new() } else { format!("let x = {body}") };
        let source = format!(
            "import string; import array; import record; import json
fn handler(state, msg)
  if state == nil then
    let a = array.range(0, 5000)
    let r = {{}}
    for i = 0, 999 do r[`k{{i}}`] = i end
    return {{ s = string.repeat(\"ab,\", 20000), a = a, r = r, j = json.encode(a) }}
  end
  let s = state.s
  let a = state.a
  let r = state.r
  let j = state.j
  while true do {body_line} end
end"
        );
        let mut took = Vec::new();
        for _ in 0..40 {
            let mut sandbox = Mod::new(Limits { fuel: 2_000_000, memory: 64 << 20, ..Limits::frame("t") });
            sandbox.load(&source, &Data::Nil).expect("it loads");
            sandbox.ask("Make", &[]).expect("it makes its data");
            sandbox.refuel(FUEL);
            let start = Instant::now();
            let failure = sandbox.ask("Burn", &[]).expect_err("it burns its fuel");
            took.push(start.elapsed().as_secs_f64() * 1e6);
            assert!(failure.kind == "out_of_fuel" || body == "reply(a)", "{body}: {failure:?}");
        }
        took.sort_by(f64::total_cmp);
        if took[20] > worst.0 {
            worst = (took[20], body);
        }
        println!("{:>8.0} {:>8.0}  {body}", took[20], took[39]);
    }
    println!("slowest: {:.0} in {}", worst.0, worst.1);
}

fn main() {
    actors();
    limits();
}
