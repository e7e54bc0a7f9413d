//! Tools: what an agent may call. A tool says what it is, checks its own arguments and works on one
//! workspace. Adding one is a file and two lines here.

use crate::access::Identity;
use crate::model::Effect;
use crate::provider::ToolSpec;
use crate::workspace::Workspace;
use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What a call works with.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The private view of the repository.
    pub workspace: &'a Workspace,
    /// On whose behalf. Grants are checked here, at every write, not only when tools are offered.
    pub identity: &'a Identity,
    /// Files the turn may write or delete in all.
    pub files_changed_max: usize,
    /// Fires when the turn is stopped.
    pub cancel: &'a CancellationToken,
}

/// How a call fails.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model reads this and goes on. Says what would work.
    #[error("{0}")]
    Failed(String),
    /// The call itself was malformed: arguments that do not fit the schema. The model reads this too.
    #[error("{0}")]
    Malformed(String),
    /// Something of ours is broken; ends the turn.
    #[error(transparent)]
    Fatal(anyhow::Error),
}

/// Something an agent may call.
#[async_trait]
pub trait Tool: Send + Sync {
    /// What the model is told.
    fn spec(&self) -> ToolSpec;

    /// What a call may do to the world. Only [`Effect::Read`] calls run in parallel.
    fn effect(&self) -> Effect;

    /// Runs one call.
    async fn call(&self, cx: Context<'_>, arguments: Value) -> Result<String, ToolError>;
}
