//! Reading of runs and steps.

use crate::base::model::{
    ChangeNumber, ChatPlace, ConversationId, InboxId, RunId, RunStatus, Sender, StepEnd, StepStatus,
};
use crate::state::store::StoreError;
use crate::state::store::column::{millis, parse, parse_word, time};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tracing::warn;

/// The columns of a [`RunHead`].
const HEAD: &str =
    "run.id, run.pipeline, run.repository, run.owner, users.name, run.started_by, run.status, run.why,
    run.created_at, run.started_at, run.ended_at, run.retry_of";
/// The columns of a [`RunRow`] after those of its head.
const REST: &str = "run.channel, run.place, run.base, run.deadline, run.version, run.plan, run.inputs";
const FROM: &str = "FROM run LEFT JOIN identity ON identity.sender = run.owner
    LEFT JOIN users ON users.id = identity.user_id";

/// A run, without its plan and its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHead {
    /// The row.
    pub id: RunId,
    /// The name of the pipeline.
    pub pipeline: String,
    /// The repository.
    pub repository: String,
    /// The account for which its work runs.
    pub owner: Sender,
    /// The name of the person or service with that account, if it was ever admitted.
    pub owner_name: Option<String>,
    /// The kind of the trigger and its name, such as `hook ci`.
    pub trigger: String,
    /// The state.
    pub status: RunStatus,
    /// The reason of its end, if it has one.
    pub why: Option<String>,
    /// The time at which it was requested.
    pub created_at: Timestamp,
    /// The time from which its steps may run; `None` if it never began.
    pub started_at: Option<Timestamp>,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
    /// The run that it repeats.
    pub retry_of: Option<RunId>,
}

/// A part of a list of runs, the newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunHead>,
    /// The run before which the next part begins, if older ones are left.
    pub next: Option<RunId>,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// Its facts for lists.
    pub head: RunHead,
    /// The channel and the place in which a person started it.
    pub place: Option<(String, ChatPlace)>,
    /// The commit of the definition, as 40 hex digits.
    pub commit: String,
    /// The time at which it has to end; `None` before it begins.
    pub deadline: Option<Timestamp>,
    /// The number of changes of the run and its steps.
    pub version: i64,
    /// The frozen plan, as JSON.
    pub plan: String,
    /// The inputs, as JSON.
    pub inputs: String,
    /// The steps, in the order of the plan.
    pub steps: Vec<StepRow>,
}

/// A step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepRow {
    /// The name of the step.
    pub name: String,
    /// The kind of its work, in one word.
    pub kind: String,
    /// The state.
    pub status: StepStatus,
    /// The time at which it began.
    pub started_at: Option<Timestamp>,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
    /// The end, if it has ended.
    pub end: Option<StepEnd>,
    /// The message with which an agent step began.
    pub inbox: Option<InboxId>,
    /// The conversation of an agent step.
    pub conversation: Option<ConversationId>,
    /// The change that an agent step prepared.
    pub change: Option<ChangeNumber>,
}

/// Returns a run with its steps, if there is one.
pub(super) fn find(tx: &Transaction<'_>, id: RunId) -> Result<Option<RunRow>, StoreError> {
    let mut statement = tx.prepare_cached(&format!("SELECT {HEAD}, {REST} {FROM} WHERE run.id = ?1"))?;
    let mut rows = statement.query([id.0])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (channel, place): (Option<String>, Option<String>) = (row.get(12)?, row.get(13)?);
    let place: Option<ChatPlace> = place.map(|place| parse("place", &place)).transpose()?;
    Ok(Some(RunRow {
        head: head(row)?,
        place: channel.zip(place),
        commit: row.get(14)?,
        deadline: row.get::<_, Option<i64>>(15)?.map(time).transpose()?,
        version: row.get(16)?,
        plan: row.get(17)?,
        inputs: row.get(18)?,
        steps: steps(tx, id)?,
    }))
}

/// Returns a run with its steps, without what its driver needs besides.
pub(super) fn with_steps(
    tx: &Transaction<'_>,
    id: RunId,
) -> Result<Option<(RunHead, Vec<StepRow>)>, StoreError> {
    let mut statement = tx.prepare_cached(&format!("SELECT {HEAD} {FROM} WHERE run.id = ?1"))?;
    let mut rows = statement.query([id.0])?;
    match rows.next()? {
        Some(row) => Ok(Some((head(row)?, steps(tx, id)?))),
        None => Ok(None),
    }
}

