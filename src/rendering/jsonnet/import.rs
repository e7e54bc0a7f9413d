//! The resolution of imports within the tree, with a record of all files and paths that were tried. It runs in the
//! parent: the sandbox worker has no file system.

use super::contract::{EvalError, EvalLimits, Import};
use super::external_program::CopySource;
use super::message::{ImportRequest, cut};
use super::nearest;
use super::path;
use super::sent_files::SentFiles;
use crate::base::model::RepoPath;
use crate::state::workspace::{DeniedFiles, Tree, TreeEntry, TreeError};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// Requests that an evaluation may make for each file it may import, since a file can be imported by several paths.
const ASKS_PER_IMPORT: usize = 4;

/// The files an evaluation has read, and the paths without a file.
pub(super) struct ImportTracker<'a> {
    tree: &'a dyn Tree,
    jpath: &'a [String],
    limits: &'a EvalLimits,
    denied: &'a DeniedFiles,
    sent_files: &'a mut SentFiles,
    read: BTreeMap<RepoPath, String>,
    absent: BTreeSet<RepoPath>,
    /// Files below which every import has been checked.
    rechecked: HashSet<RepoPath>,
    bytes: u64,
    asks: usize,
}

/// The file that an import resolves to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ResolvedImport {
    New(RepoPath, Bytes),
    /// A file that has been sent before.
    AlreadySent(RepoPath),
}

/// The answer to an import.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ImportReply {
    pub(super) resolved: ResolvedImport,
    /// Files whose kept values must not be used for this task, and whose new values must not be kept.
    pub(super) task_dependent: Vec<String>,
}

impl<'a> ImportTracker<'a> {
    pub(super) fn new(
        tree: &'a dyn Tree,
        jpath: &'a [String],
        limits: &'a EvalLimits,
        denied: &'a DeniedFiles,
        known: &'a mut SentFiles,
    ) -> Self {
        Self {
            tree,
            jpath,
            limits,
            denied,
            sent_files: known,
            read: BTreeMap::new(),
            absent: BTreeSet::new(),
            rechecked: HashSet::new(),
            bytes: 0,
            asks: 0,
        }
    }

    /// Answers an import.
    pub(super) fn find(&mut self, ask: &ImportRequest) -> Result<ImportReply, EvalError> {
        self.asks += 1;
        if self.asks > self.limits.imports_max.saturating_mul(ASKS_PER_IMPORT) {
            return Err(failed(ask, "too many imports"));
        }
        let path = self.resolve(ask).map_err(|error| self.hinted(ask, error))?;
        self.sent_files.record_import(&ask.importer, &ask.path, &path);
        let own = self.recheck_imports(&ask.importer, &path);
        let found = match self.sent_files.take_unsent(&path) {
            Some(content) => ResolvedImport::New(path, content),
            None => ResolvedImport::AlreadySent(path),
        };
        Ok(ImportReply {
            resolved: found,
            task_dependent: own,
        })
    }

    /// Returns true if a file that a value depends on still has the same content, or is still missing.
    pub(super) fn is_unchanged(&mut self, import: &Import) -> bool {
        let (Import::Read { path, .. } | Import::Absent { path }) = import;
        let ask = ImportRequest {
            importer: String::new(),
            path: path.to_string(),
        };
        match (self.is_there(path, &ask), import) {
            (Ok(true), Import::Read { blob, .. }) => self.read.get(path) == Some(blob),
            (Ok(false), Import::Absent { .. }) => true,
            (Ok(_) | Err(_), _) => false,
        }
    }

    /// Marks files as task-dependent, as reported by the sandbox worker. An empty path means that the file is unknown,
    /// and marks all files.
    pub(super) fn mark_task_dependent(&mut self, file: &str) -> Vec<String> {
        match file.is_empty() {
            true => self.sent_files.mark_all_task_dependent(),
            false => self.sent_files.mark_task_dependent(file),
        }
    }

    /// Checks if every import below a file whose value may have been kept still resolves to the same file. The task
    /// depends on these files in either case.
    fn recheck_imports(&mut self, importer: &str, path: &RepoPath) -> Vec<String> {
        let mut own = Vec::new();
        let mut waiting = vec![path.clone()];
        while let Some(file) = waiting.pop() {
            if !self.rechecked.insert(file.clone()) {
                continue;
            }
            for (written, before) in self.sent_files.imports(&file) {
                let ask = ImportRequest {
                    importer: file.to_string(),
                    path: written,
                };
                let is_same = match before.is_relative {
                    true => self.is_there(&before.path, &ask) == Ok(true),
                    false => self.resolve(&ask).ok().as_ref() == Some(&before.path),
                };
                if !is_same {
                    own.extend(self.sent_files.mark_task_dependent(file.as_str()));
                }
                waiting.push(before.path);
            }
        }
        if self.sent_files.is_task_dependent(path.as_str()) && !importer.is_empty() {
            own.extend(self.sent_files.mark_task_dependent(importer));
        }
        own
    }

