//! The repetition of a run that did not succeed, as a new run.

use super::creation::{GroupReach, NewRun, RunCreation, create};
use super::rows::{self, StepRow};
use super::{position, response};
use crate::base::model::{InboxId, RunId, RunStatus, Sender, StepEnd, StepSpending, StepStatus};
use crate::crash_point;
use crate::state::store::column::{count, json, millis, parse_word, word};
use crate::state::store::{StoppedWork, Store, StoreError, apply_once, audit_in};
use jiff::Timestamp;
use rusqlite::{Transaction, params};
use std::time::Duration;

/// A request to repeat a run.
struct RunRepetition {
    /// The account that asks for it, if it is not the owner of the run.
    owner: Option<Sender>,
    /// Every name under which the request may come again.
    names: Vec<String>,
    /// The runs of its group that it may end.
    reach: GroupReach,
    /// True if the operator asks for it.
    is_of_operator: bool,
}

impl Store {
    /// Repeats a run with the same plan and the same inputs, for its owner or the account that asks for it. The successful
    /// steps before the first one that did not succeed are not run again. `command` is the message of the person who asked for
    /// it, if any, else the operator did; a repeated run of it returns the first result.
    pub async fn retry_run(
        &self,
        id: RunId,
        owner: Option<Sender>,
        command: Option<InboxId>,
        at: Timestamp,
    ) -> Result<(RunCreation, Vec<StoppedWork>), StoreError> {
        let asked = RunRepetition {
            owner,
            names: Vec::new(),
            reach: match command {
                Some(_) => GroupReach::Own,
                None => GroupReach::All,
            },
            is_of_operator: command.is_none(),
        };
        crash_point::before("effect");
        let created = self
            .write(move |tx| match command {
                Some(command) => apply_once(tx, command, || retry(tx, id, asked, at)),
                None => retry(tx, id, asked, at),
            })
            .await;
        crash_point::after("effect");
        created
    }

    /// Repeats a run like [`Store::retry_run`], for its owner. A request that comes again under one of these names returns
    /// the run that it started.
    pub async fn retry_run_of_request(
        &self,
        id: RunId,
        names: Vec<String>,
        at: Timestamp,
    ) -> Result<(RunCreation, Vec<StoppedWork>), StoreError> {
        let asked = RunRepetition {
            owner: None,
            names,
            reach: GroupReach::Own,
            is_of_operator: false,
        };
        crash_point::before("effect");
        let created = self.write(move |tx| retry(tx, id, asked, at)).await;
        crash_point::after("effect");
        created
    }
}

fn retry(
    tx: &Transaction<'_>,
    id: RunId,
    asked: RunRepetition,
    at: Timestamp,
) -> Result<(RunCreation, Vec<StoppedWork>), StoreError> {
    let nothing = |creation| Ok((creation, Vec::new()));
    let Some(row) = rows::find(tx, id)? else {
        return nothing(RunCreation::Gone);
    };
    match row.head.status {
        RunStatus::Queued | RunStatus::Running => return nothing(RunCreation::Unfinished),
        RunStatus::Succeeded => return nothing(RunCreation::Succeeded),
        RunStatus::Skipped => return nothing(RunCreation::NotKept),
        RunStatus::Failed | RunStatus::Cancelled => {}
    }
    let (group, on_conflict, seconds_max): (Option<String>, String, i64) = tx
        .prepare_cached("SELECT concurrency_group, on_conflict, seconds_max FROM run WHERE id = ?1")?
        .query_row([id.0], |row| row.try_into())?;
    let is_of_owner = asked.owner.is_none();
    let new = NewRun {
        pipeline: row.head.pipeline,
        repository: row.head.repository,
        owner: asked.owner.unwrap_or(row.head.owner),
        trigger: row.head.trigger,
        deliveries: asked.names,
        group,
        on_conflict: parse_word("rule", on_conflict)?,
        reach: asked.reach,
        place: row.place,
        commit: row.commit,
        plan: row.plan,
        inputs: row.inputs,
        steps: row
            .steps
            .iter()
            .map(|step| (step.name.clone(), step.kind.clone()))
            .collect(),
        timeout: Duration::from_secs(count(seconds_max)),
    };
    let by = match asked.is_of_operator {
        true => "operator".to_owned(),
        false => new.owner.to_string(),
    };
    let (creation, stopped) = create(tx, &new, Some(id), at)?;
    if let RunCreation::Created(new) = creation {
        audit_in(
            tx,
            "run.retried",
            serde_json::json!({ "by": by, "new": new, "run": id }),
            at,
        )?;
        if is_of_owner {
            response::keep_for_repetition(tx, new, id)?;
        }
        for (index, step) in kept(&row.steps) {
            copy(tx, (new, index), step)?;
        }
    }
    Ok((creation, stopped))
}

/// Returns the successful steps before the first one that did not succeed. A later one belongs to the failure, such as a reply
/// about it.
fn kept(steps: &[StepRow]) -> impl Iterator<Item = (usize, &StepRow)> {
    let goes_on = |step: &StepRow| matches!(step.status, StepStatus::Succeeded | StepStatus::Skipped);
    steps
        .iter()
        .enumerate()
        .take_while(move |(_, step)| goes_on(step))
        .filter(|(_, step)| step.status == StepStatus::Succeeded)
}

/// Stores that a step of a new run ended as that of another run. The budget of the new run does not count what that has used.
fn copy(tx: &Transaction<'_>, (run, index): (RunId, usize), step: &StepRow) -> Result<(), StoreError> {
    let end = step.end.clone().map(|end| StepEnd {
        spent: StepSpending::default(),
        // The messages of a reply are those of the other run, which shows the undelivered ones.
        why: None,
        reply: None,
        ..end
    });
    tx.prepare_cached(
        "UPDATE run_step SET status = ?3, started_at = ?4, ended_at = ?5, conversation = ?6, change_number = ?7, result = ?8
         WHERE run = ?1 AND step = ?2",
    )?
    .execute(params![
        run.0,
        position(index),
        word(&step.status)?,
        step.started_at.map(millis),
        step.ended_at.map(millis),
        step.conversation.map(|id| id.0),
        step.change.map(|number| number.0),
        end.map(|end| json(&end)).transpose()?
    ])?;
    Ok(())
}
