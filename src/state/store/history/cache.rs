//! Copies of long histories in memory. A turn of a long conversation reads only what was stored since its last one.

use super::{HistoryBasis, HistoryLimits, ReadHistory, newest_of};
use crate::base::model::{ConversationId, History};
use crate::state::store::StoreError;
use clru::{CLruCache, CLruCacheConfig, WeightScale};
use rusqlite::Transaction;
use std::hash::RandomState;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The minimum size of a history that is kept. A shorter one is read faster than it is worth.
const KEPT_BYTES_MIN: usize = 16 * 1_024;
/// The maximum size of all histories that are kept, in bytes of their requests.
const KEPT_BYTES_MAX: NonZeroUsize = NonZeroUsize::new(16 * 1_024 * 1_024).unwrap();

/// Weighs a history by its size in a request.
#[derive(Debug)]
struct RequestSize;

impl WeightScale<ConversationId, KeptHistory> for RequestSize {
    fn weight(&self, _: &ConversationId, kept: &KeptHistory) -> usize {
        kept.read.history.bytes()
    }
}

/// A history with the values on which it depends.
#[derive(Debug)]
struct KeptHistory {
    basis: HistoryBasis,
    read: ReadHistory,
}

type KeptHistories = CLruCache<ConversationId, KeptHistory, RandomState, RequestSize>;

/// The histories that were used last.
#[derive(Debug)]
pub(in crate::state::store) struct HistoryCache {
    kept: Mutex<KeptHistories>,
    /// The number of times that all histories were removed.
    cleared: AtomicU64,
}

impl Default for HistoryCache {
    fn default() -> Self {
        let config = CLruCacheConfig::new(KEPT_BYTES_MAX).with_scale(RequestSize);
        Self {
            kept: Mutex::new(CLruCache::with_config(config)),
            cleared: AtomicU64::new(0),
        }
    }
}

impl HistoryCache {
    /// Returns the number of times that all histories were removed.
    pub(in crate::state::store) fn cleared(&self) -> u64 {
        self.cleared.load(Ordering::Acquire)
    }

    /// Returns the same history as [`super::newest`]. `cleared` is [`HistoryCache::cleared`] from before the transaction.
    pub(in crate::state::store) fn newest(
        &self,
        tx: &Transaction<'_>,
        id: ConversationId,
        limits: HistoryLimits,
        cleared: u64,
    ) -> Result<History, StoreError> {
        let basis = HistoryBasis::read(tx, id)?;
        let newer = match self.of(id, &basis) {
            Some(kept) => kept.with_newer(tx, id, limits)?,
            None => None,
        };
        let read = match newer {
            Some(read) => read,
            None => newest_of(tx, id, &basis, limits)?,
        };
        let history = read.history.clone();
        self.keep(id, KeptHistory { basis, read }, cleared);
        Ok(history)
    }

    /// Removes all histories. Their conversations are read again.
    pub(in crate::state::store) fn clear(&self) {
        let mut kept = self.locked();
        self.cleared.fetch_add(1, Ordering::AcqRel);
        kept.clear();
    }

    fn of(&self, id: ConversationId, basis: &HistoryBasis) -> Option<ReadHistory> {
        let mut kept = self.locked();
        let kept = kept.get(&id).filter(|kept| kept.basis == *basis)?;
        Some(kept.read.clone())
    }

    /// Keeps a history that was read since `cleared` removals of all.
    fn keep(&self, id: ConversationId, history: KeptHistory, cleared: u64) {
        let mut kept = self.locked();
        kept.pop(&id);
        // It may have been read before something was removed.
        if self.cleared() != cleared {
            return;
        }
        // What exceeded the limits gets another boundary with the next step.
        let is_whole = history.read.history.boundary() == history.basis.boundary;
        if is_whole && history.read.is_finished && history.read.history.bytes() >= KEPT_BYTES_MIN {
            // One that is larger than the cache is not kept.
            let _ = kept.put_with_weight(id, history);
        }
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, KeptHistories> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
