//! Leaving frames: an error on its way to the handler that catches it, and a `stop` to its loop.

use super::frame::{Frame, Ret};
use super::machine::Machine;
use super::trap::{Fault, Raised, Stop};
use super::value::Value;
use crate::builtins::Ctx;
use crate::partition::host::Scene;

impl Machine {
    /// Takes an error to the handler that catches it, or gives it back after leaving every frame.
    pub(crate) fn unwind(&mut self, mut fault: Fault) -> Result<(), Fault> {
        let exact = self.core.exact.on;
        if exact && !self.frames.is_empty() {
            self.core.exact.stopped = self.place();
        }
        if let Stop::Raised(error) = &mut *fault {
            if error.place.is_none() && (exact || !error.denied) {
                error.place = Some(self.place());
            }
            if error.stack.is_empty() && !exact {
                error.stack = self.trace();
                if self.core.host.explains() {
                    let scene = self.scene();
                    self.core.host.scene(scene);
                }
            }
        }
        let catchable = matches!(*fault, Stop::Raised(_));
        loop {
            let top = self.frames.len();
            if top == 0 {
                self.handlers.clear();
                return Err(fault);
            }
            if catchable
                && let Some(handler) = self.handlers.last().copied()
                && handler.frame as usize == top - 1
            {
                self.handlers.pop();
                self.core.gate.truncate(usize::from(handler.layers));
                let message = match *fault {
                    Stop::Raised(Raised { message, .. }) => Value::string(message),
                    _ => Value::Nothing,
                };
                if let Some(frame) = self.frames.last_mut() {
                    frame.pc = handler.pc;
                    let at = frame.base as usize + usize::from(handler.register);
                    self.stack[at] = message;
                }
                return Ok(());
            }
            let place = self.place();
            let Some(frame) = self.frames.last_mut() else { continue };
            if let Some(state) = frame.native.as_mut() {
                if catchable {
                    let mut ctx = Ctx { core: &mut self.core, place, name: frame.name };
                    match state.caught(&mut ctx, fault) {
                        Ok(next) => match self.advance(next) {
                            Ok(()) => return Ok(()),
                            Err(again) if *again == Stop::Wait => return Err(again),
                            Err(again) => {
                                fault = again;
                                if let Stop::Raised(error) = &mut *fault
                                    && error.place.is_none()
                                    && !error.denied
                                {
                                    error.place = Some(self.place());
                                }
                                continue;
                            }
                        },
                        Err(same) => fault = same,
                    }
                }
                if self.frames.len() == top {
                    self.pop_native();
                }
                continue;
            }
            self.pop_frame();
        }
    }

    /// Drops the top frame and what its registers hold.
    fn pop_frame(&mut self) {
        if let Some(frame) = self.frames.pop() {
            self.core.gate.truncate(usize::from(frame.layers));
            self.core.exact.leave_frame(self.core.program.protos[frame.proto as usize].frame_bytes);
            let registers = usize::from(self.core.program.protos[frame.proto as usize].registers);
            self.clear(frame.base as usize, registers);
            let depth = self.frames.len() as u32;
            while self.handlers.last().is_some_and(|h| h.frame >= depth) {
                self.handlers.pop();
            }
        }
    }

    /// What can be seen where the machine stands: the variables of the innermost task, then those of the top level.
    fn scene(&self) -> Scene {
        let mut variables: Vec<(String, String)> = Vec::new();
        let mut see = |name: &str, value: &Value| {
            let value = match value {
                Value::Cell(cell) => cell.0.borrow().clone(),
                other => other.clone(),
            };
            let hidden = matches!(value, Value::Unbound | Value::Task(_) | Value::Builtin(_));
            if !hidden && variables.len() < 50 && variables.iter().all(|(seen, _)| seen != name) {
                let mut shown = super::render::inside(&value);
                if let Some((cut, _)) = shown.char_indices().nth(120) {
                    shown.truncate(cut);
                    shown.push('…');
                }
                variables.push((name.to_owned(), shown));
            }
        };
        let code = |f: &&Frame| f.native.is_none() && f.name.is_empty();
        let inner = self.frames.iter().rev().find(code);
        let outer = self.frames.iter().find(code);
        for frame in inner.into_iter().chain(outer) {
            let proto = &self.core.program.protos[frame.proto as usize];
            let at = frame.pc.saturating_sub(1);
            for var in proto.vars.iter().rev().filter(|var| var.from <= at && at < var.to) {
                if let Some(value) = self.stack.get(frame.base as usize + usize::from(var.register)) {
                    see(&var.name, value);
                }
            }
        }
        for (name, value) in self.core.program.globals.iter().zip(&self.core.globals) {
            see(name, value);
        }
        Scene { variables, intent: self.core.intent.as_deref().map(str::to_owned) }
    }

    fn trace(&self) -> Vec<(String, u32, u32)> {
        let protos = &self.core.program.protos;
        self.frames
            .iter()
            .rev()
            .filter(|f| f.native.is_none())
            .take(50)
            .map(|f| {
                let proto = &protos[f.proto as usize];
                let at = proto.places.get((f.pc as usize).saturating_sub(1)).copied().unwrap_or(0);
                let name = match &proto.name {
                    Some(name) => name.to_string(),
                    None if f.ret == Ret::Top => "<program>".to_owned(),
                    None => "<lambda>".to_owned(),
                };
                (name, proto.file, at)
            })
            .collect()
    }

    /// `stop` outside a loop of its own function: leaves a caller's loop, or ends the task or the program.
    pub(super) fn stop(&mut self) -> Result<(), Fault> {
        if self.stop_dynamic() {
            return Ok(());
        }
        while self.handlers.last().is_some_and(|h| h.frame as usize + 1 >= self.frames.len()) {
            self.handlers.pop();
        }
        let ret = self.frames.last().map_or(Ret::Top, |f| f.ret);
        if let Some(frame) = self.frames.pop() {
            self.core.gate.truncate(usize::from(frame.layers));
        }
        self.deliver(ret, Value::Nothing)
    }

    /// `stop` without a loop of its own: leaves the innermost loop of a caller. `false` if there is none.
    fn stop_dynamic(&mut self) -> bool {
        let protos = self.core.program.clone();
        let target =
            self.frames[..self.frames.len().saturating_sub(1)].iter().enumerate().rev().find_map(|(i, f)| {
                if f.native.is_some() {
                    return None;
                }
                let proto = &protos.protos[f.proto as usize];
                let at = f.pc.saturating_sub(1);
                let range = proto.loops.iter().find(|l| l.from <= at && at < l.to)?;
                Some((i, *range))
            });
        let Some((index, range)) = target else { return false };
        while self.frames.len() > index + 1 {
            if self.frames.last().is_some_and(|f| f.native.is_some()) {
                self.pop_native();
            } else {
                self.pop_frame();
            }
        }
        let own = self.handlers.iter().position(|h| h.frame as usize >= index).unwrap_or(self.handlers.len());
        self.handlers.truncate(own + usize::from(range.tries));
        if let Some(frame) = self.frames.last_mut() {
            frame.pc = range.exit;
            let layers = usize::from(frame.layers + range.sandboxes);
            self.core.gate.truncate(layers);
        }
        true
    }
}
