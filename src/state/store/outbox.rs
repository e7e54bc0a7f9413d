//! The outbox: outgoing operations, in order per chat and thread. An operation is enqueued once under its id. It is
//! leased until its outcome is reported, and never leased twice at a time.

mod dead_letters;
mod delivered;
mod in_flight;
pub(super) mod response_url;
mod lease;
mod recipient;
mod undelivered;
mod unreadable;
mod withdrawal;

use super::column::{json, millis, time};
use super::{Store, StoreError, card};
use crate::base::model::{Action, Op};
pub use dead_letters::{DeadLetter, DeadLetterFilter, ResentLetters};
use jiff::Timestamp;
pub use lease::POSTPONED_MAX;
use lease::{HEADS, is_due};
pub(super) use lease::{InFlightLock, lease_enqueued};
use rusqlite::{Transaction, params};
pub(super) use withdrawal::withdraw_all_for;

/// State of an operation that is not leased yet. One that must not show twice is marked before it is leased.
const WAITING: &str = "waiting";
/// State of an operation that is not leased yet but is already marked, so it may be sent at once.
const READY: &str = "ready";
/// State of an operation that is not leased and may have been sent. It is looked up first.
const AMBIGUOUS: &str = "doubtful";
/// State of an ambiguous operation that an operator has forced. It is sent if a lookup gives no answer.
const FORCED: &str = "again";
/// State of an operation that was leased while waiting or ready.
const SENDING: &str = "sending";
/// State of an operation that was leased while ambiguous.
const LOOKING_UP: &str = "looking";
/// State of an operation that was leased while forced.
const REPEATING: &str = "repeating";

/// Maximum number of operations of one chat and thread in one lease.
const LEASED_MAX: u32 = 8;

/// An operation to deliver now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueOperation {
    /// The operation. It is never an [`Action::Fill`].
    pub op: Op,
    /// Number of earlier attempts.
    pub attempts: u32,
    /// The time of enqueueing.
    pub enqueued: Timestamp,
    /// The time since which the operation may have been sent, if it must not show twice.
    pub ambiguous_since: Option<Timestamp>,
    /// True if an operator forced it. Then it is sent if a lookup gives no answer.
    pub is_forced: bool,
}

/// A filter for due operations, based on a platform's limits.
pub trait Admission: Clone + Send + 'static {
    /// True if a new message may be sent to this chat.
    fn admits_chat(&mut self, chat: &str) -> bool;

    /// True if the operation may be sent, or looked up if it is ambiguous. It is then counted.
    fn admits(&mut self, due: &DueOperation) -> bool;
}

/// The retry of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryMode {
    /// The operation was not delivered. It is sent.
    Send,
    /// The operation may have been delivered. It is looked up.
    LookUp,
    /// The operation may have been delivered, and an operator forced it.
    Forced,
}

/// The effect of an attempt on the limit of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptWeight {
    /// The attempt counts.
    Counted,
    /// The attempt does not count, because its failure has another cause than the operation.
    NotCounted,
}

/// The retry of an operation without a final outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postponement {
    /// The kind of retry.
    pub retry_mode: RetryMode,
    /// The time at which it is due.
    pub due_at: Timestamp,
    /// The reason it was not delivered.
    pub why: String,
    /// The effect of the last attempt on the limit.
    pub attempt: AttemptWeight,
}

impl Store {
    /// Enqueues operations. An id that was enqueued before is ignored, and so is the fill of an unknown post.
    pub async fn enqueue(&self, ops: Vec<Op>, at: Timestamp) -> Result<(), StoreError> {
        self.write(move |tx| enqueue(tx, &ops, at)).await
    }

    /// Releases a leased operation that was not tried. It is due as before.
    pub async fn release_operation(&self, due: &DueOperation) -> Result<(), StoreError> {
        let id = due.op.id.clone();
        if !due.op.action.may_show_twice() {
            self.end_lease(&id);
            return Ok(());
        }
        let result = self
            .write(move |tx| {
                tx.prepare_cached(
                    "UPDATE outbox SET
                       tried_at = CASE state WHEN 'sending' THEN NULL ELSE tried_at END,
                       state = CASE state WHEN 'looking' THEN 'doubtful' WHEN 'repeating' THEN 'again' ELSE 'waiting' END
                     WHERE op = ?1 AND state IN ('sending', 'looking', 'repeating')",
                )?
                .execute([id])?;
                Ok(())
            })
            .await;
        self.end_lease_if(&result, &due.op.id);
        result
    }

