//! Policy TOML → [`Policy`], each fault with its place in the file.

use super::{JailSettings, Policy, Presence, Proc, Provided, RootKind, ready};
use crate::{
    ceiling::{Ceiling, Grant},
    error::{Malformed, ScopeFault},
    limits::{Amount, LimitSettings, Setting},
    nearest::nearest,
    plan::HostPath,
    scope::NormalPath,
};
use serde::Deserialize;
use std::{collections::BTreeMap, ops::Range};
use toml::Spanned;

/// How many policies may stand in one chain of `extends`.
const MOST_EXTENDED: usize = 8;

/// A policy file as it is written. Every key may be left out.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Policy"))]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyFile {
    /// The policy that this one stands on: a ready one, or a file beside this one. What is said here replaces what is said
    /// there; `provides` and `env` are added.
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    extends: Option<Spanned<String>>,
    /// What the untrusted code may do.
    ceiling: Option<CeilingTable>,
    /// What the program itself is made of.
    #[serde(default)]
    provides: ProvidesTable,
    /// Limits. Times with ms, s, m, h; sizes with K, M, G; `none` for no limit.
    #[serde(default)]
    limits: LimitsTable,
    /// Variables that are set in the jail. The caller's own come in by `env=NAME` in the ceiling.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "BTreeMap<String, String>"))]
    env: BTreeMap<Spanned<String>, Spanned<String>>,
    /// The jail's root.
    #[serde(default)]
    jail: JailTable,
}

/// What the untrusted code may do.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct CeilingTable {
    /// `name` or `name=scope`, one in each string.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    allow: Vec<Spanned<String>>,
}

/// What the program itself is made of.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct ProvidesTable {
    /// Folders and files of the host, from the root, read only. A `?` behind one: left out where the host lacks it.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    read: Vec<Spanned<String>>,
}

/// A text or a whole number.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Value {
    Text(String),
    Count(u64),
}

/// Limits.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct LimitsTable {
    /// Wall clock from the start of the program.
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    wall: Option<Spanned<Value>>,
    /// CPU time of the tree.
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    cpu: Option<Spanned<Value>>,
    /// Memory of the tree.
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    memory: Option<Spanned<Value>>,
    /// Processes and threads.
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    pids: Option<Spanned<Value>>,
    /// Output bytes.
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    output: Option<Spanned<Value>>,
    /// Scratch bytes; never `none`.
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    disk: Option<Spanned<Value>>,
    /// Open files of each process; never `none`.
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    nofile: Option<Spanned<Value>>,
    /// Between TERM and KILL; never `none`.
    #[cfg_attr(test, schemars(with = "Option<Value>"))]
    grace: Option<Spanned<Value>>,
}

/// The jail's root.
#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct JailTable {
    /// `none`, or `own`: a read-only /proc of the jail's own processes.
    #[cfg_attr(test, schemars(with = "Option<ProcWord>"))]
    proc: Option<Spanned<String>>,
    /// `usual`: with a small /etc; `empty`: without.
    #[cfg_attr(test, schemars(with = "Option<RootWord>"))]
    root: Option<Spanned<String>>,
}

#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "the words that the schema allows; the reader has them in its own tables")]
enum ProcWord {
    None,
    Own,
}

#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "as above")]
enum RootWord {
    Usual,
    Empty,
}

