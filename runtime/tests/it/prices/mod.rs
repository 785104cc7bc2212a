//! What builtins cost: whatever one of them is in, the fuel stops it.

mod table;

use crate::harness::Given;
use runtime::partition::boundary::Data;
use runtime::partition::sandbox::Limits;
use runtime::scua::Mod;
use table::{ENDLESS, SCUA, SCUA_CONSTANT, SCUA_DATA, SYNSEMA, SYNSEMA_DATA};

fn handler(body: &str) -> String {
    format!(
        "import string; import array; import record; import json; import math
fn handler(state, msg)
  if state == nil then
    {SCUA_DATA}
    return data
  end
  let s = state.s; let u = state.u; let a = state.a; let t = state.t; let p = state.p
  let r = state.r; let j = state.j; let d = state.d; let e = state.e
  {body}
  return state
end"
    )
}

/// A call with so much fuel, one after another: how each ended.
fn called<const N: usize>(source: &str, fuel: [u64; N]) -> [&'static str; N] {
    let limits = Limits { fuel: 2_000_000, memory: 64 << 20, depth: 128, ..Limits::frame("t") };
    let mut sandbox = Mod::new(limits);
    sandbox.load(source, &Data::Nil).expect("it loads");
    sandbox.ask("Make", &[]).expect("it makes its data");
    fuel.map(|fuel| {
        sandbox.refuel(fuel);
        sandbox.ask("Go", &[]).map_or_else(|e| e.kind, |_| "ok")
    })
}

#[test]
fn each_builtin_of_scua_ends_with_the_fuel() {
    let mut wrong = Vec::new();
    for call in SCUA {
        let source = handler(&format!("let x = {}", call.code));
        // What has no end but by a limit.
        let endless = call.too_little == ENDLESS;
        let (long, short) = if endless {
            let [short] = called(&source, [call.too_little]);
            ("ok", short)
        } else {
            called(&source, [1_000_000, call.too_little]).into()
        };
        if (long, short) != ("ok", "out_of_fuel") {
            wrong.push(format!("{}: {short} with {}, {long} with plenty", call.code, call.too_little));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_builtin_of_scua_has_its_price_looked_at() {
    let listed = |name: &str| {
        SCUA_CONSTANT.contains(&name) || SCUA.iter().any(|call| call.code.contains(&format!("{name}(")))
    };
    let left: Vec<&str> = runtime::builtins::exact().map(|b| b.name).filter(|name| !listed(name)).collect();
    // What reaches outside waits for somebody, and is no work of the partition's; a sandbox pays for itself.
    let outside = |name: &&&str| {
        let of = name.split_once('.').map_or(**name, |(module, _)| module);
        ["fs", "net", "env", "clock", "random", "sandbox", "print", "actor", "self", "exit", "partition"]
            .contains(&of)
    };
    let left: Vec<&&str> = left.iter().filter(|name| !outside(name)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn each_builtin_of_synsema_ends_with_the_fuel() {
    let used = Given::program(SYNSEMA_DATA).run().end().fuel;
    let mut wrong = Vec::new();
    for call in SYNSEMA {
        let program = format!("{SYNSEMA_DATA}let x be {}\n", call.code);
        let run = |more: u64| Given::program(&program).fuel(used + more).heap(256 << 20).run();
        let short = run(call.too_little);
        let short = short.end().trap.clone().unwrap_or_default();
        let mut long = if call.too_little == ENDLESS { Vec::new() } else { run(10_000_000).errors };
        long.retain(|line| !line.starts_with("warning: "));
        if short != "fuel" || !long.is_empty() {
            wrong.push(format!("{}: {short:?} with {}; with plenty {long:?}", call.code, call.too_little));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
