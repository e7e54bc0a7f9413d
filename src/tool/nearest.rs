//! The known name that was probably meant.

/// Names longer than this are not compared: nobody mistypes them, and comparing costs their product.
const NAME_CHARS_MAX: usize = 64;

/// The known name closest to `name`, if it is close: at most a third of its characters differ, or
/// one contains the other.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: String = name.chars().take(NAME_CHARS_MAX + 1).collect();
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
        return None;
    }
    let wanted = plain(&name);
    known
        .into_iter()
        .filter_map(|candidate| {
            let candidate_plain = plain(candidate);
            let distance = distance(&wanted, &candidate_plain);
            let length = wanted.len().max(candidate_plain.len());
            let close = distance * 3 <= length || (wanted.len() >= 3 && contains(&candidate_plain, &wanted));
            close.then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Lower case, separators dropped: `Read-File` and `read_file` are the same mistake.
fn plain(name: &str) -> Vec<char> {
    name.chars()
        .filter(|character| character.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

fn contains(text: &[char], part: &[char]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Characters to insert, delete or replace to get from one name to the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, from_character) in from.iter().enumerate() {
        let mut diagonal = line;
        let mut left = line + 1;
        for (cell, to_character) in row.iter_mut().skip(1).zip(to) {
            let replaced = diagonal + usize::from(from_character != to_character);
            diagonal = *cell;
            left = replaced.min(left + 1).min(*cell + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = line + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn typing_mistakes_find_their_name() {
        let known = ["file_read", "file_write", "git_log"];
        for (wrong, meant) in [
            ("file_raed", Some("file_read")),
            ("FileRead", Some("file_read")),
            ("read", Some("file_read")),
            ("git-log", Some("git_log")),
            ("kubectl_apply", None),
            ("", None),
            (&"x".repeat(100_000), None),
        ] {
            assert_eq!(nearest(wrong, known), meant, "{}", wrong.len());
        }
    }

    #[test]
    fn distance_counts_single_edits() {
        let count = |from: &str, to: &str| {
            distance(&from.chars().collect::<Vec<_>>(), &to.chars().collect::<Vec<_>>())
        };
        assert_eq!(count("kitten", "sitting"), 3);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("abc", ""), 3);
        assert_eq!(count("same", "same"), 0);
    }
}
