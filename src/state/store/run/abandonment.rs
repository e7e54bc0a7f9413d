//! The end of a run that can never go on, such as one that this version cannot read.

use super::{cancel, group};
use crate::base::model::{RunId, RunStatus};
use crate::state::store::column::{millis, word};
use crate::state::store::{StoppedWork, Store, StoreError, audit_in, schedule};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

impl Store {
    /// Ends a run as failed for this reason, and returns the work that is stopped. Nothing of the run is parsed, and the
    /// driver does not look at it again.
    pub async fn abandon_run(
        &self,
        id: RunId,
        why: &'static str,
        at: Timestamp,
    ) -> Result<Vec<StoppedWork>, StoreError> {
        self.write(move |tx| abandon(tx, id, why, at)).await
    }
}

fn abandon(
    tx: &Transaction<'_>,
    id: RunId,
    why: &str,
    at: Timestamp,
) -> Result<Vec<StoppedWork>, StoreError> {
    tx.prepare_cached("UPDATE run SET due = 0, version = version + 1 WHERE id = ?1")?
        .execute([id.0])?;
    let stopped = cancel::cancel_steps(tx, id, why, None, at)?;
    let ended: Option<(Option<String>, Option<String>)> = tx
        .prepare_cached(
            "UPDATE run SET status = ?2, why = ?3, ended_at = ?4 WHERE id = ?1 AND ended_at IS NULL
             RETURNING concurrency_group, event",
        )?
        .query_row(params![id.0, word(&RunStatus::Failed)?, why, millis(at)], |row| {
            row.try_into()
        })
        .optional()?;
    if let Some((group, event)) = ended {
        let data = serde_json::json!({ "run": id, "status": RunStatus::Failed, "why": why });
        audit_in(tx, "run.ended", data, at)?;
        schedule::end_fire_of_run(tx, event.as_deref(), RunStatus::Failed, at)?;
        if let Some(group) = group {
            group::start_next(tx, &group, at)?;
        }
    }
    Ok(stopped)
}
