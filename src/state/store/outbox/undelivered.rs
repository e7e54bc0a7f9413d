//! Operations that end without a delivery. The transaction that ends one also does what follows from that: it enqueues the
//! fallback, and drops what nobody needs any more.

use super::{enqueue, response_url};
use crate::base::model::Op;
use crate::state::store::column::millis;
use crate::state::store::{Store, StoreError, card, login_message, run, session_export};
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// State of an operation that was withdrawn.
const WITHDRAWN: &str = "dropped";

impl Store {
    /// Gives up an operation that was not delivered and never will be. Its thread continues, and the fallback `instead`
    /// is enqueued.
    pub async fn record_failed(
        &self,
        op: &str,
        why: &str,
        instead: impl IntoIterator<Item = Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let instead = instead.into_iter().collect();
        self.finish_operation(op, "failed", why, instead, at).await
    }

    /// Gives up an operation that may have been delivered and must not show twice, if the outcome cannot be found out.
    /// It is not sent again. Its thread continues, and the notice about it is enqueued.
    pub async fn record_ambiguous(
        &self,
        op: &str,
        why: &str,
        instead: impl IntoIterator<Item = Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let instead = instead.into_iter().collect();
        self.finish_operation(op, "ambiguous", why, instead, at).await
    }

    /// Withdraws an operation that must not be sent any more. Its thread continues.
    pub async fn record_withdrawn(&self, op: &str, why: &str, at: Timestamp) -> Result<(), StoreError> {
        self.finish_operation(op, WITHDRAWN, why, Vec::new(), at).await
    }

    /// Replaces a placeholder line that may already show: its fill becomes a new post.
    pub async fn record_replaced(&self, op: &str, why: &str, at: Timestamp) -> Result<(), StoreError> {
        self.finish_operation(op, "replaced", why, Vec::new(), at).await
    }

    async fn finish_operation(
        &self,
        op: &str,
        state: &'static str,
        why: &str,
        instead: Vec<Op>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (id, why) = (op.to_owned(), why.to_owned());
        let result = self
            .write(move |tx| end(tx, &id, (state, &why), &instead, at))
            .await;
        self.end_lease_if(&result, op);
        result
    }
}

/// Withdraws an operation like [`Store::record_withdrawn`], also while it is being sent.
pub(super) fn end_withdrawn(
    tx: &Transaction<'_>,
    op: &str,
    why: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    end(tx, op, (WITHDRAWN, why), &[], at)
}

/// Ends an operation, and enqueues what is sent instead of it. One that has ended stays as it is.
fn end(
    tx: &Transaction<'_>,
    op: &str,
    (state, why): (&str, &str),
    instead: &[Op],
    at: Timestamp,
) -> Result<(), StoreError> {
    let updated = tx
        .prepare_cached(
            "UPDATE outbox SET state = ?2, why = ?3, done_at = ?4, attempts = attempts + 1
             WHERE op = ?1 AND done_at IS NULL",
        )?
        .execute(params![op, state, why, millis(at)])?;
    if updated > 0 {
        enqueue(tx, instead, at)?;
        drop_card_end(tx, op, at)?;
        run::note_reply(tx, op)?;
    }
    login_message::forget(tx, op)?;
    session_export::forget(tx, op)?;
    response_url::drop_if_answered(tx, op)
}

/// Drops the end of a card that has just ended without a known message.
fn drop_card_end(tx: &Transaction<'_>, post: &str, at: Timestamp) -> Result<(), StoreError> {
    let end = format!("{post}/fill");
    if card::is_end(&end) {
        tx.prepare_cached(
            "UPDATE outbox SET state = 'dropped', why = 'the message of the card is not known', done_at = ?2
             WHERE op = ?1 AND done_at IS NULL",
        )?
        .execute(params![end, millis(at)])?;
    }
    Ok(())
}
