//! A run as a test reads it: given a script and limits, run, and look at what came of it.

use policies::report::Report;
use std::{
    io::Write,
    process::{Child, Command, Output, Stdio},
};

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The launcher's own exit code.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) report: Report,
}

/// A run to be.
#[derive(Debug)]
pub(crate) struct Run {
    options: Vec<String>,
    command: Vec<String>,
    report: tempfile::NamedTempFile,
    input: Vec<u8>,
}

/// A shell script in the jail of the `sh` policy.
pub(crate) fn script(text: &str) -> Run {
    Run {
        options: ["--policy", "sh"].map(str::to_owned).to_vec(),
        command: ["sh", "-c", text].map(str::to_owned).to_vec(),
        report: tempfile::NamedTempFile::new().unwrap(),
        input: Vec::new(),
    }
}

impl Run {
    /// Adds options of `exec`, separated by spaces.
    pub(crate) fn with(mut self, options: &str) -> Self {
        self.options.extend(options.split_whitespace().map(str::to_owned));
        self
    }

    /// Gives it standard input.
    pub(crate) fn input(mut self, bytes: &[u8]) -> Self {
        self.input = bytes.to_vec();
        self
    }

    /// The launcher's command line, ready to be started in other ways.
    pub(crate) fn command(&self) -> Command {
        // Whoever runs the tests may ignore signals (nohup does), and the launcher would leave them ignored.
        let mut command = Command::new("env");
        command
            .arg("--default-signal=HUP,INT,QUIT,TERM,USR1,USR2")
            .arg(env!("CARGO_BIN_EXE_thirdwall"))
            .arg("exec")
            .args(&self.options)
            .arg("--report")
            .arg(self.report.path())
            .arg("--")
            .args(&self.command)
            .current_dir("/");
        command
    }

    /// Starts it with pipes.
    pub(crate) fn spawn(&self) -> Child {
        self.command().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it to its end.
    pub(crate) fn go(self) -> Outcome {
        let mut child = self.spawn();
        let mut stdin = child.stdin.take().unwrap();
        let input = self.input.clone();
        let feeder = std::thread::spawn(move || {
            // A program need not read all of it.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        self.outcome(output)
    }

    /// The outcome of a run that was started by [`Self::spawn`] or [`Self::command`].
    pub(crate) fn outcome(&self, output: Output) -> Outcome {
        let text = std::fs::read_to_string(self.report.path()).unwrap();
        let report = serde_json::from_str(&text).unwrap_or_else(|error| {
            panic!("no report: {error}: {}", String::from_utf8_lossy(&output.stderr))
        });
        Outcome { code: output.status.code(), stdout: output.stdout, stderr: output.stderr, report }
    }
}

impl Outcome {
    /// Standard output as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}
