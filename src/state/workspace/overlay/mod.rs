//! The gateway's tree: an immutable shared base with the edits of one conversation on top. It does not use the
//! disk. A path is a key, and a new workspace costs almost nothing.

mod tree;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests;

use crate::base::model::{FileMode, FileVersion, RepoPath};
use crate::state::workspace::base::Base;
use crate::state::workspace::spelling::NameListing;
use crate::state::workspace::{FILE_BYTES_MAX_KEY, TreeError, links, nearest};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum size of a file that a tool writes, in bytes.
pub(super) const WRITTEN_BYTES_MAX: u64 = 1 << 20;

/// The edits of a conversation by path: a new version, or `None` for a deleted file.
pub type WorkspaceEdits = BTreeMap<RepoPath, Option<FileVersion>>;

/// A base and the edits on top of it.
pub struct Overlay {
    base: Arc<Base>,
    // Held for one operation only. No code waits while it holds the lock.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    edits: WorkspaceEdits,
    /// The merged list of files, until the next edit.
    files: Option<Arc<Vec<RepoPath>>>,
}

impl std::fmt::Debug for Overlay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Overlay")
            .field("base", &self.base)
            .field("edits", &self.state().edits.len())
            .finish()
    }
}

impl Overlay {
    /// Creates a workspace on `base` with its stored edits.
    pub fn new(base: Arc<Base>, edits: WorkspaceEdits) -> Self {
        Self {
            base,
            state: Mutex::new(State { edits, files: None }),
        }
    }

    /// Returns the edits, for storage.
    pub fn edits(&self) -> WorkspaceEdits {
        self.state().edits.clone()
    }

    /// True if there are no edits.
    pub fn is_untouched(&self) -> bool {
        self.state().edits.is_empty()
    }

    /// Returns the base below the edits.
    pub fn base(&self) -> &Arc<Base> {
        &self.base
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves a path to the real path of a file.
    fn real(&self, edits: &WorkspaceEdits, path: &RepoPath) -> Result<RepoPath, TreeError> {
        let is_link = |edit: &Option<FileVersion>| {
            let version = edit.as_ref();
            version.is_some_and(|version| version.mode == FileMode::Symlink)
        };
        if !self.base.has_links() && !edits.values().any(is_link) {
            return Ok(path.clone());
        }
        let target = |path: &RepoPath| match self.mode(edits, path) {
            Some(FileMode::Symlink) => Ok(self.version(edits, path)?.map(|version| version.content.to_vec())),
            Some(FileMode::Regular | FileMode::Executable) | None => Ok(None),
        };
        links::follow(path, &target)
    }

    /// Returns the real path and the content of a file. Refuses a file that is too large to read.
    fn file(&self, edits: &WorkspaceEdits, path: &RepoPath) -> Result<(RepoPath, FileVersion), TreeError> {
        let real = self.real(edits, path)?;
        let bytes = match edits.get(&real) {
            Some(edit) => edit.as_ref().map(|version| version.content.len() as u64),
            None => self.base.stat(&real).map(|(_, bytes)| bytes),
        };
        match bytes {
            Some(bytes) => check_read(path, bytes, self.base.file_bytes_max())?,
            None if self.is_directory(edits, real.as_str()) => {
                return Err(TreeError::WrongKind {
                    path: path.clone(),
                    what: "directory",
                });
            }
            None => return Err(self.not_found(edits, path)),
        }
        let version = self.version(edits, &real)?;
        let version = version.ok_or_else(|| self.not_found(edits, path))?;
        Ok((real, version))
    }

    /// Returns the mode of the file or symlink at `path` without following it.
    fn mode(&self, edits: &WorkspaceEdits, path: &RepoPath) -> Option<FileMode> {
        match edits.get(path) {
            Some(edit) => edit.as_ref().map(|version| version.mode),
            None => self.base.stat(path).map(|(mode, _)| mode),
        }
    }

    fn version(&self, edits: &WorkspaceEdits, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        match edits.get(path) {
            Some(edit) => Ok(edit.clone()),
            None => self.base.read(path),
        }
    }

    fn is_directory(&self, edits: &WorkspaceEdits, path: &str) -> bool {
        let prefix = format!("{path}/");
        let edited = RepoPath::parse(path).is_ok_and(|path| {
            edits
                .range(path..)
                .skip_while(|(path, _)| {
                    !path.as_str().starts_with(&prefix) && path.as_str() < prefix.as_str()
                })
                .take_while(|(path, _)| path.as_str().starts_with(&prefix))
                .any(|(_, edit)| edit.is_some())
        });
        edited || self.base.files_below(path).any(|name| !is_deleted(edits, name))
    }

    fn exists(&self, edits: &WorkspaceEdits, path: &str) -> bool {
        RepoPath::parse(path).is_ok_and(|path| self.mode(edits, &path).is_some())
            || self.is_directory(edits, path)
    }

    fn names<'a>(&'a self, edits: &'a WorkspaceEdits) -> OverlayNames<'a> {
        OverlayNames { tree: self, edits }
    }

    fn not_found(&self, edits: &WorkspaceEdits, path: &RepoPath) -> TreeError {
        TreeError::NotFound {
            path: path.clone(),
            similar: nearest::nearest(&self.merged(edits), path),
        }
    }

    fn merged(&self, edits: &WorkspaceEdits) -> Arc<Vec<RepoPath>> {
        let base = self.base.files();
        if edits.is_empty() {
            return base;
        }
        let mut files: Vec<RepoPath> = base
            .iter()
            .filter(|path| !edits.contains_key(*path))
            .cloned()
            .collect();
        files.extend(
            edits
                .iter()
                .filter(|(_, edit)| edit.is_some())
                .map(|(path, _)| path.clone()),
        );
        files.sort();
        Arc::new(files)
    }

    /// Refuses paths that a tool must not change: git's settings, and paths behind a symlink.
    fn check_change(&self, edits: &WorkspaceEdits, path: &RepoPath) -> Result<(), TreeError> {
        links::check_settings(path)?;
        self.check_place(edits, path)
    }

    /// Refuses a path behind a symlink or a file.
    fn check_place(&self, edits: &WorkspaceEdits, path: &RepoPath) -> Result<(), TreeError> {
        for ancestor in links::ancestors(path) {
            let Ok(ancestor) = RepoPath::parse(ancestor) else {
                continue;
            };
            match self.mode(edits, &ancestor) {
                Some(FileMode::Symlink) => {
                    return Err(TreeError::Refused {
                        path: path.clone(),
                        why: "it is below a symlink; use the path the symlink points to",
                    });
                }
                Some(FileMode::Regular | FileMode::Executable) => {
                    return Err(TreeError::WrongKind {
                        path: ancestor,
                        what: "file",
                    });
                }
                None => {}
            }
        }
        Ok(())
    }

    fn edit(&self, state: &mut State, path: &RepoPath, after: Option<FileVersion>) -> Result<(), TreeError> {
        // The content of the base is read only if the sizes are equal.
        let same_size = match (self.base.stat(path), &after) {
            (None, None) => true,
            (Some((_, bytes)), Some(after)) => bytes == after.content.len() as u64,
            (None, Some(_)) | (Some(_), None) => false,
        };
        if same_size && self.base.read(path)? == after {
            state.edits.remove(path);
        } else {
            state.edits.insert(path.clone(), after);
        }
        state.files = None;
        Ok(())
    }
}

/// The names in a base with the edits of an overlay applied.
struct OverlayNames<'a> {
    tree: &'a Overlay,
    edits: &'a WorkspaceEdits,
}

