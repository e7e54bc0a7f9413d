//! Summaries: the texts that stand for the turns that are left out of a context. A summary is removed with the newest
//! of its turns, and when its conversation is cleared.

use super::StoreError;
use crate::base::model::{ConversationId, TurnId};
use rusqlite::{OptionalExtension, Transaction, params};

/// Returns the summary of a conversation.
pub(super) fn load(tx: &Transaction<'_>, id: ConversationId) -> Result<Option<String>, StoreError> {
    let text = tx
        .prepare_cached("SELECT text FROM summary WHERE conversation = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    Ok(text)
}

/// Stores the summary of the turns up to `turn`. One that was stored for a later turn stays; for a turn that has been
/// removed meanwhile, nothing is stored.
pub(super) fn set(
    tx: &Transaction<'_>,
    id: ConversationId,
    turn: TurnId,
    text: &str,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "INSERT INTO summary (conversation, turn, text)
         SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM turn WHERE id = ?2)
         ON CONFLICT (conversation) DO UPDATE SET turn = excluded.turn, text = excluded.text
         WHERE excluded.turn > summary.turn",
    )?
    .execute(params![id.0, turn.0, text])?;
    Ok(())
}

/// Removes the summary of a conversation.
pub(super) fn clear(tx: &Transaction<'_>, id: ConversationId) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM summary WHERE conversation = ?1")?
        .execute([id.0])?;
    Ok(())
}
