//! Fuel and bytes, at the exact edge; nothing overflows the native stack.

use crate::harness::Given;

const COUNT: &str = "let s be 0\neach i in range(100)\n    set s to s + i\nprint(s)\n";

#[test]
fn fuel_is_the_same_each_time_and_exact_at_its_edge() {
    let used = Given::program(COUNT).run().end().fuel;
    assert_eq!(Given::program(COUNT).run().end().fuel, used);
    let enough = Given::program(COUNT).fuel(used).run();
    assert_eq!(enough.output, ["4950"]);
    let short = Given::program(COUNT).fuel(used - 1).run();
    assert_eq!(short.end().trap.as_deref(), Some("fuel"));
    assert_eq!(short.end().exit, 1);
}

#[test]
fn heap_is_exact_at_its_edge() {
    let program = "let xs be []\neach i in range(1000)\n    set xs to append(xs, i)\nprint(length(xs))\n";
    let peak = Given::program(program).run().end().heap_peak;
    assert_eq!(Given::program(program).heap(peak).run().output, ["1000"]);
    let short = Given::program(program).heap(peak - 1).run();
    assert_eq!(short.end().trap.as_deref(), Some("memory"));
    assert!(short.output.is_empty());
}

#[test]
fn endless_programs_stop_at_their_fuel() {
    for program in [
        "while true\n    let x be 1\n",
        "task f()\n    give f()\nwhile true\n    try\n        f()\n    recover\n        nothing\n",
        "let f be () => 1\nwhile f()\n    nothing\n",
        "each i in range(0, 1000000000000)\n    nothing\n",
        "apply((x) => some(range(1000000), (y) => false), range(1000))\n",
    ] {
        let ran = Given::program(program).fuel(1_000_000).run();
        assert_eq!(ran.end().trap.as_deref(), Some("fuel"), "{program}");
    }
}

/// What a message shows is paid for, whoever catches it.
#[test]
fn errors_that_show_long_values_cost_what_they_show() {
    let long = "let v be \"0123456789abcdef\"\neach i in range(12)\n    set v to v + v\n";
    for failing in [
        "assert_error(() => assert_eq(v, 1))",
        "assert_error(() => assert_ne(v, v))",
        "assert_error(() => assert(false, v))",
        "assert_error(() => int(v))",
        "assert_error(() => [1][v])",
        "try\n        raise v\n    recover\n        nothing",
        "try\n        assert_eq(1, 2, v)\n    recover\n        nothing",
        "try\n        let f be read_file(v)\n    recover\n        nothing",
    ] {
        let program = format!("{long}each i in range(1000)\n    {failing}\n");
        let ran = Given::program(&program).fuel(300_000).run();
        assert_eq!(ran.end().trap.as_deref(), Some("fuel"), "{failing}: {:?}", ran.errors);
    }
}

#[test]
fn memory_bombs_stop_at_their_limit() {
    for program in [
        "let s be \"abcdefghijklmnopqrstuvwxyz\"\nwhile true\n    set s to s + s\n",
        "let xs be [1]\nwhile true\n    set xs to xs + xs\n",
        "let xs be []\nwhile true\n    set xs to [xs, xs]\n",
        "print(length(range(1000000000000)))\n",
        "let m be {}\nlet i be 0\nwhile true\n    set m[i] to `some longer text than fits {i}`\n    set i to i + 1\n",
        "let s be \"x\"\nwhile true\n    set s to replace(s, \"x\", \"xxxxxxxxxxxxxxxxxxxxxxxxx\")\n",
    ] {
        let ran = Given::program(program).heap(8 << 20).fuel(200_000_000).run();
        let trap = ran.end().trap.clone();
        assert!(trap.as_deref() == Some("memory"), "{program}: {trap:?} {:?}", ran.errors);
    }
}

#[test]
fn deep_programs_and_deep_data_end_cleanly() {
    let deep = format!("print({}1{})", "(".repeat(100_000), ")".repeat(100_000));
    assert!(Given::program(&deep).run().errors[0].contains("nested too deeply"));
    let lists = format!("print({}{})", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Given::program(&lists).run().errors[0].contains("nested too deeply"));
    let minus = format!("print({}1)", "- ".repeat(100_000));
    assert!(Given::program(&minus).run().errors[0].contains("nested too deeply"));
    let nots = format!("print({}true)", "not ".repeat(100_000));
    assert!(Given::program(&nots).run().errors[0].contains("nested too deeply"));
    let sum = format!("print(0{})", " + 1".repeat(100_000));
    assert_eq!(Given::program(&sum).run().output, ["100000"]);
    let mut blocks = String::new();
    for i in 0..3000 {
        blocks.push_str(&format!("{}when true\n", "    ".repeat(i)));
    }
    assert!(Given::program(&blocks).run().errors[0].contains("nested too deeply"));
    let data = "let xs be []\neach i in range(200000)\n    set xs to [xs]\nlet ys be xs\nprint(xs == ys, length(text(xs)))\n";
    assert_eq!(Given::program(data).run().output, ["true 400002"]);
}

