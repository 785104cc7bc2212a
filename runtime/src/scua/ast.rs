//! The tree. Chains of one level of precedence are flat, so that its depth is the depth that the parser bounds.

use std::rc::Rc;

/// An expression and the byte where it starts.
#[derive(Debug)]
pub(super) struct Expr {
    pub(super) at: u32,
    pub(super) kind: ExprKind,
}

#[derive(Debug)]
pub(super) enum ExprKind {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<str>),
    Template(Vec<Piece>),
    Name(Rc<str>),
    Tag(Rc<str>, Option<Box<Expr>>),
    Array(Vec<Expr>),
    Record(Vec<(Key, Expr)>),
    Fn(Rc<Function>),
    Match(Box<Match>),
    Ask(Box<Message>, Option<Box<Expr>>),
    Spawn(Box<Spawned>),
    /// Sums or products, from left to right.
    Chain(Box<Expr>, Vec<(Operator, Expr)>),
    /// Joined by `..`.
    Concat(Vec<Expr>),
    /// Joined by `and` or `or`.
    Logic(Logic, Vec<Expr>),
    Compare(Comparison, Box<Expr>, Box<Expr>),
    Minus(Box<Expr>),
    Not(Box<Expr>),
    Postfix(Box<Expr>, Vec<Step>),
    Paren(Box<Expr>),
}

#[derive(Debug)]
pub(super) enum Piece {
    Text(Rc<str>),
    Hole(Expr),
}

#[derive(Debug)]
pub(super) enum Key {
    Word(Rc<str>),
    Computed(Expr),
}

#[derive(Debug)]
pub(super) enum Step {
    Field(Rc<str>, u32),
    Index(Expr),
    Call(Vec<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Rem,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logic {
    And,
    Or,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// `receiver.Tag(args)`
#[derive(Debug)]
pub(super) struct Message {
    pub(super) receiver: Expr,
    pub(super) tag: Rc<str>,
    pub(super) args: Vec<Expr>,
}

#[derive(Debug)]
pub(super) enum Spawned {
    Call(Expr, Vec<Expr>),
    Block(Rc<Function>),
}

/// A function: `fn`, a `spawn do` body, or the top level.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: Option<Rc<str>>,
    pub(super) at: u32,
    pub(super) params: Vec<Binding>,
    pub(super) body: Block,
    /// Its number in the source, from 0.
    pub(super) id: u32,
}

/// A name that is bound; `None` for `_`.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) name: Option<Rc<str>>,
    pub(super) at: u32,
    /// Its number in the source.
    pub(super) id: u32,
}

pub(super) type Block = Vec<Stmt>;

#[derive(Debug)]
pub(super) struct Stmt {
    pub(super) at: u32,
    pub(super) kind: StmtKind,
}

#[derive(Debug)]
pub(super) enum StmtKind {
    Import(Rc<str>),
    Let(Binding, Expr),
    Fn(Binding, Rc<Function>),
    Assign(Target, Expr),
    Expr(Expr),
    Return(Option<Expr>),
    Break,
    Continue,
    Tell(Message),
    /// Conditions with their bodies, and the place of each condition's line.
    If(Vec<(u32, Expr, Block)>, Option<Block>),
    While(Expr, Block),
    Count(Binding, Expr, Expr, Option<Expr>, Block),
    Each(Binding, Option<Binding>, Expr, Block),
    Do(Block),
}

#[derive(Debug)]
pub(super) enum Target {
    Name(Rc<str>, u32),
    Field(Expr, Rc<str>),
    Index(Expr, Expr),
}

#[derive(Debug)]
pub(super) struct Match {
    pub(super) at: u32,
    pub(super) value: Expr,
    pub(super) arms: Vec<Arm>,
}

#[derive(Debug)]
pub(super) struct Arm {
    pub(super) at: u32,
    pub(super) pattern: Pattern,
    pub(super) guard: Option<Expr>,
    pub(super) body: ArmBody,
}

#[derive(Debug)]
pub(super) enum ArmBody {
    Expr(Expr),
    Stmt(Stmt),
}

#[derive(Debug)]
pub(super) enum Pattern {
    Any,
    Name(Binding),
    Literal(Expr),
    Tag(Rc<str>, Option<Box<Pattern>>),
    /// Elements, and what takes the others.
    Array(Vec<Pattern>, Option<Binding>),
    Record(Vec<(Rc<str>, Pattern)>),
}
