//! Stops of messages by a person: the running one, a named one, and the retries that wait.

use super::apply_once;
use crate::base::model::{ConversationId, InboxId};
use crate::planted;
use crate::state::store::column::{millis, parse};
use crate::state::store::{QueueKind, Store, StoreError, conversation, inbox, key, question, retry};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

/// The result of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopOutcome {
    /// The message whose turn ends, if any.
    pub message: Option<InboxId>,
    /// Number of messages that wait behind it.
    pub waiting: u32,
    /// Number of earlier commands of the conversation that have no effect yet. A `retry` among them will have none.
    #[serde(default)]
    pub commands: u32,
}

impl Store {
    /// Stops the oldest unfinished turn message that arrived before the command `inbox`, or `message` if given. A message
    /// that a retry stored arrived with that retry. Without `message` it also stops the retries that were sent before
    /// and wait. The stop holds until the message is answered, also across restarts. A question that its turn waits for is
    /// closed. A repeated run of the command returns the first result.
    pub async fn stop(
        &self,
        id: ConversationId,
        inbox: InboxId,
        message: Option<InboxId>,
        at: Timestamp,
    ) -> Result<StopOutcome, StoreError> {
        self.effect(move |tx| apply_once(tx, inbox, || stop(tx, id, inbox, message, at)))
            .await
    }

    /// Stops the oldest unfinished message whose turn had begun at `pressed`, like [`Store::stop`] with that message. Nothing
    /// is stopped if there is none: the turn that the person meant has ended.
    pub async fn stop_begun(
        &self,
        id: ConversationId,
        inbox: InboxId,
        pressed: Timestamp,
        at: Timestamp,
    ) -> Result<StopOutcome, StoreError> {
        self.effect(move |tx| {
            apply_once(tx, inbox, || match begun_by(tx, id, pressed)? {
                Some(message) => stop(tx, id, inbox, Some(message), at),
                None => Ok(StopOutcome {
                    message: None,
                    waiting: inbox::waiting(tx, id)?,
                    commands: 0,
                }),
            })
        })
        .await
    }
}

fn stop(
    tx: &Transaction<'_>,
    id: ConversationId,
    by: InboxId,
    message: Option<InboxId>,
    at: Timestamp,
) -> Result<StopOutcome, StoreError> {
    let found = to_stop(tx, id, by, message)?;
    if let Some(message) = found.filter(|_| !planted::is("V6")) {
        stop_message(tx, (id, message), by, at)?;
    }
    let commands = match message {
        Some(_) => 0,
        None => stop_commands(tx, id, by)?,
    };
    let unfinished = inbox::waiting(tx, id)?;
    Ok(StopOutcome {
        message: found,
        waiting: unfinished.saturating_sub(u32::from(found.is_some())),
        commands,
    })
}

/// Stores that an unfinished message of a conversation is stopped, and closes the question that its turn waits for.
pub(in crate::state::store) fn stop_message(
    tx: &Transaction<'_>,
    (id, message): (ConversationId, InboxId),
    by: InboxId,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE inbox SET stopped_by = ?2 WHERE id = ?1 AND stopped_by IS NULL")?
        .execute(params![message.0, by.0])?;
    question::stop(tx, id, message, at)
}

/// Returns the oldest unfinished turn message whose turn had begun at a time.
pub(super) fn begun_by(
    tx: &Transaction<'_>,
    id: ConversationId,
    pressed: Timestamp,
) -> Result<Option<InboxId>, StoreError> {
    let message = tx
        .prepare_cached(
            "SELECT id FROM inbox WHERE conversation = ?1 AND lane = 'turn' AND done_at IS NULL
               AND EXISTS (SELECT 1 FROM turn WHERE turn.inbox = inbox.id AND turn.began_at <= ?2)
             ORDER BY id LIMIT 1",
        )?
        .query_row(params![id.0, millis(pressed)], |row| row.get(0))
        .optional()?;
    Ok(message.map(InboxId))
}

/// Returns the oldest unfinished turn message that arrived before the command `by`, or `message` if that did.
pub(super) fn to_stop(
    tx: &Transaction<'_>,
    id: ConversationId,
    by: InboxId,
    message: Option<InboxId>,
) -> Result<Option<InboxId>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id, CASE WHEN id < ?2 THEN NULL ELSE inbound END FROM inbox
         WHERE conversation = ?1 AND lane = 'turn' AND done_at IS NULL AND (id < ?2 OR retries IS NOT NULL)
           AND (?3 IS NULL OR id = ?3) ORDER BY id",
    )?;
    let mut rows = statement.query(params![id.0, by.0, message.map(|message| message.0)])?;
    while let Some(row) = rows.next()? {
        // A later message that cannot be read is not known to have arrived before.
        let arrived_before = match row.get::<_, Option<String>>(1) {
            Ok(None) => true,
            Ok(Some(inbound)) => parse("message", &inbound)
                .is_ok_and(|inbound| retry::command_of(&inbound).is_some_and(|retry| retry < by)),
            Err(_) => false,
        };
        if arrived_before {
            return Ok(Some(InboxId(row.get(0)?)));
        }
    }
    Ok(None)
}

/// Marks the commands that were sent before the stop `by` and have no effect yet: to the conversation, from where the stop
/// was sent, or outside of a thread while the conversation was the one that such a command meant. Only a retry heeds the
/// mark. Returns their number.
fn stop_commands(tx: &Transaction<'_>, id: ConversationId, by: InboxId) -> Result<u32, StoreError> {
    let lane = QueueKind::Change.as_str();
    let marked = tx
        .prepare_cached(
            "UPDATE inbox SET stopped_by = ?2
             WHERE conversation IN (?1, (SELECT own.conversation FROM inbox AS own WHERE own.id = ?2)) AND lane = ?3
               AND done_at IS NULL AND effect IS NULL AND id < ?2",
        )?
        .execute(params![id.0, by.0, lane])?;
    let mut marked = u32::try_from(marked).unwrap_or(u32::MAX);
    for command in commands_outside_threads(tx, id, by)? {
        let stopped = tx
            .prepare_cached("UPDATE inbox SET stopped_by = ?2 WHERE id = ?1")?
            .execute(params![command.0, by.0])?;
        marked = marked.saturating_add(u32::try_from(stopped).unwrap_or(u32::MAX));
    }
    Ok(marked)
}

/// Returns the commands without effect that the person sent before `by` outside of a thread, in the chat of a
/// conversation, and that mean the conversation.
fn commands_outside_threads(
    tx: &Transaction<'_>,
    id: ConversationId,
    by: InboxId,
) -> Result<Vec<InboxId>, StoreError> {
    let mut key = conversation::load(tx, id)?.key;
    let chat = key.place.account.platform.chat();
    if key.place.thread.take().is_none() || !chat.is_some_and(|chat| chat.drops_threads_of_commands) {
        return Ok(Vec::new());
    }
    let mut statement = tx.prepare_cached(
        "SELECT inbox.id FROM inbox JOIN conversation ON conversation.id = inbox.conversation
         WHERE conversation.key = ?1 AND lane = ?3 AND done_at IS NULL AND effect IS NULL AND inbox.id < ?2
           AND stopped_by IS NULL",
    )?;
    let waiting = statement.query_map(
        params![key::text(&key)?, by.0, QueueKind::Change.as_str()],
        |row| row.get(0).map(InboxId),
    )?;
    let waiting: Vec<InboxId> = waiting.collect::<rusqlite::Result<_>>()?;
    let mut meant = Vec::new();
    for command in waiting {
        if conversation::latest(tx, &key, command)? == Some(id) {
            meant.push(command);
        }
    }
    Ok(meant)
}
