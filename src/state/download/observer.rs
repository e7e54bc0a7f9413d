//! The observer of a download: receives its progress, and may stop it.

use crate::state::workspace::{FetchProgress, OnFetch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// Bytes between two progress messages of a download.
const REPORT_INTERVAL_BYTES: usize = 4 << 20;

/// The observer of a download. It receives progress from any thread, and may stop the download.
#[derive(Clone)]
pub struct DownloadObserver {
    progress: OnFetch,
    cancel: CancellationToken,
    // The same signal, as a flag for code that polls.
    stop: Arc<AtomicBool>,
}

impl DownloadObserver {
    /// Creates an observer that the token stops and that passes progress to `progress`, which is called often and must
    /// return at once.
    pub fn new(progress: OnFetch, cancel: &CancellationToken) -> Self {
        Self {
            progress,
            // Stopping this download must not stop the other users of the token.
            cancel: cancel.child_token(),
            stop: Arc::default(),
        }
    }

    /// Creates an observer that the token stops and that reports progress as text, such as `archive 12 of 40 MiB`. It
    /// reports only long downloads, and seldom enough for people to read. `report` must return at once.
    pub fn with_messages(
        report: impl Fn(String) + Send + Sync + 'static,
        cancel: &CancellationToken,
    ) -> Self {
        let reported = AtomicUsize::new(0);
        let progress = move |step: FetchProgress| {
            let reached = step.done / REPORT_INTERVAL_BYTES;
            // The next download starts at zero, below the last reported count.
            if step.bytes && reported.swap(reached, Ordering::Relaxed) < reached {
                report(words(&step));
            }
        };
        Self::new(Arc::new(progress), cancel)
    }

    /// Creates an observer that ignores progress and never stops a download on its own.
    pub fn silent() -> Self {
        Self::new(Arc::new(|_| ()), &CancellationToken::new())
    }

    /// Stops the download.
    pub fn stop(&self) {
        self.cancel.cancel();
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns true if the download was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.cancel.is_cancelled()
    }

    /// Returns when the token stops the download.
    pub(super) async fn stopped(&self) {
        self.cancel.cancelled().await;
    }

    /// Returns a flag that is set when the download is stopped, at the latest with the next progress report.
    pub(crate) fn flag(&self) -> &AtomicBool {
        &self.stop
    }

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
    use crate::state::workspace::FetchProgress;
    use std::sync::{Arc, Mutex};
    use tokio_util::sync::CancellationToken;

    #[test]
    fn a_long_download_reports_progress_now_and_then_and_a_short_one_never() {
        let reported: Arc<Mutex<Vec<String>>> = Arc::default();
        let to = Arc::clone(&reported);
        let observer = DownloadObserver::with_messages(
            move |words| to.lock().unwrap().push(words),
            &CancellationToken::new(),
        );
        let download = |bytes: usize, of: Option<usize>| {
            for done in (0..=bytes).step_by(64 << 10) {
                observer.bytes("archive", done, of);
            }
            std::mem::take(&mut *reported.lock().unwrap())
        };
        let mib = |count: usize| count << 20;
        assert_eq!(download(mib(3), Some(mib(3))), [""; 0]);
        let long = ["archive 4 of 10 MiB", "archive 8 of 10 MiB"];
        assert_eq!(download(mib(10), Some(mib(10))), long);
        // The progress of one download does not carry over to the next.
        assert_eq!(download(mib(5), None), ["archive 4 MiB"]);
        let objects = FetchProgress {
            what: "create index file".to_owned(),
            done: mib(100),
            total: None,
            bytes: false,
        };
        observer.report(objects);
        assert_eq!(*reported.lock().unwrap(), [""; 0]);
    }
}
