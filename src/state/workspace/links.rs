//! Follows symlinks inside a tree by name, one component at a time, so that no backend passes a link to the
//! operating system. Also contains the rules for writes to any tree.

use super::TreeError;
use super::spelling::{self, NameListing};
use crate::base::model::{FileMode, RepoPath, fold_name, is_invisible};

/// Maximum number of links that are followed for one path.
const LINKS_MAX: usize = 8;
/// Maximum length of a link target in bytes, the same as the limit of the operating system.
const TARGET_BYTES_MAX: usize = 4_096;
/// Error text for a link that points out of the tree.
const LEAVES: &str = "symlink that leaves the repository";

/// Returns the target of the symlink at a path, or `None` for any other entry.
pub(super) type TargetOf<'a> = dyn Fn(&RepoPath) -> Result<Option<Vec<u8>>, TreeError> + 'a;

/// Resolves a path to its real path by following every symlink on the way.
pub(super) fn follow(path: &RepoPath, target: &TargetOf<'_>) -> Result<RepoPath, TreeError> {
    let wrong = |what| TreeError::WrongKind {
        path: path.clone(),
        what,
    };
    // Components that remain to be resolved, next component last.
    let mut remaining: Vec<String> = path.as_str().rsplit('/').map(str::to_owned).collect();
    let mut walked: Vec<String> = Vec::new();
    let mut links = 0;
    while let Some(component) = remaining.pop() {
        match component.as_str() {
            "" | "." => continue,
            ".." => {
                walked.pop().ok_or_else(|| wrong(LEAVES))?;
                continue;
            }
            _ => walked.push(component),
        }
        let here = RepoPath::parse(&walked.join("/")).map_err(|_| wrong(LEAVES))?;
        let Some(target) = target(&here)? else { continue };
        links += 1;
        if links > LINKS_MAX {
            return Err(wrong("symlink that leads in a circle"));
        }
        if target.len() > TARGET_BYTES_MAX {
            return Err(wrong(LEAVES));
        }
        let target = String::from_utf8(target).map_err(|_| wrong(LEAVES))?;
        if target.starts_with('/') {
            return Err(wrong(LEAVES));
        }
        walked.pop();
        remaining.extend(target.rsplit('/').map(str::to_owned));
    }
    RepoPath::parse(&walked.join("/")).map_err(|_| wrong(LEAVES))
}

/// Returns the directories that contain a path, outermost first.
pub(super) fn ancestors(path: &RepoPath) -> impl Iterator<Item = &str> {
    path.as_str()
        .match_indices('/')
        .filter_map(|(at, _)| path.as_str().get(..at))
}

/// Refuses names that git reads as its own settings, in any directory.
pub(super) fn check_settings(path: &RepoPath) -> Result<(), TreeError> {
    match path.as_str().split('/').any(is_settings) {
        true => Err(settings(path)),
        false => Ok(()),
    }
}

/// Applies the same check to files that a program of this product writes: a setting must not be a directory or a
/// link, nor a file outside a package below `vendor/`. Packages keep the files of their authors. `mode` is the mode
/// of the file, or `None` for a removal.
pub(super) fn check_put(path: &RepoPath, mode: Option<FileMode>) -> Result<(), TreeError> {
    let (directories, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
    let of_a_package =
        mode != Some(FileMode::Symlink) && directories.split('/').any(|directory| directory == "vendor");
    if directories.split('/').any(is_settings) || (is_settings(name) && !of_a_package) {
        return Err(settings(path));
    }
    Ok(())
}

fn settings(path: &RepoPath) -> TreeError {
    TreeError::Refused {
        path: path.clone(),
        why: "git metadata is read-only",
    }
}

/// True if git reads this name as `.gitattributes` or `.gitmodules` on any operating system. Some systems ignore
/// invisible characters and the characters that end a name, and some have a short alias for the name.
fn is_settings(component: &str) -> bool {
    if !component.starts_with(['.', 'g', 'G']) && !component.starts_with(is_invisible) {
        return false;
    }
    let name = component.split(':').next().unwrap_or_default();
    let name: String = name
        .chars()
        .filter(|character| !is_invisible(*character))
        .collect();
    let name = name.trim_end_matches([' ', '.']).to_ascii_lowercase();
    let is_short = |start: &str| {
        let number = name.strip_prefix(start);
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    [".gitattributes", ".gitmodules"].contains(&name.as_str()) || is_short("gitatt~") || is_short("gitmod~")
}

/// Refuses a file that would make a directory look like a git directory: one with `HEAD`, `objects` and `refs`, in
/// any spelling.
pub(super) fn check_git_directory(path: &RepoPath, names: &dyn NameListing) -> Result<(), TreeError> {
    let text = path.as_str();
    let directories = std::iter::once("").chain(ancestors(path));
    for directory in directories {
        let inner = match directory {
            "" => text,
            _ => text.get(directory.len() + 1..).unwrap_or_default(),
        };
        let named = fold_name(inner.split('/').next().unwrap_or_default());
        let parts = ["head", "objects", "refs"];
        if !parts.contains(&named.as_ref()) && named != "config" {
            continue;
        }
        let mut others = parts.iter().filter(|part| **part != named);
        if others.all(|part| spelling::has_in_any_spelling(directory, part, names)) {
            return Err(TreeError::Refused {
                path: path.clone(),
                why: "git metadata is read-only, and this would make its directory a git repository",
            });
        }
    }
    Ok(())
}
