//! Schedules, and their fires. A time of a schedule fires in one transaction: the row of the fire, the message that waits
//! for its turn, and the next time. Its primary key is the schedule and the time, so no time fires twice, also if the clock
//! goes back. The transaction that ends the turn also ends the fire, or that which ends the run of a pipeline.

mod configured;
mod fire;
mod fire_run;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use configured::{ConfiguredSchedule, NextTime, PIPELINE_SCHEDULES_MAX, PipelineScheduleOwner};
pub(super) use fire::end_fire;
pub use fire::{FAILURES_MAX, FireResult, FireStart, FireWork, ScheduleFire, StoppedWork};
pub(super) use fire_run::end_fire_of_run;

use super::column::{json, millis, parse, time};
use super::{Store, StoreError, apply_once, audit_in, outbox};
use crate::base::model::{Account, InboxId, Op, ScheduleDefinition, ScheduleId, Sender, UserId};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};
use serde::{Deserialize, Serialize};

/// The most schedules of one account.
pub const SCHEDULES_OF_PERSON_MAX: u32 = 20;

/// The reason why the schedules of a revoked person are off.
const REVOKED: &str = "access was revoked";

/// The columns of a schedule, with the name of its owner and its newest fire.
const SELECT: &str = "SELECT schedule.id, schedule.owner, users.name, schedule.name, schedule.definition,
    schedule.off_why, schedule.due, schedule.failures, fire.due, fire.fired_at, fire.outcome, fire.ended_at
  FROM schedule
  LEFT JOIN identity ON identity.sender = schedule.owner
  LEFT JOIN users ON users.id = identity.user_id
  LEFT JOIN schedule_fire AS fire ON fire.schedule = schedule.id AND fire.due =
    (SELECT MAX(newest.due) FROM schedule_fire AS newest WHERE newest.schedule = schedule.id)";

/// A stored schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleRow {
    /// The row.
    pub id: ScheduleId,
    /// The account for which its work runs.
    pub owner: Sender,
    /// The name of the person or service with that account, if it was ever admitted.
    pub owner_name: Option<String>,
    /// The name of the schedule, unique among those of its owner.
    pub name: String,
    /// Its content.
    pub definition: ScheduleDefinition,
    /// The reason why it does not fire; `None` if it does.
    pub off_why: Option<String>,
    /// The next time. It does not fire then if it is off.
    pub due: Timestamp,
    /// The number of failed fires in a row.
    pub failures: u32,
    /// The newest fire.
    pub last: Option<ScheduleFire>,
}

/// A schedule to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    /// The account for which its work runs.
    pub owner: Sender,
    /// Its name.
    pub name: String,
    /// Its content.
    pub definition: ScheduleDefinition,
    /// Its first time.
    pub due: Timestamp,
}

/// A next time of a schedule that was computed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTime {
    /// The schedule.
    pub id: ScheduleId,
    /// The time for which it waited.
    pub due: Timestamp,
    /// The time for which it waits now.
    pub next: Timestamp,
}

/// A change of a schedule.
#[derive(Clone, Debug)]
pub enum ScheduleEdit {
    /// Stores it, unless its owner has one of this name or too many.
    Create(Box<NewSchedule>),
    /// Removes it with its fires, and stops its work.
    Remove(ScheduleId),
    /// Turns it on, from this time on.
    TurnOn(ScheduleId, Timestamp),
    /// Turns it off for this reason, and stops its work, also if it is off already.
    Disable(ScheduleId, String),
    /// Turns it off for this reason, and enqueues operations. Its work goes on.
    TurnOff(ScheduleId, String, Vec<Op>),
}

/// The outcome of a change of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleChange {
    /// It was changed.
    Changed,
    /// It was so already.
    Unchanged,
    /// There is no such schedule any more.
    Gone,
    /// Its owner has a schedule of this name.
    NameTaken,
    /// Its owner has [`SCHEDULES_OF_PERSON_MAX`] schedules.
    TooMany,
}

impl Store {
    /// Returns the schedules of an account, or all, by owner and name.
    pub async fn schedules(&self, owner: Option<&Sender>) -> Result<Vec<ScheduleRow>, StoreError> {
        let owner = owner.map(json).transpose()?;
        self.read(move |tx| {
            let sql = format!(
                "{SELECT} WHERE ?1 IS NULL OR schedule.owner = ?1 ORDER BY schedule.owner, schedule.name"
            );
            rows(tx, &sql, params![owner])
        })
        .await
    }

    /// Returns the schedules that are on and whose next times may be too late, because the clock went back: it showed a later
    /// time than `at` when they were computed, or that is not known.
    pub async fn schedules_timed_after(&self, at: Timestamp) -> Result<Vec<ScheduleRow>, StoreError> {
        self.read(move |tx| {
            let sql = format!(
                "{SELECT} WHERE schedule.off_why IS NULL AND (schedule.timed_at IS NULL OR schedule.timed_at > ?1)"
            );
            rows(tx, &sql, params![millis(at)])
        })
        .await
    }

