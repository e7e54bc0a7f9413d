//! The audit log: one line of canonical JSON per event. Each line is hashed together with the previous hash, so a
//! changed, missing or moved line is detected.

mod list;

pub use list::{AUDIT_KINDS, AuditLine, AuditPage, AuditPerson, AuditSearch};

use super::column::{json, millis, parse, time};
use super::{Store, StoreError};
use jiff::Timestamp;
use rusqlite::{Transaction, params};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The event of the line that records a cut of the log.
const CUT: &str = "audit.cut";

/// The result of a check of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditState {
    /// All lines are unchanged.
    Intact {
        /// Total number of lines that were written.
        rows: i64,
        /// Number of lines that were cut from the start because their retention time had passed.
        cut: i64,
        /// The time of the first remaining line, if lines were cut.
        since: Option<Timestamp>,
        /// The hash of the last line, in hex. Operators can note it elsewhere.
        head: String,
    },
    /// A line is changed, missing, moved or added.
    Broken {
        /// The first such line.
        row: i64,
    },
}

impl Store {
    /// Appends a line.
    pub async fn audit(&self, event: &str, data: Value, at: Timestamp) -> Result<(), StoreError> {
        let event = event.to_owned();
        self.write(move |tx| audit_in(tx, &event, data, at)).await
    }

    /// Verifies every line.
    pub async fn verify_audit(&self) -> Result<AuditState, StoreError> {
        self.read(verify).await
    }

    /// Returns the newest lines with their numbers, oldest first.
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

/// Appends a line in the transaction of another write, so both are stored or neither.
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

/// Cuts the log from its start up to a row. The rest is still a chain, which begins with the hash of that row. The cut
/// itself is recorded as a line.
pub(super) fn cut(tx: &Transaction<'_>, last: i64, at: Timestamp) -> Result<(), StoreError> {
    if last <= start(tx)?.0 {
        return Ok(());
    }
    let hash: [u8; 32] = tx
        .prepare_cached("SELECT hash FROM audit WHERE id = ?1")?
        .query_row([last], |row| row.get(0))?;
    tx.prepare_cached("DELETE FROM audit WHERE id <= ?1")?
        .execute([last])?;
    tx.prepare_cached("UPDATE audit_start SET rows = ?1, hash = ?2 WHERE id = 1")?
        .execute(params![last, hash])?;
    audit_in(tx, CUT, cut_record(last, hash), at)
}

fn cut_record(rows: i64, hash: [u8; 32]) -> Value {
    serde_json::json!({ "hash": hex::encode(hash), "rows": rows })
}

/// Returns the start of the log: the number of rows that were cut, and the hash of the last of them.
fn start(tx: &Transaction<'_>) -> Result<(i64, [u8; 32]), StoreError> {
    let start = tx
        .prepare_cached("SELECT rows, hash FROM audit_start WHERE id = 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(start)
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
    let (cut, first_hash) = start(tx)?;
    let (mut rows, mut hash) = (cut, first_hash);
    let mut since = None;
    let mut last_cut = Value::Null;
    while let Some(line) = lines.next()? {
        let expected = rows + 1;
        // A value of the wrong type or length also breaks the chain.
        let text = line.get_ref(1)?.as_str().unwrap_or_default();
        let stored = line.get_ref(2)?.as_blob().unwrap_or_default();
        let next = chain(hash, text);
        if line.get_ref(0)?.as_i64() != Ok(expected) || stored != next {
            return Ok(AuditState::Broken { row: expected });
        }
        if cut > 0 && rows == cut {
            since = parse::<Value>("audit line", text)?
                .get("at")
                .and_then(Value::as_i64);
        }
        if cut > 0 && text.contains(CUT) {
            let line: Value = parse("audit line", text)?;
            if line.get("event").is_some_and(|event| event == CUT) {
                last_cut = line.get("data").cloned().unwrap_or_default();
            }
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
    // If the first rows were removed by hand, the log has no line about the cut.
    if cut > 0 && last_cut != cut_record(cut, first_hash) {
        return Ok(AuditState::Broken { row: cut });
    }
    Ok(AuditState::Intact {
        rows,
        cut,
        since: since.map(time).transpose()?,
        head: hex::encode(hash),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::AuditState;
    use crate::state::store::Store;
    use crate::state::store::fixture::{at, fresh};
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

    /// T95, I11
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

    async fn cut(store: &Store, last: i64) {
        store.write(move |tx| super::cut(tx, last, at(50))).await.unwrap();
    }

    /// R29
    #[tokio::test]
    async fn a_log_that_was_cut_is_whole_from_there_on_and_says_so() {
        let (_directory, store) = logged().await;
        let head_before = store.write(super::head).await.unwrap();
        cut(&store, 4).await;
        // A repeated cut changes nothing.
        cut(&store, 4).await;
        let AuditState::Intact {
            rows,
            cut: gone,
            since,
            ..
        } = store.verify_audit().await.unwrap()
        else {
            panic!("broken");
        };
        assert_eq!((rows, gone, since), (11, 4, Some(at(4))));
        let lines = store.audit_lines(100).await.unwrap();
        let numbers: Vec<i64> = lines.iter().map(|(row, _)| *row).collect();
        assert_eq!(numbers, (5..=11).collect::<Vec<_>>());
        // The earlier head is still the hash of its row.
        let hash: [u8; 32] = store
            .read(|tx| Ok(tx.query_row("SELECT hash FROM audit WHERE id = 10", [], |row| row.get(0))?))
            .await
            .unwrap();
        assert_eq!(head_before, (10, hash));
        // Only the line about the cut is left, and later lines follow.
        cut(&store, 11).await;
        store.audit("tested", json!({}), at(60)).await.unwrap();
        let state = store.verify_audit().await.unwrap();
        assert!(
            matches!(
                state,
                AuditState::Intact {
                    rows: 13,
                    cut: 11,
                    ..
                }
            ),
            "{state:?}"
        );
    }

    /// R29, T95
    #[tokio::test]
    async fn rows_that_were_cut_by_hand_are_missed() {
        for (sql, row) in [
            // Rows and start were changed as by a cut, but without a line about it.
            (
                "UPDATE audit_start SET rows = 6, hash = (SELECT hash FROM audit WHERE id = 6); DELETE FROM audit WHERE id <= 6",
                6,
            ),
            ("UPDATE audit_start SET rows = 0, hash = zeroblob(32)", 1),
            ("UPDATE audit_start SET hash = zeroblob(32)", 5),
            ("DELETE FROM audit WHERE id = 5", 5),
            ("DELETE FROM audit WHERE id >= 11", 11),
            (
                "UPDATE audit SET line = REPLACE(line, 'audit.cut', 'audit.cot') WHERE id = 11",
                11,
            ),
        ] {
            let (_directory, store) = logged().await;
            cut(&store, 4).await;
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
