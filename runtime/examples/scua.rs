//! Runs a SCUA program in this process, without a jail: for development.
//!
//! `scua [--allow LIST] [--cap-set LIST] [--fuel N] [--memory N] FILE [args]`

#![expect(clippy::print_stdout, reason = "an example talks to the terminal")]

use policies::audit::Entry;
use policies::ceiling::Ceiling;
use runtime::partition::host::Host;
use runtime::scua::program::{self, Grants};
use std::process::ExitCode;
use std::rc::Rc;

struct Console(Vec<String>);

impl Host for Console {
    fn print(&mut self, text: &str) {
        println!("{text}");
    }
    fn eprint(&mut self, text: &str) {
        eprintln!("{text}");
    }
    fn audit(&mut self, _entry: Entry) {}
    fn now(&mut self) -> f64 {
        std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64())
    }
    fn args(&self) -> Vec<String> {
        self.0.clone()
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let mut grants = Grants::nothing();
    let file = loop {
        let Some(word) = words.next() else {
            eprintln!("scua: no file");
            return ExitCode::from(2);
        };
        let mut value = || words.next().unwrap_or_default();
        match word.as_str() {
            "--allow" => {
                grants.granted =
                    Ceiling::parse(&format!("stdout,{}", value())).unwrap_or_else(|_| Ceiling::none())
            }
            "--cap-set" => grants.ceiling = Ceiling::parse(&value()).ok(),
            "--fuel" => grants.fuel = value().parse().ok(),
            "--memory" => grants.memory = value().parse().ok(),
            _ => break word,
        }
    };
    let source = match std::fs::read(&file) {
        Ok(source) => source,
        Err(e) => {
            eprintln!("scua: {file}: {e}");
            return ExitCode::from(2);
        }
    };
    let program = match runtime::scua::load(&file, &source, &[]) {
        Ok(program) => Rc::new(program),
        Err(error) => {
            let text = String::from_utf8_lossy(&source);
            eprintln!("{}", program::refused(&error, &file, &text).text);
            return ExitCode::from(1);
        }
    };
    let outcome = program::run(program, grants, Vec::new(), Box::new(Console(words.collect())));
    for error in &outcome.errors {
        eprintln!("{}", error.text);
    }
    ExitCode::from(u8::try_from(outcome.end.exit).unwrap_or(1))
}