#[test]
fn recursion_has_its_limit() {
    let nested = |n: u32| {
        format!("task f(n)\n    when n == 0\n        give 0\n    give 1 + f(n - 1)\nprint(f({n}))\n")
    };
    assert_eq!(Given::program(&nested(2900)).run().output, ["2900"]);
    let ran = Given::program(&nested(3500)).run();
    assert!(ran.errors[0].ends_with("maximum recursion depth exceeded"), "{:?}", ran.errors);
    let through = "task f(n)\n    when n == 0\n        give [0]\n    give apply((x) => f(n - 1), [1])\nprint(length(f(900)))\n";
    assert_eq!(Given::program(through).run().output, ["1"]);
    // Frames of builtins are no calls of tasks: two of those in each level.
    let both = |n: u32| {
        format!(
            "task f(k)\n    when k == 0\n        give 0\n    give apply([k], (x) => 1 + f(x - 1))[0]\nprint(f({n}))\n"
        )
    };
    assert_eq!(Given::program(&both(1450)).run().output, ["1450"]);
    let ran = Given::program(&both(1750)).run();
    assert!(ran.errors[0].ends_with("maximum recursion depth exceeded"), "{:?}", ran.errors);
    let caught = "task f(k)\n    give apply([k], (x) => f(x))\neach i in range(3)\n    try\n        f(1)\n    recover e\n        print(e)\ntask g(k)\n    when k == 0\n        give 0\n    give 1 + g(k - 1)\nprint(g(2900))\n";
    let ran = Given::program(caught).run();
    assert_eq!(ran.output[3..], ["2900"]);
    assert!(ran.output[..3].iter().all(|o| o == "maximum recursion depth exceeded"), "{:?}", ran.output);
}

#[test]
fn cycles_of_closures_do_not_pile_up() {
    let program = "each i in range(200000)\n    task f(n)\n        when n == 0\n            give 0\n        give f(n - 1)\n    f(1)\n";
    let ran = Given::program(program).heap(4 << 20).run();
    assert_eq!(ran.errors, Vec::<String>::new());
}

#[test]
fn every_byte_comes_back() {
    let before = runtime::partition::heap::current();
    let program = "let m be {}\neach i in range(1000)\n    set m[i] to [i, `text number {i} here`]\ntask f()\n    give f\nlet g be f()\n";
    Given::program(program).run();
    assert_eq!(format!("{before:?}"), format!("{:?}", runtime::partition::heap::current()));
}

/// Fuel pays for what is allocated too, so that a copy each turn shows as a square.
#[test]
fn growing_along_a_path_costs_the_same_each_turn() {
    let text = "a text that is longer than a short one";
    for (before, turn, module) in [
        ("let m be {\"xs\": []}", "set m.xs to append(m.xs, i)", ""),
        ("let m be {\"xs\": []}", "set m[\"xs\"] to m[\"xs\"] + [i]", ""),
        ("let m be {\"xs\": []}", "set m.xs to m.xs + [i] + [i]", ""),
        ("let m be {\"xs\": []}", "set m.xs to insert(m.xs, length(m.xs), i)", ""),
        ("let m be [[]]", "set m[0] to append(m[0], i)", ""),
        ("let m be [[]]", "set m[0 - 1] to m[0 - 1] + [i]", ""),
        ("let m be {\"t\": \"\"}", &format!("set m.t to m.t + \"{text}\""), ""),
        ("let m be {\"c\": {}}", "set m.c to merge(m.c, {i: i})", ""),
        ("let m be {\"a\": {\"b\": [1, []]}}", "set m.a.b[1] to append(m.a.b[1], i)", ""),
        ("let m be {\"a\": {\"b\": [1, []]}}", "set m.a.b[1] to m.a.b[1] + [i]", ""),
        ("type T\n    xs: list\nlet m be T([])", "set m.xs to append(m.xs, i)", ""),
        ("type T\n    xs: list\nlet m be [T([])]", "set m[0].xs to xs of m[0] + [i]", ""),
        // A global, because a task writes it; a captured variable; one of a task's own.
        ("let m be {\"xs\": []}\ntask f(i)\n    set m.xs to append(m.xs, i)", "f(i)", ""),
        ("let m be {\"xs\": []}\ntask f(i)\n    set m.xs to m.xs + [i]", "f(i)", ""),
        (
            "task maker()\n    let m be {\"xs\": []}\n    task f(i)\n        set m.xs to append(m.xs, i)\n    give f\nlet f be maker()",
            "f(i)",
            "",
        ),
        ("use \"./m.syn\" as m", "set m.X to append(m.X, i)", "export let X be []\n"),
        ("use \"./m.syn\" as m", "set m.X.b to m.X.b + [i]", "export let X be {\"b\": []}\n"),
    ] {
        let cost = |turns: u32| {
            let program = format!("{before}\neach i in range({turns})\n    {turn}\n");
            let ran = Given::program(&program).module("m.syn", module).run();
            assert_eq!(ran.errors, Vec::<String>::new(), "{program}");
            ran.end().fuel
        };
        let (some, more) = (cost(2000), cost(4000));
        assert!(more < some * 5 / 2, "{before} … {turn}: {some}, then {more}");
    }
}

