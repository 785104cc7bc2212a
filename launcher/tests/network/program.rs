//! A program of one of the two languages, run by the launcher with everything that it left.

use policies::report::Report;
use std::process::{Command, Stdio};

/// A run before its start.
pub(crate) struct Given {
    source: String,
    name: &'static str,
    flags: Vec<String>,
    variables: Vec<(String, String)>,
    wall: &'static str,
}

/// A run after its end.
pub(crate) struct Left {
    pub(crate) report: Report,
    /// The report as it was written: what must be in nobody's hands is in no part of it.
    pub(crate) text: String,
}

/// A Synsema program.
pub(crate) fn synsema(source: &str) -> Given {
    Given { source: source.to_owned(), name: "p.syn", flags: Vec::new(), variables: Vec::new(), wall: "60s" }
}

/// A SCUA program.
pub(crate) fn scua(source: &str) -> Given {
    Given { name: "p.scua", ..synsema(source) }
}

impl Given {
    pub(crate) fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    pub(crate) fn ceiling(self, list: &str) -> Self {
        self.flag("--cap-set").flag(&format!("stdout,{list}"))
    }

    pub(crate) fn wall(self, wall: &'static str) -> Self {
        Self { wall, ..self }
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn run(self) -> Left {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(self.name), &self.source).unwrap();
        let report = folder.path().join("report");
        let status = Command::new(env!("CARGO_BIN_EXE_thirdwall"))
            .arg("run")
            .args(["--wall", self.wall, "--report"])
            .arg(&report)
            .args(&self.flags)
            .arg(self.name)
            .current_dir(folder.path())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(self.variables)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        let text = std::fs::read_to_string(report).unwrap_or_else(|_| panic!("no report: {status}"));
        Left { report: serde_json::from_str(&text).unwrap(), text }
    }
}

impl Left {
    /// Its output, as lines of one text.
    pub(crate) fn out(&self) -> String {
        assert!(self.report.ok, "{:?}", self.report.errors);
        self.report.output.join("\n")
    }

    /// Its first error.
    pub(crate) fn error(&self) -> &str {
        assert!(!self.report.ok, "{:?}", self.report.output);
        self.report.errors.first().map_or("", String::as_str)
    }

    /// Entries of a layer, as `+target | reason` or `-target | reason`.
    pub(crate) fn audit(&self, layer: &str) -> Vec<String> {
        let entries = self.report.audit.iter().filter(|entry| entry.layer.name() == layer);
        entries
            .map(|entry| {
                format!("{}{} | {}", if entry.granted { '+' } else { '-' }, entry.target, entry.reason)
            })
            .collect()
    }
}
