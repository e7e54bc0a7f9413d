//! Messages that a running turn takes. A person's message waits for its own turn unless the running turn of its
//! conversation takes it: then it follows a step, in the transaction that stores the step.
//!
//! A taken message is neither lost nor answered twice. It is part of the stored step, which every later attempt at the
//! turn's message reads, and it is done in the transaction that ends that message. This also holds for a turn that was
//! stopped or has failed: the message stays in the conversation, where the next turn and `retry` read it.

use super::claim::{Claim, check_fence};
use super::column::{millis, parse, text};
use super::inbox::{self, QueueKind};
use super::turn::{self, StepEffects};
use super::{Cost, Store, StoreError, conversation, outbox, people};
use crate::base::model::{ConversationId, Inbound, InboxId, Op, Step, TurnId, UserId};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// Maximum number of waiting messages that are read at a time.
const MESSAGES_READ_MAX: u32 = 32;

/// The messages that wait behind the message of a turn.
#[derive(Clone, Debug, Default)]
pub struct MessagesBehind {
    /// The oldest ones, in order, up to one that cannot be read.
    pub messages: Vec<(InboxId, Inbound)>,
    /// The newest of all, also of those that were not read.
    pub newest: Option<InboxId>,
}

/// The messages that a step takes.
#[derive(Clone, Debug)]
pub struct TakenMessages {
    /// The person for whom the turn runs.
    pub user: UserId,
    /// The messages, oldest first.
    pub messages: Vec<TakenMessage>,
}

/// A message that a step takes.
#[derive(Clone, Debug)]
pub struct TakenMessage {
    /// The row of the message.
    pub inbox: InboxId,
    /// The person's words, as in the step.
    pub words: String,
    /// The id of the operation that posts the message's card, and the operation that fills it.
    pub card: (String, Op),
}

/// The outcome of a step that takes messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The step is stored, and the messages are part of it.
    Taken {
        /// The messages that had a card with their position.
        waited: Vec<InboxId>,
    },
    /// Nothing is stored: the turn was stopped, its person was revoked, a command has not taken effect yet, or a message
    /// does not wait any more.
    Refused,
}

impl Store {
    /// Returns the messages that wait behind the message `inbox` of a claimed conversation.
    pub async fn waiting_messages(
        &self,
        claim: &Claim,
        inbox: InboxId,
    ) -> Result<MessagesBehind, StoreError> {
        let claim = *claim;
        self.read(move |tx| {
            check_fence(tx, claim)?;
            let mut statement = tx.prepare_cached(
                "SELECT id, inbound FROM inbox
                 WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL AND taken_by IS NULL AND retries IS NULL
                   AND id > ?3 ORDER BY id LIMIT ?4",
            )?;
            let mut rows = statement.query(params![
                claim.conversation.0,
                QueueKind::Turn.as_str(),
                inbox.0,
                MESSAGES_READ_MAX
            ])?;
            let mut messages = Vec::new();
            while let Some(row) = rows.next()? {
                // The turn of a message that cannot be read says so.
                let Ok(inbound) = text("message", row, 1).and_then(|text| parse("message", &text)) else {
                    break;
                };
                messages.push((InboxId(row.get(0)?), inbound));
            }
            let newest: Option<i64> = tx
                .prepare_cached(
                    "SELECT MAX(id) FROM inbox
                     WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL AND taken_by IS NULL AND retries IS NULL
                       AND id > ?3",
                )?
                .query_row(
                    params![claim.conversation.0, QueueKind::Turn.as_str(), inbox.0],
                    |row| row.get(0),
                )?;
            Ok(MessagesBehind {
                messages,
                newest: newest.map(InboxId),
            })
        })
        .await
    }

