//! Finds the file an import means, in the tree and nowhere else, and keeps account of everything that
//! was looked at. Runs on the parent's side: the inmate has no file system.

use super::contract::{EvalError, EvalLimits, Import};
use super::message::{Ask, cut};
use super::path;
use crate::model::RepoPath;
use crate::workspace::{Tree, TreeError};
use bytes::Bytes;
use globset::GlobSet;
use std::collections::{BTreeMap, BTreeSet};

/// Questions an evaluation may ask for each file it may import: the same file can be named in many ways.
const ASKS_PER_IMPORT: usize = 4;

/// What an evaluation has read, and what it has looked for in vain.
pub(super) struct Imports<'a> {
    tree: &'a dyn Tree,
    jpath: &'a [String],
    limits: &'a EvalLimits,
    denied: &'a GlobSet,
    read: BTreeMap<RepoPath, String>,
    absent: BTreeSet<RepoPath>,
    bytes: u64,
    asks: usize,
}

/// A file that an import means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    New(RepoPath, Bytes),
    /// It has been handed out before.
    Same(RepoPath),
}

impl<'a> Imports<'a> {
    pub(super) fn new(
        tree: &'a dyn Tree,
        jpath: &'a [String],
        limits: &'a EvalLimits,
        denied: &'a GlobSet,
    ) -> Self {
        Self {
            tree,
            jpath,
            limits,
            denied,
            read: BTreeMap::new(),
            absent: BTreeSet::new(),
            bytes: 0,
            asks: 0,
        }
    }

    /// The file an import means: searched in the directory of the importer, then along the path of
    /// libraries from its end. The first that exists counts, and one that exists but cannot be read
    /// ends the search.
    pub(super) fn find(&mut self, ask: &Ask) -> Result<Found, EvalError> {
        self.asks += 1;
        if self.asks > self.limits.imports_max.saturating_mul(ASKS_PER_IMPORT) {
            return Err(failed(ask, "too many imports"));
        }
        if ask.path.starts_with('/') {
            return Err(denied(ask));
        }
        let own = ask
            .importer
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory);
        let libraries = self.jpath.iter().rev().map(String::as_str);
        let mut searched = Vec::new();
        let mut leaves = false;
        for directory in std::iter::once(own).chain(libraries) {
            // Outside of the repository nothing exists; another directory may still have it.
            let Some(joined) = path::join(directory, &ask.path) else {
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
            match self.open(&candidate, ask)? {
                Some(found) => return Ok(found),
                None => {
                    self.absent.insert(candidate);
                }
            }
        }
        match leaves {
            true => Err(denied(ask)),
            false => Err(EvalError::ImportNotFound {
                path: cut(ask.path.clone()),
                importer: ask.importer.clone(),
                searched,
            }),
        }
    }

    /// The program itself, when it is a file.
    pub(super) fn program(&mut self, path: &RepoPath) -> Result<Bytes, EvalError> {
        let ask = Ask {
            importer: String::new(),
            path: path.to_string(),
        };
        match self.open(path, &ask)? {
            Some(Found::New(_, content)) => Ok(content),
            Some(Found::Same(_)) | None => Err(EvalError::ImportNotFound {
                path: path.to_string(),
                importer: String::new(),
                searched: vec![path.to_string()],
            }),
        }
    }

    /// Everything the value depends on.
    pub(super) fn into_list(self) -> Vec<Import> {
        let read = self
            .read
            .into_iter()
            .map(|(path, blob)| Import::Read { path, blob });
        let absent = self.absent.into_iter().map(|path| Import::Absent { path });
        let mut all: Vec<Import> = read.chain(absent).collect();
        all.sort();
        all
    }

    fn open(&mut self, path: &RepoPath, ask: &Ask) -> Result<Option<Found>, EvalError> {
        let is_environment = |part: &str| part == ".env" || part.starts_with(".env.");
        if path.as_str().split('/').any(is_environment) || self.denied.is_match(path.as_str()) {
            return Err(EvalError::ImportForbidden {
                path: cut(ask.path.clone()),
                importer: ask.importer.clone(),
                file: path.to_string(),
            });
        }
        if self.read.contains_key(path) {
            return Ok(Some(Found::Same(path.clone())));
        }
        let content = match self.tree.read(path) {
            Ok(version) => version.content,
            Err(TreeError::NotFound { .. }) => return Ok(None),
            Err(TreeError::WrongKind { what, .. }) if what.contains("leaves the repository") => {
                return Err(denied(ask));
            }
            Err(TreeError::WrongKind { what, .. }) => return Err(failed(ask, &format!("is a {what}"))),
            Err(TreeError::Refused { .. }) => return Err(denied(ask)),
            Err(error @ (TreeError::TooLarge { .. } | TreeError::Io { .. })) => {
                return Err(failed(ask, &error.to_string()));
            }
        };
        self.bytes = self.bytes.saturating_add(content.len() as u64);
        if self.read.len() >= self.limits.imports_max {
            return Err(failed(
                ask,
                &format!("more than {} files", self.limits.imports_max),
            ));
        }
        if self.bytes > self.limits.import_bytes_max {
            let mebibytes = self.limits.import_bytes_max >> 20;
            return Err(failed(ask, &format!("all files together exceed {mebibytes} MiB")));
        }
        let blob = gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Blob, &content)
            .map_err(|error| failed(ask, &error.to_string()))?;
        self.read.insert(path.clone(), blob.to_string());
        Ok(Some(Found::New(path.clone(), content)))
    }
}

fn denied(ask: &Ask) -> EvalError {
    EvalError::ImportDenied {
        path: cut(ask.path.clone()),
    }
}

fn failed(ask: &Ask, why: &str) -> EvalError {
    EvalError::ImportFailed {
        path: cut(ask.path.clone()),
        importer: ask.importer.clone(),
        why: why.to_owned(),
    }
}
