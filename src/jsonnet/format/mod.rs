//! Jsonnet in one style: the one of go-jsonnet with its default options, byte for byte.
//!
//! The tree is changed in steps, always in the same order, and then written. Most steps look at one
//! node at a time and walk the nodes flat; only indenting and writing follow the nesting.

mod commas;
mod files;
mod imports;
mod indent;
mod names;
mod newlines;
mod parentheses;
mod strings;
#[cfg(test)]
mod tests;
mod write;

pub use files::{FormatChange, FormatReport, reformat};

use super::syntax::{
    DEPTH_MAX, Fodders, NodeKind, SyntaxError, SyntaxErrorKind, SyntaxTree, parse, with_stack_for,
};

/// Blank lines that may stay together.
const BLANK_LINES_MAX: u32 = 2;
/// Columns of one level.
const INDENT: usize = 2;
/// Longest text that is written. Code that is lined up after very long lines grows without bound.
const WRITTEN_BYTES_MAX: usize = 256 << 20;

/// The text in the one style. An `Err` says where it is not Jsonnet; nothing is formatted then.
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
    // Sorted imports are a row of locals, which nests no deeper than the file did.
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
            "formatted, the text would be longer than {WRITTEN_BYTES_MAX} bytes, or {DEPTH_MAX} levels found no stack"
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

/// Marks what go-jsonnet never looks at, so that it keeps its blank lines and its comment style.
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

/// `a[1::]` is written `a[1:]`; what stood before the second colon stays.
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
