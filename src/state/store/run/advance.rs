//! The next moves of a run, which are stored together.

use super::question::{self, NewRunQuestion};
use super::turn_end::spent;
use super::{cancel, finish, position};
use crate::base::model::{Inbound, Op, RunId, RunStatus, StepEnd, StepStatus, reply_of_operation};
use crate::crash_point;
use crate::planted;
use crate::state::store::column::{json, millis, word};
use crate::state::store::{StoppedWork, Store, StoreError, inbox, outbox};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};

/// The next moves of a run. Steps begin first, then steps end, then the run ends. A step may begin and end at once.
#[derive(Clone, Debug, Default)]
pub struct RunAdvance {
    /// The steps that begin, by their place in the plan.
    pub begin: Vec<(usize, StepBegin)>,
    /// The steps that end. The message of a running one is stopped.
    pub end: Vec<(usize, StepEnd)>,
    /// The end of the run, with its reason. Steps that have not ended are cancelled.
    pub finish: Option<(RunStatus, Option<String>)>,
    /// Operations about the run.
    pub ops: Vec<Op>,
}

/// The begin of a step.
#[derive(Clone, Debug)]
pub enum StepBegin {
    /// This message starts its turn, whose end ends the step.
    Message(Box<Inbound>),
    /// These operations are enqueued.
    Ops(Vec<Op>),
    /// This question is asked, whose answer ends the step.
    Question(Box<NewRunQuestion>),
    /// Nothing is stored besides.
    Nothing,
}

impl Store {
    /// Stores the next moves of a run, and returns the work that they stopped. Returns `None`, and stores nothing, if the run
    /// has another version by now, or moves a run that does not run. The driver need not look at the run again until
    /// something changes; after the end of a step it looks again.
    pub async fn advance_run(
        &self,
        id: RunId,
        version: i64,
        mut advance: RunAdvance,
        at: Timestamp,
    ) -> Result<Option<Vec<StoppedWork>>, StoreError> {
        let pepper = self.pepper();
        let replies = advance.end.iter().any(|(_, end)| end.reply.is_some());
        if planted::is("S2") {
            let ops = std::mem::take(&mut advance.ops);
            self.write(move |tx| enqueue_apart(tx, ops, at)).await?;
        }
        crash_point::before("effect");
        if replies {
            crash_point::before("tell");
        }
        // What is posted once is only sent when that is durable, and all earlier writes with it.
        let advanced = self
            .write_deferred(move |tx| apply(tx, (id, version), advance, pepper, at))
            .await;
        if replies {
            crash_point::after("tell");
        }
        crash_point::after("effect");
        advanced
    }
}

/// Stores operations apart from the moves that they belong to, and a reply that is stored already once more. Only a planted
/// defect does.
fn enqueue_apart(tx: &Transaction<'_>, mut ops: Vec<Op>, at: Timestamp) -> Result<(), StoreError> {
    for op in &mut ops {
        if reply_of_operation(&op.id).is_some() && outbox::is_known(tx, &op.id)? {
            op.id.push_str("/again");
        }
    }
    outbox::enqueue(tx, &ops, at)
}

pub(super) fn apply(
    tx: &Transaction<'_>,
    (id, version): (RunId, i64),
    advance: RunAdvance,
    pepper: [u8; 32],
    at: Timestamp,
) -> Result<Option<Vec<StoppedWork>>, StoreError> {
    let runs: Option<bool> = tx
        .prepare_cached("SELECT status = ?3 FROM run WHERE id = ?1 AND version = ?2")?
        .query_row(params![id.0, version, word(&RunStatus::Running)?], |row| {
            row.get(0)
        })
        .optional()?;
    let has_moves = !advance.begin.is_empty() || !advance.end.is_empty() || advance.finish.is_some();
    if runs.is_none_or(|runs| has_moves && !runs) {
        return Ok(None);
    }
    let is_due = !advance.end.is_empty() && advance.finish.is_none();
    tx.prepare_cached("UPDATE run SET version = version + 1, due = ?2 WHERE id = ?1")?
        .execute(params![id.0, is_due])?;
    for (step, begin) in &advance.begin {
        begin_step(tx, (id, position(*step)), begin, pepper, at)?;
    }
    let mut stopped = Vec::new();
    for (step, mut end) in advance.end {
        let place = (id, position(step));
        if let Some(work) = cancel::stop_message_of(tx, place, None, at)? {
            end.spent = spent(tx, work.message)?;
            stopped.push(work);
        }
        end_step(tx, place, end, at)?;
    }
    outbox::enqueue(tx, &advance.ops, at)?;
    if let Some((status, why)) = advance.finish {
        let left = why.as_deref().unwrap_or("the run has ended");
        stopped.extend(cancel::cancel_steps(tx, id, left, None, at)?);
        finish(tx, id, (status, why.as_deref()), at)?;
    }
    Ok(Some(stopped))
}

fn begin_step(
    tx: &Transaction<'_>,
    (id, step): (RunId, i64),
    begin: &StepBegin,
    pepper: [u8; 32],
    at: Timestamp,
) -> Result<(), StoreError> {
    let message = match begin {
        StepBegin::Message(inbound) => Some(inbox::insert_own(tx, inbound, pepper, at)?),
        StepBegin::Ops(ops) => {
            outbox::enqueue(tx, ops, at)?;
            None
        }
        StepBegin::Question(asked) => {
            question::insert(tx, (id, step), asked, at)?;
            None
        }
        StepBegin::Nothing => None,
    };
    let begun = tx
        .prepare_cached(
            "UPDATE run_step SET status = ?3, started_at = ?4, inbox = ?5,
               conversation = (SELECT conversation FROM inbox WHERE id = ?5)
             WHERE run = ?1 AND step = ?2 AND status = ?6",
        )?
        .execute(params![
            id.0,
            step,
            word(&StepStatus::Running)?,
            millis(at),
            message.map(|message| message.0),
            word(&StepStatus::Waiting)?
        ])?;
    match begun {
        1 => Ok(()),
        _ => Err(StoreError::NotFound(format!("waiting step {step} of run {id}"))),
    }
}

/// Ends a step, and closes its question if that is open. Returns false if it has ended already.
pub(super) fn end_step(
    tx: &Transaction<'_>,
    (id, step): (RunId, i64),
    end: StepEnd,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let ended = tx
        .prepare_cached(
            "UPDATE run_step SET status = ?3, ended_at = ?4, result = ?5
             WHERE run = ?1 AND step = ?2 AND ended_at IS NULL",
        )?
        .execute(params![id.0, step, word(&end.status)?, millis(at), json(&end)?])?;
    let is_ended = ended == 1;
    if is_ended {
        question::withdraw(tx, (id, step), &end, at)?;
    }
    Ok(is_ended)
}
