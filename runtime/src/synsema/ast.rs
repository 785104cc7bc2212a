//! The syntax tree.
//!
//! Chains (`a + b + c`, `f(x)(y).k`, `p and q and r`) are flat vectors, so that the depth of the tree is bounded
//! by what the parser allows and no later pass can overflow the stack.

use std::cell::Cell;
use std::rc::Rc;

/// A name in the source, and after resolution the index of its resolution.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) text: Rc<str>,
    pub(crate) at: u32,
    /// Index into the resolver's table; `u32::MAX` before.
    pub(crate) id: Cell<u32>,
}

impl Name {
    pub(crate) fn new(text: Rc<str>, at: u32) -> Self {
        Self { text, at, id: Cell::new(u32::MAX) }
    }
}

/// A scope's number in the resolver's table; set by the resolver.
#[derive(Debug)]
pub(crate) struct ScopeId(pub(crate) Cell<u32>);

impl Default for ScopeId {
    fn default() -> Self {
        Self(Cell::new(u32::MAX))
    }
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) at: u32,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Nothing,
    Bool(bool),
    Int(i64),
    BigInt(Rc<str>),
    Float(f64),
    Decimal(Rc<str>),
    Text(Rc<str>),
    Template(Vec<TemplatePiece>),
    Name(Name),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    /// `a + b - c`: left to right.
    Arith(Box<Expr>, Vec<(BinOp, u32, Expr)>),
    /// `a ** b`.
    Power(Box<Expr>, u32, Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// `a < b <= c`.
    Compare(Box<Expr>, Vec<(CmpOp, u32, Expr)>),
    /// Calls, indexes and members, in order.
    Postfix(Box<Expr>, Vec<Step>),
    Lambda(Rc<Function>),
    Then(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    Sandbox(Box<Expr>, ScopeId),
    /// Model and human operations: the operation's name and its named parts.
    Operation(Operation),
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) subject: Box<Expr>,
    pub(crate) parts: Vec<(Rc<str>, Expr)>,
}

#[derive(Debug)]
pub(crate) enum TemplatePiece {
    Text(Rc<str>),
    Hole(Expr),
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) at: u32,
    pub(crate) kind: StepKind,
}

#[derive(Debug)]
pub(crate) enum StepKind {
    Call(Vec<Arg>),
    Index(Expr),
    Field(Rc<str>),
    /// `k of m`: as a field, with a hint when it fails.
    Of(Rc<str>),
}

#[derive(Debug)]
pub(crate) struct Arg {
    pub(crate) name: Option<Rc<str>>,
    pub(crate) value: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Rem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CmpOp {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
    In,
    NotIn,
}

#[derive(Debug)]
pub(crate) struct Function {
    /// `None` for a lambda.
    pub(crate) name: Option<Rc<str>>,
    pub(crate) at: u32,
    pub(crate) params: Vec<Param>,
    pub(crate) body: Body,
    pub(crate) scope: ScopeId,
}

#[derive(Debug)]
pub(crate) enum Body {
    Block(Block),
    Expr(Expr),
}

#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: Name,
    pub(crate) default: Option<Expr>,
}

pub(crate) type Block = Vec<Stmt>;

#[derive(Debug)]
pub(crate) struct Stmt {
    pub(crate) kind: StmtKind,
    pub(crate) at: u32,
}

#[derive(Debug)]
pub(crate) enum StmtKind {
    Let(Name, Expr),
    Set(Target, Expr),
    Give(Option<Expr>),
    Stop,
    When(Vec<(Expr, Block)>, Option<Block>),
    Each {
        var: Name,
        iter: Expr,
        body: Block,
        scope: ScopeId,
    },
    While(Expr, Block),
    Match {
        subject: Expr,
        arms: Vec<Arm>,
        otherwise: Option<(Block, ScopeId)>,
    },
    Task(Name, Rc<Function>),
    Type(Name, Vec<Rc<str>>),
    Enum(Name, Vec<(Rc<str>, usize)>),
    Try {
        body: Block,
        name: Option<Name>,
        recover: Block,
        scope: ScopeId,
    },
    Raise(Expr),
    Intent(Rc<str>),
    Invariant(Option<Rc<str>>, Expr),
    Require(Require),
    Sandbox {
        under: Option<Expr>,
        body: Block,
        scope: ScopeId,
    },
    Use(Rc<str>, Name),
    Export(Box<Stmt>),
    Test(Rc<str>, Block, ScopeId),
    Agent(Name, Rc<Function>),
    Spawn(Name, Vec<(Rc<str>, Expr)>),
    Share(Expr, Expr),
    Observe(Expr, Name),
    Signal(Expr, Option<Expr>),
    WaitFor {
        channel: Expr,
        timeout: Option<Expr>,
        name: Option<Name>,
    },
    /// `trace` and `measure`.
    Watch(Block),
    /// `checkpoint`, and an expression by itself.
    Expr(Expr),
    Log(Expr),
    Show(Expr, Option<Expr>),
    Serve(Expr),
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) root: Name,
    pub(crate) path: Vec<Step>,
}

#[derive(Debug)]
pub(crate) struct Arm {
    pub(crate) pattern: Pattern,
    pub(crate) guard: Option<Expr>,
    pub(crate) body: Block,
    pub(crate) scope: ScopeId,
    pub(crate) at: u32,
}

#[derive(Debug)]
pub(crate) enum Pattern {
    Any,
    Bind(Name),
    Value(Expr),
    List {
        before: Vec<Pattern>,
        rest: Option<Option<Name>>,
        after: Vec<Pattern>,
    },
    Map(Vec<(Rc<str>, Pattern)>),
    /// `E.v(x, y)`.
    Variant(Expr, Vec<Pattern>, u32),
}

#[derive(Debug, Clone)]
pub(crate) struct Require {
    pub(crate) capability: Rc<str>,
    pub(crate) scopes: Vec<Rc<str>>,
}
