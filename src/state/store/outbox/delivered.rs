//! The record of a delivery: the message of a post, and what is due next in its thread.

use super::lease::{InFlightLock, lease_next};
use super::{DueOperation, LEASED_MAX, response_url, thread_key};
use crate::base::model::{Action, MessageRef, Op};
use crate::crash_point;
use crate::state::store::column::{json, millis, parse};
use crate::state::store::writer::Durability;
use crate::state::store::{Store, StoreError, login_message, run, session_export};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction, params};
use tracing::warn;

impl Store {
    /// Records that an operation was delivered, and the `message` of a post. If the power fails within a moment, a post
    /// becomes ambiguous.
    pub async fn record_delivered(
        &self,
        op: &str,
        message: Option<MessageRef>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let id = op.to_owned();
        let result = self
            .write_deferred(move |tx| mark_delivered(tx, &id, message, at))
            .await;
        self.end_lease_if(&result, op);
        result
    }

    /// Records deliveries like [`Store::record_delivered`] for one chat and thread, and leases what is due next there in the
    /// same commit. The lease is one operation, or several repeatable ones for delivery in order. An operation that
    /// must not show twice is leased alone, and only once it is durable that it is being sent.
    pub async fn record_delivered_and_lease(
        &self,
        sent: Vec<(Op, Option<MessageRef>)>,
        at: Timestamp,
    ) -> Result<Vec<DueOperation>, StoreError> {
        let Some((op, _)) = sent.last() else {
            return Ok(Vec::new());
        };
        let (channel, thread) = (op.channel.clone(), thread_key(op)?);
        let ids: Vec<String> = sent.iter().map(|(op, _)| op.id.clone()).collect();
        let work = move |tx: &Transaction<'_>, busy: &mut InFlightLock<'_>| {
            for (op, message) in sent {
                mark_delivered(tx, &op.id, message, at)?;
            }
            lease_next(tx, (&channel, &thread), LEASED_MAX, at, busy)
        };
        crash_point::before("B10");
        let next = self.lease_in_write(Durability::Deferred, work).await;
        crash_point::after("B10");
        let (due, is_marked) = next?;
        ids.iter().for_each(|id| self.end_lease(id));
        if is_marked && let Err(error) = self.wait_durable().await {
            // They keep their marks, because it is unknown whether those are on disk.
            due.iter().for_each(|due| self.end_lease(&due.op.id));
            warn!(%error, "what is due next is not sent before it is durable that it may be");
            return Ok(Vec::new());
        }
        Ok(due)
    }

    /// Returns the message of a delivered post.
    pub async fn message_of(&self, op: &str) -> Result<Option<MessageRef>, StoreError> {
        let op = op.to_owned();
        self.read(move |tx| message_of(tx, &op)).await
    }
}

/// Marks an operation as delivered, also if it was withdrawn while it was being sent.
fn mark_delivered(
    tx: &Transaction<'_>,
    id: &str,
    message: Option<MessageRef>,
    at: Timestamp,
) -> Result<(), StoreError> {
    login_message::forget(tx, id)?;
    session_export::forget(tx, id)?;
    let message = message.map(|message| json(&message)).transpose()?;
    if !mark_open_delivered(tx, id, message.as_deref(), at)? {
        let reopened = tx
            .prepare_cached(
                "UPDATE outbox SET state = 'sending', why = NULL, done_at = NULL
                 WHERE op = ?1 AND state = 'dropped'",
            )?
            .execute([id])?;
        if reopened > 0 {
            mark_open_delivered(tx, id, message.as_deref(), at)?;
            run::note_reply(tx, id)?;
        }
    }
    response_url::drop_if_answered(tx, id)
}

/// Marks an operation without an outcome as delivered. Returns false if it has one, or is not known.
fn mark_open_delivered(
    tx: &Transaction<'_>,
    id: &str,
    message: Option<&str>,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let Some(message) = message else {
        let updated = tx
            .prepare_cached(
                "UPDATE outbox SET state = 'delivered', done_at = ?2 WHERE op = ?1 AND done_at IS NULL",
            )?
            .execute(params![id, millis(at)])?;
        return Ok(updated > 0);
    };
    let body: Option<String> = tx
        .prepare_cached(
            "UPDATE outbox SET state = 'delivered', done_at = ?2, message = ?3
             WHERE op = ?1 AND done_at IS NULL RETURNING body",
        )?
        .query_row(params![id, millis(at), message], |row| row.get(0))
        .optional()?;
    let Some(body) = body else { return Ok(false) };
    if let Action::Fill { post, .. } = parse::<Op>("operation", &body)?.action {
        replace(tx, &post, message, at)?;
    }
    Ok(true)
}

pub(super) fn message_of(tx: &Transaction<'_>, op: &str) -> Result<Option<MessageRef>, StoreError> {
    let message: Option<String> = tx
        .prepare_cached("SELECT message FROM outbox WHERE op = ?1")?
        .query_row([op], |row| row.get(0))
        .optional()?
        .flatten();
    message.map(|text| parse("message", &text)).transpose()
}

// If a fill's post had failed, the fill was posted itself. Later fills of the same post edit that message.
fn replace(tx: &Transaction<'_>, post: &str, message: &str, at: Timestamp) -> Result<(), StoreError> {
    // Nothing is missing any more, so the dead letter is removed, even if an operator has just requested a retry.
    tx.prepare_cached(
        "UPDATE outbox SET message = ?2,
           done_at = CASE WHEN state IN ('waiting', 'again') THEN ?3 ELSE done_at END,
           state = CASE WHEN state IN ('failed', 'ambiguous', 'waiting', 'again') THEN 'replaced' ELSE state END
         WHERE op = ?1 AND message IS NULL",
    )?
    .execute(params![post, message, millis(at)])?;
    Ok(())
}
