//! Bad input, item by item: each ends in its documented kind, and the program around goes on.

use super::{run, run_with};
use policies::ceiling::Ceiling;
use runtime::partition::boundary::Data;
use runtime::partition::host::Memory;
use runtime::partition::sandbox::Limits;
use runtime::scua::program::Grants;
use runtime::scua::{Mod, Script};

fn kind(source: &str, input: &Data, limits: Limits) -> &'static str {
    Mod::new(limits).run(source, input).map_or_else(|e| e.kind, |_| "ok")
}

fn limits(fuel: u64, memory: u64) -> Limits {
    Limits { fuel, memory, source: 1 << 24, ..Limits::frame("t") }
}

#[test]
fn infinite_loops_end_in_every_position() {
    let forever = "fn forever(a, b) while true do end end\nfn once(a) while true do end end\nfn none() while true do end end\n";
    for body in [
        "while true do end",
        "while none() do end",
        "if none() then end",
        "for i = 1, 9223372036854775807 do end",
        "for i = none(), 2 do end",
        "let a = [1]; for x in a do array.push(a, x) end",
        "match 1\n x if none() -> 1\n end",
        "match none()\n x -> 1\n end",
        "return `a{none()}b`",
        "return array.sort([3, 2, 1], forever)",
        "return array.map([1], once)",
        "return array.filter([1], once)",
        "return array.any([1], once)",
        "return array.all([1], once)",
        "return array.find([1], once)",
        "return array.reduce([1], 0, forever)",
        "return try(none)",
        "return try(fn() return try(none) end)",
        "return { a = none() }",
        "return [none()]",
        "return Tag(none())",
        "let r = {}; r[none()] = 1",
        "let t = spawn none(); return 1",
        "return join(spawn none())",
        "let t = spawn do while true do pause() end end; while true do pause() end",
        "reply(none())",
        "return none() and 1",
        "return 1 + none()",
        "let f = fn(f) f(f) end; while true do try(fn() f(f) end) end",
    ] {
        let source = format!("import array\n{forever}fn main()\n{body}\nend");
        assert_eq!(kind(&source, &Data::Nil, limits(200_000, 1 << 20)), "out_of_fuel", "{body}");
    }
    assert_eq!(kind("while true do end\nfn main() end", &Data::Nil, limits(10_000, 1 << 20)), "out_of_fuel");
}

/// What each builtin that allocates is asked for: too much, in one call and again and again.
#[test]
fn memory_bombs_end_by_a_limit_in_time() {
    let big = Data::from("ab,".repeat(20_000).as_str());
    for body in [
        "string.repeat(s, 1000000000)",
        "string.repeat(s, 9223372036854775807)",
        "string.pad_left(s, 9223372036854775807, \"x\")",
        "string.pad_right(s, 1000000000000, \"x\")",
        "string.replace(s, \"a\", s)",
        "string.replace(string.replace(s, \"a\", \",,,,,,,,,,,,,,,,\"), \",\", s)",
        "array.fill(1000000000, s)",
        "array.fill(9223372036854775807, s)",
        "array.range(0, 9223372036854775807)",
        "array.range(-9223372036854775807, 9223372036854775807, 1)",
        "array.join(array.fill(100000, s), s)",
        "string.split(s, \"a\")",
        "string.chars(s .. s .. s .. s)",
        "string.lines(string.replace(s .. s .. s, \"a\", \"\\n\\n\\n\\n\"))",
        "json.encode(array.fill(60000, s))",
        "json.decode(\"[\" .. string.repeat(\"[[1],[2]],\", 60000) .. \"1]\")",
        "str(array.fill(60000, s))",
        "`{array.fill(60000, s)}`",
        "array.sort(array.fill(200000, 1))",
        "array.concat(array.fill(40000, 1), array.fill(40000, 1))",
        "array.map(array.fill(60000, 1), fn(x) return [x] end)",
        "record.from_entries(array.map(array.range(0, 60000), fn(i) return [s .. i, i] end))",
    ] {
        let source = format!(
            "import string; import array; import json; import record\nfn main(s)\n  let all = []\n  while true do array.push(all, {body}) end\nend"
        );
        let kind = kind(&source, &big, limits(100_000_000, 2 << 20));
        assert!(["out_of_memory", "out_of_fuel"].contains(&kind), "{body}: {kind}");
    }
}

/// A host without a fuel limit has its memory limit all the same.
#[test]
fn a_program_without_a_fuel_limit_ends_by_its_memory() {
    for body in [
        "array.fill(9223372036854775807, 1)",
        "array.range(0, 9223372036854775807)",
        "string.repeat(\"ab\", 4000000000)",
    ] {
        let ran = run("t.scua", &format!("import array; import string\nlet x = {body}"));
        let first = ran.errors.first().map(|e| e.lines().next().unwrap_or("").to_owned());
        assert_eq!(
            first.as_deref(),
            Some("t.scua:2: fault: ran out of memory (limit 268435456 bytes)"),
            "{body}"
        );
    }
}

