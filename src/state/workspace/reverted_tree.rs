//! A tree as it was before some changes. Changed paths have their earlier content, and everything else has its
//! current content. Used for trees without a commit, such as the working directory.

use super::lines::{self, MatchWindow};
use super::links::{self, ancestors};
use super::{Match, Tree, TreeEntry, TreeError, names_of};
use crate::base::model::{FileChange, FileMode, FileVersion, RepoPath};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A read-only tree without the given changes.
#[derive(Debug)]
pub struct RevertedTree {
    tree: Arc<dyn Tree>,
    reverted: BTreeMap<RepoPath, Option<FileVersion>>,
    files: Arc<Vec<RepoPath>>,
    files_now: Arc<Vec<RepoPath>>,
}

impl RevertedTree {
    /// Reverts `changes` in a view of a tree. Only their `before` is used.
    pub fn new(now: Arc<dyn Tree>, changes: &[FileChange]) -> Result<Self, TreeError> {
        let was: BTreeMap<RepoPath, Option<FileVersion>> = changes
            .iter()
            .map(|change| (change.path.clone(), change.before.clone()))
            .collect();
        let files_now = now.files()?;
        let kept = files_now.iter().filter(|path| !was.contains_key(*path));
        let back = was.iter().filter(|(_, version)| version.is_some());
        let files: BTreeSet<RepoPath> = kept.chain(back.map(|(path, _)| path)).cloned().collect();
        Ok(Self {
            tree: now,
            reverted: was,
            files: Arc::new(files.into_iter().collect()),
            files_now,
        })
    }

    fn target(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, TreeError> {
        Ok(match self.entry(path)? {
            Some(TreeEntry::Symlink(target)) => Some(target.to_vec()),
            Some(TreeEntry::File | TreeEntry::Directory | TreeEntry::Other) | None => None,
        })
    }

    /// True if a parent of this path changed. Then only the changes determine what exists at the path.
    fn is_below_a_change(&self, path: &RepoPath) -> bool {
        ancestors(path)
            .any(|above| RepoPath::parse(above).is_ok_and(|above| self.reverted.contains_key(&above)))
    }

    fn not_found(path: &RepoPath) -> TreeError {
        TreeError::NotFound {
            path: path.clone(),
            similar: Vec::new(),
        }
    }

    fn read_only(path: &RepoPath) -> TreeError {
        TreeError::Refused {
            path: path.clone(),
            why: "the base is only read",
        }
    }
}

impl Tree for RevertedTree {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        let real = links::follow(path, &|path| self.target(path))?;
        match self.entry(&real)? {
            Some(TreeEntry::Directory) => Err(TreeError::WrongKind {
                path: path.clone(),
                what: "directory",
            }),
            None => Err(Self::not_found(path)),
            Some(TreeEntry::File | TreeEntry::Symlink(_) | TreeEntry::Other) => {
                match self.reverted.get(&real) {
                    Some(Some(version)) => Ok(version.clone()),
                    Some(None) => Err(Self::not_found(path)),
                    None => self.tree.read(&real),
                }
            }
        }
    }

    fn real_path(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        links::follow(path, &|path| self.target(path))
    }

    fn entry(&self, path: &RepoPath) -> Result<Option<TreeEntry>, TreeError> {
        if let Some(Some(version)) = self.reverted.get(path) {
            return Ok(Some(match version.mode {
                FileMode::Symlink => TreeEntry::Symlink(version.content.clone()),
                FileMode::Regular | FileMode::Executable => TreeEntry::File,
            }));
        }
        if has_below(&self.files, path) {
            return Ok(Some(TreeEntry::Directory));
        }
        if self.reverted.contains_key(path) || self.is_below_a_change(path) {
            return Ok(None);
        }
        let entry = self.tree.entry(path)?;
        // A directory whose files are all new did not exist. A directory without listed files did.
        Ok(entry.filter(|entry| entry != &TreeEntry::Directory || !has_below(&self.files_now, path)))
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        Ok(Arc::clone(&self.files))
    }

