//! A program of the language as a test reads it: given files and options, run it, look at its report.

use policies::{audit::Entry, report::Report};
use std::{
    fs,
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// A program in a folder of its own.
pub(crate) struct Program {
    folder: TempDir,
    options: Vec<String>,
    env: Vec<(String, String)>,
}

/// The program's text.
pub(crate) fn program(text: &str) -> Program {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("p.syn"), text).unwrap();
    Program { folder, options: Vec::new(), env: Vec::new() }
}

impl Program {
    /// Adds an option with its value.
    pub(crate) fn with(mut self, option: &str, value: &str) -> Self {
        self.options.extend([option.to_owned(), value.to_owned()]);
        self
    }

    /// Sets a variable of the launcher.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A path in its folder.
    pub(crate) fn at(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Puts a file beside it.
    pub(crate) fn file(self, name: &str, text: &str) -> Self {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// The launcher's command line.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thirdwall"));
        command
            .arg("run")
            .args(&self.options)
            .args(["--report", "report.json", "p.syn"])
            .current_dir(self.folder.path())
            .envs(self.env.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Runs it to its end; its folder stays for a look.
    pub(crate) fn go(&self) -> Report {
        let output = self.command().output().unwrap();
        let text = fs::read_to_string(self.at("report.json")).unwrap();
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("no report: {error}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Entries that are not grants, of a capability in its check form.
pub(crate) fn denials<'a>(report: &'a Report, capability: &str) -> Vec<&'a Entry> {
    report.audit.iter().filter(|entry| !entry.granted && entry.capability == capability).collect()
}
