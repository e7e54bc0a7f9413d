//! The names under which a platform may deliver a message again. A message is accepted once, under any of them.

use super::StoreError;
use super::column::millis;
use jiff::Timestamp;
use rusqlite::{Transaction, params};

/// Records a name of a message, unless it is known.
const RECORD_NAME: &str = "INSERT INTO delivery (name, at) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";

/// True if a message was accepted under one of these names.
pub(super) fn was_delivered(tx: &Transaction<'_>, names: &[String]) -> Result<bool, StoreError> {
    let mut statement = tx.prepare_cached("SELECT 1 FROM delivery WHERE name = ?1")?;
    for name in names {
        if statement.exists([name])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Records all names of a message. Returns false, and records none, if a message was accepted under one of them. The last name
/// is the first to be tried: it is that of the message, and the first may be that of one delivery of it. So nothing is written
/// for most messages that come again.
pub(super) fn record_new(tx: &Transaction<'_>, names: &[String], at: Timestamp) -> Result<bool, StoreError> {
    let mut statement = tx.prepare_cached(RECORD_NAME)?;
    for (index, name) in names.iter().enumerate().rev() {
        let recorded = names.get(index + 1..).unwrap_or_default();
        // A message may have the same name twice.
        if statement.execute(params![name, millis(at)])? == 0 && !recorded.contains(name) {
            forget(tx, recorded)?;
            return Ok(false);
        }
    }
    Ok(true)
}

fn forget(tx: &Transaction<'_>, names: &[String]) -> Result<(), StoreError> {
    let mut statement = tx.prepare_cached("DELETE FROM delivery WHERE name = ?1")?;
    for name in names {
        statement.execute([name])?;
    }
    Ok(())
}

/// Records all names of a message.
pub(super) fn remember_delivery(
    tx: &Transaction<'_>,
    names: &[String],
    at: Timestamp,
) -> Result<(), StoreError> {
    // A message may have the same name twice. Names of other messages were checked before.
    let mut statement = tx.prepare_cached(RECORD_NAME)?;
    for name in names {
        statement.execute(params![name, millis(at)])?;
    }
    Ok(())
}
