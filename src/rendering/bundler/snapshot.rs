//! The checked files of one package at one commit. Files are named by paths inside the package, and their contents
//! are identified by hashes, so that all users of the same commit share them.

use crate::base::model::{FileMode, FileVersion, RepoPath};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The identity of a package. Its content never changes, because a commit does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackageId {
    /// The address of the repository.
    pub remote: String,
    /// The commit as 40 hex digits.
    pub commit: String,
    /// The directory in the repository.
    pub subdir: String,
}

/// A file of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    /// The path inside the package.
    pub path: RepoPath,
    /// The content or the target of a symlink.
    pub file: FileVersion,
}

/// The files of one package at one commit, sorted by path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageSnapshot {
    id: PackageId,
    entries: Vec<PackageFile>,
}

impl PackageSnapshot {
    /// Returns the identity of the package.
    pub fn id(&self) -> &PackageId {
        &self.id
    }

    /// Returns the files.
    pub fn entries(&self) -> &[PackageFile] {
        &self.entries
    }

    /// Returns the total size in bytes.
    pub fn bytes(&self) -> u64 {
        self.entries
            .iter()
            .map(|entry| entry.file.content.len() as u64)
            .sum()
    }

    /// Returns each path with the mode and the hex SHA-256 of the content. A store that has the contents needs only
    /// this record of a package.
    pub fn blobs(&self) -> Vec<(RepoPath, FileMode, String)> {
        let blob = |entry: &PackageFile| {
            let hash = hex::encode(Sha256::digest(&entry.file.content));
            (entry.path.clone(), entry.file.mode, hash)
        };
        self.entries.iter().map(blob).collect()
    }

    /// Returns the checksum as in a lock file.
    pub fn sum(&self) -> String {
        let files = self
            .entries
            .iter()
            .map(|entry| (entry.path.as_str(), &entry.file));
        super::sum::sum(&files.collect())
    }
}

/// The reason why files are not accepted as a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// A path or the target of a link is outside.
    #[error("entry escapes: {0}")]
    Escapes(String),
    /// An entry is a device, a pipe, a hard link or similar.
    #[error("entry is not a file, directory or symlink: {0}")]
    Special(String),
    /// A file is below an entry that is not a directory.
    #[error("entry is below a link or a file: {0}")]
    BelowFile(String),
    /// Two entries have the same name.
    #[error("duplicate entry: {0}")]
    Duplicate(String),
    /// A name is not UTF-8, or git would treat it as its own on some system.
    #[error("entry has a name that cannot be stored: {0}")]
    Name(String),
    /// There are too many files.
    #[error("has more than {0} files")]
    TooMany(usize),
    /// There are too many bytes.
    #[error("has more than {0} bytes")]
    TooLarge(u64),
    /// The directory does not exist or is empty.
    #[error("has no files below `{0}`")]
    Empty(String),
}

/// Maximum number of files in a package.
pub(super) const FILES_MAX: usize = 10_000;
/// Maximum size of a package in bytes.
pub(super) const BYTES_MAX: u64 = 100 << 20;

/// The content of an entry, or the target of a link.
#[derive(Debug)]
pub(super) enum EntryContent {
    File(FileMode, Bytes),
    /// A symlink with its target.
    Link(Vec<u8>),
    Directory,
    Special,
}

/// Collects the entries of a package. All entries are checked, and those below the directory are kept.
#[derive(Debug)]
pub(super) struct SnapshotBuilder {
    subdir: String,
    files: BTreeMap<String, FileVersion>,
    bytes: u64,
    files_max: usize,
    bytes_max: u64,
}

impl SnapshotBuilder {
    /// Creates a builder for the package in `subdir`.
    pub(super) fn new(subdir: &str, files_max: usize, bytes_max: u64) -> Self {
        Self {
            subdir: subdir.to_owned(),
            files: BTreeMap::new(),
            bytes: 0,
            files_max,
            bytes_max,
        }
    }

