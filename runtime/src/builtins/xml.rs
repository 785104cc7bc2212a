//! XML → maps: attributes as `@name`, repeated children as lists, text beside children as `#text`. No DTD.
//!
//! Source: XML 1.0 section 2; the shape is the one that most converters give.

use super::{Args, Builtin, Cost, Ctx};
use crate::vm::trap::{Fault, raised};
use crate::vm::value::{Key, Value};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

pub(super) const TABLE: &[Builtin] = &[Builtin::new("xml_parse", &["text"], 1, parse).cost(Cost::Own)];

/// Elements inside one another.
const MAX_DEPTH: usize = 500;

/// An element that is still open.
struct Open {
    name: String,
    entries: Vec<(String, Value, usize)>,
    /// Where each name is among the entries.
    places: std::collections::HashMap<String, usize>,
    /// Children of the same name beyond the first.
    more: Vec<(usize, Value)>,
    text: String,
}

impl Open {
    fn add(&mut self, name: String, value: Value) {
        match self.places.get(&name) {
            Some(&at) => {
                self.entries[at].2 += 1;
                self.more.push((at, value));
            }
            None => {
                self.places.insert(name.clone(), self.entries.len());
                self.entries.push((name, value, 1));
            }
        }
    }

    fn close(self) -> (String, Value) {
        let text = self.text.trim();
        if self.entries.is_empty() {
            let value = if text.is_empty() { Value::Nothing } else { Value::text(text) };
            return (self.name, value);
        }
        let mut lists: Vec<(String, Vec<Value>, bool)> =
            self.entries.into_iter().map(|(name, first, count)| (name, vec![first], count > 1)).collect();
        for (at, value) in self.more {
            lists[at].1.push(value);
        }
        if !text.is_empty() {
            lists.push(("#text".to_owned(), vec![Value::text(text)], false));
        }
        let entries = lists.into_iter().map(|(name, mut values, many)| {
            let value = if many { Value::list(values) } else { values.pop().unwrap_or_default() };
            (Key::new(&name), value)
        });
        (self.name, Value::map(entries.collect::<Vec<_>>()))
    }
}

struct Place<'t> {
    text: &'t str,
}

impl Place<'_> {
    fn bad(&self, at: u64, what: &str) -> Fault {
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.text.len());
        let before = &self.text.as_bytes()[..at];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        raised(format!("xml_parse: line {line}: {what}"))
    }
}

fn parse(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let text = args.text(0)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    ctx.charge(text.len() as u64 / 16)?;
    let place = Place { text };
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let mut open: Vec<Open> = Vec::new();
    let mut root: Option<(String, Value)> = None;
    loop {
        ctx.charge(2)?;
        let event = reader.read_event();
        let at = reader.buffer_position();
        let event = event.map_err(|e| place.bad(reader.error_position().min(at), &e.to_string()))?;
        let empty = matches!(event, Event::Empty(_));
        match event {
            Event::Start(start) | Event::Empty(start) => {
                if open.is_empty() && root.is_some() {
                    return Err(place.bad(at, "more than one element at the top"));
                }
                if open.len() >= MAX_DEPTH {
                    return Err(place.bad(at, &format!("elements are nested too deeply (limit {MAX_DEPTH})")));
                }
                open.push(element(&start, &place, at)?);
                if empty {
                    finish(&mut open, &mut root);
                }
            }
            Event::End(_) => finish(&mut open, &mut root),
            Event::Text(t) => {
                let piece = t.decode().map_err(|e| place.bad(at, &e.to_string()))?;
                add_text(&mut open, &piece, &place, at)?;
            }
            Event::CData(t) => {
                let piece = t.decode().map_err(|e| place.bad(at, &e.to_string()))?;
                match open.last_mut() {
                    Some(top) => top.text.push_str(&piece),
                    None => return Err(place.bad(at, "text outside the top element")),
                }
            }
            Event::GeneralRef(reference) => {
                let name = reference.decode().map_err(|e| place.bad(at, &e.to_string()))?;
                let piece = match reference.resolve_char_ref() {
                    Ok(Some(c)) if is_char(c) => c.to_string(),
                    Ok(None) => match quick_xml::escape::resolve_predefined_entity(&name) {
                        Some(known) => known.to_owned(),
                        None => return Err(place.bad(at, &format!("unknown entity '&{name};'"))),
                    },
                    _ => return Err(place.bad(at, &format!("'&{name};' is not a character"))),
                };
                match open.last_mut() {
                    Some(top) => top.text.push_str(&piece),
                    None => return Err(place.bad(at, "text outside the top element")),
                }
            }
            Event::DocType(_) => return Err(place.bad(at, "a DTD is not allowed")),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => break,
        }
    }
    if let Some(top) = open.last() {
        return Err(place.bad(text.len() as u64, &format!("element '{}' is never closed", top.name)));
    }
    match root {
        Some((name, value)) => Ok(Value::map([(Key::new(&name), value)])),
        None => Err(place.bad(text.len() as u64, "there is no element")),
    }
}

fn is_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn add_text(open: &mut [Open], piece: &str, place: &Place<'_>, at: u64) -> Result<(), Fault> {
    match open.last_mut() {
        Some(top) => top.text.push_str(piece),
        None if piece.trim().is_empty() => {}
        None => return Err(place.bad(at, "text outside the top element")),
    }
    Ok(())
}

fn finish(open: &mut Vec<Open>, root: &mut Option<(String, Value)>) {
    if let Some(done) = open.pop() {
        let (name, value) = done.close();
        match open.last_mut() {
            Some(parent) => parent.add(name, value),
            None => *root = Some((name, value)),
        }
    }
}

fn element(start: &BytesStart<'_>, place: &Place<'_>, at: u64) -> Result<Open, Fault> {
    let name = String::from_utf8_lossy(start.name().as_ref()).into_owned();
    if !name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | ':')) {
        return Err(place.bad(at, &format!("'{name}' is not a name")));
    }
    let mut open = Open {
        name,
        entries: Vec::new(),
        places: std::collections::HashMap::new(),
        more: Vec::new(),
        text: String::new(),
    };
    // Names twice are found by the map here: the reader's own check compares each with each.
    for attribute in start.attributes().with_checks(false) {
        let attribute = attribute.map_err(|e| place.bad(at, &e.to_string()))?;
        let name = format!("@{}", String::from_utf8_lossy(attribute.key.as_ref()));
        let value = attribute.unescape_value().map_err(|e| place.bad(at, &e.to_string()))?;
        if open.places.contains_key(&name) {
            return Err(place.bad(at, &format!("attribute '{}' stands twice", &name[1..])));
        }
        open.add(name, Value::text(&value));
    }
    Ok(open)
}
