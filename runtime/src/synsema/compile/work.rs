//! Work nodes of an expression: what a statement costs beyond 1.

use crate::synsema::ast::{Expr, ExprKind, StepKind, TemplatePiece};

/// Operators, accesses, calls, containers, templates and lambdas in an expression.
pub(super) fn of(e: &Expr) -> u32 {
    match &e.kind {
        ExprKind::Nothing
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::BigInt(_)
        | ExprKind::Float(_)
        | ExprKind::Decimal(_)
        | ExprKind::Text(_)
        | ExprKind::Name(_) => 0,
        ExprKind::Lambda(_) => 1,
        ExprKind::Template(pieces) => {
            1 + pieces
                .iter()
                .map(|p| match p {
                    TemplatePiece::Hole(e) => of(e),
                    TemplatePiece::Text(_) => 0,
                })
                .sum::<u32>()
        }
        ExprKind::List(items) => 1 + items.iter().map(of).sum::<u32>(),
        ExprKind::And(items) | ExprKind::Or(items) => {
            items.len() as u32 - 1 + items.iter().map(of).sum::<u32>()
        }
        ExprKind::Map(entries) => 1 + entries.iter().map(|(k, v)| of(k) + of(v)).sum::<u32>(),
        ExprKind::Negate(e) | ExprKind::Not(e) | ExprKind::Sandbox(e, _) => 1 + of(e),
        ExprKind::Arith(first, rest) => of(first) + rest.iter().map(|(_, _, e)| 1 + of(e)).sum::<u32>(),
        ExprKind::Compare(first, rest) => of(first) + rest.iter().map(|(_, _, e)| 1 + of(e)).sum::<u32>(),
        ExprKind::Power(a, _, b) => 1 + of(a) + of(b),
        ExprKind::Postfix(base, steps) => {
            of(base)
                + steps
                    .iter()
                    .map(|s| match &s.kind {
                        StepKind::Call(args) => 1 + args.iter().map(|a| of(&a.value)).sum::<u32>(),
                        StepKind::Index(e) => 1 + of(e),
                        StepKind::Field(_) | StepKind::Of(_) => 1,
                    })
                    .sum::<u32>()
        }
        ExprKind::Then(c, y, n) => 1 + of(c) + of(y) + n.as_ref().map_or(0, |n| of(n)),
        ExprKind::Operation(o) => 1 + of(&o.subject) + o.parts.iter().map(|(_, e)| of(e)).sum::<u32>(),
    }
}
