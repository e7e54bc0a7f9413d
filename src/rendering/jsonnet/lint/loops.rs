//! Locals that depend on their own value before it exists.

use super::scope::{Binding, Scopes};
use super::{LintCode, RawFindings};
use crate::rendering::jsonnet::syntax::{BinaryOperator, NodeId, NodeKind, SyntaxTree};
use std::collections::HashMap;

/// The progress of visiting a local.
#[derive(Clone, Copy, PartialEq)]
enum VisitState {
    Open,
    Done,
}

/// Follows each local through the values it needs immediately. Values inside of a function, an array or an object are
/// needed later, or never.
pub(super) fn find(tree: &SyntaxTree<'_>, scopes: &Scopes, notes: &mut RawFindings) {
    let mut followed: HashMap<usize, VisitState> = HashMap::new();
    for index in 0..tree.nodes.len() {
        let id = tree.id(index);
        if let (Some(number), Some(Binding::Value(value))) = (scopes.binding_number(id), scopes.binding(id)) {
            follow(tree, scopes, notes, &mut followed, (number, value));
        }
    }
}

/// One step of the walk: a local whose needs are visited, or the end of that visit.
enum LocalVisit {
    Local {
        number: usize,
        value: NodeId,
        at: NodeId,
    },
    End(usize),
}

fn follow(
    tree: &SyntaxTree<'_>,
    scopes: &Scopes,
    notes: &mut RawFindings,
    followed: &mut HashMap<usize, VisitState>,
    (number, value): (usize, NodeId),
) {
    let mut steps = vec![LocalVisit::Local {
        number,
        value,
        at: value,
    }];
    while let Some(step) = steps.pop() {
        let (number, value, at) = match step {
            LocalVisit::Local { number, value, at } => (number, value, at),
            LocalVisit::End(number) => {
                followed.insert(number, VisitState::Done);
                continue;
            }
        };
        match followed.get(&number) {
            Some(VisitState::Done) => continue,
            Some(VisitState::Open) => {
                let span = tree.node(at).span;
                notes.add(LintCode::EndlessLoop, span, "Endless loop in local definition");
                continue;
            }
            None => {}
        }
        followed.insert(number, VisitState::Open);
        steps.push(LocalVisit::End(number));
        let mut needs = Vec::new();
        needed_at_once(tree, value, &mut needs);
        for at in needs.into_iter().rev() {
            if let (Some(number), Some(Binding::Value(value))) =
                (scopes.binding_number(at), scopes.binding(at))
            {
                steps.push(LocalVisit::Local { number, value, at });
            }
        }
    }
}

/// Collects the variables whose values an expression needs immediately.
fn needed_at_once(tree: &SyntaxTree<'_>, id: NodeId, needs: &mut Vec<NodeId>) {
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        match &tree.node(id).kind {
            NodeKind::Variable(_) => needs.push(id),
            NodeKind::Parens { inner: child, .. }
            | NodeKind::Local { body: child, .. }
            | NodeKind::Error(child)
            | NodeKind::Unary { operand: child, .. }
            | NodeKind::InSuper { element: child, .. }
            | NodeKind::SuperIndex { index: child, .. }
            | NodeKind::Member { target: child, .. } => open.push(*child),
            NodeKind::Assert { condition, rest, .. } => open.extend([*rest, *condition]),
            NodeKind::Conditional(conditional) => open.push(conditional.condition),
            NodeKind::Index { target, index, .. } => open.extend([*index, *target]),
            NodeKind::ApplyBrace { left, right } => open.extend([*right, *left]),
            NodeKind::Apply(apply) => open.push(apply.target),
            NodeKind::Slice(slice) => open.push(slice.target),
            NodeKind::Binary {
                left,
                operator,
                right,
                ..
            } => {
                if !matches!(operator, BinaryOperator::And | BinaryOperator::Or) {
                    open.push(*right);
                }
                open.push(*left);
            }
            _ => {}
        }
    }
}
