//! Commands that change something. One transaction contains the effect of a command, its record, and the check that no
//! turn runs. So a command that runs again after a crash finds its earlier effect.

mod own_stop;
mod stop;

pub use own_stop::StopTarget;
pub use stop::StopOutcome;
pub(super) use stop::stop_message;

use super::audit::audit_in;
use super::column::{json, millis, parse};
use super::edits::{self, FileEdits};
use super::{
    ComposedWrite, ProspectiveChange, Store, StoreError, change, claim, conversation, outbox, shown_result,
};
use crate::base::model::{ChangeName, ConversationId, InboxId, Op};
use crate::crash_point;
use crate::planted;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The result of an undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "undone", rename_all = "snake_case")]
pub enum UndoOutcome {
    /// Nothing was undone, because a turn of the conversation runs or will be resumed.
    Busy,
    /// Nothing was undone, because no message changed files.
    Nothing,
    /// Nothing was undone, because the open change is not the named one.
    Another {
        /// The open change, such as `CHG-42 rev 2`.
        name: Option<String>,
    },
    /// Nothing was undone, because withheld edits are newer than the named revision.
    Later,
    /// All edits were reverted. The workspace equals its base, and the open change is closed.
    Everything,
    /// The newest message that changed files was reverted. The workspace now holds this snapshot.
    Newest {
        /// The snapshot, for [`Store::finish_undo`].
        snapshot: String,
    },
}

/// The result of a discard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "discarded", rename_all = "snake_case")]
pub enum DiscardOutcome {
    /// Nothing was discarded, because a turn of the conversation runs or will be resumed.
    Busy,
    /// Nothing was discarded, because no change was open and no file was edited.
    Nothing,
    /// Nothing was discarded, because the open change is not the named one, or the edits have no prepared change.
    Another {
        /// The open change, such as `CHG-42 rev 2`.
        name: Option<String>,
    },
    /// The edits were removed, and the change was closed if one was prepared.
    Change {
        /// The closed change, such as `CHG-42 rev 2`.
        name: Option<String>,
    },
}

/// The result of a clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cleared", rename_all = "snake_case")]
pub enum ClearOutcome {
    /// Nothing was cleared, because a turn of the conversation runs or will be resumed.
    Busy,
    /// The history was cleared.
    Yes,
}

/// The edits that remain after an undo, with the answers to the command.
#[derive(Clone, Debug)]
pub struct UndoRemainder {
    /// The snapshot of the edits.
    pub snapshot: String,
    /// The reason the edits are withheld, if the person may not have them. Then the prospective change is not stored.
    pub withheld: Option<String>,
    /// The answers if the workspace still has the snapshot.
    pub ops: Vec<Op>,
    /// The answers if the workspace was changed again in the meantime.
    pub ops_if_overtaken: Vec<Op>,
}

impl Store {
    /// Reverts the edits of the newest message that changed files, in all its turns. The workspace returns to its state
    /// before that message. Does nothing if the command `meant` another revision. `inbox` is the command; a repeated run
    /// returns the first result.
    pub async fn undo(
        &self,
        id: ConversationId,
        inbox: InboxId,
        meant: Option<ChangeName>,
        at: Timestamp,
    ) -> Result<UndoOutcome, StoreError> {
        self.effect(move |tx| apply_once(tx, inbox, || undo(tx, id, inbox, meant, at)))
            .await
    }

    /// Removes the edits and closes the open change, which keeps its number and revisions. Does nothing if the command
    /// `meant` another change. `inbox` is the command; a repeated run returns the first result.
    pub async fn discard(
        &self,
        id: ConversationId,
        inbox: InboxId,
        meant: Option<ChangeName>,
        at: Timestamp,
    ) -> Result<DiscardOutcome, StoreError> {
        self.effect(move |tx| apply_once(tx, inbox, || discard(tx, id, inbox, meant, at)))
            .await
    }

    /// Clears the history; the workspace stays. `inbox` is the command; a repeated run returns the first result.
    pub async fn clear(&self, id: ConversationId, inbox: InboxId) -> Result<ClearOutcome, StoreError> {
        self.effect(move |tx| {
            apply_once(tx, inbox, || {
                if claim::is_busy(tx, id)? {
                    return Ok(ClearOutcome::Busy);
                }
                conversation::clear_history(tx, id)?;
                Ok(ClearOutcome::Yes)
            })
        })
        .await
    }

    /// True if a command took effect, whether or not it is answered.
    pub async fn has_effect(&self, inbox: InboxId) -> Result<bool, StoreError> {
        self.read(move |tx| {
            let has_effect = "SELECT 1 FROM inbox WHERE id = ?1 AND effect IS NOT NULL";
            Ok(tx.prepare_cached(has_effect)?.exists([inbox.0])?)
        })
        .await
    }

