//! The inbox: accepted messages that still need an answer. Each message is accepted once, under any of its delivery
//! names.

mod acceptance;

use super::claim::{DirectClaim, TurnWorker};
use super::column::{json, millis, parse, text, time};
use super::delivery_name::remember_delivery;
use super::outbox::response_url;
use super::writer::Durability;
use super::{AnswerReader, Store, StoreError, ThreadQuestion, conversation, key, run, schedule};
use crate::base::model::{ConversationId, Inbound, InboxId, Op};
use crate::crash_point;
use acceptance::accept;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use std::borrow::Cow;

/// The queue of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// Messages for a turn. A conversation answers them one at a time and in order.
    Turn,
    /// Commands that are answered at once, also during a turn.
    Command,
    /// Commands that are answered at once and may change the data of a turn. No turn begins before they take effect.
    Change,
}

impl QueueKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Command => "command",
            Self::Change => "change",
        }
    }
}

/// The outcome for an incoming message.
#[derive(Clone, Debug)]
pub enum AcceptOutcome {
    /// The message is stored and will be answered.
    Stored {
        /// The row of the message.
        inbox: InboxId,
        /// The conversation it belongs to.
        conversation: ConversationId,
        /// Number of unfinished turn messages before it, including the active one.
        queue_position: u32,
        /// The claim on its conversation, if a worker was given and no other worker holds the conversation.
        direct_claim: Option<DirectClaim>,
    },
    /// The message answered the open question of its conversation, whose turn can go on.
    Answered,
    /// The message is held: its sender was asked whose conversation it is for.
    Held,
    /// The message was already accepted under one of its names.
    Duplicate,
    /// The message is not addressed to the bot, and its sender has no conversation there. Nothing was stored.
    NotAddressed,
    /// The queue is full. With a refusal notice the message is refused permanently. Without one it may be delivered
    /// again.
    Full,
}

/// The limits for waiting messages, and whether a message may answer a question instead of waiting.
pub struct QueueLimits {
    /// The reader of the message as an answer; `None` for a message that asks for a turn of its own.
    pub answers: Option<AnswerReader>,
    /// Operations that are enqueued in the transaction that accepts the message.
    pub notices: Vec<Op>,
    /// Maximum number of messages of one conversation and queue that wait behind the active one.
    pub of_conversation_max: usize,
    /// Maximum number of messages over all conversations of a hook. Applies only without `refusal`.
    pub of_hook_max: usize,
    /// The composer of the question to a person whose first message in a thread is in the thread of another. Without it,
    /// such a message begins a conversation of its own.
    pub thread_question: Option<ThreadQuestion>,
    /// The notice to a refused person. It is enqueued in the refusing transaction, and the message counts as handled.
    /// Without it nothing is stored, and the sender must deliver again.
    pub refusal: Option<Vec<Op>>,
}

/// An accepted command without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredCommand {
    /// The row of the command.
    pub inbox: InboxId,
    /// The conversation of the command.
    pub conversation: ConversationId,
    /// The time of acceptance.
    pub accepted_at: Timestamp,
    /// True if its effect is stored, so only the answer is missing.
    pub has_effect: bool,
    /// Number of crashes during which it was unanswered.
    pub crashes: u32,
    /// The content of the command, or why it cannot be read.
    pub inbound: Result<Box<Inbound>, StoreError>,
}

impl Store {
    /// Accepts a message unless it was already accepted or there is no `room`. Creates its conversation if needed.
    /// Claims the conversation for `worker` if this is its only waiting turn message and no other worker holds it. This
    /// does not wait for the disk, so that the turn can begin at once. The message must not be acknowledged before
    /// [`Store::wait_durable`].
    pub async fn accept(
        &self,
        inbound: &Inbound,
        queue_kind: QueueKind,
        room: QueueLimits,
        worker: Option<&TurnWorker>,
        at: Timestamp,
    ) -> Result<AcceptOutcome, StoreError> {
        let worker = worker.filter(|_| queue_kind == QueueKind::Turn).cloned();
        let arrival = Arrival::new(inbound, queue_kind, worker, at)?;
        let pepper = self.pepper();
        let promise = match arrival.worker {
            Some(_) => Durability::Deferred,
            None => Durability::Synced,
        };
        let work = move |tx: &Transaction<'_>| accept(tx, &arrival, room, pepper);
        self.inner.writer.write(promise, work, |_| ()).await
    }

