//! The files of one package at one commit: what came, checked. A layer names its files by paths
//! inside the package and their contents by hash, so that whoever wants the same commit shares it.

use crate::model::{FileMode, FileVersion, RepoPath};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The identity of a layer's package. It never changes, because a commit does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackageId {
    /// The address of the repository.
    pub remote: String,
    /// The commit as 40 hex digits.
    pub commit: String,
    /// The directory inside it.
    pub subdir: String,
}

/// One file of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageFile {
    /// The path inside the package.
    pub path: RepoPath,
    /// The content, or the target of a symlink.
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

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.entries
            .iter()
            .map(|entry| entry.file.content.len() as u64)
            .sum()
    }

    /// Returns each path with the SHA-256 of its content in hex: the record a store keeps of a layer whose contents it has.
    pub fn blobs(&self) -> Vec<(RepoPath, FileMode, String)> {
        let blob = |entry: &PackageFile| {
            let hash = Sha256::digest(&entry.file.content);
            let hex = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            (entry.path.clone(), entry.file.mode, hex)
        };
        self.entries.iter().map(blob).collect()
    }

    /// Returns the sum, as a lock states it.
    pub fn sum(&self) -> String {
        let files = self
            .entries
            .iter()
            .map(|entry| (entry.path.as_str(), &entry.file));
        super::sum::sum(&files.collect())
    }
}

/// The reason files are not accepted as a package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PackageError {
    /// A path, or where a link leads, is outside.
    #[error("entry escapes: {0}")]
    Escapes(String),
    /// A device, a pipe, a hard link or the like.
    #[error("entry is no file, directory or symlink: {0}")]
    Special(String),
    /// A file below something that is no directory.
    #[error("entry lies behind a link or a file: {0}")]
    BelowFile(String),
    /// Two entries of one name.
    #[error("entry is there twice: {0}")]
    Duplicate(String),
    /// A name that git, on some system, would take for its own, or that is no text.
    #[error("entry has a name that cannot be stored: {0}")]
    Name(String),
    /// Too many files.
    #[error("has more than {0} files")]
    TooMany(usize),
    /// Too many bytes.
    #[error("has more than {0} bytes")]
    TooLarge(u64),
    /// The directory is not there, or nothing is in it.
    #[error("has no files below `{0}`")]
    Empty(String),
}

/// Files a package may have.
pub(super) const FILES_MAX: usize = 10_000;
/// Bytes a package may have.
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

/// Entries on their way to be a layer. All are checked, those below the directory are kept.
#[derive(Debug)]
pub(super) struct SnapshotBuilder {
    subdir: String,
    files: BTreeMap<String, FileVersion>,
    bytes: u64,
    files_max: usize,
    bytes_max: u64,
}

impl SnapshotBuilder {
    /// Entries of the package in `subdir`.
    pub(super) fn new(subdir: &str, files_max: usize, bytes_max: u64) -> Self {
        Self {
            subdir: subdir.to_owned(),
            files: BTreeMap::new(),
            bytes: 0,
            files_max,
            bytes_max,
        }
    }

    /// Returns the path inside the package of an entry that belongs to it; `None` for any other, an error when no entry may have this path.
    /// Asked before its content is read.
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

    /// Takes an entry. `path` is inside the repository.
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

    /// The bytes a file may still have.
    pub(super) fn bytes_left(&self) -> u64 {
        self.bytes_max.saturating_sub(self.bytes)
    }

    /// The layer.
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

/// Refuses a link that leads out of the repository. One that leads out of the package alone leads
/// nowhere once it is vendored, and is left to the sum.
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
