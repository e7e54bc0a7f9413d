//! The project of an operation: one directory of a tree. Paths outside the tree cannot be expressed.

use super::error::{BundlerError, FileError};
use super::file::JsonnetFile;
use crate::base::model::RepoPath;
use crate::state::workspace::{Tree, TreeError};

/// The name of the file with the dependencies of a project.
pub const FILE: &str = "jsonnetfile.json";
/// The name of the lock file with the installed versions.
pub const LOCK_FILE: &str = "jsonnetfile.lock.json";
/// The name of the directory of packages.
pub const VENDOR: &str = "vendor";

/// A directory with a `jsonnetfile.json`, or one that will get it.
#[derive(Clone, Copy, Debug)]
pub struct Project<'a> {
    tree: &'a dyn Tree,
    directory: &'a str,
}

impl<'a> Project<'a> {
    /// Returns the project in a directory of a tree. `.` and an empty text are the root.
    pub fn new(tree: &'a dyn Tree, directory: &'a str) -> Result<Self, BundlerError> {
        if matches!(directory, "" | "." | "./") {
            return Ok(Self { tree, directory: "" });
        }
        let directory = directory.strip_suffix('/').unwrap_or(directory);
        RepoPath::parse(directory)?;
        let directory = directory.strip_prefix("./").unwrap_or(directory);
        Ok(Self { tree, directory })
    }

    /// Returns the tree of the project.
    pub fn tree(&self) -> &'a dyn Tree {
        self.tree
    }

    /// Returns the directory; empty for the root.
    pub fn directory(&self) -> &'a str {
        self.directory
    }

    /// Returns the path of a file or directory in the project.
    pub fn path(&self, inside: &str) -> Result<RepoPath, BundlerError> {
        let path = under(self.directory, inside);
        RepoPath::parse(&path).map_err(|_| BundlerError::Name(inside.to_owned()))
    }

    /// Reads one of the two files, or returns `None` if it does not exist.
    pub(super) fn file(&self, name: &str) -> Result<Option<JsonnetFile>, BundlerError> {
        self.file_at(&self.path(name)?)
    }

    /// Reads a file of the same format anywhere in the tree.
    pub(super) fn file_at(&self, path: &RepoPath) -> Result<Option<JsonnetFile>, BundlerError> {
        match self.tree.read(path) {
            Ok(file) => Ok(Some(self.parse(&file.content, path.as_str())?)),
            Err(TreeError::NotFound { .. }) => Ok(None),
            Err(err) => Err(err.into()),
        }
    }

    /// Parses a file of this format.
    pub(super) fn parse(&self, content: &[u8], name: &str) -> Result<JsonnetFile, FileError> {
        JsonnetFile::parse(content, name, self.directory)
    }

    /// True if the directory contains files.
    pub(super) fn has_directory(&self, path: &str) -> Result<bool, BundlerError> {
        Ok(!self.tree.files_below(path)?.is_empty())
    }
}

/// Joins a directory and a path inside it. An empty directory is the root.
pub(super) fn under(directory: &str, inside: &str) -> String {
    match (directory, inside) {
        ("", inside) => inside.to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, inside) => format!("{directory}/{inside}"),
    }
}

/// Resolves a relative path from a directory. Returns `None` if the result is outside the repository.
pub(super) fn join(directory: &str, relative: &str) -> Option<String> {
    if relative.starts_with('/') {
        return None;
    }
    let mut walked: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(walked.pop()?),
            part => walked.push(part),
        }
    }
    Some(walked.join("/"))
}

/// Returns a path relative to a directory. Both are paths inside the repository.
pub(super) fn relative(directory: &str, path: &str) -> String {
    let from: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    let to: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let shared = from
        .iter()
        .zip(&to)
        .take_while(|(one, other)| one == other)
        .count();
    let up = from.iter().skip(shared).map(|_| "..");
    up.chain(to.iter().skip(shared).copied())
        .collect::<Vec<_>>()
        .join("/")
}

/// Normalizes a relative path: `./a//b/../c/` becomes `a/c`.
pub(super) fn clean_relative(path: &str) -> String {
    let mut walked: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if walked.last().is_some_and(|last| *last != "..") => drop(walked.pop()),
            part => walked.push(part),
        }
    }
    match walked.is_empty() {
        true => ".".to_owned(),
        false => walked.join("/"),
    }
}

/// Normalizes a path like [`clean_relative`], but never above its starting point.
pub(super) fn clean_rooted(path: &str) -> String {
    let mut walked: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(walked.pop()),
            part => walked.push(part),
        }
    }
    walked.join("/")
}

/// Returns the name of a local directory: the last component of its path. For a path that consists only of `..`, it
/// is the name of the resolved directory.
pub(super) fn local_name(project: &str, directory: &str) -> Option<String> {
    let clean = clean_relative(directory);
    let last = clean.rsplit('/').next().unwrap_or_default();
    if !matches!(last, "" | "." | "..") {
        return Some(last.to_owned());
    }
    let whole = join(project, directory)?;
    let last = whole.rsplit('/').next().unwrap_or_default();
    (!last.is_empty()).then(|| last.to_owned())
}
