//! The table as it is written, and as rules by number.

use super::{Filter, Result};
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    constants: BTreeMap<String, u64>,
    pub(crate) call: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) names: Vec<String>,
    runtime: Option<Written>,
    command: Option<Written>,
    command_exec: Option<Written>,
    command_net: Option<Written>,
    egress: Option<Written>,
    init: Option<Written>,
    all: Option<Written>,
    pub(crate) capability: Option<String>,
    pub(crate) why: String,
}

#[derive(Deserialize, Clone)]
#[serde(untagged)]
enum Written {
    Plain(Verdict),
    Rule(WrittenRule),
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    #[serde(default)]
    deny: Vec<String>,
    #[serde(default)]
    allow: Vec<String>,
    otherwise: Verdict,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Allow,
    Deny,
    Unknown,
    Unsupported,
    Watch,
}

/// A parsed condition: one comparison of one argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Comparison {
    pub(crate) arg: u8,
    pub(crate) wide: bool,
    pub(crate) mask: u64,
    pub(crate) op: &'static str,
    pub(crate) value: u64,
}

/// `deny` is asked first, then `allow`; each is a list of alternatives, all of whose comparisons must hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub(crate) deny: Vec<Vec<Comparison>>,
    pub(crate) allow: Vec<Vec<Comparison>>,
    pub(crate) otherwise: Verdict,
}

/// What `filter` says to each number of one architecture.
pub(crate) fn rules_of(
    table: &Table,
    known: &BTreeMap<String, u32>,
    filter: Filter,
) -> Result<BTreeMap<u32, Rule>> {
    let mut rules = BTreeMap::new();
    for entry in &table.call {
        let written = match filter {
            Filter::Runtime => entry.runtime.as_ref().or(entry.all.as_ref()),
            Filter::Command => entry.command.as_ref().or(entry.all.as_ref()),
            Filter::CommandExec => {
                entry.command_exec.as_ref().or(entry.command.as_ref()).or(entry.all.as_ref())
            }
            Filter::CommandNet => {
                entry.command_net.as_ref().or(entry.command.as_ref()).or(entry.all.as_ref())
            }
            Filter::CommandNetExec => entry
                .command_net
                .as_ref()
                .or(entry.command_exec.as_ref())
                .or(entry.command.as_ref())
                .or(entry.all.as_ref()),
            Filter::Egress => entry.egress.as_ref(),
            Filter::Init => entry.init.as_ref(),
        };
        let Some(written) = written else { continue };
        let rule =
            parse_rule(written, &table.constants).map_err(|error| format!("{:?}: {error}", entry.names))?;
        let with_network = matches!(filter, Filter::CommandNet | Filter::CommandNetExec);
        if rule.otherwise == Verdict::Watch && !(with_network && rule.deny.is_empty()) {
            return Err(
                format!("{:?}: to watch is for a network's filters, without deny", entry.names).into()
            );
        }
        for name in &entry.names {
            let Some(number) = known.get(name) else { continue };
            if rules.insert(*number, rule.clone()).is_some() {
                return Err(format!("{name} has two verdicts in {filter:?}").into());
            }
        }
    }
    Ok(rules)
}

fn parse_rule(written: &Written, constants: &BTreeMap<String, u64>) -> Result<Rule> {
    let alternatives = |texts: &[String]| -> Result<Vec<Vec<Comparison>>> {
        texts
            .iter()
            .map(|text| text.split(" and ").map(|part| parse_comparison(part, constants)).collect())
            .collect()
    };
    Ok(match written {
        Written::Plain(otherwise) => Rule { deny: Vec::new(), allow: Vec::new(), otherwise: *otherwise },
        Written::Rule(rule) => Rule {
            deny: alternatives(&rule.deny)?,
            allow: alternatives(&rule.allow)?,
            otherwise: rule.otherwise,
        },
    })
}

fn parse_comparison(text: &str, constants: &BTreeMap<String, u64>) -> Result<Comparison> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (arg, mask, op, value) = match words[..] {
        [arg, op, value] => (arg, None, op, value),
        [arg, "&", mask, "==", value] => (arg, Some(mask), "==", value),
        _ => {
            return Err(format!("condition {text:?} is not `argN OP VALUE` or `argN & MASK == VALUE`").into());
        }
    };
    let constant = |word: &str| -> Result<u64> {
        match word.parse() {
            Ok(number) => Ok(number),
            Err(_) => {
                Ok(*constants.get(word).ok_or_else(|| format!("no constant {word:?} in [constants]"))?)
            }
        }
    };
    let (name, wide) = match arg.strip_suffix(":64") {
        Some(name) => (name, true),
        None => (arg, false),
    };
    let number = name.strip_prefix("arg").ok_or_else(|| format!("{arg:?} is not an argument"))?;
    let op = ["==", "!=", "<", "<=", ">", ">="]
        .into_iter()
        .find(|known| *known == op)
        .ok_or_else(|| format!("no operator {op:?}"))?;
    let value = constant(value)?;
    if !wide && value > u64::from(u32::MAX) {
        return Err(format!("{text:?} compares 32 bits with a larger value").into());
    }
    Ok(Comparison { arg: number.parse()?, wide, mask: mask.map_or(Ok(u64::MAX), constant)?, op, value })
}
