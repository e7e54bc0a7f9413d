//! Makes durable what was committed without waiting for the disk: a moment later, on a thread of its own,
//! unless a commit that waited has taken it along.

use super::OpenError;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// How long after a commit: so much may be lost when the power fails.
const DELAY: Duration = Duration::from_millis(20);

/// The thread. It ends with this.
pub(super) struct Syncer {
    wake: SyncSender<()>,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    pending: AtomicBool,
    failed: AtomicBool,
}

impl Syncer {
    /// Syncs this file, the log of the database. It is opened when it is needed: SQLite makes it.
    pub(super) fn start(log: &Path) -> Result<Self, OpenError> {
        let (wake, woken) = sync_channel(1);
        let state = Arc::new(State::default());
        let (there, log) = (Arc::clone(&state), log.to_owned());
        std::thread::Builder::new()
            .name("store-syncer".to_owned())
            .spawn(move || run(&woken, &there, &log))
            .map_err(|err| OpenError::Resources(err.to_string()))?;
        Ok(Self { wake, state })
    }

    /// There is a commit that did not wait for the disk.
    pub(super) fn later(&self) {
        self.state.pending.store(true, Ordering::Release);
        // It is awake already when there is no room.
        let _awake = self.wake.try_send(());
    }

    /// A commit waited for the disk, and took along all before it.
    pub(super) fn done(&self) {
        self.state.pending.store(false, Ordering::Release);
    }

    /// Whether the disk failed, so that nobody knows what it holds.
    pub(super) fn has_failed(&self) -> bool {
        self.state.failed.load(Ordering::Acquire)
    }
}

#[allow(clippy::disallowed_methods, reason = "the store owns its directory")]
fn run(woken: &Receiver<()>, state: &State, log: &Path) {
    while woken.recv().is_ok() {
        std::thread::sleep(DELAY);
        if !state.pending.swap(false, Ordering::AcqRel) {
            continue;
        }
        match File::open(log).and_then(|file| file.sync_data()) {
            Ok(()) => {}
            // The database was closed meanwhile, with everything in it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(%error, "what was committed could not be synced");
                state.failed.store(true, Ordering::Release);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::disallowed_methods)]
mod tests {
    use super::{State, run};
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::sync_channel;

    /// What the thread makes of one call to wake.
    fn synced(pending: bool, log: &std::path::Path) -> State {
        let (wake, woken) = sync_channel(1);
        wake.send(()).unwrap();
        drop(wake);
        let state = State::default();
        state.pending.store(pending, Ordering::Release);
        run(&woken, &state, log);
        state
    }

    #[test]
    fn a_log_that_cannot_be_synced_is_told_and_one_that_is_gone_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert!(!synced(true, &log).failed.load(Ordering::Acquire));
        std::fs::write(&log, "x").unwrap();
        let state = synced(true, &log);
        assert!(!state.failed.load(Ordering::Acquire) && !state.pending.load(Ordering::Acquire));
        // No file, and no log that anybody could read.
        let odd = log.join("below a file");
        assert!(synced(true, &odd).failed.load(Ordering::Acquire));
        assert!(!synced(false, &odd).failed.load(Ordering::Acquire));
    }
}
