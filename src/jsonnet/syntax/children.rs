//! The children of a node, in the order of the source.

use super::node::{Kind, NodeId};
use super::part::{Field, FieldKind, FieldName, ForSpec, Parameters};

/// Hands every child of a node to `each`.
pub fn each_child(kind: &Kind<'_>, each: &mut dyn FnMut(NodeId)) {
    match kind {
        Kind::Apply(apply) => {
            each(apply.target);
            apply.positional.iter().for_each(|item| each(item.expression));
            apply.named.iter().for_each(|named| each(named.value));
        }
        Kind::ApplyBrace { left, right } | Kind::Binary { left, right, .. } => {
            each(*left);
            each(*right);
        }
        Kind::Array { items, .. } => items.iter().for_each(|item| each(item.expression)),
        Kind::ArrayComprehension { body, specs, .. } => {
            each(*body);
            specs.iter().for_each(|spec| of_spec(spec, each));
        }
        Kind::Assert {
            condition,
            message,
            rest,
            ..
        } => {
            each(*condition);
            message.iter().for_each(|(_, message)| each(*message));
            each(*rest);
        }
        Kind::Conditional(conditional) => {
            each(conditional.condition);
            each(conditional.if_true);
            conditional.if_false.iter().for_each(|(_, other)| each(*other));
        }
        Kind::Error(operand) | Kind::Unary { operand, .. } | Kind::Import { file: operand, .. } => {
            each(*operand);
        }
        Kind::Function { parameters, body } => {
            of_parameters(parameters, each);
            each(*body);
        }
        Kind::InSuper { element: child, .. }
        | Kind::Member { target: child, .. }
        | Kind::Parens { inner: child, .. }
        | Kind::SuperIndex { index: child, .. } => each(*child),
        Kind::Index { target, index, .. } => {
            each(*target);
            each(*index);
        }
        Kind::Local { binds, body } => {
            for bind in binds {
                bind.parameters
                    .iter()
                    .for_each(|parameters| of_parameters(parameters, each));
                each(bind.body);
            }
            each(*body);
        }
        Kind::Object { fields, .. } => fields.iter().for_each(|field| of_field(field, each)),
        Kind::ObjectComprehension { fields, specs, .. } => {
            fields.iter().for_each(|field| of_field(field, each));
            specs.iter().for_each(|spec| of_spec(spec, each));
        }
        Kind::Slice(slice) => {
            each(slice.target);
            [slice.begin, slice.end, slice.step]
                .into_iter()
                .flatten()
                .for_each(each);
        }
        Kind::Boolean(_)
        | Kind::Dollar
        | Kind::Null
        | Kind::Number(_)
        | Kind::SelfObject
        | Kind::SuperMember { .. }
        | Kind::Text { .. }
        | Kind::Variable(_) => {}
    }
}

fn of_parameters(parameters: &Parameters<'_>, each: &mut dyn FnMut(NodeId)) {
    for parameter in &parameters.list {
        parameter.default.iter().for_each(|(_, default)| each(*default));
    }
}

fn of_spec(spec: &ForSpec<'_>, each: &mut dyn FnMut(NodeId)) {
    each(spec.array);
    spec.conditions.iter().for_each(|spec| each(spec.condition));
}

fn of_field(field: &Field<'_>, each: &mut dyn FnMut(NodeId)) {
    if let FieldKind::Field {
        name: FieldName::Text(name) | FieldName::Computed { name, .. },
        ..
    } = &field.kind
    {
        each(*name);
    }
    field
        .parameters
        .iter()
        .for_each(|parameters| of_parameters(parameters, each));
    each(field.value);
    if let FieldKind::Assert {
        message: Some(message),
    } = &field.kind
    {
        each(*message);
    }
}
