//! The comma after the last element, which exists only in a list over several lines.

use crate::rendering::jsonnet::syntax::{Fodder, Fodders, NodeKind, SyntaxTree, TrailingComma};

pub(super) fn fix_trailing_commas(tree: &mut SyntaxTree<'_>) {
    for node in &mut tree.nodes {
        match &mut node.kind {
            NodeKind::Array {
                items,
                trailing_comma,
                close,
            } => {
                if let Some(last) = items.last_mut() {
                    fix_last(&mut tree.fodders, &mut last.comma, trailing_comma, close);
                }
            }
            NodeKind::Object {
                fields,
                trailing_comma,
                close,
            } => {
                if let Some(last) = fields.last_mut() {
                    fix_last(&mut tree.fodders, &mut last.comma, trailing_comma, close);
                }
            }
            NodeKind::ArrayComprehension { comma, specs, .. } => {
                if let (Some(mut fodder), Some(spec)) = (comma.take(), specs.last_mut()) {
                    tree.fodders.move_to_front(&mut spec.for_fodder, &mut fodder);
                }
            }
            NodeKind::ObjectComprehension {
                fields,
                trailing_comma,
                specs,
                ..
            } => {
                if let (TrailingComma::Present, Some(last), Some(spec)) =
                    (*trailing_comma, fields.last_mut(), specs.last_mut())
                {
                    *trailing_comma = TrailingComma::Absent;
                    tree.fodders.move_to_front(&mut spec.for_fodder, &mut last.comma);
                }
            }
            _ => {}
        }
    }
}

/// Moves the comma to the end of the last element's line; the fodder before the comma goes after it.
fn fix_last(
    fodders: &mut Fodders<'_>,
    before_comma: &mut Fodder,
    comma: &mut TrailingComma,
    close: &mut Fodder,
) {
    let comma_is_late = fodders.has_line_end(*before_comma);
    let wanted = fodders.has_line_end(*close) || comma_is_late;
    if *comma == TrailingComma::Present && (!wanted || comma_is_late) {
        fodders.move_to_front(close, before_comma);
    }
    *comma = match wanted {
        true => TrailingComma::Present,
        false => TrailingComma::Absent,
    };
}
