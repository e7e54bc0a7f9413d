//! What the gateway does besides answering: loading repositories at start, forgetting what is old.

use super::Gateway;
use jiff::SignedDuration;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two attempts to load a repository.
const LOAD_AGAIN_AFTER: Duration = Duration::from_secs(30);
/// Between two rounds of forgetting.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

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

    /// Forgets deliveries, sent messages and buttons that are older than the configuration keeps them.
    pub async fn forget_old_deliveries(self: Arc<Self>, cancel: CancellationToken) {
        let kept = SignedDuration::from_hours(i64::from(self.parts.config.data.delivery_hours_kept));
        while !cancel.is_cancelled() {
            let now = (self.parts.now)();
            let before = now.checked_sub(kept).unwrap_or(now);
            let store = &self.parts.store;
            let forgotten = tokio::try_join!(
                store.forget_deliveries(before),
                store.forget_sent(before),
                store.forget_actions(before),
            );
            if let Err(error) = forgotten {
                tracing::warn!(%error, "old rows could not be forgotten");
            }
            tokio::select! {
                () = tokio::time::sleep(FORGET_EVERY) => {}
                () = cancel.cancelled() => {}
            }
        }
    }
}
