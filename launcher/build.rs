//! Compiles the system call table into filters, ahead of time, for every planned architecture.
//!
//! For each filter one classic BPF program: foreign architectures and x32 are killed, a binary search over the number
//! finds the verdict, and seccompiler compiles the conditions of the few calls that have any. A search instead of
//! seccompiler's chain of comparisons because the kernel, when it takes a filter, runs it once for each number to fill
//! its cache of always-allowed calls: a chain of 300 entries makes that the dearest step of a start. Since the search is
//! ours, a leaf can have any action, and one program does where seccompiler alone would need two.
//!
//! Invariant: the build fails on a name that no architecture has, a call that is given two verdicts, or a constant that
//! is not there.
//! Source: Linux Documentation/userspace-api/seccomp_filter.rst; kernel/seccomp.c, seccomp_cache_prepare.

#[path = "build/shrink.rs"]
mod shrink;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use serde::Deserialize;
use std::{collections::BTreeMap, error::Error, fmt::Write as _, fs, path::Path};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TABLE: &str = "../policies/tables/syscalls.toml";
const NUMBERS: &str = "../policies/tables/numbers.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    constants: BTreeMap<String, u64>,
    call: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    names: Vec<String>,
    runtime: Option<Written>,
    command: Option<Written>,
    command_exec: Option<Written>,
    init: Option<Written>,
    all: Option<Written>,
    capability: Option<String>,
    why: String,
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
enum Verdict {
    Allow,
    Deny,
    Unknown,
}

/// A parsed condition: one comparison of one argument.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Comparison {
    arg: u8,
    wide: bool,
    mask: u64,
    op: &'static str,
    value: u64,
}

/// `deny` is asked first, then `allow`; each is a list of alternatives, all of whose comparisons must hold.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Rule {
    deny: Vec<Vec<Comparison>>,
    allow: Vec<Vec<Comparison>>,
    otherwise: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Filter {
    Runtime,
    Command,
    CommandExec,
    Init,
}

const FILTERS: [Filter; 4] = [Filter::Runtime, Filter::Command, Filter::CommandExec, Filter::Init];

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed={TABLE}");
    println!("cargo::rerun-if-changed={NUMBERS}");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build/shrink.rs");
    let table: Table =
        toml::from_str(&fs::read_to_string(TABLE)?).map_err(|error| format!("{TABLE}: {error}"))?;
    let numbers: BTreeMap<String, BTreeMap<String, u32>> =
        toml::from_str(&fs::read_to_string(NUMBERS)?).map_err(|error| format!("{NUMBERS}: {error}"))?;
    for entry in &table.call {
        if entry.why.trim().is_empty() {
            return Err(format!("{TABLE}: {:?} has no reason", entry.names).into());
        }
        for name in &entry.names {
            if !numbers.values().any(|known| known.contains_key(name)) {
                return Err(format!("{TABLE}: no architecture has a system call {name:?}").into());
            }
        }
    }
    let out = std::env::var("OUT_DIR")?;
    for (name, arch) in [("x86_64", TargetArch::x86_64), ("aarch64", TargetArch::aarch64)] {
        let known = numbers.get(name).ok_or_else(|| format!("{NUMBERS}: [{name}] is missing"))?;
        let mut code = String::new();
        let mut rows = String::from("pub(super) static ROWS: &[Row] = &[\n");
        for filter in FILTERS {
            let rules = rules_of(&table, known, filter)?;
            let program = compile(&rules, filter, arch)?;
            write_program(&mut code, filter, &program)?;
            write_rows(&mut rows, filter, &rules, known)?;
        }
        rows.push_str("];\n");
        write_names(&mut code, known, &table)?;
        fs::write(Path::new(&out).join(format!("filters_{name}.rs")), code)?;
        fs::write(Path::new(&out).join(format!("rows_{name}.rs")), rows)?;
    }
    Ok(())
}

// ---- Reading ----------------------------------------------------------------------------------------------------------

