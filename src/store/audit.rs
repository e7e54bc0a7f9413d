//! The audit log: one line of canonical JSON per event, each hashed together with the one before, so
//! that a changed, missing or moved line shows.

use super::Store;
use super::StoreError;
use super::column::json;
use super::column::millis;
use jiff::Timestamp;
use rusqlite::Transaction;
use rusqlite::params;
use serde_json::Value;
use sha2::Digest;
use sha2::Sha256;
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
            let mut statement =
                tx.prepare_cached("SELECT id, line FROM audit ORDER BY id DESC LIMIT ?1")?;
            let lines = statement.query_map([limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut lines = lines.collect::<rusqlite::Result<Vec<_>>>()?;
            lines.reverse();
            Ok(lines)
        })
        .await
    }
}

/// Adds a line as part of another write: both happen or neither.
pub(crate) fn audit_in(tx: &Transaction<'_>, event: &str, data: Value, at: Timestamp) -> Result<(), StoreError> {
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
