//! Removal of doubled parentheses, and of a `+` that an object implies.

use crate::rendering::jsonnet::syntax::{BinaryOperator, NodeKind, SyntaxTree};

/// Replaces `((e))` with `(e)`. Outer pairs come first, and each pair absorbs one other pair.
pub(super) fn collapse(tree: &mut SyntaxTree<'_>) {
    let SyntaxTree { nodes, fodders, .. } = tree;
    // Children come before their parents, so this order visits outer nodes first.
    for index in (0..nodes.len()).rev() {
        let Some(NodeKind::Parens { inner, .. }) = nodes.get(index).map(|node| &node.kind) else {
            continue;
        };
        let inner = *inner;
        let Some(child) = nodes.get_mut(inner.index()) else {
            continue;
        };
        let NodeKind::Parens { inner, close } = child.kind else {
            continue;
        };
        let (mut inner_fodder, mut inner_close) = (child.fodder, close);
        // The node is unreachable now, so it is not visited again.
        child.kind = NodeKind::Null;
        let Some(outer) = nodes.get_mut(index) else {
            continue;
        };
        fodders.move_to_front(&mut outer.fodder, &mut inner_fodder);
        if let NodeKind::Parens { inner: place, close } = &mut outer.kind {
            *place = inner;
            fodders.move_to_front(close, &mut inner_close);
        }
    }
}

/// Replaces `a + { }` with `a { }`, if `a` is a name or an element.
pub(super) fn remove_implied_plus(tree: &mut SyntaxTree<'_>) {
    for index in 0..tree.nodes.len() {
        let Some(NodeKind::Binary {
            left,
            operator_fodder,
            operator: BinaryOperator::Plus,
            right,
        }) = tree.nodes.get(index).map(|node| &node.kind)
        else {
            continue;
        };
        let (left, right, mut operator_fodder) = (*left, *right, *operator_fodder);
        let named = matches!(
            tree.node(left).kind,
            NodeKind::Variable(_) | NodeKind::Index { .. } | NodeKind::Member { .. }
        );
        if !named || !matches!(tree.node(right).kind, NodeKind::Object { .. }) {
            continue;
        }
        let mut fodder = tree.node(right).fodder;
        tree.fodders.move_to_front(&mut fodder, &mut operator_fodder);
        tree.node_mut(right).fodder = fodder;
        if let Some(node) = tree.nodes.get_mut(index) {
            node.kind = NodeKind::ApplyBrace { left, right };
        }
    }
}
