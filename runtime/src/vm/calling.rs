//! Calls off the fast path: constructors, arguments by name, and the ceiling of `sandbox under`.

use super::machine::Machine;
use super::other::Other;
use super::render::{inside, type_name};
use super::steps::too_many;
use super::trap::{Fault, raised};
use super::value::{Map, Record, Value};
use std::rc::Rc;

impl Machine {
    /// Calls a value that is neither task nor builtin: constructors.
    pub(crate) fn call_other(&mut self, callee: &Value, first: usize, count: usize) -> Result<Value, Fault> {
        let take = |stack: &mut Vec<Value>| -> Vec<Value> {
            stack[first..first + count].iter_mut().map(std::mem::take).collect()
        };
        match callee.as_other() {
            Some(Other::Type(shape)) => {
                let wanted = shape.fields.len();
                if count != wanted {
                    return Err(raised(format!(
                        "Type {} expects {wanted} {}, got {count}",
                        shape.name,
                        if wanted == 1 { "field" } else { "fields" }
                    )));
                }
                let values = take(&mut self.stack);
                Ok(Value::Record(Rc::new(Record::new(shape.clone(), None, values))))
            }
            Some(Other::Maker(shape, i)) => {
                let (name, wanted) = &shape.variants[*i];
                if count != *wanted {
                    return Err(raised(format!(
                        "variant {}.{name} expects {wanted} fields, got {count}",
                        shape.name
                    )));
                }
                let values = take(&mut self.stack);
                Ok(Value::Record(Rc::new(Record::new(shape.clone(), Some(*i), values))))
            }
            _ => Err(raised(format!("Cannot call {}", type_name(callee)))),
        }
    }

    /// Orders the arguments of a call with names: into the parameters' places. Gives their count.
    pub(crate) fn place_named(
        &mut self,
        callee: &Value,
        first: usize,
        count: usize,
        names: &[Rc<str>],
    ) -> Result<usize, Fault> {
        let positional = count - names.len();
        let params: Vec<&str> = match callee {
            Value::Task(task) => task.proto.params.iter().map(|p| &**p).collect(),
            Value::Builtin(id) => {
                let builtin = crate::builtins::get(*id);
                if !builtin.named {
                    let shown = inside(&self.stack[first + positional]);
                    return Err(raised(format!(
                        "{}() does not accept named arguments (got {} = {shown}); pass it by position",
                        builtin.name, names[0]
                    )));
                }
                if positional > usize::from(builtin.positional) {
                    return Err(raised(too_many(builtin, positional)));
                }
                builtin.params.to_vec()
            }
            other => match other.as_other() {
                Some(Other::Type(shape)) => shape.fields.iter().map(|f| &**f).collect(),
                _ => return Err(raised("this can't be called with named arguments")),
            },
        };
        if let Value::Task(task) = callee
            && positional > params.len()
        {
            return Err(raised(super::machine::too_many(&task.proto, count)));
        }
        let mut placed: Vec<Option<Value>> = vec![None; params.len()];
        for (i, slot) in placed.iter_mut().enumerate().take(positional) {
            *slot = Some(std::mem::take(&mut self.stack[first + i]));
        }
        for (i, name) in names.iter().enumerate() {
            let value = std::mem::take(&mut self.stack[first + positional + i]);
            let Some(at) = params.iter().position(|p| *p == &**name) else {
                return Err(raised(format!("unknown parameter '{name}'")));
            };
            if placed[at].replace(value).is_some() {
                return Err(raised(format!("duplicate argument '{name}'")));
            }
        }
        let last = placed.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
        self.room(first + last);
        for (i, value) in placed.into_iter().take(last).enumerate() {
            let value = match (value, callee) {
                (Some(value), _) => value,
                (None, Value::Task(task)) if !task.proto.defaults[i] => {
                    return Err(raised(super::machine::missing(&task.proto, i)));
                }
                (None, Value::Task(_) | Value::Builtin(_)) => Value::Unbound,
                (None, _) => Value::Nothing,
            };
            self.stack[first + i] = value;
        }
        if let Value::Builtin(id) = callee {
            let builtin = crate::builtins::get(*id);
            for i in 0..usize::from(builtin.required) {
                if i >= last || matches!(self.stack[first + i], Value::Unbound) {
                    return Err(raised(format!(
                        "{}() is missing argument '{}'",
                        builtin.name, builtin.params[i]
                    )));
                }
            }
        }
        Ok(last)
    }

    /// The ceiling that `sandbox under` names: a map of capability and scopes.
    pub(crate) fn under(&mut self, caps: &Value) -> Result<(), Fault> {
        let Value::Map(map) = caps else {
            return Err(raised(format!(
                "sandbox under expects a map of capabilities, got {}",
                type_name(caps)
            )));
        };
        let allowed = ceiling_of(map, true)?;
        self.core.gate.enter_under(allowed);
        Ok(())
    }
}

/// `{name: scope | [scopes] | nothing}` as a ceiling.
pub(crate) fn ceiling_of(map: &Map, delegable: bool) -> Result<policies::ceiling::Ceiling, Fault> {
    use policies::capability::Capability;
    use policies::ceiling::{Ceiling, Grant};
    let mut grants = Vec::new();
    for (key, value) in map.entries() {
        let name = key.as_str();
        let Some(capability) = Capability::from_name(name) else {
            return Err(raised(format!("unknown capability '{name}'")));
        };
        let local = matches!(
            capability,
            Capability::Stdout | Capability::Stdin | Capability::Time | Capability::Random
        );
        if delegable && local {
            return Err(raised(format!("{name} is process-local")));
        }
        let scopes: Vec<Value> = match value {
            Value::Nothing => Vec::new(),
            Value::List(list) => list.items().to_vec(),
            one => vec![one.clone()],
        };
        if scopes.is_empty() {
            grants.push(Grant::whole(capability));
        }
        for scope in scopes {
            let text = super::render::display(&scope);
            grants.push(Grant::new(capability, Some(&text)).map_err(|e| raised(e.to_string()))?);
        }
    }
    Ok(Ceiling::of(grants))
}
