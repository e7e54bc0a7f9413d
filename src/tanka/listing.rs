//! The names of a tree's files, as directories are looked up in them.

use crate::model::RepoPath;
use std::sync::Arc;

/// The files of a tree, sorted. Directories exist as far as files lie below them; the root is `""`.
#[derive(Clone, Debug)]
pub struct Listing(Arc<Vec<RepoPath>>);

impl Listing {
    /// Takes what [`crate::workspace::Tree::files`] answers.
    pub fn new(files: Arc<Vec<RepoPath>>) -> Self {
        Self(files)
    }

    /// Whether there is such a file.
    pub fn is_file(&self, path: &str) -> bool {
        self.0.binary_search_by(|file| file.as_str().cmp(path)).is_ok()
    }

    /// Whether there are files below a directory. The root always exists.
    pub fn is_directory(&self, path: &str) -> bool {
        if path.is_empty() {
            return true;
        }
        let prefix = format!("{path}/");
        let first = self.0.get(self.start_of(&prefix));
        first.is_some_and(|file| file.as_str().starts_with(&prefix))
    }

    /// Whether a directory has an entry of that name, whatever it is.
    pub fn has_entry(&self, directory: &str, name: &str) -> bool {
        let path = join(directory, name);
        self.is_file(&path) || self.is_directory(&path)
    }

    /// All files below a directory.
    pub fn below(&self, directory: &str) -> &[RepoPath] {
        if directory.is_empty() {
            return &self.0;
        }
        let prefix = format!("{directory}/");
        let rest = self.0.get(self.start_of(&prefix)..).unwrap_or_default();
        let length = rest.partition_point(|file| file.as_str().starts_with(&prefix));
        rest.get(..length).unwrap_or_default()
    }

    fn start_of(&self, prefix: &str) -> usize {
        self.0.partition_point(|file| file.as_str() < prefix)
    }
}

/// A path below a directory.
pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

/// The directory a directory is in; `None` for the root.
pub(super) fn parent(directory: &str) -> Option<&str> {
    match directory.rsplit_once('/') {
        Some((parent, _)) => Some(parent),
        None if directory.is_empty() => None,
        None => Some(""),
    }
}

/// `path` as seen from `directory`, which it is in or is.
pub(super) fn relative<'a>(directory: &str, path: &'a str) -> &'a str {
    if directory.is_empty() {
        return if path.is_empty() { "." } else { path };
    }
    match path.strip_prefix(directory) {
        Some("") => ".",
        Some(rest) => rest.strip_prefix('/').unwrap_or(path),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{Listing, parent, relative};
    use crate::model::RepoPath;
    use std::sync::Arc;

    #[test]
    fn directories_are_what_files_lie_below() {
        let mut files: Vec<RepoPath> = ["a/b/c", "a-b/x", "a/b.txt", "top"]
            .map(|path| RepoPath::parse(path).unwrap())
            .into();
        files.sort();
        let listing = Listing::new(Arc::new(files));
        assert!(listing.is_directory("a") && listing.is_directory("a/b") && listing.is_directory(""));
        assert!(!listing.is_directory("top") && !listing.is_directory("a/b/c") && !listing.is_directory("x"));
        assert!(listing.is_file("a/b.txt") && !listing.is_file("a/b"));
        assert!(listing.has_entry("a", "b") && listing.has_entry("", "top") && !listing.has_entry("", "b"));
        let below: Vec<&str> = listing.below("a").iter().map(RepoPath::as_str).collect();
        assert_eq!(below, ["a/b.txt", "a/b/c"]);
        assert_eq!(listing.below("").len(), 4);
    }

    #[test]
    fn paths_are_relative_to_their_directory() {
        for (directory, path, expected) in [
            ("", "", "."),
            ("", "a/b", "a/b"),
            ("a", "a", "."),
            ("a", "a/b", "b"),
        ] {
            assert_eq!(relative(directory, path), expected);
        }
        assert_eq!(
            (parent("a/b"), parent("a"), parent("")),
            (Some("a"), Some(""), None)
        );
    }
}
