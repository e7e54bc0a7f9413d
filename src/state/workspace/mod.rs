//! A private view of a repository: the base commit, the edits of one conversation on top of it, and the history.
//! Every tool reads and writes through [`Tree`]. Its backends are the copy-on-write overlay of the gateway and of
//! reviews, which may have the ignored files of a directory as well, the real directory of the terminal, and that
//! directory as it was before the edits of a terminal run. `.git` is invisible in all of them.

mod base;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod contract;
mod reverted_tree;
mod denied;
mod directory;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[allow(clippy::disallowed_methods, reason = "tests build their own files")]
mod fixture;
mod guarded_tree;
mod hash;
mod ignored_files;
mod lines;
mod links;
pub mod merge;
mod named_secrets;
mod nearest;
mod overlay;
pub mod patch;
mod repository;
mod spelling;
mod unused_mirrors;

pub use base::{Base, BaseProgress, Skipped, clear_unfinished, old_packs, remove_pack};
pub use denied::DeniedFiles;
pub use directory::Directory;
pub use guarded_tree::{GuardedTree, SecretGuard};
pub use ignored_files::IgnoredFiles;
pub use overlay::{Overlay, WorkspaceEdits};
pub use repository::{Commit, FetchProgress, Mirror, OnFetch, Repository, RepositoryError, check_remote};
pub(crate) use repository::{Meter, objects_bounded, transport};
pub use reverted_tree::RevertedTree;
pub use unused_mirrors::{UnusedMirrors, files_below};

use crate::base::model::{FileChange, FileVersion, RepoPath};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A reason why a file operation failed. The model reads this text.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The file does not exist.
    #[error("no file `{path}`{}", hint(.similar))]
    NotFound {
        /// The requested path.
        path: RepoPath,
        /// Up to three existing paths with a similar name.
        similar: Vec<RepoPath>,
    },
    /// A directory was found where a file was expected, or the reverse.
    #[error("`{path}` is {}", article(.what))]
    WrongKind {
        /// The requested path.
        path: RepoPath,
        /// The entry that was found: `directory`, `symlink that leaves the repository`, `not a regular file`.
        what: &'static str,
    },
    /// The operation would leave the repository or change files that belong to git.
    #[error("`{path}`: {why}")]
    Refused {
        /// The requested path.
        path: RepoPath,
        /// The reason, phrased for the model.
        why: &'static str,
    },
    /// The name exists in another spelling, which some file systems treat as the same name.
    #[error(
        "`{path}`: it exists already under a name with another spelling; list the directory, and use the existing name"
    )]
    OtherSpelling {
        /// The requested path.
        path: RepoPath,
    },
    /// The file is on the list of files that hold secrets.
    #[error(
        "`{path}` holds secrets by its name (`sandbox.secrets_denied`), so no tool opens it; work with the files that refer to it, or ask the operator to allow it"
    )]
    Denied {
        /// The requested path.
        path: RepoPath,
    },
    /// The file is larger than a tool may read.
    #[error("`{path}` has {bytes} bytes; the limit is {bytes_max}{}", of_key(.key.as_ref()))]
    TooLarge {
        /// The requested path.
        path: RepoPath,
        /// The size of the file in bytes.
        bytes: u64,
        /// The limit in bytes.
        bytes_max: u64,
        /// The configuration key of the limit, if it is configurable.
        key: Option<&'static str>,
    },
    /// The disk or the object database failed.
    #[error("`{path}` could not be read or written: {why}")]
    Io {
        /// The requested path.
        path: String,
        /// The reason, without machine paths.
        why: String,
    },
}

/// Configuration key of the maximum size of a file that is read.
pub const FILE_BYTES_MAX_KEY: &str = "sandbox.file_bytes_max";
/// Default maximum size of a file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Creates a directory that only this user can read, and its missing parents.
#[allow(
    clippy::disallowed_methods,
    reason = "copies of repositories are kept on disk"
)]
fn make_private(directory: &std::path::Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(directory)
}

fn article(what: &str) -> String {
    if what.starts_with("not ") {
        what.to_owned()
    } else {
        format!("a {what}")
    }
}

fn of_key(key: Option<&&'static str>) -> String {
    key.map_or_else(String::new, |key| format!(" (`{key}`)"))
}

fn hint(similar: &[RepoPath]) -> String {
    if similar.is_empty() {
        return String::new();
    }
    let names: Vec<String> = similar.iter().map(|path| format!("`{path}`")).collect();
    format!("; similar: {}", names.join(", "))
}

/// A line that contains the search text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The file.
    pub path: RepoPath,
    /// The line number, counted from 1.
    pub line: u64,
    /// The line without its end.
    pub text: String,
}

/// The kind of entry at a path, before any symlink is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeEntry {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink, with its target as written.
    Symlink(Bytes),
    /// An entry that no tool reads, such as a pipe or a device.
    Other,
}

fn with_blob(path: &RepoPath, version: FileVersion) -> Result<(FileVersion, String), TreeError> {
    let blob = gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, &version.content)
        .map_err(|error| TreeError::Io {
            path: path.to_string(),
            why: error.to_string(),
        })?;
    Ok((version, blob.to_string()))
}

