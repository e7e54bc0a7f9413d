//! Which operations are due, and what it means to take one: nobody else is handed it, and what must not show
//! twice is marked before it is sent.

use super::{DOUBTFUL, Due, WAITING, is_open, lane, message_of};
use crate::model::{Action, Op};
use crate::store::StoreError;
use crate::store::column::{millis, parse, time};
use jiff::Timestamp;
use rusqlite::{Row, Transaction, params};
use std::collections::{BTreeSet, HashSet};
use std::sync::MutexGuard;

/// The heads of all lanes of a channel: the oldest open operation of each.
pub(super) const HEADS: &str = "SELECT id, op, state, due_at, attempts, body, created_at FROM outbox
    WHERE id IN (SELECT MIN(id) FROM outbox WHERE channel = ?1 AND done_at IS NULL GROUP BY lane) ORDER BY id";

/// What is being sent, while a write takes more of it.
pub(in crate::store) struct Busy<'a> {
    pub(super) in_flight: MutexGuard<'a, HashSet<String>>,
    pub(super) taken: MutexGuard<'a, Taken>,
}

/// What a write took.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) ops: Vec<String>,
    /// Whether it has to be durable that some of it is being sent, before it is.
    pub(super) is_marked: bool,
}

/// An open operation that is due.
pub(super) struct Head {
    id: i64,
    pub(super) due: Due,
    /// Whether it may show twice, and it is not durable yet that it may have been sent.
    is_unmarked: bool,
}

/// Takes those of these enqueued operations that are due at once: what is alone in its chat and thread.
pub(in crate::store) fn take_enqueued(
    tx: &Transaction<'_>,
    ops: &[Op],
    at: Timestamp,
    busy: &mut Busy<'_>,
) -> Result<Vec<Due>, StoreError> {
    let mut lanes = BTreeSet::new();
    let mut taken = Vec::new();
    for op in ops {
        let lane = lane(op)?;
        if lanes.insert((&op.channel, lane.clone())) {
            taken.extend(take_next(tx, (&op.channel, &lane), 1, at, busy)?);
        }
    }
    Ok(taken)
}

pub(super) fn take_due(
    tx: &Transaction<'_>,
    channel: &str,
    at: Timestamp,
    limit: usize,
    busy: &mut Busy<'_>,
) -> Result<Vec<Due>, StoreError> {
    let heads = heads_due(tx, channel, at, limit, |op| busy.in_flight.contains(op))?;
    take(tx, heads, busy)
}

pub(super) fn take_next(
    tx: &Transaction<'_>,
    lane: (&str, &str),
    limit: u32,
    at: Timestamp,
    busy: &mut Busy<'_>,
) -> Result<Vec<Due>, StoreError> {
    let next = next(tx, lane, limit, at, busy)?;
    take(tx, next, busy)
}

/// What is due next in a chat and thread: what must not show twice alone, other things with what follows.
fn next(
    tx: &Transaction<'_>,
    (channel, lane): (&str, &str),
    limit: u32,
    at: Timestamp,
    busy: &Busy<'_>,
) -> Result<Vec<Head>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id, op, state, due_at, attempts, body, created_at FROM outbox
         WHERE channel = ?1 AND lane = ?2 AND done_at IS NULL ORDER BY id LIMIT ?3",
    )?;
    let mut rows = statement.query(params![channel, lane, limit])?;
    let mut next: Vec<Head> = Vec::new();
    while let Some(row) = rows.next()?
        && let Some(head) = if_due(tx, row, at, |op| busy.in_flight.contains(op))?
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

/// What is due and not being sent.
pub(super) fn heads_due(
    tx: &Transaction<'_>,
    channel: &str,
    at: Timestamp,
    limit: usize,
    is_busy: impl Fn(&str) -> bool,
) -> Result<Vec<Head>, StoreError> {
    let mut statement = tx.prepare_cached(HEADS)?;
    let mut rows = statement.query([channel])?;
    let mut due = Vec::new();
    while due.len() < limit
        && let Some(row) = rows.next()?
    {
        due.extend(if_due(tx, row, at, &is_busy)?);
    }
    Ok(due)
}

fn if_due(
    tx: &Transaction<'_>,
    row: &Row<'_>,
    at: Timestamp,
    is_busy: impl Fn(&str) -> bool,
) -> Result<Option<Head>, StoreError> {
    let (id, op): (i64, String) = (row.get(0)?, row.get(1)?);
    let (state, due_at): (String, i64) = (row.get(2)?, row.get(3)?);
    if !is_open(&state) || due_at > millis(at) || is_busy(&op) {
        return Ok(None);
    }
    let attempts = row.get(4)?;
    let Some(op) = resolve(tx, parse("operation", &row.get::<_, String>(5)?)?)? else {
        return Ok(None);
    };
    let may_show_twice = op.action.may_show_twice();
    let is_doubtful = state == DOUBTFUL && may_show_twice;
    Ok(Some(Head {
        id,
        is_unmarked: state == WAITING && may_show_twice,
        due: Due {
            op,
            attempts,
            doubtful_since: is_doubtful.then(|| time(row.get(6)?)).transpose()?,
        },
    }))
}

/// Marks operations as being sent: in the database where that must not be forgotten.
fn take(tx: &Transaction<'_>, heads: Vec<Head>, busy: &mut Busy<'_>) -> Result<Vec<Due>, StoreError> {
    let mut due = Vec::with_capacity(heads.len());
    for head in heads {
        let op = &head.due.op.id;
        busy.in_flight.insert(op.clone());
        busy.taken.ops.push(op.clone());
        busy.taken.is_marked |= head.is_unmarked;
        // What is doubtful stays so until somebody has looked.
        if head.due.op.action.may_show_twice() && head.due.doubtful_since.is_none() {
            tx.prepare_cached("UPDATE outbox SET state = 'sending' WHERE id = ?1")?
                .execute([head.id])?;
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
