//! Strangers: told once a day, remembered in a bounded table, and nothing else. A flood of them costs
//! a look into memory each.

use super::Access;
use super::AccessError;
use crate::model::Sender;
use crate::store::stranger::NOTICE_MS;
use crate::store::stranger::Noticed;
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::PoisonError;

/// How often old entries are looked for while memory is full.
const PURGE_MS: i64 = 60_000;

/// What to tell a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Denied {
    /// True if the notice is due: at most once a day.
    pub notify: bool,
}

/// Whom we told within a day, as far as memory goes.
pub(super) struct Strangers {
    told: HashMap<Sender, i64>,
    told_max: usize,
    purged_at: i64,
    denials: u64,
}

impl Strangers {
    pub(super) fn new(told_max: usize) -> Self {
        Self {
            told: HashMap::new(),
            told_max,
            purged_at: i64::MIN,
            denials: 0,
        }
    }

    /// True if this one may have to be told. Counts every call.
    fn is_new(&mut self, sender: &Sender, at: i64) -> bool {
        self.denials = self.denials.saturating_add(1);
        let is_recent = |told_at: i64| told_at > at.saturating_sub(NOTICE_MS);
        if let Some(told_at) = self.told.get_mut(sender) {
            if is_recent(*told_at) {
                return false;
            }
            *told_at = at;
            return true;
        }
        if self.told.len() >= self.told_max && at.saturating_sub(self.purged_at) >= PURGE_MS {
            self.purged_at = at;
            self.told.retain(|_, told_at| is_recent(*told_at));
        }
        if self.told.len() >= self.told_max {
            return false;
        }
        self.told.insert(sender.clone(), at);
        true
    }
}

impl Access {
    /// Counts a message of a stranger, and says whether to tell them. The first of a day is noted and
    /// audited; all others cost neither a write nor a notice, and neither does anybody once as many
    /// strangers as we remember were told within a day.
    pub async fn stranger(&self, sender: &Sender, at: Timestamp) -> Result<Denied, AccessError> {
        let remembered_max = {
            let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
            if !strangers.is_new(sender, at.as_millisecond()) {
                return Ok(Denied { notify: false });
            }
            strangers.told_max
        };
        match self.store.notice(sender, remembered_max, at).await {
            Ok(Noticed::Now) => Ok(Denied { notify: true }),
            Ok(Noticed::Before | Noticed::Full) => Ok(Denied { notify: false }),
            Err(err) => {
                let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
                strangers.told.remove(sender);
                Err(err.into())
            }
        }
    }

    /// Messages of strangers since the start.
    pub fn denials(&self) -> u64 {
        let strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        strangers.denials
    }
}
