//! Saving and restoring: what comes back is what was there, and a forged state is refused or is other values.

use super::Dice;
use policies::ceiling::Ceiling;
use runtime::error::StateError;
use runtime::partition::boundary::Data;
use runtime::partition::host::Memory;
use runtime::scua::program::Grants;
use runtime::scua::{Live, Script, state};
use std::cell::RefCell;
use std::rc::Rc;

type Console = Rc<RefCell<Memory>>;

fn script(source: &str, rights: &str) -> Script {
    let granted = Ceiling::parse(rights).expect("a ceiling");
    Script::new("t.scua", source).grants(Grants { granted, ..Grants::nothing() })
}

fn started(source: &str) -> (Live, Console) {
    let host = Console::default();
    let live = script(source, "stdout,sandbox_run,time").start(Box::new(host.clone())).expect("it compiles");
    assert_eq!(live.errors().first().map(|e| e.text.as_str()), None);
    (live, host)
}

fn again(source: &str, live: &Live) -> (Live, Console) {
    let host = Console::default();
    let bytes = live.save().expect("a state");
    let restored = script(source, "stdout,sandbox_run,time").restore(&bytes, Box::new(host.clone()));
    let restored = restored.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(restored.save().expect("a state"), bytes, "what is restored and saved again is the same");
    (restored, host)
}

const EVERYTHING: &str = r#"
import array
import record
let words = ["short", "a text that is longer than fifteen", 2.5, -7, nil, true, inf_of(), 9223372036854775807]
fn inf_of() return 1e308 * 10.0 end
let ring = { name = "ring", ["made at run time, and long"] = 1 }
ring.self = ring
ring.words = words
let nested = Some(Some([Ok(ring), Stop]))
let inner = payload(nested)
fn counter_from(n)
  let count = n
  return fn() count = count + 1; return count end
end
let next = counter_from(10)
let same = next
let done = spawn inf_of()
join(done)
let failed = spawn do fail("broken") end
try(fn() return join(failed) end)
fn adder(state, msg)
  match msg
    Add([n]) -> do reply(state.sum + n); return { sum = state.sum + n, by = state.by } end
    Fail([]) -> fail("an actor's fault")
  end
end
let clerk = actor(adder, { sum = 5, by = next })
let other = actor(fn(s, m) return s end, clerk)
let broken = actor(adder, { sum = 0, by = nil })
let why = try(fn() return ask broken.Fail() end)
let tools = [array.push, print, inf_of, next]
fn look()
  let sum = ask clerk.Add(1)
  let end_of = try(fn() return ask broken.Add(1) end)
  return [words, len(ring), len(ring.self), ring.words[1], str(nested), str(inner), next(), same(), sum,
    join(done), str(failed), str(try(fn() return join(failed) end)), str(end_of), str(why), str([clerk, other, done]),
    str(tools), tools[2] == inf_of, tools[3] == next, ring["made at run time, and long"]]
end
"#;

#[test]
fn what_is_restored_is_what_was_saved() {
    let (mut live, _) = started(EVERYTHING);
    let (mut restored, _) = again(EVERYTHING, &live);
    for round in 0..2 {
        let (was, is) = (live.call("look", &[]), restored.call("look", &[]));
        assert!(was.is_ok(), "{was:?}");
        assert_eq!(was, is, "call {round}");
    }
    assert!(restored.bytes() <= live.bytes(), "what is no longer reachable is gone");
    let mut once_more = again(EVERYTHING, &restored).0;
    assert_eq!(once_more.call("look", &[]), restored.call("look", &[]));
}

