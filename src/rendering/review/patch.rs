//! The difference of two texts as hunks with three lines of context. It is deterministic, because its cost is
//! limited by a counter instead of a clock.

use similar::{Algorithm, DiffOp};

const CONTEXT_LINES: usize = 3;
/// Maximum number of line pairs for which the shortest difference is computed. Above it, all lines that differ are
/// shown as removed and added.
const PAIRS_MAX: usize = 16_000_000;

/// Hunks and the number of their lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TextPatch {
    pub(super) text: String,
    pub(super) added: u64,
    pub(super) removed: u64,
}

/// Returns the difference of two texts. Empty without a difference.
pub(super) fn diff_texts(before: &str, after: &str) -> TextPatch {
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let mut patch = TextPatch::default();
    for group in similar::group_diff_ops(operations(&before, &after), CONTEXT_LINES) {
        patch.header(&group);
        for op in &group {
            let is_equal = matches!(op, DiffOp::Equal { .. });
            if is_equal {
                patch.lines(' ', before.get(op.old_range()));
                continue;
            }
            patch.removed += patch.lines('-', before.get(op.old_range()));
            patch.added += patch.lines('+', after.get(op.new_range()));
        }
    }
    patch
}

fn operations(before: &[&str], after: &[&str]) -> Vec<DiffOp> {
    let head = common(before.iter(), after.iter());
    let (rest_before, rest_after) = (before.len() - head, after.len() - head);
    let tail = common(
        before.iter().rev().take(rest_before),
        after.iter().rev().take(rest_after),
    );
    let (old_len, new_len) = (rest_before - tail, rest_after - tail);
    if old_len.saturating_mul(new_len) <= PAIRS_MAX {
        return similar::capture_diff_slices(Algorithm::Myers, before, after);
    }
    let equal = |old_index, new_index, len| DiffOp::Equal {
        old_index,
        new_index,
        len,
    };
    let replaced = DiffOp::Replace {
        old_index: head,
        old_len,
        new_index: head,
        new_len,
    };
    let mut operations = vec![
        equal(0, 0, head),
        replaced,
        equal(head + old_len, head + new_len, tail),
    ];
    operations.retain(|op| !matches!(op, DiffOp::Equal { len: 0, .. }));
    operations
}

fn common<'a>(before: impl Iterator<Item = &'a &'a str>, after: impl Iterator<Item = &'a &'a str>) -> usize {
    before.zip(after).take_while(|(one, other)| one == other).count()
}

impl TextPatch {
    fn header(&mut self, group: &[DiffOp]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            return;
        };
        let old = span(first.old_range().start, last.old_range().end);
        let new = span(first.new_range().start, last.new_range().end);
        self.text.push_str(&format!("@@ -{old} +{new} @@\n"));
    }

    fn lines(&mut self, sign: char, lines: Option<&[&str]>) -> u64 {
        let mut written = 0;
        for line in lines.unwrap_or_default() {
            self.text.push(sign);
            self.text.push_str(line);
            self.text.push('\n');
            written += 1;
        }
        written
    }
}

/// Formats the range of a hunk. Lines count from 1. An empty range names the line before it, and a length of one is
/// left out.
fn span(start: usize, end: usize) -> String {
    match end - start {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        length => format!("{},{length}", start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::{TextPatch, diff_texts};

    #[test]
    fn three_lines_around_what_differs() {
        let patch = diff_texts("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n");
        let expected = "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n";
        let expected = TextPatch {
            text: expected.to_owned(),
            added: 1,
            removed: 1,
        };
        assert_eq!(patch, expected);
        assert_eq!(diff_texts("same\n", "same\n"), TextPatch::default());
        assert_eq!(diff_texts("", "new\n").text, "@@ -0,0 +1 @@\n+new\n");
    }

    #[test]
    fn texts_too_large_to_compare_are_replaced_between_what_they_share() {
        let numbered = |prefix: &str| (0..5_000).map(|n| format!("{prefix}{n}\n")).collect::<String>();
        let text = |middle: String| format!("first\n{middle}last\n");
        let patch = diff_texts(&text(numbered("a")), &text(numbered("b")));
        assert_eq!((patch.added, patch.removed), (5_000, 5_000));
        assert!(patch.text.starts_with("@@ -1,5002 +1,5002 @@\n first\n-a0\n"));
        assert!(patch.text.ends_with("+b4999\n last\n"));
    }
}