impl NameListing for OverlayNames<'_> {
    fn has(&self, path: &str) -> bool {
        self.tree.exists(self.edits, path)
    }

    fn names(&self, directory: &str) -> Option<Vec<String>> {
        let mut names = self.tree.base.names(directory);
        names.extend(self.edits.keys().filter_map(|path| {
            let inner = match directory {
                "" => path.as_str(),
                _ => path.as_str().strip_prefix(directory)?.strip_prefix('/')?,
            };
            Some(inner.split('/').next()?.to_owned())
        }));
        Some(names)
    }
}

fn is_deleted(edits: &WorkspaceEdits, name: &str) -> bool {
    !edits.is_empty() && RepoPath::parse(name).is_ok_and(|path| matches!(edits.get(&path), Some(None)))
}

/// Maximum size of a file that is stored without being written by a tool, such as one of a package, in bytes.
const STORED_BYTES_MAX: u64 = 16 << 20;

/// Refuses content above the storage limit.
pub(super) fn check_stored(path: &RepoPath, bytes: u64) -> Result<(), TreeError> {
    if bytes <= STORED_BYTES_MAX {
        return Ok(());
    }
    Err(TreeError::TooLarge {
        path: path.clone(),
        bytes,
        bytes_max: STORED_BYTES_MAX,
        key: None,
    })
}

/// Refuses a file above the read limit.
pub(super) fn check_read(path: &RepoPath, bytes: u64, bytes_max: u64) -> Result<(), TreeError> {
    if bytes <= bytes_max {
        return Ok(());
    }
    Err(TreeError::TooLarge {
        path: path.clone(),
        bytes,
        bytes_max,
        key: Some(FILE_BYTES_MAX_KEY),
    })
}

/// Refuses content above the write limit of a tool.
pub(super) fn check_written(path: &RepoPath, bytes: u64) -> Result<(), TreeError> {
    if bytes <= WRITTEN_BYTES_MAX {
        return Ok(());
    }
    Err(TreeError::TooLarge {
        path: path.clone(),
        bytes,
        bytes_max: WRITTEN_BYTES_MAX,
        key: None,
    })
}