    /// Returns the file that an import resolves to. The search begins in the importer's directory and continues along
    /// the library path from its end. The first existing path counts; if it cannot be read, the search ends.
    fn resolve(&mut self, ask: &ImportRequest) -> Result<RepoPath, EvalError> {
        if ask.path.starts_with('/') {
            return Err(denied(ask));
        }
        let own = parent_directory(&ask.importer);
        let libraries = self.jpath.iter().rev().map(String::as_str);
        let mut searched = Vec::new();
        let mut leaves = false;
        for directory in std::iter::once(own).chain(libraries) {
            // Nothing exists outside of the repository; the next directory may still contain the file.
            let Some(joined) = path::clean(directory, &ask.path) else {
                leaves = true;
                continue;
            };
            if joined.is_empty() {
                return Err(failed(ask, "is a directory"));
            }
            let candidate = RepoPath::parse(&joined).map_err(|_| denied(ask))?;
            if searched.contains(&joined) {
                continue;
            }
            searched.push(joined);
            if self.is_there(&candidate, ask)? {
                return Ok(candidate);
            }
            self.absent.insert(candidate);
        }
        match leaves && searched.is_empty() {
            true => Err(denied(ask)),
            false => Err(EvalError::ImportNotFound {
                path: cut(&ask.path),
                importer: ask.importer.clone(),
                similar: Vec::new(),
                searched,
                trace: Vec::new(),
            }),
        }
    }

    /// Adds files with similar names to an error of an import that resolves to no file.
    fn hinted(&self, ask: &ImportRequest, mut error: EvalError) -> EvalError {
        if let EvalError::ImportNotFound {
            searched, similar, ..
        } = &mut error
        {
            let libraries = self.jpath.iter().rev().map(String::as_str);
            let directories: Vec<&str> = std::iter::once(parent_directory(&ask.importer))
                .chain(libraries)
                .collect();
            *similar = nearest::similar(self.tree, &directories, searched);
        }
        error
    }

    /// Reads the program itself, if it is a file.
    pub(super) fn program(&mut self, path: &RepoPath) -> Result<Bytes, EvalError> {
        let ask = ImportRequest {
            importer: String::new(),
            path: path.to_string(),
        };
        if !self.is_there(path, &ask)? {
            let searched = vec![path.to_string()];
            return Err(EvalError::ImportNotFound {
                path: path.to_string(),
                importer: String::new(),
                similar: nearest::similar(self.tree, &[parent_directory(path.as_str())], &searched),
                searched,
                trace: Vec::new(),
            });
        }
        self.tree
            .read(path)
            .map(|version| version.content)
            .map_err(|error| failed(&ask, &error.to_string()))
    }