    /// Returns the path of an entry inside the package, or `None` if it is outside. Fails if the path is never
    /// allowed. Callers check this before they read the content.
    pub(super) fn path_in_package<'p>(&self, path: &'p [u8]) -> Result<Option<&'p str>, PackageError> {
        let shown = || {
            String::from_utf8_lossy(path)
                .chars()
                .take(200)
                .collect::<String>()
        };
        let text = std::str::from_utf8(path).map_err(|_| PackageError::Name(shown()))?;
        let leaves = |part: &str| matches!(part, "" | "." | "..") || part.contains(['\\', '\0']);
        if text.split('/').any(leaves) {
            return Err(PackageError::Escapes(shown()));
        }
        let inside = match self.subdir.as_str() {
            "" => Some(text),
            subdir => text.strip_prefix(subdir).and_then(|rest| rest.strip_prefix('/')),
        };
        match inside {
            Some(inside) if RepoPath::parse(inside).is_err() => Err(PackageError::Name(shown())),
            inside => Ok(inside),
        }
    }

    /// Adds an entry. `path` is relative to the repository.
    pub(super) fn add(&mut self, path: &[u8], found: EntryContent) -> Result<(), PackageError> {
        let inside = self.path_in_package(path)?.map(str::to_owned);
        let shown = || {
            String::from_utf8_lossy(path)
                .chars()
                .take(200)
                .collect::<String>()
        };
        let file = match found {
            EntryContent::Directory => return Ok(()),
            EntryContent::Special => return Err(PackageError::Special(shown())),
            EntryContent::Link(target) => {
                check_target(&shown(), &target)?;
                FileVersion {
                    content: target.into(),
                    mode: FileMode::Symlink,
                }
            }
            EntryContent::File(mode, content) => FileVersion { content, mode },
        };
        let Some(inside) = inside else { return Ok(()) };
        self.bytes = self.bytes.saturating_add(file.content.len() as u64);
        if self.bytes > self.bytes_max {
            return Err(PackageError::TooLarge(self.bytes_max));
        }
        if self.files.insert(inside, file).is_some() {
            return Err(PackageError::Duplicate(shown()));
        }
        if self.files.len() > self.files_max {
            return Err(PackageError::TooMany(self.files_max));
        }
        Ok(())
    }

    /// Returns the maximum number of bytes that a further file may have.
    pub(super) fn bytes_left(&self) -> u64 {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// Builds the snapshot.
    pub(super) fn finish(self, id: PackageId) -> Result<PackageSnapshot, PackageError> {
        if self.files.is_empty() {
            return Err(PackageError::Empty(self.subdir));
        }
        for path in self.files.keys() {
            let mut above = path.rsplit_once('/');
            while let Some((directory, _)) = above {
                if self.files.contains_key(directory) {
                    return Err(PackageError::BelowFile(path.clone()));
                }
                above = directory.rsplit_once('/');
            }
        }
        let entry = |(path, file): (String, FileVersion)| {
            let path = RepoPath::parse(&path).map_err(|_| PackageError::Name(path))?;
            Ok(PackageFile { path, file })
        };
        let entries = self
            .files
            .into_iter()
            .map(entry)
            .collect::<Result<_, PackageError>>()?;
        Ok(PackageSnapshot { id, entries })
    }
}

/// Refuses a link that leads out of the repository. A link that only leads out of the package is broken after
/// vendoring. It is not refused here, and the checksum handles it.
fn check_target(path: &str, target: &[u8]) -> Result<(), PackageError> {
    let escapes = |target: &str| PackageError::Escapes(format!("{path} -> {target}"));
    let text = std::str::from_utf8(target).map_err(|_| escapes("not text"))?;
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let odd = text.contains(['\\', '\0']);
    match super::project::join(directory, text) {
        Some(_) if !odd && !text.is_empty() => Ok(()),
        Some(_) | None => Err(escapes(&text.chars().take(200).collect::<String>())),
    }
}
