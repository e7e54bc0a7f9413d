//! The cancellation of runs: by a person, by a newer run of the group, and by the end of the owner's access.

use super::advance::end_step;
use super::turn_end::spent;
use super::{changed, finish, rows};
use crate::base::model::{ConversationId, InboxId, RunId, RunStatus, StepEnd, UserId};
use crate::crash_point;
use crate::state::store::{StoppedWork, Store, StoreError, apply_once, command};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

/// The outcome of a request to cancel a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunChange {
    /// It was cancelled.
    Changed,
    /// It had ended.
    Unchanged,
    /// There is no such run.
    Gone,
}

/// The outcome of a request to cancel a run, with its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunCancellation {
    /// The outcome.
    pub outcome: RunChange,
    /// The work that is stopped.
    pub stopped: Vec<StoppedWork>,
}

impl Store {
    /// Cancels a run that has not ended, and stops its work. `command` is the message of the person who asked for it, if any; a
    /// repeated run of it returns the first result.
    pub async fn cancel_run(
        &self,
        id: RunId,
        by: String,
        command: Option<InboxId>,
        at: Timestamp,
    ) -> Result<RunCancellation, StoreError> {
        crash_point::before("effect");
        let cancelled = self
            .write(move |tx| match command {
                Some(command) => apply_once(tx, command, || cancel(tx, id, (&by, Some(command)), at)),
                None => cancel(tx, id, (&by, None), at),
            })
            .await;
        crash_point::after("effect");
        cancelled
    }
}

fn cancel(
    tx: &Transaction<'_>,
    id: RunId,
    (by, command): (&str, Option<InboxId>),
    at: Timestamp,
) -> Result<RunCancellation, StoreError> {
    let (outcome, stopped) = match rows::status(tx, id)? {
        None => (RunChange::Gone, Vec::new()),
        Some(status) if status.is_end() => (RunChange::Unchanged, Vec::new()),
        Some(_) => (
            RunChange::Changed,
            end(tx, id, &format!("cancelled by {by}"), command, at)?,
        ),
    };
    Ok(RunCancellation { outcome, stopped })
}

/// Cancels the runs of a revoked person that have not ended.
pub(in crate::state::store) fn cancel_all(
    tx: &Transaction<'_>,
    user: UserId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT run.id FROM identity JOIN run INDEXED BY run_open ON run.owner = identity.sender
         WHERE identity.user_id = ?1 AND run.ended_at IS NULL ORDER BY run.id DESC",
    )?;
    let ids = statement.query_map([user.0], |row| row.get(0).map(RunId))?;
    let ids = ids.collect::<rusqlite::Result<Vec<_>>>()?;
    for id in ids {
        end(tx, id, "the access of its owner was revoked", None, at)?;
    }
    Ok(())
}

/// Ends a run as cancelled for this reason, and returns the work that is stopped. The driver has to look at it.
pub(in crate::state::store) fn end(
    tx: &Transaction<'_>,
    id: RunId,
    why: &str,
    by: Option<InboxId>,
    at: Timestamp,
) -> Result<Vec<StoppedWork>, StoreError> {
    let stopped = cancel_steps(tx, id, why, by, at)?;
    finish(tx, id, (RunStatus::Cancelled, Some(why)), at)?;
    changed(tx, id)?;
    Ok(stopped)
}

/// Cancels the steps of a run that have not ended, and stops their messages.
pub(super) fn cancel_steps(
    tx: &Transaction<'_>,
    id: RunId,
    why: &str,
    by: Option<InboxId>,
    at: Timestamp,
) -> Result<Vec<StoppedWork>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT step, inbox FROM run_step WHERE run = ?1 AND ended_at IS NULL ORDER BY step",
    )?;
    let open = statement.query_map([id.0], |row| <(i64, Option<i64>)>::try_from(row))?;
    let open = open.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut stopped = Vec::new();
    for (step, inbox) in open {
        stopped.extend(stop_message_of(tx, (id, step), by, at)?);
        let mut end = StepEnd::cancelled(why);
        if let Some(inbox) = inbox {
            end.spent = spent(tx, InboxId(inbox))?;
        }
        end_step(tx, (id, step), end, at)?;
    }
    Ok(stopped)
}

/// Stops the message of a step that has not ended, if it waits or its turn runs.
pub(super) fn stop_message_of(
    tx: &Transaction<'_>,
    (id, step): (RunId, i64),
    by: Option<InboxId>,
    at: Timestamp,
) -> Result<Option<StoppedWork>, StoreError> {
    let open: Option<(i64, i64)> = tx
        .prepare_cached(
            "SELECT inbox.conversation, inbox.id FROM run_step JOIN inbox ON inbox.id = run_step.inbox
             WHERE run_step.run = ?1 AND run_step.step = ?2 AND run_step.ended_at IS NULL AND inbox.done_at IS NULL",
        )?
        .query_row(params![id.0, step], |row| row.try_into())
        .optional()?;
    let Some((conversation, message)) = open else {
        return Ok(None);
    };
    let (conversation, message) = (ConversationId(conversation), InboxId(message));
    command::stop_message(tx, (conversation, message), by.unwrap_or(message), at)?;
    Ok(Some(StoppedWork {
        conversation,
        message,
    }))
}