    /// Reads a file for an external program; the value depends on it. Returns `None` if external programs may not read
    /// it.
    pub(super) fn read_for_program(&mut self, path: &RepoPath) -> Result<Option<Bytes>, EvalError> {
        let ask = ImportRequest {
            importer: String::new(),
            path: path.to_string(),
        };
        self.asks += 1;
        if self.asks > self.limits.imports_max.saturating_mul(ASKS_PER_IMPORT) {
            return Err(failed(&ask, "too many files"));
        }
        match self.is_there(path, &ask) {
            Ok(true) => {}
            Ok(false) | Err(EvalError::ImportForbidden { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let version = self.tree.read(path);
        let content = version.map(|version| version.content);
        content
            .map(Some)
            .map_err(|error| failed(&ask, &error.to_string()))
    }

    /// Returns all files and paths that the value depends on.
    pub(super) fn into_list(self) -> Arc<[Import]> {
        let read = self
            .read
            .into_iter()
            .map(|(path, blob)| Import::Read { path, blob });
        let absent = self.absent.into_iter().map(|path| Import::Absent { path });
        let mut all: Vec<Import> = read.chain(absent).collect();
        all.sort();
        all.into()
    }

    /// Returns true if a file exists. If it does, the evaluation depends on it.
    fn is_there(&mut self, path: &RepoPath, ask: &ImportRequest) -> Result<bool, EvalError> {
        if self.read.contains_key(path) {
            return Ok(true);
        }
        // A recorded file has passed the check for denied files.
        if self.sent_files.file(path).is_none() {
            if self.is_denied(path) {
                return Err(EvalError::ImportForbidden {
                    path: cut(&ask.path),
                    importer: ask.importer.clone(),
                    file: path.to_string(),
                    trace: Vec::new(),
                });
            }
            let file = self.open(path, ask)?;
            self.sent_files.record_file(path, file);
        }
        let Some(Some(file)) = self.sent_files.file(path) else {
            return Ok(false);
        };
        self.bytes = self.bytes.saturating_add(file.bytes);
        if self.read.len() >= self.limits.imports_max {
            let files = self.limits.imports_max;
            return Err(failed(
                ask,
                &format!("more than {files} files (`sandbox.imports_max`)"),
            ));
        }
        if self.bytes > self.limits.import_bytes_max {
            let mebibytes = self.limits.import_bytes_max >> 20;
            return Err(failed(
                ask,
                &format!("all files together exceed {mebibytes} MiB (`sandbox.import_bytes_max`)"),
            ));
        }
        self.read.insert(path.clone(), file.blob.clone());
        Ok(true)
    }

    /// True if programs may not read a file, by the requested name or by its real name, since a symbolic link in the
    /// repository may lead to it.
    fn is_denied(&self, path: &RepoPath) -> bool {
        let is_environment = |part: &str| part == ".env" || part.starts_with(".env.");
        let holds = |path: &RepoPath| {
            path.as_str().split('/').any(is_environment) || self.denied.is_denied(path.as_str())
        };
        holds(path) || self.tree.real_path(path).is_ok_and(|real| holds(&real))
    }

    /// Returns true if a file certainly does not exist. Most imports are searched in several directories, and a failed
    /// read is expensive because a tree then searches for similar names.
    fn is_absent(&self, path: &RepoPath) -> bool {
        let path = path.as_str();
        let directories = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        for here in directories.chain([path]) {
            let Ok(here) = RepoPath::parse(here) else {
                return false;
            };
            match self.tree.entry(&here) {
                Ok(Some(TreeEntry::Directory)) => {}
                Ok(None) => return true,
                // A file contains no entries, and reading returns the error; a link may lead anywhere.
                Ok(Some(TreeEntry::File | TreeEntry::Symlink(_) | TreeEntry::Other)) | Err(_) => {
                    return false;
                }
            }
        }
        false
    }

    /// Returns a file's hash and content; `None` if the file does not exist.
    fn open(&self, path: &RepoPath, ask: &ImportRequest) -> Result<Option<(String, Bytes)>, EvalError> {
        if self.is_absent(path) {
            return Ok(None);
        }
        match self.tree.read_with_blob(path) {
            Ok((version, blob)) => Ok(Some((blob, version.content))),
            Err(TreeError::NotFound { .. }) => Ok(None),
            Err(TreeError::WrongKind { what, .. }) if what.contains("leaves the repository") => {
                Err(denied(ask))
            }
            Err(TreeError::WrongKind { what, .. }) => Err(failed(ask, &format!("is a {what}"))),
            Err(TreeError::Refused { .. }) => Err(denied(ask)),
            Err(TreeError::OtherSpelling { .. }) => Err(failed(
                ask,
                "exists under a name with another spelling; import it by that name",
            )),
            Err(TreeError::Denied { .. }) => Err(EvalError::ImportForbidden {
                path: cut(&ask.path),
                importer: ask.importer.clone(),
                file: path.to_string(),
                trace: Vec::new(),
            }),
            Err(error @ (TreeError::TooLarge { .. } | TreeError::Io { .. })) => {
                Err(failed(ask, &error.to_string()))
            }
        }
    }
}

impl CopySource for ImportTracker<'_> {
    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, String> {
        self.tree
            .files_below(directory)
            .map_err(|error| error.to_string())
    }

    fn read(&mut self, path: &RepoPath) -> Result<Option<Bytes>, String> {
        self.read_for_program(path).map_err(|error| error.to_string())
    }
}

fn parent_directory(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(directory, _)| directory)
}

fn denied(ask: &ImportRequest) -> EvalError {
    EvalError::ImportDenied {
        path: cut(&ask.path),
        importer: ask.importer.clone(),
        trace: Vec::new(),
    }
}

fn failed(ask: &ImportRequest, why: &str) -> EvalError {
    EvalError::ImportFailed {
        path: cut(&ask.path),
        importer: ask.importer.clone(),
        why: why.to_owned(),
        trace: Vec::new(),
    }
}
