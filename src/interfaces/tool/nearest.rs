//! Finds the known name that a misspelt name probably means.

use crate::base::model::edit_distance;

/// The maximum number of characters of a compared name. Longer names are not typing errors, and the cost of a
/// comparison is the product of the lengths.
const NAME_CHARS_MAX: usize = 64;

/// Returns the known name closest to `name`, if it is similar: at most a third of its characters differ, or one
/// contains the other.
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
            let distance = edit_distance(&wanted, &candidate_plain);
            let length = wanted.chars().count().max(candidate_plain.chars().count());
            let close =
                distance * 3 <= length || (wanted.chars().count() >= 3 && candidate_plain.contains(&wanted));
            close.then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns a name in lower case without separators: `Read-File` and `read_file` are the same mistake.
fn plain(name: &str) -> String {
    name.chars()
        .filter(|character| character.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

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
}
