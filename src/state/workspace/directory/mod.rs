//! The terminal's tree: the person's work tree, changed in place. Operations reach nothing outside it, nothing in
//! `.git`, and only regular files.

mod checked_put;
mod handle;
mod disk_names;
mod tree;

/// Returns the reason why there is no work tree.
fn no_work_tree(start: &Path, inside: &Path) -> String {
    let is_bare = |directory: &Path| {
        directory.join("HEAD").is_file()
            && directory.join("objects").is_dir()
            && directory.join("refs").is_dir()
    };
    let start = start.display();
    if inside.ancestors().any(is_bare) {
        return format!(
            "`{start}` is in a bare repository, which has no files to work on; clone it, and change to the clone"
        );
    }
    format!("`{start}` is not inside a git repository; change to one, or create one with `git init`")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[allow(clippy::disallowed_methods, reason = "tests build their own files")]
mod tests;

use crate::base::model::{FileMode, FileVersion, RepoPath};
use crate::state::workspace::{
    FILE_BYTES_MAX, FILE_BYTES_MAX_KEY, RepositoryError, Tree, TreeError, links, nearest, spelling,
};
use disk_names::DiskNames;
use handle::{DiskEntry, Handle};
use rustix::fs::Mode as Permissions;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of files in a listing.
const FILES_MAX: usize = 500_000;
/// Maximum size in bytes of a file that is searched or kept as it was before a change, unless larger files may be
/// read.
const KEPT_BYTES_MAX: u64 = 16 << 20;
/// Maximum size in bytes of a file that is compared with a commit.
const COMPARED_BYTES_MAX: u64 = 256 << 20;

/// Permissions of a new program, which every user may run.
const EXECUTABLE_PERMISSIONS: Permissions = Permissions::RWXU
    .union(Permissions::RGRP)
    .union(Permissions::XGRP)
    .union(Permissions::ROTH)
    .union(Permissions::XOTH);

/// The work tree that contains a directory.
pub struct Directory {
    root: PathBuf,
    handle: Handle,
    file_bytes_max: u64,
    disk_names: DiskNames,
    // The files as they were before their first change in this run. The lock is held during each change, so that of
    // two changes to one file the older content is kept.
    before: Mutex<BTreeMap<RepoPath, Option<FileVersion>>>,
    // The permissions of files that this run deleted, for restoring them.
    deleted: Mutex<BTreeMap<RepoPath, Permissions>>,
}

impl std::fmt::Debug for Directory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory")
            .field("root", &self.root)
            .finish_non_exhaustive()
    }
}

impl Directory {
    /// Opens the work tree that contains `start`.
    pub fn open(start: &Path) -> Result<Self, RepositoryError> {
        Self::open_by(Handle::open, start)
    }

    fn open_by(
        handle: impl FnOnce(&Path) -> rustix::io::Result<Handle>,
        start: &Path,
    ) -> Result<Self, RepositoryError> {
        let refused = |why: String| RepositoryError::Refused(why);
        let inside = start
            .canonicalize()
            .map_err(|err| refused(format!("`{}` cannot be opened: {err}", start.display())))?;
        let root = inside
            .ancestors()
            .find(|directory| directory.join(".git").exists())
            .ok_or_else(|| refused(no_work_tree(start, &inside)))?;
        let handle =
            handle(root).map_err(|err| refused(format!("`{}` cannot be opened: {err}", root.display())))?;
        Ok(Self {
            root: root.to_owned(),
            handle,
            file_bytes_max: FILE_BYTES_MAX,
            disk_names: DiskNames::default(),
            before: Mutex::new(BTreeMap::new()),
            deleted: Mutex::new(BTreeMap::new()),
        })
    }

    /// Sets the maximum size of a file that is read.
    #[must_use]
    pub fn bounded(self, file_bytes_max: u64) -> Self {
        Self {
            file_bytes_max,
            ..self
        }
    }

