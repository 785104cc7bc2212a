//! A partition inside another one meets its own limits first, and nothing that fails is free.

use super::run_with;
use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::sandbox::Limits;
use runtime::scua::Mod;
use runtime::scua::program::Grants;

fn run(source: &str, fuel: Option<u64>, memory: Option<u64>) -> (Vec<String>, Vec<String>) {
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    let ran = run_with("t.scua", source.as_bytes(), Grants { granted, fuel, memory, ..Grants::nothing() });
    (ran.output, ran.errors.iter().map(|e| e.lines().next().unwrap_or("").to_owned()).collect())
}

/// What is asked for in one piece: more than the sandbox may have, and more than the program has.
const BOMBS: [&str; 9] = [
    "string.repeat(\"x\", 300000000)",
    "string.pad_left(\"x\", 300000000, \"y\")",
    "string.pad_right(\"x\", 300000000, \"y\")",
    "string.replace(string.repeat(\"x\", 30000), \"x\", string.repeat(\"y\", 30000))",
    "array.join(array.fill(30000, \"\"), string.repeat(\"y\", 30000))",
    "array.range(0, 30000000)",
    "array.fill(30000000, 1)",
    "array.concat(array.fill(30000, 1), array.fill(30000, 1))",
    "str(array.fill(60000, string.repeat(\"y\", 30000)))",
];

#[test]
fn the_sandbox_fails_by_its_own_limit_whatever_the_program_has_left() {
    for body in BOMBS {
        let source = format!(
            "import sandbox; import string; import array; import record
let code = \"import string; import array\\nfn main()\\n return {}\\nend\"
match sandbox.run(code, nil, {{ fuel = 1000000000 }})
  Error(e) -> print(e.kind, e.line, e.message)
end
match sandbox.actor(\"import string; import array\\nfn handler(s, m)\\n return {}\\nend\", nil, {{ fuel = 1000000000 }})
  Ok(mod) -> do tell mod.Go(); print(try(fn() return ask mod.Go() end)) end
end",
            body.replace('"', "\\\""),
            body.replace('"', "\\\"")
        );
        for memory in [None, Some(2 << 20)] {
            let (output, errors) = run(&source, None, memory);
            assert_eq!(errors, Vec::<String>::new(), "{body}, {memory:?}");
            let told = "out_of_memory 3 ran out of memory (limit 1048576 bytes)";
            assert_eq!(output.first().map(String::as_str), Some(told), "{body}, {memory:?}");
            assert!(output[1].contains("kind = \"out_of_memory\""), "{body}, {memory:?}: {}", output[1]);
        }
    }
}

#[test]
fn only_what_the_sandbox_may_have_is_asked_of_the_program() {
    let code = |limit: u64| {
        format!(
            "import sandbox
match sandbox.run(\"import string\\nfn main() return len(string.repeat(\\\"x\\\", 3000000)) end\", nil, {{ memory = {limit} }})
  Ok(n) -> print(n)
  Error(e) -> print(e.kind)
end"
        )
    };
    // The sandbox may not.
    assert_eq!(run(&code(2 << 20), None, Some(1 << 20)), (vec!["out_of_memory".into()], Vec::new()));
    // It may, and the program can't give it.
    let ends = vec!["t.scua:2: fault: ran out of memory (limit 1048576 bytes)".to_owned()];
    assert_eq!(run(&code(4 << 20), None, Some(1 << 20)), (Vec::new(), ends));
    assert_eq!(run(&code(4 << 20), None, Some(4 << 20)), (vec!["3000000".into()], Vec::new()));
}

/// What a sandbox drops is in nobody's way, and its fuel is the same however little the program has.
#[test]
fn garbage_of_a_sandbox_is_not_the_programs() {
    let source = "import sandbox
let code = \"import string\\nfn main(n) for i = 1, n do string.repeat(\\\"x\\\", 60000) end; return 1 end\"
fn passes(fuel) return tag(sandbox.run(code, 30, { fuel = fuel })) end
print(passes(1000000))
let (low, high) = (0, 0)";
    let source = source.replace(
        "let (low, high) = (0, 0)",
        "let low = 0
let high = 1000000
while high - low > 1 do
  let middle = (low + high) // 2
  if passes(middle) == \"Ok\" then high = middle else low = middle end
end
print(high)",
    );
    let (wide, errors) = run(&source, None, None);
    assert_eq!((wide[0].as_str(), errors.len()), ("Ok", 0));
    assert_eq!(run(&source, None, Some(300_000)), (wide, Vec::new()));
}

#[test]
fn one_charge_that_is_too_large_costs_the_program_no_more_than_the_limit() {
    let source = "import sandbox
for i = 1, 3 do
  match sandbox.run(\"import array\\nfn main() return array.fill(1000000000, 1) end\")
    Error(e) -> print(e.kind, e.message)
  end
end";
    let told = "out_of_fuel ran out of fuel (limit 100000)".to_owned();
    assert_eq!(run(source, Some(400_000), None), (vec![told.clone(); 3], Vec::new()));
    let ends = vec!["t.scua:3: fault: ran out of fuel (limit 250000)".to_owned()];
    assert_eq!(run(source, Some(250_000), None), (vec![told; 2], ends));
}

/// A fault that is caught again and again is paid for each time: nothing that was charged comes back with it.
#[test]
fn what_fails_has_been_paid_for() {
    let limits = || Limits { fuel: 40_000, memory: 64 << 20, source: 1 << 20, ..Limits::frame("t") };
    let long = "a".repeat(60_000);
    let preamble = format!(
        "import string; import array; import json; import record
let v = string.repeat(\"x\", 9000)
let w = [v, v, v, v, {{ [v] = v }}, Tag([v])]
let deep = [1]
for i = 1, 140 do deep = [deep] end
fn {long}(a) end
fn g()\n"
    );
    for (body, most) in [
        ("match v\n 1 -> 2\n end", 4_000),
        ("match w\n 1 -> 2\n end", 4_000),
        ("match [w, w, w]\n 1 -> 2\n end", 4_000),
        ("match { [v] = 1 }\n 1 -> 2\n end", 4_000),
        ("return [v, deep] == [v, deep]", 500),
        ("return v .. v .. nil", 4_000),
        ("return `{v}{v}` + 1", 200),
        ("return v < 1", 4_000),
        ("return { [v] = 1 }[w]", 4_000),
        ("fail(v)", 500),
        ("return 1 .aaaa", 4_000),
        ("let w = v; w.x = 1", 4_000),
        ("json.encode([v, v, v, g])", 200),
        ("return array.join([v, v, g], v)", 200),
    ] {
        let body = body.replace("1 .aaaa", &format!("w.{long}"));
        let of = |times: u64| {
            let source = format!("{preamble}{body}\nend\nfn main() for i = 1, {times} do try(g) end end");
            Mod::new(limits()).run(&source, &Data::Nil).map_err(|e| e.kind)
        };
        assert_eq!(of(10), Ok(Data::Nil), "{body:.60}");
        assert_eq!(of(most), Err("out_of_fuel"), "{body:.60} fails {most} times on 40000 fuel");
    }
}

#[test]
fn a_long_value_in_a_message_is_cut_at_80_characters() {
    let ran = Mod::new(Limits::frame("t")).run(
        "import string\nfn main()\n match [string.repeat(\"ä\", 200), 2]\n 1 -> 2\n end\nend",
        &Data::Nil,
    );
    let message = ran.expect_err("no arm").message;
    assert_eq!(message, format!("no arm matches [\"{}…", "ä".repeat(78)));
}
