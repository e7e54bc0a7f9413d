//! The waits that a platform asks for with 429, and the times after which the next calls come.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A wait that the platform asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedWait {
    /// The calls that have to wait, such as a method or a chat.
    pub scope: String,
    /// The wait.
    pub wait: Duration,
    /// The time after which the next call came; `None` if none has come yet.
    pub waited: Option<Duration>,
}

/// All waits, oldest first.
#[derive(Debug, Default)]
pub(super) struct RequestedWaits {
    all: Vec<RequestedWait>,
    /// The time and the index of the wait that no call has followed, by scope.
    open: BTreeMap<String, (Instant, usize)>,
}

impl RequestedWaits {
    /// Records a call.
    pub(super) fn record_call(&mut self, scope: &str, now: Instant) {
        if let Some((asked, index)) = self.open.remove(scope)
            && let Some(wait) = self.all.get_mut(index)
        {
            wait.waited = Some(now - asked);
        }
    }

    /// Records that a call was refused until a wait is over.
    pub(super) fn record_wait(&mut self, scope: &str, seconds: u64, now: Instant) {
        self.open.insert(scope.to_owned(), (now, self.all.len()));
        self.all.push(RequestedWait {
            scope: scope.to_owned(),
            wait: Duration::from_secs(seconds),
            waited: None,
        });
    }

    pub(super) fn all(&self) -> &[RequestedWait] {
        &self.all
    }
}
