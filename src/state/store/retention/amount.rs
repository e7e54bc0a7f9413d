//! The stored amount of each kind of data.

use super::DataKind;
use crate::state::store::column::{count, time};
use crate::state::store::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Transaction};
use serde::{Deserialize, Serialize};

/// The stored amount of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredAmount {
    /// Number of rows.
    pub rows: u64,
    /// Size in the database including indexes, in bytes.
    pub bytes: u64,
    /// The time of the oldest entry, if known.
    pub oldest: Option<Timestamp>,
}

/// The size of the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseSize {
    /// Size of the file, in bytes.
    pub all: u64,
    /// Free bytes in the file. They are reused before the file grows.
    pub free: u64,
}

struct CountQueries {
    /// The query for the number of rows.
    rows: &'static str,
    /// The kind's own tables, or an expression if it shares a table.
    bytes: SizeQuery,
    /// The query for the oldest time.
    oldest: Option<&'static str>,
}

enum SizeQuery {
    Tables(&'static [&'static str]),
    Sum(&'static str),
}

impl Store {
    /// Measures the stored amount of a kind. Reads all of it on a connection that does not block writes.
    pub async fn stored_amount(&self, kind: DataKind) -> Result<StoredAmount, StoreError> {
        let counted = counted(kind);
        let tables = match counted.bytes {
            SizeQuery::Tables(tables) => tables,
            SizeQuery::Sum(_) => &[],
        };
        let mut bytes = 0;
        for table in tables {
            // One read per table, so that none is long.
            bytes += self.read(move |tx| bytes_of(tx, table)).await?;
        }
        self.read(move |tx| {
            if let SizeQuery::Sum(sql) = counted.bytes {
                bytes = number(tx, sql)?;
            }
            let oldest = match counted.oldest {
                Some(sql) => tx
                    .query_row(sql, [], |row| row.get::<_, Option<i64>>(0))
                    .optional()?
                    .flatten(),
                None => None,
            };
            Ok(StoredAmount {
                rows: number(tx, counted.rows)?,
                bytes,
                oldest: oldest.map(time).transpose()?,
            })
        })
        .await
    }

    /// Returns the time of the newest message or audit line.
    pub async fn newest(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(|tx| {
            let newest: Option<i64> = tx.query_row(
                "SELECT MAX(at) FROM (
                    SELECT accepted_at AS at FROM inbox WHERE id = (SELECT MAX(id) FROM inbox) UNION ALL
                    SELECT json_extract(line, '$.at') FROM audit WHERE id = (SELECT MAX(id) FROM audit))",
                [],
                |row| row.get(0),
            )?;
            newest.map(time).transpose()
        })
        .await
    }

    /// Returns the size of the database file.
    pub async fn bytes(&self) -> Result<DatabaseSize, StoreError> {
        self.read(|tx| {
            let pragma_value = |pragma: &str| tx.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
            let page = count(pragma_value("page_size")?);
            Ok(DatabaseSize {
                all: count(pragma_value("page_count")?) * page,
                free: count(pragma_value("freelist_count")?) * page,
            })
        })
        .await
    }

    /// Returns those of the given commits of a repository that no conversation uses.
    pub async fn unused_commits(
        &self,
        repository: &str,
        mut commits: Vec<String>,
    ) -> Result<Vec<String>, StoreError> {
        let mut from = Some(0);
        while let Some(after) = from
            && !commits.is_empty()
        {
            let repository = repository.to_owned();
            (commits, from) = self
                .read(move |tx| {
                    let mut statement = tx.prepare_cached(
                        "SELECT id, repository, base FROM conversation WHERE id > ?1 ORDER BY id LIMIT 1000",
                    )?;
                    let mut rows = statement.query([after])?;
                    let (mut looked_at, mut last) = (0, None);
                    while let Some(row) = rows.next()? {
                        (looked_at, last) = (looked_at + 1, Some(row.get::<_, i64>(0)?));
                        let (of, base): (Option<String>, Option<String>) = (row.get(1)?, row.get(2)?);
                        if of.as_ref() == Some(&repository) {
                            commits.retain(|commit| Some(commit) != base.as_ref());
                        }
                    }
                    Ok((commits, last.filter(|_| looked_at == 1_000)))
                })
                .await?;
        }
        Ok(commits)
    }
}

fn number(tx: &Transaction<'_>, sql: &str) -> Result<u64, StoreError> {
    Ok(count(tx.query_row(sql, [], |row| row.get(0))?))
}

