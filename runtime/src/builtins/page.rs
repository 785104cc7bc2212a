//! `render(path, data?)`: an HTML page from a template on the disk.
//!
//! The template's syntax is Jinja's, by a crate that has no access to anything but the data: `{{ name }}` is escaped,
//! `{% for … %}`, `{% if … %}`, `{% include "part.html" %}` and `{% extends "layout.html" %}` do what they do elsewhere.
//!
//! Invariant: escaping is on, whatever the file is called; only a template itself can turn it off (`{{ x|safe }}`), never
//! the data.
//! Invariant: templates come through the gate and the broker, each for itself, and stand in or below the first one's folder.
//! Their number, their size, the work of a page and its size are bounded.

use super::files;
use super::{Args, Builtin, Cost, Ctx};
use crate::vm::ops::truthy;
use crate::vm::render::display;
use crate::vm::trap::{Fault, raised};
use crate::vm::value::Value;
use minijinja::value::{Value as Given, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use regex::Regex;
use std::io::{self, Write};
use std::sync::OnceLock;

/// Templates of one page.
const MOST_TEMPLATES: usize = 64;
/// Bytes of all templates of one page.
const MOST_SOURCE: usize = 4 << 20;
/// Bytes of a page.
const MOST_PAGE: usize = 16 << 20;
/// Steps of the template's own machine; each costs one of fuel.
const MOST_STEPS: u64 = 4_000_000;
/// Templates inside templates, and macros inside macros.
const MOST_DEPTH: usize = 32;
/// Lists and maps inside one another.
const DATA_DEPTH: usize = 128;

pub(super) const TABLE: &[Builtin] =
    &[Builtin::new("render", &["path", "data"], 1, render).native(files::WHY).cost(Cost::Own)];

fn render(ctx: &mut Ctx<'_>, args: &mut Args<'_>) -> Result<Value, Fault> {
    let path = files::path_of(args, 0)?;
    let data = if args.optional(1).is_some() {
        args.map(1)?;
        given(ctx, args.at(1), 0)?
    } else {
        Given::from_iter(std::iter::empty::<(String, Given)>())
    };
    let (folder, name) = path.rsplit_once('/').map_or(("", path.as_str()), |(folder, name)| (folder, name));
    let folder = if path.starts_with('/') && folder.is_empty() { "/" } else { folder };
    let mut pages = Environment::new();
    pages.set_auto_escape_callback(|_| AutoEscape::Html);
    pages.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    pages.set_recursion_limit(MOST_DEPTH);
    pages.set_fuel(Some(MOST_STEPS));
    pages.set_formatter(|out, state, value| {
        match value.kind() {
            // What isn't there leaves nothing on a page.
            ValueKind::None => Ok(()),
            ValueKind::Bool => Ok(out.write_str(if value.is_true() { "true" } else { "false" })?),
            _ => minijinja::escape_formatter(out, state, value),
        }
    });
    load(ctx, &mut pages, folder, name)?;
    let template = pages.get_template(name).map_err(|e| told(&folder_of(folder), &e))?;
    let mut page = Page { bytes: Vec::new() };
    let done = template.render_captured_to(data, &mut page);
    let steps = match done {
        Ok(done) => done.state().fuel_levels().map_or(0, |(used, _)| used),
        Err(_) if page.is_full() => {
            return Err(raised(format!("render: {path}: a page of more than {} MiB", MOST_PAGE >> 20)));
        }
        Err(e) => {
            ctx.charge(page.bytes.len() as u64 / 32)?;
            return Err(told(&folder_of(folder), &e));
        }
    };
    ctx.charge(steps + page.bytes.len() as u64 / 32)?;
    ctx.reserve(page.bytes.len())?;
    String::from_utf8(page.bytes)
        .map(Value::string)
        .map_err(|_| raised(format!("render: {path}: a page that is not UTF-8")))
}

/// A page on its way.
struct Page {
    bytes: Vec<u8>,
}

impl Page {
    fn is_full(&self) -> bool {
        self.bytes.len() >= MOST_PAGE
    }
}

impl Write for Page {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + piece.len() > MOST_PAGE {
            self.bytes.resize(MOST_PAGE, 0);
            return Err(io::Error::other("the page is too large"));
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn folder_of(folder: &str) -> String {
    match folder {
        "" => String::new(),
        "/" => "/".to_owned(),
        folder => format!("{folder}/"),
    }
}

/// Reads a template and those that it names, one after another.
fn load(ctx: &mut Ctx<'_>, pages: &mut Environment<'_>, folder: &str, first: &str) -> Result<(), Fault> {
    let mut waiting = vec![first.to_owned()];
    let mut seen: Vec<String> = Vec::new();
    let mut bytes = 0;
    while let Some(name) = waiting.pop() {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name.clone());
        if seen.len() > MOST_TEMPLATES {
            return Err(raised(format!("render: a page of more than {MOST_TEMPLATES} templates")));
        }
        let path = format!("{}{name}", folder_of(folder));
        let text = String::from_utf8(files::content(ctx, &path)?)
            .map_err(|_| raised(format!("render: {path} is not UTF-8 text")))?;
        bytes += text.len();
        if bytes > MOST_SOURCE {
            return Err(raised(format!("render: templates of more than {} MiB", MOST_SOURCE >> 20)));
        }
        ctx.charge(text.len() as u64 / 4)?;
        for named in named(&text) {
            if !stays(named) {
                return Err(raised(format!(
                    "render: {path} names \"{named}\", which does not stand in or below the first template's folder"
                )));
            }
            waiting.push(named.to_owned());
        }
        pages.add_template_owned(name, text).map_err(|e| told(&folder_of(folder), &e))?;
    }
    Ok(())
}

/// The templates that a template names by a text. One that it names otherwise isn't found later, and that is an error.
fn named(text: &str) -> Vec<&str> {
    static NAMED: OnceLock<Option<Regex>> = OnceLock::new();
    let pattern = r#"\{%[-+]?\s*(?:include|extends|import|from)\s+(?:"([^"\\]*)"|'([^'\\]*)')"#;
    let Some(re) = NAMED.get_or_init(|| Regex::new(pattern).ok()) else { return Vec::new() };
    let name = |found: regex::Captures<'_>| found.get(1).or_else(|| found.get(2)).map(|name| name.range());
    re.captures_iter(text).filter_map(name).filter_map(|range| text.get(range)).collect()
}

fn stays(name: &str) -> bool {
    !name.starts_with('/')
        && !name.contains('\\')
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// A value as the templates see it: plain data. What is none shows as it does elsewhere, a secret stays sealed.
fn given(ctx: &mut Ctx<'_>, value: &Value, depth: usize) -> Result<Given, Fault> {
    if depth > DATA_DEPTH {
        return Err(raised(format!("render: data more than {DATA_DEPTH} deep")));
    }
    Ok(match value {
        Value::Nothing | Value::Unbound => Given::from(()),
        Value::Bool(_) => Given::from(truthy(value)),
        Value::Int(n) => Given::from(*n),
        Value::Float(f) => Given::from(*f),
        Value::List(list) => {
            ctx.charge(list.items().len() as u64)?;
            let all: Result<Vec<Given>, Fault> =
                list.items().iter().map(|item| given(ctx, item, depth + 1)).collect();
            Given::from(all?)
        }
        Value::Map(map) => {
            ctx.charge(map.len() as u64)?;
            let entry = |(key, value): (&crate::vm::value::Key, &Value)| {
                given(ctx, value, depth + 1).map(|value| (key.as_str().to_owned(), value))
            };
            let all: Result<Vec<(String, Given)>, Fault> = map.entries().map(entry).collect();
            Given::from_iter(all?)
        }
        other => {
            let text = display(other);
            ctx.charge(text.len() as u64 / 32)?;
            Given::from(text)
        }
    })
}

/// An error of a template as programs are told: where, and what.
fn told(folder: &str, error: &minijinja::Error) -> Fault {
    let what = match error.kind() {
        ErrorKind::OutOfFuel => "it works for too long".to_owned(),
        kind => match error.detail() {
            Some(detail) => detail.to_owned(),
            None => kind.to_string(),
        },
    };
    let place = match (error.name(), error.line()) {
        (Some(name), Some(line)) => format!("{folder}{name}:{line}: "),
        (Some(name), None) => format!("{folder}{name}: "),
        (None, _) => String::new(),
    };
    raised(format!("render: {place}{what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_templates_are_found_and_those_elsewhere_are_not_taken() {
        let text = "{% extends \"base.html\" %}{%- include 'parts/a.html' -%}{% include x %}{{ \"{% include\" }}\
                    {% from \"m.html\" import f %}";
        assert_eq!(named(text), ["base.html", "parts/a.html", "m.html"]);
        for name in ["/etc/passwd", "../a", "a/../b", "a//b", "", "a\\b", "./a"] {
            assert!(!stays(name), "{name}");
        }
        assert!(stays("a") && stays("a/b.html"));
    }
}
