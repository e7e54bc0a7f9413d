//! The start of runs: each request and each event starts one.

use super::{audit, group, position, response};
use crate::base::model::{
    ChatPlace, InboxId, RunConflictRule, RunId, RunStatus, Sender, StepEnd, StepStatus,
};
use crate::crash_point;
use crate::planted;
use crate::state::store::column::{count_column, json, millis, parse, word};
use crate::state::store::{StoppedWork, Store, StoreError, apply_once, delivery_name};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The most runs of one account that have not ended.
pub const OPEN_RUNS_OF_OWNER_MAX: u32 = 50;
/// The most runs that have not ended.
pub const OPEN_RUNS_MAX: u32 = 1_000;
/// The most bytes of the plan of a run and its inputs.
pub const RUN_BYTES_MAX: usize = 8 << 20;
/// The most runs that are recorded as skipped because of one run of their group.
pub(super) const SKIPPED_RUNS_MAX: u32 = 100;
/// The plan and the inputs of a skipped run, as JSON. It is never begun or repeated.
const NOT_KEPT: &str = "null";
/// The longest time of a run, in seconds.
const RUN_SECONDS_MAX: u64 = 366 * 86_400;

/// The runs of a busy group that a new run with the rule `cancel` ends. If others are left, it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupReach {
    /// Those of the same person or service.
    Own,
    /// All of them, for an editor of the repository.
    All,
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The repository.
    pub repository: String,
    /// The account for which its work runs.
    pub owner: Sender,
    /// The kind of the trigger and its name, such as `hook ci`.
    pub trigger: String,
    /// Every name under which the event may come again; none for a command.
    pub deliveries: Vec<String>,
    /// The concurrency group, unique in the whole server.
    pub group: Option<String>,
    /// The rule if its group is busy.
    pub on_conflict: RunConflictRule,
    /// The runs that it ends if its rule is to cancel.
    pub reach: GroupReach,
    /// The channel and the place in which a person started it.
    pub place: Option<(String, ChatPlace)>,
    /// The commit of the definition.
    pub commit: String,
    /// The frozen plan, as JSON.
    pub plan: String,
    /// The inputs, as JSON.
    pub inputs: String,
    /// The names of the steps, and the kinds of their work, in the order of the plan.
    pub steps: Vec<(String, String)>,
    /// The time of the run from its begin.
    pub timeout: Duration,
}

/// The outcome of a request to start or to repeat a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCreation {
    /// The run is stored. It runs, or waits for its group.
    Created(RunId),
    /// The event has started this run before; `None` if that is not kept any more.
    Known(Option<RunId>),
    /// It was left out, because this run of its group has not ended. That is recorded, up to a number of runs.
    Skipped(RunId),
    /// Nothing was stored, because too many runs have not ended.
    TooMany,
    /// Nothing was stored, because the plan and the inputs have more than [`RUN_BYTES_MAX`].
    TooLarge,
    /// Nothing was repeated, because there is no such run.
    Gone,
    /// Nothing was repeated, because the run has not ended.
    Unfinished,
    /// Nothing was repeated, because the run has succeeded.
    Succeeded,
    /// Nothing was repeated, because the run was skipped, and its plan is not kept.
    NotKept,
}

impl Store {
    /// Starts a run, with the work that its start stopped. `command` is the message of the person who asked for it, if any; a
    /// repeated run of it returns the first result.
    pub async fn create_run(
        &self,
        new: NewRun,
        command: Option<InboxId>,
        at: Timestamp,
    ) -> Result<(RunCreation, Vec<StoppedWork>), StoreError> {
        crash_point::before("effect");
        let created = match command {
            // The message of the command is durable, so a power failure only makes it run again.
            Some(command) => {
                self.write_deferred(move |tx| apply_once(tx, command, || create_for(tx, command, &new, at)))
                    .await
            }
            None => {
                crash_point::before("start");
                let created = self.write(move |tx| create(tx, &new, None, at)).await;
                crash_point::after("start");
                created
            }
        };
        crash_point::after("effect");
        created
    }

