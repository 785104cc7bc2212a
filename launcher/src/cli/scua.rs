//! SCUA's own command line: `scua [flags] FILE [args]`, `scua [flags] check FILE`, and the flags that grant.
//!
//! Source: the language's reference, section 8. The flags are grants in the grammar of every other ceiling, so that the
//! jail and the audit are the same.

use super::settings;
use crate::error::Error;
use clap::{ArgAction, Args};
use policies::ceiling::Ceiling;
use std::ffi::OsString;

/// Where the help shows them.
const HEADING: &str = "Grants of SCUA programs";

/// Flags that grant. No scope means any; a flag given twice adds scopes. There is none for everything.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct AllowArgs {
    /// Create sandboxes.
    #[arg(long, help_heading = HEADING)]
    allow_sandbox: bool,
    /// Read and write files.
    #[arg(long, help_heading = HEADING, value_name = "PATH,…", num_args = 0..=1, require_equals = true, default_missing_value = ANY, action = ArgAction::Append)]
    allow_fs: Vec<String>,
    /// Read files.
    #[arg(long, help_heading = HEADING, value_name = "PATH,…", num_args = 0..=1, require_equals = true, default_missing_value = ANY, action = ArgAction::Append)]
    allow_fs_read: Vec<String>,
    /// Write files.
    #[arg(long, help_heading = HEADING, value_name = "PATH,…", num_args = 0..=1, require_equals = true, default_missing_value = ANY, action = ArgAction::Append)]
    allow_fs_write: Vec<String>,
    /// Connect.
    #[arg(long, help_heading = HEADING, value_name = "HOST[:PORT],…", num_args = 0..=1, require_equals = true, default_missing_value = ANY, action = ArgAction::Append)]
    allow_net: Vec<String>,
    /// Read variables.
    #[arg(long, help_heading = HEADING, value_name = "NAME,…", num_args = 0..=1, require_equals = true, default_missing_value = ANY, action = ArgAction::Append)]
    allow_env: Vec<String>,
    /// Read the clock and sleep.
    #[arg(long, help_heading = HEADING)]
    allow_clock: bool,
    /// True randomness.
    #[arg(long, help_heading = HEADING)]
    allow_random: bool,
    /// Print nothing.
    #[arg(long, help_heading = HEADING)]
    no_stdout: bool,
}

/// Stands for a flag without a scope; no scope is written so.
const ANY: &str = "\u{1}any";

impl AllowArgs {
    /// What the flags grant, output included.
    pub(super) fn granted(&self) -> Result<Ceiling, Error> {
        let mut items: Vec<String> = Vec::new();
        if !self.no_stdout {
            items.push("stdout".into());
        }
        for (given, name) in
            [(self.allow_sandbox, "sandbox_run"), (self.allow_clock, "time"), (self.allow_random, "random")]
        {
            if given {
                items.push(name.into());
            }
        }
        let scoped = [
            (&self.allow_fs, "file"),
            (&self.allow_fs_read, "file.read"),
            (&self.allow_fs_write, "file.write"),
            (&self.allow_net, "net"),
            (&self.allow_env, "env"),
        ];
        for (scopes, name) in scoped {
            for list in scopes {
                if list == ANY {
                    items.push(name.into());
                } else {
                    items.extend(list.split(',').map(|scope| format!("{name}={scope}")));
                }
            }
        }
        let list = if items.is_empty() { "none".to_owned() } else { items.join(",") };
        settings::ceiling(&list)
    }
}

/// The words of `scua …` as those of `thirdwall run …` or `thirdwall check …`.
pub(super) fn words(typed: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut flags = Vec::new();
    let mut command = OsString::from("run");
    let mut typed = typed.peekable();
    while let Some(word) = typed.next() {
        let text = word.to_string_lossy().into_owned();
        if !text.starts_with("--") {
            if text == "check" && typed.peek().is_some() {
                command = word;
            } else {
                flags.push(word);
            }
            break;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text.as_str(), None),
        };
        // Under this name `--memory` is the program's heap.
        let name = if name == "--memory" { "--memory-heap" } else { name };
        flags.push(match value {
            Some(value) => format!("{name}={value}").into(),
            None => name.into(),
        });
        if value.is_none() && TAKES_VALUE.contains(&name) {
            flags.extend(typed.next());
        }
    }
    let command_takes_file = command == "check";
    let mut all = vec![OsString::from("scua"), command];
    all.extend(flags);
    // `check` is followed by the file; after a file everything is the program's own.
    if command_takes_file {
        all.extend(typed.next());
    }
    let mut rest: Vec<OsString> = typed.collect();
    if rest.first().is_some_and(|word| word == "--") {
        rest.remove(0);
    } else if let Some(late) = late(&rest) {
        use std::io::Write;
        let _told = writeln!(
            std::io::stderr(),
            "scua: '{late}' stands behind the file and is the program's own word; in front of the file it is a flag, \
             and behind '--' this isn't said"
        );
    }
    if !rest.is_empty() {
        all.push("--".into());
        all.extend(rest);
    }
    all
}

/// A flag among the program's own words: somebody may have meant to shut something by it.
fn late(words: &[OsString]) -> Option<String> {
    let known = super::args::RunArgs::augment_args(clap::Command::new("scua"));
    let name = |word: &OsString| word.to_string_lossy().split('=').next().unwrap_or_default().to_owned();
    words
        .iter()
        .take_while(|word| *word != "--")
        .map(name)
        .filter(|name| name.starts_with("--"))
        .find(|name| known.get_arguments().filter_map(clap::Arg::get_long).any(|long| name[2..] == *long))
}

/// Flags whose value is the next word.
const TAKES_VALUE: [&str; 19] = [
    "--cap-set",
    "--fuel",
    "--memory-heap",
    "--wall",
    "--cpu",
    "--pids",
    "--nofile",
    "--output",
    "--disk",
    "--grace",
    "--stdin",
    "--report",
    "--allow-missing",
    "--env-file",
    "--format",
    "--profile",
    "--audit",
    "--save",
    "--restore",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words_typed: &[&str]) -> Vec<String> {
        let all = words(words_typed.iter().map(OsString::from));
        all.into_iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn later_words_belong_to_the_program() {
        assert_eq!(
            typed(&["--allow-sandbox", "--memory", "1024", "a.scua", "--fuel", "x"]),
            ["scua", "run", "--allow-sandbox", "--memory-heap", "1024", "a.scua", "--", "--fuel", "x"]
        );
        assert_eq!(typed(&["check", "a.scua"]), ["scua", "check", "a.scua"]);
    }

    #[test]
    fn flags_are_grants_of_the_shared_grammar() {
        let allow = AllowArgs {
            allow_sandbox: true,
            allow_fs_read: vec!["a.txt,b.txt".into()],
            allow_net: vec![ANY.into()],
            ..AllowArgs::default()
        };
        let granted = allow.granted().expect("a ceiling").to_string();
        for item in ["stdout", "sandbox_run", "file.read=a.txt", "file.read=b.txt", "net"] {
            assert!(granted.split(',').any(|i| i == item), "{granted} has {item}");
        }
    }
}