/// The file with all that it extends.
pub(super) fn policy(
    name: &str,
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Policy, Malformed> {
    chain(name, text, lookup, 1)
}

fn chain(
    name: &str,
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
    depth: usize,
) -> Result<Policy, Malformed> {
    let place = Place { file: name, text };
    let file: PolicyFile = toml::from_str(text).map_err(|error| place.toml(&error))?;
    let base = match &file.extends {
        None => Policy { name: name.to_owned(), ..Policy::runtime() },
        Some(extends) => {
            let base = extends.get_ref();
            if depth >= MOST_EXTENDED {
                let fault = Malformed::ExtendsTooDeep { most: MOST_EXTENDED, last: base.clone() };
                return Err(place.of(extends.span(), fault));
            }
            // A ready name always means the ready policy, so that no file beside a policy can change what it stands on.
            let text = match ready::text(base) {
                Some(text) => text.to_owned(),
                None => lookup(base).ok_or_else(|| place.of(extends.span(), unknown_base(base)))?,
            };
            chain(base, &text, lookup, depth + 1)?
        }
    };
    assemble(&place, file, base)
}

/// What has the form of a file isn't taken for a misspelt name.
fn unknown_base(base: &str) -> Malformed {
    if base.contains('/') || base.ends_with(".toml") {
        Malformed::ExtendsMissing { file: base.to_owned() }
    } else {
        ready::unknown(base)
    }
}

fn assemble(place: &Place<'_>, file: PolicyFile, base: Policy) -> Result<Policy, Malformed> {
    let ceiling = match file.ceiling {
        None => base.ceiling,
        Some(table) => {
            let grants: Result<Vec<Grant>, Malformed> = table
                .allow
                .into_iter()
                .map(|item| {
                    Grant::try_from(item.get_ref().clone()).map_err(|fault| place.of(item.span(), fault))
                })
                .collect();
            Ceiling::of(grants?)
        }
    };
    let mut provides = base.provides;
    for item in &file.provides.read {
        let provided = provided(item.get_ref()).map_err(|fault| place.of(item.span(), fault))?;
        provides.retain(|old: &Provided| old.path != provided.path);
        provides.push(provided);
    }
    let mut environment = base.environment;
    for (key, value) in file.env {
        let name = key.get_ref();
        let why = match (name.as_str(), value.get_ref().contains('\0')) {
            ("", _) => Some("it has no name"),
            (name, _) if name.contains(['=', '\0']) => Some("a name holds no '=' and no NUL"),
            (_, true) => Some("its value holds a NUL"),
            (_, false) => None,
        };
        if let Some(why) = why {
            return Err(place.of(key.span(), Malformed::Variable { name: name.clone(), why }));
        }
        environment.insert(name.clone(), value.into_inner());
    }
    let jail = JailSettings {
        proc: match &file.jail.proc {
            None => base.jail.proc,
            Some(word) => choice(place, word, "proc", &[("none", Proc::None), ("own", Proc::Own)])?,
        },
        root: match &file.jail.root {
            None => base.jail.root,
            Some(word) => {
                choice(place, word, "root", &[("usual", RootKind::Usual), ("empty", RootKind::Empty)])?
            }
        },
    };
    let limits = limits(place, &file.limits)?.over(base.limits);
    Ok(Policy { name: place.file.to_owned(), ceiling, provides, limits, environment, jail })
}

fn provided(text: &str) -> Result<Provided, Malformed> {
    let (path, presence) = match text.strip_suffix('?') {
        Some(path) => (path, Presence::Optional),
        None => (text, Presence::Required),
    };
    let malformed = |fault| Malformed::Path { path: text.to_owned(), fault };
    let normal = NormalPath::parse(path).map_err(malformed)?;
    if normal.has_star() {
        return Err(malformed(ScopeFault::Star));
    }
    if !normal.is_absolute() {
        return Err(malformed(ScopeFault::Relative));
    }
    Ok(Provided { path: HostPath(normal.to_string()), presence })
}

fn limits(place: &Place<'_>, table: &LimitsTable) -> Result<LimitSettings, Malformed> {
    Ok(LimitSettings {
        wall: setting(place, table.wall.as_ref())?,
        cpu: setting(place, table.cpu.as_ref())?,
        memory: setting(place, table.memory.as_ref())?,
        pids: setting(place, table.pids.as_ref())?,
        output: setting(place, table.output.as_ref())?,
        disk: amount(place, table.disk.as_ref())?,
        nofile: amount(place, table.nofile.as_ref())?,
        grace: amount(place, table.grace.as_ref())?,
    })
}

fn setting<T: Amount>(
    place: &Place<'_>,
    value: Option<&Spanned<Value>>,
) -> Result<Option<Setting<T>>, Malformed> {
    value.map(|value| text_of(value).parse().map_err(|fault| place.of(value.span(), fault))).transpose()
}

fn amount<T: Amount>(place: &Place<'_>, value: Option<&Spanned<Value>>) -> Result<Option<T>, Malformed> {
    value
        .map(|value| T::parse_amount(&text_of(value)).map_err(|fault| place.of(value.span(), fault)))
        .transpose()
}

fn text_of(value: &Spanned<Value>) -> String {
    match value.get_ref() {
        Value::Text(text) => text.clone(),
        Value::Count(count) => count.to_string(),
    }
}

fn choice<T: Copy>(
    place: &Place<'_>,
    word_: &Spanned<String>,
    what: &'static str,
    known: &[(&str, T)],
) -> Result<T, Malformed> {
    known.iter().find(|(name, _)| name == word_.get_ref()).map(|&(_, value)| value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
        place.of(word_.span(), word(what, word_.get_ref(), &names))
    })
}

pub(super) fn word(what: &'static str, word: &str, known: &[&str]) -> Malformed {
    Malformed::Word {
        what,
        word: word.to_owned(),
        nearest: nearest(word, known.iter().copied()).map(str::to_owned),
        known: known.join(" "),
    }
}

/// The file that is read, for places in it.
struct Place<'a> {
    file: &'a str,
    text: &'a str,
}

impl Place<'_> {
    /// A fault in the value at `span`.
    fn of(&self, span: Range<usize>, fault: Malformed) -> Malformed {
        let (column, fault) = fault.take_column();
        // Behind the opening quotes, if the value has some.
        let value = &self.text[span.start..span.end];
        let quotes = value.bytes().take_while(|&b| b == b'"' || b == b'\'').count();
        let quotes = if quotes >= 3 { 3 } else { quotes.min(1) };
        let inner = if column > 1 {
            quotes + value[quotes..].chars().take(column - 1).map(char::len_utf8).sum::<usize>()
        } else {
            0
        };
        self.at(span.start + inner, fault)
    }

    /// A fault at a byte of the file.
    fn at(&self, byte: usize, fault: Malformed) -> Malformed {
        let before = self.text.get(..byte).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Malformed::InPolicy {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            fault: Box::new(fault),
        }
    }

    /// What the TOML reader refuses. Its words for an unknown key are taken apart for the nearest valid one.
    fn toml(&self, error: &toml::de::Error) -> Malformed {
        let message = error.message();
        let mut quoted = message.split('`').skip(1).step_by(2);
        let fault = match quoted.next() {
            Some(key) if message.starts_with("unknown field") => {
                word("key", key, &quoted.collect::<Vec<_>>())
            }
            Some(_) | None => {
                Malformed::Toml { message: message.lines().next().unwrap_or_default().to_owned() }
            }
        };
        self.at(error.span().map_or(0, |span| span.start), fault)
    }
}
