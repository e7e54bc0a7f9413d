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
        Some(merged) => MergeOutcome::Merged(merged),
        None => MergeOutcome::Conflict,
    }
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
