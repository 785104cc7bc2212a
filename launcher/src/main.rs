//! The command: reads what was typed and ends with the exit code of the table in `launcher::cli::exit`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(launcher::cli::main())
}
