//! Fuel of the tree: work nodes of an expression, nodes of a pattern.

use super::ast::{Expr, ExprKind, Key, Message, Pattern, Piece, Spawned, Step, Target};
use super::resolve::{Resolved, Use};

fn all<'e>(resolved: &Resolved, exprs: impl IntoIterator<Item = &'e Expr>) -> u32 {
    exprs.into_iter().map(|expr| nodes(resolved, expr)).sum()
}

/// Receiver and arguments; the message itself is the caller's.
pub(super) fn message(resolved: &Resolved, message: &Message) -> u32 {
    nodes(resolved, &message.receiver) + all(resolved, &message.args)
}

/// Work nodes of an expression. What stands in blocks, arms and functions pays for itself.
pub(super) fn nodes(resolved: &Resolved, expr: &Expr) -> u32 {
    match &expr.kind {
        ExprKind::Nil
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Text(_)
        | ExprKind::Name(_)
        | ExprKind::Tag(_, None)
        | ExprKind::Match(_) => 0,
        ExprKind::Template(pieces) => {
            1 + pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Text(_) => 0,
                    Piece::Hole(hole) => nodes(resolved, hole),
                })
                .sum::<u32>()
        }
        ExprKind::Tag(_, Some(value)) => 1 + nodes(resolved, value),
        ExprKind::Array(items) => 1 + all(resolved, items),
        ExprKind::Record(fields) => {
            1 + fields
                .iter()
                .map(|(key, value)| {
                    nodes(resolved, value)
                        + match key {
                            Key::Word(_) => 0,
                            Key::Computed(key) => nodes(resolved, key),
                        }
                })
                .sum::<u32>()
        }
        ExprKind::Fn(_) => 1,
        ExprKind::Ask(sent, timeout) => {
            1 + message(resolved, sent) + timeout.as_ref().map_or(0, |timeout| nodes(resolved, timeout))
        }
        ExprKind::Spawn(spawned) => match &**spawned {
            Spawned::Call(callee, args) => 1 + nodes(resolved, callee) + all(resolved, args),
            Spawned::Block(_) => 1,
        },
        ExprKind::Chain(first, more) => {
            nodes(resolved, first) + more.iter().map(|(_, operand)| 1 + nodes(resolved, operand)).sum::<u32>()
        }
        ExprKind::Concat(items) | ExprKind::Logic(_, items) => items.len() as u32 - 1 + all(resolved, items),
        ExprKind::Compare(_, left, right) => 1 + nodes(resolved, left) + nodes(resolved, right),
        ExprKind::Minus(inner) => match inner.kind {
            // `-9223372036854775808` is one number.
            ExprKind::Int(i64::MIN) => 1,
            _ => 1 + nodes(resolved, inner),
        },
        ExprKind::Not(inner) => 1 + nodes(resolved, inner),
        ExprKind::Paren(inner) => nodes(resolved, inner),
        ExprKind::Postfix(first, steps) => {
            let module = matches!(resolved.uses.get(first.at), Some(Use::Module(_)))
                && matches!(first.kind, ExprKind::Name(_));
            let sum: u32 = steps
                .iter()
                .map(|step| match step {
                    Step::Field(..) => 1,
                    Step::Index(index) => 1 + nodes(resolved, index),
                    Step::Call(args) => 1 + all(resolved, args),
                })
                .sum();
            nodes(resolved, first) + sum - u32::from(module)
        }
    }
}

/// Work nodes of what is assigned to.
pub(super) fn target(resolved: &Resolved, target: &Target) -> u32 {
    match target {
        Target::Name(..) => 0,
        Target::Field(object, _) => 1 + nodes(resolved, object),
        Target::Index(object, index) => 1 + nodes(resolved, object) + nodes(resolved, index),
    }
}

/// Nodes of a pattern.
pub(super) fn pattern(of: &Pattern) -> u32 {
    match of {
        Pattern::Any | Pattern::Name(_) | Pattern::Literal(_) | Pattern::Tag(_, None) => 1,
        Pattern::Tag(_, Some(inner)) => 1 + pattern(inner),
        Pattern::Array(items, _) => 1 + items.iter().map(pattern).sum::<u32>(),
        Pattern::Record(fields) => 1 + fields.iter().map(|(_, field)| pattern(field)).sum::<u32>(),
    }
}

/// Whether a statement may run inside the expression: only a `match` holds some.
pub(super) fn has_statements(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Match(_) => true,
        ExprKind::Nil
        | ExprKind::Bool(_)
        | ExprKind::Int(_)
        | ExprKind::Float(_)
        | ExprKind::Text(_)
        | ExprKind::Name(_)
        | ExprKind::Tag(_, None)
        | ExprKind::Fn(_) => false,
        ExprKind::Template(pieces) => {
            pieces.iter().any(|piece| matches!(piece, Piece::Hole(hole) if has_statements(hole)))
        }
        ExprKind::Tag(_, Some(inner))
        | ExprKind::Minus(inner)
        | ExprKind::Not(inner)
        | ExprKind::Paren(inner) => has_statements(inner),
        ExprKind::Array(items) | ExprKind::Concat(items) | ExprKind::Logic(_, items) => {
            items.iter().any(has_statements)
        }
        ExprKind::Record(fields) => fields.iter().any(|(key, value)| {
            has_statements(value) || matches!(key, Key::Computed(key) if has_statements(key))
        }),
        ExprKind::Ask(sent, timeout) => {
            has_statements(&sent.receiver)
                || sent.args.iter().any(has_statements)
                || timeout.as_ref().is_some_and(|timeout| has_statements(timeout))
        }
        ExprKind::Spawn(spawned) => match &**spawned {
            Spawned::Call(callee, args) => has_statements(callee) || args.iter().any(has_statements),
            Spawned::Block(_) => false,
        },
        ExprKind::Chain(first, more) => has_statements(first) || more.iter().any(|(_, e)| has_statements(e)),
        ExprKind::Compare(_, left, right) => has_statements(left) || has_statements(right),
        ExprKind::Postfix(first, steps) => {
            has_statements(first)
                || steps.iter().any(|step| match step {
                    Step::Field(..) => false,
                    Step::Index(index) => has_statements(index),
                    Step::Call(args) => args.iter().any(has_statements),
                })
        }
    }
}
