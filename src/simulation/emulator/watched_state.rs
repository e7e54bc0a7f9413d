//! The state of an emulator, which its server and the caller share. Each change wakes those that wait for one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A state behind a lock, with a counter of its changes.
#[derive(Debug, Default)]
pub(super) struct WatchedState<S> {
    state: Mutex<S>,
    changes: watch::Sender<u64>,
}

impl<S> WatchedState<S> {
    pub(super) fn new(state: S) -> Self {
        Self {
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, S> {
        // If a test failed while it held the lock, it has already reported its error.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the state.
    pub(super) fn read<T>(&self, read: impl FnOnce(&S) -> T) -> T {
        read(&self.lock())
    }

    /// Changes the state and notifies the waiting tasks.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        let changed = change(&mut self.lock());
        self.changes.send_modify(|count| *count += 1);
        changed
    }

    /// Returns the number of changes, to wait for the next one.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until the state shows something; `None` if it does not in time.
    pub(super) async fn wait_until<T>(&self, bound: Duration, look: impl Fn(&S) -> Option<T>) -> Option<T> {
        let mut changes = self.changes();
        let seen = async {
            loop {
                changes.mark_unchanged();
                let found = self.read(&look);
                if found.is_some() {
                    return found;
                }
                changes.changed().await.ok()?;
            }
        };
        tokio::time::timeout(bound, seen).await.ok().flatten()
    }
}
