//! A tree as tools and programs see it. Files that hold secrets by their names are not read, even through a link.
//! The secrets in other files are learnt before any part of those files is shown.

use super::named_secrets::{self, LookupBudget};
use super::{Base, DeniedFiles, Match, Tree, TreeEntry, TreeError, lines};
use crate::base::model::{FileChange, FileVersion, MAIN_FILE, RepoPath};
use crate::base::redact::Redactor;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

/// The files and secrets of a workspace that are hidden from its readers.
#[derive(Clone, Debug)]
pub struct SecretGuard {
    /// Files that must not be read.
    pub denied: Arc<DeniedFiles>,
    /// Hides the secrets that were learnt on behalf of one person.
    pub redactor: Arc<Redactor>,
}

/// Denies no file and knows no live secret.
impl Default for SecretGuard {
    fn default() -> Self {
        Self {
            denied: Arc::default(),
            redactor: Arc::new(Redactor::new([])),
        }
    }
}

impl SecretGuard {
    /// Refuses a file that is denied by the requested name or by its real name.
    pub fn check(&self, tree: &dyn Tree, path: &RepoPath) -> Result<(), TreeError> {
        let holds = |path: &RepoPath| self.denied.is_denied(path.as_str());
        let is_denied = holds(path) || tree.real_path(path).is_ok_and(|real| holds(&real));
        match is_denied {
            true => Err(TreeError::Denied { path: path.clone() }),
            false => Ok(()),
        }
    }

    /// Learns the secrets on both sides of changes to a tree. Returns the files for which the result is unknown,
    /// because the search for their names exceeded the budget; the text of these files must not be shown. Another
    /// call with the same changes searches for more names. Stops early and returns nothing once `is_stopped`
    /// returns true.
    pub fn learn(
        &self,
        changes: &[FileChange],
        tree: &dyn Tree,
        is_stopped: &dyn Fn() -> bool,
    ) -> Option<BTreeSet<RepoPath>> {
        let versions = || {
            changes.iter().flat_map(|change| {
                let versions = change.before.iter().chain(&change.after);
                versions.map(|version| (&change.path, &version.content))
            })
        };
        for (_, content) in versions() {
            if is_stopped() {
                return None;
            }
            self.redactor.learn_file(None, content);
        }
        // This needs all changes first: one file may declare another file a secret.
        let (looks, mut unknown) = (LookupBudget::new(is_stopped), BTreeSet::new());
        for (path, content) in versions() {
            if looks.is_cancelled() {
                return None;
            }
            if !self.learn_named(tree, path, content, &looks) {
                unknown.insert(path.clone());
            }
        }
        Some(unknown)
    }

    /// Learns the secrets of changes to a tree in as many passes as there are names to search for. Once
    /// `is_stopped` returns true, each remaining file is treated as a secret as a whole and is not shown.
    pub fn learn_all(&self, changes: &[FileChange], tree: &dyn Tree, is_stopped: &dyn Fn() -> bool) {
        let (mut left, mut unknown) = (self.learn(changes, tree, &|| false), changes.len());
        while let Some(files) = left {
            match files.len() {
                0 => return,
                fewer if fewer < unknown => unknown = fewer,
                _ => break,
            }
            left = self.learn(changes, tree, is_stopped);
        }
        for change in changes {
            let versions = change.before.iter().chain(&change.after);
            let unknown = versions.filter(|version| !self.is_known(tree, &change.path, &version.content));
            unknown.for_each(|version| self.redactor.learn_named_file(&version.content));
        }
    }

    fn is_known(&self, tree: &dyn Tree, path: &RepoPath, content: &Bytes) -> bool {
        self.learn_named(tree, path, content, &LookupBudget::exhausted())
    }

    /// Learns a file that is a secret as a whole, by its own name or because configuration says so. Returns false
    /// if this is unknown.
    fn learn_named(
        &self,
        tree: &dyn Tree,
        path: &RepoPath,
        content: &Bytes,
        looks: &LookupBudget<'_>,
    ) -> bool {
        let is_one = |path: &RepoPath| match self.redactor.is_secret_file(path) {
            true => Some(true),
            false => named_secrets::is_named_secret(tree, self, (path, content), looks),
        };
        let mut is_named = is_one(path);
        if is_named != Some(true)
            && let Ok(real) = tree.real_path(path)
            && real != *path
        {
            // Configuration may name the target of a link.
            is_named = match (is_named, is_one(&real)) {
                (_, Some(true)) => Some(true),
                (None, _) | (_, None) => None,
                (Some(_), Some(false)) => Some(false),
            };
        }
        if is_named == Some(true) {
            self.redactor.learn_named_file(content);
        }
        is_named.is_some()
    }
}

