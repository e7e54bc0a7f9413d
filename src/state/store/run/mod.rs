//! Runs of pipelines, and their steps. The plan of a run and its inputs are frozen at its start; the store reads of them only
//! that a run is quiet. A driver reads an open run, decides what happens next, and stores all of it in one transaction, unless
//! the run has changed in the meantime. The transaction that ends the turn of an agent step also ends the step.

mod abandonment;
mod advance;
mod asked_accounts;
mod cancel;
mod creation;
mod group;
mod open_runs;
mod question;
mod response;
mod retry;
mod room;
mod rows;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
mod trace;
mod turn_end;
mod undelivered_reply;

pub use abandonment::RunMessage;
pub use advance::{RunAdvance, StepBegin};
pub(super) use asked_accounts::asked_accounts;
pub use cancel::{RunCancellation, RunChange};
pub(super) use cancel::{cancel_all, end};
pub(super) use creation::create;
pub use creation::{GroupReach, NewRun, OPEN_RUNS_MAX, OPEN_RUNS_OF_OWNER_MAX, RUN_BYTES_MAX, RunCreation};
pub use open_runs::OpenRuns;
pub use question::{AskedRunQuestion, NewRunQuestion, RunAnswerOutcome, RunAnswerRequest};
pub use room::RunStarter;
pub(super) use room::{keys_without_room, may_begin_at_once};
pub use rows::{RunHead, RunPage, RunRow, StepRow};
pub use trace::AgentStepWork;
pub(super) use turn_end::{end_step_of, refuse};
pub(super) use undelivered_reply::note_reply;

use super::column::{count_column, millis, parse, word};
use super::{Store, StoreError, audit_in, schedule};
use crate::base::model::{RunId, RunStatus, Sender, StepEnd, StepStatus};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{Transaction, params};
use serde_json::{Value, json};

/// The most runs that a list looks at.
const RUNS_LOOKED_AT_MAX: usize = 20_000;

/// The work of the driver of runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunWork {
    /// The runs that it has to look at, oldest first: those whose steps changed, those whose time is over, and those that
    /// somebody else ended.
    pub due: Vec<RunId>,
    /// The next time at which the time of a run or of a question is over.
    pub next_deadline: Option<Timestamp>,
}

impl Store {
    /// Returns a run with its steps, if there is one.
    pub async fn run(&self, id: RunId) -> Result<Option<RunRow>, StoreError> {
        self.read(move |tx| rows::find(tx, id)).await
    }

    /// Returns the newest runs for which `is_listed` is true, newest first.
    pub async fn runs(
        &self,
        is_listed: impl Fn(&RunHead) -> bool + Send + 'static,
        count_max: usize,
    ) -> Result<Vec<RunHead>, StoreError> {
        Ok(self.runs_before(None, is_listed, count_max).await?.runs)
    }

    /// Returns the newest runs before a run for which `is_listed` is true, newest first. Without a run, it begins at the
    /// newest of all.
    pub async fn runs_before(
        &self,
        before: Option<RunId>,
        is_listed: impl Fn(&RunHead) -> bool + Send + 'static,
        count_max: usize,
    ) -> Result<RunPage, StoreError> {
        self.read(move |tx| rows::newest(tx, before, is_listed, (count_max, RUNS_LOOKED_AT_MAX)))
            .await
    }

    /// Returns the number of changes of a run and its steps, if there is such a run.
    pub async fn run_version(&self, id: RunId) -> Result<Option<i64>, StoreError> {
        self.read(move |tx| rows::version(tx, id)).await
    }

    /// Returns true if the message of a run was posted or is to be posted, as far as that is kept.
    pub async fn has_run_message(&self, id: RunId) -> Result<bool, StoreError> {
        self.read(move |tx| {
            let has_message = tx
                .prepare_cached("SELECT 1 FROM outbox WHERE op = 'run-' || ?1 || '/message'")?
                .exists([id.0])?;
            Ok(has_message)
        })
        .await
    }

    /// Returns the work of the driver, with at most so many runs.
    pub async fn run_work(&self, at: Timestamp, count_max: u32) -> Result<RunWork, StoreError> {
        self.read(move |tx| {
            let deadlines = [rows::next_deadline(tx)?, question::next_deadline(tx)?];
            Ok(RunWork {
                due: rows::due(tx, at, count_max)?,
                next_deadline: deadlines.into_iter().flatten().min(),
            })
        })
        .await
    }

    /// Ends a step that no turn ends, such as a program. Returns false if it has ended already.
    pub async fn end_step(
        &self,
        id: RunId,
        step: usize,
        end: StepEnd,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        crash_point::before("effect");
        let ended = self
            .write(move |tx| {
                let is_ended = advance::end_step(tx, (id, position(step)), end, at)?;
                if is_ended {
                    changed(tx, id)?;
                }
                Ok(is_ended)
            })
            .await;
        crash_point::after("effect");
        ended
    }

    /// Makes the driver look at the runs with a running task. The program of such a task has ended with its process.
    pub async fn look_at_running_tasks(&self) -> Result<(), StoreError> {
        self.write_unsynced(|tx| {
            tx.prepare_cached(
                "UPDATE run INDEXED BY run_open SET due = 1 WHERE ended_at IS NULL AND EXISTS (
                   SELECT 1 FROM run_step WHERE run = run.id AND kind = 'task' AND status = ?1)",
            )?
            .execute([word(&StepStatus::Running)?])?;
            Ok(())
        })
        .await
    }
}

/// Converts the place of a step in the plan to its column.
fn position(step: usize) -> i64 {
    count_column(step as u64)
}

/// Records that something changed that the driver has to look at.
fn changed(tx: &Transaction<'_>, id: RunId) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE run SET version = version + 1, due = 1 WHERE id = ?1")?
        .execute([id.0])?;
    Ok(())
}

/// Ends a run that has not ended, and lets the next one of its group begin. The steps that have not ended are those that the
/// caller has cancelled.
fn finish(
    tx: &Transaction<'_>,
    id: RunId,
    (status, why): (RunStatus, Option<&str>),
    at: Timestamp,
) -> Result<(), StoreError> {
    type EndedColumns = (String, String, String, Option<String>, Option<String>);
    let (pipeline, repository, owner, group, event): EndedColumns = tx
        .prepare_cached(
            "UPDATE run SET status = ?2, why = ?3, ended_at = ?4, version = version + 1
             WHERE id = ?1 AND ended_at IS NULL RETURNING pipeline, repository, owner, concurrency_group, event",
        )?
        .query_row(params![id.0, word(&status)?, why, millis(at)], |row| {
            row.try_into()
        })?;
    let owner: Sender = parse("sender", &owner)?;
    let data = json!({ "status": status, "why": why });
    audit(tx, "run.ended", (id, &pipeline, &repository, &owner), data, at)?;
    schedule::end_fire_of_run(tx, event.as_deref(), status, at)?;
    match group {
        Some(group) => group::start_next(tx, &group, at),
        None => Ok(()),
    }
}

/// Appends an audit line about a run, with the other facts in `data`.
fn audit(
    tx: &Transaction<'_>,
    event: &str,
    (id, pipeline, repository, owner): (RunId, &str, &str, &Sender),
    mut data: Value,
    at: Timestamp,
) -> Result<(), StoreError> {
    data["run"] = json!(id);
    data["pipeline"] = json!(pipeline);
    data["repository"] = json!(repository);
    data["sender"] = json!(owner.to_string());
    audit_in(tx, event, data, at)
}