    /// Records a step like [`Store::record_step`], and in the same transaction that its turn took waiting messages.
    #[allow(clippy::too_many_arguments, reason = "these are the parts of one transaction")]
    pub async fn record_step_taking(
        &self,
        claim: &Claim,
        turn: TurnId,
        step: &Step,
        cost: &Cost,
        effects: StepEffects,
        taken: TakenMessages,
        at: Timestamp,
    ) -> Result<TakeOutcome, StoreError> {
        let (claim, step, cost) = (*claim, step.clone(), cost.clone());
        let recorded = self.write(move |tx| {
            let by = turn::check_open(tx, claim, turn)?;
            if !may_take(tx, claim.conversation, by, &taken)? {
                return Ok(TakeOutcome::Refused);
            }
            crash_point::before("steer");
            let waited = take(tx, turn, by, &taken, at)?;
            turn::record_step(tx, (claim, turn), &step, &cost, effects, at)?;
            Ok(TakeOutcome::Taken { waited })
        });
        let outcome = recorded.await?;
        if outcome != TakeOutcome::Refused {
            crash_point::after("steer");
        }
        Ok(outcome)
    }
}

fn may_take(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    by: InboxId,
    taken: &TakenMessages,
) -> Result<bool, StoreError> {
    // A command that was sent before the messages may be a stop.
    let has_command = tx
        .prepare_cached(
            "SELECT 1 FROM inbox WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL AND effect IS NULL",
        )?
        .exists(params![conversation.0, QueueKind::Change.as_str()])?;
    if has_command || inbox::is_stopped(tx, by)? || people::current_grants(tx, taken.user)?.is_none() {
        return Ok(false);
    }
    let mut waits = tx.prepare_cached(
        "SELECT 1 FROM inbox WHERE id = ?1 AND conversation = ?2 AND lane = ?3 AND done_at IS NULL
           AND taken_by IS NULL AND id > ?4",
    )?;
    for message in &taken.messages {
        if !waits.exists(params![
            message.inbox.0,
            conversation.0,
            QueueKind::Turn.as_str(),
            by.0
        ])? {
            return Ok(false);
        }
    }
    Ok(!taken.messages.is_empty())
}

/// Marks messages as taken. Returns those that had a card.
fn take(
    tx: &Transaction<'_>,
    turn: TurnId,
    by: InboxId,
    taken: &TakenMessages,
    at: Timestamp,
) -> Result<Vec<InboxId>, StoreError> {
    let mut waited = Vec::new();
    for message in &taken.messages {
        tx.prepare_cached("UPDATE inbox SET taken_by = ?2 WHERE id = ?1")?
            .execute([message.inbox.0, by.0])?;
        tx.prepare_cached("UPDATE turn SET said = said || ?2 WHERE id = ?1")?
            .execute(params![turn.0, format!("{}\n", message.words)])?;
        // A message that had to wait first has a card with its position.
        let (card, fill) = &message.card;
        if outbox::is_known(tx, card)? {
            outbox::enqueue(tx, std::slice::from_ref(fill), at)?;
            waited.push(message.inbox);
        }
    }
    Ok(waited)
}

/// True if a turn took the message.
pub(super) fn is_taken(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let taken = tx
        .prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND taken_by IS NOT NULL")?
        .exists([inbox.0])?;
    Ok(taken)
}

/// True if a turn of the message `by` took others.
pub(super) fn has_taken(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    by: InboxId,
) -> Result<bool, StoreError> {
    let taken = tx
        .prepare_cached(
            "SELECT 1 FROM inbox WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL AND taken_by = ?3",
        )?
        .exists(params![conversation.0, QueueKind::Turn.as_str(), by.0])?;
    Ok(taken)
}

/// Marks the messages as done that turns of the message `by` took, when that message is done.
pub(super) fn finish_taken(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    by: InboxId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let done = tx
        .prepare_cached(
            "UPDATE inbox SET done_at = ?3, inbound = ''
             WHERE conversation = ?1 AND lane = ?4 AND done_at IS NULL AND taken_by = ?2",
        )?
        .execute(params![
            conversation.0,
            by.0,
            millis(at),
            QueueKind::Turn.as_str()
        ])?;
    for _ in 0..done {
        conversation::remove_pending(tx, conversation)?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