#[test]
fn a_sandbox_is_not_saved_and_says_so() {
    let source = r#"
import sandbox
let source = "fn handler(state, msg) reply(state); return state + 1 end"
let made = sandbox.actor(source, 1, { name = "adder" })
let mod = payload(made)
fn use_it() return [str(mod), payload(made) == mod, str(try(fn() return ask mod.Add(1) end))] end
fn stop_it() tell mod.Add(2); return str(sandbox.stop(mod)) end
fn again() mod = payload(sandbox.actor(source, 7, { name = "adder" })); return ask mod.Add(1) end
"#;
    let (mut live, _) = started(source);
    let texts = |all: [&str; 3]| Data::Array(all.iter().map(|t| Data::from(*t)).collect());
    let Ok(Data::Array(before)) = live.call("use_it", &[]) else { panic!("no answer") };
    assert_eq!(before[2], Data::from("Ok(1)"));
    let mut restored = again(source, &live).0;
    // The reference is equal to itself and printed as before; asking it tells what to do.
    let stopped = "Error({ kind = \"stopped\", name = \"t.scua\", line = 6, message = \"sandbox `adder` was not saved; load its source again\" })";
    let Ok(Data::Array(after)) = restored.call("use_it", &[]) else { panic!("no answer") };
    assert_eq!(Data::Array(after), {
        let mut wanted = vec![before[0].clone(), before[1].clone()];
        wanted.push(Data::from(stopped));
        Data::Array(wanted)
    });
    assert_eq!(texts(["<sandbox adder>", "", ""]), {
        Data::Array(vec![before[0].clone(), Data::from(""), Data::from("")])
    });
    assert_eq!(restored.call("stop_it", &[]), Ok(Data::from("Ok(nil)")));
    assert_eq!(restored.call("again", &[]), Ok(Data::Int(7)));
}

#[test]
fn capabilities_are_granted_anew() {
    let source =
        "import sandbox\nlet run = sandbox.run\nfn go() return str(run(\"fn main() return 1 end\")) end";
    let (mut live, _) = started(source);
    assert_eq!(live.call("go", &[]), Ok(Data::from("Ok(1)")));
    let bytes = live.save().expect("a state");
    let with = |rights: &str| {
        let restored = script(source, rights).restore(&bytes, Box::new(Memory::default()));
        restored.unwrap_or_else(|e| panic!("{e}")).call("go", &[])
    };
    assert_eq!(with("stdout,sandbox_run"), Ok(Data::from("Ok(1)")));
    let denied = with("stdout").expect_err("the right is gone");
    assert_eq!((denied.kind, denied.line), ("not_granted", 3));
}

#[test]
fn another_source_is_refused() {
    let (live, _) = started("let x = 1");
    let bytes = live.save().expect("a state");
    let restore = |source: &str| script(source, "stdout").restore(&bytes, Box::new(Memory::default())).err();
    assert_eq!(restore("let x = 2"), Some(StateError::OtherSource));
    assert_eq!(restore("let x = 1"), None);
    assert!(matches!(restore("let x ="), Some(StateError::Source(_))));
}

#[test]
fn messages_and_time_are_saved() {
    let source = r#"
import clock
let heard = []
let ear = actor(fn(state, msg) print(state, msg); return state + 1 end, 0)
clock.sleep(1500)
fn burst()
  tell ear.One()
  tell ear.Two([1])
  fail("before they were heard")
end
fn ticks() return clock.ticks() end
"#;
    let host = Console::default();
    let grants = || Grants {
        granted: Ceiling::parse("stdout,time").expect("a ceiling"),
        virtual_time: true,
        ..Grants::nothing()
    };
    let made = || Script::new("t.scua", source).grants(grants());
    let mut live = made().start(Box::new(host.clone())).expect("it compiles");
    let failure = live.call("burst", &[]).expect_err("it fails");
    assert_eq!((failure.line, failure.message.as_str()), (9, "before they were heard"));
    assert!(host.borrow().output.is_empty(), "the call ended before anybody else ran");
    let bytes = live.save().expect("a state");
    let restored_host = Console::default();
    let mut restored =
        made().restore(&bytes, Box::new(restored_host.clone())).unwrap_or_else(|e| panic!("{e}"));
    restored.settle().expect("no limit is passed");
    assert_eq!(restored_host.borrow().output, ["0 One([])", "1 Two([[1]])"]);
    assert_eq!(restored.call("ticks", &[]), Ok(Data::Int(1500)));
}

