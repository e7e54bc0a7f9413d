//! The outbox: operations that go out, in order per chat and thread. An operation is enqueued once under its id,
//! handed out until its outcome is reported, and never handed out twice at a time.

mod dead_letters;
pub(super) mod response_url;
mod lease;
mod unreadable;

use super::column::{json, millis, parse, time};
use super::writer::Durability;
use super::{Store, StoreError};
use crate::crash_point;
use crate::model::{Action, MessageRef, Op};
pub use dead_letters::{DeadLetter, DeadLetterFilter};
use jiff::Timestamp;
pub use lease::POSTPONED_MAX;
use lease::{HEADS, LeasedOperations, heads_due, is_due, lease_due, lease_next};
pub(super) use lease::{InFlightLock, lease_enqueued};
use rusqlite::{OptionalExtension, Transaction, params};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::warn;

/// State of an operation that is not handed out yet. One that must not show twice is marked before it is.
const WAITING: &str = "waiting";
/// State of an operation that is not handed out yet, and marked already: it may be sent.
const READY: &str = "ready";
/// State of an operation that is not handed out now, and perhaps sent before: it is looked for first.
const AMBIGUOUS: &str = "doubtful";
/// State of a doubtful operation that an operator asked for: it is sent where nobody can tell whether it was.
const FORCED: &str = "again";
/// State of an operation that was handed out after it was waiting or ready.
const SENDING: &str = "sending";
/// State of an operation that was handed out after it was doubtful.
const LOOKING_UP: &str = "looking";
/// State of an operation that was handed out after an operator asked for it.
const REPEATING: &str = "repeating";

/// Operations of one chat and thread that are handed out at once.
const LEASED_MAX: u32 = 8;

/// An operation to deliver now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueOperation {
    /// The operation to carry out. Never an [`Action::Fill`].
    pub op: Op,
    /// Number of earlier attempts.
    pub attempts: u32,
    /// The time it was enqueued.
    pub enqueued: Timestamp,
    /// The time since which the operation may have been sent, where it must not show twice.
    pub ambiguous_since: Option<Timestamp>,
    /// True if an operator asked for it: it is sent where nobody can tell whether it was.
    pub is_forced: bool,
}

/// Chooses among what is due, as a platform's limits allow.
pub trait Admission: Clone + Send + 'static {
    /// True if a new message may be sent to this chat.
    fn admits_chat(&mut self, chat: &str) -> bool;

    /// True if this may be sent, or looked for if it is doubtful; it is counted then.
    fn admits(&mut self, op: &Op, is_doubtful: bool) -> bool;
}

/// Admits everything.
#[derive(Clone, Copy, Debug)]
struct Unlimited;

impl Admission for Unlimited {
    fn admits_chat(&mut self, _chat: &str) -> bool {
        true
    }

    fn admits(&mut self, _op: &Op, _is_doubtful: bool) -> bool {
        true
    }
}

/// The way in which an operation is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryMode {
    /// The operation was not delivered: it is sent.
    Send,
    /// The operation may have been delivered: it is looked for.
    LookUp,
    /// The operation may have been delivered, and an operator asked for it.
    Forced,
}

/// The weight of a try towards the limit after which an operation is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptWeight {
    /// The try counts.
    Counted,
    /// The try says nothing about the operation, and does not count.
    NotCounted,
}

/// An operation that is not settled, and what comes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postponement {
    /// The way in which it is tried again.
    pub retry_mode: RetryMode,
    /// The time it is due.
    pub due_at: Timestamp,
    /// The reason why it was not delivered.
    pub why: String,
    /// The weight of the last try.
    pub attempt: AttemptWeight,
}

impl Store {
    /// Enqueues operations. One whose id was enqueued before is ignored, and so is the fill of a post that was
    /// not.
    pub async fn enqueue(&self, ops: Vec<Op>, at: Timestamp) -> Result<(), StoreError> {
        self.write(move |tx| enqueue(tx, &ops, at)).await
    }

