//! The context of the history tools: the repository of a workspace, read from its base commit.

use super::{Context, ToolError};
use crate::state::workspace::{Repository, RepositoryError, SecretGuard, Tree};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A repository and the starting point of its history.
#[derive(Debug)]
pub(super) struct HistoryContext {
    /// The repository.
    pub(super) repository: Arc<Repository>,
    /// The workspace's base commit, which is what `HEAD` means.
    pub(super) base: Option<String>,
    /// The files of the workspace.
    pub(super) tree: Arc<dyn Tree>,
    /// The guard that keeps secrets out of answers.
    pub(super) guard: SecretGuard,
    /// Fires when the turn is stopped, and when it runs out of time.
    pub(super) cancel: CancellationToken,
}

impl From<Context<'_>> for HistoryContext {
    fn from(cx: Context<'_>) -> Self {
        Self {
            repository: Arc::clone(&cx.workspace.repository),
            base: cx.workspace.base.clone(),
            tree: Arc::clone(&cx.workspace.tree),
            guard: cx.workspace.guard.clone(),
            cancel: cx.cancel.clone(),
        }
    }
}

impl HistoryContext {
    /// Returns the base commit, or an error if the repository has no commits.
    pub(super) fn head(&self) -> Result<&str, ToolError> {
        self.base.as_deref().ok_or_else(no_commits)
    }
}

fn no_commits() -> ToolError {
    ToolError::Failed("the repository has no commits yet".to_owned())
}

impl From<RepositoryError> for ToolError {
    fn from(err: RepositoryError) -> Self {
        let hint = if matches!(err, RepositoryError::UnknownRevision(_)) {
            "; use `HEAD`, `HEAD~1`, a branch, a tag or a hash that `git_log` shows"
        } else {
            ""
        };
        Self::Failed(format!("{err}{hint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::ToolError;
    use crate::interfaces::tool::testing::failure;
    use crate::state::workspace::RepositoryError;

    #[test]
    fn an_unknown_revision_says_what_is_known() {
        let failed = |err: RepositoryError| failure::<()>(Err(ToolError::from(err)));
        assert_eq!(
            failed(RepositoryError::UnknownRevision("v9".to_owned())),
            "unknown revision `v9`; use `HEAD`, `HEAD~1`, a branch, a tag or a hash that `git_log` shows"
        );
        assert_eq!(
            failed(RepositoryError::Unreadable("an object is missing".to_owned())),
            "the repository could not be read: an object is missing"
        );
    }
}
