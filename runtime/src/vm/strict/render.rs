//! Values as text: for programs, which pay for it, and for messages, where it is cut.

use super::host_index;
use crate::partition::Core;
use crate::vm::number;
use crate::vm::shared::Body;
use crate::vm::trap::{Fault, Stop, Trap, raised};
use crate::vm::value::Value;
use std::fmt::Write as _;
use std::rc::Rc;

/// Containers that are printed inside one another.
const PRINT_DEPTH: usize = 64;

/// A control character as it is shown.
pub(crate) fn escaped(c: char) -> String {
    match c {
        '\n' => "\\n".into(),
        '\t' => "\\t".into(),
        '\r' => "\\r".into(),
        '\0' => "\\0".into(),
        '\\' => "\\\\".into(),
        '"' => "\\\"".into(),
        c if c.is_control() => format!("\\u{{{:x}}}", c as u32),
        c => c.into(),
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if c.is_control() || c == '\\' || c == '"' {
            out.push_str(&escaped(c));
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

struct Renderer<'c> {
    /// `None`: somebody else pays.
    core: Option<&'c mut Core>,
    out: String,
    open: Vec<usize>,
    most: usize,
    /// Whether it is for a message: then what is beyond `most` is never looked at.
    cuts: bool,
}

impl Renderer<'_> {
    fn pay(&mut self, fuel: u64) -> Result<(), Fault> {
        if let Some(core) = &mut self.core {
            core.charge(fuel)?;
        }
        if self.out.len() > self.most {
            return Err(Box::new(Stop::Trap(Trap::Memory)));
        }
        Ok(())
    }

    /// As much of a text as can be seen, and a little more: so much is read and paid for.
    fn seen<'t>(&self, text: &'t str) -> &'t str {
        if !self.cuts {
            return text;
        }
        let mut end = text.len().min(self.most.saturating_sub(self.out.len()) + 4);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        &text[..end]
    }

    fn name(&mut self, text: &str) {
        let seen = self.seen(text);
        self.out.push_str(seen);
    }

    fn text(&mut self, value: &Value) -> Result<(), Fault> {
        let text = value.as_text().unwrap_or("");
        self.pay(text.len() as u64 / 32)?;
        self.out.push_str(text);
        Ok(())
    }

    fn value(&mut self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Nothing | Value::Unbound => self.out.push_str("nil"),
            Value::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Value::Int(n) => {
                let _ = write!(self.out, "{n}");
            }
            Value::Float(f) => self.out.push_str(&number::float(*f)),
            Value::Short(_) | Value::Text(_) => {
                let text = self.seen(value.as_text().unwrap_or(""));
                self.pay(text.len() as u64 / 32)?;
                quote(text, &mut self.out);
            }
            Value::Shared(shared) => self.shared(shared)?,
            Value::Builtin(id) => match host_index(*id) {
                Some(index) => {
                    let name =
                        self.core.as_ref().and_then(|c| c.exact.hosts.get(index).map(|h| h.name.clone()));
                    let _ = write!(self.out, "<fn {}>", name.as_deref().unwrap_or("host"));
                }
                None => {
                    let _ = write!(self.out, "<fn {}>", crate::builtins::get(*id).name);
                }
            },
            Value::Task(task) => match &task.proto.name {
                Some(name) => {
                    self.out.push_str("<fn ");
                    self.name(name);
                    self.out.push('>');
                }
                None => self.out.push_str("<fn>"),
            },
            _ => self.out.push_str("<fn>"),
        }
        Ok(())
    }

    fn shared(&mut self, shared: &Rc<crate::vm::shared::Shared>) -> Result<(), Fault> {
        let address = Rc::as_ptr(shared) as usize;
        if matches!(shared.0, Body::Array(_) | Body::Record(_) | Body::Tagged(..)) {
            if self.open.contains(&address) || self.open.len() >= PRINT_DEPTH {
                self.out.push_str("...");
                return Ok(());
            }
            self.open.push(address);
        }
        match &shared.0 {
            Body::Array(array) => {
                self.out.push('[');
                for i in 0..array.len() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.pay(1)?;
                    let item = array.items()[i].clone();
                    self.value(&item)?;
                }
                self.out.push(']');
            }
            Body::Record(table) => {
                if table.len() == 0 {
                    self.out.push_str("{}");
                    self.open.pop();
                    return Ok(());
                }
                self.out.push_str("{ ");
                for i in 0..table.len() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.pay(1)?;
                    let field = table.entries().get_index(i).map(|(k, v)| (k.clone(), v.clone()));
                    let Some((key, value)) = field else { break };
                    let name = self.seen(key.as_str());
                    if is_word(name) {
                        self.out.push_str(name);
                    } else {
                        self.out.push('[');
                        quote(name, &mut self.out);
                        self.out.push(']');
                    }
                    self.out.push_str(" = ");
                    self.value(&value)?;
                }
                self.out.push_str(" }");
            }
            Body::Tagged(tag, value) => {
                self.name(tag);
                self.out.push('(');
                self.pay(1)?;
                self.value(value)?;
                self.out.push(')');
            }
            Body::Tag(tag) => {
                self.name(tag);
                return Ok(());
            }
            Body::Walk(_) => return Ok(()),
            Body::Task(task) => {
                let _ = write!(self.out, "<task {}>", task.number.get());
                return Ok(());
            }
            Body::Actor(actor) => {
                let _ = match actor.sandbox_name() {
                    Some(name) => write!(self.out, "<sandbox {name}>"),
                    None => write!(self.out, "<actor {}>", actor.number.get()),
                };
                return Ok(());
            }
        }
        self.open.pop();
        Ok(())
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && text != "_"
}

/// Bytes of a value in a message, before the message itself is cut.
const SHOWN: usize = 512;

/// A rendering for messages: nobody pays, and no more is looked at than is shown.
pub(crate) fn display(value: &Value) -> String {
    let mut renderer = Renderer { core: None, out: String::new(), open: Vec::new(), most: SHOWN, cuts: true };
    let _cut = renderer.value(value);
    renderer.out
}

/// A rendering that the partition pays for, added to what is there.
pub(crate) fn render(core: &mut Core, value: &Value, into: String) -> Result<String, Fault> {
    let most = usize::try_from(core.exact.terms.memory).unwrap_or(usize::MAX);
    let mut renderer = Renderer { core: Some(core), out: into, open: Vec::new(), most, cuts: false };
    match value {
        Value::Short(_) | Value::Text(_) => renderer.text(value)?,
        other => renderer.value(other)?,
    }
    Ok(renderer.out)
}

/// `no arm matches …`: 80 characters of the value, each of at most four bytes.
pub(crate) fn unmatched(core: &mut Core, value: &Value) -> Fault {
    let mut renderer =
        Renderer { core: Some(core), out: String::new(), open: Vec::new(), most: SHOWN, cuts: true };
    if let Err(fault) = renderer.value(value)
        && renderer.out.len() <= SHOWN
    {
        return fault;
    }
    let mut text: String = renderer.out.chars().take(80).collect();
    if renderer.out.chars().nth(80).is_some() {
        text.push('…');
    }
    raised(format!("no arm matches {text}"))
}