#[test]
fn literals_and_names_end_at_their_limits() {
    let limits = || limits(10_000_000, 64 << 20);
    // A million entries are more than the literals of a function.
    let many = format!("fn main()\nreturn len([{}])\nend", "1,".repeat(1_000_000));
    assert_eq!(kind(&many, &Data::Nil, limits()), "compile_failed");
    let fits = format!("fn main()\nreturn len([{}])\nend", "1,".repeat(60_000));
    assert_eq!(Mod::new(limits()).run(&fits, &Data::Nil), Ok(Data::Int(60_000)));
    let name = "n".repeat(1_000_000);
    let long = format!("fn main()\nlet {name} = 5\nreturn {name}\nend");
    assert_eq!(Mod::new(limits()).run(&long, &Data::Nil), Ok(Data::Int(5)));
    let text = "x".repeat(1_000_000);
    let long =
        format!("fn main()\nlet r = {{ [\"{text}\"] = 1 }}\nreturn r[\"{text}\"] + len(\"{text}\")\nend");
    assert_eq!(Mod::new(limits()).run(&long, &Data::Nil), Ok(Data::Int(1_000_001)));
    let unknown = format!("fn main()\nreturn {name}\nend");
    let failure = Mod::new(limits()).run(&unknown, &Data::Nil).expect_err("no such name");
    assert!(failure.message.len() <= 512, "{} bytes", failure.message.len());
    for open in ["(", "[", "{ a = ", "-", "not ", "A(", "`{", "fn() return ", "match 1\nx -> "] {
        let source = format!("fn main()\nreturn {}1", open.repeat(100_000));
        assert_eq!(kind(&source, &Data::Nil, limits()), "compile_failed", "{open}");
    }
}

#[test]
fn deep_and_cyclic_data_ends_in_a_fault_and_is_freed() {
    let deep = "fn main(n)\n  let a = []\n  for i = 1, n do a = [a] end\n  return a\nend";
    for (n, wanted) in [(63, "ok"), (64, "faulted"), (20_000, "faulted")] {
        assert_eq!(kind(deep, &Data::Int(n), limits(1_000_000, 8 << 20)), wanted, "{n}");
    }
    for (body, wanted) in [
        ("return a == a", "faulted"),
        ("return str(a)", "ok"),
        ("return `{a}`", "ok"),
        ("return json.encode(a)", "faulted"),
        ("return a", "faulted"),
        ("reply(a)", "faulted"),
        ("fail(a)", "faulted"),
        ("match a\n 1 -> 2\n end", "faulted"),
        ("return array.copy(a) == nil", "ok"),
        ("return array.contains([a], a)", "faulted"),
    ] {
        let source = format!(
            "import json; import array\nfn main()\n  let a = []\n  array.push(a, a)\n  let r = {{ a = a }}\n  r.r = r\n  a[0] = {{ r = r, t = Tag(a) }}\n  {body}\nend"
        );
        assert_eq!(kind(&source, &Data::Nil, limits(1_000_000, 1 << 20)), wanted, "{body}");
    }
    // Cycles without end: only collections keep them below the limit.
    let churn = "fn main(n)\n  for i = 1, n do\n    let r = { i = i }\n    r.me = [r]\n    let f = fn() return f2(r) end\n    r.f = f\n  end\n  return n\nend\nfn f2(r) return r end";
    assert_eq!(Mod::new(limits(100_000_000, 64 << 10)).run(churn, &Data::Int(20_000)), Ok(Data::Int(20_000)));
}

/// A key that was made counts wherever it is: looping, copying and dropping don't hide its bytes.
#[test]
fn keys_count_wherever_they_go() {
    let keep = |what: &str| {
        format!(
            "import string; import array; import record\nfn main(n)\n  let all = []\n  for i = 1, n do\n    let r = {{}}\n    r[string.repeat(\"k\", 20000) .. i] = 1\n    {what}\n  end\n  return len(all)\nend"
        )
    };
    for what in [
        "for k in r do array.push(all, k) end",
        "array.push(all, record.copy(r))",
        "array.push(all, record.merge({}, r))",
        "array.push(all, record.keys(r))",
    ] {
        let source = keep(what);
        assert_eq!(kind(&source, &Data::Int(20), limits(10_000_000, 1 << 20)), "ok", "{what}");
        assert_eq!(kind(&source, &Data::Int(200), limits(10_000_000, 1 << 20)), "out_of_memory", "{what}");
    }
    let field = Data::Record(vec![("k".repeat(20_000).into(), Data::Nil)]);
    let source = "fn main(r) return 1 end";
    assert_eq!(kind(source, &field, limits(1000, 20_000)), "out_of_memory");
    assert_eq!(kind(source, &field, limits(1000, 21_000)), "ok");
}

