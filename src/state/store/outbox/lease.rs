//! Selection and leasing of due operations. A leased operation is not leased again, and one that must not show twice is
//! marked before it is sent.

use super::delivered::message_of;
use super::response_url;
use super::unreadable::without_unreadable;
use super::{
    AMBIGUOUS, Admission, DueOperation, FORCED, LOOKING_UP, READY, REPEATING, SENDING, WAITING, thread_key,
};
use crate::base::model::{Action, Op};
use crate::state::store::StoreError;
use crate::state::store::column::{millis, parse, text, time};
use crate::state::store::shown_result;
use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};
use std::collections::{BTreeSet, HashSet};
use std::sync::MutexGuard;
use std::time::Duration;

/// Longest postponement of an operation. A later due time comes from a clock that ran ahead, so the operation is due
/// now.
pub const POSTPONED_MAX: Duration = Duration::from_secs(10 * 60);

/// The heads of all threads of a channel: the oldest open operation of each. Those that have been due longest come
/// first. While operations are tried one at a time (`?3`), untried ones come first, so that failing ones do not block
/// them. Operations that a clock ahead of time enqueued are due now. The body is read separately, because it may be a
/// large file that should not be sorted.
pub(super) const HEADS: &str =
    "SELECT id, op, state, due_at, attempts, created_at, tried_at, lane FROM outbox
     WHERE id IN (SELECT MIN(id) FROM outbox WHERE channel = ?1 AND done_at IS NULL GROUP BY lane)
     ORDER BY ?3 AND why IS NOT NULL, MIN(due_at, ?2), id";

/// The operations in flight, locked while a write leases more.
pub(in crate::state::store) struct InFlightLock<'a> {
    pub(super) in_flight: MutexGuard<'a, HashSet<String>>,
    pub(super) leased: MutexGuard<'a, LeasedOperations>,
}

#[derive(Default)]
pub(super) struct LeasedOperations {
    pub(super) ops: Vec<String>,
    /// True if the marks of some of them must be durable before they are sent.
    pub(super) is_marked: bool,
}

/// An open operation that is due.
pub(super) struct ThreadHead {
    id: i64,
    pub(super) due: DueOperation,
    /// The state of the operation while it is leased.
    leased_state: &'static str,
    /// True if it may show twice and its mark is not durable yet.
    is_unmarked: bool,
}

impl ThreadHead {
    /// Returns true for a fill that only takes buttons off a message, if there is no message. It is not sent.
    pub(super) fn is_needless(&self) -> bool {
        matches!(self.due.op.action, Action::Fill { .. })
    }
}

/// Leases those of the enqueued operations that are due at once, because their chat and thread has no others.
pub(in crate::state::store) fn lease_enqueued(
    tx: &Transaction<'_>,
    ops: &[Op],
    at: Timestamp,
    busy: &mut InFlightLock<'_>,
) -> Result<Vec<DueOperation>, StoreError> {
    let mut threads = BTreeSet::new();
    let mut taken = Vec::new();
    for op in ops {
        let thread = thread_key(op)?;
        if threads.insert((&op.channel, thread.clone())) {
            taken.extend(lease_next(tx, (&op.channel, &thread), 1, at, busy)?);
        }
    }
    Ok(taken)
}

pub(super) fn lease_due(
    tx: &Transaction<'_>,
    channel: &str,
    at: Timestamp,
    limit: usize,
    busy: &mut InFlightLock<'_>,
    admission: &mut impl Admission,
) -> Result<Vec<DueOperation>, StoreError> {
    let before = admission.clone();
    let look = || {
        *admission = before.clone();
        heads_due(
            tx,
            channel,
            at,
            limit,
            |op| busy.in_flight.contains(op),
            admission,
        )
    };
    let heads = to_send(tx, channel, at, look)?;
    mark_leased(tx, heads, at, busy)
}

pub(super) fn lease_next(
    tx: &Transaction<'_>,
    thread: (&str, &str),
    limit: u32,
    at: Timestamp,
    busy: &mut InFlightLock<'_>,
) -> Result<Vec<DueOperation>, StoreError> {
    let next = to_send(tx, thread.0, at, || next(tx, thread, limit, at, busy))?;
    mark_leased(tx, next, at, busy)
}

