//! A program with its modules, loaded all or nothing.

use super::ast::{Block, StmtKind};
use super::warn::Warning;
use super::{compile, parser, resolve};
use crate::bytecode::{ModuleInfo, Program};
use crate::error::LoadError;
use crate::source::Source;
use crate::vm::other::Module;
use std::collections::HashMap;
use std::rc::Rc;

/// Modules of one program at most.
const MAX_MODULES: usize = 500;

/// Where modules come from.
pub trait Loader {
    /// The text of the module that `importer` names by `path`, with the one name that it has for all.
    ///
    /// # Errors
    /// One line.
    fn load(&mut self, importer: &str, path: &str) -> Result<(String, String), String>;
}

/// No modules at all.
#[derive(Debug, Clone, Copy)]
pub struct NoModules;

impl Loader for NoModules {
    fn load(&mut self, _importer: &str, path: &str) -> Result<(String, String), String> {
        Err(format!("Module not found: '{path}'"))
    }
}

/// What was wrong, with the sources that the places refer to.
#[derive(Debug)]
pub struct Failure {
    /// The sources read so far; the first one is the program.
    pub sources: Vec<Rc<Source>>,
    /// At least one.
    pub errors: Vec<LoadError>,
}

struct Loading<'l> {
    loader: &'l mut dyn Loader,
    program: Program,
    /// Names of modules that are being loaded, outermost first.
    path: Vec<String>,
    /// Finished modules by name.
    done: HashMap<String, u32>,
    /// Warnings with the file that each is about.
    warnings: Vec<(u32, Warning)>,
    /// Whether anybody wants them.
    checking: bool,
}

/// Loads a program.
///
/// # Errors
/// Everything found wrong before the first statement runs.
pub fn load(source: Source, loader: &mut dyn Loader) -> Result<Program, Failure> {
    let mut loading = Loading {
        loader,
        program: Program::default(),
        path: Vec::new(),
        done: HashMap::new(),
        warnings: Vec::new(),
        checking: false,
    };
    match loading.file(source, false) {
        Ok(info) => {
            loading.program.top = info.top;
            Ok(loading.program)
        }
        Err(errors) => Err(Failure { sources: loading.program.sources, errors }),
    }
}

/// Adds the modules that an entry of a conversation uses to its program: their numbers by the paths in its `use` lines. `done` has
/// those of earlier entries.
///
/// # Errors
/// Everything found wrong with one of them; `program` has their sources.
pub(super) fn modules_of(
    program: &mut Program,
    done: &mut HashMap<String, u32>,
    (body, file): (&Block, u32),
    loader: &mut dyn Loader,
) -> Result<HashMap<Rc<str>, u32>, Vec<LoadError>> {
    let mut loading = Loading {
        loader,
        program: std::mem::take(program),
        path: Vec::new(),
        done: std::mem::take(done),
        warnings: Vec::new(),
        checking: false,
    };
    let found = loading.modules(body, "", file);
    *program = loading.program;
    *done = loading.done;
    found
}

/// Reads a program without keeping it; the warnings, as `file:line:column: message`.
///
/// # Errors
/// As [`load`].
pub fn check(source: Source, loader: &mut dyn Loader) -> Result<Vec<String>, Failure> {
    let mut loading = Loading {
        loader,
        program: Program::default(),
        path: Vec::new(),
        done: HashMap::new(),
        warnings: Vec::new(),
        checking: true,
    };
    if let Err(errors) = loading.file(source, false) {
        return Err(Failure { sources: loading.program.sources, errors });
    }
    let shown = |(file, warning): &(u32, Warning)| {
        let source = &loading.program.sources[*file as usize];
        let place = source.place(warning.at);
        format!("warning: {}:{}:{}: {}", source.name, place.line, place.column, warning.message)
    };
    Ok(loading.warnings.iter().map(shown).collect())
}

