//! The children of a node, in the order of the source.

use super::node::{NodeId, NodeKind};
use super::part::{Field, FieldKind, FieldName, ForSpec, Parameters};

/// Calls `each` for every child of a node.
pub fn each_child(kind: &NodeKind<'_>, each: &mut dyn FnMut(NodeId)) {
    match kind {
        NodeKind::Apply(apply) => {
            each(apply.target);
            apply.positional.iter().for_each(|item| each(item.expression));
            apply.named.iter().for_each(|named| each(named.value));
        }
        NodeKind::ApplyBrace { left, right } | NodeKind::Binary { left, right, .. } => {
            each(*left);
            each(*right);
        }
        NodeKind::Array { items, .. } => items.iter().for_each(|item| each(item.expression)),
        NodeKind::ArrayComprehension { body, specs, .. } => {
            each(*body);
            specs.iter().for_each(|spec| each_in_spec(spec, each));
        }
        NodeKind::Assert {
            condition,
            message,
            rest,
            ..
        } => {
            each(*condition);
            message.iter().for_each(|(_, message)| each(*message));
            each(*rest);
        }
        NodeKind::Conditional(conditional) => {
            each(conditional.condition);
            each(conditional.if_true);
            conditional.if_false.iter().for_each(|(_, other)| each(*other));
        }
        NodeKind::Error(operand)
        | NodeKind::Unary { operand, .. }
        | NodeKind::Import { file: operand, .. } => {
            each(*operand);
        }
        NodeKind::Function { parameters, body } => {
            each_in_parameters(parameters, each);
            each(*body);
        }
        NodeKind::InSuper { element: child, .. }
        | NodeKind::Member { target: child, .. }
        | NodeKind::Parens { inner: child, .. }
        | NodeKind::SuperIndex { index: child, .. } => each(*child),
        NodeKind::Index { target, index, .. } => {
            each(*target);
            each(*index);
        }
        NodeKind::Local { binds, body } => {
            for bind in binds {
                bind.parameters
                    .iter()
                    .for_each(|parameters| each_in_parameters(parameters, each));
                each(bind.body);
            }
            each(*body);
        }
        NodeKind::Object { fields, .. } => fields.iter().for_each(|field| each_in_field(field, each)),
        NodeKind::ObjectComprehension { fields, specs, .. } => {
            fields.iter().for_each(|field| each_in_field(field, each));
            specs.iter().for_each(|spec| each_in_spec(spec, each));
        }
        NodeKind::Slice(slice) => {
            each(slice.target);
            [slice.begin, slice.end, slice.step]
                .into_iter()
                .flatten()
                .for_each(each);
        }
        NodeKind::Boolean(_)
        | NodeKind::Dollar
        | NodeKind::Null
        | NodeKind::Number(_)
        | NodeKind::SelfObject
        | NodeKind::SuperMember { .. }
        | NodeKind::Text { .. }
        | NodeKind::Variable(_) => {}
    }
}

fn each_in_parameters(parameters: &Parameters<'_>, each: &mut dyn FnMut(NodeId)) {
    for parameter in &parameters.list {
        parameter.default.iter().for_each(|(_, default)| each(*default));
    }
}

fn each_in_spec(spec: &ForSpec<'_>, each: &mut dyn FnMut(NodeId)) {
    each(spec.array);
    spec.conditions.iter().for_each(|spec| each(spec.condition));
}

fn each_in_field(field: &Field<'_>, each: &mut dyn FnMut(NodeId)) {
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
        .for_each(|parameters| each_in_parameters(parameters, each));
    each(field.value);
    if let FieldKind::Assert {
        message: Some(message),
    } = &field.kind
    {
        each(*message);
    }
}