/// Decimals have a cap, and what they cost below it is paid before the work.
#[test]
fn decimals_end_in_their_cap_or_in_the_fuel() {
    for program in [
        "let d be 1e-10000d\nprint(d * d * d * d * d * d * d)\n",
        "let d be 1e-10000d\neach i in range(19)\n    set d to d * d\n",
        "let d be 1.1d\nwhile true\n    set d to d * d\n",
        "let d be 1d\neach i in range(600000)\n    set d to d / 1e10000d\n",
        "print(product([1e-10000d, 1e-10000d]))\n",
        "print(mean([1e-10000d, 0d, 0d]))\n",
        "print(1d + 2**300000)\n",
        "print(decimal(2**300000))\n",
        "print(0.1d ** -20000)\n",
    ] {
        let ran = Given::program(program).fuel(30_000_000).heap(64 << 20).run();
        assert!(ran.errors[0].contains("decimal is too large"), "{program}: {:?}", ran.errors);
    }
    let long = "let d be 1e-5000d + 1e9000d\nlet e be 1e-10000d + 1d\n";
    for endless in [
        "let x be d + e",
        "let x be e * 3d - e",
        "let x be d / e",
        "let x be d // 1e-5000d",
        "let x be d % e",
        "let x be e < 1d",
        "let x be e == 1.0d",
        "let x be text(d)",
        "let x be json_encode([d])",
        "let x be float(d)",
        "let x be round(e)",
        "let x be round_to(e, -3)",
        "let x be unique([e])",
    ] {
        let ran = Given::program(&format!("{long}while true\n    {endless}\n")).fuel(100_000).run();
        assert_eq!(ran.end().trap.as_deref(), Some("fuel"), "{endless}: {:?}", ran.errors);
    }
    // Below the cap all is exact, and an integer of any length is compared.
    let fine = "print(1e-5000d * 1e-5000d == 1e-10000d)\nprint(1d < 2**300000)\nprint(-(2**300000) < 1e-3d)\n\
                print(decimal(\"1e-9223372036854775808\", \"none\"))\n";
    assert_eq!(Given::program(fine).run().output, ["true", "true", "true", "none"]);
}

#[test]
fn a_decimal_and_a_float_are_no_keys_of_one_grouping() {
    for grouping in [
        "group_by([1d, 1.0], (x) => x)",
        "group_by([1.5, 2.25d], (x) => x)",
        "count_by([1.5d, 1.0], (x) => x)",
        "unique([1.0, 1d])",
        "mode([1d, 2.0])",
    ] {
        let ran = Given::program(&format!("print({grouping})\n")).run();
        assert!(ran.errors[0].contains("cannot mix decimal and float"), "{grouping}: {:?}", ran.errors);
    }
    let fine = "print(unique([1d, 1, 1.0d, 2.5d, 2.50d, true, 1e30d, 10**30]))\nprint(mode([1.5, 1.5, 2]))\n";
    assert_eq!(Given::program(fine).run().output, ["[1, 2.5, 1000000000000000000000000000000]", "1.5"]);
}

