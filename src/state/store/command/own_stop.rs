//! The message that a stop would end, if it is one of the person who stops.

use super::super::column::{json, parse};
use super::super::{Store, StoreError};
use super::stop::{begun_by, to_stop};
use crate::base::model::{ConversationId, Inbound, InboxId, UserId};
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// The work that a stop means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopTarget {
    /// The oldest unfinished message.
    Oldest,
    /// This message.
    Message(InboxId),
    /// The oldest unfinished message whose turn had begun at this time.
    BegunAt(Timestamp),
}

impl Store {
    /// Returns the message that the stop `by` would end, if its turn runs, or will run, for this person.
    pub async fn own_message_to_stop(
        &self,
        id: ConversationId,
        by: InboxId,
        meant: StopTarget,
        user: UserId,
    ) -> Result<Option<InboxId>, StoreError> {
        self.read(move |tx| {
            let found = match meant {
                StopTarget::Oldest => to_stop(tx, id, by, None)?,
                StopTarget::Message(message) => to_stop(tx, id, by, Some(message))?,
                StopTarget::BegunAt(pressed) => begun_by(tx, id, pressed)?,
            };
            match found {
                Some(message) if is_of(tx, message, user)? => Ok(Some(message)),
                Some(_) | None => Ok(None),
            }
        })
        .await
    }
}

/// True if the turn of a message is that of a person. A message without a turn is that of its sender.
fn is_of(tx: &Transaction<'_>, message: InboxId, user: UserId) -> Result<bool, StoreError> {
    let (inbound, person): (String, Option<i64>) = tx
        .prepare_cached(
            "SELECT inbound, (SELECT person FROM turn WHERE turn.inbox = inbox.id ORDER BY turn.id DESC LIMIT 1)
             FROM inbox WHERE id = ?1",
        )?
        .query_row([message.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if let Some(person) = person {
        return Ok(person == user.0);
    }
    let inbound: Inbound = parse("message", &inbound)?;
    let is_sender = tx
        .prepare_cached("SELECT 1 FROM identity WHERE sender = ?1 AND user_id = ?2")?
        .exists(params![json(&inbound.sender)?, user.0])?;
    Ok(is_sender)
}