#[test]
fn only_a_program_at_rest_is_saved() {
    let (mut live, _) =
        started("fn spin() while true do end end\nfn leave() exit(3) end\nfn fine() return 1 end");
    assert_eq!(live.call("fine", &[]), Ok(Data::Int(1)));
    assert!(live.save().is_ok());
    live.call("leave", &[]).expect_err("it ends");
    assert_eq!(live.save(), Err(StateError::NotAtRest));
    assert_eq!(live.call("fine", &[]).expect_err("it is over").message, "the program has ended");
    // An actor whose `ask` is still open when a call fails.
    let source = "let deaf = actor(fn(s, m) return s end, 0)\nlet asking = actor(fn(s, m) ask deaf.Hear() timeout 5s; return s end, 0)\nfn go() tell asking.Go(); pause(); fail(\"now\") end";
    let (mut live, _) = started(source);
    live.call("go", &[]).expect_err("it fails");
    assert_eq!(live.save(), Err(StateError::NotAtRest));
    live.settle().expect("time passes");
    assert!(live.save().is_ok());
}

#[test]
fn memory_is_bounded_before_it_is_made() {
    let source = "import array\nlet a = array.fill(10000, 1)";
    let (live, _) = started(source);
    let bytes = live.save().expect("a state");
    let with = |memory| {
        let grants = Grants { memory: Some(memory), ..Grants::nothing() };
        Script::new("t.scua", source).grants(grants).restore(&bytes, Box::new(Memory::default())).err()
    };
    assert_eq!(with(160_032), None);
    assert_eq!(with(160_031), Some(StateError::Memory { limit: 160_031 }));
}

#[test]
fn a_host_function_must_be_there_again() {
    let source = "let kept = [noise]\nfn go() return kept[0](20) end";
    let noise = |factor: i64| {
        Script::new("t.scua", source).function("noise", 1, 5, move |args| match args {
            [Data::Int(n)] => Ok(Data::Int(n * factor)),
            _ => Err("an int".into()),
        })
    };
    let live = noise(2).start(Box::new(Memory::default())).expect("it compiles");
    let bytes = live.save().expect("a state");
    let mut restored =
        noise(3).restore(&bytes, Box::new(Memory::default())).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(restored.call("go", &[]), Ok(Data::Int(60)), "the host's own function, as it is now");
}

/// Whatever is changed: refused, or a program that computes under its limits.
#[test]
fn a_forged_state_harms_nobody() {
    let source = format!(
        "{EVERYTHING}\nfn again() for w in words do print(w) end; return str([ring, nested, tools]) end"
    );
    let (live, _) = started(&source);
    let bytes = live.save().expect("a state");
    let mut dice = Dice(11);
    let (mut refused, mut ran) = (0, 0);
    for round in 0..1500 {
        let mut forged = bytes.clone();
        for _ in 0..=dice.roll(3) {
            // The head is as it must be, or nothing behind it is looked at.
            let at = 42 + dice.roll(forged.len() - 42 - 32);
            match dice.roll(4) {
                0 => forged[at] = dice.roll(256) as u8,
                1 => forged[at] ^= 1 << dice.roll(8),
                2 => drop(forged.remove(at)),
                _ => forged.insert(at, dice.roll(256) as u8),
            }
        }
        if round % 7 == 0 {
            forged.truncate(42 + dice.roll(forged.len() - 42));
        }
        let forged = state::resealed(forged);
        let grants = Grants { fuel: Some(200_000), memory: Some(4 << 20), ..Grants::nothing() };
        match Script::new("t.scua", &source).grants(grants).restore(&forged, Box::new(Memory::default())) {
            Err(_) => refused += 1,
            Ok(mut live) => {
                ran += 1;
                let _whatever = (live.call("look", &[]), live.call("again", &[]), live.settle(), live.save());
            }
        }
    }
    assert!(refused > 100 && ran > 100, "{refused} refused, {ran} ran");
}

#[test]
fn what_is_no_state_is_refused() {
    let source = "let x = 1";
    let (live, _) = started(source);
    let bytes = live.save().expect("a state");
    let restore = |bytes: &[u8]| script(source, "stdout").restore(bytes, Box::new(Memory::default())).err();
    assert_eq!(restore(b""), Some(StateError::NoState));
    assert_eq!(restore(b"SCUAstat"), Some(StateError::NoState));
    let mut other = bytes.clone();
    other[9] = 2;
    assert_eq!(restore(&other), Some(StateError::Version { found: 2, wanted: 1 }));
    for end in 10..bytes.len() {
        assert!(matches!(restore(&bytes[..end]), Some(StateError::Damaged { .. })), "cut at {end}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(restore(&longer), Some(StateError::Damaged { .. })));
    assert_eq!(restore(&bytes), None);
}
