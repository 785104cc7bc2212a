//! How a run ended, and the questions that tests ask of it.

use policies::{
    audit::Entry,
    layer::Layer,
    report::{Report, Verdict},
};

/// A run of `hostile` or of another program, inside or outside.
pub(crate) struct Ended {
    /// Exit code of the outermost process; 128 + n for a signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Inside only.
    pub(crate) report: Option<Report>,
}

/// The part of it that explains a failed test.
impl std::fmt::Debug for Ended {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = out.debug_struct("Ended");
        shown.field("code", &self.code);
        if let Some(report) = &self.report {
            let refused: Vec<&str> = report.audit.iter().map(|entry| entry.target.as_str()).collect();
            shown
                .field("status", &report.status)
                .field("signal", &report.signal)
                .field("output", &report.output);
            shown.field("errors", &report.errors).field("audit", &refused).field("usage", &report.usage);
        }
        shown.field("stderr", &self.stderr).field("stdout", &self.stdout).finish()
    }
}

impl Ended {
    /// The report of a run inside.
    #[track_caller]
    pub(crate) fn report(&self) -> &Report {
        self.report.as_ref().unwrap_or_else(|| panic!("no report: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect(self, verdict: Verdict) -> Self {
        assert_eq!(self.report().status, verdict, "{self:?}");
        self
    }

    /// What it printed: lines.
    pub(crate) fn lines(&self) -> Vec<&str> {
        match &self.report {
            Some(report) => report.output.iter().map(String::as_str).collect(),
            None => self.stdout.lines().collect(),
        }
    }

    /// All answers, in order.
    pub(crate) fn answers(&self) -> Vec<(&str, &str)> {
        self.lines().into_iter().filter_map(|line| line.split_once(' ')).collect()
    }

    /// All answers to one act.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.answers().into_iter().filter(|(act, _)| *act == name).map(|(_, answer)| answer).collect()
    }

    /// The one answer to an act.
    #[track_caller]
    pub(crate) fn answer(&self, name: &str) -> &str {
        match self.all(name)[..] {
            [answer] => answer,
            _ => panic!("not one answer to {name}: {self:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn says(&self, name: &str, answer: &str) {
        assert_eq!(self.answer(name), answer, "{name}: {self:?}");
    }

    #[track_caller]
    pub(crate) fn each_says(&self, names: &[&str], answer: &str) {
        for name in names {
            self.says(name, answer);
        }
    }

    /// The names of the calls that the filter wrote entries about, in order.
    #[track_caller]
    pub(crate) fn refused_calls(&self) -> Vec<&str> {
        let of_filter = |entry: &&Entry| entry.layer == Layer::Filter && !entry.granted;
        self.report().audit.iter().filter(of_filter).map(|entry| entry.target.as_str()).collect()
    }

    /// Nothing of the program ran: no line of it, and the launcher's own code and complaint.
    #[track_caller]
    pub(crate) fn is_refusal(&self, words: &[&str]) {
        assert_eq!(self.code, 125, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "no '{word}' in: {}", self.stderr);
        }
    }
}
