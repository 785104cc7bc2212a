//! What a program asks for in its text: `require` lines and modules, found without running or compiling it.

use super::ast::{Block, Body, Function, Stmt, StmtKind};
use super::load::{Failure, Loader, uses_of};
use super::parser;
use crate::source::Source;
use policies::wire::Needs;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

/// Reads the program and those of its modules that `loader` has. `name_of` gives the name of a module as a job has it.
///
/// # Errors
/// The program's own text doesn't parse. A module that doesn't is left to the program's load.
pub fn needs(
    source: Source,
    loader: &mut dyn Loader,
    name_of: &dyn Fn(&str, &str) -> Option<String>,
) -> Result<Needs, Failure> {
    let mut requires = BTreeSet::new();
    let mut modules = BTreeSet::new();
    let mut queue = VecDeque::from([(source, false)]);
    while let Some((source, is_module)) = queue.pop_front() {
        let tree = match parser::parse(&source.text, is_module) {
            Ok(tree) => tree,
            Err(_) if is_module => continue,
            Err(errors) => return Err(Failure { sources: vec![Rc::new(source)], errors }),
        };
        block(&tree.body, &mut requires);
        let mut uses = Vec::new();
        uses_of(&tree.body, &mut uses);
        for (path, _at) in uses {
            let Some(name) = name_of(&source.name, &path) else { continue };
            if modules.insert(name)
                && let Ok((name, text)) = loader.load(&source.name, &path)
            {
                queue.push_back((Source::new(&name, &text), true));
            }
        }
    }
    Ok(Needs { requires: requires.into_iter().collect(), modules: modules.into_iter().collect() })
}

type Requires = BTreeSet<(String, Option<String>)>;

fn block(block: &Block, found: &mut Requires) {
    for statement in block {
        one(statement, found);
    }
}

fn function(function: &Function, found: &mut Requires) {
    match &function.body {
        Body::Block(body) => block(body, found),
        Body::Expr(_) => {}
    }
}

/// Depth is that of the statements' nesting, which the parser bounds.
fn one(statement: &Stmt, found: &mut Requires) {
    match &statement.kind {
        StmtKind::Require(require) => {
            let capability = require.capability.to_string();
            if require.scopes.is_empty() {
                found.insert((capability, None));
            } else {
                found
                    .extend(require.scopes.iter().map(|scope| (capability.clone(), Some(scope.to_string()))));
            }
        }
        StmtKind::When(branches, otherwise) => {
            branches.iter().for_each(|(_, body)| block(body, found));
            otherwise.iter().for_each(|body| block(body, found));
        }
        StmtKind::Match { arms, otherwise, .. } => {
            arms.iter().for_each(|arm| block(&arm.body, found));
            otherwise.iter().for_each(|(body, _)| block(body, found));
        }
        StmtKind::Try { body, recover, .. } => {
            block(body, found);
            block(recover, found);
        }
        StmtKind::Each { body, .. }
        | StmtKind::While(_, body)
        | StmtKind::Sandbox { body, .. }
        | StmtKind::Test(_, body, _)
        | StmtKind::Watch(body) => block(body, found),
        StmtKind::Task(_, task) | StmtKind::Agent(_, task) => function(task, found),
        StmtKind::Export(inner) => one(inner, found),
        StmtKind::Let(..)
        | StmtKind::Set(..)
        | StmtKind::Give(_)
        | StmtKind::Stop
        | StmtKind::Type(..)
        | StmtKind::Enum(..)
        | StmtKind::Raise(_)
        | StmtKind::Intent(_)
        | StmtKind::Invariant(..)
        | StmtKind::Use(..)
        | StmtKind::Spawn(..)
        | StmtKind::Share(..)
        | StmtKind::Observe(..)
        | StmtKind::Signal(..)
        | StmtKind::WaitFor { .. }
        | StmtKind::Expr(_)
        | StmtKind::Log(_)
        | StmtKind::Show(..)
        | StmtKind::Serve(_) => {}
    }
}
