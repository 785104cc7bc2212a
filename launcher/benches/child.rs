//! What a child program costs beside a start of the same program, and how much longer a brokered open takes than a direct
//! one: `cargo bench -p launcher --bench child [ROUNDS]`.
//!
//! All take turns in one run, and the figures of one run only are compared. A program that is running gets a line for each
//! act and answers when it is done, so that its own start is in no figure.
#![expect(clippy::print_stdout, reason = "the figures")]

use std::{
    error::Error,
    fs::File,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

/// Rounds of each contender.
const ROUNDS: usize = 100;
/// Opens in one line's act: so many that the line itself is no part of the figure.
const OPENS: u32 = 200;

/// The child, and the program that starts it again and again.
const CHILD: &str = "print(2 + 3)\n";
const PARENT: &str = "require stdin\nrequire sandbox_run\nlet line be read_line()\nwhile line != nothing\n    \
    let r be run_program(\"print(2 + 3)\")\n    print(r[\"output\"][0])\n    set line to read_line()\n";
/// One that looks at a file, and one that only counts.
const OPENER: &str = "require stdin\nrequire file.read(\"a.txt\")\nlet line be read_line()\nwhile line != nothing\n    \
    let n be 0\n    while n < 200\n        let t be read_file(\"a.txt\")\n        set n to n + 1\n    print(5)\n    \
    set line to read_line()\n";

/// A program that runs, and answers each line with one.
struct Running {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Running {
    fn start(folder: &Path, name: &str, text: &str, ceiling: &str) -> Result<Self, Box<dyn Error>> {
        std::fs::write(folder.join(name), text)?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_thirdwall"))
            .args(["run", "--wall", "none", "--cpu", "none", "--cap-set", ceiling, name])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        Ok(Self { child, to, from: BufReader::new(from) })
    }

    fn turn(&mut self) -> Result<Duration, Box<dyn Error>> {
        let before = Instant::now();
        self.to.write_all(b"go\n")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let took = before.elapsed();
        if line == "5\n" { Ok(took) } else { Err(format!("it says: {line}").into()) }
    }

    fn end(self) -> Result<(), Box<dyn Error>> {
        let Self { mut child, to, from } = self;
        drop((to, from));
        child.wait()?;
        Ok(())
    }
}

fn cold(folder: &Path) -> Result<Duration, Box<dyn Error>> {
    let before = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_thirdwall"))
        .args(["run", "--profile", "pure", "--sandbox", "child.syn"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()?;
    let took = before.elapsed();
    if output.stdout == b"5\n" { Ok(took) } else { Err(format!("{output:?}").into()) }
}

/// So many times what the program does with the file, done directly.
fn direct(folder: &Path) -> Result<Duration, Box<dyn Error>> {
    let path = folder.join("a.txt");
    let before = Instant::now();
    for _ in 0..OPENS {
        std::hint::black_box(std::io::read_to_string(File::open(&path)?)?);
    }
    Ok(before.elapsed())
}

fn at(took: &[Duration], percent: usize) -> Duration {
    took[(took.len() * percent / 100).min(took.len() - 1)]
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    std::fs::write(folder.join("child.syn"), CHILD)?;
    std::fs::write(folder.join("a.txt"), "text\n")?;
    let mut parent = Running::start(folder, "parent.syn", PARENT, "stdin,stdout,time,sandbox_run")?;
    let mut opener = Running::start(folder, "opener.syn", OPENER, "stdin,stdout,file.read=a.txt")?;
    let mut took = [const { Vec::new() }; 4];
    for round in 0..=rounds {
        let turn = [cold(folder)?, parent.turn()?, opener.turn()?, direct(folder)?];
        // The first round makes what later ones find.
        if round > 0 {
            for (all, one) in took.iter_mut().zip(turn) {
                all.push(one);
            }
        }
    }
    parent.end()?;
    opener.end()?;
    took.iter_mut().for_each(|all| all.sort_unstable());
    let [cold, child, brokered, direct] = &took;
    println!("{:<26}{:>12}{:>12}{:>12}   ({rounds} rounds)", "", "median", "p90", "least");
    let line = |name: &str, all: &[Duration], by: u32| {
        let micros = |time: Duration| format!("{:.1} us", time.as_nanos() as f64 / 1000.0 / f64::from(by));
        println!(
            "{name:<26}{:>12}{:>12}{:>12}",
            micros(at(all, 50)),
            micros(at(all, 90)),
            micros(at(all, 0))
        );
    };
    line("run, cold", cold, 1);
    line("run_program", child, 1);
    line("read_file by the broker", brokered, OPENS);
    line("open and read directly", direct, OPENS);
    let ratio = |percent| at(child, percent).as_secs_f64() / at(cold, percent).as_secs_f64();
    println!("\nrun_program / run: {:.2} in the median, {:.2} at the least", ratio(50), ratio(0));
    let more = |percent| {
        (at(brokered, percent).saturating_sub(at(direct, percent)) / OPENS).as_nanos() as f64 / 1000.0
    };
    println!("a brokered open takes {:.1} us more in the median, {:.1} us at the least", more(50), more(0));
    Ok(())
}
