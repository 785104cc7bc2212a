//! Properties of the language.

use crate::harness::Given;
use proptest::prelude::*;

fn printed(program: &str) -> Vec<String> {
    let ran = Given::program(program).run();
    assert_eq!(ran.errors, Vec::<String>::new(), "{program}");
    ran.output
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_float_is_read_back_as_it_was_printed(bits in any::<u64>()) {
        let f = f64::from_bits(bits);
        prop_assume!(f.is_finite());
        let text = runtime::vm::number::float(f);
        prop_assert_eq!(text.parse::<f64>().expect("a number").to_bits(), f.to_bits());
        let literal = text.trim_start_matches('-');
        prop_assert_eq!(printed(&format!("print({literal})")), [literal]);
    }

    #[test]
    fn integers_of_any_size_add_and_divide_exactly(a in any::<i128>(), b in any::<i64>()) {
        prop_assume!(b != 0);
        let (whole, rest) = (a.div_euclid(i128::from(b)), a.rem_euclid(i128::from(b)));
        // The language floors; Rust's Euclid agrees for positive divisors, and mirrors for negative ones.
        let (whole, rest) = if b < 0 && rest != 0 { (whole - 1, rest + i128::from(b)) } else { (whole, rest) };
        let out = printed(&format!("let a be {a}\nlet b be {b}\nprint(a // b, a % b, a == b * (a // b) + a % b)"));
        prop_assert_eq!(&out[0], &format!("{whole} {rest} true"));
    }

    #[test]
    fn sort_is_a_sorted_permutation(xs in prop::collection::vec(-50i64..50, 0..40)) {
        let list = format!("{xs:?}");
        let mut sorted = xs;
        sorted.sort_unstable();
        prop_assert_eq!(&printed(&format!("print(sort({list}))"))[0], &format!("{sorted:?}"));
        sorted.reverse();
        prop_assert_eq!(&printed(&format!("print(sort({list}, true))"))[0], &format!("{sorted:?}"));
    }

    #[test]
    fn nobody_sees_that_copies_are_late(
        acts in prop::collection::vec((0usize..3, 0usize..3, 0usize..4, 0i64..9), 1..25),
    ) {
        // Three variables hold lists of four; each act either copies one to another or writes an element.
        let mut model = [[0i64; 4]; 3];
        let mut program = String::from("let v0 be [0, 0, 0, 0]\nlet v1 be [0, 0, 0, 0]\nlet v2 be [0, 0, 0, 0]\n");
        program.push_str("task touch(xs)\n    set xs[0] to 99\n    give xs\n");
        for (to, from, index, value) in acts {
            if value == 0 && to != from {
                model[to] = model[from];
                program.push_str(&format!("set v{to} to v{from}\n"));
            } else if value == 1 {
                program.push_str(&format!("touch(v{to})\n"));
            } else {
                model[to][index] = value;
                program.push_str(&format!("set v{to}[{index}] to {value}\n"));
            }
        }
        program.push_str("print(v0, v1, v2)");
        let wanted = model.map(|m| format!("{m:?}")).join(" ");
        prop_assert_eq!(&printed(&program)[0], &wanted);
    }

    #[test]
    fn what_was_used_is_just_enough(n in 1u32..200, k in 1u32..20) {
        let program = format!(
            "task f(x)\n    give [x, `text number {{x}}`]\nlet m be {{}}\neach i in range({n})\n    set m[i % {k}] to f(i)\n"
        );
        let used = Given::program(&program).run().end().fuel;
        prop_assert!(Given::program(&program).fuel(used).run().errors.is_empty());
        let short = Given::program(&program).fuel(used - 1).run();
        prop_assert_eq!(short.end().trap.as_deref(), Some("fuel"));
    }

    #[test]
    fn texts_survive_json(text in any::<String>()) {
        let literal: String = text.chars().map(|c| format!("\\u{{{:x}}}", u32::from(c))).collect();
        let out = printed(&format!("let t be \"{literal}\"\nprint(json_decode(json_encode(t)) == t, length(t))"));
        prop_assert_eq!(&out[0], &format!("true {}", text.chars().count()));
    }
}
