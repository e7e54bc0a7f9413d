//! Records of rejected requests: audit rows up to a bound, and counters beyond it. A flood of forged requests must not
//! fill the disk.

use crate::state::store::Store;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use tokio_util::task::TaskTracker;

/// Maximum number of audit rows per minute for one name and reason.
const ROWS_PER_MINUTE_MAX: u32 = 10;
/// Maximum number of distinct pairs of name and reason.
const KINDS_MAX: usize = 256;

/// Records of requests that were rejected or ignored.
pub struct IngressAudit {
    store: Store,
    rejections: Rejections,
    background: TaskTracker,
}

/// Counters of the rejections in the current minute.
#[derive(Debug, Default)]
struct Rejections {
    counted: Mutex<BTreeMap<(String, &'static str), RejectionCount>>,
}

#[derive(Debug, Default)]
struct RejectionCount {
    minute: i64,
    rows: u32,
    all: u64,
}

impl Rejections {
    /// Counts one rejection. Returns the total if this one should be written to the audit log.
    fn count(&self, name: &str, reason: &'static str, at: Timestamp) -> Option<u64> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_owned(), reason);
        if counted.len() >= KINDS_MAX && !counted.contains_key(&key) {
            return None;
        }
        let entry = counted.entry(key).or_default();
        let minute = at.as_second() / 60;
        if entry.minute != minute {
            (entry.minute, entry.rows) = (minute, 0);
        }
        entry.all += 1;
        entry.rows += 1;
        (entry.rows <= ROWS_PER_MINUTE_MAX).then_some(entry.all)
    }
}

impl IngressAudit {
    pub(super) fn new(store: Store, background: &TaskTracker) -> Self {
        Self {
            store,
            rejections: Rejections::default(),
            background: background.clone(),
        }
    }

    /// Records a rejected request. The reason appears only here.
    pub fn rejected(&self, name: &str, reason: &'static str, at: Timestamp) {
        self.note("ingress.rejected", name, reason, at);
    }

    /// Records a verified event that is irrelevant.
    pub fn ignored(&self, name: &str, reason: &'static str, at: Timestamp) {
        self.note("ingress.ignored", name, reason, at);
    }

    /// Records one event, unless there were too many of its kind within the minute.
    pub(super) fn note(&self, event: &'static str, name: &str, reason: &'static str, at: Timestamp) {
        let Some(count) = self.rejections.count(name, reason, at) else {
            return;
        };
        let data = serde_json::json!({ "name": name, "reason": reason, "count": count });
        let store = self.store.clone();
        self.background.spawn(async move {
            if let Err(error) = store.audit(event, data, at).await {
                tracing::error!(%error, "an audit row could not be written");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{ROWS_PER_MINUTE_MAX, Rejections};
    use jiff::Timestamp;

    #[test]
    fn a_flood_of_forgeries_writes_a_bounded_number_of_rows() {
        let notes = Rejections::default();
        let at = Timestamp::UNIX_EPOCH;
        let rows = (0..10_000)
            .filter(|_| notes.count("slack", "hook.forged", at).is_some())
            .count();
        assert_eq!(rows, ROWS_PER_MINUTE_MAX as usize);
        let later = Timestamp::from_second(61).unwrap_or_default();
        assert_eq!(notes.count("slack", "hook.forged", later), Some(10_001));
    }
}