    /// Returns an accepted message.
    pub async fn inbound(&self, inbox: InboxId) -> Result<Inbound, StoreError> {
        self.read(move |tx| {
            let text = tx
                .prepare_cached("SELECT inbound FROM inbox WHERE id = ?1")?
                .query_row([inbox.0], |row| row.get::<_, String>(0))
                .optional()?
                .ok_or_else(|| StoreError::NotFound(format!("message {inbox}")))?;
            parse("message", &text)
        })
        .await
    }

    /// Returns the number of unfinished turn messages, including the active one.
    pub async fn waiting(&self, conversation: ConversationId) -> Result<u32, StoreError> {
        self.read(move |tx| waiting(tx, conversation)).await
    }

    /// Returns the number of unfinished turn messages of all conversations, including the active ones.
    pub async fn unfinished_messages(&self) -> Result<u64, StoreError> {
        self.read(|tx| {
            let sum = tx
                .prepare_cached("SELECT COALESCE(SUM(pending), 0) FROM conversation WHERE pending > 0")?
                .query_row([], |row| row.get(0))?;
            Ok(super::column::count(sum))
        })
        .await
    }

    /// Returns accepted commands without an answer, oldest first. A crash may leave them.
    pub async fn unanswered(&self) -> Result<Vec<UnansweredCommand>, StoreError> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT id, conversation, inbound, accepted_at, effect IS NOT NULL, crashes FROM inbox
                 WHERE done_at IS NULL AND lane <> 'turn' ORDER BY id",
            )?;
            let mut rows = statement.query([])?;
            let mut commands = Vec::new();
            while let Some(row) = rows.next()? {
                let inbound = text("message", row, 2).and_then(|text| parse("message", &text));
                let accepted_at = time(row.get(3)?);
                commands.push(UnansweredCommand {
                    inbox: InboxId(row.get(0)?),
                    conversation: ConversationId(row.get(1)?),
                    accepted_at: accepted_at.clone().unwrap_or_default(),
                    has_effect: row.get(4)?,
                    crashes: row.get(5)?,
                    inbound: accepted_at.and(inbound.map(Box::new)),
                });
            }
            Ok(commands)
        })
        .await
    }
}

/// An incoming message, with its texts for columns. They are made before the transaction, for which all other writes wait.
struct Arrival {
    inbound: Inbound,
    /// The key of its conversation.
    key: String,
    /// The message itself; empty for one that is not addressed, which is rarely stored.
    content: String,
    queue_kind: QueueKind,
    worker: Option<TurnWorker>,
    at: Timestamp,
}

impl Arrival {
    fn new(
        inbound: &Inbound,
        queue_kind: QueueKind,
        worker: Option<TurnWorker>,
        at: Timestamp,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            key: key::text(&inbound.key())?,
            content: match inbound.is_addressed() {
                true => json(inbound)?,
                false => String::new(),
            },
            inbound: inbound.clone(),
            queue_kind,
            worker,
            at,
        })
    }

    /// Returns the message as it is stored.
    fn content(&self) -> Result<Cow<'_, str>, StoreError> {
        match self.content.is_empty() {
            true => json(&self.inbound).map(Cow::Owned),
            false => Ok(Cow::Borrowed(&self.content)),
        }
    }
}

fn insert(
    tx: &Transaction<'_>,
    arrival: &Arrival,
    conversation: ConversationId,
) -> Result<InboxId, StoreError> {
    let Arrival {
        inbound,
        queue_kind,
        at,
        ..
    } = arrival;
    crash_point::before("B2");
    tx.prepare_cached(
        "INSERT INTO inbox (conversation, lane, inbound, accepted_at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![
        conversation.0,
        queue_kind.as_str(),
        arrival.content()?,
        millis(*at)
    ])?;
    crash_point::before("B3");
    let inbox = InboxId(tx.last_insert_rowid());
    if let Some(url) = &inbound.response_url {
        let owned = (url, Some(&inbound.sender));
        response_url::store_url(tx, &inbox.op_id_prefix(), owned, *at)?;
    }
    Ok(inbox)
}

