//! The facts about operands of `+`, `%` and `==` that follow from their text: if one may be a text, if the other may
//! have a fraction that becomes part of it, and if both may be nearly equal numbers.

use super::syntax::{BinaryOperator, ImportKind, NodeId, NodeKind, SyntaxTree, UnaryOperator};

/// The known facts about an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operand {
    pub(super) text: TextLikelihood,
    pub(super) fraction: FractionLikelihood,
    /// True if it is, or is assumed to be, an object or an array.
    pub(super) is_container: bool,
    /// True if it may be, or contain, a number that is nearly equal to another one.
    pub(super) is_near: bool,
    /// The nesting depth of sums on its left side.
    pub(super) sums: usize,
}

/// The likelihood that an expression is a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TextLikelihood {
    No,
    Maybe,
    Yes,
}

/// The likelihood that an expression is or contains a number that the engines write differently: a fraction, or a whole
/// number from 2^53 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FractionLikelihood {
    No,
    Maybe,
}

/// An unknown expression.
const UNKNOWN: Operand = Operand {
    text: TextLikelihood::Maybe,
    fraction: FractionLikelihood::Maybe,
    is_container: false,
    is_near: true,
    sums: 0,
};
/// A text.
const TEXT: Operand = Operand {
    text: TextLikelihood::Yes,
    fraction: FractionLikelihood::No,
    is_near: false,
    ..UNKNOWN
};
/// A boolean, null, or an expression without a value.
const PLAIN: Operand = Operand {
    text: TextLikelihood::No,
    fraction: FractionLikelihood::No,
    is_near: false,
    ..UNKNOWN
};
/// A whole number.
const WHOLE: Operand = Operand {
    is_near: true,
    ..PLAIN
};
/// The number from which on different numbers always differ by more than the first engine's tolerance.
const NEARLY_EQUAL_MAX: f64 = 3.0;
/// A number.
const NUMBER: Operand = Operand {
    text: TextLikelihood::No,
    ..UNKNOWN
};
/// An object or an array.
const CONTAINER: Operand = Operand {
    text: TextLikelihood::No,
    is_container: true,
    ..UNKNOWN
};

/// An expression that is most probably an object or an array, but may be a text.
const PROBABLE_CONTAINER: Operand = Operand {
    is_container: true,
    ..UNKNOWN
};
/// The number from which on the engines write some numbers differently.
const EXACT_INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Returns the known facts about each node of a tree.
pub(super) fn operands(tree: &SyntaxTree<'_>) -> Vec<Operand> {
    let mut known: Vec<Operand> = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        // Children come before their parents.
        let of = |id: &NodeId| known.get(id.index()).copied().unwrap_or(UNKNOWN);
        let operand = match &node.kind {
            NodeKind::Text { .. } => TEXT,
            NodeKind::Import { kind, .. } => match kind {
                ImportKind::Text => TEXT,
                ImportKind::Code => PROBABLE_CONTAINER,
                ImportKind::Bytes => CONTAINER,
            },
            NodeKind::Number(written) => match written.contains(['.', 'e', 'E']) {
                true => NUMBER,
                false => whole(written),
            },
            NodeKind::Apply(apply) => called(tree, apply.target),
            NodeKind::Boolean(_)
            | NodeKind::Null
            | NodeKind::Error(_)
            | NodeKind::InSuper { .. }
            | NodeKind::Function { .. } => PLAIN,
            NodeKind::Array { .. }
            | NodeKind::ArrayComprehension { .. }
            | NodeKind::Object { .. }
            | NodeKind::ObjectComprehension { .. }
            | NodeKind::ApplyBrace { .. }
            | NodeKind::SelfObject
            | NodeKind::Dollar => CONTAINER,
            NodeKind::Unary { operator, operand } => match operator {
                UnaryOperator::Minus | UnaryOperator::Plus => Operand {
                    fraction: of(operand).fraction,
                    is_near: of(operand).is_near,
                    ..NUMBER
                },
                UnaryOperator::Not => PLAIN,
                UnaryOperator::BitNot => WHOLE,
            },
            NodeKind::Binary {
                left,
                operator,
                right,
                ..
            } => binary(of(left), *operator, of(right)),
            NodeKind::Parens { inner, .. } => of(inner),
            NodeKind::Local { body, .. } | NodeKind::Assert { rest: body, .. } => {
                Operand { sums: 0, ..of(body) }
            }
            NodeKind::Conditional(conditional) => {
                let otherwise = conditional.if_false.as_ref().map(|(_, other)| of(other));
                either(of(&conditional.if_true), otherwise.unwrap_or(PLAIN))
            }
            _ => UNKNOWN,
        };
        known.push(operand);
    }
    known
}

/// Returns the known facts about a number that is written without a fraction or an exponent.
fn whole(written: &str) -> Operand {
    let number: f64 = written.replace('_', "").parse().unwrap_or(f64::INFINITY);
    Operand {
        fraction: match number < EXACT_INTEGER_MAX {
            true => FractionLikelihood::No,
            false => FractionLikelihood::Maybe,
        },
        is_near: number < NEARLY_EQUAL_MAX,
        ..WHOLE
    }
}

fn binary(left: Operand, operator: BinaryOperator, right: Operand) -> Operand {
    use BinaryOperator as Operator;
    match operator {
        Operator::Plus => {
            let sums = left.sums.max(right.sums) + 1;
            let sum = match (left.text, right.text) {
                (TextLikelihood::Yes, _) | (_, TextLikelihood::Yes) => TEXT,
                (TextLikelihood::No, TextLikelihood::No) if left.is_container || right.is_container => {
                    CONTAINER
                }
                _ if left.is_container || right.is_container => PROBABLE_CONTAINER,
                (left_text, right_text) => Operand {
                    text: left_text.max(right_text),
                    fraction: left.fraction.max(right.fraction),
                    ..UNKNOWN
                },
            };
            Operand { sums, ..sum }
        }
        Operator::Modulo => match left.text {
            TextLikelihood::Yes => TEXT,
            TextLikelihood::Maybe => UNKNOWN,
            TextLikelihood::No => NUMBER,
        },
        Operator::Minus | Operator::Multiply | Operator::Divide => NUMBER,
        Operator::ShiftLeft => NUMBER,
        Operator::ShiftRight | Operator::BitAnd | Operator::BitXor | Operator::BitOr => WHOLE,
        _ => PLAIN,
    }
}

/// Returns the assumed facts about a function's result, from the function's name. Kubernetes libraries name the
/// functions that build objects `new` and `withName`. Their sums are long, and rewriting them would be expensive.
fn called(tree: &SyntaxTree<'_>, function: NodeId) -> Operand {
    let NodeKind::Member { target, name, .. } = &tree.node(function).kind else {
        return UNKNOWN;
    };
    let is_standard = matches!(tree.node(*target).kind, NodeKind::Variable("std"));
    let sets = name.strip_prefix("with");
    match name.as_ref() {
        "length" if is_standard => WHOLE,
        "new" => PROBABLE_CONTAINER,
        _ if sets.is_some_and(|name| name.starts_with(|first: char| first.is_ascii_uppercase())) => {
            PROBABLE_CONTAINER
        }
        _ => UNKNOWN,
    }
}

/// Returns the facts about an expression that is one of two.
fn either(one: Operand, other: Operand) -> Operand {
    Operand {
        text: match one.text == other.text {
            true => one.text,
            false => TextLikelihood::Maybe,
        },
        fraction: one.fraction.max(other.fraction),
        is_container: one.is_container && other.is_container,
        is_near: one.is_near || other.is_near,
        sums: 0,
    }
}
