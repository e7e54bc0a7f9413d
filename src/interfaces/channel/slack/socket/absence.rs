//! The time since which no socket was of use, so that nothing that people write arrives.

use jiff::Timestamp;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The time since which no socket was of use, from the start of the receiver; none while one is open that was, or that
/// has been open for ten seconds. A socket that is closed soon after it opened does not end the time.
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

    /// Records that a socket is or was of use.
    pub(super) fn end(&self) {
        *self.since_when() = None;
    }

    /// Returns the time since which no socket was of use.
    pub(in crate::interfaces::channel::slack) fn since(&self) -> Option<Timestamp> {
        *self.since_when()
    }

    fn since_when(&self) -> MutexGuard<'_, Option<Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
