//! What a call writes stands apart from what it reads: a report in the program's place would be the program's end.
//!
//! Invariant: asked before any of the files is opened. Only regular files count: everybody may write to `/dev/null`.

use super::{
    args::{BuildArgs, CommonArgs, ExecArgs, RunArgs},
    audit, copy,
};
use crate::error::Error;
use std::{fs, os::unix::fs::MetadataExt};

/// A file of the command line, and the word that it stands behind.
struct Named<'a> {
    word: &'static str,
    path: &'a str,
}

/// The files that one call reads and writes.
#[derive(Default)]
struct Files<'a> {
    read: Vec<Named<'a>>,
    written: Vec<Named<'a>>,
}

impl<'a> Files<'a> {
    fn reads(&mut self, word: &'static str, path: Option<&'a str>) {
        self.read.extend(path.map(|path| Named { word, path }));
    }

    /// Words that are no file are left out: `-`, `unix:PATH`, `json`.
    fn writes(&mut self, word: &'static str, path: Option<&'a str>) {
        let file = |path: &&str| !(*path == "-" || *path == "json" || path.starts_with("unix:"));
        self.written.extend(path.filter(file).map(|path| Named { word, path }));
    }

    fn common(&mut self, common: &'a CommonArgs) {
        self.reads("--stdin", common.stdin.as_deref());
        self.writes("--report", common.report.as_deref());
        self.writes("--audit", common.audit.as_deref());
    }

    fn check(&self) -> Result<(), Error> {
        for (place, written) in self.written.iter().enumerate() {
            let others = self.read.iter().chain(self.written.get(..place).unwrap_or_default());
            for other in others {
                if written.is(other) {
                    return Err(Error::Usage {
                        what: format!(
                            "{} {} is the file of {}, and would be written over",
                            written.word, written.path, other.word
                        ),
                        remedy: format!("name another file behind {}", written.word),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Named<'_> {
    /// Whether both are one file. One that isn't there yet is known by its path alone.
    fn is(&self, other: &Self) -> bool {
        let place = |path: &str| {
            let metadata = fs::metadata(path).ok()?;
            metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
        };
        match (place(self.path), place(other.path)) {
            (Some(one), Some(two)) => one == two,
            (None, None) => self.path == other.path && fs::metadata(self.path).is_err(),
            _ => false,
        }
    }
}

/// Of a run of a program, whatever the command.
pub(super) fn of_run(args: &RunArgs) -> Result<(), Error> {
    let by_variable = audit::variable().filter(|_| args.common.audit.is_none());
    let mut files = Files::default();
    files.reads("the program", Some(&args.file));
    files.reads("--env-file", args.env_file.as_deref());
    files.common(&args.common);
    files.writes(audit::VARIABLE, by_variable.as_deref());
    files.writes("--save", args.save.as_deref());
    files.check()?;
    // A state may take the place of the one that the program goes on from; nothing else may.
    files.written.retain(|written| written.word != "--save");
    files.reads("--restore", args.restore.as_deref());
    files.check()
}

/// Of a command. What is copied out may take the place of what was copied in.
pub(super) fn of_exec(args: &ExecArgs) -> Result<(), Error> {
    let mut files = Files::default();
    files.reads("--policy", args.policy.as_deref());
    files.reads("the command", args.command.first().map(String::as_str));
    for copy in &args.copy_in {
        files.reads("--copy-in", Some(copy::source(copy)));
    }
    files.common(&args.common);
    files.check()
}

/// Of a build.
pub(super) fn of_build(args: &BuildArgs) -> Result<(), Error> {
    let mut files = Files::default();
    files.reads("the program", Some(&args.file));
    for asset in &args.asset {
        files.reads("--asset", Some(asset));
    }
    files.writes("-o", Some(&args.output));
    files.check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_by_any_name_is_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(at("p.syn"), "").unwrap();
        fs::write(at("q.syn"), "").unwrap();
        std::os::unix::fs::symlink(at("p.syn"), at("link")).unwrap();
        let run = |report: &str, audit: Option<&str>| {
            let common = CommonArgs {
                report: Some(report.to_owned()),
                audit: audit.map(str::to_owned),
                ..CommonArgs::default()
            };
            of_run(&RunArgs { common, ..RunArgs::plain(&at("p.syn")) })
        };
        for same in [at("p.syn"), at("link"), at("./p.syn")] {
            assert!(run(&same, None).is_err(), "{same}");
        }
        for other in [at("q.syn"), at("new"), "/dev/null".to_owned(), "-".to_owned(), "fd:3".to_owned()] {
            assert!(run(&other, None).is_ok(), "{other}");
        }
        assert!(run(&at("new"), Some(&at("new"))).is_err());
        assert!(run("/dev/null", Some("/dev/null")).is_ok());
    }
}
