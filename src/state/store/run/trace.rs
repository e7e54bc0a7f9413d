//! Reading of runs and of the work of their steps, for traces.

use super::rows::{self, RunHead, StepRow};
use crate::base::model::{InboxId, OutputNumber, RunId, RunStatus, Step, StoredOutput};
use crate::state::store::column::{millis, parse, text, word};
use crate::state::store::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The most bytes of the steps of one message that are read, and of their whole results.
const WORK_BYTES_MAX: usize = 32 << 20;

/// The work of an agent step, as its turns have stored it.
#[derive(Clone, Debug, Default)]
pub struct AgentStepWork {
    /// The request that the model read; `None` if no turn began.
    pub request: Option<String>,
    /// The model that answered last, by its provider's name for it.
    pub model: Option<String>,
    /// The answers of the model with the results of their calls, the oldest first.
    pub steps: Vec<Step>,
    /// The whole texts of results that were shortened, the oldest first.
    pub outputs: Vec<StoredOutput>,
    /// True if later answers or results are left out, because all of them are too long.
    pub is_cut: bool,
}

impl Store {
    /// Returns a run with its steps, but without its plan.
    pub async fn run_steps(&self, id: RunId) -> Result<Option<(RunHead, Vec<StepRow>)>, StoreError> {
        self.read(move |tx| rows::with_steps(tx, id)).await
    }

    /// Returns the runs that have not ended, and those that ended after a time, the oldest first. Runs that were left out have no
    /// work.
    pub async fn runs_ended_after(&self, after: Option<Timestamp>) -> Result<Vec<RunId>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT id FROM run WHERE (ended_at IS NULL OR ended_at > ?1) AND status <> ?2 ORDER BY id",
            )?;
            let after = after.map_or(i64::MIN, millis);
            let ids = statement.query_map(params![after, word(&RunStatus::Skipped)?], |row| {
                row.get(0).map(RunId)
            })?;
            Ok(ids.collect::<rusqlite::Result<Vec<_>>>()?)
        })
        .await
    }

    /// Returns the work of the agent step that began with a message; `None` while its turn has not ended.
    pub async fn agent_step_work(&self, inbox: InboxId) -> Result<Option<AgentStepWork>, StoreError> {
        self.read(move |tx| match is_unfinished(tx, inbox)? {
            true => Ok(None),
            false => work(tx, inbox).map(Some),
        })
        .await
    }
}

fn is_unfinished(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let unfinished = tx
        .prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND done_at IS NULL")?
        .exists([inbox.0])?;
    Ok(unfinished)
}

/// Returns the work of all turns of a message. A restart has begun another one.
fn work(tx: &Transaction<'_>, inbox: InboxId) -> Result<AgentStepWork, StoreError> {
    let request: Option<String> = tx
        .prepare_cached("SELECT user_text FROM turn WHERE inbox = ?1 ORDER BY id LIMIT 1")?
        .query_row([inbox.0], |row| row.get(0))
        .optional()?;
    let model: Option<String> = tx
        .prepare_cached(
            "SELECT model FROM usage WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1) ORDER BY id DESC LIMIT 1",
        )?
        .query_row([inbox.0], |row| row.get(0))
        .optional()?;
    let (steps, steps_are_cut) = steps(tx, inbox)?;
    let (outputs, outputs_are_cut) = outputs(tx, inbox)?;
    Ok(AgentStepWork {
        request,
        model,
        steps,
        outputs,
        is_cut: steps_are_cut || outputs_are_cut,
    })
}

/// Returns the oldest steps of a message, and true if others are left out.
fn steps(tx: &Transaction<'_>, inbox: InboxId) -> Result<(Vec<Step>, bool), StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT step.step FROM turn JOIN step ON step.turn = turn.id WHERE turn.inbox = ?1 ORDER BY turn.id, step.id",
    )?;
    let mut rows = statement.query([inbox.0])?;
    let (mut steps, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let step = text("step", row, 0)?;
        bytes += step.len();
        if bytes > WORK_BYTES_MAX {
            return Ok((steps, true));
        }
        steps.push(parse("step", &step)?);
    }
    Ok((steps, false))
}

/// Returns the oldest whole results of a message, and true if others are left out.
fn outputs(tx: &Transaction<'_>, inbox: InboxId) -> Result<(Vec<StoredOutput>, bool), StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT output.number, output.text FROM turn JOIN output ON output.turn = turn.id
         WHERE turn.inbox = ?1 ORDER BY turn.id, output.id",
    )?;
    let mut rows = statement.query([inbox.0])?;
    let (mut outputs, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let output = StoredOutput {
            number: OutputNumber(row.get(0)?),
            text: text("output", row, 1)?,
        };
        bytes += output.text.len();
        if bytes > WORK_BYTES_MAX {
            return Ok((outputs, true));
        }
        outputs.push(output);
    }
    Ok((outputs, false))
}