    /// Returns the outcome of a request with one of these names that has started or repeated a run before.
    pub async fn run_of_request(&self, names: Vec<String>) -> Result<Option<RunCreation>, StoreError> {
        self.read(move |tx| {
            let known = started_by(tx, &names)?;
            let is_known = known.is_some() || delivery_name::was_delivered(tx, &names)?;
            Ok(is_known.then_some(RunCreation::Known(known)))
        })
        .await
    }

    /// Returns the outcome of a command that has started or repeated a run before.
    pub async fn run_of_command(&self, command: InboxId) -> Result<Option<RunCreation>, StoreError> {
        self.read(move |tx| {
            let effect: Option<String> = tx
                .prepare_cached("SELECT effect FROM inbox WHERE id = ?1 AND effect IS NOT NULL")?
                .query_row([command.0], |row| row.get(0))
                .optional()?;
            let created: Option<(RunCreation, Vec<StoppedWork>)> =
                effect.map(|effect| parse("effect", &effect)).transpose()?;
            Ok(created.map(|(creation, _)| creation))
        })
        .await
    }
}

/// Starts a run for a command, whose address for answers it keeps.
fn create_for(
    tx: &Transaction<'_>,
    command: InboxId,
    new: &NewRun,
    at: Timestamp,
) -> Result<(RunCreation, Vec<StoppedWork>), StoreError> {
    let created = create(tx, new, None, at)?;
    if let (RunCreation::Created(run), _) = &created {
        response::keep(tx, *run, command)?;
    }
    Ok(created)
}

/// Starts a run like [`Store::create_run`].
pub(in crate::state::store) fn create(
    tx: &Transaction<'_>,
    new: &NewRun,
    retry_of: Option<RunId>,
    at: Timestamp,
) -> Result<(RunCreation, Vec<StoppedWork>), StoreError> {
    let nothing = |creation| Ok((creation, Vec::new()));
    // A run may be kept longer than the names of deliveries, or shorter.
    let known = started_by(tx, &new.deliveries)?;
    if known.is_some() || delivery_name::was_delivered(tx, &new.deliveries)? {
        return match planted::is("S1") {
            true => create(tx, &renamed(new), retry_of, at),
            false => nothing(RunCreation::Known(known)),
        };
    }
    if new.plan.len().saturating_add(new.inputs.len()) > RUN_BYTES_MAX {
        return nothing(RunCreation::TooLarge);
    }
    let group = new.group.as_deref();
    let busy = group.map(|group| group::busy(tx, group)).transpose()?.flatten();
    if let (Some(busy), RunConflictRule::Skip) = (busy, new.on_conflict) {
        match skipped_since(tx, busy)? < SKIPPED_RUNS_MAX {
            true => {
                let why = "another run of its group had not ended";
                insert(tx, new, (RunStatus::Skipped, Some(why)), retry_of, at)?;
            }
            false => delivery_name::remember_delivery(tx, &new.deliveries, at)?,
        }
        return nothing(RunCreation::Skipped(busy));
    }
    if has_too_many(tx, &new.owner)? {
        return nothing(RunCreation::TooMany);
    }
    let (status, stopped) = match (busy.and(group), new.on_conflict) {
        (Some(_), RunConflictRule::Serial) => (RunStatus::Queued, Vec::new()),
        (Some(group), RunConflictRule::Cancel) => {
            let stopped = group::cancel_reached(tx, group, (new.reach, &new.owner), at)?;
            let status = match group::busy(tx, group)? {
                Some(_) => RunStatus::Queued,
                None => RunStatus::Running,
            };
            (status, stopped)
        }
        (Some(_), RunConflictRule::Skip) | (None, _) => (RunStatus::Running, Vec::new()),
    };
    let id = insert(tx, new, (status, None), retry_of, at)?;
    Ok((RunCreation::Created(id), stopped))
}

/// Returns a run as if another event had started it. Only a planted defect starts one.
fn renamed(new: &NewRun) -> NewRun {
    let names = new.deliveries.iter();
    NewRun {
        deliveries: names.map(|name| format!("{name}/again")).collect(),
        ..new.clone()
    }
}