    /// Returns the root of the work tree, which contains `.git`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Restores a file to `wanted` if it still is as `expected`: bytes, mode, and existence. Returns false and
    /// changes nothing if the file was changed in the meantime.
    pub fn put_back(
        &self,
        path: &RepoPath,
        expected: Option<&FileVersion>,
        wanted: Option<&FileVersion>,
    ) -> Result<bool, TreeError> {
        let _before = self.begin_change();
        self.check_change(path)?;
        let now = match self.version(path, self.kept_bytes_max()) {
            Err(TreeError::WrongKind { .. } | TreeError::TooLarge { .. }) => return Ok(false),
            other => other?,
        };
        if now.as_ref() != expected {
            return Ok(false);
        }
        let Some(wanted) = wanted else {
            if now.is_some() {
                self.handle
                    .delete(path.as_str())
                    .map_err(|err| failed(path, err))?;
            }
            return Ok(true);
        };
        if wanted.mode == FileMode::Symlink {
            if now.is_some() {
                self.handle
                    .delete(path.as_str())
                    .map_err(|err| failed(path, err))?;
            }
            let linked = self.handle.link(path.as_str(), &wanted.content);
            return linked.map(|()| true).map_err(|err| failed(path, err));
        }
        let permissions = self.permissions(path, wanted.mode)?;
        self.handle
            .write(path.as_str(), &wanted.content, permissions)
            .map_err(|err| io(path, &err))?;
        Ok(true)
    }

    /// Returns the permissions for a restored file: its current ones, or those it had before its deletion.
    fn permissions(&self, path: &RepoPath, mode: FileMode) -> Result<Option<Permissions>, TreeError> {
        let fits = |bits: &Permissions| bits.contains(Permissions::XUSR) == (mode == FileMode::Executable);
        let present = match self.disk_entry(path)? {
            Some(DiskEntry::File { permissions, .. }) => Some(permissions),
            Some(DiskEntry::Directory | DiskEntry::Symlink | DiskEntry::Other) | None => None,
        };
        let deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = present.filter(fits).or(deleted.get(path).copied().filter(fits));
        Ok(known.or((mode == FileMode::Executable).then_some(EXECUTABLE_PERMISSIONS)))
    }

