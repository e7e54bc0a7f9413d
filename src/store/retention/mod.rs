//! The end of what is stored: rows that are older than their kind is kept are removed in small slices.
//! A slice is found by a connection that reads, and removed by one short transaction that asks again for
//! every row whether it may go. Nothing here decides how long anything is kept.

mod blobs;
mod kinds;
mod amount;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use amount::{DatabaseSize, StoredAmount};

use super::column::millis;
use super::{Store, StoreError, audit, edits};
use crate::crash_point;
use jiff::{SignedDuration, Timestamp};
use kinds::{RemovalMethod, Rows, removal_method};
use rusqlite::types::Value;
use rusqlite::{Transaction, params};
use serde::{Deserialize, Serialize};

/// Rows that one transaction removes, where they are small; large ones count as several.
const WEIGHT_MAX: i64 = 400;
/// Bytes of a row that count as one more.
const WEIGHT_BYTES: i64 = 4_096;
/// Rows of the audit log that one transaction cuts.
const AUDIT_ROWS_MAX: i64 = 400;
/// The log is cut once its first line is this much older than it is kept, so that the lines about cuts stay few.
const AUDIT_CUT_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// A kind of rows that ends in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// Names a message may arrive under again.
    Deliveries,
    /// Operations that were delivered.
    Operations,
    /// Operations that were given up, or of which nobody knows whether they arrived.
    DeadLetters,
    /// Buttons that expired.
    Buttons,
    /// Invites that expired.
    Invites,
    /// Answered messages with their turns and steps.
    Messages,
    /// The costs of model calls.
    Usage,
    /// Open changes and edits of conversations that are silent.
    Edits,
    /// Changes that are not open.
    Changes,
    /// Conversations that nothing is left of.
    Conversations,
    /// Contents of files and patches that nothing names.
    Contents,
    /// Lines of the audit log.
    Audit,
}

impl DataKind {
    /// All kinds, in an order in which each frees what comes after it.
    pub const ALL: [Self; 12] = [
        Self::Deliveries,
        Self::Operations,
        Self::DeadLetters,
        Self::Buttons,
        Self::Invites,
        Self::Messages,
        Self::Usage,
        Self::Edits,
        Self::Changes,
        Self::Conversations,
        Self::Contents,
        Self::Audit,
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Operations => "operations",
            Self::DeadLetters => "dead letters",
            Self::Buttons => "buttons",
            Self::Invites => "invites",
            Self::Messages => "messages",
            Self::Usage => "usage",
            Self::Edits => "edits",
            Self::Changes => "changes",
            Self::Conversations => "conversations",
            Self::Contents => "contents",
            Self::Audit => "audit",
        }
    }
}

/// The treatment of rows that are too old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prune {
    /// The rows are counted and stay.
    DryRun,
    /// The rows are removed.
    Remove,
}

/// A place in the rows of a kind, where the next slice begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrunePosition(Option<Value>);

/// The result of pruning one slice.
#[derive(Clone, Debug, PartialEq)]
pub struct PruneSlice {
    /// Rows that went, or would go.
    pub rows: u64,
    /// The beginning of the next slice; `None` when this was the last.
    pub next: Option<PrunePosition>,
}

/// Rows that a read found, and where the next read begins.
struct FoundRows {
    keys: Vec<Value>,
    next: Option<Value>,
}

impl Store {
    /// Looks at some rows of a kind and removes those from before `before`. Of contents, those that nothing names
    /// go, however old they are.
    pub async fn prune_slice(
        &self,
        kind: DataKind,
        before: Timestamp,
        from: &PrunePosition,
        prune: Prune,
        at: Timestamp,
    ) -> Result<PruneSlice, StoreError> {
        crash_point::before("B24");
        let slice = match removal_method(kind) {
            RemovalMethod::Rows(rows) => self.prune_rows(rows, before, from, prune, at).await,
            RemovalMethod::Contents => self.prune_contents(from, prune).await,
            RemovalMethod::Audit => self.prune_audit(before, from, prune, at).await,
        };
        crash_point::after("B24");
        slice
    }

    async fn prune_rows(
        &self,
        rows: Rows,
        before: Timestamp,
        from: &PrunePosition,
        prune: Prune,
        at: Timestamp,
    ) -> Result<PruneSlice, StoreError> {
        let from = from.0.clone().unwrap_or_else(|| rows.start());
        let found = self.read(move |tx| find(tx, &rows, before, from, at)).await?;
        let count = match (prune, found.keys.is_empty()) {
            (Prune::Remove, false) => {
                let keys = found.keys;
                self.write_unsynced(move |tx| remove(tx, &rows, before, &keys, at))
                    .await?
            }
            (Prune::DryRun, _) | (_, true) => found.keys.len(),
        };
        Ok(PruneSlice {
            rows: count.try_into().unwrap_or(u64::MAX),
            next: found.next.map(|key| PrunePosition(Some(key))),
        })
    }

