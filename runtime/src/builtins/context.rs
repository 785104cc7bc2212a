//! What a builtin sees: its arguments, the partition, and the outside.

use crate::partition::Core;
use crate::partition::heap;
use crate::vm::render::type_name;
use crate::vm::trap::{Fault, Stop, Trap, denied, raised};
use crate::vm::value::Value;
use policies::capability::Capability;

/// Arguments of a call, in the machine's registers.
pub struct Args<'a> {
    /// The values by position; a gap between named ones is [`Value::Unbound`].
    pub values: &'a mut [Value],
    /// The builtin's name, for messages.
    pub name: &'static str,
}

impl Args<'_> {
    /// Number of arguments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// An argument, if it was given; `nothing` counts as given.
    #[must_use]
    pub fn given(&self, i: usize) -> Option<&Value> {
        self.values.get(i).filter(|v| !matches!(v, Value::Unbound))
    }

    /// An optional argument: `nothing` is as good as none.
    #[must_use]
    pub fn optional(&self, i: usize) -> Option<&Value> {
        self.given(i).filter(|v| !v.is_nothing())
    }

    /// An argument, `nothing` if it is missing.
    #[must_use]
    pub fn at(&self, i: usize) -> &Value {
        self.values.get(i).unwrap_or(&Value::Nothing)
    }

    /// Takes an argument over.
    pub fn take(&mut self, i: usize) -> Value {
        self.values.get_mut(i).map_or(Value::Nothing, std::mem::take)
    }

    /// A message about an argument of the wrong type.
    #[must_use]
    pub fn wrong(&self, i: usize, expected: &str) -> Fault {
        raised(format!("{} expects {expected}, got {}", self.name, type_name(self.at(i))))
    }

    /// A text.
    ///
    /// # Errors
    /// It is something else.
    pub fn text(&self, i: usize) -> Result<&str, Fault> {
        self.at(i).as_text().ok_or_else(|| self.wrong(i, "a text"))
    }

    /// A list.
    ///
    /// # Errors
    /// It is something else.
    pub fn list(&self, i: usize) -> Result<&[Value], Fault> {
        self.at(i).as_list().ok_or_else(|| self.wrong(i, "a list"))
    }

    /// A map.
    ///
    /// # Errors
    /// It is something else.
    pub fn map(&self, i: usize) -> Result<&crate::vm::value::Map, Fault> {
        match self.at(i) {
            Value::Map(m) => Ok(m),
            _ => Err(self.wrong(i, "a map")),
        }
    }

    /// A map of options, if there is one, with these keys and no others.
    ///
    /// # Errors
    /// It is no map, or has another key.
    pub fn options(&self, i: usize, known: &[&str]) -> Result<Option<&crate::vm::value::Map>, Fault> {
        if self.optional(i).is_none() {
            return Ok(None);
        }
        let map = self.map(i)?;
        match map.entries().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => Err(raised(format!(
                "{}: unknown option '{}', one of {}",
                self.name,
                key.as_str(),
                known.join(", ")
            ))),
            None => Ok(Some(map)),
        }
    }

    /// A number as a double.
    ///
    /// # Errors
    /// It is something else.
    pub fn float(&self, i: usize) -> Result<f64, Fault> {
        match self.at(i) {
            Value::Int(n) => Ok(*n as f64),
            Value::Float(f) => Ok(*f),
            Value::Big(n) => Ok(crate::vm::number::big_to_float(&n.0)),
            v => match v.as_decimal() {
                Some(d) => Ok(d.to_f64()),
                None => Err(self.wrong(i, "a number")),
            },
        }
    }

    /// An integer within 64 bits; whole doubles pass.
    ///
    /// # Errors
    /// It is something else.
    pub fn int(&self, i: usize, what: &str) -> Result<i64, Fault> {
        match self.at(i) {
            Value::Int(n) => Ok(*n),
            Value::Float(f) if f.fract() == 0.0 && f.abs() < 9e18 => Ok(*f as i64),
            v => Err(raised(format!(
                "{}: {what} must be an integer{}, got {}",
                self.name,
                crate::vm::number::too_wide(v),
                crate::vm::render::brief(v)
            ))),
        }
    }

    /// A flag: truthiness of an optional argument.
    #[must_use]
    pub fn flag(&self, i: usize) -> bool {
        self.optional(i).is_some_and(crate::vm::ops::truthy)
    }
}

/// The partition and the outside, for one call.
pub struct Ctx<'a> {
    /// The partition.
    pub core: &'a mut Core,
    /// Where the call stands: file index and byte offset.
    pub place: (u32, u32),
    /// The builtin's name.
    pub name: &'static str,
}

