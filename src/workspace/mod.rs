//! A private view of a repository: the base commit, this conversation's edits on top, and the
//! history behind it. Every tool reads and writes through [`Tree`]; its backends are the
//! copy-on-write overlay of the gateway, the real directory of the terminal, and that directory as it was before the
//! edits of a session. `.git` does not exist for any of them.

mod base;
mod reverted_tree;
mod denied;
mod directory;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[allow(clippy::disallowed_methods, reason = "tests build their own files")]
mod fixture;
mod guarded_tree;
mod hash;
mod lines;
mod links;
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
pub use overlay::{Overlay, WorkspaceEdits};
pub use repository::{Commit, FetchProgress, Mirror, OnFetch, Repository, RepositoryError};
pub(crate) use repository::{Meter, objects_bounded, transport};
pub use reverted_tree::RevertedTree;
pub use unused_mirrors::{UnusedMirrors, files_below};

use crate::model::{FileChange, FileVersion, RepoPath};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A reason why a file operation failed. The model reads it.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The file does not exist.
    #[error("no file `{path}`{}", hint(.similar))]
    NotFound {
        /// The path that was asked for.
        path: RepoPath,
        /// Up to three existing paths that look like it.
        similar: Vec<RepoPath>,
    },
    /// A directory where a file was expected, or the other way round.
    #[error("`{path}` is {}", article(.what))]
    WrongKind {
        /// The path that was asked for.
        path: RepoPath,
        /// `directory`, `symlink that leaves the repository`, `not a regular file`.
        what: &'static str,
    },
    /// The operation would leave the repository or touch git's own files.
    #[error("`{path}`: {why}")]
    Refused {
        /// The path that was asked for.
        path: RepoPath,
        /// The reason, in words for the model.
        why: &'static str,
    },
    /// Another spelling of its name is there, which some file systems take for the same.
    #[error(
        "`{path}`: it is there already under a name that is spelled otherwise; list the directory, and use the name it has"
    )]
    OtherSpelling {
        /// The path that was asked for.
        path: RepoPath,
    },
    /// The file is on the list of files that hold secrets.
    #[error(
        "`{path}` holds secrets by its name (`sandbox.secrets_denied`), so it is not looked into; work with the \
         files that name it, or ask the operator to allow it"
    )]
    Denied {
        /// The path that was asked for.
        path: RepoPath,
    },
    /// Larger than a tool may read.
    #[error("`{path}` has {bytes} bytes; the limit is {bytes_max}{}", of_key(.key.as_ref()))]
    TooLarge {
        /// The path that was asked for.
        path: RepoPath,
        /// The size of the file.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
        /// The key of the configuration that sets it, where one does.
        key: Option<&'static str>,
    },
    /// The disk or the object database failed.
    #[error("`{path}` could not be read or written: {why}")]
    Io {
        /// The path that was asked for.
        path: String,
        /// The reason, without machine paths.
        why: String,
    },
}

/// The key of the configuration that says how large a file may be that is read.
pub const FILE_BYTES_MAX_KEY: &str = "sandbox.file_bytes_max";
/// Largest file that is read where nothing else is configured.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Makes a directory that only this user can read, and those above it that are missing.
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

/// A line that contains the text that was searched for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The file.
    pub path: RepoPath,
    /// Line number from 1.
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
    /// A symlink, with its target as it is written.
    Symlink(Bytes),
    /// An entry that no tool reads: a pipe, a device.
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

/// The names in a directory of which sorted files are known, and whether each is a directory itself.
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

/// A tree of files, as tools see it. All methods are synchronous: callers that must not block run
/// them on a blocking thread.
pub trait Tree: Send + Sync + std::fmt::Debug {
    /// The file at `path` with its mode. Symlinks inside the tree are followed by `read`.
    fn read(&self, path: &RepoPath) -> Result<FileVersion, TreeError>;

    /// The file as `read` answers it, with git's SHA-1 of its content, or what stands for it in a base.
    fn read_with_blob(&self, path: &RepoPath) -> Result<(FileVersion, String), TreeError> {
        with_blob(path, self.read(path)?)
    }

    /// The path of what `read` reads at `path`: links on the way are followed. As it is here, it suits trees
    /// without symlinks.
    fn real_path(&self, path: &RepoPath) -> Result<RepoPath, TreeError> {
        Ok(path.clone())
    }

    /// Returns the entry at `path`, without following it; `None` when there is nothing. Unlike a failing
    /// `read` it looks for no similar names, so asking in vain is cheap. As it is here, it suits trees
    /// without symlinks.
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

    /// All files, sorted by path, dot-files included.
    fn files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError>;

    /// All files, sorted by path; also those that git ignores. As it is here, it suits trees that have none of those.
    fn all_files(&self) -> Result<Arc<Vec<RepoPath>>, TreeError> {
        self.files()
    }

    /// Creates or replaces a file; an existing file keeps its mode. All or nothing.
    fn write(&self, path: &RepoPath, content: Bytes) -> Result<(), TreeError>;

    /// Deletes a file.
    fn delete(&self, path: &RepoPath) -> Result<(), TreeError>;

    /// All files below a directory, sorted by path; also those that are ignored. The root is `""`.
    fn files_below(&self, directory: &str) -> Result<Vec<RepoPath>, TreeError>;

    /// The names in a directory, sorted, and whether each is a directory itself; none where there is no such directory.
    /// Also those that are ignored. The root is `""`. As it is here, it suits trees whose files are at hand.
    fn list_directory(&self, directory: &str) -> Result<Vec<(String, bool)>, TreeError> {
        Ok(names_of(&self.files_below(directory)?, directory))
    }

    /// The file or symlink at `path` as git would store it, not followed, of at most 16 MiB; `None`
    /// when nothing is there.
    fn read_stored(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError>;

    /// Puts what a program of ours made in place: content, mode and all, or a symlink, or `None` to
    /// take away what is there. For vendored packages, whose files tools do not write one by one.
    fn put(&self, path: &RepoPath, after: Option<FileVersion>) -> Result<(), TreeError>;

    /// Every line of a text file whose path `accepts` that contains `needle`, sorted by path and line:
    /// the matches from `offset` on, at most `limit`, and how many there are in all. Binary files
    /// (a NUL byte) are skipped. Lines are cut to 500 characters.
    fn search(
        &self,
        accepts: &dyn Fn(&str) -> bool,
        needle: &str,
        offset: usize,
        limit: usize,
    ) -> Result<(Vec<Match>, usize), TreeError>;

    /// The changes against the base, sorted by path.
    fn changes(&self) -> Result<Vec<FileChange>, TreeError>;
}

/// A tree, the repository it belongs to, and the commit it is based on.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The repository, with its history.
    pub repository: Arc<Repository>,
    /// The base commit as hex digits; `None` in a repository without commits.
    pub base: Option<String>,
    /// The files, all of them.
    pub tree: Arc<dyn Tree>,
    /// The guard that keeps secrets from whoever looks at them.
    pub guard: SecretGuard,
}

impl Workspace {
    /// The files as tools and programs see them.
    pub fn guarded_tree(&self) -> Arc<GuardedTree> {
        Arc::new(GuardedTree::new(Arc::clone(&self.tree), self.guard.clone()))
    }
}
