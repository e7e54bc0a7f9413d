//! The files that an import may have meant that names none: those of the same name in the directories that are
//! searched, and those whose path differs in a few letters. A hint for people, so it is bounded rather than exact.

use super::path::clean;
use crate::workspace::Tree;
use std::collections::BTreeSet;

/// Paths in a hint.
const HINTS_MAX: usize = 3;
/// Files that are looked at.
const FILES_MAX: usize = 50_000;
/// Letters that two names may differ in, and how many letters of a name each of them needs, the first one less.
const DISTANCE_MAX: usize = 2;
const LETTERS_EACH: usize = 3;
/// The longest path whose letters are compared.
const COMPARED_BYTES_MAX: usize = 200;

/// Why a file may be meant; the smaller comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// The path differs in so many letters.
    Letters(usize),
    /// The name is the same, and so many directories are others.
    Name(usize),
    /// The name differs in so many letters, in another directory.
    NameLetters(usize),
}

/// Up to three files below the directories, the most similar first. `searched` are the paths that were looked at.
pub(crate) fn similar(tree: &dyn Tree, directories: &[&str], searched: &[String]) -> Vec<String> {
    let mut files = BTreeSet::new();
    let mut listed: Vec<&str> = Vec::new();
    let mut directories: Vec<&str> = directories.to_vec();
    directories.sort_by_key(|directory| directory.len());
    for directory in directories {
        let is_listed = |above: &&str| {
            above.is_empty() || clean(directory, "").is_some_and(|path| is_below(&path, above))
        };
        if files.len() < FILES_MAX && !listed.iter().any(is_listed) {
            // A hint is worth no second error.
            let below = tree.below(directory).unwrap_or_default();
            files.extend(below.into_iter().take(FILES_MAX));
            listed.push(directory);
        }
    }
    let ranked = files.iter().filter_map(|file| {
        let file = file.as_str();
        let likeness = searched.iter().filter_map(|path| likeness(path, file)).min()?;
        Some((likeness, file))
    });
    let mut ranked: Vec<(Likeness, &str)> = ranked.collect();
    ranked.sort_unstable();
    let best = ranked.into_iter().take(HINTS_MAX);
    best.map(|(_, file)| file.to_owned()).collect()
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn likeness(asked: &str, file: &str) -> Option<Likeness> {
    let (asked_name, file_name) = (name(asked), name(file));
    let letters_max = ((stem(asked_name).chars().count() + 1) / LETTERS_EACH).min(DISTANCE_MAX);
    let is_other_kind = asked_name != file_name && stem(asked_name) == stem(file_name);
    if asked_name == file_name {
        let directories = |path: &str| path.split('/').map(str::to_owned).collect::<BTreeSet<String>>();
        let others = directories(asked)
            .symmetric_difference(&directories(file))
            .count();
        return Some(Likeness::Name(others));
    }
    if is_other_kind && directory(asked) == directory(file) {
        return Some(Likeness::Letters(0));
    }
    match distance(asked.as_bytes(), file.as_bytes(), letters_max) {
        Some(letters) => Some(Likeness::Letters(letters)),
        None => distance(asked_name.as_bytes(), file_name.as_bytes(), letters_max).map(Likeness::NameLetters),
    }
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// A name without what stands after its first dot.
fn stem(name: &str) -> &str {
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

/// The number of letters that differ, where it is at most so many.
fn distance(one: &[u8], other: &[u8], letters_max: usize) -> Option<usize> {
    let longest = one.len().max(other.len());
    if one.len().abs_diff(other.len()) > letters_max || longest > COMPARED_BYTES_MAX {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.iter().enumerate() {
        let mut left = index + 1;
        let mut next = vec![left];
        for (pair, theirs) in row.windows(2).zip(other) {
            let [diagonal, above] = pair else { continue };
            left = (above + 1)
                .min(left + 1)
                .min(diagonal + usize::from(letter != theirs));
            next.push(left);
        }
        if next.iter().min().is_some_and(|least| *least > letters_max) {
            return None;
        }
        row = next;
    }
    row.last().copied().filter(|letters| *letters <= letters_max)
}

#[cfg(test)]
mod tests {
    use super::{Likeness, likeness};

    #[test]
    fn names_are_similar_where_few_of_their_letters_differ() {
        for (asked, file, expected) in [
            ("lib/k.libsonnet", "lib/m.libsonnet", None),
            ("lib/k.libsonnet", "lib/k.jsonnet", Some(Likeness::Letters(0))),
            ("lib/k.libsonnet", "vendor/k.libsonnet", Some(Likeness::Name(2))),
            (
                "lib/util.libsonnet",
                "lib/utils.libsonnet",
                Some(Likeness::Letters(1)),
            ),
            (
                "lib/knwon.libsonnet",
                "lib/known.libsonnet",
                Some(Likeness::Letters(2)),
            ),
            ("lib/util.libsonnet", "lib/until.jsonnet", None),
            (
                "a/deploymnet.libsonnet",
                "lib/x/deployment.libsonnet",
                Some(Likeness::NameLetters(2)),
            ),
            (
                "lib/abc/x.libsonnet",
                "lib/abd/x.libsonnet",
                Some(Likeness::Name(2)),
            ),
            ("a/none.libsonnet", "a/main.libsonnet", None),
        ] {
            assert_eq!(likeness(asked, file), expected, "{asked} {file}");
        }
    }
}