/// A tree that applies a secret guard to every read.
#[derive(Debug)]
pub struct GuardedTree {
    tree: Arc<dyn Tree>,
    guard: SecretGuard,
    /// Entry points of environments that were read. The lock is held to add one or to take all.
    entrypoints: Mutex<BTreeSet<RepoPath>>,
}

impl GuardedTree {
    pub(crate) fn new(tree: Arc<dyn Tree>, guard: SecretGuard) -> Self {
        Self {
            tree,
            guard,
            entrypoints: Mutex::default(),
        }
    }

    /// Returns the guard of the tree.
    pub fn guard(&self) -> &SecretGuard {
        &self.guard
    }

    /// Returns the entry points of environments that were read so far.
    pub fn entrypoints(&self) -> BTreeSet<RepoPath> {
        let entrypoints = self.entrypoints.lock().unwrap_or_else(PoisonError::into_inner);
        entrypoints.clone()
    }

    fn check(&self, path: &RepoPath) -> Result<(), TreeError> {
        self.guard.check(self.tree.as_ref(), path)
    }

    /// Learns the secrets of a whole file before one of its lines is shown.
    fn learn_at(&self, path: &RepoPath) -> Option<Bytes> {
        if let Ok((version, blob)) = self.tree.read_with_blob(path) {
            self.learn(path, Some(&blob), &version.content);
            return Some(version.content);
        }
        let version = self.tree.read_stored(path).ok().flatten()?;
        self.learn(path, None, &version.content);
        Some(version.content)
    }

    fn learn(&self, path: &RepoPath, blob: Option<&str>, content: &Bytes) {
        self.guard.redactor.learn_file(blob, content);
        // One file and its link target always fit the budget.
        let looks = LookupBudget::new(&|| false);
        self.guard.learn_named(self.tree.as_ref(), path, content, &looks);
    }
}

impl Tree for GuardedTree {
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError> {
        self.read_with_blob(path).map(|(version, _)| version)
    }

    fn read_with_blob(&self, path: &RepoPath) -> Result<(FileVersion, String), TreeError> {
        self.check(path)?;
        let (version, blob) = self.tree.read_with_blob(path)?;
        self.learn(path, Some(&blob), &version.content);
        if path.file_name() == MAIN_FILE {
            let mut entrypoints = self.entrypoints.lock().unwrap_or_else(PoisonError::into_inner);
            entrypoints.insert(path.clone());
        }
        Ok((version, blob))
    }

    fn real_path(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        self.tree.real_path(path)
    }

    fn entry(&self, path: &RepoPath) -> Result<Option<TreeEntry>, TreeError> {
        self.tree.entry(path)
    }

    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.tree.files()
    }

    fn all_files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.tree.all_files()
    }

    fn write(&self, path: &RepoPath, content: Bytes) -> Result<(), TreeError> {
        self.check(path)?;
        self.learn(path, None, &content);
        self.tree.write(path, content)
    }

    fn delete(&self, path: &RepoPath) -> Result<(), TreeError> {
        self.check(path)?;
        self.tree.delete(path)
    }

    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError> {
        self.tree.files_below(directory)
    }

    fn list_directory(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        self.tree.list_directory(directory)
    }

    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        self.tree.read_stored(path)
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
        let accepts = |path: &str| accepts(path) && !self.guard.denied.is_denied(path);
        let (mut matches, total) = self.tree.search(&accepts, needle, offset, limit)?;
        let mut read = BTreeMap::new();
        for found in &matches {
            read.entry(found.path.clone())
                .or_insert_with(|| self.learn_at(&found.path));
        }
        for found in matches.iter_mut().filter(|found| lines::is_cut(&found.text)) {
            let content = read.get(&found.path).and_then(Option::as_ref);
            let text = content
                .and_then(|content| lines::shown_without_secrets(content, found.line, &self.guard.redactor));
            found.text = text.unwrap_or_default();
        }
        Ok((matches, total))
    }

    fn overlay_base(&self) -> Option<Arc<Base>> {
        self.tree.overlay_base()
    }

    fn changes(&self) -> Result<Vec<FileChange>, TreeError> {
        // A caller that shows the changes learns their secrets itself. A write only counts the changes.
        self.tree.changes()
    }
}