    /// Resets ready operations that are not leased to waiting, after the channel's delivery ended in order.
    pub async fn reset_ready(&self, channel: &str) -> Result<(), StoreError> {
        let channel = channel.to_owned();
        self.write(move |tx| {
            tx.prepare_cached("UPDATE outbox SET state = 'waiting' WHERE channel = ?1 AND state = 'ready'")?
                .execute([channel])?;
            Ok(())
        })
        .await
    }

    /// Postpones an operation without a final outcome. Its thread waits until it is due again. A file has left its
    /// thread, so nothing waits for it.
    pub async fn postpone(&self, op: &str, postponed: Postponement) -> Result<(), StoreError> {
        let id = op.to_owned();
        let Postponement {
            retry_mode: again,
            due_at,
            why,
            attempt,
        } = postponed;
        let state = match again {
            RetryMode::Send => WAITING,
            RetryMode::LookUp => AMBIGUOUS,
            RetryMode::Forced => FORCED,
        };
        let result = self
            .write(move |tx| {
                tx.prepare_cached(
                    "UPDATE outbox SET state = ?2, due_at = ?3, why = ?4, attempts = attempts + ?5,
                       tried_at = CASE ?2 WHEN 'waiting' THEN NULL ELSE tried_at END
                     WHERE op = ?1 AND done_at IS NULL",
                )?
                .execute(params![
                    id,
                    state,
                    millis(due_at),
                    why,
                    attempt == AttemptWeight::Counted
                ])?;
                Ok(())
            })
            .await;
        self.end_lease_if(&result, op);
        result
    }

    /// Returns the next time at which [`Store::lease_due`] has an operation for this channel, as currently known.
    pub async fn next_due(&self, channel: &str) -> Result<Option<Timestamp>, StoreError> {
        self.next_due_unless(channel, |_, _| false).await
    }

    /// Returns the time like [`Store::next_due`], but only of operations that are not due at `after`.
    pub async fn next_due_after(
        &self,
        channel: &str,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, StoreError> {
        self.next_due_unless(channel, move |due_at, enqueued| is_due(due_at, enqueued, after))
            .await
    }

    async fn next_due_unless(
        &self,
        channel: &str,
        is_left_out: impl Fn(i64, i64) -> bool + Send + 'static,
    ) -> Result<Option<Timestamp>, StoreError> {
        let channel = channel.to_owned();
        let busy = self.in_flight().clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(HEADS)?;
            let mut rows = statement.query(params![channel, i64::MAX, false])?;
            let mut next: Option<i64> = None;
            while let Some(row) = rows.next()? {
                let due_at: i64 = row.get(3)?;
                if is_left_out(due_at, row.get(5)?) || busy.contains(&row.get::<_, String>(1)?) {
                    continue;
                }
                next = Some(next.map_or(due_at, |next| next.min(due_at)));
            }
            next.map(time).transpose()
        })
        .await
    }

    /// Returns the number of a channel's operations without a final outcome.
    pub async fn unsent_count(&self, channel: &str) -> Result<u64, StoreError> {
        let channel = channel.to_owned();
        self.read(move |tx| {
            let unsent = tx
                .prepare_cached("SELECT COUNT(*) FROM outbox WHERE channel = ?1 AND done_at IS NULL")?
                .query_row([channel], |row| row.get(0))?;
            Ok(super::column::count(unsent))
        })
        .await
    }

    /// Returns the number of a channel's dead letters: refused, tried too often, or of unknown outcome.
    pub async fn given_up_count(&self, channel: &str) -> Result<u64, StoreError> {
        let channel = channel.to_owned();
        self.read(move |tx| {
            let given_up = tx
                .prepare_cached(
                    "SELECT COUNT(*) FROM outbox WHERE channel = ?1 AND state IN ('failed', 'ambiguous')",
                )?
                .query_row([channel], |row| row.get(0))?;
            Ok(super::column::count(given_up))
        })
        .await
    }
}

