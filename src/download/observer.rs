//! The observer of a download: is told how far it is, and may end it.

use crate::workspace::{FetchProgress, OnFetch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// Bytes between two things that are said of one download.
const REPORT_INTERVAL_BYTES: usize = 4 << 20;

/// The observer of a fetch. It is told how far it is, from any thread, and may stop it.
#[derive(Clone)]
pub struct DownloadObserver {
    progress: OnFetch,
    cancel: CancellationToken,
    // The same for those who look at a flag from time to time.
    stop: Arc<AtomicBool>,
}

impl DownloadObserver {
    /// Makes an observer that is stopped with the token, and told by `progress`, which is called often and must
    /// return at once.
    pub fn new(progress: OnFetch, cancel: &CancellationToken) -> Self {
        Self {
            progress,
            // Whoever stops a download stops nothing else.
            cancel: cancel.child_token(),
            stop: Arc::default(),
        }
    }

    /// Makes an observer that is stopped with the token, and told in words, such as `archive 12 of 40 MiB`: of long
    /// downloads alone, and seldom enough for people to read. `report` must return at once.
    pub fn with_messages(tell: impl Fn(String) + Send + Sync + 'static, cancel: &CancellationToken) -> Self {
        let told = AtomicUsize::new(0);
        let progress = move |step: FetchProgress| {
            let reached = step.done / REPORT_INTERVAL_BYTES;
            // The next download begins anew, with less than was told of the one before.
            if step.bytes && told.swap(reached, Ordering::Relaxed) < reached {
                tell(words(&step));
            }
        };
        Self::new(Arc::new(progress), cancel)
    }

    /// Makes an observer that is told nothing and never stops a fetch by itself.
    pub fn silent() -> Self {
        Self::new(Arc::new(|_| ()), &CancellationToken::new())
    }

    /// Stops it.
    pub fn stop(&self) {
        self.cancel.cancel();
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns true if it was stopped.
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
    pub(crate) fn report(&self, step: FetchProgress) {
        if self.cancel.is_cancelled() {
            self.stop.store(true, Ordering::Relaxed);
        }
        (self.progress)(step);
    }

    pub(super) fn bytes(&self, what: &str, done: usize, of: Option<usize>) {
        self.report(FetchProgress {
            what: what.to_owned(),
            done,
            total: of,
            bytes: true,
        });
    }
}

impl std::fmt::Debug for DownloadObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

fn words(step: &FetchProgress) -> String {
    let done = step.done >> 20;
    match step.total {
        Some(of) => format!("{} {done} of {} MiB", step.what, of >> 20),
        None => format!("{} {done} MiB", step.what),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::DownloadObserver;
    use crate::workspace::FetchProgress;
    use std::sync::{Arc, Mutex};
    use tokio_util::sync::CancellationToken;

    #[test]
    fn a_long_download_reports_progress_now_and_then_and_a_short_one_never() {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let to = Arc::clone(&told);
        let watch = DownloadObserver::with_messages(
            move |words| to.lock().unwrap().push(words),
            &CancellationToken::new(),
        );
        let download = |bytes: usize, of: Option<usize>| {
            for done in (0..=bytes).step_by(64 << 10) {
                watch.bytes("archive", done, of);
            }
            std::mem::take(&mut *told.lock().unwrap())
        };
        let mib = |count: usize| count << 20;
        assert_eq!(download(mib(3), Some(mib(3))), [""; 0]);
        let long = ["archive 4 of 10 MiB", "archive 8 of 10 MiB"];
        assert_eq!(download(mib(10), Some(mib(10))), long);
        // What was said of one download is not taken for the next.
        assert_eq!(download(mib(5), None), ["archive 4 MiB"]);
        let objects = FetchProgress {
            what: "create index file".to_owned(),
            done: mib(100),
            total: None,
            bytes: false,
        };
        watch.report(objects);
        assert_eq!(*told.lock().unwrap(), [""; 0]);
    }
}
