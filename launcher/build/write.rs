//! Programs, names and the table itself as Rust.

use super::{
    Filter, Result,
    table::{Comparison, Rule, Table, Verdict},
};
use seccompiler::{BpfProgram, sock_filter};
use std::{collections::BTreeMap, fmt::Write as _};

pub(crate) fn program(code: &mut String, filter: Filter, program: &BpfProgram) -> Result<()> {
    let name = match filter {
        Filter::Runtime => "RUNTIME",
        Filter::Command => "COMMAND",
        Filter::CommandExec => "COMMAND_EXEC",
        Filter::CommandNet => "COMMAND_NET",
        Filter::CommandNetExec => "COMMAND_NET_EXEC",
        Filter::Egress => "EGRESS",
        Filter::Init => "INIT",
    };
    writeln!(code, "pub(super) static {name}: &[sock_filter] = &[")?;
    for sock_filter { code: op, jt, jf, k } in program {
        writeln!(code, "    sock_filter {{ code: {op}, jt: {jt}, jf: {jf}, k: {k:#x} }},")?;
    }
    writeln!(code, "];")?;
    Ok(())
}

pub(crate) fn names(code: &mut String, known: &BTreeMap<String, u32>, table: &Table) -> Result<()> {
    let by_number: BTreeMap<u32, &str> =
        known.iter().map(|(name, number)| (*number, name.as_str())).collect();
    let word = |name: &str| {
        table
            .call
            .iter()
            .find(|entry| entry.capability.is_some() && entry.names.iter().any(|known| known == name))
    };
    writeln!(code, "pub(super) static CALLS: &[(u32, &str, &str)] = &[")?;
    for (number, name) in by_number {
        let capability = word(name).and_then(|entry| entry.capability.as_deref()).unwrap_or("syscall");
        writeln!(code, "    ({number}, {name:?}, {capability:?}),")?;
    }
    writeln!(code, "];")?;
    Ok(())
}

/// Numbers of the calls that a network's filters let the supervisor look at.
pub(crate) fn watched(code: &mut String, rules: &BTreeMap<u32, Rule>) -> Result<()> {
    let numbers: Vec<&u32> =
        rules.iter().filter(|(_, rule)| rule.otherwise == Verdict::Watch).map(|(number, _)| number).collect();
    writeln!(code, "pub(super) static WATCHED: &[u32] = &{numbers:?};")?;
    Ok(())
}

/// The table as data, for the tests that hold the programs against it.
pub(crate) fn rows(
    rows: &mut String,
    filter: Filter,
    rules: &BTreeMap<u32, Rule>,
    known: &BTreeMap<String, u32>,
) -> Result<()> {
    let list = |alternatives: &[Vec<Comparison>]| {
        let texts: Vec<String> = alternatives.iter().map(|all| format!("&{all:?}")).collect();
        format!("&[{}]", texts.join(", "))
    };
    for (name, number) in known {
        let Some(rule) = rules.get(number) else { continue };
        writeln!(
            rows,
            "    Row {{ filter: Filter::{filter:?}, name: {name:?}, number: {number}, deny: {}, allow: {}, otherwise: Verdict::{:?} }},",
            list(&rule.deny),
            list(&rule.allow),
            rule.otherwise
        )?;
    }
    Ok(())
}
