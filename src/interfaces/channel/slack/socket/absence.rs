//! The time since which no socket is open, so that nothing that people write arrives.

use jiff::Timestamp;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The time since which no socket is open; none while one is, and before the first one is opened.
#[derive(Debug, Default)]
pub(in crate::interfaces::channel::slack) struct SocketAbsence(Mutex<Option<Timestamp>>);

impl SocketAbsence {
    /// Records that no socket is open. The first time counts.
    pub(super) fn begin(&self, at: Timestamp) {
        let mut since = self.since_when();
        if since.is_none() {
            *since = Some(at);
        }
    }

    /// Records that a socket is open.
    pub(super) fn end(&self) {
        *self.since_when() = None;
    }

    /// Returns the time since which no socket is open.
    pub(in crate::interfaces::channel::slack) fn since(&self) -> Option<Timestamp> {
        *self.since_when()
    }

    fn since_when(&self) -> MutexGuard<'_, Option<Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