    fn all_files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.files_below("").map(Arc::new)
    }

    fn write(&self, path: &RepoPath, _content: Bytes) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        let mut below = self.tree.files_below(directory)?;
        below.retain(|path| !self.reverted.contains_key(path) && !self.is_below_a_change(path));
        let prefix = match directory {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let back = self.reverted.iter().filter(|(_, version)| version.is_some());
        let back = back
            .map(|(path, _)| path)
            .filter(|path| path.as_str().starts_with(&prefix));
        below.extend(back.cloned());
        below.sort();
        Ok(below)
    }

    /// Returns names from the list of files. The list covers everything, so subdirectories need no visit.
    fn list_directory(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        Ok(names_of(&self.files, directory))
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        match self.reverted.get(path) {
            Some(version) => Ok(version.clone()),
            None if self.is_below_a_change(path) => Ok(None),
            None => self.tree.read_stored(path),
        }
    }

    fn put(&self, path: &RepoPath, _after: Option<FileVersion>) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        let mut found = MatchWindow::new(offset, limit);
        if !lines::fits_a_line(needle) {
            return Ok(found.finish());
        }
        let finder = memchr::memmem::Finder::new(needle.as_bytes());
        for path in self.files.iter().filter(|path| accepts(path.as_str())) {
            // Links and unreadable files have no lines.
            if let Ok(Some(version)) = self.read_stored(path)
                && version.mode != FileMode::Symlink
            {
                lines::search_text(&version.content, &finder, path.as_str(), &mut found);
            }
        }
        Ok(found.finish())
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        Ok(Vec::new())
    }
}

fn has_below(files: &[RepoPath], directory: &RepoPath) -> bool {
    let prefix = format!("{directory}/");
    let start = files.partition_point(|file| file.as_str() < prefix.as_str());
    files
        .get(start)
        .is_some_and(|file| file.as_str().starts_with(&prefix))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::RevertedTree;
    use crate::base::model::{FileMode, FileVersion, RepoPath};
    use crate::state::workspace::fixture::{Fixture, link, path, text};
    use crate::state::workspace::{Overlay, Tree, WorkspaceEdits};
    use bytes::Bytes;
    use std::sync::Arc;

    const NAMES: [&str; 11] = [
        "kept", "edited", "gone", "gone/y", "added", "added/x", "link", "linked", "linked/x", "a", "a/b",
    ];

    fn fixture() -> Fixture {
        Fixture::with(&[
            text("kept", "k"),
            text("edited", "old"),
            text("gone/y", "y"),
            link("link", "edited"),
            link("linked", "gone"),
            text("a", "a file"),
        ])
    }

    fn version(content: &str, mode: FileMode) -> Option<FileVersion> {
        let content = Bytes::copy_from_slice(content.as_bytes());
        Some(FileVersion { content, mode })
    }

    fn seen(tree: &dyn Tree, name: &str) -> String {
        let read = tree.read(&path(name)).map(|version| version.content);
        let read = read.map_err(|err| err.to_string().split(';').next().unwrap().to_owned());
        let entry = tree.entry(&path(name)).unwrap();
        let stored = tree.read_stored(&path(name)).unwrap();
        format!("{name}: {read:?} {entry:?} {stored:?}")
    }

    #[test]
    fn changed_paths_read_as_before_the_change_and_others_as_they_are() {
        let fixture = fixture();
        let base = Overlay::new(fixture.head_base(), WorkspaceEdits::new());
        let edits: WorkspaceEdits = [
            (path("edited"), version("new", FileMode::Regular)),
            (path("gone/y"), None),
            (path("added/x"), version("x", FileMode::Regular)),
            (path("link"), version("kept", FileMode::Symlink)),
            (path("linked"), None),
            (path("linked/x"), version("x", FileMode::Regular)),
            (path("a"), None),
            (path("a/b"), version("b", FileMode::Regular)),
        ]
        .into();
        let now = Arc::new(Overlay::new(fixture.head_base(), edits));
        let changes = now.changes().unwrap();
        assert_eq!(changes.len(), 8);
        let before = RevertedTree::new(now, &changes).unwrap();
        assert_eq!(before.files().unwrap(), base.files().unwrap());
        for name in NAMES {
            assert_eq!(seen(&before, name), seen(&base, name));
        }
        let found = before.search(&|_| true, "o", 0, 10).unwrap();
        let names: Vec<&str> = found.0.iter().map(|found| found.path.as_str()).collect();
        assert_eq!((names, found.1), (vec!["edited"], 1));
        let below: Vec<RepoPath> = before.files_below("gone").unwrap();
        assert_eq!(below, [path("gone/y")]);
    }

    #[test]
    fn the_tree_before_a_change_is_read_only() {
        let fixture = fixture();
        let before = RevertedTree::new(
            Arc::new(Overlay::new(fixture.head_base(), WorkspaceEdits::new())),
            &[],
        )
        .unwrap();
        assert!(before.write(&path("kept"), Bytes::new()).is_err());
        assert!(before.delete(&path("kept")).is_err() && before.put(&path("kept"), None).is_err());
    }
}