    async fn effect<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        crash_point::before("effect");
        let done = self.write(work).await;
        crash_point::after("effect");
        done
    }

    /// Returns the edits in a snapshot.
    pub async fn edits_of_snapshot(&self, snapshot: &str) -> Result<FileEdits, StoreError> {
        let snapshot = snapshot.to_owned();
        self.read(move |tx| edits::load(tx, &snapshot)).await
    }

    /// Finishes an undo with remaining edits, in one transaction. Stores them as the next revision of the open change,
    /// or closes it if they equal the base, and answers the command. If the workspace has another snapshot by now, a
    /// later message prepared something else, and no revision is made. Withheld edits make no revision either. If what
    /// `prospect` says differs by now, nothing is stored, and the caller composes the answers again.
    pub async fn finish_undo(
        &self,
        inbox: InboxId,
        id: ConversationId,
        mut prospect: ProspectiveChange,
        rest: UndoRemainder,
        at: Timestamp,
    ) -> Result<ComposedWrite<()>, StoreError> {
        let (written, prospect) = self
            .write(move |tx| {
                let is_overtaken = edits::snapshot(tx, id)? != rest.snapshot;
                if !is_overtaken && let Some(basis) = prospect.outdated_by(tx, id)? {
                    return Ok((ComposedWrite::Outdated(basis), prospect));
                }
                if !answer(tx, inbox, at)? {
                    return Ok((ComposedWrite::Stored(()), prospect));
                }
                if is_overtaken {
                    outbox::enqueue(tx, &rest.ops_if_overtaken, at)?;
                    return Ok((ComposedWrite::Stored(()), prospect));
                }
                if let Some(why) = &rest.withheld {
                    change::withhold(tx, id, Some(why))?;
                } else if let Some(change) = prospect.store(tx, id, at)?.cloned() {
                    // The same revision keeps the buttons of its result.
                    let is_new = prospect.change().is_some_and(|numbered| numbered.is_new);
                    if is_new {
                        let line = format!("Replaced by {change}, which `undo` left.");
                        shown_result::retire(tx, change.number, &line, at)?;
                    }
                } else if let Some(change) = shown_result::close(tx, id, at)? {
                    let data = serde_json::json!({ "change": change, "command": inbox, "conversation": id });
                    audit_in(tx, "change.closed", data, at)?;
                }
                outbox::enqueue(tx, &rest.ops, at)?;
                Ok((ComposedWrite::Stored(()), prospect))
            })
            .await?;
        prospect.committed();
        Ok(written)
    }

    /// Marks a command as answered and enqueues its answers, in one transaction. A repeated call changes nothing. This does not
    /// wait for the disk: answers that must not show twice are sent only once it is durable. If it never is, the command runs
    /// again, and finds its effect if that was durable.
    pub async fn finish_command(
        &self,
        inbox: InboxId,
        ops: Vec<Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_deferred(move |tx| finish(tx, inbox, &ops, at).map(|_| ()))
            .await
    }
}

/// Marks a command as answered and enqueues its answers, like [`Store::finish_command`]. Returns false if it already was
/// answered.
pub(super) fn finish(
    tx: &Transaction<'_>,
    inbox: InboxId,
    ops: &[Op],
    at: Timestamp,
) -> Result<bool, StoreError> {
    if !answer(tx, inbox, at)? {
        return Ok(false);
    }
    outbox::enqueue(tx, ops, at)?;
    // A command without answers does not need its response URL.
    outbox::response_url::drop_if_answered(tx, &format!("{}/", inbox.op_id_prefix()))?;
    Ok(true)
}

/// Runs the effect of a command and records it. If it is already recorded, returns the recorded result.
pub(crate) fn apply_once<T: Serialize + DeserializeOwned>(
    tx: &Transaction<'_>,
    inbox: InboxId,
    act: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let recorded: Option<String> = tx
        .prepare_cached("SELECT effect FROM inbox WHERE id = ?1")?
        .query_row([inbox.0], |row| row.get(0))
        .optional()?
        .ok_or_else(|| StoreError::NotFound(format!("message {inbox}")))?;
    if let Some(recorded) = recorded.filter(|_| !planted::is("A1")) {
        return parse("effect", &recorded);
    }
    let done = act()?;
    tx.prepare_cached("UPDATE inbox SET effect = ?2 WHERE id = ?1")?
        .execute(params![inbox.0, json(&done)?])?;
    Ok(done)
}