/// Runs a query for operations until it finds only those to send. Others are withdrawn, so that their threads continue.
fn to_send(
    tx: &Transaction<'_>,
    channel: &str,
    at: Timestamp,
    mut look: impl FnMut() -> Result<Vec<ThreadHead>, StoreError>,
) -> Result<Vec<ThreadHead>, StoreError> {
    loop {
        let heads = without_unreadable(tx, channel, at, &mut look)?;
        let needless = heads.iter().filter(|head| head.is_needless());
        let needless: Vec<i64> = needless.map(|head| head.id).collect();
        if needless.is_empty() {
            return Ok(heads);
        }
        for id in needless {
            tx.prepare_cached(
                "UPDATE outbox SET state = 'dropped', why = 'its message was not posted', done_at = ?2
                 WHERE id = ?1",
            )?
            .execute(params![id, millis(at)])?;
        }
    }
}

/// Returns what is due next in a chat and thread: one operation that must not show twice, or several that may be
/// repeated.
fn next(
    tx: &Transaction<'_>,
    (channel, thread): (&str, &str),
    limit: u32,
    at: Timestamp,
    busy: &InFlightLock<'_>,
) -> Result<Vec<ThreadHead>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id, op, state, due_at, attempts, created_at, tried_at FROM outbox
         WHERE channel = ?1 AND lane = ?2 AND done_at IS NULL ORDER BY id LIMIT ?3",
    )?;
    let mut rows = statement.query(params![channel, thread, limit])?;
    let mut next: Vec<ThreadHead> = Vec::new();
    while let Some(row) = rows.next()?
        && let Some(head) = due_head(tx, row, at, |op| busy.in_flight.contains(op))?
    {
        let alone = head.due.op.action.may_show_twice();
        if next.is_empty() || !alone {
            next.push(head);
        }
        if alone {
            break;
        }
    }
    Ok(next)
}

/// Returns the thread heads that are due, admitted and not in flight.
pub(super) fn heads_due(
    tx: &Transaction<'_>,
    channel: &str,
    at: Timestamp,
    limit: usize,
    is_busy: impl Fn(&str) -> bool,
    admission: &mut impl Admission,
) -> Result<Vec<ThreadHead>, StoreError> {
    let mut statement = tx.prepare_cached(HEADS)?;
    let mut rows = statement.query(params![channel, millis(at), limit == 1])?;
    let mut heads = Vec::new();
    while heads.len() < limit
        && let Some(row) = rows.next()?
    {
        // The cheapest checks come first, because a thousand threads may wait for one chat.
        let may_go = is_due(row.get(3)?, row.get(5)?, at) && !is_busy(&row.get::<_, String>(1)?);
        if !may_go || (!admission.admits_chat(&chat(&row.get::<_, String>(7)?)) && is_new_message(tx, row)) {
            continue;
        }
        if let Some(head) = due_head(tx, row, at, &is_busy)?
            && (head.is_needless() || admission.admits(&head.due))
        {
            heads.push(head);
        }
    }
    Ok(heads)
}

/// True if the next call for an operation posts a message in its chat. Only such operations wait for the chat's limit.
/// An unreadable operation does not.
fn is_new_message(tx: &Transaction<'_>, row: &Row<'_>) -> bool {
    let look = || -> rusqlite::Result<bool> {
        let (id, state): (i64, String) = (row.get(0)?, row.get(2)?);
        let mut kind =
            tx.prepare_cached("SELECT json_extract(body, '$.action.action') FROM outbox WHERE id = ?1")?;
        let kind: String = kind.query_row([id], |row| row.get(0))?;
        Ok([WAITING, READY].contains(&state.as_str())
            && ["post", "show_diff", "stream", "upload"].contains(&kind.as_str()))
    };
    look().unwrap_or(false)
}

/// Returns the chat of a thread key.
fn chat(thread: &str) -> String {
    let parts: Vec<Option<String>> = serde_json::from_str(thread).unwrap_or_default();
    parts.into_iter().next().flatten().unwrap_or_default()
}