impl Loading<'_> {
    fn file(&mut self, source: Source, is_module: bool) -> Result<compile::FileInfo, Vec<LoadError>> {
        let file = self.program.sources.len() as u32;
        let source = Rc::new(source);
        self.program.sources.push(source.clone());
        let own = |mut errors: Vec<LoadError>| {
            for error in &mut errors {
                error.file = file;
            }
            errors
        };
        let tree = parser::parse(&source.text, is_module).map_err(own)?;
        self.path.push(source.name.clone());
        let modules = self.modules(&tree.body, &source.name, file);
        self.path.pop();
        let modules = modules?;
        if self.checking {
            self.warn(&tree.body, &modules, file);
        }
        let resolved = resolve::resolve(&tree.body, &[]);
        compile::compile(&mut self.program, &tree.body, &resolved, file, &modules, &[], false)
    }

    fn warn(&mut self, body: &Block, modules: &HashMap<Rc<str>, u32>, file: u32) {
        let mut aliases = HashMap::new();
        for stmt in body {
            if let StmtKind::Use(path, alias) = &stmt.kind
                && let Some(index) = modules.get(path)
            {
                let module = &self.program.modules[*index as usize].module;
                aliases.insert(alias.text.clone(), module.exports.keys().cloned().collect());
            }
        }
        let found = super::warn::warnings(body, &aliases);
        self.warnings.extend(found.into_iter().map(|w| (file, w)));
    }

    fn modules(
        &mut self,
        body: &Block,
        importer: &str,
        file: u32,
    ) -> Result<HashMap<Rc<str>, u32>, Vec<LoadError>> {
        let mut found = HashMap::new();
        let mut uses = Vec::new();
        uses_of(body, &mut uses);
        for (path, at) in uses {
            if found.contains_key(&path) {
                continue;
            }
            let fail = |message: String| {
                let mut error = LoadError::parse(at, message);
                error.file = file;
                vec![error]
            };
            let (name, text) = self.loader.load(importer, &path).map_err(fail)?;
            if let Some(start) = self.path.iter().position(|p| *p == name) {
                let mut circle: Vec<&str> = self.path[start..].iter().map(String::as_str).collect();
                circle.push(&name);
                return Err(fail(format!("circular import: {}", circle.join(" → "))));
            }
            let index = match self.done.get(&name) {
                Some(index) => *index,
                None => {
                    if self.done.len() >= MAX_MODULES {
                        return Err(fail(format!("a program has at most {MAX_MODULES} modules")));
                    }
                    let info = self.file(Source::new(&name, &text), true)?;
                    let module = Module {
                        name: info.name.clone(),
                        exports: info.exports.iter().map(|(n, slot, _)| (n.clone(), *slot)).collect(),
                        fixed: info
                            .exports
                            .iter()
                            .filter(|(_, _, fixed)| *fixed)
                            .map(|(n, ..)| n.clone())
                            .collect(),
                    };
                    let index = self.program.modules.len() as u32;
                    self.program.modules.push(ModuleInfo { module: Rc::new(module), top: info.top });
                    self.done.insert(name, index);
                    index
                }
            };
            found.insert(path, index);
        }
        Ok(found)
    }
}

pub(super) fn uses_of(body: &Block, uses: &mut Vec<(Rc<str>, u32)>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Use(path, _) => uses.push((path.clone(), stmt.at)),
            StmtKind::When(branches, otherwise) => {
                for (_, body) in branches {
                    uses_of(body, uses);
                }
                if let Some(body) = otherwise {
                    uses_of(body, uses);
                }
            }
            StmtKind::Test(_, body, _) | StmtKind::While(_, body) | StmtKind::Watch(body) => {
                uses_of(body, uses)
            }
            StmtKind::Each { body, .. } | StmtKind::Sandbox { body, .. } => uses_of(body, uses),
            StmtKind::Try { body, recover, .. } => {
                uses_of(body, uses);
                uses_of(recover, uses);
            }
            _ => {}
        }
    }
}
