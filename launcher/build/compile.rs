//! Rules to one classic BPF program.

use super::{
    Filter, Result, shrink,
    table::{Comparison, Rule, Verdict},
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use std::collections::BTreeMap;

const RET: u16 = 0x06;
const JUMP: u16 = 0x05;
const JUMP_GE: u16 = 0x35;
const LOAD: u16 = 0x20;
const KILL_PROCESS: u32 = 0x8000_0000;
const USER_NOTIF: u32 = 0x7fc0_0000;
const ERRNO_ENOSYS: u32 = 0x0005_0000 | 38;
const ERRNO_EOPNOTSUPP: u32 = 0x0005_0000 | 95;
const ALLOW: u32 = 0x7fff_0000;
const X32_BIT: u32 = 0x4000_0000;

const fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

const fn action(verdict: Verdict, filter: Filter) -> u32 {
    match (verdict, filter) {
        (Verdict::Allow, _) => ALLOW,
        (_, Filter::Init | Filter::Egress) => KILL_PROCESS,
        (Verdict::Deny | Verdict::Watch, _) => USER_NOTIF,
        (Verdict::Unknown, _) => ERRNO_ENOSYS,
        (Verdict::Unsupported, _) => ERRNO_EOPNOTSUPP,
    }
}

pub(crate) fn compile(rules: &BTreeMap<u32, Rule>, filter: Filter, arch: TargetArch) -> Result<BpfProgram> {
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
