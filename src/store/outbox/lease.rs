//! Selection of the operations that are due, and their taking: one that is taken is handed to nobody else, and one
//! that must not show twice is marked before it is sent.

use super::response_url;
use super::unreadable::without_unreadable;
use super::{
    AMBIGUOUS, Admission, DueOperation, FORCED, LOOKING_UP, READY, REPEATING, SENDING, WAITING, message_of,
    thread_key,
};
use crate::model::{Action, Op};
use crate::store::StoreError;
use crate::store::column::{millis, parse, text, time};
use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};
use std::collections::{BTreeSet, HashSet};
use std::sync::MutexGuard;
use std::time::Duration;

/// Longest wait of an operation. What is due later than that was written by a clock that was ahead, and is due now.
pub const POSTPONED_MAX: Duration = Duration::from_secs(10 * 60);

/// The heads of all lanes of a channel: the oldest open operation of each. First whoever has waited longest since it
/// was due; but while one is tried at a time (`?3`), first what was never tried: those that fail by themselves keep
/// nobody else waiting. What a clock that was ahead enqueued is due now. The body is read apart: it may be a large file,
/// and is not sorted with the rest.
pub(super) const HEADS: &str =
    "SELECT id, op, state, due_at, attempts, created_at, tried_at, lane FROM outbox
     WHERE id IN (SELECT MIN(id) FROM outbox WHERE channel = ?1 AND done_at IS NULL GROUP BY lane)
     ORDER BY ?3 AND why IS NOT NULL, MIN(due_at, ?2), id";

/// The operations that are being sent, locked while a write takes more of them.
pub(in crate::store) struct InFlightLock<'a> {
    pub(super) in_flight: MutexGuard<'a, HashSet<String>>,
    pub(super) leased: MutexGuard<'a, LeasedOperations>,
}

/// The operations that a write took.
#[derive(Default)]
pub(super) struct LeasedOperations {
    pub(super) ops: Vec<String>,
    /// True if it has to be durable that some of them are being sent, before they are.
    pub(super) is_marked: bool,
}

/// An open operation that is due.
pub(super) struct ThreadHead {
    id: i64,
    pub(super) due: DueOperation,
    /// The state of the operation while it is handed out.
    leased_state: &'static str,
    /// True if it may show twice, and it is not durable yet that it may have been sent.
    is_unmarked: bool,
}

/// Takes those of these enqueued operations that are due at once: what is alone in its chat and thread.
pub(in crate::store) fn lease_enqueued(
    tx: &Transaction<'_>,
    ops: &[Op],
    at: Timestamp,
    busy: &mut InFlightLock<'_>,
) -> Result<Vec<DueOperation>, StoreError> {
    let mut lanes = BTreeSet::new();
    let mut taken = Vec::new();
    for op in ops {
        let lane = thread_key(op)?;
        if lanes.insert((&op.channel, lane.clone())) {
            taken.extend(lease_next(tx, (&op.channel, &lane), 1, at, busy)?);
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
    let heads = without_unreadable(tx, channel, at, look)?;
    mark_leased(tx, heads, at, busy)
}

pub(super) fn lease_next(
    tx: &Transaction<'_>,
    lane: (&str, &str),
    limit: u32,
    at: Timestamp,
    busy: &mut InFlightLock<'_>,
) -> Result<Vec<DueOperation>, StoreError> {
    let next = without_unreadable(tx, lane.0, at, || next(tx, lane, limit, at, busy))?;
    mark_leased(tx, next, at, busy)
}

/// Returns what is due next in a chat and thread: an operation that must not show twice alone, any other with what
/// follows.
fn next(
    tx: &Transaction<'_>,
    (channel, lane): (&str, &str),
    limit: u32,
    at: Timestamp,
    busy: &InFlightLock<'_>,
) -> Result<Vec<ThreadHead>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id, op, state, due_at, attempts, created_at, tried_at FROM outbox
         WHERE channel = ?1 AND lane = ?2 AND done_at IS NULL ORDER BY id LIMIT ?3",
    )?;
    let mut rows = statement.query(params![channel, lane, limit])?;
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

/// Returns the heads of lanes that are due, admitted and not being sent.
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
        // Asked first what costs least: a thousand threads may wait for one chat.
        let may_go = is_due(row.get(3)?, row.get(5)?, at) && !is_busy(&row.get::<_, String>(1)?);
        if !may_go || (!admission.admits_chat(&chat(&row.get::<_, String>(7)?)) && is_new_message(tx, row)) {
            continue;
        }
        if let Some(head) = due_head(tx, row, at, &is_busy)?
            && admission.admits(&head.due.op, head.due.ambiguous_since.is_some())
        {
            heads.push(head);
        }
    }
    Ok(heads)
}

