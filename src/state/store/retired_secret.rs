//! Retired secrets of incoming requests, as keyed hashes. A secret stays retired as long as the configuration has it under the
//! same key.

use super::audit::audit_in;
use super::column::{millis, time};
use super::open::{connect_without_trace, database, database_error, read_pepper};
use super::{OpenError, Store, StoreError};
use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::path::Path;

/// The retired secrets of a data directory, as `drydock check` reads them beside a server.
#[derive(Default)]
pub struct RetiredSecrets(Option<(Connection, [u8; 32])>);

impl Store {
    /// Returns the keyed hash by which a retirement of this secret under this key is stored.
    pub fn secret_hash(&self, key: &str, secret: &[u8]) -> [u8; 32] {
        hash(self.pepper(), key, secret)
    }

    /// Retires a secret and records it in the audit log, in one transaction. Calls `retired` with the time after the commit
    /// and before this returns. A repeated call changes nothing and returns the time of the first one.
    pub async fn retire_secret(
        &self,
        (key, hash): (&str, [u8; 32]),
        by: &str,
        at: Timestamp,
        retired: impl FnOnce(Timestamp) + Send + 'static,
    ) -> Result<Timestamp, StoreError> {
        let (key, by) = (key.to_owned(), by.to_owned());
        self.write_then(
            move |tx| {
                let added = tx
                    .prepare_cached(
                        "INSERT INTO retired_secret (hash, key, retired_at) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![hash, key, millis(at)])?;
                if added == 1 {
                    audit_in(tx, "secret.retired", serde_json::json!({ "by": by, "key": key }), at)?;
                }
                retired_at(tx, hash)?
                    .ok_or_else(|| StoreError::NotFound(format!("the retirement of {key}")))
            },
            move |at| retired(*at),
        )
        .await
    }

    /// Returns the time at which the secret of this keyed hash was retired.
    pub async fn secret_retired_at(&self, hash: [u8; 32]) -> Result<Option<Timestamp>, StoreError> {
        self.read(move |tx| retired_at(tx, hash)).await
    }
}

/// Opens the retired secrets of a data directory without a trace. There are none if there is no database yet, or one of an
/// earlier version.
pub fn read_retired_secrets(directory: &Path) -> Result<RetiredSecrets, OpenError> {
    let (Some(connection), Some(pepper)) = (connect_without_trace(directory)?, read_pepper(directory)?)
    else {
        return Ok(RetiredSecrets::default());
    };
    let has_table = "SELECT COUNT(*) > 0 FROM sqlite_schema WHERE name = 'retired_secret'";
    let has_table = connection
        .query_row(has_table, [], |row| row.get(0))
        .map_err(|error| database_error(&database(directory), error))?;
    Ok(RetiredSecrets(match has_table {
        true => Some((connection, pepper)),
        false => None,
    }))
}

impl RetiredSecrets {
    /// Returns the time at which this secret of this key was retired.
    pub fn retired_at(&self, key: &str, secret: &[u8]) -> Result<Option<Timestamp>, StoreError> {
        let Some((connection, pepper)) = &self.0 else {
            return Ok(None);
        };
        retired_at(connection, hash(*pepper, key, secret))
    }
}

fn retired_at(connection: &Connection, hash: [u8; 32]) -> Result<Option<Timestamp>, StoreError> {
    let at: Option<i64> = connection
        .prepare_cached("SELECT retired_at FROM retired_secret WHERE hash = ?1")?
        .query_row([hash], |row| row.get(0))
        .optional()?;
    at.map(time).transpose()
}

fn hash(pepper: [u8; 32], key: &str, secret: &[u8]) -> [u8; 32] {
    Sha256::new()
        .chain_update(pepper)
        .chain_update(b"retired secret\0")
        .chain_update(key.as_bytes())
        .chain_update(b"\0")
        .chain_update(secret)
        .finalize()
        .into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::read_retired_secrets;
    use crate::state::store::fixture::{at, fresh};

    const KEY: &str = "hooks.release.previous_secret";

    /// T22
    #[tokio::test]
    async fn a_retirement_is_of_one_secret_under_one_key_and_is_recorded_once_without_the_secret() {
        let (directory, store) = fresh();
        let old = store.secret_hash(KEY, b"the old secret");
        assert_eq!(store.secret_retired_at(old).await, Ok(None));
        for (second, by) in [(1, "operator"), (2, "another")] {
            let retired = store.retire_secret((KEY, old), by, at(second), move |since| {
                assert_eq!(since, at(1));
            });
            assert_eq!(retired.await, Ok(at(1)));
        }
        assert_eq!(store.secret_retired_at(old).await, Ok(Some(at(1))));
        let read = read_retired_secrets(directory.path()).unwrap();
        for (key, secret, retired) in [
            (KEY, "the old secret", Some(at(1))),
            (KEY, "a newer secret", None),
            ("hooks.other.previous_secret", "the old secret", None),
        ] {
            let hash = store.secret_hash(key, secret.as_bytes());
            assert_eq!(store.secret_retired_at(hash).await, Ok(retired), "{key} {secret}");
            assert_eq!(
                read.retired_at(key, secret.as_bytes()),
                Ok(retired),
                "{key} {secret}"
            );
        }
        let lines = store.audit_lines(10).await.unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].1.contains(KEY)
                && lines[0].1.contains("\"by\":\"operator\"")
                && !lines[0].1.contains("the old"),
            "{lines:?}"
        );
    }

    /// T22
    #[test]
    fn no_secret_is_retired_before_the_first_start() {
        let directory = tempfile::tempdir().unwrap();
        let read = read_retired_secrets(&directory.path().join("none")).unwrap();
        assert_eq!(read.retired_at(KEY, b"the old secret"), Ok(None));
    }
}