    /// Takes what is due: at most one operation per chat and thread, the oldest, and only if nothing
    /// of that chat and thread is being sent. Each must be reported on with [`Store::delivered`],
    /// [`Store::postpone`], [`Store::record_failed`], [`Store::record_ambiguous`], [`Store::record_replaced`] or [`Store::release_operation`],
    /// again if that fails; until it is stored it is not handed out again. If the process ends before, all of it
    /// is, and what may show twice (posts, notices, files) as doubtful.
    /// Wait for the answer: operations handed out to a caller that is gone stay taken.
    pub async fn lease_due(
        &self,
        channel: &str,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<DueOperation>, StoreError> {
        let (due, _) = self.lease_due_admitted(channel, at, limit, Unlimited).await?;
        Ok(due)
    }

    /// Like [`Store::lease_due`], of what is admitted; answers with the admission as it is then.
    pub async fn lease_due_admitted<A: Admission>(
        &self,
        channel: &str,
        at: Timestamp,
        limit: usize,
        admission: A,
    ) -> Result<(Vec<DueOperation>, A), StoreError> {
        if let Some(taken) = self.lease_unmarked(channel, at, limit, admission.clone()).await? {
            return Ok(taken);
        }
        let channel = channel.to_owned();
        self.write_leasing(move |tx, busy| {
            let mut admission = admission;
            let due = lease_due(tx, &channel, at, limit, busy, &mut admission)?;
            Ok((due, admission))
        })
        .await
    }

    /// Runs a write that takes operations, which are in flight from then on; if nothing comes of it,
    /// they are not.
    pub(super) async fn write_leasing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &mut InFlightLock<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (value, _marked) = self.lease_in_write(Durability::Synced, work).await?;
        Ok(value)
    }

