//! The distance between two names, to suggest what was meant by an unknown name.

/// Characters of a name that are compared. A comparison costs the product of the lengths.
const COMPARED_CHARS_MAX: usize = 200;

/// Returns the number of insertions, deletions, replacements and swaps of neighbours between two names. Characters after
/// the first 200 are not compared.
pub fn edit_distance(left: &str, right: &str) -> usize {
    let start = |name: &str| name.chars().take(COMPARED_CHARS_MAX).collect::<String>();
    strsim::osa_distance(&start(left), &start(right))
}

/// Returns the distance if it is at most `distance_max`. Names of more than 200 characters are not compared.
pub fn edit_distance_within(left: &str, right: &str, distance_max: usize) -> Option<usize> {
    let lengths = [left, right].map(|name| name.chars().count());
    let is_comparable = lengths.iter().all(|length| *length <= COMPARED_CHARS_MAX);
    // An edit changes the length by one at most and the letters by two at most: few pairs are compared exactly.
    if !is_comparable
        || lengths[0].abs_diff(lengths[1]) > distance_max
        || different_letters(left, right) > 2 * distance_max
    {
        return None;
    }
    Some(strsim::osa_distance(left, right)).filter(|distance| *distance <= distance_max)
}

/// Returns the number of letters that one name has more often than the other, in both directions. Letters with the same
/// low bits count as one letter.
fn different_letters(left: &str, right: &str) -> usize {
    let mut counts = [0_i32; 64];
    for letter in left.chars() {
        counts[letter as usize % 64] += 1;
    }
    for letter in right.chars() {
        counts[letter as usize % 64] -= 1;
    }
    counts.iter().map(|count| count.unsigned_abs() as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, edit_distance_within};

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
            assert_eq!(
                edit_distance_within(left, right, 3),
                Some(count),
                "{left} {right}"
            );
            let fewer = count.checked_sub(1);
            assert_eq!(
                fewer.and_then(|fewer| edit_distance_within(left, right, fewer)),
                None,
                "{left} {right}"
            );
        }
        assert_eq!(edit_distance(&"x".repeat(100_000), ""), 200);
    }

    #[test]
    fn long_names_are_compared_to_their_end_or_not_at_all() {
        let directory = "d/".repeat(90);
        let [selector, metadata] = ["selector", "metadata"].map(|name| format!("{directory}{name}.lib"));
        assert_eq!(edit_distance_within(&selector, &metadata, 3), None);
        assert_eq!(
            edit_distance_within(&selector, &format!("{directory}selectro.lib"), 3),
            Some(1)
        );
        let longer = "x".repeat(201);
        assert_eq!(edit_distance_within(&longer, &longer, 3), None);
    }
}
