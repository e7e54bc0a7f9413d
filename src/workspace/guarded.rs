//! A tree as tools and programs see it: files that hold secrets by their names are not looked into, whatever link
//! leads there, and what others hold that is secret is learnt before a part of them is shown.

use super::{Denied, Entry, Match, Tree, TreeError};
use crate::model::{FileChange, FileVersion, RepoPath};
use crate::redact::Redactor;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What the file is called that an environment starts with.
const ENTRYPOINT: &str = "main.jsonnet";

/// What of a workspace is kept from whoever looks at it.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Files nobody looks into.
    pub denied: Arc<Denied>,
    /// Hides what was learnt on behalf of one person.
    pub redactor: Arc<Redactor>,
}

/// Denies nothing and knows no live secrets.
impl Default for Guard {
    fn default() -> Self {
        Self {
            denied: Arc::default(),
            redactor: Arc::new(Redactor::new([])),
        }
    }
}

impl Guard {
    /// Refuses a file that is denied by the name it is asked for or by the one it really has.
    pub fn check(&self, tree: &dyn Tree, path: &RepoPath) -> Result<(), TreeError> {
        let holds = |path: &RepoPath| self.denied.holds(path.as_str());
        let is_denied = holds(path) || tree.real(path).is_ok_and(|real| holds(&real));
        match is_denied {
            true => Err(TreeError::Denied { path: path.clone() }),
            false => Ok(()),
        }
    }

    /// Learns what changes hold that is secret, on both sides.
    pub fn learn(&self, changes: &[FileChange]) {
        for change in changes {
            for version in change.before.iter().chain(&change.after) {
                self.redactor.learn_file(None, &version.content);
            }
        }
    }
}

/// A tree behind a guard.
#[derive(Debug)]
pub struct Guarded {
    tree: Arc<dyn Tree>,
    guard: Guard,
    /// Entry points of environments that were read. Held to add one or to take all.
    entrypoints: Mutex<BTreeSet<RepoPath>>,
}

impl Guarded {
    pub(crate) fn new(tree: Arc<dyn Tree>, guard: Guard) -> Self {
        Self {
            tree,
            guard,
            entrypoints: Mutex::default(),
        }
    }

    /// What is kept from whoever looks at it.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Files that environments start with and that were read so far.
    pub fn entrypoints(&self) -> BTreeSet<RepoPath> {
        let entrypoints = self.entrypoints.lock().unwrap_or_else(PoisonError::into_inner);
        entrypoints.clone()
    }

    fn check(&self, path: &RepoPath) -> Result<(), TreeError> {
        self.guard.check(self.tree.as_ref(), path)
    }

    /// Learns from the whole of a file a line of which is shown.
    fn learn_at(&self, path: &RepoPath) {
        if let Ok((version, blob)) = self.tree.identified(path) {
            self.guard.redactor.learn_file(Some(&blob), &version.content);
        } else if let Ok(Some(version)) = self.tree.stored(path) {
            self.guard.redactor.learn_file(None, &version.content);
        }
    }
}

impl Tree for Guarded {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        self.identified(path).map(|(version, _)| version)
    }

    fn identified(&self, path: &RepoPath) -> Result<(FileVersion, String), TreeError> {
        self.check(path)?;
        let (version, blob) = self.tree.identified(path)?;
        self.guard.redactor.learn_file(Some(&blob), &version.content);
        if path.file_name() == ENTRYPOINT {
            let mut entrypoints = self.entrypoints.lock().unwrap_or_else(PoisonError::into_inner);
            entrypoints.insert(path.clone());
        }
        Ok((version, blob))
    }

    fn real(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        self.tree.real(path)
    }

    fn entry(&self, path: &RepoPath) -> Result<Option<Entry>, TreeError> {
        self.tree.entry(path)
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.tree.files()
    }

    fn write(&self, path: &RepoPath, content: Bytes) -> Result<(), TreeError> {
        self.check(path)?;
        self.guard.redactor.learn_file(None, &content);
        self.tree.write(path, content)
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        self.check(path)?;
        self.tree.delete(path)
    }

    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        self.tree.below(directory)
    }

    fn stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        self.tree.stored(path)
    }

    fn put(&self, path: &RepoPath, after: Option<FileVersion>) -> Result<(), TreeError> {
        self.tree.put(path, after)
    }

    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError> {
        let accepts = |path: &str| accepts(path) && !self.guard.denied.holds(path);
        let (matches, total) = self.tree.search(&accepts, needle, offset, limit)?;
        let found: BTreeSet<&RepoPath> = matches.iter().map(|found| &found.path).collect();
        found.into_iter().for_each(|path| self.learn_at(path));
        Ok((matches, total))
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        // Whoever shows them learns from them: writes only count them.
        self.tree.changes()
    }
}
