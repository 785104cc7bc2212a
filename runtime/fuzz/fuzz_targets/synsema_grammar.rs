//! Programs made from the grammar, so that most of them run: deep nesting, every operator, every kind of statement, and
//! builtins called with whatever is at hand. Run twice: same fuel, same output.
#![no_main]

use libfuzzer_sys::{
    arbitrary::{Result, Unstructured},
    fuzz_target,
};
use runtime::{
    partition::{Logs, Profile, Settings, host::Memory},
    source::Source,
    synsema::{self, NoModules, program},
};
use std::{cell::RefCell, fmt::Write, rc::Rc};

const NAMES: [&str; 6] = ["a", "b", "c", "xs", "m", "f"];
const OPERATORS: [&str; 15] =
    ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", ">=", "and", "or", "in", "|>"];
const BUILTINS: [&str; 40] = [
    "length", "text", "number", "append", "range", "sort", "reverse", "map", "filter", "reduce", "keys", "values", "has",
    "join", "split", "replace", "upper", "trim", "contains", "slice", "insert", "remove", "merge", "zip", "sum", "min",
    "max", "abs", "round", "json_encode", "json_decode", "type_of", "repeat", "pad_left", "unique", "flatten", "some",
    "every", "sort_by", "group_by",
];

fn expression(u: &mut Unstructured<'_>, out: &mut String, depth: u32) -> Result<()> {
    let deep = if depth == 0 { 7 } else { 17 };
    match u.int_in_range(0..=deep)? {
        0 => write!(out, "{}", u.arbitrary::<i16>()?.unsigned_abs()).unwrap_or(()),
        1 => write!(out, "{}.5", u.arbitrary::<u8>()?).unwrap_or(()),
        2 => out.push_str("99999999999999999999"),
        3 => write!(out, "\"{}\"", ["", "a", "é😀", "long text", "1,2"][u.choose_index(5)?]).unwrap_or(()),
        4 => out.push_str(["true", "false", "nothing", "[]", "{}"][u.choose_index(5)?]),
        5..=7 => out.push_str(u.choose(&NAMES)?),
        8 | 9 => {
            out.push('(');
            expression(u, out, depth - 1)?;
            write!(out, " {} ", u.choose(&OPERATORS)?).unwrap_or(());
            expression(u, out, depth - 1)?;
            out.push(')');
        }
        10 => {
            out.push('[');
            for _ in 0..u.int_in_range(0..=3)? {
                expression(u, out, depth - 1)?;
                out.push_str(", ");
            }
            out.push(']');
        }
        11 => {
            out.push_str("{\"k\": ");
            expression(u, out, depth - 1)?;
            out.push('}');
        }
        12 | 13 => {
            write!(out, "{}(", u.choose(&BUILTINS)?).unwrap_or(());
            for place in 0..u.int_in_range(0..=3)? {
                if place > 0 {
                    out.push_str(", ");
                }
                expression(u, out, depth - 1)?;
            }
            out.push(')');
        }
        14 => {
            write!(out, "(({}) => ", u.choose(&NAMES)?).unwrap_or(());
            expression(u, out, depth - 1)?;
            out.push(')');
        }
        15 => {
            expression(u, out, depth - 1)?;
            out.push('[');
            expression(u, out, depth - 1)?;
            out.push(']');
        }
        16 => {
            out.push_str("(when ");
            expression(u, out, depth - 1)?;
            out.push_str(" then ");
            expression(u, out, depth - 1)?;
            out.push_str(" otherwise ");
            expression(u, out, depth - 1)?;
            out.push(')');
        }
        _ => {
            out.push_str("`t{");
            expression(u, out, depth - 1)?;
            out.push_str("}`");
        }
    }
    Ok(())
}

fn block(u: &mut Unstructured<'_>, out: &mut String, indent: usize, depth: u32) -> Result<()> {
    for _ in 0..u.int_in_range(1..=3)? {
        statement(u, out, indent, depth)?;
    }
    Ok(())
}

fn statement(u: &mut Unstructured<'_>, out: &mut String, indent: usize, depth: u32) -> Result<()> {
    let pad = "    ".repeat(indent);
    let kinds = if depth == 0 { 3 } else { 10 };
    out.push_str(&pad);
    let line = |u: &mut Unstructured<'_>, out: &mut String, head: &str, nested: bool| -> Result<()> {
        out.push_str(head);
        expression(u, out, 3)?;
        out.push('\n');
        if nested { block(u, out, indent + 1, depth - 1) } else { Ok(()) }
    };
    let name = *u.choose(&NAMES)?;
    match u.int_in_range(0..=kinds)? {
        0 => line(u, out, &format!("let {name} be "), false),
        1 => line(u, out, &format!("set {name} to "), false),
        2 => line(u, out, "print", false),
        3 => line(u, out, &format!("set {name}[0] to "), false),
        4 => line(u, out, "when ", true),
        5 => line(u, out, &format!("each {name} in "), true),
        6 => line(u, out, "while ", true),
        7 => {
            writeln!(out, "task {name}(a, b = 1)").unwrap_or(());
            block(u, out, indent + 1, depth - 1)?;
            out.push_str(&pad);
            line(u, out, "    give ", false)
        }
        8 => {
            out.push_str("try\n");
            block(u, out, indent + 1, depth - 1)?;
            writeln!(out, "{pad}recover e").unwrap_or(());
            block(u, out, indent + 1, depth - 1)
        }
        9 => {
            line(u, out, "match ", false)?;
            writeln!(out, "{pad}    is [a, ...b]").unwrap_or(());
            block(u, out, indent + 2, depth - 1)?;
            writeln!(out, "{pad}    is {{k: c}}").unwrap_or(());
            block(u, out, indent + 2, depth - 1)
        }
        _ => {
            out.push_str("sandbox\n");
            block(u, out, indent + 1, depth - 1)
        }
    }
}

fn run(text: &str) -> Option<(u64, Vec<String>)> {
    let loaded = synsema::load(Source::new("fuzz.syn", text), &mut NoModules).ok()?;
    let settings = Settings {
        ceiling: Some(policies::ceiling::Ceiling::sandbox()),
        profile: Profile::Pure,
        fuel: Some(20_000),
        heap: Some(2 << 20),
        logs: Logs::WithOutput,
        ..Settings::trusted()
    };
    let host = Rc::new(RefCell::new(Memory::default()));
    let outcome = program::run(Rc::new(loaded), settings, Box::new(host.clone()));
    let output = host.borrow().output.clone();
    Some((outcome.end.fuel, output))
}

fuzz_target!(|bytes: &[u8]| {
    let mut u = Unstructured::new(bytes);
    let mut text = String::from("let a be 1\nlet b be [3, 1, 2]\nlet c be \"text\"\nlet xs be [[1], [2]]\nlet m be {\"k\": 1}\nlet f be (x) => x\n");
    while !u.is_empty() && text.len() < 20_000 {
        if statement(&mut u, &mut text, 0, 3).is_err() {
            break;
        }
    }
    assert_eq!(run(&text), run(&text), "{text}");
});
