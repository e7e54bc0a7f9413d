//! Retention of stored rows. Rows older than the retention time of their kind are removed in small slices. A reading
//! connection finds a slice. One short transaction then checks every row again and removes it. The retention times are
//! decided elsewhere.

mod blobs;
mod kinds;
mod amount;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests;

pub use amount::{DatabaseSize, StoredAmount};

use super::column::millis;
use super::{Store, StoreError, audit, edits, shown_result, thread};
use crate::base::model::ConversationId;
use crate::crash_point;
use jiff::{SignedDuration, Timestamp};
use kinds::{RemovalMethod, Rows, removal_method};
use rusqlite::types::Value;
use rusqlite::{Transaction, params};
use serde::{Deserialize, Serialize};

/// Maximum number of small rows that one transaction removes. Large rows count as several.
const WEIGHT_MAX: i64 = 400;
/// Number of bytes in a row that count as one more row.
const WEIGHT_BYTES: i64 = 4_096;
/// Maximum number of audit rows that one transaction cuts.
const AUDIT_ROWS_MAX: i64 = 400;
/// The time by which the first line must exceed its retention time before the log is cut. This keeps the lines about cuts
/// few.
const AUDIT_CUT_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// A kind of rows with its own retention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataKind {
    /// Names under which a message may arrive again.
    Deliveries,
    /// Delivered operations.
    Operations,
    /// Operations that were given up or have an unknown outcome.
    DeadLetters,
    /// Expired buttons.
    Buttons,
    /// Expired invites.
    Invites,
    /// Expired logins of people's machines and their codes.
    Logins,
    /// Answered messages with their turns, steps, questions and outputs.
    Messages,
    /// Messages from one person to another.
    PersonMessages,
    /// Runs of pipelines that have ended, with their steps.
    Runs,
    /// The costs of model calls.
    Usage,
    /// Reserved model calls with an unknown cost.
    Reservations,
    /// Requests for more of a budget.
    BudgetRequests,
    /// Amounts that administrators allowed in addition to a budget.
    Allowances,
    /// Open changes and edits of inactive conversations.
    Edits,
    /// Changes that are not open.
    Changes,
    /// Conversations without remaining data.
    Conversations,
    /// Contents of files and patches without references.
    Contents,
    /// Lines of the audit log.
    Audit,
}

impl DataKind {
    /// All kinds, in an order in which each releases data of later ones.
    pub const ALL: [Self; 18] = [
        Self::Deliveries,
        Self::Operations,
        Self::DeadLetters,
        Self::Buttons,
        Self::Invites,
        Self::Logins,
        Self::Messages,
        Self::PersonMessages,
        Self::Runs,
        Self::Usage,
        Self::Reservations,
        Self::BudgetRequests,
        Self::Allowances,
        Self::Edits,
        Self::Changes,
        Self::Conversations,
        Self::Contents,
        Self::Audit,
    ];

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deliveries => "deliveries",
            Self::Operations => "operations",
            Self::DeadLetters => "dead letters",
            Self::Buttons => "buttons",
            Self::Invites => "invites",
            Self::Logins => "logins",
            Self::Messages => "messages",
            Self::PersonMessages => "messages between people",
            Self::Runs => "runs",
            Self::Usage => "usage",
            Self::Reservations => "reservations",
            Self::BudgetRequests => "budget requests",
            Self::Allowances => "allowances",
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
    /// The rows are only counted.
    DryRun,
    /// The rows are removed.
    Remove,
}

/// A position in the rows of a kind, at which the next slice begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrunePosition(Option<Value>);

/// The result of pruning one slice.
#[derive(Clone, Debug, PartialEq)]
pub struct PruneSlice {
    /// Number of rows that were removed, or would be.
    pub rows: u64,
    /// The start of the next slice; `None` after the last one.
    pub next: Option<PrunePosition>,
}

/// The rows that a read found, and where the next read begins.
struct FoundRows {
    keys: Vec<Value>,
    next: Option<Value>,
}

impl Store {
    /// Prunes some rows of a kind from before `before`. Of contents, those without references are removed, whatever
    /// their age.
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
                let removed = self
                    .write_unsynced(move |tx| remove(tx, &rows, before, &keys, at))
                    .await?;
                // What was removed is not kept in memory either.
                self.inner.histories.clear();
                removed
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

/// Reads from a position until there is enough for one transaction.
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

/// Removes those of the rows that may still be removed, and returns their number.
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
            (DataKind::Runs, _) => {
                for table in ["run_question_button", "run_question", "run_step"] {
                    tx.prepare_cached(&format!("DELETE FROM {table} WHERE run = ?1"))?
                        .execute([key])?;
                }
                tx.prepare_cached(&rows.delete())?.execute([key])?;
            }
            (DataKind::Edits, Value::Integer(conversation)) => close_silent_edits(tx, *conversation, at)?,
            (DataKind::Conversations, Value::Integer(conversation)) => {
                thread::forget(tx, ConversationId(*conversation))?;
                tx.prepare_cached(&rows.delete())?.execute([key])?;
            }
            _ => {
                tx.prepare_cached(&rows.delete())?.execute([key])?;
            }
        }
    }
    Ok(removed)
}

/// Removes a message with its complete turns, so that there is never a turn without its steps, questions and outputs. A
/// summary is removed with the newest turn that it stands for.
fn remove_message(tx: &Transaction<'_>, inbox: &Value) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM summary WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)",
        "DELETE FROM output WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)",
        "DELETE FROM question WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)",
        "DELETE FROM step WHERE turn IN (SELECT id FROM turn WHERE inbox = ?1)",
        "DELETE FROM turn WHERE inbox = ?1",
        "DELETE FROM held_message WHERE inbox = ?1",
        "DELETE FROM inbox WHERE id = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([inbox])?;
    }
    Ok(())
}

/// Removes the edits of an inactive conversation and closes its change, as a discard would.
fn close_silent_edits(tx: &Transaction<'_>, conversation: i64, at: Timestamp) -> Result<(), StoreError> {
    let change: Option<i64> = tx
        .prepare_cached("SELECT change_number FROM conversation WHERE id = ?1")?
        .query_row([conversation], |row| row.get(0))?;
    let id = ConversationId(conversation);
    shown_result::close(tx, id, at)?;
    edits::forget(tx, id)?;
    let data = serde_json::json!({
        "change": change.map(|number| format!("CHG-{number}")),
        "conversation": conversation,
    });
    audit::audit_in(tx, "change.expired", data, at)
}

/// Returns the number of audit lines to cut next, and the last of them; `None` while too few are too old.
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
        // A line from the future, due to a wrong clock, is removed with its neighbours.
        if (millis(limit)..=millis(at)).contains(&written) {
            break;
        }
        (rows, last) = (rows + 1, line.get(0)?);
    }
    Ok((rows > 0).then_some((rows, last)))
}
