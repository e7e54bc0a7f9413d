//! What the gateway does besides answering: loading repositories at start.

use super::Gateway;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two attempts to load a repository.
const LOAD_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Hears which repositories can serve.
pub trait RepositoriesLoaded: Send + Sync {
    /// This one can.
    fn loaded(&self, repository: &str);
}

impl Gateway {
    /// Opens every repository and loads the tree of its newest commit, so that the first turn does not
    /// wait. One that fails is tried again until `cancel`.
    pub async fn load_repositories(
        self: Arc<Self>,
        watcher: Arc<dyn RepositoriesLoaded>,
        cancel: CancellationToken,
    ) {
        let mut missing: Vec<String> = self.parts.repositories.names().map(str::to_owned).collect();
        while !missing.is_empty() {
            let mut failed = Vec::new();
            for name in missing {
                match self.load(&name).await {
                    Ok(()) => watcher.loaded(&name),
                    Err(error) => {
                        tracing::error!(repository = name, %error, "repository {name} could not be loaded");
                        failed.push(name);
                    }
                }
            }
            missing = failed;
            if !missing.is_empty() {
                tokio::select! {
                    () = tokio::time::sleep(LOAD_AGAIN_AFTER) => {}
                    () = cancel.cancelled() => return,
                }
            }
        }
    }

    async fn load(&self, name: &str) -> Result<(), crate::workspace::RepositoryError> {
        let head = self.parts.repositories.head(name).await?;
        self.parts.repositories.base(name, &head).await?;
        Ok(())
    }
}
