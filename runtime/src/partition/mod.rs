//! A partition: its own heap, globals, fuel and gate; dropped in one go.

pub mod boundary;
pub(crate) mod exact;
pub mod gate;
pub mod heap;
pub mod host;
pub mod plain;
pub mod sandbox;

use crate::bytecode::Program;
use crate::vm::other::Module;
use crate::vm::trap::{Fault, Stop, Trap};
use crate::vm::value::{CellBox, Value};
use gate::{Gate, Site};
use heap::Meter;
use host::Host;
use policies::ceiling::Ceiling;
use policies::scope::Base;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// Which builtins exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// All of them.
    Native,
    /// Those that look at nothing of the local machine.
    Pure,
}

/// What a partition is given.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `None`: no ceiling.
    pub ceiling: Option<Ceiling>,
    /// Where relative paths start; `None`: nobody knows.
    pub base: Option<Base>,
    /// Which builtins exist.
    pub profile: Profile,
    /// Fuel for the whole run; `None`: unbounded.
    pub fuel: Option<u64>,
    /// Bytes of heap; `None`: unbounded.
    pub heap: Option<u64>,
    /// Whether `log` is collected in order with the output.
    pub logs: Logs,
}

/// Where `log` goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// To standard error, at once.
    Stderr,
    /// In order with what is printed.
    WithOutput,
}

impl Settings {
    /// No ceiling and no limits: for code that the host trusts.
    #[must_use]
    pub fn trusted() -> Self {
        Self {
            ceiling: None,
            base: None,
            profile: Profile::Native,
            fuel: None,
            heap: None,
            logs: Logs::Stderr,
        }
    }
}

/// Fuel of a run without a limit.
const UNBOUNDED: i64 = i64::MAX / 4;
/// One charge at most without a limit: what asks for more than can be had fails by memory, not by fuel.
const UNLIMITED_CHARGE: i64 = 1 << 40;
/// Fuel between two looks at the limits and at output that waits.
const SLICE: i64 = 16_384;

/// The part of a partition that instructions and builtins share.
pub struct Core {
    pub(crate) program: Rc<Program>,
    pub(crate) globals: Vec<Value>,
    pub(crate) gate: Gate,
    pub(crate) host: Box<dyn Host>,
    pub(crate) settings: Settings,
    /// Fuel that is left, allocation not yet taken off.
    pub(crate) fuel: i64,
    /// Where the machine looks up next.
    pub(crate) look_at: i64,
    /// Fuel between two looks.
    pub(crate) slice: i64,
    budget: i64,
    /// Captured variables that may be part of a cycle.
    cells: RefCell<Vec<Weak<CellBox>>>,
    sweep_at: usize,
    pub(crate) modules: Vec<ModuleState>,
    /// Whether anything but declarations has run.
    pub(crate) started: bool,
    pub(crate) intent: Option<Rc<str>>,
    /// Warnings given once.
    pub(crate) warned: std::collections::BTreeSet<String>,
    /// Whether this runs a `test` block.
    pub(crate) testing: bool,
    /// Nobody is asked: `test` and `conform` answer for people.
    pub(crate) unattended: bool,
    pub(crate) shared: crate::vm::agents::Shared,
    /// When the wait that is going on ends.
    pub(crate) deadline: Option<f64>,
    pub(crate) is_agent: bool,
    /// The slice was over, and others want to run.
    pub(crate) yielded: bool,
    /// Stands before what an agent prints.
    pub(crate) name_prefix: Option<String>,
    /// What families keep between calls (open handles, the notebook …), by the family's name.
    pub keep: std::collections::BTreeMap<&'static str, Box<dyn std::any::Any>>,
    /// Accounts that its language defines to the unit.
    pub(crate) exact: exact::Exact,
}

/// A module of the program.
pub(crate) enum ModuleState {
    /// Its top level hasn't run.
    Waiting,
    /// It is running or has run.
    Ready(Value),
}

impl Core {
    pub(crate) fn new(program: Rc<Program>, settings: Settings, mut host: Box<dyn Host>) -> Self {
        let gate = Gate::new(settings.ceiling.clone(), settings.base.clone(), "program", host.as_mut());
        Self::behind(gate, program, settings, host)
    }

