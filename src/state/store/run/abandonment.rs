//! The end of a run that can never go on, such as one that this version cannot read.

use super::{cancel, group};
use crate::base::model::{ChatPlace, Op, RunId, RunStatus, Sender};
use crate::state::store::column::{millis, parse, parse_word, word};
use crate::state::store::{StoppedWork, Store, StoreError, audit_in, outbox};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};

/// The facts that the message of a run needs to show its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMessage {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The repository.
    pub repository: String,
    /// The account for which its work runs.
    pub owner: Sender,
    /// The channel of the message.
    pub channel: String,
    /// The place of the message.
    pub place: ChatPlace,
    /// The number of changes of the run and its steps.
    pub version: i64,
    /// The end of the run, with its reason, if it has ended.
    pub end: Option<(RunStatus, Option<String>)>,
}

impl Store {
    /// Returns the facts for the message of a run; `None` if it has no message, or if one of them is not readable.
    pub async fn run_message(&self, id: RunId) -> Result<Option<RunMessage>, StoreError> {
        self.read(move |tx| {
            let message = tx
                .prepare_cached(
                    "SELECT pipeline, repository, owner, channel, place, version, status, why, ended_at IS NOT NULL
                     FROM run WHERE id = ?1",
                )?
                .query_row([id.0], |row| Ok(message(row)))
                .optional()?;
            Ok(message.flatten())
        })
        .await
    }

    /// Ends a run as failed for this reason, and returns the work that is stopped. Nothing of the run is parsed, and the
    /// driver does not look at it again. `shown` are the operations that show its end, and the version of the run for which
    /// they were composed. If it has another one by now, nothing is stored, and the driver looks at it again.
    pub async fn abandon_run(
        &self,
        id: RunId,
        why: &'static str,
        shown: Option<(i64, Vec<Op>)>,
        at: Timestamp,
    ) -> Result<Vec<StoppedWork>, StoreError> {
        self.write(move |tx| {
            let (version, ops) = shown.unzip();
            match has_version(tx, id, version)? {
                true => abandon(tx, id, why, &ops.unwrap_or_default(), at),
                false => Ok(Vec::new()),
            }
        })
        .await
    }
}

fn message(row: &Row<'_>) -> Option<RunMessage> {
    let end = match row.get(8).ok()? {
        true => Some((parse_word("run", row.get(6).ok()?).ok()?, row.get(7).ok()?)),
        false => None,
    };
    Some(RunMessage {
        pipeline: row.get(0).ok()?,
        repository: row.get(1).ok()?,
        owner: parse("sender", &row.get::<_, String>(2).ok()?).ok()?,
        channel: row.get(3).ok()?,
        place: parse("place", &row.get::<_, String>(4).ok()?).ok()?,
        version: row.get(5).ok()?,
        end,
    })
}

/// Returns true if a run has this version, or if none is given.
fn has_version(tx: &Transaction<'_>, id: RunId, version: Option<i64>) -> Result<bool, StoreError> {
    let Some(version) = version else { return Ok(true) };
    let has_version = tx
        .prepare_cached("SELECT 1 FROM run WHERE id = ?1 AND version = ?2")?
        .exists([id.0, version])?;
    Ok(has_version)
}

fn abandon(
    tx: &Transaction<'_>,
    id: RunId,
    why: &str,
    shown: &[Op],
    at: Timestamp,
) -> Result<Vec<StoppedWork>, StoreError> {
    tx.prepare_cached("UPDATE run SET due = 0, version = version + 1 WHERE id = ?1")?
        .execute([id.0])?;
    let stopped = cancel::cancel_steps(tx, id, why, None, at)?;
    outbox::enqueue(tx, shown, at)?;
    let ended: Option<Option<String>> = tx
        .prepare_cached(
            "UPDATE run SET status = ?2, why = ?3, ended_at = ?4 WHERE id = ?1 AND ended_at IS NULL
             RETURNING concurrency_group",
        )?
        .query_row(params![id.0, word(&RunStatus::Failed)?, why, millis(at)], |row| {
            row.get(0)
        })
        .optional()?;
    if let Some(group) = ended {
        let data = serde_json::json!({ "run": id, "status": RunStatus::Failed, "why": why });
        audit_in(tx, "run.ended", data, at)?;
        if let Some(group) = group {
            group::start_next(tx, &group, at)?;
        }
    }
    Ok(stopped)
}
