//! Operations that this build cannot read. Each becomes a dead letter, and the others of its channel continue.

use super::lease::leased_state;
use crate::base::model::{MessageRef, Op};
use crate::state::store::column::{millis, parse, text, time};
use crate::state::store::{StoreError, run};
use jiff::Timestamp;
use rusqlite::{Transaction, params};
use tracing::error;

/// Runs a query for operations. If one is unreadable, all unreadable ones are given up, and the query runs again.
pub(super) fn without_unreadable<T>(
    tx: &Transaction<'_>,
    channel: &str,
    at: Timestamp,
    mut look: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    match look() {
        Err(StoreError::Unreadable { .. }) => {
            set_aside(tx, channel, at)?;
            look()
        }
        looked => looked,
    }
}

fn set_aside(tx: &Transaction<'_>, channel: &str, at: Timestamp) -> Result<(), StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id, op, body, message IS NOT NULL, message, created_at, state FROM outbox
         WHERE channel = ?1 AND done_at IS NULL",
    )?;
    let mut rows = statement.query([channel])?;
    let mut unreadable = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, op): (i64, String) = (row.get(0)?, row.get(1)?);
        let body = text("operation", row, 2).and_then(|text| parse::<Op>("operation", &text));
        let message = match row.get(3)? {
            true => text("message", row, 4).and_then(|text| parse::<MessageRef>("message", &text).map(drop)),
            false => Ok(()),
        };
        let state = leased_state(&row.get::<_, String>(6)?).map(drop);
        let read = body
            .map(drop)
            .and(message)
            .and(time(row.get(5)?).map(drop))
            .and(state);
        if let Err(why) = read {
            error!(op.id = op, %why, "an operation cannot be read, and is given up");
            unreadable.push((id, op));
        }
    }
    let mut give_up = tx.prepare_cached(
        "UPDATE outbox SET state = 'failed', why = 'cannot be read', message = NULL, done_at = ?2 WHERE id = ?1",
    )?;
    for (id, op) in unreadable {
        give_up.execute(params![id, millis(at)])?;
        run::note_reply(tx, &op)?;
    }
    Ok(())
}