/// Returns the run that an event with one of these names has started, if it is stored.
fn started_by(tx: &Transaction<'_>, deliveries: &[String]) -> Result<Option<RunId>, StoreError> {
    let mut statement = tx.prepare_cached("SELECT id FROM run WHERE event = ?1")?;
    for name in deliveries {
        let found = statement.query_row([name], |row| row.get(0)).optional()?;
        if let Some(id) = found {
            return Ok(Some(RunId(id)));
        }
    }
    Ok(None)
}

/// Returns the number of runs that were skipped because of a run of their group that has not ended.
fn skipped_since(tx: &Transaction<'_>, busy: RunId) -> Result<u32, StoreError> {
    let skipped = tx
        .prepare_cached(
            "SELECT COUNT(*) FROM run WHERE id > ?1 AND status = ?2
               AND concurrency_group = (SELECT concurrency_group FROM run WHERE id = ?1)",
        )?
        .query_row(params![busy.0, word(&RunStatus::Skipped)?], |row| row.get(0))?;
    Ok(skipped)
}

fn has_too_many(tx: &Transaction<'_>, owner: &Sender) -> Result<bool, StoreError> {
    let (own, all): (u32, u32) = tx
        .prepare_cached(
            "SELECT (SELECT COUNT(*) FROM run INDEXED BY run_open WHERE ended_at IS NULL AND owner = ?1),
                    (SELECT COUNT(*) FROM run INDEXED BY run_open WHERE ended_at IS NULL)",
        )?
        .query_row([json(owner)?], |row| row.try_into())?;
    Ok(own >= OPEN_RUNS_OF_OWNER_MAX || all >= OPEN_RUNS_MAX)
}

/// Inserts a run with its steps. Those of a skipped run have ended.
fn insert(
    tx: &Transaction<'_>,
    new: &NewRun,
    (status, why): (RunStatus, Option<&str>),
    retry_of: Option<RunId>,
    at: Timestamp,
) -> Result<RunId, StoreError> {
    delivery_name::remember_delivery(tx, &new.deliveries, at)?;
    let now = millis(at);
    let seconds_max = count_column(new.timeout.as_secs().min(RUN_SECONDS_MAX));
    let runs = status == RunStatus::Running;
    let ended_at = status.is_end().then_some(now);
    let place = new.place.as_ref();
    let (plan, inputs) = match status {
        RunStatus::Skipped => (NOT_KEPT, NOT_KEPT),
        _ => (new.plan.as_str(), new.inputs.as_str()),
    };
    tx.prepare_cached(
        "INSERT INTO run (pipeline, repository, owner, started_by, status, why, created_at, started_at, ended_at, retry_of,
           event, concurrency_group, on_conflict, seconds_max, deadline, due, channel, place, base, plan, inputs)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)",
    )?
    .execute(params![
        new.pipeline,
        new.repository,
        json(&new.owner)?,
        new.trigger,
        word(&status)?,
        why,
        now,
        runs.then_some(now),
        ended_at,
        retry_of.map(|id| id.0),
        new.deliveries.first(),
        new.group,
        word(&new.on_conflict)?,
        seconds_max,
        runs.then_some(now + 1_000 * seconds_max),
        runs,
        place.map(|(channel, _)| channel),
        place.map(|(_, place)| json(place)).transpose()?,
        new.commit,
        plan,
        inputs
    ])?;
    let id = RunId(tx.last_insert_rowid());
    let (step_status, end) = match why {
        Some(why) => (StepStatus::Skipped, Some(json(&StepEnd::skipped(why))?)),
        None => (StepStatus::Waiting, None),
    };
    let mut step = tx.prepare_cached(
        "INSERT INTO run_step (run, step, name, kind, status, ended_at, result) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (index, (name, kind)) in new.steps.iter().enumerate() {
        step.execute(params![
            id.0,
            position(index),
            name,
            kind,
            word(&step_status)?,
            ended_at,
            end
        ])?;
    }
    let data = serde_json::json!({ "retry_of": retry_of, "status": status, "trigger": new.trigger });
    audit(
        tx,
        "run.started",
        (id, &new.pipeline, &new.repository, &new.owner),
        data,
        at,
    )?;
    Ok(id)
}