/// Returns true if the next call for an operation posts a message in the chat of its lane. Others need not wait for that
/// chat. What cannot be read is none.
fn is_new_message(tx: &Transaction<'_>, row: &Row<'_>) -> bool {
    let look = || -> rusqlite::Result<bool> {
        let (id, state): (i64, String) = (row.get(0)?, row.get(2)?);
        let mut kind =
            tx.prepare_cached("SELECT json_extract(body, '$.action.action') FROM outbox WHERE id = ?1")?;
        let kind: String = kind.query_row([id], |row| row.get(0))?;
        Ok([WAITING, READY].contains(&state.as_str()) && ["post", "upload"].contains(&kind.as_str()))
    };
    look().unwrap_or(false)
}

/// The chat of a lane.
fn chat(lane: &str) -> String {
    let parts: Vec<Option<String>> = serde_json::from_str(lane).unwrap_or_default();
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
    let Some(op) = resolve(tx, parse("operation", &body)?)? else {
        return Ok(None);
    };
    let op = response_url::addressed(tx, op, at)?;
    let may_show_twice = op.action.may_show_twice();
    let (taken, is_unsent) = leased_state(&state)?;
    let tried = row.get::<_, Option<i64>>(6)?.unwrap_or(enqueued);
    let is_doubtful = !is_unsent && may_show_twice;
    Ok(Some(ThreadHead {
        id,
        leased_state: taken,
        is_unmarked: state == WAITING && may_show_twice,
        due: DueOperation {
            op,
            attempts: row.get(4)?,
            enqueued: time(enqueued)?,
            ambiguous_since: is_doubtful.then(|| time(tried)).transpose()?,
            is_forced: state == FORCED,
        },
    }))
}

/// Returns the state of an open operation while it is handed out, and true if it was surely not sent before.
pub(super) fn leased_state(state: &str) -> Result<(&'static str, bool), StoreError> {
    match state {
        WAITING | READY => Ok((SENDING, true)),
        FORCED => Ok((REPEATING, false)),
        // Handed out, and nobody has it: whoever was to send it has ended.
        AMBIGUOUS | SENDING | LOOKING_UP | REPEATING => Ok((LOOKING_UP, false)),
        _ => Err(StoreError::Unreadable {
            what: "operation",
            why: format!("its state is `{state}`"),
        }),
    }
}

/// Returns true if an operation is due: at its time, at once if it was never put off, and if that time is further away than
/// anything is put off.
pub(super) fn is_due(due_at: i64, enqueued: i64, at: Timestamp) -> bool {
    let latest = at.checked_add(POSTPONED_MAX).unwrap_or(at);
    due_at <= millis(at) || due_at == enqueued || due_at > millis(latest)
}

/// Marks operations as being sent: in the database where that must not be forgotten. A file leaves its thread then:
/// what comes after it does not wait until the platform has taken it.
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

/// Turns a fill into the edit of the message its post became; into a post of its own if there never
/// was such a message; into nothing while the post is still on its way.
fn resolve(tx: &Transaction<'_>, op: Op) -> Result<Option<Op>, StoreError> {
    let Action::Fill { post, reply } = op.action else {
        return Ok(Some(op));
    };
    let open = tx
        .prepare_cached("SELECT 1 FROM outbox WHERE op = ?1 AND done_at IS NULL")?
        .exists([&post])?;
    let action = match message_of(tx, &post)? {
        Some(message) => Action::Edit { message, reply },
        None if open => return Ok(None),
        None => Action::Post {
            reply,
            reply_to: None,
            placeholder: false,
        },
    };
    Ok(Some(Op { action, ..op }))
}