    /// Locks the files as they were before their first change in this run.
    fn before(&self) -> MutexGuard<'_, BTreeMap<RepoPath, Option<FileVersion>>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the earlier versions for a change and clears the cached names, which the change may affect.
    fn begin_change(&self) -> MutexGuard<'_, BTreeMap<RepoPath, Option<FileVersion>>> {
        self.disk_names.forget_listings();
        self.before()
    }

    /// Returns the kind of entry at a path if its names are spelled as they are on disk.
    fn disk_entry(&self, path: &RepoPath) -> Result<Option<DiskEntry>, TreeError> {
        match self.disk_names.is_as_on_disk(&self.handle, path.as_str()) {
            Ok(true) => self.handle.entry(path.as_str()).map_err(|err| failed(path, err)),
            Ok(false) => Err(spelling::other_spelling_error(path)),
            Err(err) => Err(failed(path, err)),
        }
    }

    /// Returns the file or symlink at `path` as git would store it, or `None` if there is nothing.
    fn version(&self, path: &RepoPath, bytes_max: u64) -> Result<Option<FileVersion>, TreeError> {
        match self.disk_entry(path)? {
            None => Ok(None),
            Some(DiskEntry::Directory) => Err(TreeError::WrongKind {
                path: path.clone(),
                what: "directory",
            }),
            Some(DiskEntry::Other) => Err(not_regular(path)),
            Some(DiskEntry::Symlink) => {
                let target = self
                    .handle
                    .target(path.as_str())
                    .map_err(|err| failed(path, err))?;
                Ok(Some(FileVersion {
                    content: target.into(),
                    mode: FileMode::Symlink,
                }))
            }
            Some(DiskEntry::File { permissions, bytes }) => {
                let too_large = |bytes| TreeError::TooLarge {
                    path: path.clone(),
                    bytes,
                    bytes_max,
                    key: (bytes_max < COMPARED_BYTES_MAX).then_some(FILE_BYTES_MAX_KEY),
                };
                if bytes > bytes_max {
                    return Err(too_large(bytes));
                }
                let content = self
                    .handle
                    .read(path.as_str(), bytes_max)
                    .map_err(|err| io(path, &err))?;
                let mode = match permissions.contains(Permissions::XUSR) {
                    false => FileMode::Regular,
                    true => FileMode::Executable,
                };
                // It was a small regular file a moment ago. It has grown, or another entry has replaced it.
                let content = content.ok_or_else(|| too_large(bytes))?;
                Ok(Some(FileVersion {
                    content: content.into(),
                    mode,
                }))
            }
        }
    }

    /// Returns the maximum size of a file that is kept, at least the maximum size of a file that is read.
    fn kept_bytes_max(&self) -> u64 {
        self.file_bytes_max.max(KEPT_BYTES_MAX)
    }

    fn check_kept(&self, path: &RepoPath, bytes: u64) -> Result<(), TreeError> {
        let bytes_max = self.kept_bytes_max();
        match bytes <= bytes_max {
            true => Ok(()),
            false => Err(TreeError::TooLarge {
                path: path.clone(),
                bytes,
                bytes_max,
                key: Some(FILE_BYTES_MAX_KEY),
            }),
        }
    }

    fn check_change(&self, path: &RepoPath) -> Result<(), TreeError> {
        links::check_settings(path)?;
        self.check_place(path)
    }

    /// Refuses a path behind a symlink or a file.
    fn check_place(&self, path: &RepoPath) -> Result<(), TreeError> {
        for ancestor in links::ancestors(path) {
            let ancestor = RepoPath::parse(ancestor).unwrap_or_else(|_| path.clone());
            match self.disk_entry(&ancestor)? {
                Some(DiskEntry::Symlink) => return Err(behind_symlink(path)),
                Some(DiskEntry::File { .. } | DiskEntry::Other) => {
                    return Err(TreeError::WrongKind {
                        path: ancestor,
                        what: "file",
                    });
                }
                Some(DiskEntry::Directory) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// Returns the files and symlinks of a walk.
    fn listed(&self, walk: ignore::Walk) -> Result<Vec<RepoPath>, TreeError> {
        let mut files = Vec::new();
        for entry in walk {
            // Entries that vanished or cannot be read are not listed.
            let Ok(entry) = entry else { continue };
            let listed = entry
                .file_type()
                .is_some_and(|kind| kind.is_file() || kind.is_symlink());
            let name = entry.path().strip_prefix(&self.root).ok().and_then(Path::to_str);
            if let (true, Some(Ok(path))) = (listed, name.map(RepoPath::parse)) {
                files.push(path);
            }
            if files.len() > FILES_MAX {
                return Err(TreeError::Io {
                    path: ".".to_owned(),
                    why: format!("more than {FILES_MAX} files"),
                });
            }
        }
        Ok(files)
    }

    fn not_found(&self, path: &RepoPath) -> TreeError {
        // A failure here must not hide the first error. The hint is optional.
        let files = self.files().unwrap_or_default();
        TreeError::NotFound {
            path: path.clone(),
            similar: nearest::nearest(&files, path),
        }
    }
}

fn behind_symlink(path: &RepoPath) -> TreeError {
    TreeError::Refused {
        path: path.clone(),
        why: "it is below a symlink; use the path the symlink points to",
    }
}

fn not_regular(path: &RepoPath) -> TreeError {
    TreeError::WrongKind {
        path: path.clone(),
        what: "not a regular file",
    }
}

fn failed(path: &RepoPath, err: rustix::io::Errno) -> TreeError {
    io(path, &err.into())
}

fn io(path: &RepoPath, err: &std::io::Error) -> TreeError {
    use rustix::io::Errno;
    match Errno::from_io_error(err) {
        // The kernel met a symlink or a path that leaves the directory.
        Some(Errno::LOOP | Errno::XDEV) => behind_symlink(path),
        Some(Errno::NXIO) => not_regular(path),
        _ => TreeError::Io {
            path: path.to_string(),
            why: err.to_string(),
        },
    }
}