    async fn lease_in_write<T: Send + 'static>(
        &self,
        promise: Durability,
        work: impl FnOnce(&Transaction<'_>, &mut InFlightLock<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<(T, bool), StoreError> {
        let in_flight = Arc::clone(&self.inner.in_flight);
        let taken = Arc::new(Mutex::new(LeasedOperations::default()));
        let taking = Arc::clone(&taken);
        let work = move |tx: &Transaction<'_>| {
            // Marked while the write runs, so that the next one sees it even in the same commit.
            let mut busy = InFlightLock {
                in_flight: in_flight.lock().unwrap_or_else(PoisonError::into_inner),
                leased: taking.lock().unwrap_or_else(PoisonError::into_inner),
            };
            work(tx, &mut busy)
        };
        let result = self.inner.writer.write(promise, work, |_| ()).await;
        let taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        if result.is_err() {
            taken.ops.iter().for_each(|op| self.end_lease(op));
        }
        Ok((result?, taken.is_marked))
    }

    /// Takes what is due if none of it has to be marked as being sent: then nothing is written, and
    /// nobody waits for a disk.
    async fn lease_unmarked<A: Admission>(
        &self,
        channel: &str,
        at: Timestamp,
        limit: usize,
        admission: A,
    ) -> Result<Option<(Vec<DueOperation>, A)>, StoreError> {
        let channel = channel.to_owned();
        let in_flight = Arc::clone(&self.inner.in_flight);
        self.read(move |tx| {
            let mut admission = admission;
            // Locked before the snapshot is taken: whatever is not in flight any more is settled in it.
            let mut busy = in_flight.lock().unwrap_or_else(PoisonError::into_inner);
            let heads = match heads_due(tx, &channel, at, limit, |op| busy.contains(op), &mut admission) {
                // To be set aside, which is a write.
                Err(StoreError::Unreadable { .. }) => return Ok(None),
                heads => heads?,
            };
            if heads.iter().any(|head| head.due.op.action.may_show_twice()) {
                return Ok(None);
            }
            busy.extend(heads.iter().map(|head| head.due.op.id.clone()));
            let due = heads.into_iter().map(|head| head.due).collect();
            Ok(Some((due, admission)))
        })
        .await
    }

    /// Records that an operation was delivered, and became `message` if it is a post. When the power fails within a
    /// moment, a post is doubtful.
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

    /// Like [`Store::delivered`] for operations of one chat and thread, and takes what is due next there, as
    /// [`Store::lease_due`] would, in the same commit: one operation, or some that may be repeated, to be delivered
    /// one after another. What must not show twice comes alone, and when it is durable that it is being
    /// sent.
    pub async fn record_delivered_and_lease(
        &self,
        sent: Vec<(Op, Option<MessageRef>)>,
        at: Timestamp,
    ) -> Result<Vec<DueOperation>, StoreError> {
        let Some((op, _)) = sent.last() else {
            return Ok(Vec::new());
        };
        let (channel, lane) = (op.channel.clone(), thread_key(op)?);
        let ids: Vec<String> = sent.iter().map(|(op, _)| op.id.clone()).collect();
        let work = move |tx: &Transaction<'_>, busy: &mut InFlightLock<'_>| {
            for (op, message) in sent {
                mark_delivered(tx, &op.id, message, at)?;
            }
            lease_next(tx, (&channel, &lane), LEASED_MAX, at, busy)
        };
        crash_point::before("B10");
        let next = self.lease_in_write(Durability::Deferred, work).await;
        crash_point::after("B10");
        let (due, is_marked) = next?;
        ids.iter().for_each(|id| self.end_lease(id));
        if is_marked && let Err(error) = self.wait_durable().await {
            // They stay as they are marked: nobody knows whether that is on disk.
            due.iter().for_each(|due| self.end_lease(&due.op.id));
            warn!(%error, "what is due next is not sent before it is durable that it may be");
            return Ok(Vec::new());
        }
        Ok(due)
    }

    /// Returns an operation that was taken and not tried: it is due as it was.
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

    /// Removes operations from those in flight whose holder has ended without a report: they are due again, and what
    /// may show twice is looked for first.
    pub fn abandon_leases(&self, ops: &[String]) {
        ops.iter().for_each(|op| self.end_lease(op));
    }

    /// Sets operations that were ready and not handed out back to waiting: whoever delivered in this channel has
    /// ended in order.
    pub async fn reset_ready(&self, channel: &str) -> Result<(), StoreError> {
        let channel = channel.to_owned();
        self.write(move |tx| {
            tx.prepare_cached("UPDATE outbox SET state = 'waiting' WHERE channel = ?1 AND state = 'ready'")?
                .execute([channel])?;
            Ok(())
        })
        .await
    }

    /// Postpones an operation that is not settled; its lane waits until it is due again. A file has left its thread,
    /// so nothing waits for it.
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

    /// Gives up an operation that was not delivered and never will be. Its lane goes on; the notice that people get
    /// instead is enqueued.
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

    /// Gives up an operation that may or may not have been delivered, must not show twice, and of which nobody can
    /// tell: it is not sent again. Its lane goes on; the notice that people get about it is enqueued.
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

    /// Settles a line that is filled later and may show already: its fill is posted instead.
    pub async fn record_replaced(&self, op: &str, why: &str, at: Timestamp) -> Result<(), StoreError> {
        self.finish_operation(op, "replaced", why, Vec::new(), at).await
    }

    /// The message that a post became.
    pub async fn message_of(&self, op: &str) -> Result<Option<MessageRef>, StoreError> {
        let op = op.to_owned();
        self.read(move |tx| message_of(tx, &op)).await
    }

    /// Returns the time at which [`Store::lease_due`] has something for this channel next, as far as is known now.
    pub async fn next_due(&self, channel: &str) -> Result<Option<Timestamp>, StoreError> {
        self.next_due_unless(channel, |_, _| false).await
    }

    /// Returns the time as [`Store::next_due`] does, of what is not due yet at `after`.
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

    /// Operations of a channel that are not settled yet.
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

    /// Operations of a channel that were given up: refused by the platform, tried too often, or of unknown outcome.
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
            .write(move |tx| {
                let settled = tx
                    .prepare_cached(
                        "UPDATE outbox SET state = ?2, why = ?3, done_at = ?4, attempts = attempts + 1
                         WHERE op = ?1 AND done_at IS NULL",
                    )?
                    .execute(params![id, state, why, millis(at)])?;
                if settled > 0 {
                    enqueue(tx, &instead, at)?;
                }
                response_url::drop_if_answered(tx, &id)
            })
            .await;
        self.end_lease_if(&result, op);
        result
    }

    fn in_flight(&self) -> MutexGuard<'_, HashSet<String>> {
        self.inner
            .in_flight
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes an operation from those in flight, once its outcome is on record.
    fn end_lease_if(&self, stored: &Result<(), StoreError>, op: &str) {
        if stored.is_ok() {
            self.end_lease(op);
        }
    }

    fn end_lease(&self, op: &str) {
        self.in_flight().remove(op);
    }
}