/// Returns the names in a directory from a sorted list of files, and whether each one is a directory.
fn names_of(files: &[RepoPath], directory: &str) -> Vec<(String, bool)> {
    let prefix = match directory {
        "" => String::new(),
        directory => format!("{directory}/"),
    };
    let begins = files.partition_point(|file| file.as_str() < prefix.as_str());
    let mut left = files.get(begins..).unwrap_or_default();
    let mut names = BTreeSet::new();
    while let Some(inner) = left.first().and_then(|file| file.as_str().strip_prefix(&prefix)) {
        let taken = match inner.split_once('/') {
            None => {
                names.insert((inner.to_owned(), false));
                1
            }
            Some((name, _)) => {
                names.insert((name.to_owned(), true));
                let within = format!("{prefix}{name}/");
                left.partition_point(|file| file.as_str().starts_with(&within))
            }
        };
        left = left.get(taken..).unwrap_or_default();
    }
    names.into_iter().collect()
}

/// A tree of files, as tools see it. All methods are synchronous. Callers that must not block run them on a
/// blocking thread.
pub trait Tree: Send + Sync + std::fmt::Debug {
    /// Returns the file at `path` with its mode. Follows symlinks inside the tree.
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError>;

    /// Returns the same file as `read`, with the git SHA-1 of its content or the object name from the base.
    fn read_with_blob(&self, path: &RepoPath) -> Result<(FileVersion, String), TreeError> {
        with_blob(path, self.read(path)?)
    }

    /// Returns the path of the file that `read` reads at `path`, with all links followed. The default
    /// implementation suits trees without symlinks.
    fn real_path(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        Ok(path.clone())
    }

    /// Returns the entry at `path` without following it, or `None` if there is no entry. Unlike a failing `read`,
    /// it does not search for similar names, so a miss is cheap. The default implementation suits trees without
    /// symlinks.
    fn entry(&self, path: &RepoPath) -> Result<Option<TreeEntry>, TreeError> {
        match self.read(path) {
            Ok(_) => Ok(Some(TreeEntry::File)),
            Err(TreeError::NotFound { .. }) => {
                let below = format!("{path}/");
                let is_directory = self.files()?.iter().any(|file| file.as_str().starts_with(&below));
                Ok(is_directory.then_some(TreeEntry::Directory))
            }
            Err(TreeError::WrongKind {
                what: "directory", ..
            }) => Ok(Some(TreeEntry::Directory)),
            Err(err) => Err(err),
        }
    }

    /// Returns all files, sorted by path, including dot-files.
    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError>;

    /// Returns all files, sorted by path, including files that git ignores. The default implementation suits trees
    /// without ignored files.
    fn all_files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.files()
    }

    /// Creates or replaces a file atomically. An existing file keeps its mode.
    fn write(&self, path: &RepoPath, content: Bytes) -> Result<(), TreeError>;

    /// Deletes a file.
    fn delete(&self, path: &RepoPath) -> Result<(), TreeError>;

    /// Returns all files below a directory, sorted by path, including ignored files. The root is `""`.
    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError>;

    /// Returns the sorted names in a directory, and whether each one is a directory. Returns an empty list if the
    /// directory does not exist. Includes ignored files. The root is `""`. The default implementation suits trees
    /// whose file list is in memory.
    fn list_directory(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        Ok(names_of(&self.files_below(directory)?, directory))
    }

    /// Returns the file or symlink at `path` as git would store it, not followed, of at most 16 MiB, or `None` if
    /// nothing is there.
    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError>;

    /// Writes the output of a program of this product: content and mode, or a symlink. `None` removes the entry.
    /// Used for vendored packages, whose files tools do not write one by one.
    fn put(&self, path: &RepoPath, after: Option<FileVersion>) -> Result<(), TreeError>;

    /// Searches the text files whose path `accepts` allows for lines that contain `needle`. Returns at most `limit`
    /// matches from `offset` on, sorted by path and line, and the total count. Binary files (with a NUL byte) are
    /// skipped. Lines are cut to 500 characters.
    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError>;

    /// Returns the base, if the tree has only its files and the changes.
    fn overlay_base(&self) -> Option<Arc<Base>> {
        None
    }

    /// Returns the changes against the base, sorted by path.
    fn changes(&self) -> Result<Vec<FileChange>, TreeError>;
}

/// A tree, the repository it belongs to, and the commit it is based on.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The repository, with its history.
    pub repository: Arc<Repository>,
    /// The base commit in hex digits, or `None` in a repository without commits.
    pub base: Option<String>,
    /// All files.
    pub tree: Arc<dyn Tree>,
    /// The guard that hides secrets from readers.
    pub guard: SecretGuard,
}

impl Workspace {
    /// Returns the files as tools and programs see them.
    pub fn guarded_tree(&self) -> Arc<GuardedTree> {
        Arc::new(GuardedTree::new(Arc::clone(&self.tree), self.guard.clone()))
    }
}
