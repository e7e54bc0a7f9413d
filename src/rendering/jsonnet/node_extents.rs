//! The complete extents of expressions. The spans of a tree follow Go's messages, which leave out the index after
//! `super` and a `tailstrict`.

use super::nesting::next_token;
use super::syntax::{self, NodeId, NodeKind, SyntaxTree};
use std::ops::Range;

const TAIL_STRICT: &str = "tailstrict";

/// The end of each node of a tree.
pub(super) struct NodeExtents(Vec<usize>);

impl NodeExtents {
    pub(super) fn new(tree: &SyntaxTree<'_>) -> Self {
        let source = tree.text.as_bytes();
        let mut ends: Vec<usize> = Vec::with_capacity(tree.nodes.len());
        for node in &tree.nodes {
            let mut end = node.span.end as usize;
            // Children come before their parents.
            syntax::each_child(&node.kind, &mut |child| {
                end = end.max(ends.get(child.index()).copied().unwrap_or_default());
            });
            let length = match &node.kind {
                NodeKind::SuperMember { name, .. } => {
                    // The dot precedes the name.
                    end = next_token(source, end).map_or(end, |dot| dot + 1);
                    name.len()
                }
                NodeKind::SuperIndex { .. } => 1,
                NodeKind::Apply(apply) if apply.tail_strict.is_some() => TAIL_STRICT.len(),
                _ => 0,
            };
            if length > 0 {
                end = next_token(source, end).map_or(end, |token| token + length);
            }
            ends.push(end);
        }
        Self(ends)
    }

    /// Returns the range of a node in bytes.
    pub(super) fn range(&self, tree: &SyntaxTree<'_>, id: NodeId) -> Range<usize> {
        let span = tree.node(id).span;
        let end = self.0.get(id.index()).copied();
        span.start as usize..end.unwrap_or(span.end as usize)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::NodeExtents;
    use crate::rendering::jsonnet::syntax::{self, NodeKind};

    #[test]
    fn an_expression_ends_where_its_last_token_ends() {
        for (source, expected) in [
            ("{ a: super.b + 1 }", "super.b"),
            (
                "{ a: super /* x */ . /* y */ b == 1 }",
                "super /* x */ . /* y */ b",
            ),
            ("{ a: super [ 'x' ] + 1 }", "super [ 'x' ]"),
            ("f(1) tailstrict + 2", "f(1) tailstrict"),
            ("-f(1)tailstrict+2", "-f(1)tailstrict"),
            ("a.b[1] + 2", "a.b[1]"),
        ] {
            let tree = syntax::parse(source).unwrap();
            let extents = NodeExtents::new(&tree);
            let left = tree.nodes.iter().find_map(|node| match node.kind {
                NodeKind::Binary { left, .. } => Some(left),
                _ => None,
            });
            assert_eq!(
                source.get(extents.range(&tree, left.unwrap())),
                Some(expected),
                "{source}"
            );
        }
    }
}
