//! What a start costs, whole process: `cargo bench -p launcher --bench start [ROUNDS]`.
//!
//! All contenders take turns in one run, and the figures of one run only are compared. The kernel's own floor for a jail
//! and other tools stand beside them in `scripts/bench-start.sh`.
#![expect(clippy::print_stdout, reason = "the figures")]

use std::{
    error::Error,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Starts of each contender.
const ROUNDS: usize = 100;

/// One way to start something.
struct Contender {
    name: &'static str,
    words: Vec<String>,
    took: Vec<Duration>,
}

impl Contender {
    fn new(name: &'static str, words: &[&str]) -> Self {
        Self { name, words: words.iter().map(|word| (*word).to_owned()).collect(), took: Vec::new() }
    }

    fn start(&self) -> Result<Duration, Box<dyn Error>> {
        let before = Instant::now();
        let status = Command::new(&self.words[0])
            .args(&self.words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        let took = before.elapsed();
        if status.success() { Ok(took) } else { Err(format!("{}: {status}", self.name).into()) }
    }

    /// The time that `percent` of the starts did not exceed.
    fn at(&self, percent: usize) -> Duration {
        let place = (self.took.len() * percent / 100).min(self.took.len() - 1);
        self.took[place]
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (source, noop, program, report) = (path("noop.c"), path("noop"), path("hello.syn"), path("report"));
    std::fs::write(&source, "int main(void) { return 0; }\n")?;
    std::fs::write(&program, "print(\"hello\")\n")?;
    let compiled = Command::new("cc").args(["-O2", "-static", "-o", &noop, &source]).status()?;
    if !compiled.success() || !Path::new(&noop).exists() {
        return Err("the no-op takes a C compiler and a static libc".into());
    }
    let thirdwall = env!("CARGO_BIN_EXE_thirdwall");
    let exec = [thirdwall, "exec", "--policy", "static", "--report", &report, "--", &noop];
    let mut contenders = [
        Contender::new("no jail", &[&noop]),
        Contender::new("exec", &exec),
        Contender::new("run --sandbox", &[thirdwall, "run", "--sandbox", &program]),
    ];
    for round in 0..=rounds {
        for contender in &mut contenders {
            let took = contender.start()?;
            // The first round makes what later ones find: the pinned network namespace, warm caches.
            if round > 0 {
                contender.took.push(took);
            }
        }
    }
    println!("{:<16}{:>12}{:>12}{:>12}   ({rounds} rounds)", "", "median", "p90", "p99");
    for contender in &mut contenders {
        contender.took.sort_unstable();
        let micros = |percent| format!("{} us", contender.at(percent).as_micros());
        println!("{:<16}{:>12}{:>12}{:>12}", contender.name, micros(50), micros(90), micros(99));
    }
    Ok(())
}
