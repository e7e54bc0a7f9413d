//! The edit distance between two names, used to suggest the known name for a misspelt one.

/// The number of characters of a name that are compared.
const COMPARED_CHARS_MAX: usize = 120;

/// Returns the number of insertions, deletions, replacements and swaps of neighbours between two names. Only the
/// first 120 characters are compared, because the cost is the product of the lengths.
pub fn edit_distance(left: &str, right: &str) -> usize {
    let start = |name: &str| name.chars().take(COMPARED_CHARS_MAX).collect::<String>();
    strsim::osa_distance(&start(left), &start(right))
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn single_edits_and_swaps_count_one_each() {
        for (left, right, count) in [
            ("kitten", "sitting", 3),
            ("", "abc", 3),
            ("abc", "", 3),
            ("same", "same", 0),
            ("raed", "read", 1),
        ] {
            assert_eq!(edit_distance(left, right), count, "{left} {right}");
        }
        assert_eq!(edit_distance(&"x".repeat(100_000), ""), 120);
    }
}
