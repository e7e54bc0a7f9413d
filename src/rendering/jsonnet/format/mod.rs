//! The formatter: Jsonnet in the style of go-jsonnet with its default options, byte for byte.
//!
//! The tree is changed in steps, always in the same order, and then written. Most steps iterate over the nodes without
//! recursion; only indenting and writing recurse into the nesting.

mod commas;
mod files;
mod imports;
mod indent;
mod names;
mod newlines;
mod parentheses;
mod spacing;
mod strings;
#[cfg(test)]
mod tests;
mod write;

pub use files::{FormatChange, FormatReport, reformat};

use super::syntax::{
    DEPTH_MAX, Fodders, NodeKind, SyntaxError, SyntaxErrorKind, SyntaxTree, parse, with_stack_for,
};

/// Consecutive blank lines that may stay.
const BLANK_LINES_MAX: u32 = 2;
/// Columns of one level.
const INDENT: usize = 2;
/// Bytes of the longest text that is written. Code that is aligned after very long lines grows without bound.
const WRITTEN_BYTES_MAX: usize = 256 << 20;

/// Returns the formatted text. The `Err` contains the location of text that is not Jsonnet; nothing is formatted then.
pub fn format(text: &str) -> Result<String, SyntaxError> {
    let mut tree = parse(text)?;
    imports::sort(&mut tree);
    remove_initial_line_ends(&mut tree);
    mark_untouched(&mut tree);
    cap_blank_lines(&mut tree.fodders);
    newlines::fix_newlines(&mut tree);
    commas::fix_trailing_commas(&mut tree);
    parentheses::collapse(&mut tree);
    parentheses::remove_implied_plus(&mut tree);
    drop_slice_colons(&mut tree);
    names::prettify(&mut tree);
    strings::prefer_single_quotes(&mut tree);
    // Sorted imports are a sequence of locals, so the nesting is not deeper than in the original file.
    with_stack_for(tree.depth, move || {
        indent::fix_indentation(&mut tree);
        write::write(&tree)
    })
    .flatten()
    .ok_or_else(too_long)
}

fn too_long() -> SyntaxError {
    let place = super::syntax::LineColumn { line: 1, column: 1 };
    SyntaxError {
        kind: SyntaxErrorKind::TooLong,
        range: super::syntax::SourceRange {
            begin: place,
            end: place,
        },
        message: format!(
            "the formatted text would be longer than {WRITTEN_BYTES_MAX} bytes, or there is not enough stack for \
             {DEPTH_MAX} levels"
        ),
    }
}

fn remove_initial_line_ends(tree: &mut SyntaxTree<'_>) {
    let fodder = tree.open_fodder(tree.root);
    let shorter = tree.fodders.skip_front(fodder, |element| {
        element.kind == super::syntax::FodderKind::LineEnd
    });
    *tree.open_fodder_mut(tree.root) = shorter;
}

/// Marks the fodder that go-jsonnet never visits, so that it keeps its blank lines and comment style.
fn mark_untouched(tree: &mut SyntaxTree<'_>) {
    for node in &tree.nodes {
        let places = match &node.kind {
            NodeKind::Member { name_fodder, .. } => [Some(*name_fodder), None],
            NodeKind::InSuper {
                in_fodder,
                super_fodder,
                ..
            } => [Some(*in_fodder), Some(*super_fodder)],
            _ => continue,
        };
        for fodder in places.into_iter().flatten() {
            for element in tree.fodders.get_mut(fodder) {
                element.untouched = true;
            }
        }
    }
}

fn cap_blank_lines(fodders: &mut Fodders<'_>) {
    for element in fodders.all_mut() {
        if !element.untouched {
            element.blank_lines = element.blank_lines.min(BLANK_LINES_MAX);
        }
    }
}

/// Replaces `a[1::]` with `a[1:]`; the fodder before the second colon stays.
fn drop_slice_colons(tree: &mut SyntaxTree<'_>) {
    for node in &mut tree.nodes {
        if let NodeKind::Slice(slice) = &mut node.kind
            && slice.step.is_none()
            && !slice.step_colon.is_empty()
        {
            tree.fodders
                .move_to_front(&mut slice.close, &mut slice.step_colon);
        }
    }
}