fn due_head(
    tx: &Transaction<'_>,
    row: &Row<'_>,
    at: Timestamp,
    is_busy: impl Fn(&str) -> bool,
) -> Result<Option<ThreadHead>, StoreError> {
    let (id, op): (i64, String) = (row.get(0)?, row.get(1)?);
    let (state, due_at, enqueued): (String, i64, i64) = (row.get(2)?, row.get(3)?, row.get(5)?);
    if !is_due(due_at, enqueued, at) || is_busy(&op) {
        return Ok(None);
    }
    let body = tx
        .prepare_cached("SELECT body FROM outbox WHERE id = ?1")?
        .query_row([id], |row| Ok(text("operation", row, 0)))??;
    let Some(op) = resolve(tx, parse("operation", &body)?, is_busy)? else {
        return Ok(None);
    };
    let op = response_url::addressed(tx, op, at)?;
    let may_show_twice = op.action.may_show_twice();
    let (taken, is_unsent) = leased_state(&state)?;
    let tried = row.get::<_, Option<i64>>(6)?.unwrap_or(enqueued);
    let is_ambiguous = !is_unsent && may_show_twice;
    Ok(Some(ThreadHead {
        id,
        leased_state: taken,
        is_unmarked: state == WAITING && may_show_twice,
        due: DueOperation {
            op,
            attempts: row.get(4)?,
            enqueued: time(enqueued)?,
            ambiguous_since: is_ambiguous.then(|| time(tried)).transpose()?,
            is_forced: state == FORCED,
        },
    }))
}

/// Returns the state of an open operation while it is leased, and whether it was certainly not sent before.
pub(super) fn leased_state(state: &str) -> Result<(&'static str, bool), StoreError> {
    match state {
        WAITING | READY => Ok((SENDING, true)),
        FORCED => Ok((REPEATING, false)),
        // The operation was leased, but its delivery has ended without an outcome.
        AMBIGUOUS | SENDING | LOOKING_UP | REPEATING => Ok((LOOKING_UP, false)),
        _ => Err(StoreError::Unreadable {
            what: "operation",
            why: format!("its state is `{state}`"),
        }),
    }
}

/// True if an operation is due: its time has come, or it was never postponed, or its time is further away than the
/// longest postponement.
pub(super) fn is_due(due_at: i64, enqueued: i64, at: Timestamp) -> bool {
    let latest = at.checked_add(POSTPONED_MAX).unwrap_or(at);
    due_at <= millis(at) || due_at == enqueued || due_at > millis(latest)
}

/// Marks operations as being sent, in the database if the mark must survive. A file then leaves its thread, so that
/// later operations do not wait for its upload.
fn mark_leased(
    tx: &Transaction<'_>,
    heads: Vec<ThreadHead>,
    at: Timestamp,
    busy: &mut InFlightLock<'_>,
) -> Result<Vec<DueOperation>, StoreError> {
    let mut due = Vec::with_capacity(heads.len());
    for head in heads {
        let op = &head.due.op.id;
        busy.in_flight.insert(op.clone());
        busy.leased.ops.push(op.clone());
        busy.leased.is_marked |= head.is_unmarked;
        if head.due.op.action.may_show_twice() {
            let is_file = matches!(head.due.op.action, Action::Upload { .. });
            tx.prepare_cached(
                "UPDATE outbox SET state = ?2, tried_at = COALESCE(tried_at, ?3),
                   lane = CASE WHEN ?4 AND json_array_length(lane) = 2 THEN json_insert(lane, '$[#]', op) ELSE lane END
                 WHERE id = ?1",
            )?
            .execute(params![head.id, head.leased_state, millis(at), is_file])?;
        }
        due.push(head.due);
    }
    Ok(due)
}

/// Resolves a fill: into the edit of its post's message, or into a new post if there never was one. Returns `None`
/// while the post is still in flight, also if it was withdrawn since it was leased. A fill that only takes buttons off a
/// message stays as it is if there is no message.
fn resolve(tx: &Transaction<'_>, op: Op, is_busy: impl Fn(&str) -> bool) -> Result<Option<Op>, StoreError> {
    let Action::Fill { post, reply } = op.action else {
        return Ok(Some(op));
    };
    let open = tx
        .prepare_cached(
            "SELECT 1 FROM outbox WHERE op = ?1 AND (done_at IS NULL OR (state = 'dropped' AND ?2))",
        )?
        .exists(params![post, is_busy(&post)])?;
    let action = match message_of(tx, &post)? {
        Some(message) => Action::Edit { message, reply },
        None if open => return Ok(None),
        None if shown_result::takes_buttons_off(&op.id) => Action::Fill { post, reply },
        None => Action::Post {
            reply,
            reply_to: None,
            placeholder: false,
        },
    };
    Ok(Some(Op { action, ..op }))
}