/// Enqueues operations within another write. A known id is ignored, and so is the fill of an unknown post, and the end
/// of a card whose message is not known.
pub(crate) fn enqueue(tx: &Transaction<'_>, ops: &[Op], at: Timestamp) -> Result<(), StoreError> {
    ops.iter().try_for_each(|op| insert(tx, op, WAITING, at))
}

/// Enqueues operations like [`enqueue`], in a synced write whose caller delivers them. A placeholder may then be sent
/// without another commit, however long its thread is busy. If the process ends first, the placeholder becomes
/// ambiguous.
pub(super) fn enqueue_ready(tx: &Transaction<'_>, ops: &[Op], at: Timestamp) -> Result<(), StoreError> {
    ops.iter().try_for_each(|op| {
        let is_ready = op.action.is_placeholder();
        insert(tx, op, if is_ready { READY } else { WAITING }, at)
    })
}

/// True if an operation with this id was enqueued, whatever its outcome.
pub(super) fn is_known(tx: &Transaction<'_>, op: &str) -> Result<bool, StoreError> {
    let known = tx
        .prepare_cached("SELECT 1 FROM outbox WHERE op = ?1")?
        .exists([op])?;
    Ok(known)
}

/// Withdraws the operations whose names begin so, except those that are delivered, are being sent or were given up.
pub(super) fn withdraw(tx: &Transaction<'_>, name: &str, why: &str, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        "UPDATE outbox SET state = 'dropped', why = ?2, done_at = ?3
         WHERE done_at IS NULL AND state NOT IN ('sending', 'looking', 'repeating') AND instr(op, '/' || ?1) > 0",
    )?
    .execute(params![name, why, millis(at)])?;
    Ok(())
}

/// Removes the operations whose ids begin so and that nobody needs any more, except those that are being sent. They are no
/// dead letters.
pub(super) fn forget_unsent(tx: &Transaction<'_>, prefix: &str) -> Result<(), StoreError> {
    tx.prepare_cached(
        "DELETE FROM outbox WHERE op >= ?1 AND op < ?2 AND done_at IS NULL
           AND state NOT IN ('sending', 'looking', 'repeating')",
    )?
    .execute(params![prefix, format!("{prefix}\u{10FFFF}")])?;
    Ok(())
}

/// Removes an operation that was delivered, dropped or given up, so that its id can be used again.
pub(super) fn forget_ended(tx: &Transaction<'_>, op: &str) -> Result<(), StoreError> {
    tx.prepare_cached("DELETE FROM outbox WHERE op = ?1 AND done_at IS NOT NULL")?
        .execute([op])?;
    Ok(())
}

fn insert(tx: &Transaction<'_>, op: &Op, state: &str, at: Timestamp) -> Result<(), StoreError> {
    if let Action::Fill { post, .. } = &op.action
        && (!is_known(tx, post)? || card::is_end(&op.id) && has_no_message(tx, post)?)
    {
        return Ok(());
    }
    if let Some(url) = &op.response_url {
        let owned = (url, response_url::recipient(op));
        response_url::store_url(tx, response_url::answered(&op.id), owned, at)?;
    }
    tx.prepare_cached(
        "INSERT INTO outbox (op, channel, lane, body, state, due_at, attempts, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?6) ON CONFLICT (op) DO NOTHING",
    )?
    .execute(params![
        op.id,
        op.channel,
        thread_key(op)?,
        json(op)?,
        state,
        millis(at)
    ])?;
    Ok(())
}

/// True if a post has ended, and its message is not known.
fn has_no_message(tx: &Transaction<'_>, post: &str) -> Result<bool, StoreError> {
    let lost = "SELECT 1 FROM outbox WHERE op = ?1 AND done_at IS NOT NULL AND message IS NULL";
    Ok(tx.prepare_cached(lost)?.exists([post])?)
}

/// Returns the chat and thread of an operation, whose operations are delivered in order.
fn thread_key(op: &Op) -> Result<String, StoreError> {
    json(&(&op.place.chat, &op.place.thread))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
