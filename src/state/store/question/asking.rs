//! The question that a step asks, stored together with that step.

use super::{QuestionPlace, close_open, stop};
use crate::base::model::{AskedQuestion, ConversationId, InboxId, Op, QuestionAnswer, Step, TurnId, UserId};
use crate::crash_point;
use crate::state::store::claim::Claim;
use crate::state::store::column::{count_column, json, millis};
use crate::state::store::turn::{check_open, record_step};
use crate::state::store::{
    Cost, NewAction, QueueKind, StepEffects, Store, StoreError, action, audit_in, inbox, outbox, people,
};
use jiff::{SignedDuration, Timestamp};
use rusqlite::{Transaction, params};
use std::time::Duration;

/// A question to store, with what becomes durable together with it.
#[derive(Clone, Debug)]
pub struct NewQuestion {
    /// The question.
    pub question: AskedQuestion,
    /// The person who is asked.
    pub user: UserId,
    /// The id of the call that asks.
    pub call: String,
    /// The message that shows it.
    pub shown: QuestionPlace,
    /// The operations that post it.
    pub ops: Vec<Op>,
    /// Its buttons.
    pub actions: Vec<NewAction>,
    /// The time that the turn has run so far.
    pub ran: Duration,
    /// The newest message that the turn knew when it asked.
    pub known: InboxId,
}

impl Store {
    /// Records a step like [`Store::record_step`], with the question that one of its calls asks and the message that
    /// shows it, in one transaction. From then on the conversation waits.
    pub async fn record_question(
        &self,
        claim: &Claim,
        turn: TurnId,
        (step, cost): (&Step, &Cost),
        effects: StepEffects,
        asked: NewQuestion,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (claim, step, cost) = (*claim, step.clone(), cost.clone());
        crash_point::before("ask");
        let recorded = self
            .write(move |tx| {
                record_step(tx, (claim, turn), &step, &cost, effects, at)?;
                insert(tx, (claim.conversation, turn), &asked, at)?;
                // A stop that was stored first found no question to close. A revoked person is not waited for.
                let by = check_open(tx, claim, turn)?;
                if inbox::is_stopped(tx, by)? || people::current_grants(tx, asked.user)?.is_none() {
                    stop(tx, claim.conversation, by, at)?;
                } else if has_newer_message(tx, claim.conversation, asked.known)? {
                    close_open(tx, claim.conversation, &QuestionAnswer::Overtaken, at)?;
                }
                Ok(())
            })
            .await;
        crash_point::after("ask");
        recorded
    }
}

fn insert(
    tx: &Transaction<'_>,
    (conversation, turn): (ConversationId, TurnId),
    asked: &NewQuestion,
    at: Timestamp,
) -> Result<(), StoreError> {
    let step: i64 = tx
        .prepare_cached("SELECT MAX(id) FROM step WHERE turn = ?1")?
        .query_row([turn.0], |row| row.get(0))?;
    let minutes = SignedDuration::from_mins(i64::from(asked.question.minutes()));
    let deadline = at.checked_add(minutes).unwrap_or(at);
    let ran = u64::try_from(asked.ran.as_millis()).unwrap_or(u64::MAX);
    tx.prepare_cached(
        "INSERT INTO question (conversation, turn, step, call, content, post, address, ran_ms, asked_at, deadline)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        conversation.0,
        turn.0,
        step,
        asked.call,
        json(&asked.question)?,
        asked.shown.post,
        json(&asked.shown)?,
        count_column(ran),
        millis(at),
        millis(deadline)
    ])?;
    let id = tx.last_insert_rowid();
    tx.prepare_cached("UPDATE conversation SET question = ?2 WHERE id = ?1")?
        .execute(params![conversation.0, id])?;
    action::insert(tx, &asked.actions)?;
    outbox::enqueue(tx, &asked.ops, at)?;
    let data = serde_json::json!({ "conversation": conversation, "question": id, "turn": turn });
    audit_in(tx, "question.asked", data, at)
}

/// Returns true if a message waits that arrived after this one. It cannot be the answer to a question that was not
/// shown yet, and it would wait for that answer.
fn has_newer_message(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    known: InboxId,
) -> Result<bool, StoreError> {
    let waits = tx
        .prepare_cached(
            "SELECT 1 FROM inbox WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL AND taken_by IS NULL
               AND retries IS NULL AND id > ?3",
        )?
        .exists(params![conversation.0, QueueKind::Turn.as_str(), known.0])?;
    Ok(waits)
}
