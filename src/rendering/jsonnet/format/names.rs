//! The simplest form of names: `a['b']` becomes `a.b`, `{ ['b']: 1 }` becomes `{ b: 1 }`.

use crate::rendering::jsonnet::syntax::{
    FieldKind, FieldName, Fodder, Node, NodeId, NodeKind, SyntaxTree, is_identifier,
};
use std::borrow::Cow;

pub(super) fn prettify(tree: &mut SyntaxTree<'_>) {
    for index in 0..tree.nodes.len() {
        let Some(node) = tree.nodes.get_mut(index) else {
            break;
        };
        match &mut node.kind {
            NodeKind::Index { .. } => simplify_index(tree, index),
            NodeKind::Object { fields, .. } | NodeKind::ObjectComprehension { fields, .. } => {
                let mut taken = std::mem::take(fields);
                for field in &mut taken {
                    let parameters = field
                        .parameters
                        .as_deref_mut()
                        .map(|parameters| &mut parameters.open);
                    let after = parameters.unwrap_or(&mut field.operator);
                    if let FieldKind::Field { name, .. } = &mut field.kind {
                        simplify_field_name(tree, name, &mut field.fodder, after);
                    }
                }
                if let Some(NodeKind::Object { fields, .. } | NodeKind::ObjectComprehension { fields, .. }) =
                    tree.nodes.get_mut(index).map(|node| &mut node.kind)
                {
                    *fields = taken;
                }
            }
            _ => {}
        }
    }
}

fn simplify_index(tree: &mut SyntaxTree<'_>, index: usize) {
    let Some(Node {
        kind:
            NodeKind::Index {
                target,
                open,
                index: name,
                ..
            },
        ..
    }) = tree.nodes.get(index)
    else {
        return;
    };
    let (target, dot) = (*target, *open);
    let Some((name, name_fodder)) = identifier(tree, *name) else {
        return;
    };
    for element in tree.fodders.get_mut(name_fodder) {
        element.untouched = true;
    }
    if let Some(node) = tree.nodes.get_mut(index) {
        node.kind = NodeKind::Member {
            target,
            dot,
            name_fodder,
            name,
        };
    }
}

/// Returns the text of a string that can be written as a name, and the fodder before it.
fn identifier<'s>(tree: &SyntaxTree<'s>, id: NodeId) -> Option<(Cow<'s, str>, Fodder)> {
    let node = tree.node(id);
    match &node.kind {
        NodeKind::Text { value, .. } if is_identifier(value) => Some((value.clone(), node.fodder)),
        _ => None,
    }
}

/// Simplifies the name of a field. `before` is the fodder before the field, `after` the fodder before the token after
/// its name.
fn simplify_field_name<'s>(
    tree: &mut SyntaxTree<'s>,
    name: &mut FieldName<'s>,
    before: &mut Fodder,
    after: &mut Fodder,
) {
    if let FieldName::Computed { name: id, close } = name
        && matches!(tree.node(*id).kind, NodeKind::Text { .. })
    {
        let id = *id;
        let mut fodder = tree.node(id).fodder;
        tree.fodders.move_to_front(&mut fodder, before);
        tree.node_mut(id).fodder = fodder;
        tree.fodders.move_to_front(after, close);
        *name = FieldName::Text(id);
    }
    if let FieldName::Text(id) = name
        && let Some((plain, fodder)) = identifier(tree, *id)
    {
        *before = fodder;
        *name = FieldName::Identifier(plain);
    }
}