/// Returns the size of a table and its indexes.
fn bytes_of(tx: &Transaction<'_>, table: &str) -> Result<u64, StoreError> {
    let mut statement =
        tx.prepare_cached("SELECT name FROM sqlite_schema WHERE tbl_name = ?1 AND rootpage > 0")?;
    let trees = statement
        .query_map([table], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<String>>>()?;
    let mut statement = tx
        .prepare_cached("SELECT COALESCE(SUM(pgsize), 0) FROM dbstat WHERE name = ?1 AND aggregate = TRUE")?;
    let mut bytes = 0;
    for tree in trees {
        bytes += count(statement.query_row([tree], |row| row.get(0))?);
    }
    Ok(bytes)
}

fn counted(kind: DataKind) -> CountQueries {
    let (rows, bytes, oldest) = match kind {
        DataKind::Deliveries => (
            "SELECT COUNT(*) FROM delivery",
            SizeQuery::Tables(&["delivery"]),
            Some("SELECT MIN(at) FROM delivery"),
        ),
        DataKind::Operations => (
            "SELECT COUNT(*) FROM outbox",
            SizeQuery::Tables(&["outbox"]),
            Some("SELECT created_at FROM outbox ORDER BY id LIMIT 1"),
        ),
        DataKind::DeadLetters => (
            "SELECT COUNT(*) FROM outbox WHERE done_at IS NOT NULL AND state <> 'delivered'",
            SizeQuery::Sum(
                "SELECT COALESCE(SUM(octet_length(body)), 0) FROM outbox
                 WHERE done_at IS NOT NULL AND state <> 'delivered'",
            ),
            Some("SELECT MIN(done_at) FROM outbox WHERE done_at IS NOT NULL AND state <> 'delivered'"),
        ),
        DataKind::Buttons => (
            "SELECT COUNT(*) FROM action",
            SizeQuery::Tables(&["action"]),
            None,
        ),
        DataKind::Invites => (
            "SELECT COUNT(*) FROM invite",
            SizeQuery::Tables(&["invite"]),
            Some("SELECT MIN(created_at) FROM invite"),
        ),
        DataKind::Logins => (
            "SELECT COUNT(*) FROM login",
            SizeQuery::Tables(&["login"]),
            Some("SELECT created_at FROM login ORDER BY id LIMIT 1"),
        ),
        DataKind::Messages => (
            "SELECT COUNT(*) FROM inbox",
            SizeQuery::Tables(&["inbox", "turn", "step", "output"]),
            Some("SELECT accepted_at FROM inbox ORDER BY id LIMIT 1"),
        ),
        DataKind::PersonMessages => (
            "SELECT COUNT(*) FROM person_message",
            SizeQuery::Tables(&["person_message", "message_consent"]),
            Some("SELECT at FROM person_message ORDER BY id LIMIT 1"),
        ),
        DataKind::Runs => (
            "SELECT COUNT(*) FROM run",
            SizeQuery::Tables(&["run", "run_step", "run_question", "run_question_button"]),
            Some("SELECT created_at FROM run ORDER BY id LIMIT 1"),
        ),
        DataKind::Usage => (
            "SELECT COUNT(*) FROM usage",
            SizeQuery::Tables(&["usage"]),
            Some("SELECT at FROM usage ORDER BY id LIMIT 1"),
        ),
        DataKind::Reservations => (
            "SELECT COUNT(*) FROM reservation",
            SizeQuery::Tables(&["reservation"]),
            Some("SELECT MIN(at) FROM reservation"),
        ),
        DataKind::BudgetRequests => (
            "SELECT COUNT(*) FROM budget_request",
            SizeQuery::Tables(&["budget_request"]),
            Some("SELECT MIN(asked_at) FROM budget_request"),
        ),
        DataKind::Allowances => (
            "SELECT COUNT(*) FROM allowance",
            SizeQuery::Tables(&["allowance"]),
            Some("SELECT at FROM allowance ORDER BY id LIMIT 1"),
        ),
        DataKind::Edits => (
            "SELECT COUNT(*) FROM conversation WHERE edits <> '{}' OR change_number IS NOT NULL",
            SizeQuery::Sum(
                "SELECT COALESCE(SUM(octet_length(edits)), 0) FROM conversation WHERE edits <> '{}'",
            ),
            Some(
                "SELECT MIN(COALESCE(spoken_at, created_at)) FROM conversation
                 WHERE edits <> '{}' OR change_number IS NOT NULL",
            ),
        ),
        DataKind::Changes => (
            "SELECT COUNT(*) FROM change",
            SizeQuery::Tables(&["change"]),
            Some("SELECT created_at FROM change ORDER BY id LIMIT 1"),
        ),
        DataKind::Conversations => (
            "SELECT COUNT(*) FROM conversation",
            SizeQuery::Tables(&["conversation"]),
            Some("SELECT created_at FROM conversation ORDER BY id LIMIT 1"),
        ),
        DataKind::Contents => ("SELECT COUNT(*) FROM blob", SizeQuery::Tables(&["blob"]), None),
        DataKind::Audit => (
            "SELECT COUNT(*) FROM audit",
            SizeQuery::Tables(&["audit"]),
            Some("SELECT json_extract(line, '$.at') FROM audit ORDER BY id LIMIT 1"),
        ),
    };
    CountQueries { rows, bytes, oldest }
}