/// Returns the newest runs of which `is_listed` is true, of those before `before` if it is given. At most `looked_at_max` are
/// looked at. One that is not readable is left out.
pub(super) fn newest(
    tx: &Transaction<'_>,
    before: Option<RunId>,
    is_listed: impl Fn(&RunHead) -> bool,
    (count_max, looked_at_max): (usize, usize),
) -> Result<RunPage, StoreError> {
    let mut statement = tx.prepare_cached(&format!(
        "SELECT {HEAD} {FROM} WHERE run.id < ?1 ORDER BY run.id DESC"
    ))?;
    let mut rows = statement.query([before.map_or(i64::MAX, |id| id.0)])?;
    let (mut runs, mut looked_at, mut next) = (Vec::new(), 0, None);
    while let Some(row) = rows.next()? {
        if runs.len() >= count_max || looked_at >= looked_at_max {
            return Ok(RunPage { runs, next });
        }
        looked_at += 1;
        next = Some(RunId(row.get(0)?));
        match head(row) {
            Ok(head) if is_listed(&head) => runs.push(head),
            Ok(_) => {}
            Err(error) if error.may_pass() => return Err(error),
            Err(error) => log_once(RunId(row.get(0)?), &error),
        }
    }
    Ok(RunPage { runs, next: None })
}

/// Returns the number of changes of a run and its steps, if there is such a run.
pub(super) fn version(tx: &Transaction<'_>, id: RunId) -> Result<Option<i64>, StoreError> {
    let version = tx
        .prepare_cached("SELECT version FROM run WHERE id = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    Ok(version)
}

/// Logs a run that is not readable, once while the process lives.
fn log_once(id: RunId, error: &StoreError) {
    static LOGGED: Mutex<BTreeSet<i64>> = Mutex::new(BTreeSet::new());
    let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    if logged.insert(id.0) {
        warn!(run = %id, %error, "a run is left out of lists");
    }
}

/// Returns the runs that the driver has to look at, oldest first.
pub(super) fn due(tx: &Transaction<'_>, at: Timestamp, count_max: u32) -> Result<Vec<RunId>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id FROM run WHERE due = 1
         UNION SELECT id FROM run WHERE ended_at IS NULL AND deadline <= ?1
         ORDER BY id LIMIT ?2",
    )?;
    let ids = statement.query_map(params![millis(at), count_max], |row| row.get(0).map(RunId))?;
    Ok(ids.collect::<rusqlite::Result<Vec<_>>>()?)
}

/// Returns the earliest deadline of a run that has not ended.
pub(super) fn next_deadline(tx: &Transaction<'_>) -> Result<Option<Timestamp>, StoreError> {
    let next: Option<i64> = tx
        .prepare_cached("SELECT MIN(deadline) FROM run WHERE ended_at IS NULL")?
        .query_row([], |row| row.get(0))?;
    next.map(time).transpose()
}

/// Returns the state of a run, if there is one.
pub(super) fn status(tx: &Transaction<'_>, id: RunId) -> Result<Option<RunStatus>, StoreError> {
    let status: Option<String> = tx
        .prepare_cached("SELECT status FROM run WHERE id = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    status.map(|status| parse_word("run", status)).transpose()
}

fn head(row: &Row<'_>) -> Result<RunHead, StoreError> {
    Ok(RunHead {
        id: RunId(row.get(0)?),
        pipeline: row.get(1)?,
        repository: row.get(2)?,
        owner: parse("sender", &row.get::<_, String>(3)?)?,
        owner_name: row.get(4)?,
        trigger: row.get(5)?,
        status: parse_word("run", row.get(6)?)?,
        why: row.get(7)?,
        created_at: time(row.get(8)?)?,
        started_at: row.get::<_, Option<i64>>(9)?.map(time).transpose()?,
        ended_at: row.get::<_, Option<i64>>(10)?.map(time).transpose()?,
        retry_of: row.get::<_, Option<i64>>(11)?.map(RunId),
    })
}

fn steps(tx: &Transaction<'_>, id: RunId) -> Result<Vec<StepRow>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT name, kind, status, started_at, ended_at, result, inbox, conversation, change_number
         FROM run_step WHERE run = ?1 ORDER BY step",
    )?;
    let mut rows = statement.query([id.0])?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        let end: Option<String> = row.get(5)?;
        steps.push(StepRow {
            name: row.get(0)?,
            kind: row.get(1)?,
            status: parse_word("step", row.get(2)?)?,
            started_at: row.get::<_, Option<i64>>(3)?.map(time).transpose()?,
            ended_at: row.get::<_, Option<i64>>(4)?.map(time).transpose()?,
            end: end.map(|end| parse("step", &end)).transpose()?,
            inbox: row.get::<_, Option<i64>>(6)?.map(InboxId),
            conversation: row.get::<_, Option<i64>>(7)?.map(ConversationId),
            change: row.get::<_, Option<i64>>(8)?.map(ChangeNumber),
        });
    }
    Ok(steps)
}
