//! The syncer. It makes commits durable that did not wait for the disk: at once if a caller waits for that, otherwise
//! after a short delay. It has its own thread. A later synced commit also covers the earlier ones.

use super::condition::Reporter;
use super::{OpenError, StoreError};
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Delay between a commit and its sync. A power failure may lose the commits of this time.
const DELAY: Duration = Duration::from_millis(20);
/// Pause between two attempts to open the log.
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// The time for which the log may be impossible to open before waiting callers get an error.
const OPEN_WAIT_MAX: Duration = Duration::from_secs(2);

/// The syncing thread. It ends when this is dropped.
pub(super) struct Syncer {
    shared: Arc<SyncShared>,
    reporter: Reporter,
}

#[derive(Default)]
struct SyncShared {
    state: Mutex<SyncState>,
    changed: Condvar,
}

#[derive(Default)]
struct SyncState {
    /// Number of commits that did not wait for the disk. `durable` is how many of them are durable by now.
    committed: u64,
    durable: u64,
    /// Callers that wait until this number of commits is durable. They receive false if that is unknown.
    waiting: Vec<(u64, oneshot::Sender<bool>)>,
    /// True if the disk failed, so that its content is unknown.
    failed: bool,
    closed: bool,
}

impl Syncer {
    /// Starts the syncer for an existing log file of the database.
    pub(super) fn start(log: &Path, reporter: Reporter) -> Result<Self, OpenError> {
        let resources = |err: std::io::Error| OpenError::Resources(err.to_string());
        let shared = Arc::<SyncShared>::default();
        let mut log = LogFile::at(log);
        // The file is opened now, while descriptors are available, and stays open.
        log.current().map_err(resources)?;
        let (thread_shared, thread_reporter) = (Arc::clone(&shared), reporter.clone());
        std::thread::Builder::new()
            .name("store-syncer".to_owned())
            .spawn(move || {
                if catch_unwind(AssertUnwindSafe(|| {
                    run(&thread_shared, &mut log, &thread_reporter)
                }))
                .is_err()
                {
                    thread_reporter.broken("the thread that syncs panicked");
                    thread_shared.fail();
                }
            })
            .map_err(resources)?;
        Ok(Self { shared, reporter })
    }

    /// Counts a commit that did not wait for the disk.
    pub(super) fn note_commit(&self) {
        self.shared.state().committed += 1;
        self.shared.changed.notify_one();
    }

    /// Records a synced commit, which makes all earlier ones durable.
    pub(super) fn note_synced_commit(&self) {
        let mut state = self.shared.state();
        state.durable = state.committed;
        state.notify_waiting();
    }

