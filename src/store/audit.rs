//! The audit log: one line of canonical JSON per event, each hashed together with the one before, so
//! that a changed, missing or moved line shows.

use super::column::{json, millis};
use super::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{Transaction, params};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What a check of the log found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditState {
    /// Every line is as it was written.
    Intact {
        /// How many lines there are.
        rows: i64,
        /// The hash of the last line, in hex: to note elsewhere.
        head: String,
    },
    /// A line is changed, missing, moved or added.
    Broken {
        /// The first such line.
        row: i64,
    },
}

impl Store {
    /// Adds a line.
    pub async fn audit(&self, event: &str, data: Value, at: Timestamp) -> Result<(), StoreError> {
        let event = event.to_owned();
        self.write(move |tx| audit_in(tx, &event, data, at)).await
    }

    /// Checks every line.
    pub async fn verify_audit(&self) -> Result<AuditState, StoreError> {
        self.read(verify).await
    }

    /// The newest lines with their numbers, oldest first.
    pub async fn audit_lines(&self, limit: u32) -> Result<Vec<(i64, String)>, StoreError> {
        self.read(move |tx| {
            let mut statement = tx.prepare_cached("SELECT id, line FROM audit ORDER BY id DESC LIMIT ?1")?;
            let lines = statement.query_map([limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut lines = lines.collect::<rusqlite::Result<Vec<_>>>()?;
            lines.reverse();
            Ok(lines)
        })
        .await
    }
}

/// Adds a line as part of another write: both happen or neither.
pub(crate) fn audit_in(
    tx: &Transaction<'_>,
    event: &str,
    data: Value,
    at: Timestamp,
) -> Result<(), StoreError> {
    let (rows, hash) = head(tx)?;
    let row = rows + 1;
    // serde_json keeps keys sorted, so this text is canonical.
    let line = json(&serde_json::json!({ "at": millis(at), "data": data, "event": event, "row": row }))?;
    let hash = chain(hash, &line);
    tx.prepare_cached("INSERT INTO audit (id, line, hash) VALUES (?1, ?2, ?3)")?
        .execute(params![row, line, hash])?;
    tx.prepare_cached("UPDATE audit_head SET rows = ?1, hash = ?2 WHERE id = 1")?
        .execute(params![row, hash])?;
    Ok(())
}

fn head(tx: &Transaction<'_>) -> Result<(i64, [u8; 32]), StoreError> {
    let head = tx
        .prepare_cached("SELECT rows, hash FROM audit_head WHERE id = 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(head)
}

fn chain(previous: [u8; 32], line: &str) -> [u8; 32] {
    Sha256::new()
        .chain_update(previous)
        .chain_update(line.as_bytes())
        .finalize()
        .into()
}

fn verify(tx: &Transaction<'_>) -> Result<AuditState, StoreError> {
    let mut statement = tx.prepare_cached("SELECT id, line, hash FROM audit ORDER BY id")?;
    let mut lines = statement.query([])?;
    let mut rows = 0;
    let mut hash = [0; 32];
    while let Some(line) = lines.next()? {
        let expected = rows + 1;
        // A value of the wrong type or length is as broken as a wrong one.
        let text = line.get_ref(1)?.as_str().unwrap_or_default();
        let stored = line.get_ref(2)?.as_blob().unwrap_or_default();
        let next = chain(hash, text);
        if line.get_ref(0)?.as_i64() != Ok(expected) || stored != next {
            return Ok(AuditState::Broken { row: expected });
        }
        (rows, hash) = (expected, next);
    }
    let (head_rows, head_hash) = head(tx)?;
    if head_rows > rows {
        return Ok(AuditState::Broken { row: rows + 1 });
    }
    if head_rows < rows || head_hash != hash {
        return Ok(AuditState::Broken { row: rows });
    }
    let mut head = String::with_capacity(64);
    for byte in hash {
        let _ = write!(head, "{byte:02x}");
    }
    Ok(AuditState::Intact { rows, head })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::AuditState;
    use crate::store::Store;
    use crate::store::fixture::{at, fresh};
    use serde_json::json;

    async fn logged() -> (tempfile::TempDir, Store) {
        let (directory, store) = fresh();
        for number in 0..10 {
            store
                .audit("tested", json!({ "number": number }), at(number))
                .await
                .unwrap();
        }
        (directory, store)
    }

    /// T95
    #[tokio::test]
    async fn tampering_names_the_first_row_that_is_wrong() {
        for (sql, row) in [
            ("UPDATE audit SET line = REPLACE(line, '3', '4') WHERE id = 4", 4),
            ("UPDATE audit SET hash = zeroblob(32) WHERE id = 7", 7),
            ("UPDATE audit SET hash = 'text' WHERE id = 2", 2),
            ("DELETE FROM audit WHERE id = 10", 10),
            ("DELETE FROM audit WHERE id = 1", 1),
            ("DELETE FROM audit", 1),
            (
                "UPDATE audit SET id = 99 WHERE id = 5; UPDATE audit SET id = 5 WHERE id = 6; UPDATE audit SET id = 6 WHERE id = 99",
                5,
            ),
            (
                "INSERT INTO audit (id, line, hash) VALUES (11, '{}', zeroblob(32))",
                11,
            ),
        ] {
            let (_directory, store) = logged().await;
            assert!(matches!(
                store.verify_audit().await,
                Ok(AuditState::Intact { rows: 10, .. })
            ));
            store.write(move |tx| Ok(tx.execute_batch(sql)?)).await.unwrap();
            assert_eq!(
                store.verify_audit().await,
                Ok(AuditState::Broken { row }),
                "{sql}"
            );
        }
    }

    /// T95
    #[tokio::test]
    async fn a_message_cannot_forge_a_line() {
        let (_directory, store) = fresh();
        let text = "x\n{\"event\":\"fake\"}\u{1b}[31m";
        store
            .audit("tested", json!({ "text": text }), at(0))
            .await
            .unwrap();
        let lines = store.audit_lines(10).await.unwrap();
        assert_eq!(lines.len(), 1);
        assert!(!lines[0].1.contains(['\n', '\u{1b}']));
        assert_eq!(
            lines[0].1,
            r#"{"at":1800000000000,"data":{"text":"x\n{\"event\":\"fake\"}\u001b[31m"},"event":"tested","row":1}"#
        );
    }
}