/// What `filter` says to each number of one architecture.
fn rules_of(table: &Table, known: &BTreeMap<String, u32>, filter: Filter) -> Result<BTreeMap<u32, Rule>> {
    let mut rules = BTreeMap::new();
    for entry in &table.call {
        let written = match filter {
            Filter::Runtime => entry.runtime.as_ref().or(entry.all.as_ref()),
            Filter::Command => entry.command.as_ref().or(entry.all.as_ref()),
            Filter::CommandExec => {
                entry.command_exec.as_ref().or(entry.command.as_ref()).or(entry.all.as_ref())
            }
            Filter::Init => entry.init.as_ref(),
        };
        let Some(written) = written else { continue };
        let rule = parse_rule(written, &table.constants)
            .map_err(|error| format!("{TABLE}: {:?}: {error}", entry.names))?;
        for name in &entry.names {
            let Some(number) = known.get(name) else { continue };
            if rules.insert(*number, rule.clone()).is_some() {
                return Err(format!("{TABLE}: {name} has two verdicts in {filter:?}").into());
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

// ---- Compiling --------------------------------------------------------------------------------------------------------

const RET: u16 = 0x06;
const JUMP: u16 = 0x05;
const JUMP_GE: u16 = 0x35;
const LOAD: u16 = 0x20;
const KILL_PROCESS: u32 = 0x8000_0000;
const USER_NOTIF: u32 = 0x7fc0_0000;
const ERRNO_ENOSYS: u32 = 0x0005_0000 | 38;
const ALLOW: u32 = 0x7fff_0000;
const X32_BIT: u32 = 0x4000_0000;

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn action(verdict: Verdict, filter: Filter) -> u32 {
    match (verdict, filter) {
        (Verdict::Allow, _) => ALLOW,
        (_, Filter::Init) => KILL_PROCESS,
        (Verdict::Deny, _) => USER_NOTIF,
        (Verdict::Unknown, _) => ERRNO_ENOSYS,
    }
}

fn compile(rules: &BTreeMap<u32, Rule>, filter: Filter, arch: TargetArch) -> Result<BpfProgram> {
    // Neighbouring numbers with the same code share one leaf.
    let unknown = vec![statement(RET, action(Verdict::Unknown, filter))];
    let mut leaves: Vec<(u32, BpfProgram)> = vec![(0, unknown.clone())];
    let mut put = |from: u32, code: BpfProgram| {
        if leaves.last().is_some_and(|(_, last)| *last != code) {
            leaves.push((from, code));
        }
    };
    let mut next = 0;
    for (number, rule) in rules {
        if *number > next {
            put(next, unknown.clone());
        }
        put(*number, leaf(rule, filter, arch)?);
        next = number + 1;
    }
    put(next, unknown);
    if leaves.get(1).is_some_and(|(from, _)| *from == 0) {
        leaves.remove(0);
    }

    let empty: BpfProgram =
        SeccompFilter::new(BTreeMap::new(), SeccompAction::Allow, SeccompAction::Trap, arch)?.try_into()?;
    // seccompiler's check of the architecture: load, compare, kill.
    let mut program: BpfProgram = empty[..3].to_vec();
    program.push(statement(LOAD, 0));
    if arch == TargetArch::x86_64 {
        program.push(sock_filter { code: JUMP_GE, jt: 0, jf: 1, k: X32_BIT });
        program.push(statement(RET, KILL_PROCESS));
    }
    program.extend(search(&leaves)?);
    if program.len() > 4096 {
        return Err(format!("the filter {filter:?} has {} instructions", program.len()).into());
    }
    Ok(program)
}

/// Finds the leaf whose range holds the number that is in the accumulator.
fn search(leaves: &[(u32, BpfProgram)]) -> Result<BpfProgram> {
    let (low, high) = match leaves {
        [] => return Err("no leaves".into()),
        [(_, leaf)] => return Ok(leaf.clone()),
        _more => leaves.split_at(leaves.len() / 2),
    };
    let border = high.first().ok_or("no upper half")?.0;
    let low = search(low)?;
    let mut code = match u8::try_from(low.len()) {
        Ok(skip) => vec![sock_filter { code: JUMP_GE, jt: skip, jf: 0, k: border }],
        Err(_) => vec![
            sock_filter { code: JUMP_GE, jt: 0, jf: 1, k: border },
            statement(JUMP, u32::try_from(low.len())?),
        ],
    };
    code.extend(low);
    code.extend(search(high)?);
    // As long as short jumps reach its end, a branch shares its returns; a longer one is as short as its halves.
    Ok(shrink::shrink(&code).unwrap_or(code))
}

/// What is done once the number is known.
fn leaf(rule: &Rule, filter: Filter, arch: TargetArch) -> Result<BpfProgram> {
    let mut code = chain(&rule.deny, action(Verdict::Deny, filter), arch)?;
    code.extend(chain(&rule.allow, action(Verdict::Allow, filter), arch)?);
    code.push(statement(RET, action(rule.otherwise, filter)));
    Ok(shrink::shrink(&code)?)
}

/// seccompiler's code for alternatives: returns `on_match` or goes on behind its last instruction.
fn chain(alternatives: &[Vec<Comparison>], on_match: u32, arch: TargetArch) -> Result<BpfProgram> {
    if alternatives.is_empty() {
        return Ok(Vec::new());
    }
    let rules = alternatives
        .iter()
        .map(|all| Ok(SeccompRule::new(all.iter().map(condition).collect::<Result<_>>()?)?))
        .collect::<Result<Vec<_>>>()?;
    let mark = SeccompAction::Trap;
    let compiled: BpfProgram =
        SeccompFilter::new(BTreeMap::from([(0, rules)]), SeccompAction::KillThread, mark.clone(), arch)?
            .try_into()?;
    // Three instructions for the architecture, the load and the comparison of the number in front; behind, the return
    // for arguments that don't match (where every failed comparison ends up) and the one for other numbers.
    let returns = |at: usize| compiled.get(at).is_some_and(|last| last.code == RET && last.k == 0);
    if compiled.len() < 8 || !returns(compiled.len() - 1) || !returns(compiled.len() - 2) {
        return Err("seccompiler lays its programs out in another way than this build script knows".into());
    }
    let mut code = compiled[5..compiled.len() - 2].to_vec();
    let mark = u32::from(mark);
    for instruction in &mut code {
        if instruction.code == RET && instruction.k == mark {
            instruction.k = on_match;
        }
    }
    Ok(code)
}

fn condition(comparison: &Comparison) -> Result<SeccompCondition> {
    let op = match comparison.op {
        "==" if comparison.mask != u64::MAX => SeccompCmpOp::MaskedEq(comparison.mask),
        "==" => SeccompCmpOp::Eq,
        "!=" => SeccompCmpOp::Ne,
        "<" => SeccompCmpOp::Lt,
        "<=" => SeccompCmpOp::Le,
        ">" => SeccompCmpOp::Gt,
        _ => SeccompCmpOp::Ge,
    };
    let width = if comparison.wide { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
    Ok(SeccompCondition::new(comparison.arg, width, op, comparison.value)?)
}

// ---- Writing ----------------------------------------------------------------------------------------------------------

fn write_program(code: &mut String, filter: Filter, program: &BpfProgram) -> Result<()> {
    let name = match filter {
        Filter::Runtime => "RUNTIME",
        Filter::Command => "COMMAND",
        Filter::CommandExec => "COMMAND_EXEC",
        Filter::Init => "INIT",
    };
    writeln!(code, "pub(super) static {name}: &[sock_filter] = &[")?;
    for sock_filter { code: op, jt, jf, k } in program {
        writeln!(code, "    sock_filter {{ code: {op}, jt: {jt}, jf: {jf}, k: {k:#x} }},")?;
    }
    writeln!(code, "];")?;
    Ok(())
}

fn write_names(code: &mut String, known: &BTreeMap<String, u32>, table: &Table) -> Result<()> {
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

/// The table as data, for the tests that hold the programs against it.
fn write_rows(
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
