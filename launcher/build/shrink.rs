//! Makes the code of a call, and of a branch of the search, short: the kernel compiles a filter at each start, and that
//! costs by the instruction. seccompiler puts two jumps before each alternative, loads an argument anew for each comparison, and
//! repeats its returns.
//!
//! Invariant: the meaning stays. The launcher's tests hold the finished programs against the table, argument by argument.
//! Source: Linux Documentation/networking/filter.rst, "BPF engine and instruction set".

use seccompiler::sock_filter;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_EQ: u16 = 0x15;
const JUMP_GT: u16 = 0x25;
const JUMP_GE: u16 = 0x35;
const JUMP_SET: u16 = 0x45;
const RET: u16 = 0x06;

/// An instruction whose jumps name places, not distances.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Op {
    Load(u32),
    And(u32),
    Test { code: u16, k: u32, yes: usize, no: usize },
    Go(usize),
    Return(u32),
}

/// The same code with fewer instructions. The accumulator's content at the start is not used.
pub(crate) fn shrink(code: &[sock_filter]) -> Result<Vec<sock_filter>, String> {
    let mut ops = code.iter().enumerate().map(|(at, one)| lift(at, one)).collect::<Result<Vec<_>, _>>()?;
    // seccompiler's second jump before an alternative is never reached, and its distance leads nowhere.
    let reached = reachable(&ops);
    for (op, _) in ops.iter_mut().zip(reached).filter(|(_, reached)| !reached) {
        *op = Op::Return(0);
    }
    thread(&mut ops);
    share_returns(&mut ops);
    use_bit_tests(&mut ops);
    drop_loads(&mut ops);
    thread(&mut ops);
    lower(&ops)
}

fn lift(at: usize, one: &sock_filter) -> Result<Op, String> {
    let next = at + 1;
    Ok(match one.code {
        LOAD => Op::Load(one.k),
        AND => Op::And(one.k),
        JUMP => Op::Go(next + one.k as usize),
        RET => Op::Return(one.k),
        code @ (JUMP_EQ | JUMP_GT | JUMP_GE | JUMP_SET) => {
            Op::Test { code, k: one.k, yes: next + usize::from(one.jt), no: next + usize::from(one.jf) }
        }
        code => return Err(format!("seccompiler made an instruction that isn't known here: {code:#x}")),
    })
}

/// Where control goes from each instruction.
fn successors(at: usize, op: Op) -> Vec<usize> {
    match op {
        Op::Load(_) | Op::And(_) => vec![at + 1],
        Op::Test { yes, no, .. } => vec![yes, no],
        Op::Go(to) => vec![to],
        Op::Return(_) => Vec::new(),
    }
}

/// Jumps to a jump go where that one goes.
fn thread(ops: &mut [Op]) {
    // Jumps only go forward, so from the end each target is final already.
    for at in (0..ops.len()).rev() {
        let end = |place: usize| match ops[place] {
            Op::Go(to) => to,
            _ => place,
        };
        ops[at] = match ops[at] {
            Op::Go(to) => Op::Go(end(to)),
            Op::Test { code, k, yes, no } => Op::Test { code, k, yes: end(yes), no: end(no) },
            other => other,
        };
    }
}

/// One return for each value, at the end, where every test can reach it.
fn share_returns(ops: &mut Vec<Op>) {
    let last = ops.len() - 1;
    for at in 0..last {
        if let Op::Return(k) = ops[at] {
            let shared = (last..ops.len()).find(|place| ops[*place] == Op::Return(k)).unwrap_or_else(|| {
                ops.push(Op::Return(k));
                ops.len() - 1
            });
            ops[at] = Op::Go(shared);
        }
    }
    thread(ops);
}

/// A bit that is masked out and compared with itself is one test, which leaves the accumulator as it was.
fn use_bit_tests(ops: &mut [Op]) {
    for at in 0..ops.len() - 1 {
        let alone = |place: usize| {
            let reached = reachable(ops);
            let from = |other: usize| reached[other] && successors(other, ops[other]).contains(&place);
            (0..ops.len()).filter(|other| from(*other)).eq([place - 1])
        };
        if let (Op::And(mask), Op::Test { code: JUMP_EQ, k, yes, no }) = (ops[at], ops[at + 1])
            && mask == k
            && mask.is_power_of_two()
            && alone(at + 1)
        {
            ops[at] = Op::Test { code: JUMP_SET, k, yes, no };
        }
    }
}

/// A load of what every way to it has loaded already does nothing.
fn drop_loads(ops: &mut [Op]) {
    // `None`: not reached yet; `Some(None)`: nothing is known.
    let mut known: Vec<Option<Option<u32>>> = vec![None; ops.len()];
    known[0] = Some(None);
    for at in 0..ops.len() {
        let Some(before) = known[at] else { continue };
        let after = match ops[at] {
            Op::Load(offset) => Some(offset),
            Op::And(_) => None,
            Op::Test { .. } | Op::Go(_) | Op::Return(_) => before,
        };
        for next in successors(at, ops[at]) {
            known[next] = match known[next] {
                None => Some(after),
                Some(other) if other == after => Some(after),
                Some(_) => Some(None),
            };
        }
        if matches!(ops[at], Op::Load(offset) if before == Some(offset)) {
            ops[at] = Op::Go(at + 1);
        }
    }
}

fn reachable(ops: &[Op]) -> Vec<bool> {
    let mut reached = vec![false; ops.len()];
    reached[0] = true;
    for at in 0..ops.len() {
        if reached[at] {
            for next in successors(at, ops[at]) {
                reached[next] = true;
            }
        }
    }
    reached
}

/// Leaves out what isn't reached and what does nothing, and counts the distances.
fn lower(ops: &[Op]) -> Result<Vec<sock_filter>, String> {
    let reached = reachable(ops);
    let follows = |from: usize, to: usize| (from + 1..to).all(|between| !reached[between]);
    let kept = |at: usize| reached[at] && !matches!(ops[at], Op::Go(to) if follows(at, to));
    let mut places = vec![0; ops.len() + 1];
    for at in 0..ops.len() {
        places[at + 1] = places[at] + usize::from(kept(at));
    }
    let distance = |from: usize, to: usize| places[to] - places[from] - 1;
    let short = |from: usize, to: usize| {
        u8::try_from(distance(from, to))
            .map_err(|_| "a call has too many conditions for short jumps".to_owned())
    };
    let plain = |code, k| sock_filter { code, jt: 0, jf: 0, k };
    (0..ops.len())
        .filter(|at| kept(*at))
        .map(|at| {
            Ok(match ops[at] {
                Op::Load(offset) => plain(LOAD, offset),
                Op::And(mask) => plain(AND, mask),
                Op::Test { code, k, yes, no } => {
                    sock_filter { code, jt: short(at, yes)?, jf: short(at, no)?, k }
                }
                Op::Go(to) => {
                    plain(JUMP, u32::try_from(distance(at, to)).map_err(|error| error.to_string())?)
                }
                Op::Return(k) => plain(RET, k),
            })
        })
        .collect()
}