    /// Waits until all earlier commits are durable.
    pub(super) async fn wait_durable(&self) -> Result<(), StoreError> {
        let durable = {
            let mut state = self.shared.state();
            if state.failed {
                return Err(self.reporter.why_dropped());
            }
            if !state.is_pending() {
                return Ok(());
            }
            let (sender, receiver) = oneshot::channel();
            let committed = state.committed;
            state.waiting.push((committed, sender));
            self.shared.changed.notify_one();
            receiver
        };
        match durable.await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) if self.reporter.is_broken() => Err(self.reporter.why_dropped()),
            Ok(false) | Err(_) => Err(StoreError::Unavailable(
                "what was committed could not be synced yet".to_owned(),
            )),
        }
    }

    /// Reports no commit as durable any more, because the store is broken.
    pub(super) fn fail(&self) {
        self.shared.fail();
    }

    /// Creates a syncer without its thread. It makes nothing durable on its own.
    #[cfg(test)]
    pub(super) fn without_thread() -> Self {
        Self {
            shared: Arc::default(),
            reporter: Reporter::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_durable(&self) -> bool {
        !self.shared.state().is_pending()
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_one();
    }
}

impl SyncShared {
    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self) {
        let mut state = self.state();
        state.failed = true;
        state.notify_waiting();
    }

    /// Waits until there is something to sync, and a caller waits for it or the delay has passed. Returns false at the
    /// end.
    fn wait_for_work(&self) -> bool {
        let idle = |state: &mut SyncState| !state.is_pending() && !state.closed;
        let patient = |state: &mut SyncState| state.is_pending() && state.waiting.is_empty() && !state.closed;
        loop {
            let state = self.changed.wait_while(self.state(), idle);
            let state = state.unwrap_or_else(PoisonError::into_inner);
            let state = self.changed.wait_timeout_while(state, DELAY, patient);
            let (state, _) = state.unwrap_or_else(PoisonError::into_inner);
            match (state.is_pending(), state.closed) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
    }
}

impl SyncState {
    fn is_pending(&self) -> bool {
        self.durable < self.committed
    }

    fn notify_waiting(&mut self) {
        let (durable, failed) = (self.durable, self.failed);
        for (_, waiting) in self
            .waiting
            .extract_if(.., |(wanted, _)| failed || *wanted <= durable)
        {
            // The callers may have stopped waiting.
            let _gone = waiting.send(!failed);
        }
    }
}

/// The log file, opened once and kept open. Opening it again could fail for lack of descriptors, and a newly opened
/// file would not report an earlier failed sync.
struct LogFile {
    path: PathBuf,
    file: Option<(File, Metadata)>,
}

enum SyncResult {
    Done,
    /// The sync was not tried. The files are unchanged.
    NotYet(std::io::Error),
    /// The sync failed, so the content of the disk is unknown.
    Failed(std::io::Error),
}

impl LogFile {
    fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            file: None,
        }
    }

    fn sync(&mut self) -> SyncResult {
        match self.current() {
            Err(error) => SyncResult::NotYet(error),
            // The database was closed, and everything is in it.
            Ok(None) => SyncResult::Done,
            Ok(Some(file)) => match file.sync_data() {
                Ok(()) => SyncResult::Done,
                Err(error) => SyncResult::Failed(error),
            },
        }
    }

    /// Returns the open file, or opens the path again if another file has replaced it.
    #[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
    fn current(&mut self) -> std::io::Result<Option<&File>> {
        match std::fs::metadata(&self.path) {
            Ok(there) if self.file.as_ref().is_some_and(|(_, kept)| is_same(kept, &there)) => {}
            Ok(_) => {
                let file = File::open(&self.path)?;
                let metadata = file.metadata()?;
                self.file = Some((file, metadata));
            }
            Err(error) if error.kind() == ErrorKind::NotFound || self.file.is_some() => {}
            Err(error) => return Err(error),
        }
        Ok(self.file.as_ref().map(|(file, _)| file))
    }
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