/// Marks a command as answered. Returns false if it already was.
fn answer(tx: &Transaction<'_>, inbox: InboxId, at: Timestamp) -> Result<bool, StoreError> {
    let done = tx
        .prepare_cached("UPDATE inbox SET done_at = ?2 WHERE id = ?1 AND done_at IS NULL AND lane <> 'turn'")?
        .execute(params![inbox.0, millis(at)])?;
    Ok(done == 1)
}

fn undo(
    tx: &Transaction<'_>,
    id: ConversationId,
    by: InboxId,
    meant: Option<ChangeName>,
    at: Timestamp,
) -> Result<UndoOutcome, StoreError> {
    if claim::is_busy(tx, id)? {
        return Ok(UndoOutcome::Busy);
    }
    let name = change::current_name(tx, id)?;
    if let Some(meant) = meant {
        if !is_named(name.as_deref(), meant) {
            return Ok(UndoOutcome::Another { name });
        }
        // The newest edits are later than the revision.
        if change::is_withheld(tx, id)? {
            return Ok(UndoOutcome::Later);
        }
    }
    let Some((message, before)) = newest_edited(tx, id)? else {
        return Ok(UndoOutcome::Nothing);
    };
    take_back(tx, message, at)?;
    edits::set(tx, id, &before)?;
    // The reason for withholding concerned the reverted edits. The remaining edits are checked again.
    change::withhold(tx, id, None)?;
    let data = serde_json::json!({ "command": by, "conversation": id, "message": message });
    audit_in(tx, "change.undone", data, at)?;
    if edits::is_empty_snapshot(&before) {
        if let Some(number) = change::current_number(tx, id)? {
            let line = "Undone: the workspace equals the base again.";
            shown_result::retire(tx, number, line, at)?;
        }
        edits::forget(tx, id)?;
        return Ok(UndoOutcome::Everything);
    }
    Ok(UndoOutcome::Newest { snapshot: before })
}

/// Returns the newest message whose turns changed files and were not undone, with the snapshot from before its first
/// turn. A message has several turns if the process ended while it was being answered.
fn newest_edited(tx: &Transaction<'_>, id: ConversationId) -> Result<Option<(InboxId, String)>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT inbox, edits_before, edits_after FROM turn
         WHERE conversation = ?1 AND undone_at IS NULL ORDER BY id DESC",
    )?;
    let mut rows = statement.query([id.0])?;
    let mut message: Option<(InboxId, String, String)> = None;
    while let Some(row) = rows.next()? {
        let (inbox, before, after): (InboxId, String, String) =
            (InboxId(row.get(0)?), row.get(1)?, row.get(2)?);
        if planted::is("V2") && before != after {
            return Ok(Some((inbox, before)));
        }
        message = match message {
            Some((newer, _, last)) if newer == inbox => Some((inbox, before, last)),
            Some((newer, first, last)) if first != last => return Ok(Some((newer, first))),
            Some(_) | None => Some((inbox, before, after)),
        };
    }
    Ok(message
        .filter(|(_, first, last)| first != last)
        .map(|(inbox, first, _)| (inbox, first)))
}

/// Marks all turns of a message as undone.
pub(super) fn take_back(tx: &Transaction<'_>, message: InboxId, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached("UPDATE turn SET undone_at = ?2 WHERE inbox = ?1 AND undone_at IS NULL")?
        .execute(params![message.0, millis(at)])?;
    Ok(())
}

fn discard(
    tx: &Transaction<'_>,
    id: ConversationId,
    by: InboxId,
    meant: Option<ChangeName>,
    at: Timestamp,
) -> Result<DiscardOutcome, StoreError> {
    if claim::is_busy(tx, id)? {
        return Ok(DiscardOutcome::Busy);
    }
    let name = change::current_name(tx, id)?;
    if name.is_none() && edits::is_empty_snapshot(&edits::snapshot(tx, id)?) {
        return Ok(DiscardOutcome::Nothing);
    }
    if meant.is_some_and(|meant| !is_named(name.as_deref(), meant)) {
        return Ok(DiscardOutcome::Another { name });
    }
    if let Some(current) = current_of(name.as_deref()) {
        shown_result::retire(tx, current.number, &format!("{current} is discarded."), at)?;
    }
    edits::forget(tx, id)?;
    let data = serde_json::json!({ "change": name, "command": by, "conversation": id });
    audit_in(tx, "change.discarded", data, at)?;
    Ok(DiscardOutcome::Change { name })
}

fn current_of(name: Option<&str>) -> Option<ChangeName> {
    name.and_then(|name| name.parse().ok())
}

/// True if the open change of this name is the one that a command meant.
fn is_named(name: Option<&str>, meant: ChangeName) -> bool {
    current_of(name).is_some_and(|current| meant.is_of(current.number, current.revision.unwrap_or(1)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;
