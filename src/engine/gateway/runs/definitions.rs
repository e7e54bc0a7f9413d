//! The definitions of pipelines that a repository publishes: those at the head of its trusted branch. An edit of the file in
//! a conversation is never used.

use crate::base::config::PipelineOperatorSettings;
use crate::engine::gateway::parts::Parts;
use crate::engine::pipeline::{DefinitionError, LoadedPipelines, OperatorLimits};
use crate::state::workspace::{Overlay, RepositoryError, Tree, WorkspaceEdits};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The definitions at one commit.
#[derive(Clone, Debug)]
pub(in crate::engine::gateway) struct PublishedPipelines {
    /// The commit.
    pub(in crate::engine::gateway) commit: String,
    /// The definitions; `None` if the commit has no file of them.
    pub(in crate::engine::gateway) loaded: Option<Arc<LoadedPipelines>>,
}

/// The reason why there are no definitions at hand.
#[derive(Debug, thiserror::Error)]
pub(in crate::engine::gateway) enum UnpublishedReason {
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The file has problems.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
}

/// The newest definitions of each repository. They are read and checked once for each commit.
#[derive(Debug)]
pub(in crate::engine::gateway) struct PipelineDefinitions {
    /// What the operator allows.
    pub(in crate::engine::gateway) operator: OperatorLimits,
    newest: BTreeMap<String, Mutex<Option<PublishedPipelines>>>,
}

impl PipelineDefinitions {
    pub(in crate::engine::gateway) fn new(parts: &Parts) -> Self {
        let config = &parts.config;
        let schemes = config.hooks.iter();
        let server = PipelineOperatorSettings {
            pipelines: config.pipelines.clone(),
            hooks: schemes.map(|(name, hook)| (name.clone(), hook.scheme)).collect(),
        };
        let names = parts.repositories.names();
        Self {
            operator: OperatorLimits {
                tools: parts.toolbox.names().map(str::to_owned).collect(),
                server: Some(server),
            },
            newest: names.map(|name| (name.to_owned(), Mutex::default())).collect(),
        }
    }

    /// Returns the definitions at the head of the trusted branch of a repository. A program is evaluated in the sandbox, and
    /// `cancel` ends that.
    pub(in crate::engine::gateway) async fn published(
        &self,
        parts: &Parts,
        repository: &str,
        cancel: &CancellationToken,
    ) -> Result<PublishedPipelines, UnpublishedReason> {
        let head = parts.repositories.head(repository).await?;
        let Some(newest) = self.newest.get(repository) else {
            let why = format!("no repository `{repository}` is configured");
            return Err(RepositoryError::Refused(why).into());
        };
        // Others who ask for the same commit wait for the first.
        let mut newest = newest.lock().await;
        if let Some(known) = newest.as_ref().filter(|known| known.commit == head) {
            return Ok(known.clone());
        }
        let base = parts.repositories.base(repository, &head).await?;
        let tree: Arc<dyn Tree> = Arc::new(Overlay::new(base, WorkspaceEdits::new()));
        let evaluator = parts.comparer.evaluator();
        let loaded = LoadedPipelines::read(tree, evaluator.as_ref(), &self.operator, cancel).await?;
        let published = PublishedPipelines {
            commit: head,
            loaded: loaded.map(Arc::new),
        };
        *newest = Some(published.clone());
        Ok(published)
    }
}
