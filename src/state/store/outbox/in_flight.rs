//! Operations in flight: leased for one delivery, and kept in memory until their outcome is stored.

use super::lease::{InFlightLock, LeasedOperations, ThreadHead, heads_due, lease_due};
use super::{Admission, DueOperation};
use crate::state::store::writer::Durability;
use crate::state::store::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::Transaction;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An admission without limits.
#[derive(Clone, Copy, Debug)]
struct Unlimited;

impl Admission for Unlimited {
    fn admits_chat(&mut self, _chat: &str) -> bool {
        true
    }

    fn admits(&mut self, _due: &DueOperation) -> bool {
        true
    }
}

impl Store {
    /// Leases due operations: at most the oldest one per chat and thread, and only if that thread has none in flight.
    ///
    /// Report each outcome with [`Store::record_delivered`], [`Store::postpone`], [`Store::record_failed`],
    /// [`Store::record_ambiguous`], [`Store::record_replaced`] or [`Store::release_operation`], and retry a failed
    /// report. Until the outcome is stored, the operation is not leased again. If the process ends first, all of them
    /// become due again. Posts, notices and files, which may show twice, then become ambiguous. Wait for the result of
    /// this call: operations leased for a caller that is gone stay leased.
    pub async fn lease_due(
        &self,
        channel: &str,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<DueOperation>, StoreError> {
        let (due, _) = self.lease_due_admitted(channel, at, limit, Unlimited).await?;
        Ok(due)
    }

    /// Leases operations like [`Store::lease_due`], if they are admitted. Also returns the updated admission.
    pub async fn lease_due_admitted<A: Admission>(
        &self,
        channel: &str,
        at: Timestamp,
        limit: usize,
        admission: A,
    ) -> Result<(Vec<DueOperation>, A), StoreError> {
        if let Some(taken) = self.lease_unmarked(channel, at, limit, admission.clone()).await? {
            return Ok(taken);
        }
        let channel = channel.to_owned();
        self.write_leasing(move |tx, busy| {
            let mut admission = admission;
            let due = lease_due(tx, &channel, at, limit, busy, &mut admission)?;
            Ok((due, admission))
        })
        .await
    }

    /// Runs a write that leases operations. They are in flight from then on, unless the write fails.
    pub(in crate::state::store) async fn write_leasing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &mut InFlightLock<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (value, _marked) = self.lease_in_write(Durability::Synced, work).await?;
        Ok(value)
    }

    pub(super) async fn lease_in_write<T: Send + 'static>(
        &self,
        promise: Durability,
        work: impl FnOnce(&Transaction<'_>, &mut InFlightLock<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<(T, bool), StoreError> {
        let in_flight = Arc::clone(&self.inner.in_flight);
        let taken = Arc::new(Mutex::new(LeasedOperations::default()));
        let taking = Arc::clone(&taken);
        let work = move |tx: &Transaction<'_>| {
            // The mark is set while the write runs, so that the next write sees it even in the same commit.
            let mut busy = InFlightLock {
                in_flight: in_flight.lock().unwrap_or_else(PoisonError::into_inner),
                leased: taking.lock().unwrap_or_else(PoisonError::into_inner),
            };
            work(tx, &mut busy)
        };
        let result = self.inner.writer.write(promise, work, |_| ()).await;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        if result.is_err() {
            taken.ops.iter().for_each(|op| self.end_lease(op));
        }
        Ok((result?, taken.is_marked))
    }

    /// Leases due operations if none of them must be marked as being sent, or withdrawn. Then nothing is written, and the
    /// caller does not wait for the disk.
    async fn lease_unmarked<A: Admission>(
        &self,
        channel: &str,
        at: Timestamp,
        limit: usize,
        admission: A,
    ) -> Result<Option<(Vec<DueOperation>, A)>, StoreError> {
        let channel = channel.to_owned();
        let in_flight = Arc::clone(&self.inner.in_flight);
        self.read(move |tx| {
            let mut admission = admission;
            // The lock is taken before the snapshot. So an operation that is no longer in flight has its outcome in the
            // snapshot.
            let mut busy = in_flight.lock().unwrap_or_else(PoisonError::into_inner);
            let heads = match heads_due(tx, &channel, at, limit, |op| busy.contains(op), &mut admission) {
                // An unreadable operation must be given up, which needs a write.
                Err(StoreError::Unreadable { .. }) => return Ok(None),
                heads => heads?,
            };
            let needs_write = |head: &ThreadHead| head.is_needless() || head.due.op.action.may_show_twice();
            if heads.iter().any(needs_write) {
                return Ok(None);
            }
            busy.extend(heads.iter().map(|head| head.due.op.id.clone()));
            let due = heads.into_iter().map(|head| head.due).collect();
            Ok(Some((due, admission)))
        })
        .await
    }

    /// Ends the leases of operations whose delivery ended without an outcome. They are due again, and those that may
    /// show twice are looked up first.
    pub fn abandon_leases(&self, ops: &[String]) {
        ops.iter().for_each(|op| self.end_lease(op));
    }

    pub(super) fn in_flight(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the lease of an operation if its outcome is stored.
    pub(super) fn end_lease_if(&self, stored: &Result<(), StoreError>, op: &str) {
        if stored.is_ok() {
            self.end_lease(op);
        }
    }

    pub(super) fn end_lease(&self, op: &str) {
        self.in_flight().remove(op);
    }
}
