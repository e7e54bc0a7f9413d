//! The move of a hook's open change into the conversation of a person, who goes on with it.

use super::column::millis;
use super::command::apply_once;
use super::{Store, StoreError, audit_in, change, claim, conversation, edits, inbox, shown_result, thread};
use crate::base::model::{ChangeName, ConversationId, InboxId};
use crate::crash_point;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

/// The move of a change.
#[derive(Clone, Debug)]
pub struct TakeOverRequest {
    /// The press.
    pub press: InboxId,
    /// The conversation of the hook.
    pub from: ConversationId,
    /// The conversation of the person, in the thread of the press.
    pub into: ConversationId,
    /// The change and revision that the person saw.
    pub meant: ChangeName,
    /// The name of the person.
    pub person: String,
}

/// The outcome of the move of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "take_over", rename_all = "snake_case")]
pub enum TakeOverOutcome {
    /// The change belongs to the person's conversation.
    Taken {
        /// Its name.
        name: String,
    },
    /// Nothing was done: an event of the hook, or a message of the person, is being answered.
    Busy,
    /// Nothing was done: the person has edits in their conversation there.
    Occupied,
    /// Nothing was done: the change is closed, taken, or has a newer revision.
    Another {
        /// The name of the open change, if there is one.
        name: Option<String>,
    },
}

impl Store {
    /// Moves the open change of a hook with its edits. A repeated run of the press returns the first result.
    pub async fn take_over(
        &self,
        request: TakeOverRequest,
        at: Timestamp,
    ) -> Result<TakeOverOutcome, StoreError> {
        crash_point::before("effect");
        let taken = self
            .write(move |tx| apply_once(tx, request.press, || take_over(tx, &request, at)))
            .await;
        crash_point::after("effect");
        taken
    }
}

fn take_over(
    tx: &Transaction<'_>,
    request: &TakeOverRequest,
    at: Timestamp,
) -> Result<TakeOverOutcome, StoreError> {
    let TakeOverRequest {
        from, into, meant, ..
    } = request;
    let name = change::current_name(tx, *from)?;
    let current = name.as_deref().and_then(|name| name.parse::<ChangeName>().ok());
    let is_meant = current.is_some_and(|current| meant.is_of(current.number, current.revision.unwrap_or(1)));
    let (Some(name), true) = (name.clone(), is_meant && from != into) else {
        return Ok(TakeOverOutcome::Another { name });
    };
    if claim::is_busy(tx, *from)? || claim::is_busy(tx, *into)? || inbox::waiting(tx, *into)? > 0 {
        return Ok(TakeOverOutcome::Busy);
    }
    if !edits::is_empty_snapshot(&edits::snapshot(tx, *into)?) {
        return Ok(TakeOverOutcome::Occupied);
    }
    let number = change::current_number(tx, *from)?;
    let bound: Option<(Option<String>, Option<String>)> = tx
        .prepare_cached("SELECT repository, base FROM conversation WHERE id = ?1")?
        .query_row([from.0], |row| row.try_into())
        .optional()?;
    let (Some(number), Some((Some(repository), Some(base)))) = (number, bound) else {
        return Ok(TakeOverOutcome::Another { name: Some(name) });
    };
    let snapshot = edits::snapshot(tx, *from)?;
    conversation::bind(tx, *into, &repository, &base)?;
    edits::set(tx, *into, &snapshot)?;
    let line = format!("{} goes on with {name} in this thread.", request.person);
    shown_result::retire(tx, number, &line, at)?;
    edits::forget(tx, *from)?;
    // All revisions are the person's from now on.
    tx.prepare_cached("UPDATE change SET conversation = ?2 WHERE number = ?1")?
        .execute(params![number.0, into.0])?;
    // The person's next words in the thread count without a mention.
    tx.prepare_cached(
        "UPDATE conversation SET change_number = ?2, withheld = NULL, spoken_at = COALESCE(spoken_at, ?3) WHERE id = ?1",
    )?
    .execute(params![into.0, number.0, millis(at)])?;
    thread::begin_at(tx, &conversation::load(tx, *into)?.key.place, *into)?;
    let data = serde_json::json!({
        "change": name,
        "command": request.press,
        "conversation": into,
        "from": from,
    });
    audit_in(tx, "change.taken", data, at)?;
    Ok(TakeOverOutcome::Taken { name })
}
