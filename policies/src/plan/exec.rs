//! Who may be executed: the first program and its loader always, others as `exec` grants them.

use super::{
    Access, Execute, HostPath, JailPath, Node, Payload, Right,
    decide::WORKDIR,
    files::{Granting, Outcome, refuse_too_many},
    layout::{Bind, Layout, beneath},
    wanted::{Wanted, command_patterns},
};
use crate::{
    error::Refusal,
    request::{Found, Kind, PathQuery, ProgramFacts, Request},
    scope::{Scope, glob},
};

/// What every row about named programs says.
const LOADER_IS_COARSE: &str = "the loader starts any file that may be read, if its mount allows code";

impl Granting<'_> {
    /// The first program with all that it is made of. Returns what is executed.
    pub(super) fn program(&mut self, layout: &mut Layout, facts: &ProgramFacts) -> Result<Payload, Refusal> {
        let at = self.runnable(layout, facts)?;
        Ok(Payload::Command {
            program: JailPath(at),
            source: facts.program.real.clone(),
            argv: facts.argv.clone(),
        })
    }

    /// Makes a program, its loader and its libraries visible and the first two executable. Returns the program's place.
    fn runnable(&mut self, layout: &mut Layout, facts: &ProgramFacts) -> Result<String, Refusal> {
        if facts.program.kind != Kind::File {
            let path = facts.program.at.0.clone();
            return Err(Refusal::PathRefused { path, why: "it is no program" });
        }
        for file in &facts.files {
            if layout.seen(&file.real).is_none() {
                self.provide_tree(layout, file)?;
            }
        }
        if let Some(loader) = &facts.loader {
            self.executable(layout, loader)?;
        }
        self.executable(layout, &facts.program)
    }

    fn executable(&mut self, layout: &mut Layout, found: &Found) -> Result<String, Refusal> {
        let at = match layout.seen(&found.real) {
            Some(at) => at,
            None => {
                let source = found.real.clone();
                let idmap = self.idmap_of(found);
                layout.bind(
                    &found.at.0,
                    Bind { source, access: Access::ReadOnly, execute: Execute::Allowed, idmap },
                )?
            }
        };
        layout.make_executable(&at);
        layout.allow(&at, &[Right::ReadFile, Right::Execute]);
        Ok(at)
    }

    /// One `exec` grant. All trees must be laid out before.
    pub(super) fn exec(
        &mut self,
        layout: &mut Layout,
        scope: &Scope,
        request: &Request,
    ) -> Result<Outcome, Refusal> {
        let pattern = match scope {
            Scope::Command(pattern) if pattern != "/*" => pattern,
            _ => {
                layout.execute_everything();
                return Ok(Outcome::exact(
                    "the filter lets execve pass, Landlock lets everything that is there be executed",
                ));
            }
        };
        let outcome = if !pattern.contains('*') {
            match self.facts.commands.get(pattern) {
                None => Outcome::nothing("no such program was found at the start"),
                Some(program) => {
                    self.runnable(layout, &program.clone())?;
                    Outcome::coarser(LOADER_IS_COARSE, "a Landlock rule on the program and its loader")
                }
            }
        } else if let Some(scratch) = scratch_of(layout, pattern) {
            layout.make_executable(&scratch);
            layout.allow(&scratch, &[Right::Execute]);
            let whole = glob::covers(pattern, &format!("{scratch}/*"));
            let by = if whole {
                LOADER_IS_COARSE.to_owned()
            } else {
                format!("all of {scratch}, and {LOADER_IS_COARSE}")
            };
            Outcome::coarser(by, "a Landlock rule on the scratch folder, whose mount allows code")
        } else {
            let mut given = 0;
            for query in command_patterns(pattern, request.search_path()) {
                given += self.exec_matches(layout, pattern, &query)?;
            }
            match given {
                0 => Outcome::nothing("nothing matched at the start"),
                _ => Outcome::coarser(LOADER_IS_COARSE, "Landlock rules on what matched at the start"),
            }
        };
        for loader in LOADERS {
            if let Some(found) = self.one(&PathQuery::Path(HostPath(loader.to_owned()))).cloned()
                && layout.seen(&found.real).is_some()
            {
                self.executable(layout, &found)?;
            }
        }
        Ok(outcome)
    }

    fn exec_matches(
        &mut self,
        layout: &mut Layout,
        pattern: &str,
        query: &PathQuery,
    ) -> Result<usize, Refusal> {
        let whole_tree = matches!(Wanted::of_text(pattern), Wanted::Tree(_)) && pattern.starts_with('/');
        let found: Vec<Found> = self.facts.found.get(query).cloned().unwrap_or_default();
        let wanted =
            |found: &&Found| if whole_tree { found.kind == Kind::Folder } else { found.kind == Kind::File };
        let found: Vec<&Found> = found.iter().filter(wanted).collect();
        refuse_too_many(pattern, found.len())?;
        for found in &found {
            if layout.seen(&found.real).is_none() {
                self.provide_tree(layout, found)?;
            }
            self.executable(layout, found)?;
        }
        Ok(found.len())
    }
}

/// Where the loaders stand that dynamic programs name, by the psABI of each architecture.
pub(crate) const LOADERS: [&str; 3] =
    ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1"];

/// The scratch or working folder that a command pattern lies in.
fn scratch_of(layout: &Layout, pattern: &str) -> Option<String> {
    let fixed = &pattern[..pattern.find('*').unwrap_or(pattern.len())];
    layout
        .nodes()
        .iter()
        .filter(|(at, node)| matches!(node, Node::Scratch { .. }) || at.as_str() == WORKDIR)
        .map(|(at, _)| at.clone())
        .filter(|at| beneath(at, fixed).is_some_and(|rest| !rest.is_empty()))
        // A host folder that is bound inside the scratch folder is a tree of its own.
        .find(|at| layout.holder(fixed.trim_end_matches('/')) == Some(at.as_str()))
}
