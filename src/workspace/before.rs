//! A tree as it was before some changes: what they changed is as they say it was, and everything else
//! is as it is now. For trees that are no commit of ours, such as the working directory.

use super::lines::{self, Found};
use super::links::{self, ancestors};
use super::{Entry, Match, Tree, TreeError, names_of};
use crate::model::{FileChange, FileVersion, Mode, RepoPath};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A tree without these changes. It is only read.
#[derive(Debug)]
pub struct Before {
    now: Arc<dyn Tree>,
    was: BTreeMap<RepoPath, Option<FileVersion>>,
    files: Arc<Vec<RepoPath>>,
    files_now: Arc<Vec<RepoPath>>,
}

impl Before {
    /// Takes `changes` back from a tree; their `after` is not looked at.
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
            now,
            was,
            files: Arc::new(files.into_iter().collect()),
            files_now,
        })
    }

    fn target(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, TreeError> {
        Ok(match self.entry(path)? {
            Some(Entry::Symlink(target)) => Some(target.to_vec()),
            Some(Entry::File | Entry::Directory | Entry::Other) | None => None,
        })
    }

    /// Returns true if a path above this one changed: then nothing is at it but what the changes say.
    fn is_below_a_change(&self, path: &RepoPath) -> bool {
        ancestors(path).any(|above| RepoPath::parse(above).is_ok_and(|above| self.was.contains_key(&above)))
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

impl Tree for Before {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        let real = links::follow(path, &|path| self.target(path))?;
        match self.entry(&real)? {
            Some(Entry::Directory) => Err(TreeError::WrongKind {
                path: path.clone(),
                what: "directory",
            }),
            None => Err(Self::not_found(path)),
            Some(Entry::File | Entry::Symlink(_) | Entry::Other) => match self.was.get(&real) {
                Some(Some(version)) => Ok(version.clone()),
                Some(None) => Err(Self::not_found(path)),
                None => self.now.read(&real),
            },
        }
    }

    fn real(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        links::follow(path, &|path| self.target(path))
    }

    fn entry(&self, path: &RepoPath) -> Result<Option<Entry>, TreeError> {
        if let Some(Some(version)) = self.was.get(path) {
            return Ok(Some(match version.mode {
                Mode::Symlink => Entry::Symlink(version.content.clone()),
                Mode::Regular | Mode::Executable => Entry::File,
            }));
        }
        if has_below(&self.files, path) {
            return Ok(Some(Entry::Directory));
        }
        if self.was.contains_key(path) || self.is_below_a_change(path) {
            return Ok(None);
        }
        let entry = self.now.entry(path)?;
        // A directory of files that are all new was not there; one whose files are not listed was.
        Ok(entry.filter(|entry| entry != &Entry::Directory || !has_below(&self.files_now, path)))
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        Ok(Arc::clone(&self.files))
    }

    fn everything(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.below("").map(Arc::new)
    }

    fn write(&self, path: &RepoPath, _content: Bytes) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        Err(Self::read_only(path))
    }

    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        let mut below = self.now.below(directory)?;
        below.retain(|path| !self.was.contains_key(path) && !self.is_below_a_change(path));
        let prefix = match directory {
            "" => String::new(),
            directory => format!("{directory}/"),
        };
        let back = self.was.iter().filter(|(_, version)| version.is_some());
        let back = back
            .map(|(path, _)| path)
            .filter(|path| path.as_str().starts_with(&prefix));
        below.extend(back.cloned());
        below.sort();
        Ok(below)
    }

    /// Returns the names of files that are listed: for a directory alone, what lies below it is not looked at.
    fn names(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        Ok(names_of(&self.files, directory))
    }

    fn stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        match self.was.get(path) {
            Some(version) => Ok(version.clone()),
            None if self.is_below_a_change(path) => Ok(None),
            None => self.now.stored(path),
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
        let mut found = Found::new(offset, limit);
        if !lines::fits_a_line(needle) {
            return Ok(found.finish());
        }
        let finder = memchr::memmem::Finder::new(needle.as_bytes());
        for path in self.files.iter().filter(|path| accepts(path.as_str())) {
            // Links and what cannot be read have no lines.
            if let Ok(Some(version)) = self.stored(path)
                && version.mode != Mode::Symlink
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
    use super::Before;
    use crate::model::{FileVersion, Mode, RepoPath};
    use crate::workspace::fixture::{Fixture, link, path, text};
    use crate::workspace::{Edits, Overlay, Tree};
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

    fn version(content: &str, mode: Mode) -> Option<FileVersion> {
        let content = Bytes::copy_from_slice(content.as_bytes());
        Some(FileVersion { content, mode })
    }

    fn seen(tree: &dyn Tree, name: &str) -> String {
        let read = tree.read(&path(name)).map(|version| version.content);
        let read = read.map_err(|err| err.to_string().split(';').next().unwrap().to_owned());
        let entry = tree.entry(&path(name)).unwrap();
        let stored = tree.stored(&path(name)).unwrap();
        format!("{name}: {read:?} {entry:?} {stored:?}")
    }

    #[test]
    fn what_changed_is_taken_back_and_the_rest_is_as_it_is() {
        let fixture = fixture();
        let base = Overlay::new(fixture.base(), Edits::new());
        let edits: Edits = [
            (path("edited"), version("new", Mode::Regular)),
            (path("gone/y"), None),
            (path("added/x"), version("x", Mode::Regular)),
            (path("link"), version("kept", Mode::Symlink)),
            (path("linked"), None),
            (path("linked/x"), version("x", Mode::Regular)),
            (path("a"), None),
            (path("a/b"), version("b", Mode::Regular)),
        ]
        .into();
        let now = Arc::new(Overlay::new(fixture.base(), edits));
        let changes = now.changes().unwrap();
        assert_eq!(changes.len(), 8);
        let before = Before::new(now, &changes).unwrap();
        assert_eq!(before.files().unwrap(), base.files().unwrap());
        for name in NAMES {
            assert_eq!(seen(&before, name), seen(&base, name));
        }
        let found = before.search(&|_| true, "o", 0, 10).unwrap();
        let names: Vec<&str> = found.0.iter().map(|found| found.path.as_str()).collect();
        assert_eq!((names, found.1), (vec!["edited"], 1));
        let below: Vec<RepoPath> = before.below("gone").unwrap();
        assert_eq!(below, [path("gone/y")]);
    }

    #[test]
    fn nothing_is_written() {
        let fixture = fixture();
        let before = Before::new(Arc::new(Overlay::new(fixture.base(), Edits::new())), &[]).unwrap();
        assert!(before.write(&path("kept"), Bytes::new()).is_err());
        assert!(before.delete(&path("kept")).is_err() && before.put(&path("kept"), None).is_err());
    }
}
