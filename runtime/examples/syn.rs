//! Runs a Synsema file in this process, without a jail: for trying the language while working on the runtime.
//!
//! `cargo run -p runtime --example syn -- [--test] [--cap-set LIST] [--fuel N] [--stats] FILE`

#![expect(clippy::print_stdout, reason = "it is a command")]

use policies::audit::Entry;
use runtime::partition::host::Host;
use runtime::partition::{Profile, Settings};
use runtime::source::Source;
use runtime::synsema::{self, Loader, program};
use std::io::Write;
use std::rc::Rc;

struct Terminal {
    out: std::io::BufWriter<std::io::Stdout>,
    audit: bool,
}

impl Host for Terminal {
    fn print(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
    }
    fn eprint(&mut self, text: &str) {
        let _ = self.out.flush();
        eprintln!("{text}");
    }
    fn audit(&mut self, entry: Entry) {
        if self.audit {
            eprintln!("{}", serde_json::to_string(&entry).unwrap_or_default());
        }
    }
    fn now(&mut self) -> f64 {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
    }
    fn sleep(&mut self, seconds: f64) {
        let _ = self.out.flush();
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
    }
    fn flush(&mut self) {
        let _ = self.out.flush();
    }
}

struct Files;

impl Loader for Files {
    fn load(&mut self, importer: &str, path: &str) -> Result<(String, String), String> {
        let name = runtime::worker::join(importer, path, false)?;
        let text = std::fs::read_to_string(&name).map_err(|_| format!("Module not found: '{path}'"))?;
        Ok((name, text))
    }
}

fn main() {
    let mut settings = Settings::trusted();
    let mut file = String::new();
    let (mut test, mut audit, mut stats) = (false, false, false);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--test" => test = true,
            "--audit" => audit = true,
            "--stats" => stats = true,
            "--pure" => settings.profile = Profile::Pure,
            "--cap-set" => {
                let list = args.next().unwrap_or_default();
                settings.ceiling = policies::ceiling::Ceiling::parse(&list).ok();
            }
            "--fuel" => settings.fuel = args.next().and_then(|n| n.parse().ok()),
            "--heap" => settings.heap = args.next().and_then(|n| n.parse().ok()),
            _ => file = arg,
        }
    }
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let loaded = synsema::load(Source::new(&file, &text), &mut Files);
    let program = match loaded {
        Ok(program) => Rc::new(program),
        Err(failure) => {
            for error in &failure.errors {
                let frame = runtime::diagnostic::of_load(error, &failure.sources);
                eprintln!("{}", runtime::worker::shown(&frame));
            }
            std::process::exit(1);
        }
    };
    let host = Box::new(Terminal { out: std::io::BufWriter::new(std::io::stdout()), audit });
    let outcome = if test {
        let (results, outcome) = program::test(program, settings, host);
        for result in &results {
            match &result.failure {
                None => println!("✓ {}", result.name),
                Some(reason) => println!("✗ {}: {reason}", result.name),
            }
        }
        outcome
    } else {
        program::run(program, settings, host)
    };
    for error in &outcome.errors {
        eprintln!("{}", runtime::worker::shown(error));
    }
    if stats {
        eprintln!("fuel {} heap peak {}", outcome.end.fuel, outcome.end.heap_peak);
    }
    std::process::exit(outcome.end.exit);
}