#[test]
fn an_integer_beyond_a_float_is_no_infinity() {
    for name in ["sqrt", "ln", "log10", "log2", "exp"] {
        let ran = Given::program(&format!("print({name}(10**400))\n")).run();
        assert!(
            ran.errors[0].contains(&format!("{name}: the integer is too large for a float")),
            "{:?}",
            ran.errors
        );
    }
    let fine = "print(log10(10**300))\nprint(sqrt(inf))\n";
    assert_eq!(Given::program(fine).run().output, ["300.0", "inf"]);
}

/// The living are counted, and the ended are kept in a bounded number of rows.
#[test]
fn agents_may_be_started_without_end_while_few_live() {
    let program = |n: u32| {
        format!(
            "agent W\n    signal \"r\"\neach i in range({n})\n    spawn W\n    wait_for \"r\" as x\n\
             print(length(agents()))\nprint(agents()[-1][\"id\"])\n"
        )
    };
    let once = Given::program(&program(1200)).run();
    assert_eq!(once.output, ["1000", "W_1199"], "{:?}", once.errors);
    let more = Given::program(&program(2400)).run();
    assert_eq!(more.output, ["1000", "W_2399"]);
    assert!(more.end().heap_peak < once.end().heap_peak + 4096);
    let living = "agent W\n    wait_for \"never\" timeout 0.1 as x\neach i in range(1001)\n    spawn W\n";
    let ran = Given::program(living).run();
    assert!(ran.errors[0].contains("too many agents (1000 live at once)"), "{:?}", ran.errors);
    // One that failed long ago still makes the program fail, and is told.
    let failing = "agent Bad\n    raise \"lost\"\nspawn Bad\n";
    let ran = Given::program(&format!("{failing}{}", program(1200))).run();
    assert_eq!(ran.end().exit, 1);
    assert!(ran.errors.iter().any(|e| e.contains("lost")), "{:?}", ran.errors);
}

#[test]
fn names_that_are_somewhere_else_say_where() {
    for (program, says) in [
        ("print(request)", "pass it as a parameter"),
        ("task f()\n    give params\nf()", "pass it as a parameter"),
        ("eth_call(1)", "eth_call: this family of builtins isn't built into this runtime yet"),
        ("mnemonic_generate()", "mnemonic_generate: this family"),
        ("print(evm_address(1))", "evm_address: this family"),
        ("print(json_encode(pipe()))", "is a pipe, not data"),
        ("print(json_encode(rng(1)))", "is a generator, not data"),
    ] {
        let ran = Given::program(&format!("{program}\n")).run();
        assert!(ran.errors[0].contains(says), "{program}: {:?}", ran.errors);
    }
    // A program's own name stands before the family.
    assert_eq!(
        Given::program("let eth_call be 3\nlet request be 4\nprint(eth_call + request)\n").run().output,
        ["7"]
    );
}

#[test]
fn agents_stand_wherever_a_statement_may() {
    let body = "agent Z\n    share n * 2 as \"v\"\n    signal \"r\"\nspawn Z with n = 21\nwait_for \"r\" as x\nobserve \"v\" as v\nprint(v)\n";
    let inner = body.replace('\n', "\n    ");
    for program in [
        body.to_owned(),
        format!("when true\n    {inner}\n"),
        format!("task f()\n    {inner}\nf()\n"),
        format!("each i in [1]\n    {inner}\n"),
        format!("try\n    {inner}\nrecover e\n    print(e)\n"),
        format!("sandbox\n    {inner}\n"),
        format!("match 1\n    is 1\n        {}\n", body.replace('\n', "\n        ")),
    ] {
        let ran = Given::program(&program).run();
        assert_eq!(ran.output, ["42"], "{program}: {:?}", ran.errors);
    }
    let told =
        Given::program(&format!("test \"t\"\n    {}\n", inner.replace("print(v)", "assert_eq(v, 42)")))
            .test();
    assert!(told.iter().any(|line| line == "✓ t"), "{told:?}");
    // What is around one in a task isn't the agent's: it has its own copy of the file's names.
    let around = "task f()\n    let k be 1\n    agent Z\n        print(k)\n    spawn Z\nf()\n";
    let ran = Given::program(around).run();
    assert!(ran.errors[0].contains("agent 'Z' can't use 'k' from around it"), "{:?}", ran.errors);
    let given = around.replace("spawn Z", "spawn Z with k = k");
    assert_eq!(Given::program(&given).run().output, ["[Z] 1"]);
    let of_file = "let k be 1\ntask f()\n    agent Z\n        print(k)\n    spawn Z\nf()\n";
    assert_eq!(Given::program(of_file).run().output, ["[Z] 1"]);
}
