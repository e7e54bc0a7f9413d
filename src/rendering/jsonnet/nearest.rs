//! Suggestions for an import that resolves to no file: files of the same name in the searched directories, and files
//! whose path differs in a few letters. A suggestion is a hint for people, so the search is bounded rather than
//! complete.

use super::path::clean;
use crate::base::model::{RepoPath, edit_distance_within};
use crate::state::workspace::Tree;
use std::collections::{BTreeSet, HashSet, VecDeque};

/// Paths in a hint.
const HINTS_MAX: usize = 3;
/// Directories that are listed.
const DIRECTORIES_MAX: usize = 256;
/// Names that are compared.
const NAMES_MAX: usize = 10_000;
/// Letters in which two names may differ. Short names may differ in fewer: the length of the name plus one, divided by
/// `LETTERS_EACH`.
const DISTANCE_MAX: usize = 2;
const LETTERS_EACH: usize = 3;

/// The similarity of a file to the requested path; smaller values are more similar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// The path differs in this many letters.
    Letters(usize),
    /// The name is the same, and this many directories differ.
    Name(usize),
    /// The name differs in this many letters, in another directory.
    NameLetters(usize),
}

/// Returns up to three files below the directories, the most similar first. `searched` are the paths that were tried.
pub(crate) fn similar(tree: &dyn Tree, directories: &[&str], searched: &[String]) -> Vec<String> {
    let files = around(tree, directories, searched);
    let ranked = files.iter().filter_map(|file| {
        let likeness = searched.iter().filter_map(|path| likeness(path, file)).min()?;
        Some((likeness, file))
    });
    let mut ranked: Vec<(Likeness, &String)> = ranked.collect();
    ranked.sort_unstable();
    let best = ranked.into_iter().take(HINTS_MAX);
    best.map(|(_, file)| file.clone()).collect()
}

/// Returns the files to compare: those beside the searched paths, then those below the directories, level by level. The
/// limits make the cost independent of the size of the repository.
fn around(tree: &dyn Tree, directories: &[&str], searched: &[String]) -> BTreeSet<String> {
    let directories: Vec<String> = directories.iter().filter_map(|given| clean(given, ".")).collect();
    let is_within = |path: &&str| directories.iter().any(|above| is_below(path, above));
    let mut waiting = VecDeque::new();
    for path in searched {
        let own = directory(path);
        let above = std::iter::successors(Some(own), |here| (!here.is_empty()).then(|| directory(here)));
        let above = above.skip(1).take_while(is_within);
        waiting.extend(std::iter::once(own).chain(above).map(str::to_owned));
    }
    waiting.extend(directories.iter().cloned());
    let (mut listed, mut files, mut names_left) = (HashSet::new(), BTreeSet::new(), NAMES_MAX);
    while let Some(here) = waiting.pop_front() {
        if !listed.insert(here.clone()) {
            continue;
        }
        if listed.len() > DIRECTORIES_MAX || names_left == 0 {
            break;
        }
        // An error here is ignored, because a hint is optional.
        let names = tree.list_directory(&here).unwrap_or_default();
        for (name, is_directory) in names.into_iter().take(names_left) {
            names_left -= 1;
            let Some(Ok(path)) = clean(&here, &name).map(|path| RepoPath::parse(&path)) else {
                continue;
            };
            match is_directory {
                true => waiting.push_back(path.to_string()),
                false => drop(files.insert(path.to_string())),
            }
        }
    }
    files
}

fn is_below(path: &str, directory: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| directory.is_empty() || rest.is_empty() || rest.starts_with('/'))
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
    match edit_distance_within(asked, file, letters_max) {
        Some(letters) => Some(Likeness::Letters(letters)),
        None => edit_distance_within(asked_name, file_name, letters_max).map(Likeness::NameLetters),
    }
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// Returns a name up to its first dot.
fn stem(name: &str) -> &str {
    name.split_once('.').map_or(name, |(stem, _)| stem)
}

#[cfg(test)]
mod tests;
