//! The name that the binary was called by decides on the command line: `thirdwall`, or a language's own.

use super::{
    args::{self, Command},
    exit,
};
use crate::error::Error;
use clap::error::ErrorKind;
use std::{env, path::Path};

/// The exit code that the languages' pages give to a wrong call and an unreadable file.
const LANGUAGE_USAGE: u8 = 2;

/// The flag for a program's heap, where `--memory` is the jail's.
const HEAP: &str = "--memory-heap";

/// A name of the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// All commands.
    Thirdwall,
    /// Synsema's commands, with the exit codes and messages of its page.
    Synsema,
    /// SCUA's: a file to run, or `check` and a file.
    Scua,
}

/// The last part of the path that this process was called by.
pub(super) fn called_as() -> Name {
    let called = env::args_os().next().unwrap_or_default();
    match Path::new(&called).file_name().and_then(|name| name.to_str()) {
        Some("synsema") => Name::Synsema,
        Some("scua") => Name::Scua,
        Some(_) | None => Name::Thirdwall,
    }
}

/// Whether `--cap-set` is followed by a flag: to the parser it is that flag which is wrong.
fn ceiling_without_value() -> bool {
    let mut words = env::args_os().skip(1).take_while(|word| word != "--").peekable();
    while let Some(word) = words.next() {
        if word == "--cap-set" && words.peek().is_some_and(|next| next.as_encoded_bytes().starts_with(b"--"))
        {
            return true;
        }
    }
    false
}

/// Whether a flag stands without the value that it takes.
fn needs_value(shown: &clap::Error) -> bool {
    let given = shown.get(clap::error::ContextKind::InvalidValue).map(ToString::to_string);
    shown.kind() == ErrorKind::InvalidValue && given.is_none_or(|given| given.is_empty())
}

impl Name {
    /// Reads the command line; what can't be read is told, and the exit code given.
    pub(super) fn parse(self) -> Result<Command, u8> {
        if self == Self::Synsema && ceiling_without_value() {
            use std::io::Write;
            let _told = writeln!(std::io::stderr(), "--cap-set requires a value");
            return Err(self.usage_code());
        }
        let read = match self {
            Self::Thirdwall => args::read(env::args_os()),
            Self::Synsema => args::read_language(env::args_os()),
            Self::Scua => args::read_language(super::scua::words(env::args_os().skip(1)).into_iter()),
        };
        read.map_err(|shown| {
            let unknown = shown.kind() == ErrorKind::UnknownArgument && self != Self::Thirdwall;
            let flag = shown.get(clap::error::ContextKind::InvalidArg).map(ToString::to_string);
            match (unknown || needs_value(&shown), flag) {
                (true, Some(flag)) if needs_value(&shown) => {
                    let flag = flag.split(' ').next().unwrap_or_default();
                    self.complain(&format!("{} requires a value", self.as_typed(flag)));
                }
                (true, Some(flag)) => self.complain(&format!("unknown flag '{flag}'")),
                (_, _) if self == Self::Scua && shown.use_stderr() => {
                    let text = shown.render().to_string();
                    let text = self.as_typed(text.strip_prefix("error: ").unwrap_or(&text));
                    self.complain(text.trim_end());
                }
                // Nobody to tell: the caller closed the stream.
                (_, _) => drop(shown.print()),
            }
            if shown.use_stderr() { self.usage_code() } else { 0 }
        })
    }

    /// What is wrong with the command line, as this name's page has it.
    fn complain(self, what: &str) {
        use std::io::Write;
        let before = if self == Self::Scua { "scua: " } else { "" };
        let _told = writeln!(std::io::stderr(), "{before}{what}");
    }

    /// What stands before a message of the launcher's own.
    pub(super) fn speaks(self) -> &'static str {
        match self {
            Self::Thirdwall | Self::Synsema => "thirdwall",
            Self::Scua => "scua",
        }
    }

    /// The flag for a program's heap under this name.
    pub(super) fn heap_flag(self) -> &'static str {
        if self == Self::Scua { "--memory" } else { HEAP }
    }

    /// A message with the flag for a program's heap as it is typed under this name.
    pub(super) fn as_typed(self, text: &str) -> String {
        text.replace(HEAP, self.heap_flag())
    }

    fn usage_code(self) -> u8 {
        match self {
            Self::Thirdwall => exit::LAUNCHER,
            Self::Synsema | Self::Scua => LANGUAGE_USAGE,
        }
    }

    /// The exit code of an error.
    pub(super) fn exit_code(self, error: &Error) -> u8 {
        match error {
            Error::Usage { .. } | Error::File { .. } | Error::Policy(..) => self.usage_code(),
            Error::Command(_)
            | Error::Step { .. }
            | Error::Listen { .. }
            | Error::Looking { .. }
            | Error::Supervise { .. } => error.exit_code(),
        }
    }
}
