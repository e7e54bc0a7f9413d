//! Background work of the gateway: loading repositories at the start, keeping them current, and dropping expired
//! response URLs.

use super::parts::Parts;
use crate::state::workspace::RepositoryError;
use futures_util::future::join_all;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Pause between two attempts to load a repository.
const LOAD_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Pause between two purges of response URLs.
const RESPONSE_URL_PURGE_INTERVAL: Duration = Duration::from_secs(300);

/// An observer of loaded repositories.
pub trait LoadObserver: Send + Sync {
    /// Reports that a repository is ready.
    fn loaded(&self, repository: &str);

    /// Reports that a repository is not ready yet. `why` is a few words without a path or an address.
    fn failed(&self, repository: &str, why: &str);
}

/// Upkeep in the background, for as long as the process runs.
#[derive(Clone)]
pub struct Housekeeping {
    parts: Arc<Parts>,
}

impl Housekeeping {
    pub(super) fn new(parts: Arc<Parts>) -> Self {
        Self { parts }
    }

    /// Opens every repository and loads the tree of its newest commit, so that the first turn does not wait. A failed
    /// one is retried. Then it keeps mirrors current until `cancel`.
    pub async fn load_repositories(self, watcher: Arc<dyn LoadObserver>, cancel: CancellationToken) {
        let names = self.parts.repositories.names();
        // All load in parallel, so a stuck repository does not delay the others.
        let all = join_all(names.map(|name| self.load_until_ready(name, watcher.as_ref())));
        cancel.run_until_cancelled(all).await;
    }

    async fn load_until_ready(&self, name: &str, watcher: &dyn LoadObserver) {
        while let Err(error) = self.load(name).await {
            tracing::error!(repository = name, %error, "repository {name} could not be loaded");
            watcher.failed(name, &error.brief());
            if let RepositoryError::Format(_) = error {
                // This state lasts until the next start, because nothing here converts the repository.
                return;
            }
            tokio::time::sleep(LOAD_AGAIN_AFTER).await;
        }
        watcher.loaded(name);
        loop {
            tokio::time::sleep(self.parts.repositories.bounds().age_max / 2).await;
            self.parts.repositories.keep_current(name);
            if self.has_pipeline_times(name) {
                self.parts.repositories.see_head(name).await;
            }
        }
    }

    /// True if a schedule starts the pipelines of a repository, whose times are those of its newest commit.
    fn has_pipeline_times(&self, repository: &str) -> bool {
        let mut schedules = self.parts.config.schedules.values();
        schedules.any(|schedule| schedule.starts_pipelines && schedule.definition.repository == repository)
    }

    /// Purges the expired response URLs of commands and login codes every few minutes until `cancel`. They are credentials.
    pub async fn drop_addresses(self, cancel: CancellationToken) {
        loop {
            let (store, now) = (&self.parts.store, (self.parts.now)());
            if let Err(error) = store.drop_response_urls(now).await {
                tracing::warn!(%error, "expired addresses for answers to commands could not be removed; it is tried \
                                        again");
            }
            if let Err(error) = store.forget_login_codes(now).await {
                tracing::warn!(%error, "expired login codes could not be removed; it is tried again");
            }
            tokio::select! {
                () = tokio::time::sleep(RESPONSE_URL_PURGE_INTERVAL) => {}
                () = cancel.cancelled() => return,
            }
        }
    }

    /// Returns the mirrors that could not be fetched, each with the reason.
    pub fn stale_repositories(&self) -> Vec<String> {
        let (repositories, at) = (&self.parts.repositories, (self.parts.now)());
        let stale = repositories
            .names()
            .filter_map(|name| repositories.stale(name, at));
        stale.collect()
    }

    async fn load(&self, name: &str) -> Result<(), RepositoryError> {
        let head = self.parts.repositories.head(name).await?;
        self.parts.repositories.base(name, &head).await?;
        Ok(())
    }
}
