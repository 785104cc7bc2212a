//! What both compilers write and the machine runs.

pub mod builder;
mod opcode;

pub use opcode::{Ins, Op};

use crate::vm::value::{Shape, Value};
use std::rc::Rc;

/// Registers of a function that hold variables; the rest of a window is for intermediate results.
pub(crate) const MAX_LOCALS: usize = 150;
/// Registers of one function.
pub(crate) const WINDOW: usize = 256;
/// In place of the register of a call's result: nobody wants it. No function has that many registers.
pub(crate) const NOWHERE: u8 = 255;

/// One compiled function.
#[derive(Debug)]
pub struct Proto {
    /// Place in the program's list.
    pub(crate) index: u32,
    /// `None` for a lambda.
    pub(crate) name: Option<Rc<str>>,
    /// Which source file.
    pub(crate) file: u32,
    pub(crate) params: Vec<Rc<str>>,
    /// For each parameter whether it has a default.
    pub(crate) defaults: Vec<bool>,
    /// Parameters without a default.
    pub(crate) required: usize,
    /// Registers below this one hold variables.
    pub(crate) locals: u8,
    /// Registers used.
    pub(crate) registers: u16,
    pub(crate) code: Vec<Ins>,
    /// Byte offset in the source for each instruction.
    pub(crate) places: Vec<u32>,
    pub(crate) consts: Vec<Const>,
    /// Where a closure's captured variables come from.
    pub(crate) captures: Vec<Capture>,
    /// Loops, outer ones first: where `stop` from a called task goes.
    pub(crate) loops: Vec<LoopRange>,
    /// Where its variables are, for whoever explains an error.
    pub(crate) vars: Vec<VarPlace>,
    /// The `require` lines at the top of the body.
    pub(crate) requires: Vec<(Rc<str>, Vec<Rc<str>>)>,
    /// Byte offset of the function itself.
    pub(crate) at: u32,
    /// Fuel and bytes of entering it, in an exact partition.
    pub(crate) entry: u32,
    pub(crate) frame_bytes: u32,
    /// Declared at the top level: its closure counts nothing.
    pub(crate) fixed: bool,
}

impl Proto {
    /// A constant's text; empty if it has none.
    #[inline]
    pub(crate) fn text(&self, index: u32) -> &str {
        match self.consts.get(index as usize) {
            Some(Const::Value(value)) => value.as_text().unwrap_or(""),
            _ => "",
        }
    }
}

/// A function of the top level that a host may call.
#[derive(Debug, Clone)]
pub struct EntryPoint {
    pub(crate) name: Rc<str>,
    pub(crate) params: usize,
    pub(crate) global: u32,
    pub(crate) at: u32,
}

/// A constant of a function.
#[derive(Debug, Clone)]
pub enum Const {
    /// A value, and its text where it is one (keys of members).
    Value(Value),
    /// Names of the last arguments of a call.
    Names(Rc<[Rc<str>]>),
    /// A type or an enum.
    Shape(Rc<Shape>),
    /// A `require` line.
    Require(Rc<str>, Rc<[Rc<str>]>),
    /// Parts of a model or human operation.
    Operation(&'static str, Rc<[Rc<str>]>),
}

/// A variable's register, and the instructions where it is in scope.
#[derive(Debug, Clone)]
pub(crate) struct VarPlace {
    pub(crate) name: Rc<str>,
    pub(crate) register: u8,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Where a captured variable is when the closure is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// A register of the function that makes the closure.
    Local(u8),
    /// A captured variable of that function.
    Captured(u8),
}

/// A loop's body.
#[derive(Debug, Clone, Copy)]
pub struct LoopRange {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) exit: u32,
    /// `try` blocks of this function that are open around the loop.
    pub(crate) tries: u16,
    /// Sandboxes of this function that are open around the loop.
    pub(crate) sandboxes: u16,
}

/// A compiled program with its modules.
#[derive(Debug, Clone, Default)]
pub struct Program {
    pub(crate) protos: Vec<Rc<Proto>>,
    /// Names of the globals, for messages.
    pub(crate) globals: Vec<Rc<str>>,
    /// Modules, those that others use first.
    pub(crate) modules: Vec<ModuleInfo>,
    /// Top level of the entry file.
    pub(crate) top: u32,
    /// `test` blocks of the entry file, in order.
    pub(crate) tests: Vec<(Rc<str>, u32)>,
    /// Agents of the entry file.
    pub(crate) agents: Vec<(Rc<str>, u32)>,
    pub(crate) sources: Vec<Rc<crate::source::Source>>,
    /// Functions of the top level.
    pub(crate) entries: Vec<EntryPoint>,
}

/// A module of a program.
#[derive(Debug, Clone)]
pub struct ModuleInfo {
    pub(crate) module: Rc<crate::vm::other::Module>,
    /// Its top level.
    pub(crate) top: u32,
}
