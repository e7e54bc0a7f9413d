//! The location that Go reports for an error, if the second engine reports only a part of that expression, and data for
//! the wording of the message.

use crate::rendering::jsonnet::nesting::next_token;
use crate::rendering::jsonnet::syntax::{self, FieldKind, ForSpec, NodeId, NodeKind, SyntaxTree};
use rsjsonnet_lang::program::EvalErrorKind;
use std::ops::Range;

/// The keyword of an assertion.
const ASSERT: &[u8] = b"assert";

/// A part of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The condition of an `if`, or the list of a comprehension.
    Condition,
    /// The name of a field.
    Name,
    /// An argument of a call.
    Argument,
    /// The condition of an assertion.
    Assertion,
}

/// The location and message of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::rendering::jsonnet) struct ErrorLocation {
    /// The offset of the first byte of the expression.
    pub(super) start: usize,
    /// The message, if it differs from the engine's message.
    pub(super) message: Option<String>,
}

/// Finds the expression in its text. `named` is the range of the expression that the engine reports.
pub(super) fn locate_error(
    kind: &EvalErrorKind,
    text: &str,
    named: Range<usize>,
    depth_max: usize,
) -> Option<ErrorLocation> {
    use EvalErrorKind as Error;
    let part = match kind {
        Error::CondIsNotBool { .. } | Error::ForSpecValueIsNotArray { .. } => Part::Condition,
        Error::FieldNameIsNotString { .. } | Error::RepeatedFieldName { .. } => Part::Name,
        Error::TooManyCallArgs { .. } | Error::UnknownCallParam { .. } | Error::RepeatedCallParam { .. } => {
            Part::Argument
        }
        Error::AssertFailed { message: None, .. } => Part::Assertion,
        _ => return None,
    };
    let tree = syntax::parse_with_depth(text, depth_max).ok()?;
    let at = named.start;
    if part == Part::Assertion {
        return is_of_object(&tree, at).then(|| ErrorLocation {
            start: at,
            message: Some("Object assertion failed.".to_owned()),
        });
    }
    // Chained calls begin at the same offset. The engine reports the call that contains the argument and ends last.
    let last = match part {
        Part::Argument => named.end,
        _ => at,
    };
    let all = tree.nodes.iter().filter(|node| {
        let range = node.span.start as usize..=node.span.end as usize;
        range.contains(&at) && range.contains(&last) && has(&tree, &node.kind, part, at)
    });
    let whole = all.min_by_key(|node| node.span.end - node.span.start)?;
    let message = match (kind, &whole.kind) {
        (Error::TooManyCallArgs { num_params, .. }, NodeKind::Apply(apply)) => Some(format!(
            "function expected {num_params} positional argument(s), but got {}",
            apply.positional.len()
        )),
        _ => None,
    };
    Some(ErrorLocation {
        start: whole.span.start as usize,
        message,
    })
}

/// True if an expression has a part of this kind at an offset.
fn has(tree: &SyntaxTree<'_>, kind: &NodeKind<'_>, part: Part, at: usize) -> bool {
    let begins = |id: NodeId| tree.node(id).span.start as usize == at;
    let of_spec = |spec: &ForSpec<'_>| {
        begins(spec.array)
            || spec
                .conditions
                .iter()
                .any(|condition| begins(condition.condition))
    };
    match (part, kind) {
        (Part::Condition, NodeKind::Conditional(conditional)) => begins(conditional.condition),
        (
            Part::Condition,
            NodeKind::ArrayComprehension { specs, .. } | NodeKind::ObjectComprehension { specs, .. },
        ) => specs.iter().any(of_spec),
        (Part::Name, NodeKind::Object { .. } | NodeKind::ObjectComprehension { .. }) => true,
        (Part::Argument, NodeKind::Apply(_)) => true,
        _ => false,
    }
}

/// True if the assertion at an offset belongs to an object.
fn is_of_object(tree: &SyntaxTree<'_>, at: usize) -> bool {
    let source = tree.text.as_bytes();
    let behind = source.get(at..).is_some_and(|rest| rest.starts_with(ASSERT));
    let condition = match behind {
        true => next_token(source, at + ASSERT.len()),
        false => Some(at),
    };
    tree.nodes.iter().any(|node| {
        let NodeKind::Object { fields, .. } = &node.kind else {
            return false;
        };
        fields.iter().any(|field| {
            matches!(field.kind, FieldKind::Assert { .. })
                && Some(tree.node(field.value).span.start as usize) == condition
        })
    })
}
