//! File and directory look-ups in a tree: in a list of all files, or one by one.

use crate::base::model::RepoPath;
use crate::state::workspace::{Tree, TreeEntry, TreeError};
use std::sync::Arc;

/// Look-ups of files and directories. The root is `""` and always exists.
pub trait TreeNames: Sync {
    /// True if the file exists.
    fn is_file(&self, path: &str) -> bool;

    /// True if the directory exists.
    fn is_directory(&self, path: &str) -> bool;

    /// True if a directory has an entry of any kind with this name.
    fn has_entry(&self, directory: &str, name: &str) -> bool {
        let path = join(directory, name);
        self.is_file(&path) || self.is_directory(&path)
    }
}

impl TreeNames for Listing {
    fn is_file(&self, path: &str) -> bool {
        Listing::is_file(self, path)
    }

    fn is_directory(&self, path: &str) -> bool {
        Listing::is_directory(self, path)
    }
}

/// Look-ups in a tree, one name at a time. Other files cost nothing. Files that git ignores are included.
#[derive(Clone, Copy)]
pub(super) struct TreeLookup<'a>(pub(super) &'a dyn Tree);

impl TreeLookup<'_> {
    fn entry(&self, path: &str) -> Option<TreeEntry> {
        // An entry that cannot be examined counts as missing, as in a list.
        self.0.entry(&RepoPath::parse(path).ok()?).ok()?
    }
}

impl TreeNames for TreeLookup<'_> {
    fn is_file(&self, path: &str) -> bool {
        matches!(self.entry(path), Some(TreeEntry::File | TreeEntry::Symlink(_)))
    }

    fn is_directory(&self, path: &str) -> bool {
        path.is_empty() || self.entry(path) == Some(TreeEntry::Directory)
    }
}

/// The sorted files of a tree. A directory exists if it contains files. The root is `""`.
#[derive(Clone, Debug)]
pub struct Listing(Arc<Vec<RepoPath>>);

impl Listing {
    /// Wraps the result of [`crate::state::workspace::Tree::files`].
    pub fn new(files: Arc<Vec<RepoPath>>) -> Self {
        Self(files)
    }

    /// Lists all files of a tree, including those that git ignores. Reads the tree and may block.
    pub fn read(tree: &dyn Tree) -> Result<Self, TreeError> {
        Ok(Self(tree.all_files()?))
    }

    /// True if the file exists.
    pub fn is_file(&self, path: &str) -> bool {
        self.0.binary_search_by(|file| file.as_str().cmp(path)).is_ok()
    }

    /// True if there are files below a directory. The root always exists.
    pub fn is_directory(&self, path: &str) -> bool {
        if path.is_empty() {
            return true;
        }
        let prefix = format!("{path}/");
        let first = self.0.get(self.start_of(&prefix));
        first.is_some_and(|file| file.as_str().starts_with(&prefix))
    }

    /// Returns all files below a directory.
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

/// Look-ups in a tree with a list of the files below one directory. Names above that directory are looked up one by
/// one.
pub(super) struct PartialListing<'a> {
    pub(super) tree: &'a dyn Tree,
    pub(super) start: &'a str,
    pub(super) below: &'a Listing,
}

impl PartialListing<'_> {
    fn is_listed(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.start);
        self.start.is_empty() || rest.is_some_and(|rest| rest.starts_with('/'))
    }
}

impl TreeNames for PartialListing<'_> {
    fn is_file(&self, path: &str) -> bool {
        match self.is_listed(path) {
            true => self.below.is_file(path),
            false => TreeLookup(self.tree).is_file(path),
        }
    }

    fn is_directory(&self, path: &str) -> bool {
        match self.is_listed(path) {
            true => self.below.is_directory(path),
            false => TreeLookup(self.tree).is_directory(path),
        }
    }
}

pub(super) fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

/// Returns the parent of a directory, or `None` for the root.
pub(super) fn parent(directory: &str) -> Option<&str> {
    match directory.rsplit_once('/') {
        Some((parent, _)) => Some(parent),
        None if directory.is_empty() => None,
        None => Some(""),
    }
}

/// Returns `path` relative to `directory`, which must contain it or be equal to it.
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
    use super::{Listing, TreeNames as _, parent, relative};
    use crate::base::model::RepoPath;
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