    fn behind(gate: Gate, program: Rc<Program>, settings: Settings, host: Box<dyn Host>) -> Self {
        let budget =
            settings.fuel.map_or(UNBOUNDED, |f| i64::try_from(f).unwrap_or(UNBOUNDED).min(UNBOUNDED));
        let modules = program.modules.iter().map(|_| ModuleState::Waiting).collect();
        let globals = vec![Value::Unbound; program.globals.len()];
        let mut core = Self {
            program,
            globals,
            gate,
            host,
            settings,
            fuel: budget,
            look_at: 0,
            slice: SLICE,
            budget,
            cells: RefCell::new(Vec::new()),
            sweep_at: 1024,
            modules,
            started: false,
            intent: None,
            warned: std::collections::BTreeSet::new(),
            testing: false,
            unattended: false,
            shared: crate::vm::agents::Shared::default(),
            deadline: None,
            is_agent: false,
            yielded: false,
            name_prefix: None,
            keep: std::collections::BTreeMap::new(),
            exact: exact::Exact::off(),
        };
        core.next_look();
        core
    }

    /// The core of a partition whose accounts its language defines.
    pub(crate) fn exact(
        program: Rc<Program>,
        terms: exact::Terms,
        fuel: Option<u64>,
        gate: Gate,
        host: Box<dyn Host>,
    ) -> Self {
        let settings = Settings {
            ceiling: None,
            base: None,
            profile: Profile::Pure,
            fuel,
            heap: None,
            logs: Logs::Stderr,
        };
        let mut core = Self::behind(gate, program, settings, host);
        core.exact = exact::Exact::on(terms);
        core.exact.fuel = fuel;
        core.next_look();
        core
    }

    /// Fuel for another turn.
    pub(crate) fn refuel(&mut self, fuel: u64) {
        self.fuel = i64::try_from(fuel).unwrap_or(UNBOUNDED).min(UNBOUNDED);
        self.budget = self.fuel;
        self.next_look();
    }

    /// The top level as something to call.
    pub(crate) fn top(&self) -> Value {
        let proto = self.program.protos[self.program.top as usize].clone();
        Value::Task(Rc::new(crate::vm::value::Closure::counted(proto, Box::default(), 0)))
    }

    /// The core of an agent: a copy of the globals, the same outside, and the given gate or one of its own.
    pub(crate) fn fork(&mut self, gate: Option<Gate>) -> Option<Self> {
        let host = self.host.fork()?;
        let gate = gate.unwrap_or_else(|| self.gate.agent());
        let mut core = Self::behind(gate, self.program.clone(), self.settings.clone(), host);
        core.globals =
            self.globals.iter().map(|v| if v.is_container() { copy_in(v) } else { v.clone() }).collect();
        core.shared = self.shared.clone();
        core.is_agent = true;
        core.unattended = self.unattended;
        core.started = true;
        core.fuel = self.fuel;
        core.next_look();
        Some(core)
    }

    /// Below so much fuel the next instruction waits for [`at_floor`](Self::at_floor). Elsewhere jumps look at it.
    #[inline]
    pub(crate) fn floor(&self) -> i64 {
        if self.exact.on { self.look_at } else { i64::MIN }
    }

    /// Fuel has come below the floor, or below what was the floor some time ago.
    #[cold]
    pub(crate) fn at_floor(&mut self) -> Result<(), Fault> {
        if self.fuel < self.look_at { self.slice() } else { Ok(()) }
    }

    pub(crate) fn next_look(&mut self) {
        self.look_at = (self.fuel - self.slice).max(if self.exact.on { 0 } else { heap::made() >> 5 });
    }

