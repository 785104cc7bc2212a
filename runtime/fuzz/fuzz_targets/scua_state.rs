//! Any bytes as a program's saved state: refused, or a program that computes under its limits and can be saved again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::partition::boundary::Data;
use runtime::partition::host::Memory;
use runtime::scua::program::Grants;
use runtime::scua::{Live, Script, state};

const SOURCE: &str = "import array
let list = [1, 2.5, \"text\", \"a text of more than fifteen\", nil, Some([Stop])]
let ring = { name = \"ring\" }
ring.self = ring
fn counter(n) return fn() n = n + 1; return n end end
let next = counter(1)
let done = spawn counter(5)
join(done)
let clerk = actor(fn(s, m) reply(s); return s end, { of = next })
fn look()
  for k, v in ring do array.push(list, k) end
  tell clerk.Quiet(list)
  return [str(list), str(ring), next(), str(join(done)), str(try(fn() return ask clerk.Get() end))]
end";

fn script() -> Script {
    Script::new("t.scua", SOURCE).grants(Grants {
        fuel: Some(100_000),
        memory: Some(1 << 20),
        ..Grants::nothing()
    })
}

fn look(live: &mut Live) {
    let _answer = live.call("look", &[]);
    let _rest = live.settle();
    let _again: Result<Data, _> = live.call("look", &[]);
    if let Ok(bytes) = live.save() {
        let restored = script().restore(&bytes, Box::new(Memory::default()));
        assert!(restored.is_ok_and(|live| live.save() == Ok(bytes)), "what was saved can be restored");
    }
}

fuzz_target!(|bytes: &[u8]| {
    // The true head in front, and the right hash behind, or nothing else is ever tried.
    let Ok(live) = script().start(Box::new(Memory::default())) else { return };
    let Ok(good) = live.save() else { return };
    let mut forged = good[..42].to_vec();
    forged.extend_from_slice(bytes);
    forged.extend([0; 32]);
    let forged = state::resealed(forged);
    if let Ok(mut live) = script().restore(&forged, Box::new(Memory::default())) {
        look(&mut live);
    }
});
