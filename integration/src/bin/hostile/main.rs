#![expect(
    unsafe_code,
    reason = "a native attacker makes system calls that no safe wrapper has, with arguments that none would pass"
)]
//! A hostile native program: it tries one thing and prints what the kernel said.
//!
//! The tests run it twice: inside a jail, where the act must get the stated answer, and outside of any, where the same
//! act must work, or the answer inside would prove nothing.
//!
//! Each act prints lines `NAME ANSWER`, where the answer is `ok`, an errno's name, or what it found.

mod calls;
mod exec;
mod files;
mod local;
mod memory;
mod place;
mod probe;
mod processes;
mod raw;
mod runtime;
mod unjailed;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some((act, arguments)) = words.split_first() else { return ExitCode::from(2) };
    match *act {
        "calls" => calls::make(arguments),
        "foreign-int80" => calls::foreign_int80(),
        "foreign-x32" => calls::foreign_x32(),
        "exec" => exec::attack(arguments),
        "executed" => raw::say("executed", "yes"),
        "files" => files::attack(arguments),
        "local" => local::work(arguments),
        "memory" => memory::attack(arguments),
        "probe" => probe::look(arguments),
        "processes" => processes::attack(arguments),
        "as-runtime-again" => return runtime::jails(arguments),
        "as-runtime" => return runtime::jail(arguments),
        // The launcher's own command line, around this file.
        "run" => return ExitCode::from(launcher::cli::main()),
        "unjailed" => return unjailed::run(arguments),
        launcher::jail::RUNTIME_FLAG => return place::take(),
        unknown => {
            raw::say("unknown-act", unknown);
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
