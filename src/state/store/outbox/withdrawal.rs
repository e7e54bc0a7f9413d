//! The operations that must not be sent any more, because of what was decided about a person after they were enqueued.

use super::recipient::{is_for_alone, is_for_group, possible_readers};
use super::undelivered::end_withdrawn;
use crate::base::model::{Op, PersonMessage, Sender};
use crate::state::store::column::{parse, text};
use crate::state::store::{Store, StoreError, people, person_message, run};
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// The reason why an operation for a person without access is not sent.
const ACCESS_ENDED: &str = "the access of its person was revoked";

/// All operations that may still be sent: those without an outcome, and the dead letters.
const UNSENT: &str = "SELECT op, done_at IS NULL, body FROM outbox INDEXED BY outbox_open WHERE done_at IS NULL
    UNION ALL
    SELECT op, done_at IS NULL, body FROM outbox WHERE done_at IS NOT NULL AND state IN ('failed', 'ambiguous')";

impl Store {
    /// Returns the reason why an operation must not be sent any more. It shows a message between people, or asks about
    /// messages, and its recipient has blocked the sender, or one of both was revoked. Or it is for a person alone whose
    /// access was revoked, and is not the line that says so. Nothing is read for another operation whose chat is a group by
    /// its id.
    pub async fn reason_to_withdraw(&self, op: &Op) -> Result<Option<&'static str>, StoreError> {
        if PersonMessage::people_of_operation(&op.id).is_none() && is_for_group(op) {
            return Ok(None);
        }
        let op = op.clone();
        self.read(move |tx| reason_to_withdraw(tx, &op)).await
    }
}

/// Returns the reason like [`Store::reason_to_withdraw`].
pub(super) fn reason_to_withdraw(tx: &Transaction<'_>, op: &Op) -> Result<Option<&'static str>, StoreError> {
    if let Some(why) = person_message::reason_to_withdraw(tx, &op.id)? {
        return Ok(Some(why));
    }
    let is_withheld = was_withdrawn(tx, &op.id)? || is_for_revoked_person(tx, op)?;
    Ok(is_withheld.then_some(ACCESS_ENDED))
}

/// Withdraws what is for one of these accounts alone and may still be sent, when the access of their person ends, and before it
/// begins anew. What is being sent is not sent again. Dead letters stay, so that the operator sees them, and are not sent any
/// more. The operations are read once, however many accounts there are.
pub(in crate::state::store) fn withdraw_all_for(
    tx: &Transaction<'_>,
    accounts: &[Sender],
    at: Timestamp,
) -> Result<(), StoreError> {
    if accounts.is_empty() {
        return Ok(());
    }
    for (op, is_open) in unsent_for(tx, accounts)? {
        if is_open {
            end_withdrawn(tx, &op, ACCESS_ENDED, at)?;
            continue;
        }
        tx.prepare_cached("UPDATE outbox SET why = ?2 WHERE op = ?1")?
            .execute(params![op, ACCESS_ENDED])?;
        run::note_reply(tx, &op)?;
    }
    Ok(())
}

/// Returns the operations that are for one of these accounts alone and may still be sent, and true for those without an
/// outcome.
fn unsent_for(tx: &Transaction<'_>, accounts: &[Sender]) -> Result<Vec<(String, bool)>, StoreError> {
    let mut statement = tx.prepare_cached(UNSENT)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let body = text("operation", row, 2).and_then(|body| parse::<Op>("operation", &body));
        let op = match body {
            Ok(op) => op,
            // It is not sent either.
            Err(StoreError::Unreadable { .. }) => continue,
            Err(error) => return Err(error),
        };
        for account in accounts {
            if is_for_alone(tx, &op, account)? {
                found.push((row.get(0)?, row.get(1)?));
                break;
            }
        }
    }
    Ok(found)
}

/// Returns true for an operation that was withdrawn while it was being sent, and for a dead letter from before the end of
/// the access of its person.
fn was_withdrawn(tx: &Transaction<'_>, op: &str) -> Result<bool, StoreError> {
    let withdrawn = "SELECT 1 FROM outbox WHERE op = ?1 AND done_at IS NOT NULL AND why = ?2";
    Ok(tx.prepare_cached(withdrawn)?.exists([op, ACCESS_ENDED])?)
}

/// Returns true for an operation that a person without access gets alone. It was enqueued after the end of their access.
fn is_for_revoked_person(tx: &Transaction<'_>, op: &Op) -> Result<bool, StoreError> {
    if op.action.may_follow_revocation() {
        return Ok(false);
    }
    for account in possible_readers(tx, op)? {
        let is_revoked = people::user_of(tx, &account)?.is_some_and(|(_, is_revoked)| is_revoked);
        if is_revoked && is_for_alone(tx, op, &account)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
