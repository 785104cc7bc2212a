//! Memory of the whole process while sandboxes and actors are made and stopped, one after another: flat. A process of its
//! own, since it is the process that is measured.

use policies::audit::Entry;
use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::host::Host;
use runtime::scua::program::Grants;
use runtime::scua::{Live, Script};

/// A host that keeps nothing, the audit neither.
struct Forgetful;

impl Host for Forgetful {
    fn print(&mut self, _text: &str) {}
    fn eprint(&mut self, _text: &str) {}
    fn audit(&mut self, _entry: Entry) {}
}

/// Resident KiB.
fn resident() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(text.split(' ').nth(1)?.parse::<i64>().ok()? * 4)
}

fn live() -> Live {
    let source = "import sandbox
fn idle(s, m) return s end
fn handle(s, m) reply(s); return s end
fn actors(n) for i = 1, n do actor(idle, i) end end
fn asked(n) for i = 1, n do ask actor(handle, i).Get() end end
fn keep(s, m) match m
  Keep([me]) -> do reply(nil); return me end
 end end
fn rings(n) for i = 1, n do let a = actor(keep, i); ask a.Keep(a) end end
fn runs(n) for i = 1, n do sandbox.run(\"fn main(n) return n end\", i) end end
fn stopped(n) for i = 1, n do sandbox.stop(payload(sandbox.actor(\"fn handler(s, m) return s end\", i))) end end
fn failed(n)
  for i = 1, n do
    let one = payload(sandbox.actor(\"fn handler(s, m) fail(s) end\", i))
    tell one.Go()
    try(fn() return ask one.Go() end)
  end
end";
    let granted = Ceiling::parse("sandbox_run").expect("a ceiling");
    let script = Script::new("flat.scua", source).grants(Grants { granted, ..Grants::nothing() });
    script.start(Box::new(Forgetful)).expect("it compiles")
}

#[test]
fn what_is_stopped_leaves_nothing() {
    if resident().is_none() {
        println!("skipped: no /proc to read a process's memory from");
        return;
    }
    for (function, times) in [
        ("actors", 40_000),
        ("asked", 10_000),
        ("rings", 10_000),
        ("runs", 2_000),
        ("stopped", 2_000),
        ("failed", 1_000),
    ] {
        let mut program = live();
        let mut go = |times: i64| program.call(function, &[Data::Int(times)]).map(drop).expect("it runs");
        // Circles of actors go with a collection, so there is more before the first one.
        go(times);
        go(times);
        let before = resident().unwrap_or(0);
        go(times);
        go(times);
        let more = resident().unwrap_or(0) - before;
        assert!(more < 512, "{function}: {more} KiB more after {} further ones", 2 * times);
    }
}