    /// Returns the schedules that are due, those that have waited longest first, at most so many.
    pub async fn due_schedules(&self, at: Timestamp, count_max: u32) -> Result<Vec<ScheduleRow>, StoreError> {
        self.read(move |tx| {
            let sql = format!(
                "{SELECT} WHERE schedule.off_why IS NULL AND schedule.due <= ?1
                 ORDER BY schedule.due, schedule.id LIMIT ?2"
            );
            rows(tx, &sql, params![millis(at), count_max])
        })
        .await
    }

    /// Returns the next time of any schedule that is on.
    pub async fn next_schedule_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(|tx| {
            let due: Option<i64> = tx
                .prepare_cached("SELECT MIN(due) FROM schedule WHERE off_why IS NULL")?
                .query_row([], |row| row.get(0))?;
            due.map(time).transpose()
        })
        .await
    }

    /// Changes a schedule, and returns the work that this stopped. `command` is the message that asked for it, if any; a
    /// repeated run of it returns the first outcome.
    pub async fn edit_schedule(
        &self,
        edit: ScheduleEdit,
        (by, command): (String, Option<InboxId>),
        at: Timestamp,
    ) -> Result<(ScheduleChange, Vec<StoppedWork>), StoreError> {
        crash_point::before("effect");
        let changed = self
            .write(move |tx| match command {
                Some(command) => {
                    let (changed, stopped) = apply_once(tx, command, || {
                        let (changed, stopped) = change(tx, &edit, (&by, Some(command)), at)?;
                        // A schedule of a person has one work at a time.
                        Ok((changed, stopped.first().copied()))
                    })?;
                    Ok((changed, stopped.into_iter().collect()))
                }
                None => change(tx, &edit, (&by, None), at),
            })
            .await;
        crash_point::after("effect");
        changed
    }

    /// Stores next times that were computed anew at `at`, because the clock may have gone back. A schedule that has moved since
    /// it was read stays as it is, and a time that has fired does not fire again.
    pub async fn retime_schedules(&self, times: Vec<NewTime>, at: Timestamp) -> Result<(), StoreError> {
        self.write(move |tx| {
            let mut statement =
                tx.prepare_cached("UPDATE schedule SET due = ?3, timed_at = ?4 WHERE id = ?1 AND due = ?2")?;
            for NewTime { id, due, next } in times {
                statement.execute(params![id.0, millis(due), millis(next), millis(at)])?;
            }
            Ok(())
        })
        .await
    }
}

fn change(
    tx: &Transaction<'_>,
    edit: &ScheduleEdit,
    (by, command): (&str, Option<InboxId>),
    at: Timestamp,
) -> Result<(ScheduleChange, Vec<StoppedWork>), StoreError> {
    let (what, id) = match edit {
        ScheduleEdit::Create(new) => return Ok((create(tx, new, by, at)?, Vec::new())),
        ScheduleEdit::Remove(id) => ("removed", *id),
        ScheduleEdit::TurnOn(id, _) => ("on", *id),
        ScheduleEdit::Disable(id, _) | ScheduleEdit::TurnOff(id, ..) => ("off", *id),
    };
    let Some(row) = find(tx, id)? else {
        return Ok((ScheduleChange::Gone, Vec::new()));
    };
    let stopped = match edit {
        ScheduleEdit::Remove(_) | ScheduleEdit::Disable(..) => fire::stop_open(tx, id, command, at)?,
        ScheduleEdit::Create(_) | ScheduleEdit::TurnOn(..) | ScheduleEdit::TurnOff(..) => Vec::new(),
    };
    let changed = match edit {
        ScheduleEdit::Create(_) => 0,
        ScheduleEdit::Remove(id) => remove(tx, *id)?,
        ScheduleEdit::TurnOn(id, due) => tx
            .prepare_cached(
                "UPDATE schedule SET off_why = NULL, failures = 0, due = ?2, timed_at = ?3
                 WHERE id = ?1 AND off_why IS NOT NULL",
            )?
            .execute(params![id.0, millis(*due), millis(at)])?,
        ScheduleEdit::Disable(id, why) => turn_off(tx, *id, why)?,
        ScheduleEdit::TurnOff(id, why, ops) => {
            let changed = turn_off(tx, *id, why)?;
            if changed > 0 {
                outbox::enqueue(tx, ops, at)?;
            }
            changed
        }
    };
    if changed == 0 {
        return Ok((ScheduleChange::Unchanged, stopped));
    }
    audit(tx, (what, &row.name, &row.owner), by, at)?;
    Ok((ScheduleChange::Changed, stopped))
}

