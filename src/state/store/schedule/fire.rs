//! The fires of schedules: their begin, which stores the message of the work, and their end.

use super::{find, fire_run};
use crate::base::model::{
    ConversationId, FireOutcome, Inbound, InboxId, Op, OverlapRule, ScheduleId, Verdict,
};
use crate::crash_point;
use crate::state::store::column::{json, millis, parse, parse_word, time, word};
use crate::state::store::{Store, StoreError, apply_once, command, inbox, outbox};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};

/// The number of failed fires in a row after which a schedule is paused.
pub const FAILURES_MAX: u32 = 3;
/// The most fires of a schedule that are kept.
const FIRES_KEPT_MAX: u32 = 50;

/// A time of a schedule that came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleFire {
    /// The time for which it was due.
    pub due: Timestamp,
    /// The time at which it fired.
    pub fired_at: Timestamp,
    /// Its end; `None` while its work waits or runs.
    pub outcome: Option<FireOutcome>,
    /// The time of its end.
    pub ended_at: Option<Timestamp>,
    /// The reason why it failed, in the history of a schedule; `None` if it did not, or the reason is not kept any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A fire to begin.
#[derive(Clone, Debug)]
pub struct FireStart {
    /// The schedule.
    pub id: ScheduleId,
    /// The time.
    pub due: Timestamp,
    /// The next time of the schedule; `None` if a person started this work beside its times.
    pub next: Option<Timestamp>,
    /// The work.
    pub work: FireWork,
}

/// The work of a fire.
#[derive(Clone, Debug)]
pub enum FireWork {
    /// This message starts a turn or the run of a pipeline. The operation is enqueued if the schedule is paused because that
    /// has failed.
    Message(Box<Inbound>, Box<Op>),
    /// Nothing is started, because the time was missed.
    Missed,
}

/// The result of the begin of a fire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FireResult {
    /// The message is stored.
    Started,
    /// The time is over, and nothing was started: it was missed, or earlier work of the schedule has not ended.
    LeftOut(FireOutcome),
    /// Nothing was done: the time has fired already, or the schedule is off, changed or removed.
    Gone,
}

/// The work of a schedule or a run that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedWork {
    /// The conversation of the work.
    pub conversation: ConversationId,
    /// The message with which it began.
    pub message: InboxId,
}

impl Store {
    /// Begins a fire. `command` is the message of a person who asked for it, if any; a repeated run of it returns the first
    /// result.
    pub async fn begin_fire(
        &self,
        start: FireStart,
        command: Option<InboxId>,
        at: Timestamp,
    ) -> Result<FireResult, StoreError> {
        let pepper = self.pepper();
        crash_point::before("effect");
        let begun = self
            .write(move |tx| match command {
                Some(command) => apply_once(tx, command, || begin(tx, &start, pepper, at)),
                None => begin(tx, &start, pepper, at),
            })
            .await;
        crash_point::after("effect");
        begun
    }

    /// Returns the newest fires of a schedule, newest first. The reason of a failure is that of its run, of its message if
    /// no run began, or of its turn.
    pub async fn schedule_fires(&self, id: ScheduleId) -> Result<Vec<ScheduleFire>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT schedule_fire.due, fired_at, outcome, schedule_fire.ended_at,
                   CASE outcome WHEN 'failed' THEN COALESCE(run.why, json_extract(inbox.effect, '$.why'),
                     (SELECT json_extract(turn.summary, '$.notice') FROM turn
                      WHERE turn.inbox = schedule_fire.inbox ORDER BY turn.id DESC LIMIT 1)) END
                 FROM schedule_fire
                 LEFT JOIN run ON run.event = 'schedule:' || schedule || ':' || schedule_fire.due || '/run'
                 LEFT JOIN inbox ON inbox.id = schedule_fire.inbox
                 WHERE schedule = ?1 ORDER BY schedule_fire.due DESC LIMIT ?2",
            )?;
            let mut rows = statement.query(params![id.0, FIRES_KEPT_MAX])?;
            let mut fires = Vec::new();
            while let Some(row) = rows.next()? {
                let fire = fire(row.get(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))?;
                fires.push(ScheduleFire {
                    why: row.get(4)?,
                    ..fire
                });
            }
            Ok(fires)
        })
        .await
    }
}

/// Reads a fire from its columns.
pub(super) fn fire(
    due: i64,
    (fired_at, outcome, ended_at): (i64, Option<String>, Option<i64>),
) -> Result<ScheduleFire, StoreError> {
    Ok(ScheduleFire {
        due: time(due)?,
        fired_at: time(fired_at)?,
        outcome: outcome.map(|word| parse_word("outcome", word)).transpose()?,
        ended_at: ended_at.map(time).transpose()?,
        why: None,
    })
}

