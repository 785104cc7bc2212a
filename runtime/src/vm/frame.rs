//! Call frames, on the heap and never on the host's stack.

use super::value::{Closure, Value};
use crate::builtins::Resume;
use std::rc::Rc;

/// Nested calls of tasks, and as many of builtins that call back: they need frames too, and none of the host's stack.
pub(crate) const MAX_FRAMES: usize = 3001;

/// One call.
pub(crate) struct Frame {
    pub(crate) proto: u32,
    pub(crate) pc: u32,
    /// First register in the stack.
    pub(crate) base: u32,
    /// Gate layers that were open at the call.
    pub(crate) layers: u16,
    pub(crate) ret: Ret,
    /// Only for functions that captured something.
    pub(crate) closure: Option<Rc<Closure>>,
    /// A builtin that calls back, in place of code.
    pub(crate) native: Option<Box<dyn Resume>>,
    pub(crate) name: &'static str,
}

/// Where a result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ret {
    /// A register of the caller.
    Reg(u8),
    /// The builtin that called back.
    Native,
    /// Nowhere: the caller's instruction is executed again.
    Again,
    /// The end of the run.
    Top,
}

/// An open `try`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) frame: u32,
    pub(crate) pc: u32,
    pub(crate) layers: u16,
    pub(crate) register: u8,
}

/// The variables that a function captured.
pub(crate) fn captured(frame: &Frame) -> &[Value] {
    frame.closure.as_ref().map_or(&[], |c| &c.captured)
}
