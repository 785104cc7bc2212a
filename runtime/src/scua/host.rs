//! Embedding: a program with the host's functions, and sandboxes without a program around them.

use super::compiled::Compiled;
use super::live::{Additions, Live};
use super::program::Grants;
use super::{Entry, OnSandbox};
use crate::bytecode::Program;
use crate::error::{LoadError, StateError};
use crate::partition::boundary::{Data, HostFunction};
use crate::partition::host::Host;
use crate::partition::sandbox::{Failure, Limits, Sandbox};
use policies::wire::ErrorFrame;
use std::cell::RefCell;
use std::rc::Rc;

/// A program on its way to a run: its text, what it is granted, and functions of the host.
pub struct Script {
    name: String,
    text: String,
    grants: Grants,
    functions: Vec<HostFunction>,
    on_sandbox: Option<OnSandbox>,
    most: Option<Limits>,
    slice: Option<i64>,
}

/// How a script ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its exit status.
    pub status: i32,
    /// Fuel that it used.
    pub fuel: u64,
    /// What went wrong at its end.
    pub errors: Vec<ErrorFrame>,
}

impl Script {
    /// A program that may print and nothing else.
    #[must_use]
    pub fn new(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            text: text.to_owned(),
            grants: Grants::nothing(),
            functions: Vec::new(),
            on_sandbox: None,
            most: None,
            slice: None,
        }
    }

    /// What it is granted.
    #[must_use]
    pub fn grants(mut self, grants: Grants) -> Self {
        self.grants = grants;
        self
    }

    /// A function for the program; whatever it does, the program can do.
    #[must_use]
    pub fn function(
        mut self,
        name: &str,
        takes: usize,
        fuel: u64,
        run: impl Fn(&[Data]) -> Result<Data, String> + 'static,
    ) -> Self {
        self.functions.push(HostFunction { name: name.into(), takes, cost: (fuel, 0), run: Rc::new(run) });
        self
    }

    /// Functions for sandboxes of the program, by a sandbox's name.
    #[must_use]
    pub fn on_sandbox(mut self, register: impl Fn(&str) -> Vec<HostFunction> + 'static) -> Self {
        self.on_sandbox = Some(Rc::new(register));
        self
    }

    /// The most that its sandboxes may be given, below what the language allows; also what they get unless the program
    /// asks for less. Its name means nothing.
    #[must_use]
    pub fn sandbox_limits(mut self, most: Limits) -> Self {
        self.most = Some(most);
        self
    }

    /// Fuel between two looks at the host (its `tick`, and whether it interrupts), from 1 up; 16,384 unless it is said. The
    /// program can't tell.
    #[must_use]
    pub fn look_every(mut self, fuel: u32) -> Self {
        self.slice = Some(i64::from(fuel.max(1)));
        self
    }

    /// Compiles it.
    ///
    /// # Errors
    /// The first thing wrong in it.
    pub fn compile(&self) -> Result<Program, LoadError> {
        super::load(&self.name, self.text.as_bytes(), &self.functions)
    }

    /// Compiles and runs it.
    ///
    /// # Errors
    /// It doesn't compile.
    pub fn run(self, host: Box<dyn Host>) -> Result<Outcome, LoadError> {
        let outcome = self.start(host)?.finish();
        Ok(Outcome { status: outcome.end.exit, fuel: outcome.end.fuel, errors: outcome.errors })
    }

    /// Compiles it, runs its top level, and keeps it to be called.
    ///
    /// # Errors
    /// It doesn't compile.
    pub fn start(self, host: Box<dyn Host>) -> Result<Live, LoadError> {
        let mut live = self.made(host)?;
        live.run_top();
        Ok(live)
    }

    /// Compiles it and makes it what it was when it was saved: nothing runs. Its rights are those of now.
    ///
    /// # Errors
    /// It doesn't compile, or the bytes aren't a state of it.
    pub fn restore(self, state: &[u8], host: Box<dyn Host>) -> Result<Live, StateError> {
        self.made(host).map_err(StateError::Source)?.restored(state)
    }

    fn made(self, host: Box<dyn Host>) -> Result<Live, LoadError> {
        let program = Rc::new(self.compile()?);
        let additions = Additions {
            functions: self.functions,
            on_sandbox: self.on_sandbox,
            most: self.most,
            slice: self.slice,
        };
        Ok(Live::new(program, self.grants, additions, host))
    }
}

/// A sandbox of the host's own: code that is called again and again.
pub struct Mod {
    limits: Limits,
    compiled: RefCell<Compiled>,
    functions: Vec<HostFunction>,
    sandbox: Option<Sandbox>,
}

impl Mod {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, compiled: RefCell::default(), functions: Vec::new(), sandbox: None }
    }

    /// A function for it, with its fuel beyond the call and for each byte of its arguments. Register deliberately:
    /// it works with the host's rights.
    #[must_use]
    pub fn function(
        mut self,
        name: &str,
        takes: usize,
        cost: (u64, u64),
        run: impl Fn(&[Data]) -> Result<Data, String> + 'static,
    ) -> Self {
        self.functions.push(HostFunction { name: name.into(), takes, cost, run: Rc::new(run) });
        self
    }

    /// Compiles and runs a source once: `fn main(input)`.
    ///
    /// # Errors
    /// One of the seven kinds.
    pub fn run(&self, text: &str, input: &Data) -> Result<Data, Failure> {
        self.made(text, Entry::Main)?.run(None, input).unwrap_or_else(|_| Err(self.gone()))
    }

    /// Loads a source with `fn handler(state, msg)`.
    ///
    /// # Errors
    /// One of the seven kinds.
    pub fn load(&mut self, text: &str, state: &Data) -> Result<(), Failure> {
        let mut sandbox = self.made(text, Entry::Handler)?;
        sandbox.load(None, state).unwrap_or_else(|_| Err(self.gone()))?;
        self.sandbox = Some(sandbox);
        Ok(())
    }

    fn made(&self, text: &str, entry: Entry) -> Result<Sandbox, Failure> {
        let mut compiled = self.compiled.borrow_mut();
        let (program, entry) = compiled.source(text, entry, &self.limits, &self.functions)?;
        let hosts = self.functions.clone().into();
        Ok(Sandbox::new(program, entry, self.limits.clone(), hosts, Rc::default()))
    }

    fn gone(&self) -> Failure {
        let name = self.limits.name.clone();
        Failure { kind: "faulted", name, line: 0, message: "the sandbox is stopped".into() }
    }

    /// Sends a message; gives the reply, if there is one. One that fails is dead.
    ///
    /// # Errors
    /// One of the seven kinds, or it isn't loaded.
    pub fn ask(&mut self, tag: &str, args: &[Data]) -> Result<Option<Data>, Failure> {
        let gone = self.gone();
        let Some(sandbox) = &mut self.sandbox else { return Err(gone) };
        let outcome = sandbox.answer(None, &tag.into(), args.to_vec()).map_err(|_| gone)?;
        if let Some(failure) = outcome.failure {
            self.sandbox = None;
            return Err(failure);
        }
        Ok(outcome.reply)
    }

    /// Another fuel limit, from the next message on.
    pub fn refuel(&mut self, fuel: u64) {
        self.limits.fuel = fuel;
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.set_fuel(fuel);
        }
    }

    /// Fuel that the last turn has left.
    #[must_use]
    pub fn fuel_left(&self) -> u64 {
        self.sandbox.as_ref().map_or(0, Sandbox::fuel_left)
    }

    /// Bytes that it counts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sandbox.as_ref().map_or(0, Sandbox::bytes)
    }
}
