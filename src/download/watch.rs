//! Whoever waits for a download: is told how far it is, and may end it.

use crate::workspace::{FetchProgress, OnFetch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// Whoever waits for a fetch. It is told how far it is, from any thread, and may stop it.
#[derive(Clone)]
pub struct Watch {
    progress: OnFetch,
    cancel: CancellationToken,
    // The same for those who look at a flag from time to time.
    stop: Arc<AtomicBool>,
}

impl Watch {
    /// Stopped with the token, and told by `progress`, which is called often and must return at once.
    pub fn new(progress: OnFetch, cancel: &CancellationToken) -> Self {
        Self {
            progress,
            // Whoever stops a download stops nothing else.
            cancel: cancel.child_token(),
            stop: Arc::default(),
        }
    }

    /// Nobody waits.
    pub fn nobody() -> Self {
        Self::new(Arc::new(|_| ()), &CancellationToken::new())
    }

    /// Stops it.
    pub fn stop(&self) {
        self.cancel.cancel();
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.cancel.is_cancelled()
    }

    /// Returns when it is stopped by its token.
    pub(super) async fn stopped(&self) {
        self.cancel.cancelled().await;
    }

    /// A flag that is set when it is stopped, at the latest when something was told after that.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// Tells how far it is.
    pub(crate) fn tell(&self, step: FetchProgress) {
        if self.cancel.is_cancelled() {
            self.stop.store(true, Ordering::Relaxed);
        }
        (self.progress)(step);
    }

    pub(super) fn bytes(&self, what: &str, done: usize, of: Option<usize>) {
        self.tell(FetchProgress {
            what: what.to_owned(),
            done,
            of,
            bytes: true,
        });
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
