//! Figures that are no durations: bytes of actors, live and gone. How long fuel takes is in `../../prices.rs`.
//!
//! `cd runtime/benches/peers && cargo bench --bench figures`

use policies::audit::Entry;
use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::host::Host;
use runtime::scua::program::Grants;
use runtime::scua::{Live, Script};

/// A host that keeps nothing: what grows is the runtime's.
struct Forgetful;

impl Host for Forgetful {
    fn print(&mut self, _text: &str) {}
    fn eprint(&mut self, _text: &str) {}
    fn audit(&mut self, _entry: Entry) {}
}

/// Resident bytes of this process.
fn resident() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok()).unwrap_or(0) * 4096
}

fn live(source: &str) -> Live {
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    let script = Script::new("figures.scua", source).grants(Grants { granted, ..Grants::nothing() });
    let live = script.start(Box::new(Forgetful)).expect("it compiles");
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

fn main() {
    actors();
}
