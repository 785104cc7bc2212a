//! The machine's manual: every instruction, one line of register notation each.
//!
//! An instruction is 8 bytes: the operation, the fuel that it costs, two registers `a` and `b`, and `d`, which is
//! a third register `c`, a jump target, a constant, or a number. `R[x]` is a register, `K[x]` a constant, `G[x]` a
//! global, `C[x]` a captured variable. A register at or above the function's `locals` is used once: whoever
//! reads it may take it. A call whose result goes to register 255 lets it go.

/// One instruction.
#[derive(Debug, Clone, Copy)]
pub struct Ins {
    /// What to do.
    pub op: Op,
    /// Fuel charged when it starts.
    pub cost: u8,
    /// First register.
    pub a: u8,
    /// Second register or small count.
    pub b: u8,
    /// Third operand.
    pub d: u32,
}

impl Ins {
    /// The third register.
    #[inline]
    #[must_use]
    pub fn c(self) -> u8 {
        self.d as u8
    }
}

/// Operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Only costs fuel.
    Nop,
    /// `R[a] = R[b]`
    Move,
    /// `R[a] = R[b]; R[b] = nothing`
    Take,
    /// `R[a] = K[d]`
    Const,
    /// `R[a] = d as a signed integer`
    Int,
    /// `R[a] = nothing`
    Nothing,
    /// `R[a] = (b != 0)`
    Bool,
    /// `R[a] = unbound`
    Unbind,
    /// `R[a] = a fresh captured variable, unbound`
    NewCell,
    /// `R[a] = a fresh captured variable holding R[a]`
    Wrap,
    /// `R[a] = variable in R[b]; raises if unbound`
    GetCell,
    /// `R[a] = variable in R[b], perhaps unbound`
    GetCellRaw,
    /// `variable in R[b] = R[a]`
    SetCell,
    /// `R[a] = C[b]; raises if unbound`
    GetUp,
    /// `R[a] = C[b], perhaps unbound`
    GetUpRaw,
    /// `C[b] = R[a]`
    SetUp,
    /// `R[a] = G[d]; raises if unbound`
    GetGlobal,
    /// `R[a] = G[d], perhaps unbound`
    GetGlobalRaw,
    /// `G[d] = R[a]`
    SetGlobal,
    /// `If R[a] is bound, go to d`
    JumpBound,
    /// Raises: the variable named at this place is undefined
    Undefined,
    /// Raises: the variable named at this place can't be set, it is undefined
    CannotSet,
    /// `R[a] = R[b] + R[c]`
    Add,
    /// `R[a] = R[b] - R[c]`
    Sub,
    /// `R[a] = R[b] * R[c]`
    Mul,
    /// `R[a] = R[b] / R[c]`
    Div,
    /// `R[a] = R[b] // R[c]`
    FloorDiv,
    /// `R[a] = R[b] % R[c]`
    Rem,
    /// `R[a] = R[b] ** R[c]`
    Pow,
    /// `R[a] = R[b] + d`
    AddI,
    /// `R[a] = R[b] - d`
    SubI,
    /// `R[a] = R[b] * d`
    MulI,
    /// `R[a] = R[b] // d, d not 0`
    FloorDivI,
    /// `R[a] = R[b] % d, d not 0`
    RemI,
    /// `R[a] = -R[b]`
    Negate,
    /// `R[a] = not R[b]`
    Not,
    /// `R[a] = whether R[b] is true`
    Truth,
    /// `R[a] = R[b] == R[c]`
    Eq,
    /// `R[a] = R[b] != R[c]`
    Ne,
    /// `R[a] = R[b] < R[c]`
    Lt,
    /// `R[a] = R[b] <= R[c]`
    Le,
    /// `R[a] = R[b] > R[c]`
    Gt,
    /// `R[a] = R[b] >= R[c]`
    Ge,
    /// `R[a] = R[b] in R[c]`
    In,
    /// `R[a] = R[b] not in R[c]`
    NotIn,
    /// Go to d
    Jump,
    /// Go back to d: fuel and memory are looked at
    Loop,
    /// `If R[a] is true, go to d`
    JumpIf,
    /// `If R[a] is false, go to d`
    JumpIfNot,
    /// `If R[a] == R[b], go to d`
    JumpEq,
    /// `If R[a] != R[b], go to d`
    JumpNe,
    /// `If R[a] > R[b], go to d`
    JumpGt,
    /// `If R[a] >= R[b], go to d`
    JumpGe,
    /// `If R[a] < R[b], go to d`
    JumpLt,
    /// `If not R[a] < R[b], go to d`
    JumpNlt,
    /// `If R[a] <= R[b], go to d`
    JumpLe,
    /// `If not R[a] <= R[b], go to d`
    JumpNle,
    /// `If R[a] == b as signed, go to d`
    JumpEqI,
    /// `If R[a] != b as signed, go to d`
    JumpNeI,
    /// `If R[a] < b as signed, go to d`
    JumpLtI,
    /// `If not R[a] < b as signed, go to d`
    JumpNltI,
    /// `If R[a] <= b as signed, go to d`
    JumpLeI,
    /// `If not R[a] <= b as signed, go to d`
    JumpNleI,
    /// `If R[a] > b as signed, go to d`
    JumpGtI,
    /// `If not R[a] > b as signed, go to d`
    JumpNgtI,
    /// `If R[a] >= b as signed, go to d`
    JumpGeI,
    /// `If not R[a] >= b as signed, go to d`
    JumpNgeI,
    /// `R[a] = list of R[b] … R[b + d - 1]`
    List,
    /// `Append R[b] to the list R[a]`
    Push,
    /// `R[a] = {} with room for d entries`
    Map,
    /// `R[a][R[b]] = R[c], in a map literal`
    Put,
    /// `R[a] = R[b][R[c]]`
    Index,
    /// `R[a] = R[b].K[d]`
    Field,
    /// As `Field`, written `k of m`
    FieldOf,
    /// As `Field`, part of a chain with an `of`
    FieldOfChain,
    /// As `Field`, written `m["k"]`
    FieldAt,
    /// As `Field`, about to be called
    Method,
    /// `R[a][R[b]] = R[c]`
    SetIndex,
    /// `R[a].K[d] = R[b]`
    SetField,
    /// `Path of b keys from R[d & 255] in the root given by the next instruction's place = R[a]`
    SetPath,
    /// If `R[a]` is what is at the path of b keys from `R[d & 255]` in the root given by the next instruction's place,
    /// and nobody else holds it, the path lets go of it. A `CallTaken` and a `SetPath` follow, or (d >> 16 > 0) sums
    /// with the terms from `R[d >> 8 & 255]`
    TakePath,
    /// `R[a] = append(R[a], R[b]), in place`
    Append,
    /// `R[a] = R[a] + R[b] + … (d terms), texts in place`
    SumInto,
    /// `R[a]` = value of the next instruction's place, moved out: an `Append`, `SumInto` or `CallTaken` follows
    TakeCell,
    /// As `TakeCell`, for `C[b]`
    TakeUp,
    /// As `TakeCell`, for `G[d]`
    TakeGlobal,
    /// `R[d] = R[a](R[a + 1] … R[a + b])`
    Call,
    /// `R[d & 255] = G[d >> 8](R[a + 1] … R[a + b])`
    CallGlobal,
    /// `R[d & 255] = builtin d >> 8 (R[a] … R[a + b - 1])`
    CallBuiltin,
    /// As `CallBuiltin`; on an error the first argument goes back to the place of the next instruction
    CallTaken,
    /// `R[a] = R[a](R[a + 1] … R[a + b]), the last ones named by K[d]`
    CallNamed,
    /// `Give R[a]`
    Return,
    /// Give nothing
    ReturnNothing,
    /// `stop` without a loop around it in this function
    Stop,
    /// `R[a] = closure of function d`
    Closure,
    /// `R[a] … R[a + 2] are start, end, step; R[b] = first; if none, go to d`
    RangePrep,
    /// `R[b] = next of R[a]; if there is one, go back to d`
    RangeNext,
    /// `R[a] is a collection, R[a + 1] its position`
    EachPrep,
    /// `R[b] = next of R[a]; if there is one, go back to d`
    EachNext,
    /// `Errors go to d with the message in R[a]`
    Try,
    /// The `try` is over
    EndTry,
    /// No capability from here on
    Sandbox,
    /// `Only R[a] ∩ what is held, from here on`
    Under,
    /// The innermost sandbox is over
    EndSandbox,
    /// `Raise R[a]`
    Raise,
    /// `Raise if R[a] is false: the invariant K[d]`
    Invariant,
    /// The `require` `K[d]`
    Require,
    /// The `intent` `K[d]`
    Intent,
    /// `R[a] = texts of R[b] … R[b + d - 1], joined`
    Concat,
    /// `Log R[a]`
    Log,
    /// `Show R[a]; labelled R[b] if d is 1`
    Show,
    /// `If R[a] is a list of exactly b elements (d = 0), or at least b (d = 1), skip the next instruction`
    MatchList,
    /// `R[a] = R[b][d], a list long enough; d from the end if negative`
    ItemAt,
    /// `R[a] = R[b] without the first d >> 16 and the last d & 65535 elements`
    Rest,
    /// `If R[b] is a map with the key K[d], R[a] = its value and skip the next instruction`
    MatchKey,
    /// `If R[a] is a map, skip the next instruction`
    MatchMap,
    /// `If R[a] is the variant R[b] with d parts, skip the next instruction`
    MatchVariant,
    /// `R[a] = part d of the variant R[b]`
    PartAt,
    /// `R[a] = the type or enum K[d]`
    Shape,
    /// `R[a] = the module whose top level is function d, run if it hasn't been`
    Use,
    /// `R[a] = operation K[d] with subject R[a] and parts R[a + 1] …`
    Operation,
    /// `Start agent d with arguments K[…] in R[a] …: R[a] is a map`
    Spawn,
    /// `Blackboard[R[b]] = R[a]`
    Share,
    /// `R[a] = blackboard[R[b]]`
    Observe,
    /// `Queue R[a] in channel R[b]`
    Signal,
    /// `R[a] = next of channel R[b], at most R[b + 1] seconds`
    Wait,
    /// The `serve` block
    Serve,
    /// The top level is over
    End,

    // Exact partitions: containers by reference, each charge before what it pays for.
    /// Charge d
    Charge,
    /// `If R[a] is neither nil nor false, go to d`
    JumpTrue,
    /// `If R[a] is nil or false, go to d`
    JumpFalse,
    /// `R[a] = whether R[b] is nil or false`
    Denied,
    /// `R[a] = -R[b], checked`
    Minus,
    /// `If not R[a] > R[b], go to d`
    JumpNgt,
    /// `If not R[a] >= R[b], go to d`
    JumpNge,
    /// `R[a] = R[b] .. … (d terms)`
    Join,
    /// `R[a] = the text of R[b] … (d terms)`
    Template,
    /// `R[a] = array of R[b] … R[b + d - 1]`
    Array,
    /// `R[a] = array with room for exactly d elements`
    ArrayOf,
    /// `Append R[b] to the array R[a], which has room`
    ArrayPut,
    /// `R[a] = record with room for exactly d fields`
    Record,
    /// `R[a].K[d] = R[b], in a record literal`
    RecordPut,
    /// `R[a][R[b]] = R[c], in a record literal`
    RecordPutAt,
    /// `R[a] = K[d](R[b])`
    Tagged,
    /// `R[a] = R[b].K[d]`
    GetField,
    /// `R[a] = R[b][R[c]]`
    GetIndex,
    /// `R[a].K[d] = R[b]`
    PutField,
    /// `R[a][R[b]] = R[c]`
    PutIndex,
    /// `R[d] = R[a](R[a + 1] … R[a + b])`
    Invoke,
    /// `R[d & 255] = function d >> 8 of the top level (R[a + 1] … R[a + b])`
    InvokeFixed,
    /// `R[a] = closure of function d, counted`
    Function,
    /// `R[a] = a fresh captured variable, unbound, counted`
    NewVariable,
    /// `R[a] = a fresh captured variable holding R[a], counted`
    Capture,
    /// `R[a] … R[a + 2] are start, end, step; R[b] = first, R[a + 3] = how many follow, charge 1; if none, go to d`
    CountPrep,
    /// `If R[a + 3] > 0, R[b] = next of R[a], charge 1 and go back to d`
    CountNext,
    /// `R[a] is a container, R[a + 1] = 0, R[a + 2] = its keys; go to d`
    WalkPrep,
    /// `R[a + 3] = next value of R[a], or key of a record; b = 1: R[a + 3] = index or key, R[a + 4] = value; charge 1
    /// and go back to d, if there is one`
    WalkNext,
    /// `If R[a] is the bare tag K[d], skip the next instruction`
    TestTag,
    /// `If R[b] is the tag K[d] with a value, R[a] = the value and skip the next instruction`
    TestTagged,
    /// `If R[a] is an array of exactly d elements (b = 0), or at least d (b = 1), skip the next instruction`
    TestArray,
    /// `R[a] = R[b][d], an array long enough`
    Element,
    /// `R[a] = array of R[b]'s elements from d on`
    Rest2,
    /// `If R[a] is a record, skip the next instruction`
    TestRecord,
    /// `If the record R[b] has K[d], R[a] = its value and skip the next instruction`
    TestField,
    /// `Raises: no arm matches R[a]`
    NoArm,
    /// `R[a] = task of R[a](R[a + 1] … R[a + b])`
    SpawnTask,
    /// `Tell R[a] the message K[d] with R[a + 1] … R[a + b]`
    Tell,
    /// `R[a] = reply of R[a] to K[d] with R[a + 1] … R[a + b], within R[a + b + 1]`
    Ask,
    /// `R[a] … R[b] = nothing`
    Clear,
}

impl Op {
    /// This arithmetic with a small number for its second operand; it must not fail for its sake.
    pub(crate) fn with_number(self, n: i32) -> Option<Op> {
        match self {
            Op::Add => Some(Op::AddI),
            Op::Sub => Some(Op::SubI),
            Op::Mul => Some(Op::MulI),
            Op::FloorDiv if n > 0 => Some(Op::FloorDivI),
            Op::Rem if n > 0 => Some(Op::RemI),
            _ => None,
        }
    }

    /// This conditional jump with a very small number for its second operand.
    pub(crate) fn with_small(self) -> Option<Op> {
        match self {
            Op::JumpEq => Some(Op::JumpEqI),
            Op::JumpNe => Some(Op::JumpNeI),
            Op::JumpLt => Some(Op::JumpLtI),
            Op::JumpNlt => Some(Op::JumpNltI),
            Op::JumpLe => Some(Op::JumpLeI),
            Op::JumpNle => Some(Op::JumpNleI),
            Op::JumpGt => Some(Op::JumpGtI),
            Op::JumpNgt => Some(Op::JumpNgtI),
            Op::JumpGe => Some(Op::JumpGeI),
            Op::JumpNge => Some(Op::JumpNgeI),
            _ => None,
        }
    }
}
