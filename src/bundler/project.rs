//! The project an operation works in: one directory of a tree. Nothing outside the tree has a name here.

use super::error::{BundlerError, FileError};
use super::file::JsonnetFile;
use crate::model::RepoPath;
use crate::workspace::{Tree, TreeError};

/// The file that lists the dependencies of a project.
pub const FILE: &str = "jsonnetfile.json";
/// The file that locks the versions that were installed.
pub const LOCK_FILE: &str = "jsonnetfile.lock.json";
/// The directory of the packages.
pub const VENDOR: &str = "vendor";

/// A directory with a `jsonnetfile.json`, or one that is to have it.
#[derive(Clone, Copy, Debug)]
pub struct Project<'a> {
    tree: &'a dyn Tree,
    directory: &'a str,
}

impl<'a> Project<'a> {
    /// The project in a directory of a tree; `.` and nothing are the root.
    pub fn new(tree: &'a dyn Tree, directory: &'a str) -> Result<Self, BundlerError> {
        if matches!(directory, "" | "." | "./") {
            return Ok(Self { tree, directory: "" });
        }
        let directory = directory.strip_suffix('/').unwrap_or(directory);
        RepoPath::parse(directory)?;
        let directory = directory.strip_prefix("./").unwrap_or(directory);
        Ok(Self { tree, directory })
    }

    /// The tree it lies in.
    pub fn tree(&self) -> &'a dyn Tree {
        self.tree
    }

    /// Returns the directory; empty for the root.
    pub fn directory(&self) -> &'a str {
        self.directory
    }

    /// The path of something in it.
    pub fn path(&self, inside: &str) -> Result<RepoPath, BundlerError> {
        let path = under(self.directory, inside);
        RepoPath::parse(&path).map_err(|_| BundlerError::Name(inside.to_owned()))
    }

    /// Reads one of the two files; `None` when there is none.
    pub(super) fn file(&self, name: &str) -> Result<Option<JsonnetFile>, BundlerError> {
        self.file_at(&self.path(name)?)
    }

    /// A file of that form anywhere in the tree.
    pub(super) fn file_at(&self, path: &RepoPath) -> Result<Option<JsonnetFile>, BundlerError> {
        match self.tree.read(path) {
            Ok(file) => Ok(Some(self.parse(&file.content, path.as_str())?)),
            Err(TreeError::NotFound { .. }) => Ok(None),
            Err(err) => Err(err.into()),
        }
    }

    /// Reads a file of that form.
    pub(super) fn parse(&self, content: &[u8], name: &str) -> Result<JsonnetFile, FileError> {
        JsonnetFile::parse(content, name, self.directory)
    }

    /// Returns true if there is a directory with files in it.
    pub(super) fn has_directory(&self, path: &str) -> Result<bool, BundlerError> {
        Ok(!self.tree.files_below(path)?.is_empty())
    }
}

/// The path of something in a directory, where nothing is the root.
pub(super) fn under(directory: &str, inside: &str) -> String {
    match (directory, inside) {
        ("", inside) => inside.to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, inside) => format!("{directory}/{inside}"),
    }
}

/// Returns the path a relative one leads to from a directory; `None` when that is outside the repository.
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

/// Returns a relative path without what changes nothing: `./a//b/../c/` is `a/c`.
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

/// Cleans a path as [`clean_relative`] does, if it cannot leave where it starts.
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

/// The name of a local directory: the last component of the path it has. One that is named by going
/// up only has the name of where that leads.
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
