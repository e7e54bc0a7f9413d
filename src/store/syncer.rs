//! Makes durable what was committed without waiting for the disk: at once where somebody waits for it, else
//! a moment later, on a thread of its own, unless a commit that waited has taken it along.

use super::{OpenError, StoreError};
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long after a commit: so much may be lost when the power fails.
const DELAY: Duration = Duration::from_millis(20);

/// The thread. It ends with this.
pub(super) struct Syncer {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Commits that did not wait for the disk, and how many of them are durable by now.
    committed: u64,
    durable: u64,
    /// Who waits until so many are. Told false when the disk failed.
    waiting: Vec<(u64, oneshot::Sender<bool>)>,
    /// The disk failed, so that nobody knows what it holds.
    failed: bool,
    closed: bool,
}

impl Syncer {
    /// Syncs this file, the log of the database. It is opened when it is needed: SQLite makes it.
    pub(super) fn start(log: &Path) -> Result<Self, OpenError> {
        let shared = Arc::<Shared>::default();
        let (there, log) = (Arc::clone(&shared), log.to_owned());
        std::thread::Builder::new()
            .name("store-syncer".to_owned())
            .spawn(move || run(&there, &log))
            .map_err(|err| OpenError::Resources(err.to_string()))?;
        Ok(Self { shared })
    }

    /// There is a commit that did not wait for the disk.
    pub(super) fn later(&self) {
        self.shared.state().committed += 1;
        self.shared.changed.notify_one();
    }

    /// A commit waited for the disk, and took along all before it.
    pub(super) fn done(&self) {
        let mut state = self.shared.state();
        state.durable = state.committed;
        state.tell_those_who_wait();
    }

    /// Waits until all that was committed before is durable.
    pub(super) async fn durable(&self) -> Result<(), StoreError> {
        let durable = {
            let mut state = self.shared.state();
            if state.failed {
                return Err(failed());
            }
            if !state.is_pending() {
                return Ok(());
            }
            let (tell, told) = oneshot::channel();
            let committed = state.committed;
            state.waiting.push((committed, tell));
            self.shared.changed.notify_one();
            told
        };
        match durable.await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err(failed()),
        }
    }

    #[cfg(test)]
    pub(super) fn is_durable(&self) -> bool {
        !self.shared.state().is_pending()
    }

    /// Whether the disk failed, so that nobody knows what it holds.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.state().failed
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.shared.state().closed = true;
        self.shared.changed.notify_one();
    }
}

fn failed() -> StoreError {
    StoreError::Unavailable("the disk could not be synced".to_owned())
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something to sync, and either somebody waits for it or the moment is over. False at
    /// the end.
    fn wait_for_work(&self) -> bool {
        let idle = |state: &mut State| !state.is_pending() && !state.closed;
        let patient = |state: &mut State| state.is_pending() && state.waiting.is_empty() && !state.closed;
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

impl State {
    fn is_pending(&self) -> bool {
        self.durable < self.committed
    }

    fn tell_those_who_wait(&mut self) {
        let (durable, failed) = (self.durable, self.failed);
        for (_, waiting) in self
            .waiting
            .extract_if(.., |(wanted, _)| failed || *wanted <= durable)
        {
            // They may have stopped waiting.
            let _gone = waiting.send(!failed);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
fn run(shared: &Shared, log: &Path) {
    while shared.wait_for_work() {
        // What is committed from here on is for the next time.
        let committed = shared.state().committed;
        let synced = match File::open(log).and_then(|file| file.sync_data()) {
            Ok(()) => true,
            // The database was closed meanwhile, with everything in it.
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => {
                tracing::error!(%error, "what was committed could not be synced");
                false
            }
        };
        let mut state = shared.state();
        state.failed |= !synced;
        state.durable = state.durable.max(committed);
        state.tell_those_who_wait();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::{Shared, Syncer, run};
    use std::path::Path;
    use std::sync::Arc;

    /// What the thread makes of one commit that did not wait, at the end of its store.
    fn synced(pending: bool, log: &Path) -> Shared {
        let shared = Shared::default();
        shared.state().committed = u64::from(pending);
        shared.state().closed = true;
        run(&shared, log);
        shared
    }

    #[test]
    fn a_log_that_cannot_be_synced_is_told_and_one_that_is_gone_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert!(!synced(true, &log).state().failed);
        std::fs::write(&log, "x").unwrap();
        let shared = synced(true, &log);
        assert!(!shared.state().failed && !shared.state().is_pending());
        // No file, and no log that anybody could read.
        let odd = log.join("below a file");
        assert!(synced(true, &odd).state().failed);
        assert!(!synced(false, &odd).state().failed);
    }

    #[tokio::test]
    async fn who_waits_is_told_when_it_is_durable_and_when_it_never_will_be() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, "x").unwrap();
        let syncer = Syncer::start(&log).unwrap();
        assert!(syncer.durable().await.is_ok());
        for _ in 0..3 {
            syncer.later();
            assert!(syncer.durable().await.is_ok());
            assert!(!syncer.shared.state().is_pending());
        }
        let syncer = Syncer::start(&log.join("below a file")).unwrap();
        syncer.later();
        assert!(syncer.durable().await.is_err());
        assert!(syncer.has_failed());
        // Nothing after it is called durable either.
        syncer.later();
        assert!(syncer.durable().await.is_err());
    }

    #[tokio::test]
    async fn a_commit_that_waited_for_the_disk_makes_those_before_it_durable() {
        // Without its thread nothing else could tell.
        let syncer = Syncer {
            shared: Arc::default(),
        };
        syncer.later();
        let (told, ()) = tokio::join!(syncer.durable(), async { syncer.done() });
        assert!(told.is_ok());
    }
}
