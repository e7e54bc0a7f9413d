//! The definitions of pipelines that a repository publishes: those at the head of its trusted branch. An edit of the file in
//! a conversation is never used.

use crate::base::config::PipelineOperatorSettings;
use crate::engine::gateway::parts::Parts;
use crate::engine::pipeline::{DefinitionError, LoadedPipelines, OperatorLimits};
use crate::state::workspace::{Overlay, RepositoryError, Tree, WorkspaceEdits};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The longest time for which a failure is the answer to others who ask for the same commit. It may pass, such as that of a
/// sandbox without room.
const FAILURE_AGE_MAX: Duration = Duration::from_secs(10);

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

/// The newest outcome of a repository.
#[derive(Debug)]
enum NewestDefinitions {
    Published(PublishedPipelines),
    Failed {
        commit: String,
        why: DefinitionError,
        at: Instant,
    },
}

impl NewestDefinitions {
    /// Returns the outcome if it is that of a commit and may still be used.
    fn known(&self, head: &str) -> Option<Result<PublishedPipelines, DefinitionError>> {
        match self {
            Self::Published(published) => (published.commit == head).then(|| Ok(published.clone())),
            Self::Failed { commit, why, at } => {
                (commit == head && at.elapsed() < FAILURE_AGE_MAX).then(|| Err(why.clone()))
            }
        }
    }
}

/// The newest definitions of each repository. They are read and checked once for each commit.
#[derive(Debug)]
pub(in crate::engine::gateway) struct PipelineDefinitions {
    /// The limits of the operator.
    pub(in crate::engine::gateway) operator: OperatorLimits,
    newest: BTreeMap<String, Mutex<Option<NewestDefinitions>>>,
}

impl PipelineDefinitions {
    pub(in crate::engine::gateway) fn new(parts: &Parts) -> Self {
        let names = parts.repositories.names();
        Self {
            operator: OperatorLimits {
                tools: parts.toolbox.names().map(str::to_owned).collect(),
                server: Some(PipelineOperatorSettings::of(&parts.config)),
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
        if let Some(known) = newest.as_ref().and_then(|newest| newest.known(&head)) {
            return known.map_err(UnpublishedReason::from);
        }
        let base = parts.repositories.base(repository, &head).await?;
        let tree: Arc<dyn Tree> = Arc::new(Overlay::new(base, WorkspaceEdits::new()));
        let evaluator = parts.comparer.evaluator();
        match LoadedPipelines::read(tree, evaluator.as_ref(), &self.operator, cancel).await {
            Ok(loaded) => {
                let published = PublishedPipelines {
                    commit: head,
                    loaded: loaded.map(Arc::new),
                };
                *newest = Some(NewestDefinitions::Published(published.clone()));
                Ok(published)
            }
            // What the caller stopped says nothing about the definitions.
            Err(why) if cancel.is_cancelled() => Err(why.into()),
            Err(why) => {
                *newest = Some(NewestDefinitions::Failed {
                    commit: head,
                    why: why.clone(),
                    at: Instant::now(),
                });
                Err(why.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FAILURE_AGE_MAX, NewestDefinitions, PublishedPipelines};
    use crate::engine::pipeline::DefinitionError;
    use std::time::Duration;
    use tokio::time::{Instant, advance};

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_known_for_a_short_time_and_definitions_for_as_long_as_the_commit() {
        let published = NewestDefinitions::Published(PublishedPipelines {
            commit: "a".to_owned(),
            loaded: None,
        });
        let why = DefinitionError {
            file: "pipelines.yaml".to_owned(),
            problems: Vec::new(),
        };
        let failed = NewestDefinitions::Failed {
            commit: "a".to_owned(),
            why: why.clone(),
            at: Instant::now(),
        };
        let known = || failed.known("a").map(Result::err);
        assert!(failed.known("b").is_none() && published.known("b").is_none());
        advance(FAILURE_AGE_MAX - Duration::from_secs(1)).await;
        assert_eq!(known(), Some(Some(why)));
        advance(Duration::from_secs(1)).await;
        assert_eq!(known(), None);
        assert!(published.known("a").is_some_and(|known| known.is_ok()));
    }
}