    async fn prune_audit(
        &self,
        before: Timestamp,
        from: &PrunePosition,
        prune: Prune,
        at: Timestamp,
    ) -> Result<PruneSlice, StoreError> {
        let from = match from.0 {
            Some(Value::Integer(row)) => row,
            _ => 0,
        };
        let first = before.checked_sub(AUDIT_CUT_AFTER).unwrap_or(before);
        let old = self
            .read(move |tx| old_lines(tx, from, (before, first), at))
            .await?;
        let Some((rows, last)) = old else {
            return Ok(PruneSlice { rows: 0, next: None });
        };
        if prune == Prune::Remove {
            self.write_unsynced(move |tx| audit::cut(tx, last, at)).await?;
        }
        Ok(PruneSlice {
            rows: rows.try_into().unwrap_or(0),
            next: Some(PrunePosition(Some(Value::Integer(last)))),
        })
    }
}

/// Reads on from a place until there is enough for one transaction.
fn find(
    tx: &Transaction<'_>,
    rows: &Rows,
    before: Timestamp,
    from: Value,
    at: Timestamp,
) -> Result<FoundRows, StoreError> {
    let mut statement = tx.prepare_cached(&rows.select())?;
    let mut found = statement.query(params![from, millis(before), millis(at), rows.looked_at_max])?;
    let mut keys = Vec::new();
    let (mut looked_at, mut weight) = (0, 0);
    let mut last = None;
    while let Some(row) = found.next()? {
        let (key, is_younger, may_go): (Value, bool, bool) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if is_younger {
            return Ok(FoundRows { keys, next: None });
        }
        looked_at += 1;
        last = Some(key.clone());
        if may_go {
            weight += row.get::<_, i64>(3)?;
            keys.push(key);
        }
        if weight >= WEIGHT_MAX {
            return Ok(FoundRows { keys, next: last });
        }
    }
    let next = last.filter(|_| looked_at == rows.looked_at_max);
    Ok(FoundRows { keys, next })
}

/// Removes those of these rows that may still go; says how many.
fn remove(
    tx: &Transaction<'_>,
    rows: &Rows,
    before: Timestamp,
    keys: &[Value],
    at: Timestamp,
) -> Result<usize, StoreError> {
    let mut removed = 0;
    for key in keys {
        let may_go = tx
            .prepare_cached(&rows.ask())?
            .exists(params![key, millis(before)])?;
        if !may_go {
            continue;
        }
        removed += 1;
        match (rows.kind, key) {
            (DataKind::Messages, _) => remove_message(tx, key)?,
            (DataKind::Edits, Value::Integer(conversation)) => close_silent_edits(tx, *conversation, at)?,
            _ => {
                tx.prepare_cached(&rows.delete())?.execute([key])?;
            }
        }
    }
    Ok(removed)
}

/// Removes a message with its turns whole: there is never a turn without its steps.
fn remove_message(tx: &Transaction<'_>, inbox: &Value) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM step WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)",
        "DELETE FROM turn WHERE inbox = ?1",
        "DELETE FROM inbox WHERE id = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([inbox])?;
    }
    Ok(())
}

/// Empties the edits of a silent conversation and closes its change, as its person could.
fn close_silent_edits(tx: &Transaction<'_>, conversation: i64, at: Timestamp) -> Result<(), StoreError> {
    let change: Option<i64> = tx
        .prepare_cached("SELECT change_number FROM conversation WHERE id = ?1")?
        .query_row([conversation], |row| row.get(0))?;
    edits::forget(tx, crate::model::ConversationId(conversation))?;
    let data = serde_json::json!({
        "change": change.map(|number| format!("CHG-{number}")),
        "conversation": conversation,
    });
    audit::audit_in(tx, "change.expired", data, at)
}

/// Returns the number of lines of the log that go next, and the last of them; `None` while too few are too old.
fn old_lines(
    tx: &Transaction<'_>,
    from: i64,
    (before, first): (Timestamp, Timestamp),
    at: Timestamp,
) -> Result<Option<(usize, i64)>, StoreError> {
    let mut statement = tx.prepare_cached(
        "SELECT id, json_extract(line, '$.at') FROM audit WHERE id > ?1 ORDER BY id LIMIT ?2",
    )?;
    let mut lines = statement.query(params![from, AUDIT_ROWS_MAX])?;
    let (mut rows, mut last) = (0, 0);
    while let Some(line) = lines.next()? {
        let written: i64 = line.get(1)?;
        let limit = if rows == 0 && from == 0 { first } else { before };
        // One from the future, when the clock was wrong, goes with those around it.
        if (millis(limit)..=millis(at)).contains(&written) {
            break;
        }
        (rows, last) = (rows + 1, line.get(0)?);
    }
    Ok((rows > 0).then_some((rows, last)))
}