/// Stores the message with which the work of a schedule or a step of a run begins. It waits for its turn in a conversation of
/// its own.
pub(super) fn insert_own(
    tx: &Transaction<'_>,
    inbound: &Inbound,
    pepper: [u8; 32],
    at: Timestamp,
) -> Result<InboxId, StoreError> {
    let arrival = Arrival::new(inbound, QueueKind::Turn, None, at)?;
    remember_delivery(tx, &inbound.delivery, at)?;
    let conversation = match conversation::find_text(tx, &arrival.key)? {
        Some(found) => {
            conversation::add_pending(tx, found, inbound, at)?;
            found
        }
        None => conversation::create(tx, (inbound, &arrival.key), QueueKind::Turn, None, pepper, at)?.id,
    };
    insert(tx, &arrival, conversation)
}

/// Returns the number of unfinished messages of a queue, without those that a running turn took.
fn unfinished(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    queue_kind: QueueKind,
) -> Result<u32, StoreError> {
    let count = tx
        .prepare_cached(
            "SELECT COUNT(*) FROM inbox WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL AND taken_by IS NULL",
        )?
        .query_row(params![conversation.0, queue_kind.as_str()], |row| row.get(0))?;
    Ok(count)
}

/// Counts the waiting messages like [`Store::waiting`], within another read or write.
pub(super) fn waiting(tx: &Transaction<'_>, conversation: ConversationId) -> Result<u32, StoreError> {
    unfinished(tx, conversation, QueueKind::Turn)
}

/// A waiting message, with its content if that can be read.
pub(super) type WaitingMessage = (InboxId, Result<Inbound, StoreError>);

/// Returns the oldest unfinished turn message.
pub(super) fn next(
    tx: &Transaction<'_>,
    conversation: ConversationId,
) -> Result<Option<WaitingMessage>, StoreError> {
    let mut oldest = tx.prepare_cached(
        "SELECT id, inbound FROM inbox WHERE conversation = ?1 AND lane = ?2 AND done_at IS NULL ORDER BY id LIMIT 1",
    )?;
    let mut rows = oldest.query(params![conversation.0, QueueKind::Turn.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let inbound = text("message", row, 1).and_then(|text| parse("message", &text));
    Ok(Some((InboxId(row.get(0)?), inbound)))
}

/// True if a message was answered.
pub(super) fn is_finished(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let finished = tx
        .prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND done_at IS NOT NULL")?
        .exists([inbox.0])?;
    Ok(finished)
}

/// True if the person stopped the message.
pub(super) fn is_stopped(tx: &Transaction<'_>, inbox: InboxId) -> Result<bool, StoreError> {
    let stopped = tx
        .prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND stopped_by IS NOT NULL")?
        .exists([inbox.0])?;
    Ok(stopped)
}

/// Returns an error unless this is an unfinished message of the conversation.
pub(super) fn check_unfinished(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    inbox: InboxId,
) -> Result<(), StoreError> {
    let unfinished = tx
        .prepare_cached("SELECT 1 FROM inbox WHERE id = ?1 AND conversation = ?2 AND done_at IS NULL")?
        .exists(params![inbox.0, conversation.0])?;
    match unfinished {
        true => Ok(()),
        false => Err(StoreError::NotFound(format!("unfinished message {inbox}"))),
    }
}

/// Marks a turn message as answered and removes its content, because its turn holds the relevant text. Returns false if
/// it was already answered.
pub(super) fn finish(
    tx: &Transaction<'_>,
    conversation: ConversationId,
    inbox: InboxId,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let done = tx
        .prepare_cached(
            "UPDATE inbox SET done_at = ?3, inbound = '' WHERE id = ?1 AND conversation = ?2 AND lane = ?4 AND done_at IS NULL",
        )?
        .execute(params![inbox.0, conversation.0, millis(at), QueueKind::Turn.as_str()])?;
    if done == 1 {
        conversation::remove_pending(tx, conversation)?;
        schedule::end_fire(tx, inbox, at)?;
        run::end_step_of(tx, inbox, at)?;
    }
    Ok(done == 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