fn run(shared: &SyncShared, log: &mut LogFile, reporter: &Reporter) {
    let mut not_since: Option<Instant> = None;
    while shared.wait_for_work() {
        // Later commits belong to the next sync.
        let committed = shared.state().committed;
        match log.sync() {
            SyncResult::Done if !reporter.is_broken() => {
                not_since = None;
                let mut state = shared.state();
                state.durable = state.durable.max(committed);
                state.notify_waiting();
            }
            SyncResult::Done => return shared.fail(),
            SyncResult::Failed(error) => {
                reporter.broken(&format!("what was committed could not be synced: {error}"));
                return shared.fail();
            }
            SyncResult::NotYet(error) => {
                if not_since.is_none() {
                    tracing::warn!(%error, "the log could not be opened to sync it; it is tried again");
                }
                let mut state = shared.state();
                let waited = not_since.get_or_insert_with(Instant::now).elapsed();
                if waited >= OPEN_WAIT_MAX || state.closed {
                    // Nothing is durable yet. A caller that asks again waits again.
                    state.waiting.clear();
                }
                if state.closed {
                    return;
                }
                drop(state);
                std::thread::sleep(AGAIN_AFTER);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::{LogFile, Reporter, SyncShared, Syncer, run};
    use crate::state::store::StoreError;
    use std::path::Path;
    use std::sync::Arc;

    /// A file that the system can open but not sync.
    const UNSYNCED: &str = "/dev/null";

    /// Runs the thread once, at the end of its store, with this number of commits that are not synced yet.
    fn synced(commits: u64, log: &Path) -> (SyncShared, Reporter) {
        let (shared, reporter) = (SyncShared::default(), Reporter::default());
        shared.state().committed = commits;
        shared.state().closed = true;
        run(&shared, &mut LogFile::at(log), &reporter);
        (shared, reporter)
    }

    /// R14
    #[test]
    fn a_failed_log_sync_breaks_the_store_and_a_missing_log_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert!(!synced(1, &log).0.state().failed);
        std::fs::write(&log, "x").unwrap();
        let (shared, reporter) = synced(1, &log);
        assert!(!shared.state().failed && !shared.state().is_pending());
        assert!(!reporter.is_broken());
        let (shared, reporter) = synced(1, Path::new(UNSYNCED));
        assert!(shared.state().failed && shared.state().is_pending());
        assert!(reporter.is_broken());
        assert!(!synced(0, Path::new(UNSYNCED)).1.is_broken());
    }

    /// A log that is missing or could not be opened gives no information about the disk.
    #[test]
    fn a_log_that_cannot_be_opened_does_not_break_the_store() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, "x").unwrap();
        let (shared, reporter) = synced(1, &log.join("below a file"));
        assert!(!shared.state().failed && !reporter.is_broken());
        assert!(shared.state().is_pending());
    }

    #[test]
    fn a_replaced_log_file_is_the_one_that_is_synced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, "one").unwrap();
        let mut log = LogFile::at(&path);
        let length = |log: &mut LogFile| log.current().unwrap().unwrap().metadata().unwrap().len();
        assert_eq!(length(&mut log), 3);
        let other = directory.path().join("other");
        std::fs::write(&other, "another").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(length(&mut log), 7);
        // The open file stays available after its name is removed.
        std::fs::remove_file(&path).unwrap();
        assert_eq!(length(&mut log), 7);
    }

    #[tokio::test]
    async fn waiters_learn_when_a_commit_is_durable_or_never_will_be() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, "x").unwrap();
        let syncer = Syncer::start(&log, Reporter::default()).unwrap();
        assert!(syncer.wait_durable().await.is_ok());
        for _ in 0..3 {
            syncer.note_commit();
            assert!(syncer.wait_durable().await.is_ok());
            assert!(!syncer.shared.state().is_pending());
        }
        let reporter = Reporter::default();
        let syncer = Syncer::start(Path::new(UNSYNCED), reporter.clone()).unwrap();
        syncer.note_commit();
        let error = syncer.wait_durable().await.unwrap_err();
        assert!(matches!(error, StoreError::Broken(_)), "{error}");
        assert!(reporter.is_broken());
        // No later commit is reported as durable either.
        syncer.note_commit();
        assert_eq!(syncer.wait_durable().await, Err(error));
    }

    /// R14: a failed sync elsewhere counts like a failed sync of this thread.
    #[tokio::test]
    async fn nothing_is_called_durable_once_the_store_is_broken() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, "x").unwrap();
        let reporter = Reporter::default();
        let syncer = Syncer::start(&log, reporter.clone()).unwrap();
        reporter.broken("a checkpoint could not be synced");
        syncer.note_commit();
        assert!(syncer.wait_durable().await.is_err());
    }

    #[tokio::test]
    async fn a_commit_that_waited_for_the_disk_makes_those_before_it_durable() {
        // Without its thread, nothing else could report it.
        let syncer = Syncer {
            shared: Arc::default(),
            reporter: Reporter::default(),
        };
        syncer.note_commit();
        let (result, ()) = tokio::join!(syncer.wait_durable(), async { syncer.note_synced_commit() });
        assert!(result.is_ok());
    }
}
