//! The immutable files of one commit, shared by all its users. They are stored in one memory-mapped file, so that
//! thousands of workspaces cost almost nothing and a search is a pass through memory.

mod build;
mod pack;
mod prune;
mod search;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[allow(clippy::disallowed_methods, reason = "tests build their own files")]
mod tests;

pub use prune::{clear_unfinished, old_packs, remove_pack};

use super::repository::{CommitListing, ObjectDatabase};
use super::{FILE_BYTES_MAX, RepositoryError, TreeError, hash};
use crate::base::model::{FileMode, FileVersion, RepoPath};
use bytes::Bytes;
use pack::{FileRecord, PackedBase};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Maximum size of an object that is read as a whole, in bytes.
const OBJECT_BYTES_MAX: u64 = 256 << 20;
/// Maximum number of packed files that are kept per repository.
const PACKS_MAX: usize = 4;

/// The progress of loading a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseProgress {
    /// Files that are finished.
    pub done: usize,
    /// Files in all.
    pub total: usize,
}

/// The number of files of a commit that its base leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Submodules, which are content of another repository.
    pub submodules: u32,
    /// Files whose names are not UTF-8 or not valid as a [`RepoPath`].
    pub names: u32,
}

/// The immutable tree of one commit.
pub struct Base {
    commit: String,
    format: gix::hash::Kind,
    pack: PackedBase,
    objects: ObjectDatabase,
    file_bytes_max: u64,
    paths: OnceLock<Arc<Vec<RepoPath>>>,
    has_links: OnceLock<bool>,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Base")
            .field("commit", &self.commit)
            .field("files", &self.len())
            .finish()
    }
}

impl Base {
    /// Loads the packed base of `commit` from `directory`. Returns `None` if it is missing or damaged.
    pub(super) fn load(directory: &Path, commit: gix::ObjectId, objects: &ObjectDatabase) -> Option<Self> {
        let pack = PackedBase::open(&pack_path(directory, commit), hash::object_name(&commit))?;
        Some(Self::with_pack(commit, pack, objects))
    }

    fn with_pack(commit: gix::ObjectId, pack: PackedBase, objects: &ObjectDatabase) -> Self {
        Self {
            commit: commit.to_string(),
            format: commit.kind(),
            pack,
            objects: objects.clone(),
            file_bytes_max: FILE_BYTES_MAX,
            paths: OnceLock::new(),
            has_links: OnceLock::new(),
        }
    }

    /// Builds the base of `commit` in a file without a name, so that nothing is left behind in `directory`.
    pub(super) fn build_unnamed(
        directory: &Path,
        commit: gix::ObjectId,
        listing: &CommitListing,
        objects: &ObjectDatabase,
    ) -> Result<Self, RepositoryError> {
        let name = hash::object_name(&commit);
        let file = build::build_unnamed(directory, name, listing, objects)?;
        let pack = PackedBase::read(file, name);
        let pack =
            pack.ok_or_else(|| RepositoryError::Unreadable("its base could not be read back".to_owned()))?;
        Ok(Self::with_pack(commit, pack, objects))
    }

    /// Builds and stores the base of `commit`, reusing the content of `previous`.
    pub(super) fn build(
        directory: &Path,
        commit: gix::ObjectId,
        listing: &CommitListing,
        objects: &ObjectDatabase,
        previous: Option<&Self>,
        progress: &dyn Fn(BaseProgress),
    ) -> Result<Self, RepositoryError> {
        let unreadable = |why: &str| RepositoryError::Unreadable(why.to_owned());
        create_private(directory)?;
        build::build(
            &pack_path(directory, commit),
            hash::object_name(&commit),
            listing,
            objects,
            previous,
            progress,
        )?;
        let base = Self::load(directory, commit, objects)
            .ok_or_else(|| unreadable("its base could not be read back"))?;
        prune::keep_newest(directory, &pack_path(directory, commit));
        Ok(base)
    }

    /// Sets the maximum size of a file that is read.
    pub(super) fn bounded(self, file_bytes_max: u64) -> Self {
        Self {
            file_bytes_max,
            ..self
        }
    }