impl Ctx<'_> {
    /// Charges fuel for work.
    ///
    /// # Errors
    /// The fuel is used up.
    pub fn charge(&mut self, fuel: u64) -> Result<(), Fault> {
        self.core.charge(fuel)
    }

    /// Makes sure that a large result fits before it is made.
    ///
    /// # Errors
    /// It would pass the heap's limit.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Fault> {
        if bytes > 1 << 16 && heap::would_pass(bytes as u64) {
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        Ok(())
    }

    /// Asks the gate.
    ///
    /// # Errors
    /// The denial.
    pub fn ask(&mut self, capability: Capability, target: Option<&str>) -> Result<(), Fault> {
        let source = format!("{}()", self.name);
        self.core.ask(capability, target, &source, self.place)
    }

    /// Asks the gate for what reaches only what is granted anyway.
    ///
    /// # Errors
    /// The denial.
    pub(crate) fn ask_any(&mut self, capability: Capability) -> Result<(), Fault> {
        self.core.check_limits()?;
        let site = self.core.site(self.place);
        let source = format!("{}()", self.name);
        let core = &mut *self.core;
        core.gate.ask_any(capability, &source, &site, core.host.as_mut()).map_err(denied)
    }

    /// Prints, as `print` does.
    ///
    /// # Errors
    /// The ceiling has no `stdout`.
    pub fn print(&mut self, text: &str) -> Result<(), Fault> {
        self.core.print(text, self.name, self.place)
    }
}

impl Core {
    /// Asks the gate for a use.
    pub(crate) fn ask(
        &mut self,
        capability: Capability,
        target: Option<&str>,
        source: &str,
        place: (u32, u32),
    ) -> Result<(), Fault> {
        self.check_limits()?;
        let site = self.site(place);
        self.gate.ask(capability, target, source, &site, self.host.as_mut()).map_err(denied)
    }

    /// Whether something may be printed, which is paid for.
    fn may_print(&mut self, text: &str, name: &str, place: (u32, u32)) -> Result<(), Fault> {
        self.check_limits()?;
        if !self.gate.output_is_open() {
            let source = format!("{name}()");
            let site = self.site(place);
            self.gate.ask(Capability::Stdout, None, &source, &site, self.host.as_mut()).map_err(denied)?;
        }
        self.fuel_used(text.len() as u64 / 32);
        Ok(())
    }

    /// Prints through the gate, without the end of a line.
    pub(crate) fn print_part(&mut self, text: &str, name: &str, place: (u32, u32)) -> Result<(), Fault> {
        self.may_print(text, name, place)?;
        self.host.print_part(text);
        Ok(())
    }

    /// Prints through the gate.
    pub(crate) fn print(&mut self, text: &str, name: &str, place: (u32, u32)) -> Result<(), Fault> {
        self.may_print(text, name, place)?;
        match &self.name_prefix {
            Some(prefix) => self.host.print(&format!("{prefix}{text}")),
            None => self.host.print(text),
        }
        Ok(())
    }
}

/// What a builtin that calls back wants next.
pub enum Next {
    /// Call the program with these arguments; the result comes to the next `resume`.
    Call(Value, CallArgs),
    /// Call what was called last once more, with as many arguments.
    Again(CallArgs),
    /// The result.
    Done(Value),
}

/// At most two arguments of a call back.
#[derive(Default)]
pub struct CallArgs {
    pub(crate) values: [Value; 2],
    pub(crate) count: u8,
}

impl From<[Value; 1]> for CallArgs {
    fn from([a]: [Value; 1]) -> Self {
        Self { values: [a, Value::Nothing], count: 1 }
    }
}

impl From<[Value; 2]> for CallArgs {
    fn from([a, b]: [Value; 2]) -> Self {
        Self { values: [a, b], count: 2 }
    }
}

impl From<[Value; 0]> for CallArgs {
    fn from(_: [Value; 0]) -> Self {
        Self::default()
    }
}

/// The state of a builtin that calls back into the program: the machine drives it, so that deep recursion through
/// builtins needs no native stack and an agent can wait inside a callback.
pub trait Resume {
    /// Goes on; `last` is the result of the last call, `None` at the start.
    ///
    /// # Errors
    /// What the builtin raises.
    fn resume(&mut self, ctx: &mut Ctx<'_>, last: Option<Value>) -> Result<Next, Fault>;

    /// An error of the program inside the call; gives it on unless the builtin catches it.
    ///
    /// # Errors
    /// The error, if it isn't caught.
    fn caught(&mut self, _ctx: &mut Ctx<'_>, fault: Fault) -> Result<Next, Fault> {
        Err(fault)
    }

    /// What [`Next::Again`] calls.
    fn callee(&self) -> Value {
        Value::Nothing
    }

    /// Undoes what the builtin changed around the call (a narrowed gate …), whichever way it ends.
    fn leave(&mut self, _core: &mut Core) {}
}
