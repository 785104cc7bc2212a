//! The same numbers here and in python3: how floats are written, and exact arithmetic of integers of any size.
//!
//! Half a case is a float's rendering, half a pair of integers under one operator: 100,000 in all, the same each time.

use crate::harness::Given;
use std::io::Write;
use std::process::{Command, Stdio};

const FLOATS: usize = 50_000;
/// Each pair is seen under four operators.
const PAIRS: usize = 12_500;

const PYTHON: &str = r#"
import struct, sys
for line in sys.stdin:
    kind, *rest = line.split()
    if kind == "f":
        print(repr(struct.unpack("<d", int(rest[0]).to_bytes(8, "little"))[0]))
    else:
        a, b = map(int, rest)
        results = [a + b, a - b, a * b] if kind == "i" else [a // b, a % b, int(a < b)]
        print(*results, a ** (abs(b) % 9))
"#;

/// splitmix64: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Any bits, halves and thirds of small numbers, powers of two and ten, and the borders between the ways to write one.
    fn float(&mut self) -> f64 {
        let n = self.next();
        let small = (self.next() % 20_001) as f64 - 10_000.0;
        match n % 6 {
            0 | 1 => f64::from_bits(self.next()),
            2 => small / [1.0, 2.0, 3.0, 7.0, 10.0, 100.0, 1e5][(n >> 8) as usize % 7],
            3 => 2f64.powi((n >> 8) as i32 % 1074),
            4 => format!("{}e{}", self.next() % 100_000, (n >> 8) as i64 % 40 - 20).parse().unwrap_or(0.0),
            _ => {
                [1e16, 9999999999999998.0, 1e-4, 9.999e-5, 0.0, -0.0, f64::MAX, 5e-324][(n >> 8) as usize % 8]
            }
        }
    }

    /// An integer of up to some 60 digits, often near where small ones end.
    fn integer(&mut self) -> String {
        let sign = if self.next().is_multiple_of(2) { "" } else { "-" };
        match self.next() % 4 {
            0 => format!("{sign}{}", self.next() % 1000),
            1 => format!("{sign}{}", self.next() >> (self.next() % 64)),
            2 => format!("{sign}{}", u128::from(self.next()) * u128::from(self.next())),
            _ => {
                format!("{sign}{}{:019}{:019}", 1 + self.next() % 1_000_000, self.next() / 2, self.next() / 2)
            }
        }
    }
}

fn python(input: &str) -> Option<Vec<String>> {
    let mut child = Command::new("python3")
        .args(["-c", PYTHON])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().expect("it was asked for");
    let bytes = input.as_bytes().to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&bytes));
    let done = child.wait_with_output().expect("it was started");
    feeder.join().expect("it only writes").expect("python3 reads all of it");
    assert!(done.status.success());
    Some(String::from_utf8(done.stdout).expect("numbers").lines().map(str::to_owned).collect())
}

#[test]
fn numbers_are_those_of_python() {
    let mut random = Random(20_261_130);
    let floats: Vec<f64> = (0..FLOATS).map(|_| random.float()).collect();
    let pairs: Vec<(String, String)> = (0..PAIRS)
        .map(|_| {
            let (a, b) = (random.integer(), random.integer());
            let zero = b.trim_start_matches('-').bytes().all(|c| c == b'0');
            (a, if zero { "7".to_owned() } else { b })
        })
        .collect();
    let mut input = String::new();
    floats.iter().for_each(|f| input.push_str(&format!("f {}\n", f.to_bits())));
    for (i, (a, b)) in pairs.iter().enumerate() {
        input.push_str(&format!("{} {a} {b}\n", if i % 2 == 0 { "i" } else { "d" }));
    }
    let Some(wanted) = python(&input) else {
        println!("skipped: python3 is not installed");
        return;
    };
    assert_eq!(wanted.len(), FLOATS + PAIRS);
    let mut wrong = Vec::new();
    for (f, wanted) in floats.iter().zip(&wanted) {
        let ours = runtime::vm::number::float(*f);
        if ours != *wanted {
            wrong.push(format!("{:#x}: {ours}, python {wanted}", f.to_bits()));
        }
    }
    let mut program = String::new();
    for (i, (a, b)) in pairs.iter().enumerate() {
        let results = if i % 2 == 0 {
            format!("{a} + {b}, {a} - {b}, {a} * {b}")
        } else {
            format!("{a} // {b}, {a} % {b}, when {a} < {b} then 1 otherwise 0")
        };
        // The sign of a literal is an operator that binds less than `**`.
        program.push_str(&format!("print({results}, ({a}) ** (abs({b}) % 9))\n"));
    }
    let ran = Given::program(&program).run();
    assert_eq!(ran.errors, Vec::<String>::new());
    for (i, (ours, wanted)) in ran.output.iter().zip(&wanted[FLOATS..]).enumerate() {
        if ours != wanted {
            wrong.push(format!("{:?}: {ours}, python {wanted}", pairs[i]));
        }
    }
    assert_eq!(ran.output.len(), PAIRS);
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}