pub(super) fn begin(
    tx: &Transaction<'_>,
    start: &FireStart,
    pepper: [u8; 32],
    at: Timestamp,
) -> Result<FireResult, StoreError> {
    let (id, due) = (start.id.0, millis(start.due));
    let is_known = match start.next {
        Some(next) => {
            let moved =
                "UPDATE schedule SET due = ?3, timed_at = ?4 WHERE id = ?1 AND due = ?2 AND off_why IS NULL";
            tx.prepare_cached(moved)?
                .execute(params![id, due, millis(next), millis(at)])?
                == 1
        }
        None => find(tx, start.id)?.is_some(),
    };
    let has_fired = tx
        .prepare_cached("SELECT 1 FROM schedule_fire WHERE schedule = ?1 AND due = ?2")?
        .exists(params![id, due])?;
    if !is_known || has_fired {
        return Ok(FireResult::Gone);
    }
    let is_working = is_working(tx, start.id)?;
    let (message, pause, left_out) = match &start.work {
        FireWork::Missed => (None, None, Some(FireOutcome::Missed)),
        FireWork::Message(..) if is_working => (None, None, Some(FireOutcome::Overlapped)),
        FireWork::Message(inbound, pause) => {
            let message = inbox::insert_own(tx, inbound, pepper, at)?;
            (Some(message.0), Some(json(pause)?), None)
        }
    };
    tx.prepare_cached(
        "INSERT INTO schedule_fire (schedule, due, fired_at, inbox, pause, outcome, ended_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        id,
        due,
        millis(at),
        message,
        pause,
        left_out.as_ref().map(word).transpose()?,
        left_out.map(|_| millis(at))
    ])?;
    forget_old(tx, start.id)?;
    Ok(left_out.map_or(FireResult::Started, FireResult::LeftOut))
}

/// True if a time of a schedule is left out now, because earlier work has not ended. A pipeline with a rule for runs at the same
/// time follows that rule once its runs have begun.
fn is_working(tx: &Transaction<'_>, id: ScheduleId) -> Result<bool, StoreError> {
    let is_working = tx
        .prepare_cached(
            "SELECT 1 FROM schedule_fire AS fire JOIN schedule ON schedule.id = fire.schedule
             WHERE fire.schedule = ?1 AND fire.outcome IS NULL
               AND (json_extract(schedule.definition, '$.pipeline.overlap') IS NOT ?2
                 OR EXISTS (SELECT 1 FROM inbox WHERE inbox.id = fire.inbox AND inbox.done_at IS NULL))",
        )?
        .exists(params![id.0, word(&OverlapRule::Concurrency)?])?;
    Ok(is_working)
}

/// Removes the fires that are not kept any more.
fn forget_old(tx: &Transaction<'_>, id: ScheduleId) -> Result<(), StoreError> {
    tx.prepare_cached(
        "DELETE FROM schedule_fire WHERE schedule = ?1 AND outcome IS NOT NULL AND due <
           (SELECT due FROM schedule_fire WHERE schedule = ?1 ORDER BY due DESC LIMIT 1 OFFSET ?2)",
    )?
    .execute(params![id.0, FIRES_KEPT_MAX - 1])?;
    Ok(())
}

/// Stops the work of a schedule that has not ended, and cancels the runs of its pipeline. `by` is the command that asked for
/// it, if any.
pub(super) fn stop_open(
    tx: &Transaction<'_>,
    id: ScheduleId,
    by: Option<InboxId>,
    at: Timestamp,
) -> Result<Vec<StoppedWork>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT fire.due, inbox.conversation, inbox.id
         FROM schedule_fire AS fire LEFT JOIN inbox ON inbox.id = fire.inbox AND inbox.done_at IS NULL
         WHERE fire.schedule = ?1 AND fire.outcome IS NULL ORDER BY fire.due",
    )?;
    let open = statement.query_map([id.0], |row| <(i64, Option<i64>, Option<i64>)>::try_from(row))?;
    let open = open.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut stopped = Vec::new();
    for (due, conversation, message) in open {
        let (Some(conversation), Some(message)) = (conversation, message) else {
            stopped.extend(fire_run::cancel(tx, (id.0, due), by, at)?);
            continue;
        };
        let (conversation, message) = (ConversationId(conversation), InboxId(message));
        command::stop_message(tx, (conversation, message), by.unwrap_or(message), at)?;
        stopped.push(StoppedWork {
            conversation,
            message,
        });
    }
    Ok(stopped)
}

