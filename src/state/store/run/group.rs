//! Concurrency groups: at most one run of a group runs at a time.

use super::{GroupReach, cancel};
use crate::base::model::{RunId, RunStatus, Sender};
use crate::state::store::column::{json, millis, word};
use crate::state::store::{StoppedWork, StoreError};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// Returns the oldest run of a group that has not ended.
pub(super) fn busy(tx: &Transaction<'_>, group: &str) -> Result<Option<RunId>, StoreError> {
    let busy = tx
        .prepare_cached(
            "SELECT id FROM run INDEXED BY run_group
             WHERE concurrency_group = ?1 AND ended_at IS NULL ORDER BY id LIMIT 1",
        )?
        .query_row([group], |row| row.get(0))
        .optional()?;
    Ok(busy.map(RunId))
}

/// Lets the oldest waiting run of a group begin, unless another one runs.
pub(super) fn start_next(tx: &Transaction<'_>, group: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "UPDATE run SET status = ?3, started_at = ?2, deadline = ?2 + 1000 * seconds_max, due = 1, version = version + 1
         WHERE id = (SELECT MIN(id) FROM run WHERE concurrency_group = ?1 AND ended_at IS NULL AND status = ?4)
           AND NOT EXISTS (SELECT 1 FROM run WHERE concurrency_group = ?1 AND ended_at IS NULL AND status = ?3)",
    )?
    .execute(params![
        group,
        millis(at),
        word(&RunStatus::Running)?,
        word(&RunStatus::Queued)?
    ])?;
    Ok(())
}

/// Cancels the runs of a group, or those of the same person or service, with any of their accounts: those that wait first, so
/// that none of them begins.
pub(super) fn cancel_reached(
    tx: &Transaction<'_>,
    group: &str,
    (reach, owner): (GroupReach, &Sender),
    at: Timestamp,
) -> Result<Vec<StoppedWork>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id FROM run INDEXED BY run_group
         WHERE concurrency_group = ?1 AND ended_at IS NULL
           AND (?2 OR owner = ?3 OR owner IN (
             SELECT other.sender FROM identity AS own JOIN identity AS other ON other.user_id = own.user_id
             WHERE own.sender = ?3))
         ORDER BY id DESC",
    )?;
    let of_all = reach == GroupReach::All;
    let ids = statement.query_map(params![group, of_all, json(owner)?], |row| row.get(0).map(RunId))?;
    let ids = ids.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut stopped = Vec::new();
    for id in ids {
        stopped.extend(cancel::end(tx, id, "a newer run of its group began", None, at)?);
    }
    Ok(stopped)
}
