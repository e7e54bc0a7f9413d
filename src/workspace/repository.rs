//! A git repository, read with gix: branch, history, objects. Never written to, never configured by
//! what lies in it.

use crate::model::FileChange;
use jiff::Timestamp;

/// A repository on this machine: one the operator named, or our mirror of a remote.
#[derive(Debug)]
pub struct Repository {
    name: String,
}

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// 40 hex digits.
    pub id: String,
    /// `Name <email>`.
    pub author: String,
    /// When it was authored.
    pub at: Timestamp,
    /// The whole message.
    pub message: String,
}

/// Why history could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// No commit of that name is reachable from a branch or tag.
    #[error("unknown revision `{0}`")]
    UnknownRevision(String),
    /// Not a repository, or one whose own configuration could run programs.
    #[error("{0}")]
    Refused(String),
    /// The object database could not be read.
    #[error("the repository could not be read: {0}")]
    Unreadable(String),
}

impl Repository {
    /// The configured name, which grants are checked against.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The newest `limit` commits reachable from `from` (40 hex digits), newest first.
    pub fn log(&self, from: &str, _limit: usize) -> Result<Vec<Commit>, RepositoryError> {
        Err(RepositoryError::UnknownRevision(from.to_owned()))
    }

    /// A commit named as people name it (`HEAD`, `HEAD~1`, branch, tag, hash), with what it changed
    /// against its first parent. `HEAD` is `head`. Only what a branch or tag reaches is found.
    pub fn show(&self, revision: &str, _head: &str) -> Result<(Commit, Vec<FileChange>), RepositoryError> {
        Err(RepositoryError::UnknownRevision(revision.to_owned()))
    }
}