/// Removes a schedule with its fires.
fn remove(tx: &Transaction<'_>, id: ScheduleId) -> Result<usize, StoreError> {
    tx.prepare_cached("DELETE FROM schedule_fire WHERE schedule = ?1")?
        .execute([id.0])?;
    Ok(tx
        .prepare_cached("DELETE FROM schedule WHERE id = ?1")?
        .execute([id.0])?)
}

fn turn_off(tx: &Transaction<'_>, id: ScheduleId, why: &str) -> Result<usize, StoreError> {
    Ok(tx
        .prepare_cached("UPDATE schedule SET off_why = ?2 WHERE id = ?1 AND off_why IS NULL")?
        .execute(params![id.0, why])?)
}

/// Turns off the schedules of a person who is revoked. Nothing is posted about them, also not when work that runs ends.
/// Those of services stay on, until their next time says in their chat that they are off.
pub(super) fn turn_off_all(tx: &Transaction<'_>, user: UserId, at: Timestamp) -> Result<(), StoreError> {
    let owned = "schedule.owner IN (SELECT sender FROM identity WHERE user_id = ?1)
      AND json_extract(schedule.owner, '$.platform') <> ?2";
    let services = Account::of_schedules().platform.as_str();
    tx.prepare_cached(&format!(
        "UPDATE schedule_fire SET pause = NULL
         WHERE outcome IS NULL AND schedule IN (SELECT id FROM schedule WHERE {owned})"
    ))?
    .execute(params![user.0, services])?;
    for row in rows(tx, &format!("{SELECT} WHERE {owned}"), params![user.0, services])? {
        let edit = ScheduleEdit::TurnOff(row.id, REVOKED.to_owned(), Vec::new());
        change(tx, &edit, ("drydock", None), at)?;
    }
    Ok(())
}

fn create(
    tx: &Transaction<'_>,
    new: &NewSchedule,
    by: &str,
    at: Timestamp,
) -> Result<ScheduleChange, StoreError> {
    let owner = json(&new.owner)?;
    let is_taken = tx
        .prepare_cached("SELECT 1 FROM schedule WHERE owner = ?1 AND name = ?2")?
        .exists(params![owner, new.name])?;
    if is_taken {
        return Ok(ScheduleChange::NameTaken);
    }
    let count: u32 = tx
        .prepare_cached("SELECT COUNT(*) FROM schedule WHERE owner = ?1")?
        .query_row([&owner], |row| row.get(0))?;
    if count >= SCHEDULES_OF_PERSON_MAX {
        return Ok(ScheduleChange::TooMany);
    }
    insert(tx, new, at)?;
    audit(tx, ("created", &new.name, &new.owner), by, at)?;
    Ok(ScheduleChange::Changed)
}

fn insert(tx: &Transaction<'_>, new: &NewSchedule, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO schedule (owner, name, definition, due, created_at, timed_at) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
    )?
    .execute(params![
        json(&new.owner)?,
        new.name,
        json(&new.definition)?,
        millis(new.due),
        millis(at)
    ])?;
    Ok(())
}

fn audit(
    tx: &Transaction<'_>,
    (what, name, owner): (&str, &str, &Sender),
    by: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    let data = serde_json::json!({ "by": by, "change": what, "schedule": name, "sender": owner.to_string() });
    audit_in(tx, "schedule.changed", data, at)
}

/// Returns a schedule, if there is one.
fn find(tx: &Transaction<'_>, id: ScheduleId) -> Result<Option<ScheduleRow>, StoreError> {
    let sql = format!("{SELECT} WHERE schedule.id = ?1");
    Ok(rows(tx, &sql, params![id.0])?.into_iter().next())
}

fn rows(
    tx: &Transaction<'_>,
    sql: &str,
    values: impl rusqlite::Params,
) -> Result<Vec<ScheduleRow>, StoreError> {
    let mut statement = tx.prepare_cached(sql)?;
    let mut found = statement.query(values)?;
    let mut schedules = Vec::new();
    while let Some(row) = found.next()? {
        schedules.push(schedule(row)?);
    }
    Ok(schedules)
}

fn schedule(row: &Row<'_>) -> Result<ScheduleRow, StoreError> {
    Ok(ScheduleRow {
        id: ScheduleId(row.get(0)?),
        owner: parse("sender", &row.get::<_, String>(1)?)?,
        owner_name: row.get(2)?,
        name: row.get(3)?,
        definition: parse("schedule", &row.get::<_, String>(4)?)?,
        off_why: row.get(5)?,
        due: time(row.get(6)?)?,
        failures: row.get(7)?,
        last: match row.get::<_, Option<i64>>(8)? {
            Some(due) => Some(fire::fire(due, (row.get(9)?, row.get(10)?, row.get(11)?))?),
            None => None,
        },
    })
}
