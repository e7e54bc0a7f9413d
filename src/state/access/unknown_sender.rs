//! Unknown senders. Each gets at most one notice a day and one row in a bounded table. Further messages cost only a
//! lookup in memory.

use super::{Access, AccessError};
use crate::base::model::Sender;
use crate::state::store::unknown_sender::{NOTICE_MS, NoticeDecision};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::PoisonError;

/// Milliseconds between two purges of old entries while the map is full.
const PURGE_MS: i64 = 60_000;

/// The answer to a sender without an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DenialNotice {
    /// True if a notice is due: at most once a day.
    pub notify: bool,
}

/// The senders that got a notice within a day, up to a bound.
pub(super) struct UnknownSenders {
    notified_at: HashMap<Sender, i64>,
    senders_max: usize,
    purged_at: i64,
    denials: u64,
}

impl UnknownSenders {
    pub(super) fn new(senders_max: usize) -> Self {
        Self {
            notified_at: HashMap::new(),
            senders_max,
            purged_at: i64::MIN,
            denials: 0,
        }
    }

    /// True if this sender may need a notice. Counts every call.
    fn may_need_notice(&mut self, sender: &Sender, at: i64) -> bool {
        self.denials = self.denials.saturating_add(1);
        let is_recent = |notified_at: i64| notified_at > at.saturating_sub(NOTICE_MS);
        if let Some(notified_at) = self.notified_at.get_mut(sender) {
            if is_recent(*notified_at) {
                return false;
            }
            *notified_at = at;
            return true;
        }
        if self.notified_at.len() >= self.senders_max && at.saturating_sub(self.purged_at) >= PURGE_MS {
            self.purged_at = at;
            self.notified_at.retain(|_, notified_at| is_recent(*notified_at));
        }
        if self.notified_at.len() >= self.senders_max {
            return false;
        }
        self.notified_at.insert(sender.clone(), at);
        true
    }
}

impl Access {
    /// Counts a message of an unknown sender and decides whether to send a notice. The first message of a day is stored
    /// and audited; later ones cost no write and get no notice. New senders also get none after a day's bound of
    /// remembered senders is reached.
    pub async fn record_denial(&self, sender: &Sender, at: Timestamp) -> Result<DenialNotice, AccessError> {
        let remembered_max = {
            let mut unknown_senders = self
                .unknown_senders
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if !unknown_senders.may_need_notice(sender, at.as_millisecond()) {
                return Ok(DenialNotice { notify: false });
            }
            unknown_senders.senders_max
        };
        match self.store.notice(sender, remembered_max, at).await {
            Ok(NoticeDecision::Now) => Ok(DenialNotice { notify: true }),
            Ok(NoticeDecision::Before | NoticeDecision::Full) => Ok(DenialNotice { notify: false }),
            Err(err) => {
                let mut unknown_senders = self
                    .unknown_senders
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                unknown_senders.notified_at.remove(sender);
                Err(err.into())
            }
        }
    }

    /// Returns the number of messages from unknown senders since the start.
    pub fn denials(&self) -> u64 {
        let unknown_senders = self
            .unknown_senders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        unknown_senders.denials
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::state::access::Access;
    use crate::state::access::fixture::{at, limits, telegram};
    use crate::state::store::Store;

    const DAY: i64 = 24 * 60 * 60;

    async fn is_notified(access: &Access, id: &str, second: i64) -> bool {
        access
            .record_denial(&telegram(id), at(second))
            .await
            .unwrap()
            .notify
    }

    /// T01, T02
    #[tokio::test]
    async fn an_unknown_sender_gets_one_notice_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let access = Access::load(Store::open(directory.path()).unwrap(), &limits(10))
            .await
            .unwrap();
        assert!(is_notified(&access, "666", 0).await);
        for second in 1..100 {
            assert!(!is_notified(&access, "666", second * 800).await);
        }
        assert_eq!(access.denials(), 100);
        drop(access);
        // A restart does not start a new day.
        let store = Store::open(directory.path()).unwrap();
        let access = Access::load(store.clone(), &limits(10)).await.unwrap();
        assert!(!is_notified(&access, "666", DAY - 1).await);
        assert_eq!(store.audit_lines(10).await.unwrap().len(), 1);
        drop((access, store));
        let access = Access::load(Store::open(directory.path()).unwrap(), &limits(10))
            .await
            .unwrap();
        assert!(is_notified(&access, "666", DAY).await);
        assert!(!is_notified(&access, "666", DAY + 1).await);
    }

    /// T02, at a tenth of its size.
    #[tokio::test]
    async fn a_flood_of_unknown_senders_gets_bounded_notices_and_stores_bounded_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let access = Access::load(store.clone(), &limits(1_000)).await.unwrap();
        let mut notices = 0;
        for round in 0..10 {
            let senders = (0..1_500).map(|number| {
                let access = access.clone();
                async move { is_notified(&access, &number.to_string(), round).await }
            });
            let notified = futures_util::future::join_all(senders).await;
            notices += notified.into_iter().filter(|notified| *notified).count();
        }
        assert_eq!(notices, 1_000);
        assert_eq!(access.denials(), 15_000);
        assert_eq!(store.audit_lines(5_000).await.unwrap().len(), 1_000);
        drop((access, store));
        let bytes = std::fs::metadata(directory.path().join("drydock.db"))
            .unwrap()
            .len();
        assert!(bytes <= 2 << 20, "{bytes}");
        // Yesterday's entries are purged.
        let access = Access::load(Store::open(directory.path()).unwrap(), &limits(1_000))
            .await
            .unwrap();
        assert!(is_notified(&access, "new", DAY + 10).await);
    }
}
