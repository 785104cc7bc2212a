//! Given a program, run, expect.

use policies::ceiling::Ceiling;
use runtime::partition::host::Memory;
use runtime::partition::plain::Plain;
use runtime::partition::{Logs, Profile, Settings};
use runtime::source::Source;
use runtime::synsema::program::Outcome;
use runtime::synsema::{self, Loader, program};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A program and how it is run.
pub(crate) struct Given {
    source: String,
    settings: Settings,
    modules: BTreeMap<String, String>,
}

/// What it did.
pub(crate) struct Ran {
    pub(crate) output: Vec<String>,
    pub(crate) errors: Vec<String>,
    pub(crate) audit: Vec<policies::audit::Entry>,
    pub(crate) outcome: Option<Outcome>,
}

struct Modules(BTreeMap<String, String>);

impl Loader for Modules {
    fn load(&mut self, importer: &str, path: &str) -> Result<(String, String), String> {
        let name = runtime::worker::join(importer, path, importer == "t.syn")?;
        match self.0.get(&name) {
            Some(text) => Ok((name, text.clone())),
            None => Err(format!("Module not found: '{path}'")),
        }
    }
}

impl Given {
    pub(crate) fn program(source: &str) -> Self {
        let mut settings = Settings::trusted();
        settings.logs = Logs::WithOutput;
        Self { source: source.to_owned(), settings, modules: BTreeMap::new() }
    }

    pub(crate) fn ceiling(mut self, list: &str) -> Self {
        self.settings.ceiling = Some(Ceiling::parse(list).expect("a ceiling"));
        self
    }

    pub(crate) fn pure(mut self) -> Self {
        self.settings.profile = Profile::Pure;
        self
    }

    pub(crate) fn fuel(mut self, fuel: u64) -> Self {
        self.settings.fuel = Some(fuel);
        self
    }

    pub(crate) fn heap(mut self, bytes: u64) -> Self {
        self.settings.heap = Some(bytes);
        self
    }

    pub(crate) fn module(mut self, name: &str, text: &str) -> Self {
        self.modules.insert(name.to_owned(), text.to_owned());
        self
    }

    pub(crate) fn run(self) -> Ran {
        let folder = tempfile::tempdir().expect("a folder");
        let host = Memory { files: Some(Plain::new(folder.path())), ..Memory::default() };
        let host = Rc::new(RefCell::new(host));
        let mut loader = Modules(self.modules);
        let loaded = synsema::load(Source::new("t.syn", &self.source), &mut loader);
        match loaded {
            Ok(loaded) => {
                let outcome = program::run(Rc::new(loaded), self.settings, Box::new(host.clone()));
                let host = host.borrow();
                let mut errors: Vec<String> = outcome.errors.iter().map(|e| e.text.clone()).collect();
                errors.extend(host.errors.iter().cloned());
                Ran { output: host.output.clone(), errors, audit: host.audit.clone(), outcome: Some(outcome) }
            }
            Err(failure) => {
                let errors = failure
                    .errors
                    .iter()
                    .map(|e| runtime::diagnostic::of_load(e, &failure.sources).text)
                    .collect();
                Ran { output: Vec::new(), errors, audit: Vec::new(), outcome: None }
            }
        }
    }

    pub(crate) fn test(self) -> Vec<String> {
        let host = Rc::new(RefCell::new(Memory::default()));
        let mut loader = Modules(self.modules);
        match synsema::load(Source::new("t.syn", &self.source), &mut loader) {
            Ok(loaded) => {
                let (results, outcome) = program::test(Rc::new(loaded), self.settings, Box::new(host));
                let mut lines: Vec<String> = outcome.errors.iter().map(|e| e.text.clone()).collect();
                lines.extend(results.iter().map(|r| match &r.failure {
                    None => format!("✓ {}", r.name),
                    Some(reason) => format!("✗ {}: {reason}", r.name),
                }));
                lines
            }
            Err(failure) => failure
                .errors
                .iter()
                .map(|e| runtime::diagnostic::of_load(e, &failure.sources).text)
                .collect(),
        }
    }
}

impl Ran {
    pub(crate) fn end(&self) -> &policies::wire::EndFrame {
        &self.outcome.as_ref().expect("the program was loaded").end
    }
}
