//! Merges of a file that a person has edited. A merge that was done before is recognised, so that it can be repeated.

use gix::diff::blob::InternedInput;
use gix::merge::blob::Resolution;
use gix::merge::blob::builtin_driver::text;

/// The outcome of a merge.
#[derive(Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The content with both sides.
    Merged(Vec<u8>),
    /// The content of the person has the change already.
    Contained,
    /// Both sides changed the same lines.
    Conflict,
    /// A side is no text.
    Binary,
}

/// Merges the change from `base` to `changed` into the content `current` of a person.
pub fn merge(base: &[u8], current: &[u8], changed: &[u8]) -> MergeOutcome {
    if [base, current, changed]
        .iter()
        .any(|content| memchr::memchr(0, content).is_some())
    {
        return MergeOutcome::Binary;
    }
    // The content has the change if it is what a merge makes of the same content without the change.
    let without = three_way(changed, current, base);
    let again = without.and_then(|without| three_way(base, &without, changed));
    if again.as_deref() == Some(current) {
        return MergeOutcome::Contained;
    }
    match three_way(base, current, changed) {
        Some(merged) if is_same_from_the_end(&merged, base, current, changed) => MergeOutcome::Merged(merged),
        Some(_) | None => MergeOutcome::Conflict,
    }
}

/// True if the merge has the same content when the lines are read from the end. If lines repeat, it may be open which of
/// them a side has added or removed; then the two differ, or conflict.
fn is_same_from_the_end(merged: &[u8], base: &[u8], current: &[u8], changed: &[u8]) -> bool {
    let [base, current, changed] = [base, current, changed].map(from_the_end);
    three_way(&base, &current, &changed) == Some(from_the_end(merged))
}

/// Returns the lines of a text in the opposite order. Each has a line end, also what follows the last one of the text.
fn from_the_end(text: &[u8]) -> Vec<u8> {
    let mut reversed = Vec::with_capacity(text.len() + 1);
    for line in text.split(|byte| *byte == b'\n').rev() {
        reversed.extend_from_slice(line);
        reversed.push(b'\n');
    }
    reversed
}

/// Returns the content with the changes of both sides; `None` if they touch the same lines.
fn three_way(base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let mut merged = Vec::new();
    let mut input = InternedInput::default();
    let resolution = text(
        &mut merged,
        &mut input,
        text::Labels::default(),
        ours,
        base,
        theirs,
        text::Options::default(),
    );
    (resolution == Resolution::Complete).then_some(merged)
}

#[cfg(test)]
mod tests {
    use super::{MergeOutcome, merge};
    use proptest::prelude::*;

    /// Returns a content of a few different lines, so that lines repeat and move.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let lines = prop::collection::vec(prop::sample::select(vec!["a", "b", "", "  c", "}"]), 0..12);
        (lines, any::<bool>()).prop_map(|(lines, ends)| {
            let mut text = lines.join("\n");
            if ends {
                text.push('\n');
            }
            text.into_bytes()
        })
    }

    #[test]
    fn edits_of_the_same_lines_and_binary_files_are_not_merged() {
        let of = |current: &[u8], changed: &[u8]| merge(b"1\n2\n3\n", current, changed);
        assert_eq!(of(b"one\n2\n3\n", b"eins\n2\n3\n"), MergeOutcome::Conflict);
        assert_eq!(of(b"1\n2\n3\n4\n", b"1\n2\n3\n5\n"), MergeOutcome::Conflict);
        assert_eq!(of(b"1\n\x00\n3\n", b"1\n2\n4\n"), MergeOutcome::Binary);
    }

    /// It is open after which line each side has added the same line.
    #[test]
    fn a_merge_that_repeated_lines_leave_open_is_a_conflict() {
        let merged = merge(b"b\na\n\n  d\n", b"b\na\na\n\n  d\n", b"b\na\na\n\n");
        assert_eq!(merged, MergeOutcome::Conflict);
    }

    proptest! {
        #[test]
        fn merges_keep_both_sides_and_can_be_repeated(
            base in content(), current in content(), changed in content()
        ) {
            prop_assert_eq!(merge(&base, &changed, &changed), MergeOutcome::Contained);
            let unedited = merge(&base, &base, &changed);
            match base == changed {
                true => prop_assert_eq!(unedited, MergeOutcome::Contained),
                false => prop_assert_eq!(unedited, MergeOutcome::Merged(changed.clone())),
            }
            prop_assert_eq!(merge(&base, &current, &base), MergeOutcome::Contained);
            if let MergeOutcome::Merged(merged) = merge(&base, &current, &changed) {
                prop_assert_eq!(merge(&base, &merged, &changed), MergeOutcome::Contained);
            }
        }
    }
}
