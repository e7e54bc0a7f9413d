//! Locals that need their own value before they have one.

use super::scope::{Binding, Scopes};
use super::{Code, Notes};
use crate::jsonnet::syntax::{BinaryOperator, Kind, NodeId, Tree};
use std::collections::HashMap;

/// The progress of following a local.
#[derive(Clone, Copy, PartialEq)]
enum Progress {
    Open,
    Done,
}

/// Follows each local through what it needs at once. What a function, an array or an object holds is
/// needed later, or never.
pub(super) fn find(tree: &Tree<'_>, scopes: &Scopes, notes: &mut Notes) {
    let mut followed: HashMap<usize, Progress> = HashMap::new();
    for index in 0..tree.nodes.len() {
        let id = tree.id(index);
        if let (Some(number), Some(Binding::Value(value))) = (scopes.number(id), scopes.binding(id)) {
            follow(tree, scopes, notes, &mut followed, (number, value));
        }
    }
}

/// One step of the walk: a local whose needs are visited in turn, or the end of it.
enum Step {
    Local {
        number: usize,
        value: NodeId,
        at: NodeId,
    },
    End(usize),
}

fn follow(
    tree: &Tree<'_>,
    scopes: &Scopes,
    notes: &mut Notes,
    followed: &mut HashMap<usize, Progress>,
    (number, value): (usize, NodeId),
) {
    let mut steps = vec![Step::Local {
        number,
        value,
        at: value,
    }];
    while let Some(step) = steps.pop() {
        let (number, value, at) = match step {
            Step::Local { number, value, at } => (number, value, at),
            Step::End(number) => {
                followed.insert(number, Progress::Done);
                continue;
            }
        };
        match followed.get(&number) {
            Some(Progress::Done) => continue,
            Some(Progress::Open) => {
                let span = tree.node(at).span;
                notes.add(Code::EndlessLoop, span, "Endless loop in local definition");
                continue;
            }
            None => {}
        }
        followed.insert(number, Progress::Open);
        steps.push(Step::End(number));
        let mut needs = Vec::new();
        needed_at_once(tree, value, &mut needs);
        for at in needs.into_iter().rev() {
            if let (Some(number), Some(Binding::Value(value))) = (scopes.number(at), scopes.binding(at)) {
                steps.push(Step::Local { number, value, at });
            }
        }
    }
}

/// The variables whose values an expression needs to have one itself.
fn needed_at_once(tree: &Tree<'_>, id: NodeId, needs: &mut Vec<NodeId>) {
    let mut open = vec![id];
    while let Some(id) = open.pop() {
        match &tree.node(id).kind {
            Kind::Variable(_) => needs.push(id),
            Kind::Parens { inner: child, .. }
            | Kind::Local { body: child, .. }
            | Kind::Error(child)
            | Kind::Unary { operand: child, .. }
            | Kind::InSuper { element: child, .. }
            | Kind::SuperIndex { index: child, .. }
            | Kind::Member { target: child, .. } => open.push(*child),
            Kind::Assert { condition, rest, .. } => open.extend([*rest, *condition]),
            Kind::Conditional(conditional) => open.push(conditional.condition),
            Kind::Index { target, index, .. } => open.extend([*index, *target]),
            Kind::ApplyBrace { left, right } => open.extend([*right, *left]),
            Kind::Apply(apply) => open.push(apply.target),
            Kind::Slice(slice) => open.push(slice.target),
            Kind::Binary {
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
