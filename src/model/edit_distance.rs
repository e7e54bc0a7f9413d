//! The edit distance between two names, used to suggest the known name for a misspelt one.

/// The number of characters of a name that are compared.
const COMPARED_CHARS_MAX: usize = 120;

/// Returns the number of insertions, deletions, replacements and swaps of neighbours between two names. Only the
/// first 120 characters are compared, because the cost is the product of the lengths.
pub fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(COMPARED_CHARS_MAX).collect();
    let right: Vec<char> = right.chars().take(COMPARED_CHARS_MAX).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let replaced = rows[i][j] + usize::from(a != b);
            let mut least = replaced.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows.last().and_then(|row| row.last()).copied().unwrap_or(0)
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
