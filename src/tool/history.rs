//! What the history tools work on: the repository behind a workspace, read from its base commit.

use super::{Context, ToolError};
use crate::workspace::{Repository, RepositoryError};
use std::sync::Arc;

/// A repository and where its history is read from.
#[derive(Debug)]
pub(super) struct History {
    /// The repository.
    pub(super) repository: Arc<Repository>,
    /// The workspace's base commit, which is what `HEAD` means.
    pub(super) base: Option<String>,
}

impl From<Context<'_>> for History {
    fn from(cx: Context<'_>) -> Self {
        Self {
            repository: Arc::clone(&cx.workspace.repository),
            base: cx.workspace.base.clone(),
        }
    }
}

impl History {
    /// The base commit; a repository without commits has no history to read.
    pub(super) fn head(&self) -> Result<&str, ToolError> {
        self.base.as_deref().ok_or_else(no_commits)
    }
}

fn no_commits() -> ToolError {
    ToolError::Failed("the repository has no commits yet".to_owned())
}

impl From<RepositoryError> for ToolError {
    fn from(err: RepositoryError) -> Self {
        let hint = match err {
            RepositoryError::UnknownRevision(_) => {
                "; use `HEAD`, `HEAD~1`, a branch, a tag or a hash that `git_log` shows"
            }
            RepositoryError::Refused(_) | RepositoryError::Unreadable(_) | RepositoryError::Fetch(_) => "",
        };
        Self::Failed(format!("{err}{hint}"))
    }
}