    /// Returns the maximum size of a file that is read.
    pub fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max
    }

    /// Returns the commit in hex digits.
    pub fn commit(&self) -> &str {
        &self.commit
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.pack.len()
    }

    /// True if there are no files.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of files of the commit that the base leaves out.
    pub fn skipped(&self) -> Skipped {
        Skipped {
            submodules: self.pack.header().skipped_submodules,
            names: self.pack.header().skipped_names,
        }
    }

    /// Returns all files, sorted by path.
    pub fn files(&self) -> Arc<Vec<RepoPath>> {
        let list = || {
            let name = |index| {
                let record = self.pack.record(index)?;
                RepoPath::parse(std::str::from_utf8(self.pack.name(&record)).ok()?).ok()
            };
            Arc::new((0..self.len()).filter_map(name).collect())
        };
        self.paths.get_or_init(list).clone()
    }

    /// True if there is a file or symlink at `path`.
    pub fn contains(&self, path: &RepoPath) -> bool {
        self.record(path).is_some()
    }

    /// Returns the mode and size of the file at `path`.
    pub fn stat(&self, path: &RepoPath) -> Option<(FileMode, u64)> {
        self.record(path).map(|record| (mode(&record), record.size))
    }

    /// Returns the git hash of the file at `path` in hex digits.
    pub fn blob(&self, path: &RepoPath) -> Option<String> {
        let record = self.record(path)?;
        Some(hash::object_id(&record.blob, self.format).to_string())
    }

    /// True if any file is a symlink.
    pub fn has_links(&self) -> bool {
        let is_link = |index| {
            self.pack
                .record(index)
                .is_some_and(|record| mode(&record) == FileMode::Symlink)
        };
        *self.has_links.get_or_init(|| (0..self.len()).any(is_link))
    }

    /// Returns the files below the directory `path`, sorted.
    pub fn files_below(&self, path: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{path}/");
        let start = self.pack.lower_bound(prefix.as_bytes());
        (start..self.len())
            .map_while(move |index| {
                let record = self.pack.record(index)?;
                let name = self.pack.name(&record);
                name.starts_with(prefix.as_bytes()).then_some(name)
            })
            .filter_map(|name| std::str::from_utf8(name).ok())
    }

    /// Returns all names in a directory. The root is `""`. The cost depends on the number of names in that
    /// directory.
    pub fn names(&self, directory: &str) -> Vec<String> {
        let prefix = match directory {
            "" => String::new(),
            _ => format!("{directory}/"),
        };
        let mut names = Vec::new();
        let mut index = self.pack.lower_bound(prefix.as_bytes());
        while let Some(record) = self.pack.record(index) {
            let Some(inner) = self.pack.name(&record).strip_prefix(prefix.as_bytes()) else {
                break;
            };
            let end = inner.iter().position(|byte| *byte == b'/');
            let name = inner.get(..end.unwrap_or(inner.len())).unwrap_or_default();
            names.extend(std::str::from_utf8(name).map(str::to_owned));
            index = match end {
                // Everything below that name sorts before the character after `/`.
                Some(_) => self.pack.lower_bound(&[prefix.as_bytes(), name, b"0"].concat()),
                None => index + 1,
            };
        }
        names
    }

    /// Returns the file at `path` in the commit, whatever its size, or `None` if there is none.
    pub fn read(&self, path: &RepoPath) -> Result<Option<FileVersion>, TreeError> {
        let Some(record) = self.record(path) else {
            return Ok(None);
        };
        let content = match self.pack.content(&record) {
            Some(content) => content,
            None => self.read_object(path, &record)?,
        };
        Ok(Some(FileVersion {
            content,
            mode: mode(&record),
        }))
    }

    fn read_object(&self, path: &RepoPath, record: &FileRecord) -> Result<Bytes, TreeError> {
        if record.size > OBJECT_BYTES_MAX {
            return Err(TreeError::TooLarge {
                path: path.clone(),
                bytes: record.size,
                bytes_max: OBJECT_BYTES_MAX,
                key: None,
            });
        }
        let object = self
            .objects
            .thread_local()
            .find_object(hash::object_id(&record.blob, self.format))
            .map_err(|err| TreeError::Io {
                path: path.to_string(),
                why: err.to_string(),
            })?
            .detach();
        Ok(Bytes::from(object.data))
    }

    fn record(&self, path: &RepoPath) -> Option<FileRecord> {
        let record = self
            .pack
            .record(self.pack.lower_bound(path.as_str().as_bytes()))?;
        (self.pack.name(&record) == path.as_str().as_bytes()).then_some(record)
    }
}

fn mode_sign(mode: FileMode) -> u8 {
    match mode {
        FileMode::Regular => b'R',
        FileMode::Executable => b'X',
        FileMode::Symlink => b'L',
    }
}

fn mode(record: &FileRecord) -> FileMode {
    match record.mode {
        b'X' => FileMode::Executable,
        b'L' => FileMode::Symlink,
        _ => FileMode::Regular,
    }
}

fn pack_path(directory: &Path, commit: gix::ObjectId) -> PathBuf {
    directory.join(format!("{commit}.pack"))
}

fn create_private(directory: &Path) -> Result<(), RepositoryError> {
    super::make_private(directory)
        .map_err(|err| RepositoryError::Unreadable(format!("no directory for its base: {err}")))
}