/// Enqueues operations in another write; an id that is known is ignored, and so is the fill of a post that
/// is not.
pub(crate) fn enqueue(tx: &Transaction<'_>, ops: &[Op], at: Timestamp) -> Result<(), StoreError> {
    ops.iter().try_for_each(|op| insert(tx, op, WAITING, at))
}

/// Like [`enqueue`], in a write that waits for the disk and whose caller delivers: a placeholder may be sent
/// without another commit, however long its lane is busy. If the process ends before, it is doubtful.
pub(super) fn enqueue_ready(tx: &Transaction<'_>, ops: &[Op], at: Timestamp) -> Result<(), StoreError> {
    ops.iter().try_for_each(|op| {
        let is_ready = op.action.is_placeholder();
        insert(tx, op, if is_ready { READY } else { WAITING }, at)
    })
}

/// True if an operation of this id was enqueued, whatever became of it.
pub(super) fn is_known(tx: &Transaction<'_>, op: &str) -> Result<bool, StoreError> {
    let known = tx
        .prepare_cached("SELECT 1 FROM outbox WHERE op = ?1")?
        .exists([op])?;
    Ok(known)
}

fn insert(tx: &Transaction<'_>, op: &Op, state: &str, at: Timestamp) -> Result<(), StoreError> {
    if let Action::Fill { post, .. } = &op.action
        && !is_known(tx, post)?
    {
        return Ok(());
    }
    if let Some(url) = &op.response_url {
        response_url::store_url(tx, response_url::answered(&op.id), url, at)?;
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

/// The chat and thread whose operations go out one after another.
fn thread_key(op: &Op) -> Result<String, StoreError> {
    json(&(&op.place.chat, &op.place.thread))
}

fn mark_delivered(
    tx: &Transaction<'_>,
    id: &str,
    message: Option<MessageRef>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Some(message) = message else {
        tx.prepare_cached(
            "UPDATE outbox SET state = 'delivered', done_at = ?2 WHERE op = ?1 AND done_at IS NULL",
        )?
        .execute(params![id, millis(at)])?;
        return response_url::drop_if_answered(tx, id);
    };
    let message = json(&message)?;
    let body: Option<String> = tx
        .prepare_cached(
            "UPDATE outbox SET state = 'delivered', done_at = ?2, message = ?3
             WHERE op = ?1 AND done_at IS NULL RETURNING body",
        )?
        .query_row(params![id, millis(at), message], |row| row.get(0))
        .optional()?;
    response_url::drop_if_answered(tx, id)?;
    match body.map(|body| parse::<Op>("operation", &body)).transpose()? {
        Some(Op {
            action: Action::Fill { post, .. },
            ..
        }) => replace(tx, &post, &message, at),
        Some(_) | None => Ok(()),
    }
}

fn message_of(tx: &Transaction<'_>, op: &str) -> Result<Option<MessageRef>, StoreError> {
    let message: Option<String> = tx
        .prepare_cached("SELECT message FROM outbox WHERE op = ?1")?
        .query_row([op], |row| row.get(0))
        .optional()?
        .flatten();
    message.map(|text| parse("message", &text)).transpose()
}

// A fill whose post failed was posted itself: later fills of the same post edit that message.
fn replace(tx: &Transaction<'_>, post: &str, message: &str, at: Timestamp) -> Result<(), StoreError> {
    // Nothing is missing any more, so there is nothing to send again, also if an operator has just asked for that.
    tx.prepare_cached(
        "UPDATE outbox SET message = ?2,
           done_at = CASE WHEN state IN ('waiting', 'again') THEN ?3 ELSE done_at END,
           state = CASE WHEN state IN ('failed', 'ambiguous', 'waiting', 'again') THEN 'replaced' ELSE state END
         WHERE op = ?1 AND message IS NULL",
    )?
    .execute(params![post, message, millis(at)])?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