/// A fire that has not ended.
pub(super) struct OpenFire {
    pub(super) schedule: i64,
    pub(super) due: i64,
    pause: Option<String>,
}

/// Returns the fire that a message belongs to, unless it has ended.
pub(super) fn open_fire(tx: &Transaction<'_>, inbox: InboxId) -> Result<Option<OpenFire>, StoreError> {
    let open = tx
        .prepare_cached(
            "SELECT schedule, due, pause FROM schedule_fire INDEXED BY schedule_fire_open
             WHERE inbox = ?1 AND outcome IS NULL",
        )?
        .query_row([inbox.0], read_open)
        .optional()?;
    Ok(open)
}

/// Returns the fire of a time of a schedule, unless it has ended.
pub(super) fn open_fire_at(
    tx: &Transaction<'_>,
    (schedule, due): (i64, i64),
) -> Result<Option<OpenFire>, StoreError> {
    let open = tx
        .prepare_cached(
            "SELECT schedule, due, pause FROM schedule_fire
             WHERE schedule = ?1 AND due = ?2 AND outcome IS NULL",
        )?
        .query_row([schedule, due], read_open)
        .optional()?;
    Ok(open)
}

fn read_open(row: &Row<'_>) -> rusqlite::Result<OpenFire> {
    Ok(OpenFire {
        schedule: row.get(0)?,
        due: row.get(1)?,
        pause: row.get(2)?,
    })
}

/// Ends the fire that a message belongs to, when the message is answered, unless it has begun a run, whose end ends the fire.
/// Does nothing for any other message.
pub(in crate::state::store) fn end_fire(
    tx: &Transaction<'_>,
    inbox: InboxId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(open) = open_fire(tx, inbox)? else {
        return Ok(());
    };
    let outcome = match fire_run::status(tx, (open.schedule, open.due))? {
        Some(status) if !status.is_end() => return Ok(()),
        Some(status) => fire_run::outcome(status),
        None => outcome(tx, inbox)?,
    };
    close(tx, open, outcome, at)
}

/// Ends a fire. The schedule is paused if it failed too often.
pub(super) fn close(
    tx: &Transaction<'_>,
    fire: OpenFire,
    outcome: FireOutcome,
    at: Timestamp,
) -> Result<(), StoreError> {
    let OpenFire { schedule, due, pause } = fire;
    tx.prepare_cached(
        "UPDATE schedule_fire SET outcome = ?3, ended_at = ?4, pause = NULL WHERE schedule = ?1 AND due = ?2",
    )?
    .execute(params![schedule, due, word(&outcome)?, millis(at)])?;
    let failures = match outcome {
        FireOutcome::Done => "UPDATE schedule SET failures = 0 WHERE id = ?1 RETURNING failures",
        FireOutcome::Failed => "UPDATE schedule SET failures = failures + 1 WHERE id = ?1 RETURNING failures",
        FireOutcome::Stopped | FireOutcome::Missed | FireOutcome::Overlapped | FireOutcome::Skipped => {
            return Ok(());
        }
    };
    let failures: u32 = tx
        .prepare_cached(failures)?
        .query_row([schedule], |row| row.get(0))?;
    if failures < FAILURES_MAX {
        return Ok(());
    }
    let paused = tx
        .prepare_cached("UPDATE schedule SET off_why = ?2 WHERE id = ?1 AND off_why IS NULL")?
        .execute(params![schedule, format!("{failures} fires in a row failed")])?;
    match pause.filter(|_| paused == 1) {
        Some(pause) => outbox::enqueue(tx, &[parse("operation", &pause)?], at),
        None => Ok(()),
    }
}

/// Returns how the turn of a message ended. One that ended without a verdict was refused.
fn outcome(tx: &Transaction<'_>, message: InboxId) -> Result<FireOutcome, StoreError> {
    let verdict: Option<Option<String>> = tx
        .prepare_cached("SELECT verdict FROM turn WHERE inbox = ?1 ORDER BY id DESC LIMIT 1")?
        .query_row([message.0], |row| row.get(0))
        .optional()?;
    let verdict: Option<Verdict> = verdict
        .flatten()
        .map(|verdict| parse_word("verdict", verdict))
        .transpose()?;
    Ok(match verdict {
        Some(Verdict::Pass | Verdict::NoChange | Verdict::Fail) => FireOutcome::Done,
        _ if inbox::is_stopped(tx, message)? => FireOutcome::Stopped,
        Some(
            Verdict::Incomplete | Verdict::Limit | Verdict::Error | Verdict::Cancelled | Verdict::Denied,
        )
        | None => FireOutcome::Failed,
    })
}
