//! Differences of a content as replacements of whole lines, which a machine with the same base can apply exactly.

use super::DIFF_TIME_MAX;
use super::hunks::lines;
use crate::base::model::{LineEdit, PulledBytes};
use bytes::Bytes;
use similar::{Algorithm, DiffOp};
use std::time::Instant;

/// Returns the edits that make `new` of `old`.
pub fn line_edits(old: &[u8], new: &[u8]) -> Vec<LineEdit> {
    let deadline = Instant::now() + DIFF_TIME_MAX;
    let (old_lines, new_lines) = (lines(old), lines(new));
    let ops = similar::capture_diff_slices_deadline(Algorithm::Myers, &old_lines, &new_lines, Some(deadline));
    let changed = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changed
        .map(|op| {
            let inserted = new_lines.get(op.new_range()).unwrap_or_default().concat();
            LineEdit {
                line: op.old_range().start,
                removed: op.old_range().len(),
                inserted: PulledBytes::from(Bytes::from(inserted)),
            }
        })
        .collect()
}

/// Applies edits. Returns `None` if they are not in order, or concern lines that are not there.
pub fn apply_line_edits(old: &[u8], edits: &[LineEdit]) -> Option<Vec<u8>> {
    let lines = lines(old);
    let mut new = Vec::with_capacity(old.len());
    let mut at = 0;
    for edit in edits {
        new.extend(lines.get(at..edit.line)?.concat());
        new.extend_from_slice(edit.inserted.as_bytes());
        at = edit.line.checked_add(edit.removed)?;
    }
    new.extend(lines.get(at..)?.concat());
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::{apply_line_edits, line_edits};
    use crate::base::model::{LineEdit, PulledBytes};
    use proptest::prelude::*;

    #[test]
    fn line_edits_that_fit_no_line_are_refused() {
        let edit = |line, removed| LineEdit {
            line,
            removed,
            inserted: PulledBytes::Text("x\n".to_owned()),
        };
        assert_eq!(
            apply_line_edits(b"a\nb", &[edit(1, 1)]).as_deref(),
            Some(&b"a\nx\n"[..])
        );
        for edits in [
            vec![edit(3, 0)],
            vec![edit(1, 2)],
            vec![edit(1, usize::MAX)],
            vec![edit(1, 1), edit(0, 1)],
        ] {
            assert_eq!(apply_line_edits(b"a\nb", &edits), None, "{edits:?}");
        }
    }

    proptest! {
        #[test]
        fn line_edits_make_the_new_content_of_the_old_one(
            old in "[ab\n\u{e4}]{0,40}", new in "[ab\n\u{e4}]{0,40}", binary in any::<bool>()
        ) {
            let bytes = |text: String| match binary {
                true => text.into_bytes().into_iter().map(|byte| byte ^ 0x80).collect(),
                false => text.into_bytes(),
            };
            let (old, new) = (bytes(old), bytes(new));
            let edits = line_edits(&old, &new);
            prop_assert_eq!(apply_line_edits(&old, &edits), Some(new));
        }
    }
}