    /// Looks at the limits; called at the end of each slice and before each effect.
    #[inline]
    pub(crate) fn check_limits(&mut self) -> Result<(), Fault> {
        if self.exact.on {
            return if self.fuel < 0 { Err(Box::new(Stop::Trap(Trap::Fuel))) } else { Ok(()) };
        }
        if heap::over() {
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        if self.fuel < heap::made() >> 5 {
            return Err(Box::new(Stop::Trap(Trap::Fuel)));
        }
        Ok(())
    }

    /// The end of a slice.
    #[cold]
    pub(crate) fn slice(&mut self) -> Result<(), Fault> {
        self.check_limits()?;
        self.next_look();
        self.host.tick();
        self.interruption()?;
        if !self.exact.on && self.cells.borrow().len() > self.sweep_at {
            self.sweep();
        }
        Ok(())
    }

    /// As [`slice`](Self::slice), where the machine can stop and go on later: lets agents take turns.
    #[cold]
    pub(crate) fn slice_or_yield(&mut self) -> Result<(), Fault> {
        self.slice()?;
        if !self.exact.on && (self.is_agent || self.shared.borrow().alive()) {
            self.yielded = true;
            return Err(Box::new(Stop::Wait));
        }
        Ok(())
    }

    /// Ends what runs if the host wants it to end.
    pub(crate) fn interruption(&mut self) -> Result<(), Fault> {
        if self.host.interrupted() {
            Err(Box::new(Stop::Cancelled("interrupted".to_owned())))
        } else {
            Ok(())
        }
    }

    pub(crate) fn charge(&mut self, fuel: u64) -> Result<(), Fault> {
        self.fuel_used(fuel);
        if self.fuel < self.look_at {
            return self.slice();
        }
        Ok(())
    }

    pub(crate) fn fuel_used(&mut self, fuel: u64) {
        let most = if self.exact.on && self.exact.fuel.is_none() { UNLIMITED_CHARGE } else { UNBOUNDED };
        self.fuel -= i64::try_from(fuel).unwrap_or(most).min(most);
    }

    /// Tells walks over values how far they may go: [`heap::work`].
    #[inline]
    pub(crate) fn bound_work(&self) {
        if !self.exact.on {
            heap::set_fuel(self.fuel);
        }
    }

    /// Fuel that is left.
    pub(crate) fn fuel_left(&self) -> i64 {
        self.fuel - if self.exact.on { 0 } else { heap::made() >> 5 }
    }

    /// Fuel used so far.
    pub(crate) fn used(&self) -> u64 {
        let made = if self.exact.on { 0 } else { heap::made() >> 5 };
        (self.budget - self.fuel + made).max(0) as u64
    }

    pub(crate) fn site(&self, (file, at): (u32, u32)) -> Site {
        match self.program.sources.get(file as usize) {
            Some(source) => Site { file: source.name.clone(), line: source.line_of(at) },
            None => Site::default(),
        }
    }

    /// A fresh captured variable, known to the partition so that cycles through it can be broken.
    pub(crate) fn cell(&self, value: Value) -> Value {
        let cell = Rc::new(CellBox::new(value));
        self.cells.borrow_mut().push(Rc::downgrade(&cell));
        Value::Cell(cell)
    }

    /// Forgets dead captured variables, and frees cycles that nothing outside reaches.
    fn sweep(&mut self) {
        let mut cells = std::mem::take(&mut *self.cells.borrow_mut());
        cells.retain(|c| c.strong_count() > 0);
        crate::vm::cycles::collect(cells.iter().filter_map(Weak::upgrade).map(Value::Cell).collect());
        cells.retain(|c| c.strong_count() > 0);
        self.sweep_at = (cells.len() * 2).max(1024);
        *self.cells.borrow_mut() = cells;
    }

    /// The module of a program's file.
    pub(crate) fn module(&self, index: u32) -> Option<Rc<Module>> {
        self.program.modules.get(index as usize).map(|m| m.module.clone())
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        crate::builtins::database::close_all(self);
        for stack in std::mem::take(&mut self.exact.tasks.spare) {
            crate::vm::tasks::stacks::give(stack);
        }
        // Captured variables may hold one another: emptied one by one, everything goes.
        for cell in self.cells.take() {
            if let Some(cell) = cell.upgrade() {
                drop(cell.0.take());
            }
        }
        for shared in self.exact.take_shared() {
            if let Some(shared) = shared.upgrade() {
                drop(shared.take_children());
            }
        }
    }
}

/// Runs something with a partition's meter as the current one.
pub(crate) struct Entered(Option<Meter>);

impl Entered {
    pub(crate) fn new(meter: Meter) -> Self {
        Self(Some(meter.enter()))
    }

    /// Ends it and gives the partition's counts.
    pub(crate) fn leave(mut self) -> Meter {
        match self.0.take() {
            Some(outer) => outer.enter(),
            None => heap::current(),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(outer) = self.0.take() {
            let _ = outer.enter();
        }
    }
}

/// A global's value for an agent: tasks as they are, secrets as text.
fn copy_in(value: &Value) -> Value {
    match value {
        Value::Task(_) => value.clone(),
        other => crate::vm::agents::cross(other),
    }
}