/// A loop over a record goes through the fields that it had, and costs what is written: no copy of its keys.
#[test]
fn loops_over_records_skip_what_is_removed() {
    let source = "import record; import array
fn main()
  let r = { a = 1, b = 2, c = 3, d = 4 }
  let seen = []
  for k, v in r do
    array.push(seen, k .. v)
    if k == \"a\" then record.remove(r, \"b\"); r.z = 9 end
    if k == \"c\" then record.remove(r, \"a\") end
    for j in r do if j == \"d\" then break end end
  end
  return [seen, record.keys(r)]
end";
    let texts = |all: &[&str]| Data::Array(all.iter().map(|t| Data::from(*t)).collect());
    let wanted = Data::Array(vec![texts(&["a1", "c3", "d4"]), texts(&["c", "d", "z"])]);
    assert_eq!(Mod::new(Limits::frame("t")).run(source, &Data::Nil), Ok(wanted));
    let many = "fn main(n)\n  let r = {}\n  for i = 1, 8000 do r[`k{i}`] = i end\n  for i = 1, n do for k in r do break end end\n  return n\nend";
    let started = std::time::Instant::now();
    assert_eq!(Mod::new(limits(10_000_000, 8 << 20)).run(many, &Data::Int(100_000)), Ok(Data::Int(100_000)));
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn two_sandboxes_that_write_to_each_other_forever_end_with_the_programs_fuel() {
    let source = b"import sandbox
let ping = payload(sandbox.actor(\"fn handler(s, m) match m\\n Hit([n]) -> do reply(n + 1); return n end\\n end end\", nil, { name = \"ping\" }))
let pong = payload(sandbox.actor(\"fn handler(s, m) match m\\n Hit([n]) -> do reply(n + 1); return n end\\n end end\", nil, { name = \"pong\" }))
let n = 0
while true do n = ask pong.Hit(ask ping.Hit(n)) end";
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    let ran = run_with("t.scua", source, Grants { granted, fuel: Some(300_000), ..Grants::nothing() });
    let first = ran.errors.first().map(|e| e.lines().next().unwrap_or("").to_owned());
    assert_eq!(first.as_deref(), Some("t.scua:5: fault: ran out of fuel (limit 300000)"));
    assert_eq!(ran.exit, 1);
}

#[test]
fn a_sandbox_that_never_answers_times_out_and_the_host_goes_on() {
    let ran = run(
        "t.scua",
        "import sandbox
let deaf = payload(sandbox.actor(\"fn handler(s, m) return s end\", nil, { name = \"deaf\" }))
let busy = payload(sandbox.actor(\"fn handler(s, m) while true do end end\", nil, { name = \"busy\" }))
print(payload(try(fn() return ask deaf.Hear() timeout 1s end)).message)
print(payload(try(fn() return ask busy.Hear() end)).message)
print(payload(try(fn() return ask busy.Hear() end)).kind, sandbox.stop(deaf))
for i = 1, 3000 do tell deaf.Hear(i) end
print(\"on\")",
    );
    assert_eq!(
        ran.output,
        ["ask `Hear` timed out after 1000 ms", "ran out of fuel (limit 100000)", "out_of_fuel Ok(nil)", "on"]
    );
    assert_eq!(ran.errors, Vec::<String>::new());
}

/// S-01: what sandboxes hold counts to the program's own limit.
#[test]
fn sandboxes_count_to_the_program_around_them() {
    let source = "import sandbox; import array
let made = []
fn more(n)
  for i = 1, n do
    let one = sandbox.actor(\"import array\\nfn handler(s, m) return array.fill(5000, 1) end\", nil, { name = `s{i}` })
    array.push(made, payload(one))
    tell payload(one).Grow()
  end
end
fn feed(n) for one in made do tell one.Take(array.fill(n, 1)) end end
fn stop() for one in made do sandbox.stop(one) end; made = [] end";
    let with = |memory| {
        let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
        let grants = Grants { granted, memory: Some(memory), ..Grants::nothing() };
        Script::new("t.scua", source).grants(grants).start(Box::new(Memory::default())).expect("it compiles")
    };
    // Ten hold 80 KB each.
    let mut live = with(1 << 20);
    assert_eq!(live.call("more", &[Data::Int(10)]), Ok(Data::Nil));
    assert_eq!(live.call("stop", &[]), Ok(Data::Nil), "what is stopped is free again");
    assert_eq!(live.call("more", &[Data::Int(10)]), Ok(Data::Nil));
    let failure = live.call("more", &[Data::Int(10)]).expect_err("more than a MiB");
    assert_eq!(failure.kind, "out_of_memory");
    assert!(live.has_ended());
    let mut live = with(1 << 20);
    assert_eq!(live.call("more", &[Data::Int(10)]), Ok(Data::Nil));
    assert_eq!(live.call("feed", &[Data::Int(100)]), Ok(Data::Nil));
    assert_eq!(live.call("feed", &[Data::Int(5000)]).expect_err("beyond it").kind, "out_of_memory");
    // A `run` too: its own limit is larger than what the program has left.
    let greedy = "import sandbox\nfn go() return sandbox.run(\"import array\\nfn main() return len(array.fill(60000, 1)) end\", nil, { fuel = 1000000 }) end";
    let granted = Ceiling::parse("stdout,sandbox_run").expect("a ceiling");
    let of = |memory| {
        let grants = Grants { granted: granted.clone(), memory: Some(memory), ..Grants::nothing() };
        let started = Script::new("t.scua", greedy).grants(grants).start(Box::new(Memory::default()));
        started.expect("it compiles").call("go", &[]).map_err(|e| (e.kind, e.line))
    };
    assert_eq!(of(600_000), Err(("out_of_memory", 2)));
    assert_eq!(of(2 << 20), Ok(Data::Tagged("Ok".into(), Some(Box::new(Data::Int(60_000))))));
}

#[test]
fn a_host_can_lower_what_sandboxes_may_be_given() {
    let source = "import sandbox
fn go(fuel) return str(try(fn() return sandbox.run(\"fn main() while true do end end\", nil, { fuel = fuel }) end)) end
fn plain() return str(sandbox.run(\"fn main() while true do end end\")) end";
    let granted = Ceiling::parse("sandbox_run").expect("a ceiling");
    let most = Limits { fuel: 500, ..Limits::frame("") };
    let script =
        Script::new("t.scua", source).grants(Grants { granted, ..Grants::nothing() }).sandbox_limits(most);
    let mut live = script.start(Box::new(Memory::default())).expect("it compiles");
    let text = |data: Result<Data, _>| match data {
        Ok(Data::Text(text)) => text.to_string(),
        other => format!("{other:?}"),
    };
    assert!(text(live.call("go", &[Data::Int(500)])).contains("ran out of fuel (limit 500)"));
    assert!(
        text(live.call("go", &[Data::Int(501)]))
            .contains("sandbox limit `fuel` is an int from 1 to 500, got 501")
    );
    assert!(text(live.call("plain", &[])).contains("ran out of fuel (limit 500)"));
}

/// S-04: what is counted is what stands in the source, however many of the names are alive at once.
#[test]
fn a_function_has_two_hundred_names() {
    let of = |count: usize, rest: &str| {
        let names: String = (0..count).map(|i| format!("let a{i} = {i}\n")).collect();
        format!("fn main(n)\n{names}{rest}return a0 + a{} + n\nend", count - 1)
    };
    let run = |source: &str| Mod::new(limits(100_000, 1 << 20)).run(source, &Data::Int(1));
    assert_eq!(run(&of(199, "")), Ok(Data::Int(199)));
    let failure = run(&of(200, "")).expect_err("one more than there may be");
    assert_eq!((failure.line, &*failure.message), (201, "more than 200 names in a function"));
    // What loops and matches keep for themselves isn't counted.
    let rest =
        "for _ in [1] do for _ = 1, 2 do match [n]\n [_] -> a0 = a0 + (a1 + (a2 + (a3 + n)))\n end end end\n";
    assert_eq!(run(&of(199, rest)), Ok(Data::Int(199 + 7 + 7)));
}

/// 64 levels pass, 65 don't, whatever is in the innermost.
#[test]
fn json_nests_exactly_so_deep() {
    let deep = |n: usize, inner: &str| format!("{}{inner}{}", "[".repeat(n), "]".repeat(n));
    for inner in ["", "1"] {
        for (n, fits) in [(64, true), (65, false)] {
            let text = deep(n, inner);
            let read = format!("import json\nprint(tag(json.decode(\"{text}\")))");
            assert_eq!(run("t.scua", &read).output, [if fits { "Ok" } else { "Error" }], "{n} {inner}");
            let written =
                run("t.scua", &format!("import json\nprint(len(json.encode({})))", deep(n.min(40), inner)));
            assert_eq!(written.output.len(), 1);
            let grown = format!(
                "import json\nlet a = [{inner}]\nfor i = 2, {n} do a = [a] end\nprint(len(json.encode(a)))"
            );
            let ran = run("t.scua", &grown);
            if fits {
                assert_eq!(ran.output, [text.len().to_string()], "{:?}", ran.errors);
            } else {
                assert!(ran.errors[0].contains("JSON nests deeper than 64"), "{:?}", ran.errors);
            }
        }
    }
}
